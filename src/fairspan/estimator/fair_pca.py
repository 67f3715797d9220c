"""FairPCA: fair principal component analysis as a scikit-learn estimator."""

from collections.abc import Callable, Collection
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, ClassVar, cast

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from fairspan.errors import (
    Cause,
    FairspanError,
    IncompatibleParameters,
    InvalidInput,
    InvalidParameter,
    caller_remedies,
    warn,
)
from fairspan.estimator.features import in_order_of_features, set_or_check_features
from fairspan.estimator.fit import Fit, fit_rows
from fairspan.estimator.fit_settings import FitSettings
from fairspan.estimator.whitening import check_orthonormal_components, whiten_subspace
from fairspan.linalg.rounding import EIGENVALUE_ROUNDING
from fairspan.model.projected_moments import score_map, second_moments_and_projector
from fairspan.model.subspace import Rotation
from fairspan.moments.base_moments import Center
from fairspan.moments.compute import Moments, compute_moments, not_moments_error
from fairspan.moments.group_moments import compute_group_moments
from fairspan.parameters import DataclassInstance, check_bool, check_choice, init_parameters
from fairspan.problem.criteria.criterion import Criterion
from fairspan.problem.criteria.criterion_catalog import get_criterion
from fairspan.problem.disparity import signed_disparity
from fairspan.problem.part_parameters import check_n_components
from fairspan.problem.restrictions.restriction import Restriction
from fairspan.problem.restrictions.restriction_catalog import get_restriction
from fairspan.rows.aggregation import Rows
from fairspan.rows.blocks import ON_MISSING, OnMissing, keeps_missing
from fairspan.rows.frames import drop_columns, float_dtype, open_features
from fairspan.rows.group_limit import GroupLimit
from fairspan.rows.label_checks import label_warnings, many_groups_warning
from fairspan.rows.label_resolution import SingleGroup
from fairspan.rows.labels import Label
from fairspan.rows.opening import (
    feature_blocks,
    is_row_source,
    map_rows,
    open_group_rows,
    open_rows,
    row_remedies,
    warn_about_unused_categories,
)
from fairspan.rows.protocol import RowsInfo, row_metadata
from fairspan.rows.row_remedies import group_limit_remedies
from fairspan.solvers.auto import Auto, resolve_solver
from fairspan.solvers.solver import Solver
from fairspan.typing import (
    FloatArray,
    LabelsLike,
    RandomSource,
    TableLike,
    WeightsLike,
)

# How a hint names the call that takes parameters about rows.
_CALL = "FairPCA({})"
_INCOMPLETE_PARTS_REMEDY = (
    'Fit all rows at once with FairPCA(on_missing="em"), or drop incomplete rows of each part with '
    'FairPCA(on_missing="drop")'
)
# Label of the only group if groups are deliberately missing.
_SINGLE_GROUP_LABEL = "all"
# Parameters that are objects, whose fields are nested parameters such as criterion__penalty.
_OBJECT_PARAMETERS: dict[str, Callable[[object], object]] = {
    "criterion": get_criterion,
    "restriction": get_restriction,
    "solver": resolve_solver,
}


@dataclass(frozen=True, eq=False)
class _OpenedRows:
    """Rows that were passed to a fit.

    Attributes
    ----------
    rows : RowSource or PartitionedRows
    has_groups : bool
        Whether groups were passed, rather than deliberately omitted.
    reserved_columns : tuple of str
        Columns that are groups, weights or classes, and no features.
    """

    rows: Rows
    has_groups: bool
    reserved_columns: tuple[str, ...]


class FairPCA(
    TransformerMixin,  # type: ignore[misc]
    ClassNamePrefixFeaturesOutMixin,  # type: ignore[misc]
    BaseEstimator,  # type: ignore[misc]
):
    """Principal component analysis that minimizes a fairness criterion instead of the total error.

    Finds the d-dimensional subspace that minimizes a criterion of the groups' reconstruction errors
    e_g(V) = tr S_g - tr(V'S_gV), where S_g is the second moment of group g and V an orthonormal
    basis. `solution_` certifies how close to optimal it is. `fit` requires the groups, `transform`
    does not.

    A **criterion** defines how the group errors are weighed. A **restriction** serves another goal,
    hiding the group: it removes differences between the groups from the transformed rows, even at
    the cost of larger errors. With both, the criterion is minimized over the subspaces that the
    restriction allows.

    Parameters
    ----------
    n_components : int or float, default=2
        d, from 1 to the number of features. A float between 0 and 1 is a fraction of variance: the
        smallest d at which **every group** keeps that fraction of its own variance, for the given
        criterion and restriction.
    criterion : str or object, default="minimax_loss"
        Function to minimize, by name with default parameters, or as an object:

        - "minimax_loss", `MinimaxLoss()`: largest excess loss of a group (Samadi et al. 2018)
        - "minimax_error", `MinimaxError()`: largest error of a group
        - "least_variance", `LeastVariance()`: minus the smallest variance kept by a group
        - `MinimaxLoss(relative=True)`, `MinimaxError(relative=True)`: the same relative to the
          groups' variances
        - "total_error", `TotalError()`: error over all rows, ordinary PCA
        - "disparity", `Disparity(trade_off, protected)`: trade-off between the total error and the
          signed gap of two groups
        - "equal_error", `EqualError(tolerance)`: total error subject to equal errors of two groups,
          up to the tolerance
        - "error_gap", `ErrorGap(penalty)`: total error plus a penalty on the largest gap (Vu et al.
          2022)
        - "robust_error_gap", `RobustErrorGap(penalty, radius)`: the same for the worst-case
          distribution near each group's rows
        - "nash_welfare", `NashWelfare()`: minus the mean logarithm of the variances kept
    restriction : str or object, default=None
        Differences that transformed rows must not show, by name with default parameters, or as an
        object:

        - `MeanParity()`: all groups have the same mean after the transformation
        - `MeanParity(attributes="marginal")`: the same for the categories of each of several
          attributes
        - `MeanParity(within_classes="all")`: equal means within each class of y
        - `MeanParity(keep_outcome=True)`: equal means, while the covariance with y is kept
        - `MeanParity(oblique=True)`: rows are shifted first, which keeps more variance; total
          error only
        - `MeanParity(tolerance)`: the distance of two groups' means is limited; total error only
        - `CovarianceParity(n_directions)`: equal means and, for two groups, nearly equal
          covariances
        - `CovarianceParity(tolerance=...)`: the difference of two groups' variances along any
          direction is limited; total error only
        - `Uncorrelated(columns)`: transformed rows are uncorrelated with these columns

        Excess losses are still measured against the best unrestricted subspace.
    center : {"global", "group", "none"}, default="global"
        Point about which errors are measured: the mean of all rows, each group's own mean (as in
        Samadi et al.), or the origin.
    scale : bool, default=False
        Divide each feature by its pooled standard deviation (ddof 0). Errors, and tolerances of
        restrictions, are then in those units. On the command line: ``--standardize``.
    solver : str or object, default="auto"
        Solver, by name with default parameters, or as an object:

        - "auto": the first of the next two that supports the problem; see `solver_`
        - "boundary", `BoundarySearch()`: exact for two groups and all criteria but Nash welfare
        - "dual_newton", `DualNewton()`: every criterion, any number of groups
        - "multiplicative", `MultiplicativeWeights()`; "semidefinite", `Semidefinite()`;
          "riemannian", `RiemannianSubgradient()`: the published algorithms, for reference
    tol : float, default=1e-9
        Largest gap that counts as optimal, relative to the objective.
    allow_extra : bool, default=False
        Allow a soft projection with more than d components if only that attains the optimum. For
        one and two groups exactly d always suffice, so nothing changes.
    nested : bool, default=False
        Compute components one at a time, each optimal for one dimension in the orthogonal
        complement of the previous ones. The first components are then a solution for every smaller
        d, available as `subspace_.truncate(d)`, and `solution_` has a certificate of each step.
        Supported with "minimax_loss", "minimax_error", "least_variance" and "total_error", and with
        no restriction or exact `MeanParity`.
    whiten : bool, default=False
        Divide each coordinate of transformed rows by its standard deviation over all rows, the
        square root of `explained_variance_`; `inverse_transform` undoes this. Errors and losses do
        not change. Requires orthonormal components along which the rows vary.
    rotation : {"varimax"} or None, default=None
        Rotate the components inside the subspace, so that their loadings are easier to name
        (:meth:`FairSubspace.rotate`); ordered by variance again. Errors, losses and the certificate
        do not change. Not with `nested` or `whiten`.
    missing_groups : {"error", "ignore"}, default="error"
        What to do without `sensitive_features`: raise, or treat all rows as one group, which is
        ordinary PCA.
    on_missing : {"error", "drop", "em", "em-drop-empty"}, default="error"
        What to do with rows with missing features (NaN): raise, drop them, or fit to the observed
        cells: the moments of each group then maximize its likelihood (EM algorithm), and rows to
        transform may have missing cells too (`GroupMoments.from_rows`). Assumes that cells are
        missing at random. With "em" a row without any observed feature is an error;
        "em-drop-empty" drops such rows.
    max_groups : int or None, default=None
        Maximum number of groups. None allows 100: more suggest an identifier or a continuous
        number.
    random_state : int, Generator, RandomState or None
        Used by solvers with random starts; the default solver has none.

    Attributes
    ----------
    components_ : (r, p) array
        Orthonormal rows in decreasing order of pooled variance, or nested components in the order
        of their steps; the largest loading of each is positive. r = d, except for a soft
        projection, whose r > d rows are sqrt(lambda_j) u_j. For an oblique restriction, the
        encoder, whose rows are not orthonormal (`subspace_.encoder`, `subspace_.decoder`).
    mean_ : (p,) array
        Weighted mean of all rows for center "global" and "group", zero for "none".
    scale_ : (p,) array or None
    n_components_ : int
        r, the number of columns of transformed rows; the d that was found if a fraction was
        requested.
    explained_variance_ : (r,) array
        Pooled variance kept by each component, divided by the total weight (not n - 1).
    explained_variance_ratio_ : (r,) array
        The same as a fraction of the total variance.
    singular_values_ : (r,) array
        Square root of `explained_variance_` times the total weight.
    noise_variance_ : float
        Mean variance of the p - d directions outside the subspace.
    n_samples_seen_ : int
        Number of rows seen by fit.
    groups_ : (k,) array
        Labels in sorted order, which all `group_` attributes follow.
    group_errors_ : (k,) array
        e_g, mean squared reconstruction error of each group.
    group_losses_ : (k,) array
        l_g = e_g - e*_g, excess loss of each group over its own best subspace.
    group_explained_variance_ratio_ : (k, r) array
        Fraction of each group's variance kept by each component, adding up to 1 - e_g / tr S_g; NaN
        for a group without variance. Negative if an oblique component increases a group's error.
    disparity_ : float
        Error of the second group minus the first for two groups; otherwise the largest pairwise
        gap.
    moments_ : GroupMoments, SparseMoments or WideMoments
        WideMoments for rows in memory with more than 100 features that are at most 0.8 times as
        many as the features; for sparse rows, with more than 1500 features p, and at most
        sqrt(50 p) rows. SparseMoments for more sparse rows, whose solution is at best estimated.
        Both keep the rows, so save `subspace_` rather than the estimator; `moments_.to_dense()`
        can be merged and saved. WideMoments refer to X instead of copying it, unless X is sparse:
        if X has been changed, they raise InvalidInput, while the model itself remains as it was
        fitted.
    subspace_ : FairSubspace
        The projection alone, to save or deploy.
    solution_ : Certificate
        Objective, lower bound, gap and status; for nested components also `steps`.
    solver_ : str
    n_features_in_ : int
    feature_names_in_ : (p,) array of str
        Only if the columns have names.

    Notes
    -----
    Within the subspace the covariance is that of the rows; outside of it, noise has the same
    variance in every direction, as in probabilistic PCA (Tipping and Bishop 1999). It is about the
    center of the fit, in (scaled) units of the features.

    For two groups every criterion attains its optimum at a boundary point of the achievable errors,
    which a subspace of exactly d dimensions reaches; the solvers find it with one symmetric
    eigenproblem per step. For more groups a gap may remain, which `solution_` then reports.

    Fields of criterion, restriction and solver are nested parameters, such as `criterion__penalty`
    in a grid search.

    References
    ----------
    Samadi, Tantipongpipat, Morgenstern, Singh, Vempala (2018). The Price of Fair PCA: One Extra
    Dimension. NeurIPS.

    Tantipongpipat, Samadi, Singh, Morgenstern, Vempala (2019). Multi-Criteria Dimensionality
    Reduction with Applications to Fairness. NeurIPS.

    Vu, Tran, Yue, Nguyen (2022). Distributionally Robust Fair Principal Components via Geodesic
    Descents. ICLR.

    Olfat, Aswani (2019). Convex Formulations for Fair Principal Component Analysis. AAAI.

    Kleindessner, Donini, Russell, Zafar (2023). Efficient fair PCA for fair representation
    learning. AISTATS.

    Examples
    --------
    >>> import numpy as np
    >>> from fairspan import FairPCA
    >>> X = np.array([[3.0, 0], [-3, 0], [0, 2], [0, -2]])
    >>> groups = ["a", "a", "b", "b"]
    >>> FairPCA(1, criterion="total_error").fit(X, sensitive_features=groups).group_losses_
    array([0., 4.])
    >>> fair = FairPCA(1).fit(X, sensitive_features=groups)
    >>> fair.group_losses_.round(6)
    array([2.769231, 2.769231])
    >>> fair.solution_.status == "optimal"
    True
    """

    n_features_in_: int
    # Columns used as groups or weights in fit, which are not features.
    _reserved_columns: tuple[str, ...]
    __metadata_request__fit: ClassVar[dict[str, bool]] = {"sensitive_features": True}
    __metadata_request__partial_fit: ClassVar[dict[str, bool]] = {"sensitive_features": True}

    def __init__(
        self,
        n_components: int | float = 2,
        *,
        criterion: str | Criterion = "minimax_loss",
        restriction: str | Restriction | None = None,
        center: Center = "global",
        scale: bool = False,
        solver: str | Solver | Auto = "auto",
        tol: float = 1e-9,
        allow_extra: bool = False,
        nested: bool = False,
        whiten: bool = False,
        rotation: Rotation | None = None,
        missing_groups: str = "error",
        on_missing: OnMissing = "error",
        max_groups: int | None = None,
        random_state: RandomSource = None,
    ) -> None:
        # Validated in fit, as scikit-learn requires.
        self.n_components = n_components
        self.criterion = criterion
        self.restriction = restriction
        self.center = center
        self.scale = scale
        self.solver = solver
        self.tol = tol
        self.allow_extra = allow_extra
        self.nested = nested
        self.whiten = whiten
        self.rotation = rotation
        self.missing_groups = missing_groups
        self.on_missing = on_missing
        self.max_groups = max_groups
        self.random_state = random_state

    def get_params(self, deep: bool = True) -> dict[str, object]:
        """Return the parameters of this estimator.

        Parameters
        ----------
        deep : bool
            Include the fields of criterion, restriction and solver, such as `criterion__penalty`.

        Returns
        -------
        dict of str to value
        """
        parameters: dict[str, object] = super().get_params(deep=deep)
        if not deep:
            return parameters
        for name in _OBJECT_PARAMETERS:
            value = _parameter_object(name, parameters[name])
            for field_name, field_value in init_parameters(value).items():
                parameters[f"{name}__{field_name}"] = field_value
        return parameters

    def set_params(self, **params: object) -> "FairPCA":
        """Set parameters; `criterion__penalty` replaces the criterion by a copy with that penalty.

        Returns
        -------
        FairPCA

        Raises
        ------
        InvalidParameter
            An unknown parameter, or a value out of range (or InvalidType). Nothing is changed in
            this case.
        """
        parameters = super().get_params(deep=False)
        changed: dict[str, object] = {}
        changed_fields: dict[str, dict[str, object]] = {}
        for key, value in params.items():
            name, _, field_name = key.partition("__")
            if name not in parameters:
                raise InvalidParameter(
                    f"Invalid parameter {name!r} for estimator {self}",
                    f"Valid parameters are: {sorted(parameters)!r}",
                    "Use one of these",
                )
            if field_name:  # nested, such as criterion__penalty
                changed_fields.setdefault(name, {})[field_name] = value
            else:
                changed[name] = value
        for name, new_values in changed_fields.items():
            # The object with these fields, also if it was given by name: the new one, if it is set
            # in the same call.
            value = _parameter_object(name, changed.get(name, parameters[name]))
            field_names = list(init_parameters(value))
            unknown = [field_name for field_name in new_values if field_name not in field_names]
            if unknown:
                raise InvalidParameter(
                    f"Invalid parameter {unknown[0]!r} for {name} {value!r}",
                    f"Valid parameters are: {field_names!r}",
                    f"Set {name} to an object that has this parameter first",
                )
            changed[name] = replace(cast(DataclassInstance, value), **new_values)
        super().set_params(**changed)
        return self

    def fit(
        self,
        X: TableLike,
        y: LabelsLike = None,
        *,
        sensitive_features: LabelsLike = None,
        sample_weight: WeightsLike = None,
    ) -> "FairPCA":
        """Fit the model on rows.

        Parameters
        ----------
        X : (n, p) table of finite numbers
            Any input of `GroupMoments.from_rows`: an array (also a scipy sparse matrix, which is
            never densified, or a device array), a data frame, a Dask or Spark collection, an Arrow
            stream, the path of a CSV, Parquet or Arrow file or of a directory of them, or a row
            source.
        y : (n,) array-like, or column name of X, optional
            Class of each row, for a restriction with `within_classes` or `keep_outcome`; ignored
            otherwise.
        sensitive_features : (n,) or (n, a) array-like or data frame, or column name(s) of X
            Group of each row; several attributes define their intersections. Named columns are
            removed from X before fitting.
        sample_weight : (n,) array-like, or column name of X, optional
            Finite and nonnegative; rows of weight zero are ignored. So are rows whose weight is
            below 1e-200 of the largest, with a warning.

        Returns
        -------
        FairPCA

        Raises
        ------
        InvalidInput
            Missing groups, missing y where it is needed, too many groups, NaN, infinity, text,
            inconsistent lengths, or no rows.
        InvalidParameter
            A parameter is out of range.
        IncompatibleParameters
            A criterion, restriction or solver does not support this number of groups or another
            parameter, or no dimension keeps the requested variance; with whiten=True, the variance
            along a component is negligible.
        """
        with caller_remedies(row_remedies(X, _CALL)):
            return self._fit_rows(X, y, sensitive_features, sample_weight)

    def partial_fit(
        self,
        X: TableLike,
        y: LabelsLike = None,
        *,
        sensitive_features: LabelsLike = None,
        sample_weight: WeightsLike = None,
    ) -> "FairPCA":
        """Add rows to those seen so far, and fit on all of them.

        The result equals that of one `fit` on all rows, up to rounding. New groups are added.
        Parameters are those of `fit`; named features are matched by name. Moments are merged as
        p x p matrices, one per group, also for sparse rows and for fewer rows than features.

        Returns
        -------
        FairPCA
        """
        # Moments of incomplete rows cannot be merged, so an error also says what to do about them.
        remedies = row_remedies(X, _CALL) | {Cause.INCOMPLETE_PARTS: _INCOMPLETE_PARTS_REMEDY}
        with caller_remedies(remedies):
            return self._add_rows(X, y, sensitive_features, sample_weight)

    def fit_moments(self, moments: Moments) -> "FairPCA":
        """Fit the model on moments, without rows.

        Parameters
        ----------
        moments : GroupMoments
            Or the `moments_` of another estimator, of any kind.

        Returns
        -------
        FairPCA
        """
        if not isinstance(moments, Moments):
            raise not_moments_error(moments)
        settings = self._parse_settings()
        # Check the number of groups only against an explicit limit: the moments may have been made
        # with one above the default.
        if self.max_groups is not None:
            with caller_remedies(group_limit_remedies(_CALL)):
                GroupLimit(self.max_groups).check(moments.labels, int(moments.counts.sum()))
        if settings.restriction is not None:
            # Columns named by the restriction are no features.
            moments = moments.with_attributes(settings.restriction.columns)
        # A copy is fitted, so that this estimator is unchanged if anything raises.
        fitted = copy(self)
        set_or_check_features(fitted, moments, reset=True)
        _warn_about_groups(moments, self.max_groups)
        # There are no rows, and so no columns that are reserved for groups.
        fitted._set_fit(fit_rows(None, moments, settings))
        fitted._reserved_columns = ()
        fitted._fitted_with_groups = True
        return self._become(fitted)

    def transform(self, X: TableLike) -> Any:
        """Project rows to their coordinates, without group labels.

        Parameters
        ----------
        X : (n, p) array, sparse matrix or data frame
            Group columns named in fit are ignored if present.

        Returns
        -------
        (n, d) array
            float32 if all features of X are, else float64; dense for sparse matrices. For
            distributed or device collections, an object of the same kind.
        """
        check_is_fitted(self)
        X = drop_columns(X, self._reserved_columns)
        # The result for data on a device or cluster, and for a source of rows that is open already,
        # such as `FileRows`; None for arrays and data frames in memory.
        remote_result = map_rows(X, self.subspace_.transform_map)
        if remote_result is not None:
            return remote_result
        rows = open_features(X, self.subspace_.standardization.on_missing)
        set_or_check_features(self, rows, reset=False)
        return self.subspace_.transform_rows(rows, float_dtype(X, self.subspace_.feature_names))

    def inverse_transform(self, Z: object) -> Any:
        """Reconstruct rows in the original features from their coordinates.

        Parameters
        ----------
        Z : (n, d) array

        Returns
        -------
        (n, p) array
            With the dtype of Z. For coordinates on a device or cluster, an object of the same kind.
        """
        check_is_fitted(self)
        return self.subspace_.inverse_transform(Z)

    def score_samples(self, X: TableLike) -> Any:
        """Minus the squared reconstruction error of each row, shape (n,).

        In squared units of the features, scaled if `scale`. Returns a numpy array, except that a
        Dask collection gives a lazy Dask array or series; Spark data frames are refused. For a row
        with missing cells, the expected error given the observed cells.
        """
        check_is_fitted(self)
        X = drop_columns(X, self._reserved_columns)
        scores_of_rows = score_map(self.subspace_)
        # The result for data on a device or cluster, and for a source of rows that is open already,
        # such as `FileRows`; None for arrays and data frames in memory.
        remote_result = map_rows(X, scores_of_rows)
        if remote_result is not None:
            return remote_result
        # Scores need no groups, so all rows get the same label.
        one_group = SingleGroup(label="")
        rows = open_group_rows(X, one_group, on_missing=self.subspace_.standardization.on_missing)
        set_or_check_features(self, rows, reset=False)
        # Select and order the features as the function takes them.
        blocks = feature_blocks(rows, scores_of_rows)
        return np.concatenate([scores_of_rows.function(block.values) for block in blocks])

    def score(self, X: TableLike, y: LabelsLike = None) -> float:
        """Mean of `score_samples`: minus the mean squared reconstruction error, higher is better.

        Unlike scikit-learn's `PCA.score`, which is the mean log-likelihood under a Gaussian model;
        both rank models equally only if that noise model fits. Groups are ignored: to use them in a
        search, score by a group metric, such as the largest :func:`fairspan.metrics.excess_loss`.

        Parameters
        ----------
        X : as for :meth:`transform`
        y : object, optional
            Ignored.

        Returns
        -------
        float
        """
        mean = self.score_samples(X).mean()
        if hasattr(mean, "compute"):  # of a Dask collection
            mean = mean.compute()
        elif hasattr(mean, "collect"):  # a lazy Polars frame of one cell
            mean = mean.collect().item()
        return float(mean)

    @property
    def n_samples_seen_(self) -> int:
        """Number of rows fitted, including those of every `partial_fit`."""
        return int(self.moments_.counts.sum())

    @property
    def singular_values_(self) -> FloatArray:
        """Square root of each component's variance times the total weight, shape (r,).

        For ordinary PCA of unweighted rows, the singular values of the centered rows.
        """
        moments = self.moments_
        values = np.sqrt(self.explained_variance_ * moments.weights.sum())
        # Weights are in units of 2**weight_exponent. The exponent is even, so that the square root
        # of the unit is a power of two.
        return np.asarray(np.ldexp(values, moments.weight_exponent // 2))

    @property
    def noise_variance_(self) -> float:
        """Mean variance of the directions outside the subspace; zero if there are none.

        For ordinary PCA, the mean of the p - d smallest eigenvalues of the covariance (divided by
        the total weight, not n - 1).
        """
        return self._covariance_and_noise("noise_variance_")[1]

    def get_covariance(self) -> FloatArray:
        """Covariance of the fitted model, in closed form.

        V M V' + s (I - V V'), with the components as columns of V, the covariance M of the
        coordinates, and the noise variance s, the mean variance outside the subspace.

        Returns
        -------
        (p, p) array
            In squared units of the features, scaled if the fit scales. Divided by the total weight,
            unlike scikit-learn's (n - 1).

        Raises
        ------
        IncompatibleParameters
            The projection is soft or oblique.
        """
        check_is_fitted(self)
        inside, noise = self._covariance_and_noise("get_covariance")
        return _low_rank_plus_noise(self.subspace_.components, inside, noise)

    def get_precision(self) -> FloatArray:
        """Inverse of :meth:`get_covariance`, computed from the d x d covariance of the coordinates.

        Returns
        -------
        (p, p) array

        Raises
        ------
        IncompatibleParameters
            As for :meth:`get_covariance`; or the covariance is singular, because a direction has no
            variance.
        """
        check_is_fitted(self)
        inside, noise = self._covariance_and_noise("get_precision")
        has_noise_directions = self.subspace_.n_features > self.subspace_.dimension
        variances = np.linalg.eigvalsh(inside)
        # Variances and noise that are rounding errors count as zero.
        is_singular_inside = variances[0] <= EIGENVALUE_ROUNDING * variances[-1]
        if is_singular_inside or (has_noise_directions and noise == 0):
            raise IncompatibleParameters(
                "The covariance is singular: the rows do not vary along some direction",
                "Allowed: rows that vary along every direction",
                "Drop constant features, or choose fewer components",
            )
        inverse = np.asarray(np.linalg.inv(inside))
        inverse_noise = 1 / noise if has_noise_directions else 0.0
        return _low_rank_plus_noise(self.subspace_.components, inverse, inverse_noise)

    def _covariance_and_noise(self, requested: str) -> tuple[FloatArray, float]:
        """Covariance of the coordinates, shape (d, d), and the mean variance outside the subspace.

        Both are pooled over the groups; a mean variance that is only rounding error is zero. Raises
        IncompatibleParameters for a soft or oblique projection (shorter components, or a separate
        decoder), on behalf of the `requested` attribute or method.
        """
        subspace = self.subspace_
        proportions = self.moments_.proportions
        check_orthonormal_components(subspace, requested)
        if self._score_covariances is None:
            second_moments, projector = second_moments_and_projector(subspace, self.moments_)
            group_covariances = second_moments.compress(projector.basis)
            total = float(proportions @ second_moments.traces)
        else:
            group_covariances = self._score_covariances
            total = self.solution_.total_variance
        inside = np.asarray(np.tensordot(proportions, group_covariances, axes=1))
        n_outside = subspace.n_features - subspace.dimension
        residual_variance = total - float(self.explained_variance_.sum())
        if n_outside == 0 or not residual_variance > EIGENVALUE_ROUNDING * total:
            return inside, 0.0
        return inside, residual_variance / n_outside

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = keeps_missing(self.on_missing)
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def _parse_settings(self) -> FitSettings:
        """Validate all parameters but `max_groups`, before any data are read.

        Raises
        ------
        InvalidParameter, InvalidType
        """
        check_choice("missing_groups", self.missing_groups, ("error", "ignore"))
        check_choice("on_missing", self.on_missing, ON_MISSING)
        check_bool("whiten", self.whiten)
        if self.whiten and self.rotation is not None:
            raise IncompatibleParameters(
                f"rotation={self.rotation!r} was requested with whiten=True",
                "Allowed: one of them, since rotated coordinates are correlated",
                "Use rotation=None or whiten=False",
            )
        return FitSettings.parse(
            self.n_components,
            self.criterion,
            restriction=self.restriction,
            center=self.center,
            scale=self.scale,
            solver=self.solver,
            tol=self.tol,
            allow_extra=self.allow_extra,
            nested=self.nested,
            random_state=self.random_state,
            rotation=self.rotation,
        )

    def _fit_rows(
        self,
        X: TableLike,
        y: LabelsLike,
        sensitive_features: LabelsLike,
        sample_weight: WeightsLike,
    ) -> "FairPCA":
        """Fit on rows; this estimator is unchanged if anything raises.

        Parameters are those of :meth:`fit`.
        """
        settings = self._parse_settings()
        limit = GroupLimit(self.max_groups)
        opened = self._open_rows(X, y, sensitive_features, sample_weight, settings.restriction)
        fitted = copy(self)
        set_or_check_features(fitted, opened.rows, reset=True)
        check_n_components(self.n_components, fitted.n_features_in_, allow_fraction=True)
        moments = compute_moments(opened.rows, limit)
        if opened.has_groups:
            _warn_about_groups(moments, self.max_groups)
        fitted._set_fit(fit_rows(opened.rows, moments, settings))
        fitted._reserved_columns = opened.reserved_columns
        fitted._fitted_with_groups = opened.has_groups
        return self._become(fitted)

    def _add_rows(
        self,
        X: TableLike,
        y: LabelsLike,
        sensitive_features: LabelsLike,
        sample_weight: WeightsLike,
    ) -> "FairPCA":
        """Fit on rows merged with the moments of earlier rows, if there are any.

        This estimator is unchanged if anything raises. Parameters are those of :meth:`fit`.
        """
        settings = self._parse_settings()
        limit = GroupLimit(self.max_groups)
        opened = self._open_rows(X, y, sensitive_features, sample_weight, settings.restriction)
        rows = opened.rows
        reserved_columns = opened.reserved_columns
        earlier_moments = None
        if hasattr(self, "moments_"):
            self._check_grouped_as_before(has_groups=opened.has_groups)
            earlier_moments = self.moments_.to_dense()
            # Later rows may be passed with their labels in arrays: keep the names of the first.
            reserved_columns = reserved_columns or self._reserved_columns
            rows = in_order_of_features(rows, earlier_moments.feature_names)
        fitted = copy(self)
        set_or_check_features(fitted, rows, reset=earlier_moments is None)
        check_n_components(self.n_components, fitted.n_features_in_, allow_fraction=True)
        # Matrices, since moments that keep their rows cannot be merged.
        moments = compute_group_moments(rows, limit, initial=earlier_moments)
        if opened.has_groups:
            known_groups = () if earlier_moments is None else earlier_moments.labels
            _warn_about_groups(moments, self.max_groups, known_groups)
        # The new rows are not all rows of the moments, so they cannot be read again.
        fitted._set_fit(fit_rows(None, moments, settings))
        fitted._reserved_columns = reserved_columns
        fitted._fitted_with_groups = opened.has_groups
        return self._become(fitted)

    def _open_rows(
        self,
        X: TableLike,
        y: LabelsLike,
        sensitive_features: LabelsLike,
        sample_weight: WeightsLike,
        restriction: Restriction | None,
    ) -> _OpenedRows:
        """Open rows with the groups, classes and attribute columns that a fit needs.

        Columns of X that are used as groups, weights or classes are reserved: they are not
        features, and the result names them, so that they can be dropped from later rows.

        Raises
        ------
        InvalidInput
            Groups or classes are missing, or the rows are invalid.
        """
        # A source of rows that is open already carries its groups.
        has_groups = sensitive_features is not None or is_row_source(X)
        needs_classes = has_groups and restriction is not None and restriction.needs_classes
        if needs_classes and y is None:
            raise InvalidInput(
                f"y is missing, but required by {restriction!r}",
                "Allowed: the class of each row: an array, or the name of a column of X",
                "Pass y=..., or drop within_classes and keep_outcome",
            )
        # With missing_groups="error", opening the rows raises.
        if not has_groups and self.missing_groups == "ignore":
            sensitive_features = SingleGroup(_SINGLE_GROUP_LABEL)
        y_used = y if needs_classes else None
        rows = open_rows(
            X,
            sensitive_features,
            y=y_used,
            sample_weight=sample_weight,
            on_missing=self.on_missing,
            attributes=() if restriction is None else restriction.columns,
        )
        warn_about_unused_categories(rows)
        return _OpenedRows(rows, has_groups, _reserved_columns(rows, y_used))

    def _check_grouped_as_before(self, *, has_groups: bool) -> None:
        """Raise InvalidInput if only one of the previous and the new rows have groups."""
        if has_groups == self._fitted_with_groups:
            return
        raise InvalidInput(
            f"partial_fit received rows {'with' if has_groups else 'without'} groups "
            f"after rows {'with' if self._fitted_with_groups else 'without'} them",
            "Allowed: groups for all rows, or for none",
            "Refit on all rows with their groups",
        )

    def _set_fit(self, fit: Fit) -> None:
        """Set the attributes that follow from a fit.

        Raises
        ------
        IncompatibleParameters
            With `whiten`, the components are not orthonormal, or rows hardly vary along one.
        """
        subspace = fit.subspace
        certificate = fit.certificate
        moments = fit.moments
        # Shape (k, d): the variance of each group that each component keeps.
        variance_kept = fit.variance_kept()
        pooled_variance = moments.proportions @ variance_kept
        group_variances = fit.problem.second_moments.traces
        self.components_ = subspace.components
        self.mean_ = np.asarray(subspace.mean)
        self.scale_ = subspace.scale
        self.n_components_ = subspace.n_components
        self.explained_variance_ = pooled_variance
        with np.errstate(invalid="ignore"):  # 0 / 0 for a group, or a table, without variance
            self.explained_variance_ratio_ = pooled_variance / np.float64(
                certificate.total_variance
            )
            self.group_explained_variance_ratio_ = variance_kept / group_variances[:, None]
        self.groups_ = moments.groups
        self.group_errors_ = certificate.errors
        self.group_losses_ = certificate.losses
        self.disparity_ = signed_disparity(certificate.errors)
        self.moments_ = moments
        # Moments of few rows refer to the rows of the caller, who may change them after the fit.
        # Attributes that are computed on demand must not depend on them.
        self._score_covariances = fit.score_covariances() if moments.has_row_coordinates else None
        # Whitening changes the coordinates of rows, not the components and variances above.
        if self.whiten:
            subspace = whiten_subspace(subspace, moments, pooled_variance)
        self.subspace_ = subspace
        self.solution_ = certificate
        self.solver_ = certificate.solver
        moments.guard_rows()

    def _become(self, fitted: "FairPCA") -> "FairPCA":
        """Take over the state of a fitted copy, after nothing has raised; return this estimator."""
        self.__dict__ = fitted.__dict__
        return self


def _warn_about_groups(
    moments: Moments, max_groups: int | None, known_groups: Collection[Label] = ()
) -> None:
    """Warn of a single group, of suspicious labels, and of many groups.

    Suspicious labels of `known_groups` are not reported again, and many groups are not if all of
    them are known or the user has set `max_groups`.
    """
    labels = moments.labels
    if moments.n_groups == 1:
        warn(
            f"All rows belong to one group ({labels[0]!r}), so this is ordinary PCA. "
            "Fairness requires at least two groups; check the group column."
        )
    counts = moments.counts.tolist()
    for message in label_warnings(labels, counts, known_groups):
        warn(message)
    many_groups = many_groups_warning(labels, counts)
    has_new_groups = not set(labels) <= set(known_groups)
    if many_groups is not None and max_groups is None and has_new_groups:
        warn(many_groups)


def _reserved_columns(rows: RowsInfo, y: LabelsLike) -> tuple[str, ...]:
    """Columns used as groups, weights or classes, which are not features."""
    columns: tuple[str, ...] = row_metadata(rows).reserved_columns
    if isinstance(y, str) and y not in columns:
        columns += (y,)
    return columns


def _low_rank_plus_noise(components: FloatArray, inside: FloatArray, outside: float) -> FloatArray:
    """Return V M V' + s (I - V V'), shape (p, p).

    V' are the orthonormal components (d, p), M is `inside` (d, d), and s is `outside`.
    """
    within = components.T @ (inside - outside * np.eye(len(components))) @ components
    return np.asarray(within + outside * np.eye(components.shape[1]))


def _parameter_object(name: str, value: object) -> object:
    """Object for a parameter: created from its name if it is one, else the value itself."""
    if name not in _OBJECT_PARAMETERS or not isinstance(value, str):
        return value
    try:
        return _OBJECT_PARAMETERS[name](value)
    except FairspanError:  # parameters are only validated in fit
        return value
