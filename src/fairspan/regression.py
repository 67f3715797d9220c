"""Least squares from group moments: regress one column on the others, or on a subspace of them.

Moments contain everything that least squares needs, so no rows are read: parts of the data can be
summed at different sites, and each group's mean squared error is part of the result.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from operator import index
from typing import Literal, SupportsIndex, cast

import numpy as np
from scipy.linalg import block_diag, solve_triangular
from scipy.linalg.lapack import dpstrf

from fairspan.errors import InvalidInput, InvalidType
from fairspan.formatting.messages import counted
from fairspan.formatting.names import join_truncated
from fairspan.linalg.rounding import EIGENVALUE_ROUNDING, ENTRY_TERMS, EPS, LOOSE_TOL
from fairspan.model.subspace import FairSubspace
from fairspan.moments.fold_moments import DenseFoldMoments
from fairspan.moments.group_moments import GroupMoments
from fairspan.parameters import check_choice
from fairspan.rows.frames import feature_values, open_features
from fairspan.rows.labels import Label, format_list, printable
from fairspan.typing import FloatArray, IntegerArray

__all__ = [
    "LeastSquares",
    "PrincipalComponentRegression",
    "least_squares",
    "principal_component_regression",
]
# Smallest accepted tolerance of a column, 1 - R^2 of its regression on the others, as in regression
# diagnostics: below it, its coefficient has fewer than four significant digits.
_MIN_TOLERANCE = 1e-12
# Loadings of a dependent column below this are rounding: the root of its tolerance.
_MIN_LOADING = _MIN_TOLERANCE**0.5
# Number of dependent columns that a message lists.
_MAX_LISTED_COLUMNS = 12


@dataclass(frozen=True, eq=False)
class LeastSquares:
    """Regression of a column on the others; created by :func:`least_squares`.

    Attributes
    ----------
    target : str or int
        Column that is explained, as it was passed.
    feature_names : tuple of p-1 str, or None
        The other columns, in the order of the moments.
    coefficients : (p-1,) array
        In units of the target per unit of the feature.
    intercept : float
        In units of the target.
    covariance : (p, p) array
        Covariance of the estimates, with the coefficients first and the intercept last: sigma^2
        (X'X)^-1 unless another variance was chosen.
    residual_variance : float
        sigma^2, the weighted sum of squared residuals divided by the degrees of freedom.
    degrees_of_freedom : int
        Number of rows minus number of estimated coefficients, including the intercept.
    n_rows : int
        Number of rows.
    r2 : float
        Fraction of the target's variance that is explained, over all rows.
    groups : tuple of k labels
    group_errors : (k,) array
        Mean squared error of each group, in squared units of the target.
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
        """Standard error of each coefficient, shape (p-1,)."""
        return np.asarray(np.sqrt(np.diag(self.covariance)[:-1]))

    @property
    def intercept_standard_error(self) -> float:
        """Standard error of the intercept."""
        return float(np.sqrt(self.covariance[-1, -1]))

    def predict(self, X: object) -> FloatArray:
        """Predict the target of rows from their features.

        Parameters
        ----------
        X : (n, p-1) array or data frame
            Without the target. Columns of a frame are matched by name, in any order; others,
            including the target, are ignored.

        Returns
        -------
        (n,) array

        Raises
        ------
        InvalidInput
            A missing column, a different number of features, text, NaN or infinity.
        """
        rows = feature_values(open_features(X), self.feature_names)
        if rows.shape[1] != len(self.coefficients):
            raise InvalidInput(
                f"X has {counted(rows.shape[1], 'column')}",
                f"Allowed: the {counted(len(self.coefficients), 'feature')}, without the target",
                "Pass the columns used in the fit",
            )
        return np.asarray(rows @ self.coefficients + self.intercept)


@dataclass(frozen=True, eq=False)
class PrincipalComponentRegression(LeastSquares):
    """Least squares on a subspace; created by :func:`principal_component_regression`.

    All fields of :class:`LeastSquares` refer to the original features; the covariance of their
    coefficients has rank at most d and is conditional on the subspace.

    Attributes
    ----------
    component_coefficients : (d,) array
        In units of the target per unit of the coordinate.
    component_intercept : float
        Prediction at the origin of the coordinates.
    component_covariance : (d, d) array
        Covariance of the components' coefficients.
    subspace : FairSubspace
    """

    component_coefficients: FloatArray = field(kw_only=True)
    component_intercept: float = field(kw_only=True)
    component_covariance: FloatArray = field(kw_only=True)
    subspace: FairSubspace = field(kw_only=True)

    @property
    def component_standard_errors(self) -> FloatArray:
        """Standard error of each component's coefficient, shape (d,)."""
        return np.asarray(np.sqrt(np.diag(self.component_covariance)))


def _target_position(moments: GroupMoments, target: str | int) -> int:
    """Position of the target among the columns.

    Raises
    ------
    InvalidInput
        No such column, no other column, or a constant target.
    InvalidType
        Moments or target of another type.
    """
    if not isinstance(moments, GroupMoments):
        raise InvalidType(
            f"moments is a {type(moments).__name__}",
            "Allowed: a GroupMoments of all columns, including the target",
            "Create it with GroupMoments.from_rows, or with to_dense() of other moments",
        )
    names = moments.feature_names
    p = moments.n_features
    if names is None:
        columns = f"{counted(p, 'column')} without names"
    else:
        columns = f"the columns {format_list(names)}"
    if not isinstance(target, str | SupportsIndex) or isinstance(target, bool):
        raise InvalidType(
            f"target is {target!r}",
            "Allowed: the name or the position of a column",
            f"The moments have {columns}",
        )
    positions = dict(zip(names or (), range(p), strict=False))
    # An unknown name gets the position p, which is out of range.
    position = positions.get(target, p) if isinstance(target, str) else index(target)
    if not -p <= position < p:
        raise InvalidInput(
            f"The target {target!r} is not a column of the moments",
            f"The moments have {columns}",
            "Use one of these names, or a position from 0",
        )
    if p < 2:
        raise InvalidInput(
            "The target is the only column",
            "Allowed: moments of the target and at least one feature",
            "Compute the moments of all columns",
        )
    if moments.standard_deviations[position] == 0:
        raise InvalidInput(
            f"The target {target!r} is constant",
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
    """Factor R of the inverse R'R of the covariance of linearly independent columns, shape (q, q).

    With D the diagonal matrix of the deviations, pivoted Cholesky gives P' D^-1 S D^-1 P = L L' of
    the covariance S, and R = L^-1 P' D^-1.

    Parameters
    ----------
    covariance : (q, q) array
        Symmetric and positive semidefinite up to rounding.
    deviation_bounds : (q,) array
        Upper bound on the deviation of each column, beside which a smaller one is rounding error:
        sum_j |c_j| sd_j of a column sum_j c_j x_j, and sd_j of a feature x_j itself.
    mean_bounds : (q,) array
        The same bound sum_j |c_j mean_j| on the means, whose rounding limits the accuracy of the
        covariance.
    names : sequence of q str

    Raises
    ------
    InvalidInput
        Constant or linearly dependent columns, which are named.
    """
    display_names = [printable(name) for name in names]
    variances = np.diag(covariance)
    # Smaller variances are the rounding error of the bound from which they are computed.
    constant = np.flatnonzero(variances <= EIGENVALUE_ROUNDING * deviation_bounds**2)
    if len(constant):
        raise InvalidInput(
            f"These columns are constant: {join_truncated([display_names[i] for i in constant])}",
            "Allowed: features that vary; the intercept represents the constant",
            "Drop them",
        )
    deviations = np.sqrt(variances)
    # Means are rounded to eps |mean|, and so are the differences between means of merged parts.
    rounding = EPS * ENTRY_TERMS * float((mean_bounds / deviations).max())
    scaled = covariance / np.outer(deviations, deviations)
    np.fill_diagonal(scaled, 1.0)  # otherwise rounding would choose the first pivot
    lower, pivots, rank, _ = dpstrf(scaled, tol=max(_MIN_TOLERANCE, rounding), lower=1)
    order = pivots - 1
    if rank == len(order):
        columns = np.diag(1 / deviations)[order]
        return np.asarray(solve_triangular(np.tril(lower), columns, lower=True))
    raise _dependent_columns_error(lower, order, rank, display_names)


def _dependent_columns_error(
    lower: FloatArray, order: IntegerArray, rank: int, names: Sequence[str]
) -> InvalidInput:
    """Error that lists each dependent column with the columns that it depends on.

    Parameters
    ----------
    lower : (q, q) array
        Pivoted Cholesky factor, of which the first `rank` columns are valid.
    order : (q,) array of int
        Columns in the order of the factor.
    rank : int
    names : sequence of q str
    """
    # Express each remaining column as a combination of the factorized ones: with L the factor and 1
    # and 2 its independent and dependent rows, the loadings are L_2 L_1^-1.
    independent_rows = lower[:rank, :rank]
    dependent_rows = lower[rank:, :rank]
    loadings = solve_triangular(independent_rows, dependent_rows.T, lower=True, trans="T").T
    dependencies = []
    for column, column_loadings in zip(order[rank:], loadings, strict=True):
        predictors = np.sort(order[:rank][np.abs(column_loadings) > _MIN_LOADING])
        predictor_names = join_truncated([names[i] for i in predictors])
        dependencies.append(f"{names[column]} depends on {predictor_names}")
    listed = "; ".join(dependencies[:_MAX_LISTED_COLUMNS])
    n_more = len(dependencies) - _MAX_LISTED_COLUMNS
    suffix = f"; and {n_more} more" if n_more > 0 else ""
    return InvalidInput(
        f"The features are linearly dependent: {listed}{suffix}",
        "Allowed: features that are linearly independent of each other and of a constant",
        "Drop the columns named first, or regress on principal components",
    )


def least_squares(
    moments: GroupMoments | Sequence[GroupMoments],
    target: str | int,
    *,
    variance: Literal["pooled", "by_group"] = "pooled",
) -> LeastSquares:
    """Regress one column on all others, with an intercept, over the rows of all groups.

    Minimizes sum_i w_i (y_i - b_0 - x_i'b)^2. With the pooled scatter matrix A of the features and
    a of features and target, both about the weighted mean, b solves A b = a; the covariance of the
    estimator is sigma^2 (X'WX)^-1 with sigma^2 = sum_i w_i r_i^2 / (n - p).

    Parameters
    ----------
    moments : GroupMoments, or sequence of them
        Of all columns, including the target; a sequence holds the moments of at least two blocks of
        rows.
    target : str or int
        Name or position of the column to explain.
    variance : {"pooled", "by_group"}
        Whether all rows share one residual variance or each group has its own. Irrelevant for
        blocks, which assume neither.

    Returns
    -------
    LeastSquares

    Raises
    ------
    InvalidInput
        No such column; linearly dependent or constant features (which are named); a constant
        target; or no more rows than coefficients.
    InvalidType
        `target` is neither a name nor a position.

    Notes
    -----
    For a single `moments`, weights are precisions, as in the WLS of statsmodels: degrees of freedom
    count rows regardless of weight, and doubling all weights leaves standard errors unchanged. A
    row of weight 3 gives the coefficients, but not the standard errors, of three such rows. If the
    groups have different residual variances, use variance="by_group": with G = X'WX the covariance
    is G^-1 (sum_g s_g^2 X_g'W X_g) G^-1, where s_g^2 is the group's sum of squared residuals
    divided by n_g - tr G^-1 X_g'W X_g.

    An audit treats weights as sampling weights: a row of weight 3 represents three rows of the
    population. For that interpretation here, pass the moments of blocks: the covariance is then
    that of the delete-a-block jackknife, (B - 1) / B sum_f (b_f - b)(b_f - b)' with b_f fitted
    without block f and b their mean. It is also valid if variances differ between rows and, with
    blocks of whole clusters, if rows within clusters are dependent. Use at least 20 blocks.

    A is scaled to unit diagonal and factorized by pivoted Cholesky (LAPACK's pstrf), and only
    triangular systems are solved. Forming A squares the condition number: a column whose variance
    given the others is below 1e-12 of its own is rejected as dependent.

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
    return _fit(moments, target, None, variance).least_squares


def principal_component_regression(
    moments: GroupMoments | Sequence[GroupMoments],
    target: str | int,
    subspace: object,
    *,
    variance: Literal["pooled", "by_group"] = "pooled",
) -> PrincipalComponentRegression:
    """Regress one column on the coordinates of the others in a subspace, with an intercept.

    Minimizes sum_i w_i (y_i - c_0 - z_i'c)^2 for z = C D^-1 (x - mean), where C (d, p-1) are the
    subspace's components and D its scale; the coefficients of the features are D^-1 C'c.

    Parameters
    ----------
    moments : GroupMoments, or sequence of them
        Moments of all columns, or those of at least two blocks of rows; see :func:`least_squares`.
    target : str or int
        Name or position of the column y.
    variance : {"pooled", "by_group"}
        Whether standard errors assume one residual variance for all groups or one for each; see
        :func:`least_squares`.
    subspace : FairPCA, FairSubspace, fitted PCA, IncrementalPCA or TruncatedSVD, or (d, p-1) array
        Fitted on the other columns. Features are matched by name if both have names, else by
        position.

    Returns
    -------
    PrincipalComponentRegression

    Raises
    ------
    InvalidInput
        As for :func:`least_squares`; or the subspace has other features.
    InvalidType
        A model of an unsupported type, or one that is not fitted.

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
    fit = _fit(moments, target, model, variance)
    return PrincipalComponentRegression(
        **vars(fit.least_squares),
        component_coefficients=fit.component_coefficients,
        component_intercept=fit.component_intercept,
        component_covariance=fit.component_covariance,
        subspace=model,
    )


@dataclass(frozen=True, eq=False)
class _CoordinateFit:
    """Regression on the q coordinates of a design: the features themselves, without a subspace.

    Attributes
    ----------
    least_squares : LeastSquares
        The same regression in terms of the features.
    component_coefficients : (q,) array
    component_intercept : float
        Prediction at the origin of the coordinates.
    component_covariance : (q, q) array
        Covariance of the coordinates' coefficients.
    """

    least_squares: LeastSquares
    component_coefficients: FloatArray
    component_intercept: float
    component_covariance: FloatArray

    @property
    def feature_estimates(self) -> FloatArray:
        """Coefficients of the features, and the intercept last, shape (p,)."""
        return np.append(self.least_squares.coefficients, self.least_squares.intercept)


def _fit(
    moments: GroupMoments | Sequence[GroupMoments],
    target: str | int,
    model: FairSubspace | None,
    variance: str,
) -> _CoordinateFit:
    """Fit one set of moments, or blocks.

    For a sequence of blocks, the fit to all of them, with covariances from the fits that each leave
    one block out (the jackknife).
    """
    check_choice("variance", variance, ("pooled", "by_group"))
    if not isinstance(moments, list | tuple):
        return _fit_moments(cast(GroupMoments, moments), target, model, variance)
    if len(moments) < 2:
        raise InvalidInput(
            f"moments is a sequence of {len(moments)}",
            "Allowed: a GroupMoments, or at least two blocks",
            "Split the rows into 20 or more blocks, and pass the moments of each",
        )
    folds = DenseFoldMoments(tuple(moments))
    fit = _fit_moments(folds.total, target, model, variance)
    jackknife_fits = [
        _fit_moments(folds.excluding(fold), target, model, variance) for fold in range(len(moments))
    ]
    covariance = _jackknife_covariance([left_out.feature_estimates for left_out in jackknife_fits])
    return replace(
        fit,
        least_squares=replace(fit.least_squares, covariance=covariance),
        component_covariance=_jackknife_covariance(
            [left_out.component_coefficients for left_out in jackknife_fits]
        ),
    )


def _jackknife_covariance(estimates: Sequence[FloatArray]) -> FloatArray:
    """Covariance (B - 1) / B sum_f (b_f - b)(b_f - b)' of B estimates that leave one block out."""
    deviations = np.array(estimates) - np.mean(estimates, axis=0)
    return np.asarray((len(deviations) - 1) / len(deviations) * deviations.T @ deviations)


@dataclass(frozen=True, eq=False)
class _Design:
    """Predictors of a regression: the features, or their coordinates in a subspace.

    Attributes
    ----------
    position : int
        Position of the target among the columns.
    predictors : (p-1,) array of int
        Positions of the other columns, the features.
    feature_names : tuple of p-1 str, or None
    subspace_mean : (p-1,) array, or 0
        Origin of the coordinates, in the order of the features.
    basis : (p-1, q) array
        Maps centered features to the q coordinates.
    coordinate_names : list of q str
        For messages.
    """

    position: int
    predictors: IntegerArray
    feature_names: tuple[str, ...] | None
    subspace_mean: FloatArray | float
    basis: FloatArray
    coordinate_names: list[str]


def _design(moments: GroupMoments, target: str | int, model: FairSubspace | None) -> _Design:
    """Design of a regression on the features, or on their coordinates in the subspace of a model.

    Raises
    ------
    InvalidInput, InvalidType
        There is no such target, or the subspace has other features.
    """
    position = _target_position(moments, target)
    predictors = np.delete(np.arange(moments.n_features), position)
    columns = moments.feature_names
    features = None if columns is None else tuple(columns[i] for i in predictors)
    if model is not None:
        subspace_positions = _match_features(model, features, len(predictors))
        frame = model.row_frame
        # Components act on scaled features; the basis acts on features in the order of `moments`.
        basis = (model.components / frame.scale)[:, subspace_positions].T
        names = [f"component {j}" for j in range(model.n_components)]
        subspace_mean = frame.center[subspace_positions]
        return _Design(position, predictors, features, subspace_mean, basis, names)
    names = [f"column {i}" for i in predictors] if features is None else list(map(repr, features))
    return _Design(
        position,
        predictors,
        features,
        subspace_mean=0.0,
        basis=np.eye(len(predictors)),  # the coordinates are the features
        coordinate_names=names,
    )


def _fit_moments(
    moments: GroupMoments, target: str | int, model: FairSubspace | None, variance: str
) -> _CoordinateFit:
    """Fit one set of moments, on the features or on their coordinates in the subspace of a model.

    The coordinates are z = B'(x - mean) for the basis B of the design, an identity without a
    subspace; c are their coefficients and Bc those of the features. The design is the choice of the
    target, the features and B. Returns the regression in terms of both.
    """
    design = _design(moments, target, model)
    basis = design.basis
    second_moments = moments.second_moments("global")
    covariance = np.tensordot(moments.proportions, second_moments, axes=1)
    mean = moments.mean[design.predictors]
    target_mean = float(moments.mean[design.position])
    factor = _inverse_covariance_factor(moments, design, covariance)
    degrees_of_freedom = _residual_degrees_of_freedom(moments, len(design.coordinate_names))
    target_covariances = covariance[design.predictors, design.position]
    component_coefficients = factor.T @ (factor @ (basis.T @ target_covariances))
    coefficients = basis @ component_coefficients
    # Loadings of the residual on all columns: one on the target, minus the coefficients elsewhere.
    residual = np.insert(-coefficients, design.position, 1.0)
    # Rounding may make the error of a perfect fit slightly negative.
    errors = np.maximum(second_moments @ residual @ residual, 0.0)
    mean_error = float(moments.proportions @ errors)
    component_covariance = _component_covariance(
        moments, design, second_moments, factor, errors, degrees_of_freedom, variance
    )
    least_squares_fit = LeastSquares(
        target=target,
        feature_names=design.feature_names,
        coefficients=coefficients,
        intercept=target_mean - float(coefficients @ mean),
        covariance=_feature_covariance(basis, mean, component_covariance),
        residual_variance=_total_weight(moments) * mean_error / degrees_of_freedom,
        degrees_of_freedom=degrees_of_freedom,
        n_rows=int(moments.counts.sum()),
        r2=1 - mean_error / float(covariance[design.position, design.position]),
        groups=tuple(moments.labels),
        group_errors=errors,
    )
    return _CoordinateFit(
        least_squares_fit,
        component_coefficients,
        # Computed from the mean of the rows: the intercept of the features may be far from both.
        component_intercept=target_mean - float(coefficients @ (mean - design.subspace_mean)),
        component_covariance=component_covariance[:-1, :-1],
    )


def _inverse_covariance_factor(
    moments: GroupMoments, design: _Design, covariance: FloatArray
) -> FloatArray:
    """Return F, (q, q), such that F'F is the inverse of the covariance of the coordinates.

    `covariance` is that of all columns over all rows, (p, p).
    """
    basis = design.basis
    predictors = design.predictors
    return inverse_factor(
        basis.T @ covariance[np.ix_(predictors, predictors)] @ basis,
        deviation_bounds=np.abs(basis).T @ moments.standard_deviations[predictors],
        mean_bounds=np.abs(basis).T @ np.abs(moments.mean[predictors]),
        names=design.coordinate_names,
    )


def _component_covariance(
    moments: GroupMoments,
    design: _Design,
    second_moments: FloatArray,
    factor: FloatArray,
    errors: FloatArray,
    degrees_of_freedom: int,
    variance: str,
) -> FloatArray:
    """Covariance of the coordinates' coefficients and the prediction at the mean, (q + 1, q + 1).

    Parameters
    ----------
    moments : GroupMoments
    design : _Design
    second_moments : (k, p, p) array
        Of the groups, about the mean of all rows.
    factor : (q, q) array
        See :func:`_inverse_covariance_factor`.
    errors : (k,) array
        Mean squared residual of each group.
    degrees_of_freedom : int
    variance : {"pooled", "by_group"}
    """
    # Up to the residual variance. Both are uncorrelated if it is the same for all groups.
    relative_covariance = block_diag(factor.T @ factor, 1.0)
    if variance != "by_group":
        # sigma^2 (X'WX)^-1: both factors are in proportion to the total weight, which cancels.
        mean_error = float(moments.proportions @ errors)
        return np.asarray(relative_covariance * (mean_error / degrees_of_freedom))
    basis = design.basis
    predictors = design.predictors
    return _group_variance_covariance(
        moments,
        basis.T @ second_moments[:, predictors][:, :, predictors] @ basis,
        (moments.means[:, predictors] - moments.mean[predictors]) @ basis,
        relative_covariance,
        errors,
    )


def _feature_covariance(
    basis: FloatArray, mean: FloatArray, component_covariance: FloatArray
) -> FloatArray:
    """Covariance of the features' coefficients and the intercept, shape (p, p).

    `component_covariance` is that of the coordinates' coefficients c and of the prediction at the
    mean of the rows; the features have the coefficients Bc, with the (p-1, q) `basis` B.
    """
    coefficient_map = np.block([[basis, np.zeros((len(basis), 1))], [-mean @ basis, 1.0]])
    return np.asarray(coefficient_map @ component_covariance @ coefficient_map.T)


def _residual_degrees_of_freedom(moments: GroupMoments, n_coordinates: int) -> int:
    """Compute the number of rows less the number of coefficients, the intercept included.

    Raises
    ------
    InvalidInput
        There are no more rows than coefficients.
    """
    # Counts of zero are unknown, as those of moments built from covariances.
    n_rows = int(moments.counts.sum())
    n_coefficients = n_coordinates + 1
    if n_rows <= n_coefficients:
        raise InvalidInput(
            f"There are {n_rows or 'an unknown number of'} rows for {n_coefficients} coefficients, "
            "including the intercept",
            "Allowed: more rows than coefficients, which the residual variance requires",
            "Use more rows, fewer features, or principal components",
        )
    return n_rows - n_coefficients


def _total_weight(moments: GroupMoments) -> float:
    """Sum of all sample weights, infinite if it exceeds float64."""
    with np.errstate(over="ignore"):
        return float(np.ldexp(moments.weights.sum(), moments.weight_exponent))


def _group_variance_covariance(
    moments: GroupMoments,
    second_moments: FloatArray,
    means: FloatArray,
    inverse: FloatArray,
    errors: FloatArray,
) -> FloatArray:
    """Sandwich covariance G^-1 (sum_g s_g^2 X_g'W X_g) G^-1 of centered coordinates and a constant.

    Each row of X holds the q coordinates of a row of the data and a one, W the sample weights, G is
    X'WX, X_g the rows of group g and s_g^2 its residual variance. Shape (q + 1, q + 1).

    Parameters
    ----------
    moments : GroupMoments
    second_moments : (k, q, q) array
        Second moments of each group's coordinates about the overall mean.
    means : (k, q) array
        Mean of each group's coordinates, relative to the overall mean.
    inverse : (q + 1, q + 1) array
        G^-1 times the sum of weights.
    errors : (k,) array
        Mean squared residual of each group.

    Raises
    ------
    InvalidInput
        A group has too few rows to estimate its variance.
    """
    ones = np.ones((len(means), 1))
    group_grams = np.block(
        [[second_moments, means[:, :, None]], [means[:, None], ones[:, :, None]]]
    )
    group_grams *= moments.proportions[:, None, None]
    # Degrees of freedom of a group: its rows less the sum of their leverages, tr G^-1 X_g'W X_g.
    degrees_of_freedom = moments.counts - np.einsum("ij,gji->g", inverse, group_grams)
    # A group whose residuals are zero in every regression has none, up to rounding.
    too_few = np.flatnonzero(degrees_of_freedom <= LOOSE_TOL)
    if len(too_few):
        names = format_list([moments.labels[i] for i in too_few])
        if len(too_few) == 1:
            reason = f"The group {names} has too few rows to estimate a variance of its own"
        else:
            reason = f"The groups {names} have too few rows to estimate variances of their own"
        raise InvalidInput(
            reason,
            "Allowed: groups that do not determine the regression by themselves",
            'Merge groups, or use variance="pooled"',
        )
    # X_g'W X_g is divided by the sum of weights here and G^-1 multiplied by it, so the residual
    # variance must be divided by it: the group's share times its mean squared residual.
    variances = moments.proportions * errors / degrees_of_freedom
    middle_matrix = np.tensordot(variances, group_grams, axes=1)
    return np.asarray(inverse @ middle_matrix @ inverse)


def _match_features(
    model: FairSubspace, features: tuple[str, ...] | None, n_features: int
) -> IntegerArray:
    """Position of each feature among those of the subspace, shape (n_features,).

    By name if both have names; otherwise their order must be the same, and only the number is
    checked.

    Raises
    ------
    InvalidInput
        The subspace has other features.
    """
    subspace_names = model.feature_names
    if features is None or subspace_names is None:
        if model.n_features != n_features:
            raise _feature_mismatch(model.n_features, n_features)
        return np.arange(n_features, dtype=np.int64)
    if sorted(features) != sorted(subspace_names):
        raise _feature_mismatch(
            model.n_features,
            n_features,
            model_names=f" ({format_list(subspace_names)})",
            names=f" ({format_list(features)})",
        )
    return np.array([subspace_names.index(name) for name in features], dtype=np.int64)


def _feature_mismatch(
    n_model_features: int, n_features: int, *, model_names: str = "", names: str = ""
) -> InvalidInput:
    return InvalidInput(
        f"The subspace is of {counted(n_model_features, 'feature')}{model_names}",
        f"Allowed: the {counted(n_features, 'column')} besides the target{names}",
        "Fit the subspace on the columns of the moments without the target",
    )
