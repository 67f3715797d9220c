"""Group metrics of a projection: errors, losses, variance kept and disparity.

A model is a fitted FairPCA, a FairSubspace, a fitted scikit-learn PCA, IncrementalPCA or
TruncatedSVD, or a (d, p) array with orthonormal rows. Each is evaluated with its own mean and
scale.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from fairspan.errors import InvalidInput, caller_remedies
from fairspan.formatting.messages import counted
from fairspan.model.projected_moments import second_moments_and_projector
from fairspan.model.subspace import FairSubspace
from fairspan.moments.compute import Moments, compute_moments
from fairspan.moments.second_moments import figure_roundings, reconstruction_errors
from fairspan.parameters import check_bool
from fairspan.problem.criteria.error_gap import RobustErrorGap
from fairspan.problem.criteria.linear import TotalError
from fairspan.problem.disparity import signed_disparity
from fairspan.problem.problem import Problem
from fairspan.rows.group_limit import GroupLimit
from fairspan.rows.labels import Label, format_list
from fairspan.rows.opening import open_group_rows
from fairspan.rows.row_remedies import group_limit_remedies
from fairspan.typing import FloatArray


@dataclass(frozen=True, eq=False)
class GroupErrors:
    """Errors and variances of each group under one projection, in squared (scaled) units.

    Attributes
    ----------
    group_labels : list of k labels
    variances : (k,) array
        tr S_g about the center of the projection.
    errors : (k,) array
        e_g = tr S_g - tr(V'S_gV).
    best_errors : (k,) array
        e*_g, smallest error of any subspace of the same dimension; for a soft projection, of the
        dimension d that it relaxes.
    roundings : (k,) array
        Size up to which an error or a loss is negligible.
    """

    group_labels: list[Label]
    variances: FloatArray
    errors: FloatArray
    best_errors: FloatArray
    roundings: FloatArray

    @property
    def excess_losses(self) -> FloatArray:
        """l_g = e_g - e*_g, clipped at zero, shape (k,)."""
        return np.maximum(self.errors - self.best_errors, 0.0)

    @property
    def variance_kept_ratios(self) -> FloatArray:
        """Fraction of each group's variance kept, shape (k,); NaN for a group without variance."""
        with np.errstate(invalid="ignore"):
            return 1.0 - self.errors / self.variances


def group_errors(subspace: FairSubspace, moments: Moments) -> GroupErrors:
    """Compute the errors of each group under a projection, from moments.

    Parameters
    ----------
    subspace : FairSubspace
    moments : GroupMoments, SparseMoments or WideMoments
        In unscaled units of the features.

    Returns
    -------
    GroupErrors

    Raises
    ------
    InvalidInput
        The features differ, or their order does.
    """
    model_names = subspace.feature_names
    row_names = moments.feature_names
    has_other_names = bool(model_names and row_names and model_names != row_names)
    if has_other_names or subspace.n_features != moments.n_features:
        raise InvalidInput(
            f"The rows have {counted(moments.n_features, 'feature')}{_names_suffix(row_names)}",
            f"The model takes {counted(subspace.n_features, 'feature')}"
            f"{_names_suffix(model_names)}, in this order",
            "Pass the columns used in the fit",
        )
    second_moments, projector = second_moments_and_projector(subspace, moments)
    # Any criterion will do: the problem only provides the best errors of the groups.
    problem = Problem(
        second_moments, moments.labels, moments.weights, subspace.dimension, TotalError()
    )
    errors = reconstruction_errors(projector, second_moments)
    # The size up to which a figure may be rounding error depends on the features of small variance.
    # Coordinates of the span of the rows are not features, so it is then larger.
    has_features = not moments.has_row_coordinates
    roundings = figure_roundings(second_moments, errors, by_feature=has_features)
    return GroupErrors(
        moments.labels, second_moments.traces, errors, problem.best_errors, roundings
    )


def _names_suffix(names: tuple[str, ...] | None) -> str:
    return "" if names is None else f" ({format_list(names)})"


def reconstruction_error(
    model: object,
    X: object,
    sensitive_features: object,
    *,
    sample_weight: object = None,
    max_groups: int | None = None,
) -> dict[Label, float]:
    """Mean squared distance between each group's rows and their reconstruction, e_g.

    Parameters
    ----------
    model : FairPCA, FairSubspace, fitted PCA, IncrementalPCA or TruncatedSVD, or (d, p) array
    X : (n, p) table of finite numbers, as `GroupMoments.from_rows` takes it
    sensitive_features : (n,) or (n, a) array-like or data frame, or column name(s) of X
    sample_weight : (n,) array-like, or column name of X, optional
    max_groups : int, optional
        Maximum number of groups; by default 100, or as many as the model was fitted on.

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
    errors = _compute_group_errors(model, X, sensitive_features, sample_weight, max_groups)
    return dict(zip(errors.group_labels, errors.errors.tolist(), strict=True))


def excess_loss(
    model: object,
    X: object,
    sensitive_features: object,
    *,
    sample_weight: object = None,
    max_groups: int | None = None,
) -> dict[Label, float]:
    """Excess loss of each group over its own best subspace, l_g = e_g - e*_g.

    Samadi et al. (2018), Definition 4.3, per row. Parameters, units and exceptions as for
    :func:`reconstruction_error`.

    Examples
    --------
    >>> import numpy as np
    >>> from fairspan import metrics
    >>> X = np.array([[2.0, 0], [-2, 0], [0, 1], [0, -1]])
    >>> metrics.excess_loss(np.array([[0.0, 1.0]]), X, ["a", "a", "b", "b"])
    {'a': 4.0, 'b': 0.0}
    """
    errors = _compute_group_errors(model, X, sensitive_features, sample_weight, max_groups)
    return dict(zip(errors.group_labels, errors.excess_losses.tolist(), strict=True))


def variance_kept_ratio(
    model: object,
    X: object,
    sensitive_features: object,
    *,
    sample_weight: object = None,
    max_groups: int | None = None,
) -> dict[Label, float]:
    """Fraction of each group's variance kept by the projection, 1 - e_g / tr S_g.

    Here e_g is the reconstruction error, and tr S_g the sum of the variances of all features about
    the center of the model. NaN for a group without variance. Parameters and exceptions as for
    :func:`reconstruction_error`.

    Examples
    --------
    >>> import numpy as np
    >>> from fairspan import metrics
    >>> X = np.array([[2.0, 0], [-2, 0], [0, 1], [0, -1]])
    >>> metrics.variance_kept_ratio(np.array([[1.0, 0.0]]), X, ["a", "a", "b", "b"])
    {'a': 1.0, 'b': 0.0}
    """
    errors = _compute_group_errors(model, X, sensitive_features, sample_weight, max_groups)
    return dict(zip(errors.group_labels, errors.variance_kept_ratios.tolist(), strict=True))


def disparity(
    model: object,
    X: object,
    sensitive_features: object,
    *,
    sample_weight: object = None,
    max_groups: int | None = None,
) -> float:
    """Error of the second group minus that of the first, in sorted order.

    With more than two groups, the largest error minus the smallest, which is never negative.
    Parameters, units and exceptions as for :func:`reconstruction_error`.

    Examples
    --------
    >>> import numpy as np
    >>> from fairspan import metrics
    >>> X = np.array([[2.0, 0], [-2, 0], [0, 1], [0, -1]])
    >>> metrics.disparity(np.array([[1.0, 0.0]]), X, ["a", "a", "b", "b"])
    1.0
    """
    errors = _compute_group_errors(model, X, sensitive_features, sample_weight, max_groups)
    return signed_disparity(errors.errors)


def neg_error_plus_gap(
    model: object,
    X: object,
    sensitive_features: object,
    *,
    sample_weight: object = None,
    max_groups: int | None = None,
) -> float:
    """Minus the sum of the mean error and the largest gap of two groups; higher is better.

    Equals -(ARE + ABDiff), by which Vu et al. (2022) select radius and penalty. As a scikit-learn
    scorer it takes the groups as y: `GridSearchCV(FairPCA(...), grid,
    scoring=neg_error_plus_gap).fit(X, groups, sensitive_features=groups)`. Parameters, units and
    exceptions as for :func:`reconstruction_error`.

    Examples
    --------
    >>> import numpy as np
    >>> from fairspan import metrics
    >>> X = np.array([[2.0, 0], [-2, 0], [0, 1], [0, -1]])
    >>> metrics.neg_error_plus_gap(np.array([[1.0, 0.0]]), X, ["a", "a", "b", "b"])
    -1.5
    """
    subspace = FairSubspace.from_model(model)
    moments = as_moments(subspace, X, sensitive_features, sample_weight, max_groups)
    errors = group_errors(subspace, moments).errors
    mean_error = np.average(errors, weights=moments.weights)
    return -float(mean_error + np.ptp(errors))


def worst_case_error(
    model: object,
    X_or_moments: object,
    sensitive_features: object = None,
    radius: float | Mapping[Label, float] = 0.15,
    *,
    best_case: bool = False,
    sample_weight: object = None,
    max_groups: int | None = None,
) -> dict[Label, float]:
    """Largest error of each group over all distributions in a Wasserstein ball around its rows.

    Vu et al. (2022), Proposition 3.3, for a given projection: the supremum of E||x - x'||^2, x' the
    reconstruction of x, over all distributions whose distance from the group's rows
    (:func:`fairspan.metrics.gaussian_wasserstein`) is at most eps_g is (sqrt(e_g) + sqrt(eps_g))^2.
    It is attained by the rows x + sqrt(eps_g / e_g) (I - VV')(x - mean). The infimum is (sqrt(e_g)
    - sqrt(eps_g))^2, or 0 if e_g < eps_g.

    Parameters
    ----------
    model, sample_weight, max_groups
        See :func:`reconstruction_error`; a projection.
    X_or_moments : (n, p) table, or GroupMoments
    sensitive_features : (n,) or (n, a) array-like or data frame, or column name(s) of X
        Not needed with moments.
    radius : float or mapping of label to float, default=0.15
        As for :class:`~fairspan.RobustErrorGap`: a number alpha gives eps_g = alpha / sqrt(n_g), a
        mapping gives eps_g directly, in squared (scaled) units of the features.
    best_case : bool, default=False
        Return the smallest error within the ball instead.

    Returns
    -------
    dict of label to float
        In squared units of the features (scaled, if the model scales).

    Raises
    ------
    InvalidInput, InvalidType, InvalidParameter
    UnknownGroup
        A mapping does not name exactly the groups of the rows.

    Examples
    --------
    >>> import numpy as np
    >>> from fairspan import metrics
    >>> X = np.array([[2.0, 0], [-2, 0], [0, 1], [0, -1]])
    >>> line, groups = np.array([[1.0, 0.0]]), ["a", "a", "b", "b"]
    >>> radius = {"a": 0.25, "b": 0.25}
    >>> metrics.worst_case_error(line, X, groups, radius=radius)
    {'a': 0.25, 'b': 2.25}
    >>> metrics.worst_case_error(line, X, groups, radius=radius, best_case=True)
    {'a': 0.0, 'b': 0.25}
    """
    check_bool("best_case", best_case)
    subspace = FairSubspace.from_model(model)
    moments = as_moments(subspace, X_or_moments, sensitive_features, sample_weight, max_groups)
    second_moments, projector = second_moments_and_projector(subspace, moments)
    criterion = RobustErrorGap(radius=radius)
    problem = Problem(
        second_moments,
        moments.labels,
        moments.weights,
        subspace.dimension,
        criterion,
        weight_exponent=moments.weight_exponent,
    )
    root_radii = np.sqrt(criterion.radii(problem))
    errors = reconstruction_errors(projector, second_moments)
    root_errors = np.sqrt(np.maximum(errors, 0.0))
    if best_case:
        extreme_roots = np.maximum(root_errors - root_radii, 0.0)
    else:
        extreme_roots = root_errors + root_radii
    return dict(zip(moments.labels, (extreme_roots**2).tolist(), strict=True))


def _compute_group_errors(
    model: object,
    X: object,
    sensitive_features: object,
    sample_weight: object,
    max_groups: int | None,
) -> GroupErrors:
    subspace = FairSubspace.from_model(model)
    moments = as_moments(subspace, X, sensitive_features, sample_weight, max_groups)
    return group_errors(subspace, moments)


def as_moments(
    subspace: FairSubspace,
    X_or_moments: object,
    sensitive_features: object,
    sample_weight: object,
    max_groups: int | None,
) -> Moments:
    """Moments of the subspace's features: those given, or computed from rows.

    Columns of a table are selected by the subspace's feature names. By default at most 100 groups
    are allowed, or as many as the model was fitted on. Moments are returned as they
    are; :func:`group_errors` checks their features.
    """
    if isinstance(X_or_moments, Moments):
        return X_or_moments
    n_known_groups = 0 if subspace.certificate is None else len(subspace.certificate.groups)
    rows = open_group_rows(X_or_moments, sensitive_features, sample_weight)
    if subspace.feature_names is not None:
        rows = rows.select_features(subspace.feature_names)
    with caller_remedies(group_limit_remedies()):
        return compute_moments(rows, GroupLimit(max_groups, n_fitted_groups=n_known_groups))
