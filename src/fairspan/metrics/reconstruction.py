"""What a projection does to each group: errors, losses, variance kept, disparity.

A model is a fitted FairPCA, a FairSubspace, a fitted scikit-learn PCA, IncrementalPCA or
TruncatedSVD, or a (d, p) array with orthonormal rows. Each is judged with its own mean and scale.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairspan.errors import InvalidInput, caller_remedies
from fairspan.formatting.text import counted
from fairspan.model.subspace import FairSubspace
from fairspan.moments.group_moments import GroupMoments
from fairspan.moments.of_rows import Moments, moments_of
from fairspan.moments.operators import errors_under, figure_roundings
from fairspan.problem.criteria import RobustErrorGap, TotalError
from fairspan.problem.problem import Problem, signed_disparity
from fairspan.rows.groups import Label, listed
from fairspan.rows.protocol import GroupLimit
from fairspan.rows.registry import rows_of
from fairspan.rows.remedies import group_limit_remedies
from fairspan.typing import FloatArray


@dataclass(frozen=True, eq=False)
class GroupFigures:
    """Figures of one projection for each group, in squared (scaled) units of the features.

    Attributes
    ----------
    labels : list of k labels
    total_variances : (k,) array
        tr S_g about the projection's centre.
    errors : (k,) array
        e_g = tr S_g - tr(V'S_gV).
    best_errors : (k,) array
        e*_g, the least error of any subspace of the same dimension; of the dimension d whose
        relaxation it is for a soft projection.
    roundings : (k,) array
        The size up to which an error or a loss is rounding.
    """

    labels: list[Label]
    total_variances: FloatArray
    errors: FloatArray
    best_errors: FloatArray
    roundings: FloatArray

    @property
    def excess_losses(self) -> FloatArray:
        """l_g = e_g - e*_g, never below zero, shape (k,)."""
        return np.maximum(self.errors - self.best_errors, 0.0)

    @property
    def captured_ratios(self) -> FloatArray:
        """Share of each group's variance that is kept, shape (k,); NaN without variance."""
        with np.errstate(invalid="ignore"):
            return 1.0 - self.errors / self.total_variances


def group_figures(subspace: FairSubspace, moments: Moments) -> GroupFigures:
    """Compute the figures of a projection for each group, from moments of the rows.

    Parameters
    ----------
    subspace : FairSubspace
    moments : GroupMoments, SparseMoments or ThinMoments
        In the units of the features, unscaled.

    Returns
    -------
    GroupFigures

    Raises
    ------
    InvalidInput
        Other features, or the same in another order.
    """
    mine, theirs = subspace.feature_names, moments.feature_names
    if (mine and theirs and mine != theirs) or subspace.n_features != moments.n_features:
        raise InvalidInput(
            f"The rows have {counted(moments.n_features, 'feature')}{_listed(theirs)}",
            f"The model takes {subspace.n_features}{_listed(mine)}, in this order",
            "Pass the columns that it was fitted on",
        )
    second, projector = subspace.judged_by(moments)
    problem = Problem(second, moments.labels, moments.weights, subspace.dimension, TotalError())
    errors = errors_under(projector, second)
    has_features = isinstance(moments, GroupMoments)
    roundings = figure_roundings(second, errors, by_feature=has_features)
    return GroupFigures(moments.labels, second.traces, errors, problem.best_errors, roundings)


def _listed(names: tuple[str, ...] | None) -> str:
    return "" if names is None else f" ({listed(names)})"


def reconstruction_error(
    model: Any,
    X: Any,
    sensitive_features: Any,
    *,
    sample_weight: Any = None,
    max_groups: int | None = None,
) -> dict[Label, float]:
    """Average squared distance of each group's rows to their reconstruction, e_g.

    Parameters
    ----------
    model : see the module's first lines
    X : (n, p) table of finite numbers, as `GroupMoments.from_rows` takes it
    sensitive_features : (n,) or (n, a) array-like or data frame, or column name(s) of X
    sample_weight : (n,) array-like, or column name of X, optional
    max_groups : int, optional
        Most groups that rows may have, by default 100, or as many as the model was fitted on.

    Returns
    -------
    dict of label to float
        In squared units of the features (scaled, if the model scales).

    Raises
    ------
    InvalidInput, InvalidType

    Examples
    --------
    >>> import numpy as np
    >>> from fairspan import metrics
    >>> X = np.array([[2.0, 0], [-2, 0], [0, 1], [0, -1]])
    >>> metrics.reconstruction_error(np.array([[1.0, 0.0]]), X, ["a", "a", "b", "b"])
    {'a': 0.0, 'b': 1.0}
    """
    figures = _figures(model, X, sensitive_features, sample_weight, max_groups)
    return dict(zip(figures.labels, figures.errors.tolist(), strict=True))


def excess_loss(
    model: Any,
    X: Any,
    sensitive_features: Any,
    *,
    sample_weight: Any = None,
    max_groups: int | None = None,
) -> dict[Label, float]:
    """Excess loss of each group over its own best subspace, l_g = e_g - e*_g.

    Samadi et al. (2018), Definition 4.3, per row. Parameters, units and errors are those of
    :func:`reconstruction_error`.

    Examples
    --------
    >>> import numpy as np
    >>> from fairspan import metrics
    >>> X = np.array([[2.0, 0], [-2, 0], [0, 1], [0, -1]])
    >>> metrics.excess_loss(np.array([[0.0, 1.0]]), X, ["a", "a", "b", "b"])
    {'a': 4.0, 'b': 0.0}
    """
    figures = _figures(model, X, sensitive_features, sample_weight, max_groups)
    return dict(zip(figures.labels, figures.excess_losses.tolist(), strict=True))


def captured_variance_ratio(
    model: Any,
    X: Any,
    sensitive_features: Any,
    *,
    sample_weight: Any = None,
    max_groups: int | None = None,
) -> dict[Label, float]:
    """Share of each group's variance that the projection keeps, 1 - e_g / tr S_g.

    NaN for a group without variance. Parameters and errors are those of
    :func:`reconstruction_error`.

    Examples
    --------
    >>> import numpy as np
    >>> from fairspan import metrics
    >>> X = np.array([[2.0, 0], [-2, 0], [0, 1], [0, -1]])
    >>> metrics.captured_variance_ratio(np.array([[1.0, 0.0]]), X, ["a", "a", "b", "b"])
    {'a': 1.0, 'b': 0.0}
    """
    figures = _figures(model, X, sensitive_features, sample_weight, max_groups)
    return dict(zip(figures.labels, figures.captured_ratios.tolist(), strict=True))


def disparity(
    model: Any,
    X: Any,
    sensitive_features: Any,
    *,
    sample_weight: Any = None,
    max_groups: int | None = None,
) -> float:
    """Two groups: error of the second minus error of the first. More: the largest pairwise gap.

    Groups are in sorted order. Parameters, units and errors are those of
    :func:`reconstruction_error`.

    Examples
    --------
    >>> import numpy as np
    >>> from fairspan import metrics
    >>> X = np.array([[2.0, 0], [-2, 0], [0, 1], [0, -1]])
    >>> metrics.disparity(np.array([[1.0, 0.0]]), X, ["a", "a", "b", "b"])
    1.0
    """
    return signed_disparity(
        _figures(model, X, sensitive_features, sample_weight, max_groups).errors
    )


def error_plus_gap(
    model: Any,
    X: Any,
    sensitive_features: Any,
    *,
    sample_weight: Any = None,
    max_groups: int | None = None,
) -> float:
    """Minus the average error of all rows and the largest gap of two groups: larger is better.

    It is -(ARE + ABDiff), by which Vu et al. (2022) choose radius and penalty. As a scorer of
    scikit-learn it takes the groups as y: `GridSearchCV(FairPCA(...), grid,
    scoring=error_plus_gap).fit(X, groups, sensitive_features=groups)`. Parameters, units and errors
    are those of :func:`reconstruction_error`.

    Examples
    --------
    >>> import numpy as np
    >>> from fairspan import metrics
    >>> X = np.array([[2.0, 0], [-2, 0], [0, 1], [0, -1]])
    >>> metrics.error_plus_gap(np.array([[1.0, 0.0]]), X, ["a", "a", "b", "b"])
    -1.5
    """
    subspace = FairSubspace.of(model)
    moments = moments_for(subspace, X, sensitive_features, sample_weight, max_groups)
    errors = group_figures(subspace, moments).errors
    return -float(np.average(errors, weights=moments.weights) + np.ptp(errors))


def worst_case_error(
    model: Any,
    X_or_moments: Any,
    sensitive_features: Any = None,
    radius: float | Mapping[Label, float] = 0.15,
    *,
    least: bool = False,
    sample_weight: Any = None,
    max_groups: int | None = None,
) -> dict[Label, float]:
    """The largest error of each group within a Wasserstein ball about its rows.

    Vu et al. (2022), Proposition 3.3, at a given projection: the supremum of E||x - x'||^2, x' the
    reconstruction, over all distributions whose distance from the group's rows
    (:func:`fairspan.metrics.gaussian_wasserstein`) is at most eps_g is
    (sqrt(e_g) + sqrt(eps_g))^2. It is attained by the rows
    x + sqrt(eps_g / e_g) (I - VV')(x - mean). The infimum is (sqrt(e_g) - sqrt(eps_g))^2, or 0
    where e_g < eps_g.

    Parameters
    ----------
    model, sample_weight, max_groups
        As for :func:`reconstruction_error`; a projection.
    X_or_moments : (n, p) table, or GroupMoments
    sensitive_features : (n,) or (n, a) array-like or data frame, or column name(s) of X
        Not needed with moments.
    radius : float or mapping of label to float, default=0.15
        As of :class:`~fairspan.RobustErrorGap`: a number alpha gives eps_g = alpha / sqrt(n_g), a
        mapping gives eps_g itself, in squared (scaled) units of the features.
    least : bool, default=False
        The smallest error within the ball instead.

    Returns
    -------
    dict of label to float
        In squared units of the features (scaled, if the model scales).

    Raises
    ------
    InvalidInput, InvalidType, InvalidParameter
    UnknownGroup
        A mapping that does not name exactly the groups of the rows.

    Examples
    --------
    >>> import numpy as np
    >>> from fairspan import metrics
    >>> X = np.array([[2.0, 0], [-2, 0], [0, 1], [0, -1]])
    >>> line, groups = np.array([[1.0, 0.0]]), ["a", "a", "b", "b"]
    >>> metrics.worst_case_error(line, X, groups, radius={"a": 0.25, "b": 0.25})
    {'a': 0.25, 'b': 2.25}
    >>> metrics.worst_case_error(line, X, groups, radius={"a": 0.25, "b": 0.25}, least=True)
    {'a': 0.0, 'b': 0.25}
    """
    subspace = FairSubspace.of(model)
    moments = moments_for(subspace, X_or_moments, sensitive_features, sample_weight, max_groups)
    second, projector = subspace.judged_by(moments)
    ball = RobustErrorGap(radius=radius)
    problem = Problem(
        second,
        moments.labels,
        moments.weights,
        subspace.dimension,
        ball,
        weight_exponent=moments.weight_exponent,
    )
    reach = np.sqrt(ball.radii(problem))
    roots = np.sqrt(np.maximum(errors_under(projector, second), 0.0))
    extremes = np.maximum(roots - reach, 0.0) if least else roots + reach
    return dict(zip(moments.labels, (extremes**2).tolist(), strict=True))


def _figures(
    model: Any, X: Any, sensitive_features: Any, sample_weight: Any, max_groups: int | None
) -> GroupFigures:
    subspace = FairSubspace.of(model)
    moments = moments_for(subspace, X, sensitive_features, sample_weight, max_groups)
    return group_figures(subspace, moments)


def moments_for(
    subspace: FairSubspace,
    X_or_moments: Any,
    sensitive_features: Any,
    sample_weight: Any,
    max_groups: int | None,
) -> Moments:
    """Moments as they are, or of rows: of the features that the subspace takes."""
    if isinstance(X_or_moments, Moments):
        return X_or_moments
    known = 0 if subspace.certificate is None else len(subspace.certificate.groups)
    source = rows_of(X_or_moments, sensitive_features, sample_weight)
    if subspace.feature_names is not None:
        source = source.selected(subspace.feature_names)
    with caller_remedies(group_limit_remedies()):
        return moments_of(source, GroupLimit(max_groups, n_known=known))
