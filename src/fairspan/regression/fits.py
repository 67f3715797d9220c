"""Least squares from the groups' moments: one column on the others, or on a subspace of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from fairspan.errors import InvalidInput
from fairspan.moments.group_moments import GroupMoments
from fairspan.regression.normal_equations import Factor, factored
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
    identity = np.eye(len(column.features))
    return LeastSquares(**_fit(column, identity, column.spelled_features).in_features())


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
    figures = fit.in_features()
    # What FairSubspace.transform subtracts: nothing, where there is no mean.
    mean = np.zeros(len(match)) if model.mean is None else model.mean[match]
    return PrincipalComponentRegression(
        **figures,
        component_coefficients=fit.coefficients,
        component_intercept=fit.target_at(mean),
        component_covariance=fit.covariance,
        subspace=model,
    )


@dataclass(frozen=True, eq=False)
class _Fit:
    """Least squares on the coordinates (x - mean) @ basis."""

    column: Target
    basis: FloatArray
    factor: Factor
    coefficients: FloatArray

    @cached_property
    def slopes(self) -> FloatArray:
        """Coefficients of the features, (p-1,)."""
        return np.asarray(self.basis @ self.coefficients)

    @cached_property
    def group_errors(self) -> FloatArray:
        """Mean squared error of each group, (k,)."""
        return self.column.group_errors(self.slopes)

    @property
    def mean_error(self) -> float:
        """Mean squared error of all rows, by weight."""
        return float(self.column.moments.proportions @ self.group_errors)

    @property
    def n(self) -> int:
        """Rows."""
        return int(self.column.moments.counts.sum())

    @property
    def degrees_of_freedom(self) -> int:
        """Rows less coefficients, the intercept among them."""
        return self.n - len(self.coefficients) - 1

    @property
    def covariance(self) -> FloatArray:
        """Of the coefficients, (q, q)."""
        return self._covariance_of(np.eye(len(self.coefficients)))

    def target_at(self, point: FloatArray) -> float:
        """The fitted target at a point of the features, (p-1,)."""
        mean = self.column.moments.mean
        offset = mean[self.column.features] - point
        return float(mean[self.column.position] - self.slopes @ offset)

    def in_features(self) -> dict[str, Any]:
        """The fields of LeastSquares."""
        column = self.column
        moments, mean = column.moments, column.moments.mean[column.features]
        slopes = self._covariance_of(self.basis.T)
        across = slopes @ mean
        at_mean = self.mean_error / self.degrees_of_freedom
        covariance = np.block(
            [[slopes, -across[:, None]], [-across[None, :], np.array([[at_mean + mean @ across]])]]
        )
        total = float(column.covariance[column.position, column.position])
        weight = float(moments.weights.sum())
        return {
            "target": column.name,
            "feature_names": column.feature_names,
            "coefficients": self.slopes,
            "intercept": self.target_at(np.zeros(len(mean))),
            "covariance": covariance,
            "residual_variance": weight * self.mean_error / self.degrees_of_freedom,
            "degrees_of_freedom": self.degrees_of_freedom,
            "n": self.n,
            "r2": 1 - self.mean_error / total,
            "groups": tuple(moments.labels),
            "group_errors": self.group_errors,
        }

    def _covariance_of(self, combinations: FloatArray) -> FloatArray:
        """sigma^2 C'(X'WX)^-1 C, where sigma^2 / (sum of weights) is the mean error / freedom."""
        half = self.factor.half_solved(combinations)
        return np.asarray(self.mean_error / self.degrees_of_freedom * (half.T @ half))


def _fit(column: Target, basis: FloatArray, names: Sequence[str]) -> _Fit:
    moments, others = column.moments, column.features
    sizes = np.abs(basis).T
    factor = factored(
        basis.T @ column.covariance[np.ix_(others, others)] @ basis,
        sizes @ moments.standard_deviations[others],
        sizes @ np.abs(moments.mean[others]),
        names,
    )
    right = basis.T @ column.covariance[others, column.position]
    fit = _Fit(column, basis, factor, factor.solved(right))
    if fit.degrees_of_freedom < 1:
        raise InvalidInput(
            f"There are {fit.n} rows for {len(names) + 1} coefficients, the intercept among them",
            "Allowed: more rows than coefficients, or no residual variance can be told",
            "Use more rows, fewer features, or principal components",
        )
    return fit


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
