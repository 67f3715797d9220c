"""Tables of the slider's steps, and the texts that change with the step."""

from dataclasses import replace
from itertools import chain
from typing import NamedTuple

import numpy as np

from fairspan.auditing.intervals import share_of
from fairspan.formatting.numbers import (
    common_decimals,
    format_integer,
    format_loading,
    format_number,
    format_share,
)
from fairspan.formatting.table import Cell, Column, Table, name_column, share_column
from fairspan.report.report import Report
from fairspan.report.shares import shares_of_variances
from fairspan.report.tables.table_columns import (
    group_or_largest_columns,
    groups_column,
    replace_nan_by_none,
)
from fairspan.typing import FloatArray

# Decimals of displayed loadings.
LOADING_DECIMALS = 2


def steps_table(report: Report) -> Table:
    """Table of the steps of the report's slider, along the frontier or over the dimensions."""
    steps = report.curves.steps
    errors = [shares_of_variances(step.errors, report.pca) for step in steps]
    losses = [shares_of_variances(step.losses, report.pca) for step in steps]
    variance = report.pca.total_variance
    total_errors = [share_of(step.total_error, variance) for step in steps]
    return Table(
        "All steps, in per cent of the variance",
        (
            name_column("step", [step.label for step in steps]),
            *group_or_largest_columns(report, "error", errors, is_share=True),
            *group_or_largest_columns(report, "loss", losses, is_share=True),
            share_column("total error", total_errors),
        ),
    )


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
    """Format the values of each step, with the same decimals across steps.

    Values of different steps can then be compared when the slider moves. Errors and losses are
    shares of the variance.
    """
    steps = report.curves.steps
    variance_decimals = common_decimals(float(x) for step in steps for x in step.variances)
    total_variance = report.pca.total_variance
    return [
        StepTexts(
            errors=_format_shares(step.errors, report),
            losses=_format_shares(step.losses, report),
            variance_kept=[
                format_share(share) for share in replace_nan_by_none(step.variance_kept)
            ],
            total_error=format_share(share_of(step.total_error, total_variance)),
            variances=[format_number(variance, variance_decimals) for variance in step.variances],
        )
        for step in steps
    ]


def _format_shares(values: FloatArray, report: Report) -> list[str]:
    return [format_share(share) for share in shares_of_variances(values, report.pca).tolist()]


def _step_cell(text: str, index: int) -> Cell:
    """Return a cell whose text the slider replaces by the text with this index."""
    return Cell(text, attributes={"data-text": str(index)})


def step_groups_table(report: Report) -> Table:
    """Return the table of the groups at the initial slider step, whose cells the slider replaces.

    Each cell holds the index of its text in `StepTexts.in_order`.
    """
    texts = step_texts(report)[report.curves.main_step]
    # Three texts of each group come first, then the total error.
    total_index = 3 * len(report.group_names)
    return Table(
        "Groups at this step",
        (
            groups_column(report, "all rows"),
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
    """Return the table of component loadings at the initial slider step.

    It has as many columns as any step needs; those that the initial step lacks are empty. The last
    row gives the variance along each component.
    """
    curves = report.curves
    features = [report.feature_names[i] for i in curves.features]
    loadings = curves.steps[curves.main_step].loadings
    variances = step_texts(report)[curves.main_step].variances
    # Three texts of each group and the total error come first.
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
    """Return the cell of a loading; empty if the step has fewer components.

    `loadings` is an array of shape (components, features). The slider finds the cell by the
    attribute `data-loading` and replaces its text. The style sheet colors the cell by the
    sign of the loading (a class) and its absolute value (a variable).
    """
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
    """Return the caption, which says if only some components or features are shown.

    `n_shown` is the largest number of components that the table shows at a step.
    """
    curves = report.curves
    # The steps lack the requested dimension, that of PCA, if the criterion is infeasible there.
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
