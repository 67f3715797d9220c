"""Least squares from the groups' moments: one column on the others, or on a subspace of them.

Moments hold all that least squares needs, so no rows are read: parts of the data can be summed at
different places, and each group's mean squared error comes with the answer.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import index
from typing import Any, Literal, SupportsIndex, cast

import numpy as np
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpstrf

from fairspan.errors import InvalidInput, InvalidType
from fairspan.formatting.text import counted, join_truncated
from fairspan.model.subspace import FairSubspace
from fairspan.moments.group_moments import GroupMoments
from fairspan.moments.of_rows import DenseFoldMoments
from fairspan.registry import check_choice
from fairspan.rows.frames import feature_values
from fairspan.rows.groups import Label, format_list, printable
from fairspan.typing import FloatArray, IntegerArray

__all__ = [
    "LeastSquares",
    "PrincipalComponentRegression",
    "least_squares",
    "principal_component_regression",
]
# A column whose variance given the others is at most this share of its own counts as dependent:
# fewer than four of float64's digits of its coefficient would be more than rounding.
_MIN_TOLERANCE = 1e-12
# Below this share of what its parts add up to, a variance is rounding.
_VARIANCE_ROUNDING = 1e-13
# Parts of a dependent column smaller than this share of it are rounding.
_MIN_LOADING = 1e-6
_MAX_LISTED_COLUMNS = 12
# Degrees of freedom that are only rounding.
_FREEDOM_ROUNDING = 1e-6


@dataclass(frozen=True, eq=False)
class LeastSquares:
    """A column as a linear function of the others; made by :func:`least_squares`.

    Attributes
    ----------
    target : str or int
        The column that is explained, with the name that was passed.
    feature_names : tuple of p-1 str, or None
        The other columns, in the order of the moments.
    coefficients : (p-1,) array
        In units of the target per unit of the feature.
    intercept : float
        In units of the target.
    covariance : (p, p) array
        Of the estimates, the coefficients first and the intercept last: sigma^2 (X'X)^-1 unless
        another variance was chosen.
    residual_variance : float
        sigma^2, the weighted sum of squared residuals by the degrees of freedom.
    degrees_of_freedom : int
        Rows less the number of coefficients that were estimated, the intercept among them.
    n : int
        Rows.
    r2 : float
        Share of the target's variance that is explained, over all rows.
    groups : tuple of k labels
    group_errors : (k,) array
        Mean squared error of each group's rows, in squared units of the target.
    """

    target: str | int
    feature_names: tuple[str, ...] | None
    coefficients: FloatArray
    intercept: float
    covariance: FloatArray
    residual_variance: float
    degrees_of_freedom: int
    n_rows: int
    r2: float
    groups: tuple[Label, ...]
    group_errors: FloatArray

    @property
    def standard_errors(self) -> FloatArray:
        """Standard error of each coefficient, (p-1,), in its units."""
        return np.asarray(np.sqrt(np.diag(self.covariance)[:-1]))

    @property
    def intercept_standard_error(self) -> float:
        """Standard error of the intercept."""
        return float(np.sqrt(self.covariance[-1, -1]))

    def predict(self, X: Any) -> FloatArray:
        """The target of rows, from their features.

        Parameters
        ----------
        X : (n, p-1) array or data frame
            Without the target. Columns of a frame are matched by name, in any order; others, the
            target too, are ignored.

        Returns
        -------
        (n,) array

        Raises
        ------
        InvalidInput
            A missing column, another number of features, text, NaN or infinity.
        """
        rows = feature_values(X, self.feature_names)
        if rows.shape[1] != len(self.coefficients):
            raise InvalidInput(
                f"X has {counted(rows.shape[1], 'column')}",
                f"Allowed: the {counted(len(self.coefficients), 'feature')}, without the target",
                "Pass the columns that it was fitted on",
            )
        return np.asarray(rows @ self.coefficients + self.intercept)


@dataclass(frozen=True, eq=False)
class PrincipalComponentRegression(LeastSquares):
    """Least squares on a subspace; made by :func:`principal_component_regression`.

    All of :class:`LeastSquares` is in the original features; the covariance of their coefficients
    then is of rank d at most, and is conditional on the subspace.

    Attributes
    ----------
    component_coefficients : (d,) array
        In units of the target per unit of the coordinate.
    component_intercept : float
        The target where all coordinates are zero.
    component_covariance : (d, d) array
        Of the components' coefficients.
    subspace : FairSubspace
    """

    component_coefficients: FloatArray = field(kw_only=True)
    component_intercept: float = field(kw_only=True)
    component_covariance: FloatArray = field(kw_only=True)
    subspace: FairSubspace = field(kw_only=True)

    @property
    def component_standard_errors(self) -> FloatArray:
        """Standard error of each component's coefficient, (d,)."""
        return np.asarray(np.sqrt(np.diag(self.component_covariance)))


def _target_position(moments: GroupMoments, target: str | int) -> int:
    """Position of the target among the columns.

    Raises
    ------
    InvalidInput
        No such column, no other column, or a target that does not vary.
    InvalidType
        Moments or target of another kind.
    """
    if not isinstance(moments, GroupMoments):
        raise InvalidType(
            f"moments is a {type(moments).__name__}",
            "Allowed: a GroupMoments of all columns, the target among them",
            "Make it with GroupMoments.from_rows, or matrices() of moments that refer to rows",
        )
    names, p = moments.feature_names, moments.n_features
    columns = (
        f"{counted(p, 'column')} without names"
        if names is None
        else f"the columns {format_list(names)}"
    )
    if not isinstance(target, str | SupportsIndex) or isinstance(target, bool):
        raise InvalidType(
            f"target is {target!r}",
            "Allowed: the name of a column or its position",
            f"The moments have {columns}",
        )
    positions = dict(zip(names or (), range(p), strict=False))
    position = positions.get(target, p) if isinstance(target, str) else index(target)
    if not -p <= position < p:
        raise InvalidInput(
            f"There is no column {target!r} to be the target",
            f"The moments have {columns}",
            "Name one of these columns, or give its position from 0",
        )
    if p < 2:
        raise InvalidInput(
            "The target is the only column",
            "Allowed: moments of the target and at least one feature",
            "Make the moments of all columns",
        )
    if moments.standard_deviations[position] == 0:
        raise InvalidInput(
            f"The target {target!r} has the same value in all rows",
            "Allowed: a column that varies",
            "Choose another column",
        )
    return position % p


def inverse_factor(
    covariance: FloatArray,
    deviation_bounds: FloatArray,
    mean_bounds: FloatArray,
    names: Sequence[str],
) -> FloatArray:
    """R of shape (q, q) with R'R the inverse of a covariance matrix of independent columns.

    The matrix is scaled to unit diagonal and factored by Cholesky with pivoting: R = L^-1 P' D^-1.

    Parameters
    ----------
    covariance : (q, q) array
        Symmetric and positive semidefinite up to rounding.
    parts : (q,) array
        Sum of the deviations of what each column is made of, a column's own deviation if it is
        made of nothing else.
    means : (q,) array
        Sum of the absolute means of the same. They limit how exactly the covariance is known.
    names : sequence of q str

    Raises
    ------
    InvalidInput
        Names the columns that do not vary or depend linearly on others.
    """
    shown, variances = [printable(name) for name in names], np.diag(covariance)
    constant = np.flatnonzero(variances <= _VARIANCE_ROUNDING * deviation_bounds**2)
    if len(constant):
        raise InvalidInput(
            f"These do not vary: {join_truncated([shown[i] for i in constant])}",
            "Allowed: features that vary; the intercept is the constant",
            "Leave them out",
        )
    deviations = np.sqrt(variances)
    # Means are rounded to eps |mean|, and so are the distances between those of merged parts.
    rounding = 8 * np.finfo(np.float64).eps * float((mean_bounds / deviations).max())
    scaled = covariance / np.outer(deviations, deviations)
    np.fill_diagonal(scaled, 1.0)  # or rounding would choose the first pivot
    lower, pivots, rank, _ = dpstrf(scaled, tol=max(_MIN_TOLERANCE, rounding), lower=1)
    order = pivots - 1
    if rank == len(order):
        columns = np.diag(1 / deviations)[order]
        return np.asarray(solve_triangular(np.tril(lower), columns, lower=True))
    # Each column that is left over as a combination of those that were factored.
    independent, dependent_rows = lower[:rank, :rank], lower[rank:, :rank]
    loadings = solve_triangular(independent, dependent_rows.T, lower=True, trans="T").T
    independent_columns = order[:rank]
    predictors = [
        [shown[i] for i in np.sort(independent_columns[np.abs(each) > _MIN_LOADING])]
        for each in loadings
    ]
    dependencies = [
        f"{shown[column]} depends on {join_truncated(names)}"
        for column, names in zip(order[rank:], predictors, strict=True)
    ]
    suffix = (
        f"; and {len(dependencies) - _MAX_LISTED_COLUMNS} more"
        if len(dependencies) > _MAX_LISTED_COLUMNS
        else ""
    )
    raise InvalidInput(
        f"The features are linearly dependent: {'; '.join(dependencies[:_MAX_LISTED_COLUMNS])}{suffix}",
        "Allowed: features of which none is a linear function of the others and a constant",
        "Leave out the columns named first, or regress on principal components",
    )


def least_squares(
    moments: GroupMoments | Sequence[GroupMoments],
    target: str | int,
    *,
    variance: Literal["pooled", "by_group"] = "pooled",
) -> LeastSquares:
    """Regress one column on all the others, with an intercept, over the rows of all groups.

    Minimises sum_i w_i (y_i - b_0 - x_i'b)^2. With the pooled scatter about the weighted mean,
    A of the features and a between features and target, b solves A b = a; the estimator's
    covariance is sigma^2 (X'WX)^-1 with sigma^2 = sum_i w_i r_i^2 / (n - p).

    Parameters
    ----------
    moments : GroupMoments, or sequence of them
        Of all columns, the target among them; or of at least two blocks of the rows.
    target : str or int
        Name or position of the column to explain.
    variance : {"pooled", "by_group"}
        Whether all rows have the same variance about the regression, or each group has its own. Of
        blocks neither is assumed.

    Returns
    -------
    LeastSquares

    Raises
    ------
    InvalidInput
        No such column; features that depend linearly on each other or do not vary (they are
        named); a target that does not vary; no more rows than coefficients.
    InvalidType
        `target` is neither a name nor a position.

    Notes
    -----
    Of a single `moments`, weights say how precise a row is, as in statsmodels' WLS: the degrees of
    freedom count rows, whatever they weigh, and standard errors do not change if all weights are
    doubled. A row of weight 3 gives the coefficients of three such rows, but not their standard
    errors. Where groups vary differently about the regression, use variance="by_group": with
    G = X'WX, the covariance then is G^-1 (sum_g s_g^2 X_g'W X_g) G^-1, and s_g^2 is the group's sum
    of squared residuals by n_g - tr G^-1 X_g'W X_g.

    An audit takes weights for sampling weights: a row of weight 3 represents three rows of the
    population. To take them so here, pass moments of blocks: the covariance is the
    delete-a-block jackknife's, (B - 1) / B sum_f (b_f - b)(b_f - b)' with b_f without block f and b
    their mean. That also holds where variances differ between rows and, with blocks of whole
    clusters, where rows of a cluster depend on each other. Use at least 20 blocks.

    A is scaled to unit diagonal and factored by Cholesky with pivoting (LAPACK's pstrf), and only
    triangular systems are solved. Forming A squares the condition number: a column whose variance
    given the others is below 1e-12 of its own is refused as dependent.

    Examples
    --------
    >>> import numpy as np
    >>> from fairspan import GroupMoments, regression
    >>> X = np.array([[0.0, 1.0], [1.0, 3.0], [2.0, 5.0], [3.0, 7.5]])
    >>> moments = GroupMoments.from_rows(X, ["a", "a", "b", "b"])
    >>> fit = regression.least_squares(moments, target=1)
    >>> fit.coefficients.round(6), round(fit.intercept, 6)
    (array([2.15]), 0.9)
    >>> fit.group_errors.round(6)
    array([0.00625, 0.03125])
    """
    return LeastSquares(**_fit_fields(moments, target, None, variance))


def principal_component_regression(
    moments: GroupMoments | Sequence[GroupMoments],
    target: str | int,
    subspace: Any,
    *,
    variance: Literal["pooled", "by_group"] = "pooled",
) -> PrincipalComponentRegression:
    """Regress one column on the coordinates of the others in a subspace, with an intercept.

    Minimises sum_i w_i (y_i - c_0 - z_i'c)^2 for z = C D^-1 (x - mean), where C (d, p-1) are the
    subspace's components and D its scale; the coefficients of the features are D^-1 C'c.

    Parameters
    ----------
    moments : GroupMoments, or sequence of them
    target : str or int
    variance : {"pooled", "by_group"}
        These as for :func:`least_squares`.
    subspace : FairPCA, FairSubspace, fitted PCA, IncrementalPCA or TruncatedSVD, or (d, p-1) array
        Fitted on the other columns. Matched by name where both have names, else by position.

    Returns
    -------
    PrincipalComponentRegression

    Raises
    ------
    InvalidInput
        As for :func:`least_squares`, and where the subspace is of other features.
    InvalidType
        A model of another kind, or one that is not fitted.

    Examples
    --------
    >>> import numpy as np
    >>> from fairspan import GroupMoments, regression
    >>> X = np.array([[0.0, 1, 1], [1, 0, 3], [2, 1, 5], [3, 0, 7.5]])
    >>> moments = GroupMoments.from_rows(X, ["a", "a", "b", "b"])
    >>> first = np.array([[1.0, 0.0]])
    >>> fit = regression.principal_component_regression(moments, 2, first)
    >>> fit.coefficients.round(6)
    array([2.15, 0.  ])
    """
    model = FairSubspace.from_model(subspace)
    return PrincipalComponentRegression(**_fit_fields(moments, target, model, variance))


def _fit_fields(
    moments: GroupMoments | Sequence[GroupMoments],
    target: str | int,
    model: FairSubspace | None,
    variance: str,
) -> dict[str, Any]:
    """The fields of the result, with the jackknife's covariances where there are blocks."""
    check_choice("variance", variance, ("pooled", "by_group"))
    if not isinstance(moments, list | tuple):
        return _single_fit_fields(cast(GroupMoments, moments), target, model, variance)
    if len(moments) < 2:
        raise InvalidInput(
            f"moments is a sequence of {len(moments)}",
            "Allowed: a GroupMoments, or at least two blocks",
            "Make blocks of the rows, 20 or more, and pass the moments of each",
        )
    folds = DenseFoldMoments(tuple(moments))
    figures = _single_fit_fields(folds.total, target, model, variance)
    jackknife_fits = [
        _single_fit_fields(folds.excluding(fold), target, model, variance)
        for fold in range(len(moments))
    ]

    def covariance(*names: str) -> FloatArray:
        found = np.array([np.hstack([each[name] for name in names]) for each in jackknife_fits])
        deviations = found - found.mean(axis=0)
        return np.asarray((len(deviations) - 1) / len(deviations) * deviations.T @ deviations)

    figures["covariance"] = covariance("coefficients", "intercept")
    if model is not None:
        figures["component_covariance"] = covariance("component_coefficients")
    return figures


def _single_fit_fields(
    moments: GroupMoments, target: str | int, model: FairSubspace | None, variance: str
) -> dict[str, Any]:
    """The fields of the result: least squares on the features, or on their coordinates."""
    position = _target_position(moments, target)
    predictors = np.delete(np.arange(moments.n_features), position)
    columns = moments.feature_names
    features = None if columns is None else tuple(columns[i] for i in predictors)
    if model is None:
        basis = np.eye(len(predictors))
        names = (
            [f"column {i}" for i in predictors] if features is None else list(map(repr, features))
        )
    else:
        match = _match_features(model, features, len(predictors))
        basis = (model.components / (1.0 if model.scale is None else model.scale))[:, match].T
        names = [f"component {j}" for j in range(model.n_components)]
    n = int(moments.counts.sum())
    degrees_of_freedom = n - len(names) - 1
    second = moments.second_moments("global")
    covariance = np.tensordot(moments.proportions, second, axes=1)
    abs_basis, mean, target_mean = (
        np.abs(basis).T,
        moments.mean[predictors],
        float(moments.mean[position]),
    )
    factor = inverse_factor(
        basis.T @ covariance[np.ix_(predictors, predictors)] @ basis,
        abs_basis @ moments.standard_deviations[predictors],
        abs_basis @ np.abs(mean),
        names,
    )
    if degrees_of_freedom < 1:
        raise InvalidInput(
            f"There are {n or 'an unknown number of'} rows for {len(names) + 1} coefficients, the "
            "intercept among them",
            "Allowed: more rows than coefficients, or no residual variance can be told",
            "Use more rows, fewer features, or principal components",
        )
    component_coefficients = factor.T @ (factor @ (basis.T @ covariance[predictors, position]))
    coefficients = basis @ component_coefficients
    residual = np.insert(-coefficients, position, 1.0)
    # Rounding may leave a perfect fit just below zero.
    errors = np.maximum(second @ residual @ residual, 0.0)
    mean_error = float(moments.proportions @ errors)
    # Of the coordinates' coefficients, and of the target at the mean, which are uncorrelated.
    within, q = np.zeros((len(names) + 1, len(names) + 1)), len(names)
    within[:q, :q], within[q, q] = factor.T @ factor, 1.0
    if variance == "by_group":
        means = (moments.means[:, predictors] - mean) @ basis
        within = _group_variance_covariance(
            moments,
            basis.T @ second[:, predictors][:, :, predictors] @ basis,
            means,
            within,
            errors,
        )
    else:
        within *= mean_error / degrees_of_freedom
    coefficient_map = np.block([[basis, np.zeros((len(predictors), 1))], [-mean @ basis, 1.0]])
    figures: dict[str, Any] = {
        "target": target,
        "feature_names": features,
        "coefficients": coefficients,
        "intercept": target_mean - float(coefficients @ mean),
        "covariance": coefficient_map @ within @ coefficient_map.T,
        "residual_variance": _total_weight(moments) * mean_error / degrees_of_freedom,
        "degrees_of_freedom": degrees_of_freedom,
        "n_rows": n,
        "r2": 1 - mean_error / float(covariance[position, position]),
        "groups": tuple(moments.labels),
        "group_errors": errors,
    }
    if model is None:
        return figures
    # What FairSubspace.transform subtracts: nothing, where there is no mean.
    subspace_mean = 0.0 if model.mean is None else model.mean[match]
    return figures | {
        "component_coefficients": component_coefficients,
        # About the mean of the rows, as the intercept of the features may lie far from both.
        "component_intercept": target_mean - float(coefficients @ (mean - subspace_mean)),
        "component_covariance": within[:q, :q],
        "subspace": model,
    }


def _total_weight(moments: GroupMoments) -> float:
    """Return the sum of all sample weights, which is infinite where it leaves float64."""
    with np.errstate(over="ignore"):
        return float(np.ldexp(moments.weights.sum(), moments.weight_exponent))


def _group_variance_covariance(
    moments: GroupMoments,
    second: FloatArray,
    mean_bounds: FloatArray,
    inverse: FloatArray,
    errors: FloatArray,
) -> FloatArray:
    """G^-1 (sum_g s_g^2 X_g'W X_g) G^-1 of coordinates about their mean and a constant.

    Parameters
    ----------
    moments : GroupMoments
    second : (k, q, q) array
        Second moments of each group's coordinates about the mean of all.
    means : (k, q) array
        Of each group's coordinates, about the same.
    inverse : (q + 1, q + 1) array
        G^-1 times the sum of weights.
    errors : (k,) array
        Mean squared residuals.

    Raises
    ------
    InvalidInput
        A group has too few rows for a variance of its own.
    """
    ones = np.ones((len(mean_bounds), 1))
    group_grams = np.block(
        [[second, mean_bounds[:, :, None]], [mean_bounds[:, None], ones[:, :, None]]]
    )
    group_grams *= moments.proportions[:, None, None]
    degrees_of_freedom = moments.counts - np.einsum("ij,gji->g", inverse, group_grams)
    too_few = np.flatnonzero(degrees_of_freedom <= _FREEDOM_ROUNDING)
    if len(too_few):
        names = format_list([moments.labels[i] for i in too_few])
        which = f"The group {names} has" if len(too_few) == 1 else f"The groups {names} have"
        raise InvalidInput(
            f"{which} too few rows for {'a variance' if len(too_few) == 1 else 'variances'} of "
            f"{'its' if len(too_few) == 1 else 'their'} own",
            "Allowed: groups of which some rows do not decide the regression alone",
            'Join groups, or use variance="pooled"',
        )
    # Mean squared residuals stand for sums by the sum of weights, as G^-1 does.
    middle_matrix = np.tensordot(
        moments.proportions * errors / degrees_of_freedom, group_grams, axes=1
    )
    return np.asarray(inverse @ middle_matrix @ inverse)


def _match_features(
    model: FairSubspace, features: tuple[str, ...] | None, n_features: int
) -> IntegerArray:
    """Where each feature stands among the subspace's."""
    subspace_names, has_names = (
        model.feature_names,
        features is not None and model.feature_names is not None,
    )
    same_names = sorted(features or ()) == sorted(subspace_names or ())
    if not (same_names if has_names else model.n_features == n_features):
        shown = [
            f" ({format_list(names or ())})" if has_names else ""
            for names in (subspace_names, features)
        ]
        raise InvalidInput(
            f"The subspace is of {counted(model.n_features, 'feature')}{shown[0]}",
            f"Allowed: the {counted(n_features, 'column')} besides the target{shown[1]}",
            "Fit the subspace on the columns of the moments without the target",
        )
    if features is None or subspace_names is None:
        return np.arange(n_features, dtype=np.int64)
    return np.array([subspace_names.index(name) for name in features], dtype=np.int64)
