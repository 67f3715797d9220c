"""What displays need of an estimator."""

import warnings
from typing import Any

import numpy as np
from sklearn.base import clone

from fairspan.auditing.models import plain_pca
from fairspan.auditing.wording import group_name
from fairspan.errors import FairspanWarning, InvalidParameter, InvalidType, kind_of
from fairspan.metrics import GroupFigures, group_figures
from fairspan.moments.of_rows import is_moments
from fairspan.problem.by_name import criterion_of
from fairspan.subspace import FairSubspace
from fairspan.typing import FloatArray

# Of float64's sixteen digits the last four are left to rounding, as in audits.
_ROUNDING = 1e-12


def moments_of_fit(estimator: Any, purpose: str) -> Any:
    """The group moments that a fitted FairPCA holds.

    Raises
    ------
    InvalidType
        Something else, or a FairPCA that is not fitted.
    """
    moments = getattr(estimator, "moments_", None)
    if is_moments(moments):
        return moments
    raise InvalidType(
        f"{purpose} received {kind_of(estimator)}"
        + (" that is not fitted" if hasattr(estimator, "fit") else ""),
        "Allowed is a fitted FairPCA, which holds the moments of its rows",
        "Fit one first",
    )


def names_of(labels: Any) -> tuple[str, ...]:
    """Groups as they are spelled in tables."""
    return tuple(group_name(label) for label in labels)


def criterion_name(estimator: Any) -> str:
    """The criterion that was minimised, and the restriction if there was one."""
    provenance = estimator.subspace_.provenance
    hidden = provenance.restriction
    return str(provenance.criterion) + ("" if hidden is None else f" with {hidden}")


def refitted(estimator: Any, **settings: Any) -> Any:
    """A copy with other settings, fitted on the same moments.

    Whatever there is to warn of was said when the estimator was fitted.

    Raises
    ------
    Incompatible
        No subspace answers the criterion with these settings.
    InvalidParameter
        The estimator's own settings are not those of its fit any more.
    """
    _check_as_fitted(estimator)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FairspanWarning)
        return clone(estimator).set_params(**settings).fit_moments(estimator.moments_)


def _check_as_fitted(estimator: Any) -> None:
    """Answers of other settings would stand under the name of those that it was fitted with."""
    subspace = estimator.subspace_
    now = (criterion_of(estimator.criterion).name, estimator.center, bool(estimator.scale))
    then = (subspace.provenance.criterion, subspace.center, subspace.scale is not None)
    if now != then:
        raise InvalidParameter(
            "The settings of the estimator were changed after it was fitted",
            f"It was fitted with criterion {then[0]!r}, center {then[1]!r} and scale {then[2]}",
            "Fit it again",
        )


def plain_of_fit(estimator: Any, n_components: int | None = None) -> FairSubspace:
    """Ordinary PCA of the rows that an estimator was fitted on, judged about the same centre."""
    subspace = estimator.subspace_
    d = subspace.dimension if n_components is None else n_components
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FairspanWarning)
        return plain_pca(estimator.moments_, d, subspace.center, scale=subspace.scale is not None)


def without_rounding(values: FloatArray, figures: GroupFigures) -> FloatArray:
    """Values in squared units, with zero for what is only rounding."""
    size = _ROUNDING * float(figures.total_variances.max())
    return np.where(np.abs(values) <= size, 0.0, values)


def plain_figures(estimator: Any) -> GroupFigures:
    """What ordinary PCA does to each group of the rows that an estimator was fitted on."""
    return group_figures(plain_of_fit(estimator), estimator.moments_)
