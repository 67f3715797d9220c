"""The tables of a page, all of one report."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fairspan.auditing.data_findings import table_of_missing
from fairspan.auditing.results import Finding, GroupResult, ModelResult, group_name, share_lost
from fairspan.formatting.table import (
    Cell,
    Column,
    Table,
    estimates_column,
    figures_column,
    names_column,
    rows_column,
    shares_column,
)
from fairspan.formatting.text import (
    called,
    change,
    count,
    decimals_of,
    loading,
    number,
    number_with_interval,
    relative,
    settings,
    share,
    sharers,
    spoken,
    whole,
)
from fairspan.problem.problem import used_parameters
from fairspan.report.report import Given, Report

# What a fit brings together to its tolerance shares a figure; no table shows so many digits.
ALIKE = 1e-6
# As a share of the total variance: less than fits resolve.
_SAME = 1e-9
# Decimals of loadings.
DECIMALS = 2
_CANNOT_TELL = "cannot tell"


def harmed_most(model: ModelResult) -> int | None:
    """Position of the group that loses most of its variance of those harmed, as in the verdict.

    Where none is harmed, of all that have an estimate; None where none has.
    """
    known = [i for i, group in enumerate(model.groups) if group.is_estimated]
    those = [i for i in known if model.groups[i].state == "harmed"] or known
    return max(those, key=lambda i: share_lost(model.groups[i]), default=None)


def sharing_largest(values: Sequence[float]) -> list[int]:
    """Positions of the largest value: of several where they differ by no more than a fit does.

    Examples
    --------
    >>> sharing_largest([0.2, 0.5, 0.1, 0.5000000001])
    [1, 3]
    """
    largest = max(values)
    return [i for i, value in enumerate(values) if value >= largest - ALIKE * abs(largest)]


def of_report(report: Report) -> dict[str, Table]:
    """Every table of the page, by the name that the template uses."""
    tables = {
        "groups": of_groups(report),
        "plain": of_plain(report),
        "criteria": of_criteria(report),
        "losses": _of_every_group(report, "loss_here", "Excess loss of each group"),
        "errors": _of_every_group(report, "error_here", "Error of each group"),
        "certificates": of_certificates(report),
        "steps": of_steps(report),
        "here": of_groups_here(report),
        "loadings": of_loadings(report),
    }
    if report.audit.rows.missing is not None:
        tables["missing"] = table_of_missing(report.audit.rows.missing)
    if report.given is not None:
        tables["given"] = of_given(report.given)
    if report.has_estimates:
        tables |= {
            "expected_plain": of_expected_plain(report),
            "expected_criteria": of_expected_criteria(report),
            "expected_losses": of_expected_losses(report),
        }
        if not report.main.is_plain_pca:
            tables["changes"] = of_changes(report)
    return tables


def _each_of(records: Sequence[dict[str, Any]], name: str) -> list[Any]:
    return [record[name] for record in records]


def _aside(column: Column) -> Column:
    return replace(column, is_aside=True)


def _groups_column(report: Report, total: str = "") -> Column:
    return names_column("group", report.names, total)


def _counts_column(heading: str, values: Sequence[int]) -> Column:
    return Column(heading, [Cell(whole(n), n) for n in values])


def of_groups(report: Report) -> Table:
    """How many rows and how much variance each group has."""
    groups = report.plain.records
    shares = "share of the weight" if report.is_weighted else "share"
    return Table(
        "The groups",
        (
            _groups_column(report),
            rows_column(groups),
            shares_column(shares, _each_of(groups, "proportion")),
            figures_column("total variance", _each_of(groups, "total_variance_here")),
        ),
    )


def of_plain(report: Report) -> Table:
    """What PCA does to each group."""
    model, records = report.plain, report.plain.records
    above = [
        group.loss_here / group.best_error_here if group.best_error_here > 0 else None
        for group in model.groups
    ]
    return Table(
        f"PCA with {count(model.n_components, 'dimension')}",
        (
            _groups_column(report, "all rows"),
            estimates_column("error", records, "error_here", total=model.total_error_here),
            figures_column("best possible", _each_of(records, "best_error_here")),
            figures_column("excess loss", _each_of(records, "loss_here")),
            Column("loss / best", [Cell(relative(each), each) for each in above]),
            shares_column("variance kept", _each_of(records, "kept_here")),
        ),
    )


def of_criteria(report: Report) -> Table:
    """What each criterion changes and costs: two groups in full, of more the worst."""
    models = report.audit.models
    variances = [fit.certificate.total_variance for fit in report.fits]
    gaps = [
        0.0 if abs(model.disparity_here.value) <= _SAME * variance else model.disparity_here.value
        for model, variance in zip(models, variances, strict=True)
    ]
    ends = [(model.disparity_here.low, model.disparity_here.high) for model in models]
    errors, losses = (
        [_each_of(model.records, name) for model in models] for name in ("error_here", "loss_here")
    )
    return _of_models(
        report,
        *(_by_group(report, "error", errors) if len(report.names) == 2 else ()),
        *_by_group(report, "loss", losses),
        # Beside estimates, the table of these shows what is kept.
        *([] if report.has_estimates else _kept_columns(report)),
        figures_column("disparity", gaps, ends=ends),
    )


def _of_models(report: Report, *columns: Column) -> Table:
    """What each criterion asks, some columns, and how each fit ended at which cost."""
    models = report.audit.models
    decimals = decimals_of(model.total_error_here for model in models)
    changes = [(report.total_change(model), model.total_error_here) for model in models]
    costs = [Cell(change(more), more, number(total, decimals)) for more, total in changes]
    return Table(
        "Ordinary PCA and each fair criterion",
        (
            _criteria_column(report, is_told=True),
            *columns,
            Column("error over these rows", costs),
            _statuses_column(report),
        ),
        chosen=report.place,
    )


def _criteria_column(report: Report, *, is_told: bool = False) -> Column:
    """The models' names, with the parameters that their names do not contain."""
    cells = []
    for fit in report.fits:
        made = fit.certificate
        told = settings(used_parameters(made.criterion, made.groups))
        shown = fit.name if not told or "(" in fit.name else f"{fit.name} ({told})"
        asks = fit.problem.criterion.formula.sentence if is_told else ""
        cells.append(Cell(shown, fit.name, asks))
    return Column("criterion", cells, is_text=True)


def _statuses_column(report: Report) -> Column:
    """How each fit ended."""
    made = [fit.certificate for fit in report.fits]
    cells = [Cell(each.called.replace("optimal", "proven"), str(each.status)) for each in made]
    return Column("status", cells, is_text=True)


def _kept_columns(report: Report) -> list[Column]:
    """The variance kept of both groups; of more, the least, and of which group it is."""
    kept = np.array([[group.kept_here for group in model.groups] for model in report.audit.models])
    if len(report.names) == 2:
        return [
            replace(shares_column("variance kept,", _known(each)), group=name)
            for name, each in zip(report.names, kept.T, strict=True)
        ]
    is_known = ~np.isnan(kept)
    least = np.where(is_known, kept, np.inf).argmin(axis=1).tolist()
    names = [report.names[g] if is_known[i, g] else number(None) for i, g in enumerate(least)]
    values = _known(kept[range(len(kept)), least])
    return [shares_column("least variance kept", values), names_column("of", names)]


def _known(values: Iterable[float]) -> list[float | None]:
    return [None if np.isnan(value) else float(value) for value in values]


def _of_every_group(report: Report, name: str, caption: str) -> Table:
    """One figure of every group under every model."""
    columns = [
        figures_column(model.name, _each_of(model.records, name)) for model in report.audit.models
    ]
    return Table(caption, (_groups_column(report), *columns))


def of_certificates(report: Report) -> Table:
    """Objective and bound of every model."""
    proofs = [fit.certificate for fit in report.fits]
    solvers = [Cell(spoken(each.solver), each.solver) for each in proofs]
    return Table(
        "Certificates",
        (
            _criteria_column(report),
            *(
                figures_column(name.replace("_", " "), _known([getattr(e, name) for e in proofs]))
                for name in ("objective", "lower_bound", "gap", "tolerance")
            ),
            _statuses_column(report),
            Column("solver", solvers, is_text=True),
            _counts_column("eigenproblems", [each.n_eigenproblems for each in proofs]),
        ),
        chosen=report.place,
    )


def of_steps(report: Report) -> Table:
    """Every step of the slider: two groups in full, of more the worst."""
    steps = report.curves.steps
    return Table(
        "All steps",
        (
            names_column("step", [step.label for step in steps]),
            *_by_group(report, "error", [step.errors for step in steps]),
            *_by_group(report, "loss", [step.losses for step in steps]),
            figures_column("error over all rows", [step.total_error for step in steps]),
        ),
    )


def _by_group(report: Report, what: str, rows: Sequence[Any]) -> list[Column]:
    """A figure of both groups, which are compared with each other; of more, the largest."""
    values = np.array(rows, dtype=np.float64)
    if len(report.names) == 2:
        decimals = decimals_of(values.ravel().tolist())
        return [
            Column(f"{what},", [Cell(number(x, decimals), x) for x in of_group], name)
            for name, of_group in zip(report.names, values.T.tolist(), strict=True)
        ]
    whose = [
        sharers(report.names, sharing_largest(row)) if max(row) > 0 else number(None)
        for row in values.tolist()
    ]
    largest = figures_column(f"largest {what}", values.max(axis=1).tolist())
    return [largest, names_column("of", whose)]


def of_groups_here(report: Report) -> Table:
    """The groups at the step of the slider that is shown first."""
    texts, after = texts_of(report)[report.curves.start], 3 * len(report.names)
    cells = [Cell(text, attributes={"data-shows": str(i)}) for i, text in enumerate(texts)]
    return Table(
        "The groups at this step",
        (
            _groups_column(report, "all rows"),
            Column("error", cells[0:after:3], total=cells[after]),
            Column("excess loss", cells[1:after:3]),
            Column("variance kept", cells[2:after:3]),
        ),
        kind="here",
    )


def of_loadings(report: Report) -> Table:
    """The components at the step of the slider that is shown first."""
    curves, after = report.curves, 3 * len(report.names) + 1
    features = [report.features[i] for i in curves.features]
    first, texts = curves.steps[curves.start].loadings, texts_of(report)[curves.start]
    n_shown = max(len(step.loadings) for step in curves.steps)
    columns = [replace(names_column("feature", features), total=Cell("variance"))]
    for j in range(n_shown):
        cells = []
        for i in range(len(features)):
            place = {"data-loading": f"{j} {i}"}
            if j < len(first):
                value = round(float(first[j, i]), DECIMALS) + 0.0
                place["class"] = "up" if value > 0 else "down" if value < 0 else ""
                place["style"] = f"--strength:{abs(value)}"
                cells.append(Cell(loading(value), attributes=place))
            else:
                cells.append(Cell("", attributes=place))
        text = texts[after + j] if after + j < len(texts) else ""
        total = Cell(text, attributes={"data-shows": str(after + j)})
        columns.append(Column(f"component {j + 1}", cells, total=total))
    dimensions = max(step.n_components for step in curves.steps)
    is_cut = n_shown < max(dimensions, report.plain.n_components)
    told = f"The first {n_shown} components" if is_cut else "Components"
    few = len(features) < report.n_features
    which = f", in the {len(features)} of {whole(report.n_features)} features that weigh most"
    return Table(f"{told} at this step{which if few else ''}", tuple(columns), kind="loadings")


def texts_of(report: Report) -> list[list[str]]:
    """Of each step its figures, each kind with the same decimals at all steps.

    Error, excess loss and share kept of each group, the error over all rows, and the variances of
    the components that are shown.
    """
    steps = report.curves.steps
    errors, losses, variances, totals = (
        decimals_of(float(x) for step in steps for x in np.atleast_1d(getattr(step, name)))
        for name in ("errors", "losses", "variances", "total_error")
    )
    return [
        [
            *(
                text
                for error, loss, kept in zip(step.errors, step.losses, step.kept, strict=True)
                for text in (
                    number(error, errors),
                    number(loss, losses),
                    share(None if np.isnan(kept) else kept),
                )
            ),
            number(step.total_error, totals),
            *(number(variance, variances) for variance in step.variances),
        ]
        for step in steps
    ]


def of_given(given: Given) -> Table:
    """What each model of the user is, and what its certificate says."""
    models = given.audit.models
    units = ["standardized" if model.scaled else "as they came" for model in models]
    return Table(
        "The models",
        (
            names_column("model", [model.name for model in models]),
            names_column("kind", given.kinds),
            _counts_column("dimensions", [model.n_components for model in models]),
            names_column("features", units),
            names_column("certificate", [model.called or "carries none" for model in models]),
            figures_column("error over all rows", [model.total_error_here for model in models]),
        ),
    )


def of_given_model(model: ModelResult, findings: Sequence[Finding]) -> Table:
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
        estimates_column("expected loss", records, "expected_loss"),
        estimates_column("expected error", records, "expected_error"),
    ]
    return Table(
        f"{called(model.name)} with {count(model.n_components, 'dimension')}",
        (
            names_column("group", [group_name(group.group) for group in model.groups]),
            rows_column(records),
            *(expected if model.why_no_estimates is None else ()),
            estimates_column("error on these rows", records, "error_here"),
            *(
                [estimates_column("change since the fit", records, "drift_here")]
                if model.certificate_here is not None
                else ()
            ),
            figures_column("best possible", _each_of(records, "best_error_here")),
            shares_column("variance kept", _each_of(records, "kept_here")),
        ),
        notes=notes,
    )


def of_expected_plain(report: Report) -> Table:
    """What PCA does to each group on new rows, and beside it the figures on these."""
    model, records = report.plain, report.plain.records
    return Table(
        f"PCA with {count(model.n_components, 'dimension')} on new rows",
        (
            _groups_column(report),
            rows_column(records),
            estimates_column("expected loss", records, "expected_loss"),
            _states_column(model.groups),
            estimates_column("expected error", records, "expected_error"),
            _aside(figures_column("loss on these rows", _each_of(records, "loss_here"))),
            _aside(figures_column("error on these rows", _each_of(records, "error_here"))),
            _aside(shares_column("variance kept", _each_of(records, "kept_here"))),
        ),
        faint=tuple(i for i, group in enumerate(model.groups) if not group.is_estimated),
    )


def of_changes(report: Report) -> Table:
    """Whose error rises and whose falls from PCA to the main answer, on new rows."""
    groups, cells, outcomes = report.main.groups, [], []
    for group in groups:
        found, variance = group.expected_change, group.total_variance_here
        if found.low is None or found.high is None or variance <= 0:
            cells.append(Cell(number(None), None, "too few rows"))
            outcomes.append(_CANNOT_TELL)
            continue
        low, value, high = (end / variance for end in (found.low, found.value, found.high))
        cells.append(Cell(change(value), value, f"{change(low)} to {change(high)}"))
        outcomes.append("gains" if high < 0 else "pays" if low > 0 else "no clear change")
    return Table(
        f"Who gains and who pays: from PCA to {report.main.name}, on new rows",
        (
            _groups_column(report),
            names_column("outcome", outcomes),
            Column("change in expected error / variance", cells),
            rows_column(report.main.records),
            shares_column("share of the rows", [group.proportion for group in groups]),
        ),
        faint=tuple(i for i, cell in enumerate(cells) if cell.value is None),
    )


def of_expected_criteria(report: Report) -> Table:
    """Under each criterion: the largest loss on new rows, and what is kept of each group."""
    worst: list[GroupResult | None] = [
        max(
            (group for group in model.groups if group.is_estimated),
            key=lambda group: group.expected_loss.value,
            default=None,
        )
        for model in report.audit.models
    ]
    nothing = {f"expected_loss{end}": None for end in ("", "_low", "_high")}
    losses = [nothing if each is None else each.record for each in worst]
    names = dict(zip((each.group for each in report.plain.groups), report.names, strict=True))
    return _of_models(
        report,
        estimates_column("largest expected loss", losses, "expected_loss"),
        names_column("of", ["not estimated" if g is None else names[g.group] for g in worst]),
        _states_column(worst),
        *_kept_columns(report),
    )


def _expected_loss_cell(model: ModelResult, group: GroupResult, decimals: int | None) -> Cell:
    """Return the loss of a group on new rows, with interval and state below it."""
    if not group.is_estimated:
        return Cell(number(None), None, _why_not(model))
    loss = group.expected_loss
    shown, ends = number_with_interval(loss.value, loss.low, loss.high, decimals)
    return Cell(shown, loss.value, f"{ends}; {group.state}")


def of_expected_losses(report: Report) -> Table:
    """The loss of every group on new rows under every model, with interval and state."""
    models = report.audit.models
    decimals = decimals_of(_known([g.expected_loss.value for m in models for g in m.groups]))
    columns = [
        Column(model.name, [_expected_loss_cell(model, group, decimals) for group in model.groups])
        for model in models
    ]
    unknown = [
        i
        for i in range(len(report.names))
        if not any(model.groups[i].is_estimated for model in models)
    ]
    return Table(
        "Expected loss of each group on new rows",
        (_groups_column(report), *columns),
        faint=tuple(unknown),
    )


def _why_not(model: ModelResult) -> str:
    return "too few rows" if model.why_no_estimates is None else "not estimated"


def _states_column(groups: Sequence[GroupResult | None]) -> Column:
    """What may be said of each group's loss, and why nothing can be said."""
    cells = [
        Cell("not estimated") if each is None else Cell(each.state, each.state, each.why_unknown)
        for each in groups
    ]
    return Column("state", cells, is_text=True)
