"""Tables of a report."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from fairspan.auditing.expected_losses import State
from fairspan.auditing.results import Finding, GroupResult, ModelResult, format_group, relative_loss
from fairspan.auditing.row_findings import missing_values_table
from fairspan.formatting.names import describe_tied, display_name, format_parameters, readable_name
from fairspan.formatting.numbers import (
    common_decimals,
    format_change,
    format_count,
    format_integer,
    format_loading,
    format_number,
    format_relative,
    format_share,
    number_with_interval,
)
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
from fairspan.problem.problem import reported_parameters
from fairspan.report.report import Report, UserModels
from fairspan.typing import FloatArray

# Relative tolerance for ties: values equalized by a fit agree to its tolerance, and no table shows
# so many digits.
TIE_TOL = 1e-6
# Disparities below this share of the total variance are shown as zero: fits do not resolve them.
_ZERO_TOL = 1e-9
# Decimals of displayed loadings.
LOADING_DECIMALS = 2
INCONCLUSIVE: State = "inconclusive"


def most_affected_group(model: ModelResult) -> int | None:
    """Index of the harmed group with the largest relative loss, as in the verdict.

    If none is harmed, among all groups with estimates; None if there are none.
    """
    estimated = [i for i, group in enumerate(model.groups) if group.is_estimated]
    harmed = [i for i in estimated if model.groups[i].state == "harmed"]
    candidates = harmed or estimated
    return max(candidates, key=lambda i: relative_loss(model.groups[i]), default=None)


def tied_maxima(values: Sequence[float]) -> list[int]:
    """Return the indices of the largest values, including ties up to the tolerance of a fit.

    Examples
    --------
    >>> tied_maxima([0.2, 0.5, 0.1, 0.5000000001])
    [1, 3]
    """
    largest = max(values)
    return [i for i, value in enumerate(values) if value >= largest - TIE_TOL * abs(largest)]


def report_tables(report: Report) -> dict[str, Table]:
    """Return all tables by the names used in the template."""
    tables = {
        "groups": groups_table(report),
        "pca": pca_table(report),
        "criteria": criteria_table(report),
        "losses": _by_group_and_model(report, "observed_loss", "Excess loss of each group"),
        "errors": _by_group_and_model(report, "observed_error", "Error of each group"),
        "certificates": certificates_table(report),
        "steps": steps_table(report),
        "step_groups": step_groups_table(report),
        "loadings": loadings_table(report),
    }
    if report.audit.rows.missing is not None:
        tables["missing"] = missing_values_table(report.audit.rows.missing)
    if report.user_models is not None:
        tables["user_models"] = user_models_table(report.user_models)
    if report.has_estimates:
        tables["expected_pca"] = expected_pca_table(report)
        tables["expected_criteria"] = expected_criteria_table(report)
        tables["expected_losses"] = expected_losses_table(report)
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
    """Return the number of rows and the variance of each group."""
    records = report.pca.records
    share_heading = "share of the weight" if report.is_weighted else "share"
    return Table(
        "Groups",
        (
            _groups_column(report),
            row_count_column(records),
            share_column(share_heading, _values(records, "proportion")),
            number_column("total variance", _values(records, "observed_total_variance")),
        ),
    )


def pca_table(report: Report) -> Table:
    """Observed results of PCA by group."""
    model = report.pca
    records = model.records
    relative_losses = [
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
            Column("loss / best error", [Cell(format_relative(x), x) for x in relative_losses]),
            share_column("variance kept", _values(records, "observed_variance_kept")),
        ),
    )


def criteria_table(report: Report) -> Table:
    """Observed results of each criterion: both groups if there are two, else the worst group."""
    models = report.audit.models
    disparities = [model.observed_disparity for model in models]
    thresholds = [_ZERO_TOL * fit.certificate.total_variance for fit in report.fits]
    disparity_values = [
        0.0 if abs(disparity.value) <= threshold else disparity.value
        for disparity, threshold in zip(disparities, thresholds, strict=True)
    ]
    intervals = [(disparity.low, disparity.high) for disparity in disparities]
    columns: list[Column] = []
    if len(report.group_names) == 2:
        errors = [_values(model.records, "observed_error") for model in models]
        columns += _group_or_largest_columns(report, "error", errors)
    losses = [_values(model.records, "observed_loss") for model in models]
    columns += _group_or_largest_columns(report, "loss", losses)
    # With estimates, the table of estimates shows the variance kept.
    if not report.has_estimates:
        columns += _kept_columns(report)
    columns.append(number_column("disparity", disparity_values, intervals=intervals))
    return _models_table(report, *columns)


def _models_table(report: Report, *columns: Column) -> Table:
    """Table of all models: criterion, the given columns, cost in total error, and status."""
    models = report.audit.models
    decimals = common_decimals(model.observed_total_error for model in models)
    costs = []
    for model in models:
        change = report.relative_error_change(model)
        total_error = format_number(model.observed_total_error, decimals)
        costs.append(Cell(format_change(change), change, total_error))
    return Table(
        "Ordinary PCA and fair criteria",
        (
            _criteria_column(report, with_description=True),
            *columns,
            Column("change in total error", costs),
            _statuses_column(report),
        ),
        highlighted_row=report.main_index,
    )


def _criteria_column(report: Report, *, with_description: bool = False) -> Column:
    """Column of model names with parameters that the names do not already contain."""
    cells = []
    for fit in report.fits:
        certificate = fit.certificate
        parameters = format_parameters(
            reported_parameters(certificate.criterion, certificate.groups)
        )
        name = fit.name
        if parameters and "(" not in name:
            name = f"{name} ({parameters})"
        description = fit.problem.criterion.formula.summary if with_description else ""
        cells.append(Cell(name, fit.name, description))
    return Column("criterion", cells, is_text=True)


def _statuses_column(report: Report) -> Column:
    """Column of statuses."""
    certificates = [fit.certificate for fit in report.fits]
    cells = [
        Cell(certificate.status_text.replace("optimal", "proven"), str(certificate.status))
        for certificate in certificates
    ]
    return Column("status", cells, is_text=True)


def _kept_columns(report: Report) -> list[Column]:
    """Columns of the variance kept: both groups if there are two, else the smallest value."""
    kept = np.array(
        [[group.observed_variance_kept for group in model.groups] for model in report.audit.models]
    )
    if len(report.group_names) == 2:
        return [
            replace(share_column("variance kept,", _none_if_nan(values)), group=name)
            for name, values in zip(report.group_names, kept.T, strict=True)
        ]
    is_finite = ~np.isnan(kept)
    smallest = np.where(is_finite, kept, np.inf).argmin(axis=1).tolist()
    names = [
        report.group_names[g] if is_finite[i, g] else format_number(None)
        for i, g in enumerate(smallest)
    ]
    values = _none_if_nan(kept[range(len(kept)), smallest])
    return [share_column("smallest variance kept", values), name_column("of", names)]


def _none_if_nan(values: Iterable[float]) -> list[float | None]:
    return [None if np.isnan(value) else float(value) for value in values]


def _by_group_and_model(report: Report, name: str, caption: str) -> Table:
    """Table of one quantity by group and model."""
    columns = [
        number_column(model.name, _values(model.records, name)) for model in report.audit.models
    ]
    return Table(caption, (_groups_column(report), *columns))


def certificates_table(report: Report) -> Table:
    """Objective, bound and gap of every model."""
    certificates = [fit.certificate for fit in report.fits]
    number_columns = []
    for name in ("objective", "lower_bound", "gap", "absolute_tol"):
        values = [getattr(certificate, name) for certificate in certificates]
        number_columns.append(number_column(name.replace("_", " "), _none_if_nan(values)))
    solvers = [Cell(readable_name(c.solver), c.solver) for c in certificates]
    return Table(
        "Certificates",
        (
            _criteria_column(report),
            *number_columns,
            _statuses_column(report),
            Column("solver", solvers, is_text=True),
            _counts_column("eigenproblems", [each.n_eigenproblems for each in certificates]),
        ),
        highlighted_row=report.main_index,
    )


def steps_table(report: Report) -> Table:
    """Table of the steps of the report's slider, along the frontier or over the dimensions."""
    steps = report.curves.steps
    return Table(
        "All steps",
        (
            name_column("step", [step.label for step in steps]),
            *_group_or_largest_columns(report, "error", [step.errors for step in steps]),
            *_group_or_largest_columns(report, "loss", [step.losses for step in steps]),
            number_column("total error", [step.total_error for step in steps]),
        ),
    )


def _group_or_largest_columns(report: Report, quantity: str, rows: Sequence[Any]) -> list[Column]:
    """Columns of a quantity: both groups if there are two, else the largest value and its groups.

    The two groups are compared with each other, so their columns have the same decimals.
    """
    values = np.array(rows, dtype=np.float64)
    if len(report.group_names) == 2:
        decimals = common_decimals(values.ravel().tolist())
        columns = []
        for name, group_values in zip(report.group_names, values.T.tolist(), strict=True):
            cells = [Cell(format_number(x, decimals), x) for x in group_values]
            columns.append(Column(f"{quantity},", cells, name))
        return columns
    groups_with_largest = [
        describe_tied(report.group_names, tied_maxima(row)) if max(row) > 0 else format_number(None)
        for row in values.tolist()
    ]
    largest = number_column(f"largest {quantity}", values.max(axis=1).tolist())
    return [largest, name_column("of", groups_with_largest)]


class StepTexts(NamedTuple):
    """Formatted values of one slider step.

    Attributes
    ----------
    errors, losses, variance_kept : lists of k str
    total_error : str
    variances : list of str
        Variances of the components shown.
    """

    errors: list[str]
    losses: list[str]
    variance_kept: list[str]
    total_error: str
    variances: list[str]

    def in_order(self) -> list[str]:
        """Return all texts, in the order of the `data-text` attributes of the cells.

        Error, loss and variance kept of each group; total error; variances.
        """
        by_group = zip(self.errors, self.losses, self.variance_kept, strict=True)
        return [*chain(*by_group), self.total_error, *self.variances]


def step_texts(report: Report) -> list[StepTexts]:
    """Format the values of each step, with the same decimals across steps."""
    steps = report.curves.steps
    errors, losses, variances, totals = (
        common_decimals(float(x) for step in steps for x in np.atleast_1d(getattr(step, name)))
        for name in ("errors", "losses", "variances", "total_error")
    )
    return [
        StepTexts(
            errors=[format_number(error, errors) for error in step.errors],
            losses=[format_number(loss, losses) for loss in step.losses],
            variance_kept=[format_share(share) for share in _none_if_nan(step.variance_kept)],
            total_error=format_number(step.total_error, totals),
            variances=[format_number(variance, variances) for variance in step.variances],
        )
        for step in steps
    ]


def _step_cell(text: str, index: int) -> Cell:
    """Return a cell whose text the slider replaces by the text with this index."""
    return Cell(text, attributes={"data-text": str(index)})


def step_groups_table(report: Report) -> Table:
    """Return the groups at the initial slider step."""
    texts = step_texts(report)[report.curves.main_step]
    total_index = 3 * len(report.group_names)
    return Table(
        "Groups at this step",
        (
            _groups_column(report, "all rows"),
            Column(
                "error",
                [_step_cell(text, 3 * g) for g, text in enumerate(texts.errors)],
                total=_step_cell(texts.total_error, total_index),
            ),
            Column(
                "excess loss",
                [_step_cell(text, 3 * g + 1) for g, text in enumerate(texts.losses)],
            ),
            Column(
                "variance kept",
                [_step_cell(text, 3 * g + 2) for g, text in enumerate(texts.variance_kept)],
            ),
        ),
        css_class="step-groups",
    )


def loadings_table(report: Report) -> Table:
    """Component loadings at the initial slider step."""
    curves = report.curves
    features = [report.feature_names[i] for i in curves.features]
    loadings = curves.steps[curves.main_step].loadings
    variances = step_texts(report)[curves.main_step].variances
    first_variance_index = 3 * len(report.group_names) + 1
    n_shown = max(len(step.loadings) for step in curves.steps)
    columns = [replace(name_column("feature", features), total=Cell("variance"))]
    for j in range(n_shown):
        cells = [_loading_cell(loadings, j, i) for i in range(len(features))]
        variance = variances[j] if j < len(variances) else ""
        total = _step_cell(variance, first_variance_index + j)
        columns.append(Column(f"component {j + 1}", cells, total=total))
    return Table(_loadings_caption(report, n_shown), tuple(columns), css_class="loadings")


def _loading_cell(loadings: FloatArray, component: int, feature: int) -> Cell:
    """Return the cell of a loading; empty if the step has fewer components."""
    attributes = {"data-loading": f"{component} {feature}"}
    if component >= len(loadings):
        return Cell("", attributes=attributes)
    # Adding zero turns -0.0 into 0.0.
    value = round(float(loadings[component, feature]), LOADING_DECIMALS) + 0.0
    sign_classes = {1.0: "up", 0.0: "", -1.0: "down"}
    attributes["class"] = sign_classes[float(np.sign(value))]
    attributes["style"] = f"--strength:{abs(value)}"
    return Cell(format_loading(value), attributes=attributes)


def _loadings_caption(report: Report, n_shown: int) -> str:
    curves = report.curves
    max_components = max(step.n_components for step in curves.steps)
    components = "Components"
    if n_shown < max(max_components, report.pca.n_components):
        components = f"The first {n_shown} components"
    feature_note = ""
    if len(curves.features) < report.n_features:
        feature_note = (
            f", for the {len(curves.features)} of {format_integer(report.n_features)} features "
            "with the largest loadings"
        )
    return f"{components} at this step{feature_note}"


def user_models_table(user_models: UserModels) -> Table:
    """Table of the user's models: description, dimension, units, certificate and total error."""
    models = user_models.audit.models
    units = ["standardized" if model.is_scaled else "unscaled" for model in models]
    return Table(
        "Your models",
        (
            name_column("model", [model.name for model in models]),
            name_column("kind", user_models.descriptions),
            _counts_column("dimensions", [model.n_components for model in models]),
            name_column("features", units),
            name_column("certificate", [model.status_text or "none" for model in models]),
            number_column("total error", [model.observed_total_error for model in models]),
        ),
    )


def user_model_table(model: ModelResult, findings: Sequence[Finding]) -> Table:
    """Results of a user's model by group, with drift if it was fitted to other rows."""
    records = model.records
    # FS209 and FS210 compare the audited rows with the training rows.
    notes = tuple(
        str(finding)
        for finding in findings
        if finding.model == model.name and finding.code in ("FS209", "FS210")
    )
    columns = [
        name_column("group", [format_group(group.group) for group in model.groups]),
        row_count_column(records),
    ]
    if model.no_estimates_reason is None:
        columns += [
            _states_column(model.groups),
            estimate_column("expected loss", records, "expected_loss"),
            estimate_column("expected error", records, "expected_error"),
        ]
    columns.append(estimate_column("observed error", records, "observed_error"))
    if model.refit_bound is not None:
        columns.append(estimate_column("drift since the fit", records, "drift"))
    columns += [
        number_column("best possible", _values(records, "observed_best_error")),
        share_column("variance kept", _values(records, "observed_variance_kept")),
    ]
    caption = f"{display_name(model.name)} with {format_count(model.n_components, 'dimension')}"
    return Table(caption, tuple(columns), notes=notes)


def expected_pca_table(report: Report) -> Table:
    """Estimates for PCA by group, with observed values."""
    model = report.pca
    records = model.records
    return Table(
        f"PCA with {format_count(model.n_components, 'dimension')} on new rows",
        (
            _groups_column(report),
            row_count_column(records),
            estimate_column("expected loss", records, "expected_loss"),
            _states_column(model.groups),
            estimate_column("expected error", records, "expected_error"),
            _secondary(number_column("observed loss", _values(records, "observed_loss"))),
            _secondary(number_column("observed error", _values(records, "observed_error"))),
            _secondary(share_column("variance kept", _values(records, "observed_variance_kept"))),
        ),
        muted_rows=tuple(i for i, group in enumerate(model.groups) if not group.is_estimated),
    )


def changes_table(report: Report) -> Table:
    """Change in expected error from PCA to the main model by group."""
    groups = report.main.groups
    cells = []
    outcomes: list[str] = []
    for group in groups:
        change = group.expected_change
        variance = group.observed_total_variance
        if change.low is None or change.high is None or variance <= 0:
            cells.append(Cell(format_number(None), None, "too few rows"))
            outcomes.append(INCONCLUSIVE)
            continue
        low, value, high = (end / variance for end in (change.low, change.value, change.high))
        interval = f"{format_change(low)} to {format_change(high)}"
        cells.append(Cell(format_change(value), value, interval))
        outcomes.append(_outcome(low, high))
    return Table(
        f"Change in expected error from PCA to {report.main.name}, on new rows",
        (
            _groups_column(report),
            name_column("outcome", outcomes),
            Column("change in expected error / variance", cells),
            row_count_column(report.main.records),
            share_column("share of the rows", [group.proportion for group in groups]),
        ),
        muted_rows=tuple(i for i, cell in enumerate(cells) if cell.sort_value is None),
    )


def _outcome(low: float, high: float) -> str:
    """Describe a change in error by its confidence interval."""
    if high < 0:
        return "improves"
    if low > 0:
        return "worsens"
    return "no significant change"


def expected_criteria_table(report: Report) -> Table:
    """Estimates for each criterion: largest expected loss and its state, and variance kept."""
    worst_groups = [_largest_expected_loss(model) for model in report.audit.models]
    empty_record = {f"expected_loss{end}": None for end in ("", "_low", "_high")}
    losses = [empty_record if group is None else group.record for group in worst_groups]
    labels = [group.group for group in report.pca.groups]
    names = dict(zip(labels, report.group_names, strict=True))
    return _models_table(
        report,
        estimate_column("largest expected loss", losses, "expected_loss"),
        name_column("of", ["not estimated" if g is None else names[g.group] for g in worst_groups]),
        _states_column(worst_groups),
        *_kept_columns(report),
    )


def _largest_expected_loss(model: ModelResult) -> GroupResult | None:
    """Return the group with the largest expected loss; None without estimates."""
    estimated = [group for group in model.groups if group.is_estimated]
    return max(estimated, key=lambda group: group.expected_loss.value, default=None)


def _expected_loss_cell(model: ModelResult, group: GroupResult, decimals: int | None) -> Cell:
    """Return the expected loss of a group, with interval and state as details."""
    if not group.is_estimated:
        return Cell(format_number(None), None, _no_estimate_reason(model))
    loss = group.expected_loss
    value, interval = number_with_interval(loss.value, loss.low, loss.high, decimals)
    return Cell(value, loss.value, f"{interval}; {group.state}")


def expected_losses_table(report: Report) -> Table:
    """Return the expected loss with interval and state, by group and model."""
    models = report.audit.models
    decimals = common_decimals(
        _none_if_nan([group.expected_loss.value for model in models for group in model.groups])
    )
    columns = [
        Column(model.name, [_expected_loss_cell(model, group, decimals) for group in model.groups])
        for model in models
    ]
    not_estimated = [
        g
        for g in range(len(report.group_names))
        if not any(model.groups[g].is_estimated for model in models)
    ]
    return Table(
        "Expected loss of each group on new rows",
        (_groups_column(report), *columns),
        muted_rows=tuple(not_estimated),
    )


def _no_estimate_reason(model: ModelResult) -> str:
    return "too few rows" if model.no_estimates_reason is None else "not estimated"


def _states_column(groups: Sequence[GroupResult | None]) -> Column:
    """Column of states with the reason if inconclusive."""
    cells = [
        Cell("not estimated")
        if group is None
        else Cell(group.state, group.state, group.state_reason)
        for group in groups
    ]
    return Column("state", cells, is_text=True)
