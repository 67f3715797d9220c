"""The tables of a page, all of one report."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fairspan.auditing.results import Finding, GroupResult, ModelResult, format_group, relative_loss
from fairspan.auditing.row_findings import missing_values_table
from fairspan.formatting.table import (
    Cell,
    Column,
    Table,
    estimate_column,
    name_column,
    number_column,
    row_count_column,
    share_column,
)
from fairspan.formatting.text import (
    common_decimals,
    describe_tied,
    display_name,
    format_change,
    format_count,
    format_integer,
    format_loading,
    format_number,
    format_parameters,
    format_relative,
    format_share,
    number_with_interval,
    readable_name,
)
from fairspan.problem.problem import reported_parameters
from fairspan.report.report import Report, UserModels

# What a fit brings together to its tolerance shares a figure; no table shows so many digits.
TIE_TOL = 1e-6
# As a share of the total variance: less than fits resolve.
_ZERO_TOL = 1e-9
# Decimals of loadings.
LOADING_DECIMALS = 2
_INCONCLUSIVE = "inconclusive"


def most_affected_group(model: ModelResult) -> int | None:
    """Position of the group that loses most of its variance of those harmed, as in the verdict.

    Where none is harmed, of all that have an estimate; None where none has.
    """
    known = [i for i, group in enumerate(model.groups) if group.is_estimated]
    candidates = [i for i in known if model.groups[i].state == "harmed"] or known
    return max(candidates, key=lambda i: relative_loss(model.groups[i]), default=None)


def tied_maxima(values: Sequence[float]) -> list[int]:
    """Positions of the largest value: of several where they differ by no more than a fit does.

    Examples
    --------
    >>> tied_maxima([0.2, 0.5, 0.1, 0.5000000001])
    [1, 3]
    """
    largest = max(values)
    return [i for i, value in enumerate(values) if value >= largest - TIE_TOL * abs(largest)]


def report_tables(report: Report) -> dict[str, Table]:
    """Every table of the page, by the name that the template uses."""
    tables = {
        "groups": groups_table(report),
        "plain": pca_table(report),
        "criteria": criteria_table(report),
        "losses": _by_group_and_model(report, "observed_loss", "Excess loss of each group"),
        "errors": _by_group_and_model(report, "observed_error", "Error of each group"),
        "certificates": certificates_table(report),
        "steps": steps_table(report),
        "here": step_groups_table(report),
        "loadings": loadings_table(report),
    }
    if report.audit.rows.missing is not None:
        tables["missing"] = missing_values_table(report.audit.rows.missing)
    if report.user_models is not None:
        tables["given"] = user_models_table(report.user_models)
    if report.has_estimates:
        tables |= {
            "expected_plain": expected_pca_table(report),
            "expected_criteria": expected_criteria_table(report),
            "expected_losses": expected_losses_table(report),
        }
        if not report.main.is_pca:
            tables["changes"] = changes_table(report)
    return tables


def _values(records: Sequence[dict[str, Any]], name: str) -> list[Any]:
    return [record[name] for record in records]


def _secondary(column: Column) -> Column:
    return replace(column, is_secondary=True)


def _groups_column(report: Report, total: str = "") -> Column:
    return name_column("group", report.group_names, total)


def _counts_column(heading: str, values: Sequence[int]) -> Column:
    return Column(heading, [Cell(format_integer(n), n) for n in values])


def groups_table(report: Report) -> Table:
    """How many rows and how much variance each group has."""
    groups = report.pca.records
    shares = "share of the weight" if report.is_weighted else "share"
    return Table(
        "The groups",
        (
            _groups_column(report),
            row_count_column(groups),
            share_column(shares, _values(groups, "proportion")),
            number_column("total variance", _values(groups, "observed_total_variance")),
        ),
    )


def pca_table(report: Report) -> Table:
    """What PCA does to each group."""
    model, records = report.pca, report.pca.records
    above = [
        group.observed_loss / group.observed_best_error if group.observed_best_error > 0 else None
        for group in model.groups
    ]
    return Table(
        f"PCA with {format_count(model.n_components, 'dimension')}",
        (
            _groups_column(report, "all rows"),
            estimate_column("error", records, "observed_error", total=model.observed_total_error),
            number_column("best possible", _values(records, "observed_best_error")),
            number_column("excess loss", _values(records, "observed_loss")),
            Column("loss / best", [Cell(format_relative(each), each) for each in above]),
            share_column("variance kept", _values(records, "observed_variance_kept")),
        ),
    )


def criteria_table(report: Report) -> Table:
    """What each criterion changes and costs: two groups in full, of more the worst."""
    models = report.audit.models
    variances = [fit.certificate.total_variance for fit in report.fits]
    gaps = [
        0.0
        if abs(model.observed_disparity.value) <= _ZERO_TOL * variance
        else model.observed_disparity.value
        for model, variance in zip(models, variances, strict=True)
    ]
    ends = [(model.observed_disparity.low, model.observed_disparity.high) for model in models]
    errors, losses = (
        [_values(model.records, name) for model in models]
        for name in ("observed_error", "observed_loss")
    )
    return _models_table(
        report,
        *(
            _group_or_largest_columns(report, "error", errors)
            if len(report.group_names) == 2
            else ()
        ),
        *_group_or_largest_columns(report, "loss", losses),
        # Beside estimates, the table of these shows what is kept.
        *([] if report.has_estimates else _kept_columns(report)),
        number_column("disparity", gaps, intervals=ends),
    )


def _models_table(report: Report, *columns: Column) -> Table:
    """What each criterion asks, some columns, and how each fit ended at which cost."""
    models = report.audit.models
    decimals = common_decimals(model.observed_total_error for model in models)
    changes = [
        (report.relative_error_change(model), model.observed_total_error) for model in models
    ]
    costs = [
        Cell(format_change(more), more, format_number(total, decimals)) for more, total in changes
    ]
    return Table(
        "Ordinary PCA and each fair criterion",
        (
            _criteria_column(report, with_description=True),
            *columns,
            Column("error over these rows", costs),
            _statuses_column(report),
        ),
        highlighted_row=report.main_index,
    )


def _criteria_column(report: Report, *, with_description: bool = False) -> Column:
    """The models' names, with the parameters that their names do not contain."""
    cells = []
    for fit in report.fits:
        made = fit.certificate
        told = format_parameters(reported_parameters(made.criterion, made.groups))
        shown = fit.name if not told or "(" in fit.name else f"{fit.name} ({told})"
        description = fit.problem.criterion.formula.summary if with_description else ""
        cells.append(Cell(shown, fit.name, description))
    return Column("criterion", cells, is_text=True)


def _statuses_column(report: Report) -> Column:
    """How each fit ended."""
    made = [fit.certificate for fit in report.fits]
    cells = [Cell(each.status_text.replace("optimal", "proven"), str(each.status)) for each in made]
    return Column("status", cells, is_text=True)


def _kept_columns(report: Report) -> list[Column]:
    """The variance kept of both groups; of more, the least, and of which group it is."""
    kept = np.array(
        [[group.observed_variance_kept for group in model.groups] for model in report.audit.models]
    )
    if len(report.group_names) == 2:
        return [
            replace(share_column("variance kept,", _none_if_nan(each)), group=name)
            for name, each in zip(report.group_names, kept.T, strict=True)
        ]
    is_known = ~np.isnan(kept)
    least = np.where(is_known, kept, np.inf).argmin(axis=1).tolist()
    names = [
        report.group_names[g] if is_known[i, g] else format_number(None)
        for i, g in enumerate(least)
    ]
    values = _none_if_nan(kept[range(len(kept)), least])
    return [share_column("least variance kept", values), name_column("of", names)]


def _none_if_nan(values: Iterable[float]) -> list[float | None]:
    return [None if np.isnan(value) else float(value) for value in values]


def _by_group_and_model(report: Report, name: str, caption: str) -> Table:
    """One figure of every group under every model."""
    columns = [
        number_column(model.name, _values(model.records, name)) for model in report.audit.models
    ]
    return Table(caption, (_groups_column(report), *columns))


def certificates_table(report: Report) -> Table:
    """Objective and bound of every model."""
    proofs = [fit.certificate for fit in report.fits]
    solvers = [Cell(readable_name(each.solver), each.solver) for each in proofs]
    return Table(
        "Certificates",
        (
            _criteria_column(report),
            *(
                number_column(
                    name.replace("_", " "), _none_if_nan([getattr(e, name) for e in proofs])
                )
                for name in ("objective", "lower_bound", "gap", "absolute_tol")
            ),
            _statuses_column(report),
            Column("solver", solvers, is_text=True),
            _counts_column("eigenproblems", [each.n_eigenproblems for each in proofs]),
        ),
        highlighted_row=report.main_index,
    )


def steps_table(report: Report) -> Table:
    """Every step of the slider: two groups in full, of more the worst."""
    steps = report.curves.steps
    return Table(
        "All steps",
        (
            name_column("step", [step.label for step in steps]),
            *_group_or_largest_columns(report, "error", [step.errors for step in steps]),
            *_group_or_largest_columns(report, "loss", [step.losses for step in steps]),
            number_column("error over all rows", [step.total_error for step in steps]),
        ),
    )


def _group_or_largest_columns(report: Report, what: str, rows: Sequence[Any]) -> list[Column]:
    """A figure of both groups, which are compared with each other; of more, the largest."""
    values = np.array(rows, dtype=np.float64)
    if len(report.group_names) == 2:
        decimals = common_decimals(values.ravel().tolist())
        return [
            Column(f"{what},", [Cell(format_number(x, decimals), x) for x in of_group], name)
            for name, of_group in zip(report.group_names, values.T.tolist(), strict=True)
        ]
    groups_with_largest = [
        describe_tied(report.group_names, tied_maxima(row)) if max(row) > 0 else format_number(None)
        for row in values.tolist()
    ]
    largest = number_column(f"largest {what}", values.max(axis=1).tolist())
    return [largest, name_column("of", groups_with_largest)]


def step_groups_table(report: Report) -> Table:
    """The groups at the step of the slider that is shown first."""
    texts, total_index = step_texts(report)[report.curves.main_step], 3 * len(report.group_names)
    cells = [
        Cell(total_text, attributes={"data-shows": str(i)}) for i, total_text in enumerate(texts)
    ]
    return Table(
        "The groups at this step",
        (
            _groups_column(report, "all rows"),
            Column("error", cells[0:total_index:3], total=cells[total_index]),
            Column("excess loss", cells[1:total_index:3]),
            Column("variance kept", cells[2:total_index:3]),
        ),
        css_class="here",
    )


def loadings_table(report: Report) -> Table:
    """The components at the step of the slider that is shown first."""
    curves, total_index = report.curves, 3 * len(report.group_names) + 1
    features = [report.feature_names[i] for i in curves.features]
    first, texts = curves.steps[curves.main_step].loadings, step_texts(report)[curves.main_step]
    n_shown = max(len(step.loadings) for step in curves.steps)
    columns = [replace(name_column("feature", features), total=Cell("variance"))]
    for j in range(n_shown):
        cells = []
        for i in range(len(features)):
            place = {"data-loading": f"{j} {i}"}
            if j < len(first):
                value = round(float(first[j, i]), LOADING_DECIMALS) + 0.0
                place["class"] = "up" if value > 0 else "down" if value < 0 else ""
                place["style"] = f"--strength:{abs(value)}"
                cells.append(Cell(format_loading(value), attributes=place))
            else:
                cells.append(Cell("", attributes=place))
        total_text = texts[total_index + j] if total_index + j < len(texts) else ""
        total = Cell(total_text, attributes={"data-shows": str(total_index + j)})
        columns.append(Column(f"component {j + 1}", cells, total=total))
    dimensions = max(step.n_components for step in curves.steps)
    shows_subset = n_shown < max(dimensions, report.pca.n_components)
    told = f"The first {n_shown} components" if shows_subset else "Components"
    omits_features = len(features) < report.n_features
    feature_note = (
        f", in the {len(features)} of {format_integer(report.n_features)} features that weigh most"
    )
    return Table(
        f"{told} at this step{feature_note if omits_features else ''}",
        tuple(columns),
        css_class="loadings",
    )


def step_texts(report: Report) -> list[list[str]]:
    """Of each step its figures, each kind with the same decimals at all steps.

    Error, excess loss and share kept of each group, the error over all rows, and the variances of
    the components that are shown.
    """
    steps = report.curves.steps
    errors, losses, variances, totals = (
        common_decimals(float(x) for step in steps for x in np.atleast_1d(getattr(step, name)))
        for name in ("errors", "losses", "variances", "total_error")
    )
    return [
        [
            *(
                text
                for error, loss, kept in zip(
                    step.errors, step.losses, step.variance_kept, strict=True
                )
                for text in (
                    format_number(error, errors),
                    format_number(loss, losses),
                    format_share(None if np.isnan(kept) else kept),
                )
            ),
            format_number(step.total_error, totals),
            *(format_number(variance, variances) for variance in step.variances),
        ]
        for step in steps
    ]


def user_models_table(given: UserModels) -> Table:
    """What each model of the user is, and what its certificate says."""
    models = given.audit.models
    units = ["standardized" if model.is_scaled else "as they came" for model in models]
    return Table(
        "The models",
        (
            name_column("model", [model.name for model in models]),
            name_column("kind", given.descriptions),
            _counts_column("dimensions", [model.n_components for model in models]),
            name_column("features", units),
            name_column("certificate", [model.status_text or "carries none" for model in models]),
            number_column("error over all rows", [model.observed_total_error for model in models]),
        ),
    )


def user_model_table(model: ModelResult, findings: Sequence[Finding]) -> Table:
    """What a model of the user does to each group, and what is left of its fit on other rows."""
    records = model.records
    # FS209 and FS210 compare these rows with those of the fit.
    notes = tuple(
        str(each)
        for each in findings
        if each.model == model.name and each.code in ("FS209", "FS210")
    )
    expected = [
        _states_column(model.groups),
        estimate_column("expected loss", records, "expected_loss"),
        estimate_column("expected error", records, "expected_error"),
    ]
    return Table(
        f"{display_name(model.name)} with {format_count(model.n_components, 'dimension')}",
        (
            name_column("group", [format_group(group.group) for group in model.groups]),
            row_count_column(records),
            *(expected if model.no_estimates_reason is None else ()),
            estimate_column("error on these rows", records, "observed_error"),
            *(
                [estimate_column("change since the fit", records, "drift")]
                if model.refit_bound is not None
                else ()
            ),
            number_column("best possible", _values(records, "observed_best_error")),
            share_column("variance kept", _values(records, "observed_variance_kept")),
        ),
        notes=notes,
    )


def expected_pca_table(report: Report) -> Table:
    """What PCA does to each group on new rows, and beside it the figures on these."""
    model, records = report.pca, report.pca.records
    return Table(
        f"PCA with {format_count(model.n_components, 'dimension')} on new rows",
        (
            _groups_column(report),
            row_count_column(records),
            estimate_column("expected loss", records, "expected_loss"),
            _states_column(model.groups),
            estimate_column("expected error", records, "expected_error"),
            _secondary(number_column("loss on these rows", _values(records, "observed_loss"))),
            _secondary(number_column("error on these rows", _values(records, "observed_error"))),
            _secondary(share_column("variance kept", _values(records, "observed_variance_kept"))),
        ),
        muted_rows=tuple(i for i, group in enumerate(model.groups) if not group.is_estimated),
    )


def changes_table(report: Report) -> Table:
    """Whose error rises and whose falls from PCA to the main answer, on new rows."""
    groups, cells, outcomes = report.main.groups, [], []
    for group in groups:
        found, variance = group.expected_change, group.observed_total_variance
        if found.low is None or found.high is None or variance <= 0:
            cells.append(Cell(format_number(None), None, "too few rows"))
            outcomes.append(_INCONCLUSIVE)
            continue
        low, value, high = (end / variance for end in (found.low, found.value, found.high))
        cells.append(
            Cell(format_change(value), value, f"{format_change(low)} to {format_change(high)}")
        )
        outcomes.append("gains" if high < 0 else "pays" if low > 0 else "no clear change")
    return Table(
        f"Who gains and who pays: from PCA to {report.main.name}, on new rows",
        (
            _groups_column(report),
            name_column("outcome", outcomes),
            Column("change in expected error / variance", cells),
            row_count_column(report.main.records),
            share_column("share of the rows", [group.proportion for group in groups]),
        ),
        muted_rows=tuple(i for i, cell in enumerate(cells) if cell.sort_value is None),
    )


def expected_criteria_table(report: Report) -> Table:
    """Under each criterion: the largest loss on new rows, and what is kept of each group."""
    worst_groups: list[GroupResult | None] = [
        max(
            (group for group in model.groups if group.is_estimated),
            key=lambda group: group.expected_loss.value,
            default=None,
        )
        for model in report.audit.models
    ]
    empty_record = {f"expected_loss{end}": None for end in ("", "_low", "_high")}
    losses = [empty_record if each is None else each.record for each in worst_groups]
    names = dict(zip((each.group for each in report.pca.groups), report.group_names, strict=True))
    return _models_table(
        report,
        estimate_column("largest expected loss", losses, "expected_loss"),
        name_column("of", ["not estimated" if g is None else names[g.group] for g in worst_groups]),
        _states_column(worst_groups),
        *_kept_columns(report),
    )


def _expected_loss_cell(model: ModelResult, group: GroupResult, decimals: int | None) -> Cell:
    """Return the loss of a group on new rows, with interval and state below it."""
    if not group.is_estimated:
        return Cell(format_number(None), None, _no_estimate_reason(model))
    loss = group.expected_loss
    shown, ends = number_with_interval(loss.value, loss.low, loss.high, decimals)
    return Cell(shown, loss.value, f"{ends}; {group.state}")


def expected_losses_table(report: Report) -> Table:
    """The loss of every group on new rows under every model, with interval and state."""
    models = report.audit.models
    decimals = common_decimals(
        _none_if_nan([g.expected_loss.value for m in models for g in m.groups])
    )
    columns = [
        Column(model.name, [_expected_loss_cell(model, group, decimals) for group in model.groups])
        for model in models
    ]
    unknown = [
        i
        for i in range(len(report.group_names))
        if not any(model.groups[i].is_estimated for model in models)
    ]
    return Table(
        "Expected loss of each group on new rows",
        (_groups_column(report), *columns),
        muted_rows=tuple(unknown),
    )


def _no_estimate_reason(model: ModelResult) -> str:
    return "too few rows" if model.no_estimates_reason is None else "not estimated"


def _states_column(groups: Sequence[GroupResult | None]) -> Column:
    """What may be said of each group's loss, and why nothing can be said."""
    cells = [
        Cell("not estimated") if each is None else Cell(each.state, each.state, each.state_reason)
        for each in groups
    ]
    return Column("state", cells, is_text=True)
