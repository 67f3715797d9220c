"""What displays need of an estimator, and of an audit of the rows that they are given beside it."""

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from sklearn.base import clone

from fairspan.auditing.audit import audit_rows
from fairspan.auditing.expected_losses import ROUNDING
from fairspan.auditing.models import name_at, plain_pca, read_model
from fairspan.auditing.results import ModelResult, column_of, group_name
from fairspan.drawing.pictures import NONE, Estimates
from fairspan.errors import (
    FairspanWarning,
    Incompatible,
    InvalidInput,
    InvalidParameter,
    InvalidType,
    kind_of,
)
from fairspan.estimator.fair_pca import FairPCA
from fairspan.metrics import GroupFigures, group_figures
from fairspan.model.subspace import FairSubspace
from fairspan.moments.of_rows import Moments, moments_of
from fairspan.problem.reduction import criterion_of
from fairspan.rows.checks import check_width
from fairspan.rows.protocol import GroupLimit, Rows
from fairspan.rows.registry import is_opened, rows_of
from fairspan.typing import FloatArray


def moments_of_fit(estimator: Any, purpose: str) -> Any:
    """The group moments that a fitted FairPCA holds.

    Raises
    ------
    InvalidType
        Something else, or a FairPCA that is not fitted.
    """
    unfitted = isinstance(estimator, FairPCA)
    if unfitted and isinstance(moments := getattr(estimator, "moments_", None), Moments):
        return moments
    raise InvalidType(
        f"{purpose} received a FairPCA that has not been fitted"
        if unfitted
        else f"{purpose} received {kind_of(estimator)}",
        "Allowed: a fitted FairPCA, which holds the moments of its rows",
        "Call its fit first" if unfitted else "Fit one first",
    )


def names_of(labels: Any) -> tuple[str, ...]:
    """Groups as they are spelled in tables."""
    return tuple(group_name(label) for label in labels)


def criterion_name(estimator: Any) -> str:
    """The criterion that was minimised, and the restriction if there was one."""
    return str(estimator.solution_.minimised)


def refitted(estimator: Any, **settings: Any) -> Any:
    """A copy with other settings, fitted on the same moments; None where none has an answer.

    Whatever there is to warn of was said when the estimator was fitted.

    Raises
    ------
    InvalidParameter
        The estimator's own settings are not those of its fit any more.
    """
    subspace = estimator.subspace_
    now = (criterion_of(estimator.criterion).name, estimator.center, bool(estimator.scale))
    then = (subspace.proven.criterion.name, subspace.center, subspace.scale is not None)
    if now != then:  # answers of other settings would stand under the name of these
        raise InvalidParameter(
            "The settings of the estimator were changed after it was fitted",
            f"It was fitted with criterion {then[0]!r}, center {then[1]!r} and scale {then[2]}",
            "Fit it again",
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FairspanWarning)
        try:
            return clone(estimator).set_params(**settings).fit_moments(estimator.moments_)
        except Incompatible:
            return None


def status_of(fit: Any) -> str:
    """The status of a fit, or a text if there is none."""
    return NONE if fit is None else str(fit.solution_.status)


def plain_of_fit(estimator: Any, n_components: int | None = None) -> FairSubspace:
    """Ordinary PCA of the rows that an estimator was fitted on, judged about the same centre."""
    subspace = estimator.subspace_
    d = subspace.dimension if n_components is None else n_components
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FairspanWarning)
        return plain_pca(estimator.moments_, d, subspace.center, scale=subspace.scale is not None)


def without_rounding(values: FloatArray, figures: GroupFigures) -> FloatArray:
    """Values in squared units, with zero for what is only rounding."""
    return np.where(np.abs(values) <= ROUNDING * figures.total_variances.max(), 0.0, values)


def plain_figures(estimator: Any) -> GroupFigures:
    """What ordinary PCA does to each group of the rows that an estimator was fitted on."""
    return group_figures(plain_of_fit(estimator), estimator.moments_)


def rows_for(estimator: Any, X: Any, sensitive_features: Any, purpose: str) -> Rows:
    """Rows with their groups, of the features that the estimator was fitted on.

    Raises
    ------
    InvalidInput
        Rows without groups, groups without rows, or rows of other features.
    """
    if X is None or (sensitive_features is None and not is_opened(X)):
        given = "sensitive_features without X" if X is None else "X without sensitive_features"
        raise InvalidInput(
            f"{purpose} received {given}",
            "Allowed: rows with the group of each",
            "Pass both X and sensitive_features",
        )
    rows, subspace = rows_of(X, sensitive_features), estimator.subspace_
    if subspace.feature_names is not None:
        rows = rows.selected(subspace.feature_names)
    check_width(rows.n_features, subspace.n_features, "features")
    return rows


def moments_for(estimator: Any, rows: Rows) -> Moments:
    """Moments of rows whose groups the estimator knows.

    Raises
    ------
    UnknownGroup
        A group that the estimator was not fitted on.
    """
    model = read_model(criterion_name(estimator), estimator)
    moments = moments_of(rows, GroupLimit(n_known=len(model.known_groups)))
    model.check_groups(moments.labels)
    return moments


Quantity = Literal["loss", "error"]
# The figures on the rows, by their names in the records of an audit.
_ON_ROWS = {"loss": "loss_here", "error": "error_here"}


def estimates_of(
    models: Sequence[ModelResult | None], n_groups: int, quantity: Quantity, *, on_rows: bool = True
) -> Estimates:
    """What is expected of every group under several models, beside what is on the rows."""
    values, low, high, here = (
        column_of(models, name, n_groups)
        for name in (
            *(f"expected_{quantity}{end}" for end in ("", "_low", "_high")),
            _ON_ROWS[quantity],
        )
    )
    rounding = [[0.0 if each is None else each.rounding] for each in models]
    here = np.where(np.abs(here) <= rounding, 0.0, here) if on_rows else np.full(here.shape, np.nan)
    states = [(None,) * n_groups if each is None else each.states for each in models]
    return Estimates.of(values, low, high, states, here)


def audited_beside_pca(
    estimator: Any, fits: Sequence[Any], plain: Sequence[FairSubspace], rows: Rows
) -> tuple[list[ModelResult], list[ModelResult | None]]:
    """Audit fits and ordinary PCA of the same dimensions on rows, all of them in the same passes.

    Parameters
    ----------
    estimator : FairPCA
        That the fits were made from.
    fits : sequence of m FairPCA, or None where there is no answer
    plain : sequence of m FairSubspace
    rows : RowSource or PartedRows
    """
    name = criterion_name(estimator)
    beside = [
        replace(read_model(name_at("PCA", each.dimension), each), is_plain_pca=True)
        for each in plain
    ]
    models = list(beside)
    for fit, pca in zip(fits, beside, strict=True):
        if fit is not None:
            own = read_model(name_at(name, pca.subspace.dimension), fit)
            models.append(replace(own, baseline=pca.name))
    audited = list(audit_rows(models, rows).models)
    of_fits = iter(audited[len(plain) :])
    return audited[: len(plain)], [None if fit is None else next(of_fits) for fit in fits]
