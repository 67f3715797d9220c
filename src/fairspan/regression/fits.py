"""Least squares from the groups' moments: one column on the others, or on a subspace of them."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from fairspan.errors import InvalidInput
from fairspan.moments.group_moments import GroupMoments
from fairspan.regression.normal_equations import factored
from fairspan.regression.results import LeastSquares, PrincipalComponentRegression, Target
from fairspan.rows.groups import listed
from fairspan.subspace import FairSubspace
from fairspan.typing import FloatArray, IntegerArray


def least_squares(moments: GroupMoments, target: str | int) -> LeastSquares:
    """Regress one column on all the others, with an intercept, over the rows of all groups.

    Minimises sum_i w_i (y_i - b_0 - x_i'b)^2. With the pooled scatter about the weighted mean,
    A of the features and a between features and target, b solves A b = a; the estimator's
    covariance is sigma^2 (X'WX)^-1 with sigma^2 = sum_i w_i r_i^2 / (n - p).

    Parameters
    ----------
    moments : GroupMoments
        Of all columns, the target among them.
    target : str or int
        Name or position of the column to explain.

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
    Weights say how precise a row is, as in statsmodels' WLS: the degrees of freedom count rows,
    whatever they weigh, and standard errors do not change if all weights are doubled. A row of
    weight 3 gives the coefficients of three such rows, but not their standard errors.

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
    column = Target.of(moments, target)
    features = np.eye(len(column.features))
    return LeastSquares(**_fit(column, features, column.spelled_features).figures)


def principal_component_regression(
    moments: GroupMoments, target: str | int, subspace: Any
) -> PrincipalComponentRegression:
    """Regress one column on the coordinates of the others in a subspace, with an intercept.

    Minimises sum_i w_i (y_i - c_0 - z_i'c)^2 for z = C D^-1 (x - mean), where C (d, p-1) are the
    subspace's components and D its scale; the coefficients of the features are D^-1 C'c.

    Parameters
    ----------
    moments : GroupMoments
        Of all columns, the target among them.
    target : str or int
        Name or position of the column to explain.
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
    column = Target.of(moments, target)
    model = FairSubspace.of(subspace)
    match = _matched(model, column)
    scale = 1.0 if model.scale is None else model.scale[match]
    basis = (model.components[:, match] / scale).T
    fit = _fit(column, basis, [f"component {j}" for j in range(model.n_components)])
    # What FairSubspace.transform subtracts: nothing, where there is no mean.
    mean = np.zeros(len(match)) if model.mean is None else model.mean[match]
    # About the mean of the rows, as the intercept of the features may lie far from both.
    middle, offset = moments.mean[column.position], moments.mean[column.features] - mean
    return PrincipalComponentRegression(
        **fit.figures,
        component_coefficients=fit.coefficients,
        component_intercept=float(middle - fit.figures["coefficients"] @ offset),
        component_covariance=fit.covariance,
        subspace=model,
    )


class _Fit(NamedTuple):
    """Least squares on the coordinates x @ basis.

    Attributes
    ----------
    coefficients : (q,) array
        Of the coordinates.
    covariance : (q, q) array
        Theirs.
    figures : dict
        The fields of LeastSquares.
    """

    coefficients: FloatArray
    covariance: FloatArray
    figures: dict[str, Any]


def _fit(column: Target, basis: FloatArray, names: Sequence[str]) -> _Fit:
    moments, others = column.moments, column.features
    n = int(moments.counts.sum())
    freedom = n - len(names) - 1
    sizes, mean = np.abs(basis).T, moments.mean[others]
    factor = factored(
        basis.T @ column.covariance[np.ix_(others, others)] @ basis,
        sizes @ moments.standard_deviations[others],
        sizes @ np.abs(mean),
        names,
    )
    if freedom < 1:
        raise InvalidInput(
            f"There are {n} rows for {len(names) + 1} coefficients, the intercept among them",
            "Allowed: more rows than coefficients, or no residual variance can be told",
            "Use more rows, fewer features, or principal components",
        )
    coefficients = factor.solved(basis.T @ column.covariance[others, column.position])
    slopes = basis @ coefficients
    errors = column.group_errors(slopes)
    mean_error = float(moments.proportions @ errors)

    def covariance_of(combinations: FloatArray) -> FloatArray:
        """sigma^2 C'(X'WX)^-1 C, where sigma^2 / (sum of weights) is the mean error / freedom."""
        half = factor.half_solved(combinations)
        return np.asarray(mean_error / freedom * (half.T @ half))

    of_slopes = covariance_of(basis.T)
    across = of_slopes @ mean
    of_intercept = np.array([[mean_error / freedom + mean @ across]])
    figures = {
        "target": column.name,
        "feature_names": column.feature_names,
        "coefficients": slopes,
        "intercept": float(moments.mean[column.position] - slopes @ mean),
        "covariance": np.block([[of_slopes, -across[:, None]], [-across[None, :], of_intercept]]),
        "residual_variance": float(moments.weights.sum()) * mean_error / freedom,
        "degrees_of_freedom": freedom,
        "n": n,
        "r2": 1 - mean_error / float(column.covariance[column.position, column.position]),
        "groups": tuple(moments.labels),
        "group_errors": errors,
    }
    return _Fit(coefficients, covariance_of(np.eye(len(names))), figures)


def _matched(model: FairSubspace, column: Target) -> IntegerArray:
    """Where each feature stands among the subspace's."""
    mine, theirs = column.feature_names, model.feature_names
    if mine is not None and theirs is not None:
        fits = sorted(mine) == sorted(theirs)
        shown = f" ({listed(theirs)})", f" ({listed(mine)})"
    else:
        fits = model.n_features == len(column.features)
        shown = "", ""
    if not fits:
        raise InvalidInput(
            f"The subspace is of {model.n_features} features{shown[0]}",
            f"Allowed: the {len(column.features)} columns besides the target{shown[1]}",
            "Fit the subspace on the columns of the moments without the target",
        )
    if mine is None or theirs is None:
        return np.arange(model.n_features, dtype=np.int64)
    return np.array([theirs.index(name) for name in mine], dtype=np.int64)
