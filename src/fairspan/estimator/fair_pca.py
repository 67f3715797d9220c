"""FairPCA: fair principal component analysis as a scikit-learn estimator."""

import numbers
from collections.abc import Callable, Collection
from copy import copy
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from fairspan.errors import (
    Cause,
    FairspanError,
    IncompatibleParameters,
    InvalidInput,
    InvalidParameter,
    caller_remedies,
    warn,
)
from fairspan.estimator.fit import fit_moments
from fairspan.formatting.text import counted
from fairspan.model.subspace import FairSubspace
from fairspan.moments.base import check_center
from fairspan.moments.group_moments import GroupMoments, compute_group_moments
from fairspan.moments.of_rows import Moments, compute_moments, not_moments_error
from fairspan.moments.operators import error_reduction_by_component
from fairspan.problem.problem import check_n_components, signed_disparity
from fairspan.problem.reduction import get_criterion, get_restriction
from fairspan.registry import check_bool, check_choice, init_parameters, plain_value
from fairspan.rows.arrays import ArrayRows, SingleGroup, as_eager_frame
from fairspan.rows.frames import FrameRows, drop_columns
from fairspan.rows.groups import Label, format_list
from fairspan.rows.label_checks import label_warnings, many_groups_warning
from fairspan.rows.matrices import SparseRows
from fairspan.rows.opening import (
    feature_blocks,
    is_row_source,
    map_rows,
    open_group_rows,
    open_rows,
    row_remedies,
    warn_of_unused_categories,
)
from fairspan.rows.protocol import KEEPING_MISSING, ON_MISSING, BaseRows, GroupLimit, OnMissing
from fairspan.rows.remedies import group_limit_remedies
from fairspan.rows.validation import check_n_columns
from fairspan.solvers.solve import get_solver
from fairspan.typing import FloatArray

# Variance below this share of the total variance is rounding.
_NOISE_ROUNDING = 1e-13
# Roundings that a computed variance, and an entry of a component, may be off by.
_ROUNDINGS = 8 * float(np.finfo(np.float64).eps)
# Where the settings of rows are passed.
_CALL = "FairPCA({})"
_COMPLETE_PARTS = (
    'Fit all rows at once with FairPCA(on_missing="em"), or leave incomplete rows out of each part '
    'with FairPCA(on_missing="drop")'
)
# The one label when groups are missing on purpose.
_SINGLE_GROUP_LABEL = "all"
# Parameters that are objects with fields, which are parameters too, such as criterion__penalty.
_OBJECT_PARAMETERS: dict[str, Callable[[Any], Any]] = {
    "criterion": get_criterion,
    "restriction": get_restriction,
    "solver": get_solver,
}


class FairPCA(
    TransformerMixin,  # type: ignore[misc]
    ClassNamePrefixFeaturesOutMixin,  # type: ignore[misc]
    BaseEstimator,  # type: ignore[misc]
):
    """Principal component analysis with a fairness criterion instead of the total error.

    Finds the d-dimensional subspace that minimises a criterion of the groups' reconstruction
    errors e_g(V) = tr S_g - tr(V'S_gV), with a certificate of its optimality (`solution_`). `fit`
    needs the groups, and `transform` does not.

    There are two separate goals. A **criterion** says how the errors of the groups are weighed. A
    **restriction** hides the group: it removes differences between the groups from the transformed
    rows, even if this raises their errors. They can be combined: the criterion is then minimised
    among the subspaces that the restriction allows.

    Parameters
    ----------
    n_components : int or float, default=2
        d, from 1 to the number of features. A float above 0 and below 1 is a share of variance: the
        smallest d at which **every group** keeps that share of its own variance, with the chosen
        criterion and restriction.
    criterion : str or object, default="minimax_loss"
        The function to minimise, by name with default settings, or as an object:

        - "minimax_loss", `MinimaxLoss()`: largest excess loss of a group (Samadi et al. 2018)
        - "minimax_error", `MinimaxError()`: largest error of a group
        - "least_variance", `LeastVariance()`: minus the least variance that a group keeps
        - `MinimaxLoss(relative=True)`, `MinimaxError(relative=True)`: shares of the groups'
          variances
        - "total_error", `TotalError()`: error over all rows, ordinary PCA
        - "disparity", `Disparity(trade_off, protected)`: total error against the signed gap of two
          groups
        - "equal_error", `EqualError()`: total error subject to equal errors
        - "error_gap", `ErrorGap(penalty)`: total error plus a penalty on the largest gap (Vu et al.
          2022)
        - "robust_error_gap", `RobustErrorGap(penalty, radius)`: the same at the worst distribution
          near each group's
        - "nash_welfare", `NashWelfare()`: minus the mean log variance that a group keeps
    restriction : None, MeanParity or CovarianceParity, default=None
        What the reduced rows hide about the group:

        - `MeanParity()`: the transformed rows of all groups have the same mean
        - `MeanParity(attributes="marginal")`: the same for the categories of each of several
          attributes
        - `MeanParity(within_classes="all")`: the same means among the rows of each class of y
        - `MeanParity(oblique=True)`: rows are shifted first, which keeps more variance; total
          error only
        - `MeanParity(tolerance)`: two groups' means are at most that far apart; total error only
        - `CovarianceParity(n_directions)`: equal means and, of two groups, nearly equal covariances
        - `CovarianceParity(tolerance=...)`: their variances differ by at most that along every
          direction; total error only

        Excess losses are still measured against the best subspace without a restriction.
    center : {"global", "group", "none"}, default="global"
        About which point errors are measured: the mean of all rows, each group's own mean (as in
        Samadi et al.), or the origin.
    scale : bool, default=False
        Divide each feature by its pooled standard deviation (ddof 0). Errors, and tolerances of
        restrictions, are then in those units. On the command line: ``--standardize``.
    solver : str or object, default="auto"
        The method of minimisation, by name with default settings, or as an object:

        - "auto": the first of the next two that supports the problem; `solver_` says which
        - "boundary", `BoundarySearch()`: exact for two groups, all criteria but Nash welfare
        - "dual_newton", `DualNewton()`: every criterion, any number of groups
        - "multiplicative", `MultiplicativeWeights()`; "semidefinite", `Semidefinite()`;
          "riemannian", `RiemannianSubgradient()`: the papers' own, as reference
    tol : float, default=1e-9
        Largest gap that is called optimal, as a share of the objective.
    allow_extra : bool, default=False
        Allow a soft projection with more than d components where only that reaches the optimum. For
        one and two groups exactly d always do, so nothing changes.
    nested : bool, default=False
        Choose components one after the other, each optimal for one dimension in the complement of
        those before it: the first d are then a solution for every smaller d, as
        `subspace_.first(d)`. `solution_` has a certificate of each step. With "minimax_loss",
        "minimax_error", "least_variance" and "total_error"; with no restriction, or exact
        `MeanParity`.
    whiten : bool, default=False
        Divide each coordinate of transformed rows by its standard deviation over all rows, the
        square root of `explained_variance_`; `inverse_transform` undoes it. Errors and losses do
        not change. With orthonormal components only, along which the rows vary.
    missing_groups : {"error", "ignore"}, default="error"
        What to do without `sensitive_features`: raise, or treat all rows as one group, which is
        ordinary PCA.
    on_missing : {"error", "drop", "em", "em-drop-empty"}, default="error"
        What to do with rows in which a feature is missing (NaN): raise, leave them out, or fit on
        what is observed: the moments of each group are then those of its likelihood, found by the
        EM algorithm, and rows to transform may have missing cells too
        (`GroupMoments.from_rows`). It assumes that cells are missing at random. With "em" a row in
        which every feature is missing is an error; "em-drop-empty" leaves such rows out.
    max_groups : int or None, default=None
        Most groups that rows may have. None allows 100: more look like an identifier or a
        continuous number.
    random_state : int, Generator, RandomState or None
        For solvers that use randomness; the default one does not.

    Attributes
    ----------
    components_ : (r, p) array
        Orthonormal rows, by pooled variance, or nested ones in the order of their steps; the
        largest loading of each is positive. r = d, but for a soft projection, whose r > d rows are
        sqrt(lambda_j) u_j. Of an oblique restriction the encoder, whose rows are not orthonormal
        (`subspace_.encoder`, `subspace_.decoder`).
    mean_ : (p,) array
        Weighted mean of all rows for center "global" and "group", zero for "none".
    scale_ : (p,) array or None
    n_components_ : int
        r, columns of a transformed table; the d that was found where a share was requested.
    explained_variance_ : (r,) array
        Pooled variance that each component keeps, divided by the total weight (not n - 1).
    explained_variance_ratio_ : (r,) array
        The same as a share of the total variance.
    singular_values_ : (r,) array
        Square root of `explained_variance_` times the total weight.
    noise_variance_ : float
        Mean variance of the p - d directions outside the subspace.
    n_samples_seen_ : int
        Number of rows of the fit.
    groups_ : (k,) array
        Labels in sorted order; all `group_` attributes follow it.
    group_errors_ : (k,) array
        e_g, average squared reconstruction error of each group.
    group_losses_ : (k,) array
        l_g = e_g - e*_g, the excess loss of the group over its own best subspace.
    group_explained_variance_ratio_ : (k, r) array
        Share of each group's variance that each component keeps, adding up to 1 - e_g / tr S_g; NaN
        for a group without variance. An oblique component may add to a group's error: then below 0.
    disparity_ : float
        Two groups: error of the second minus error of the first. More: the largest pairwise gap.
    moments_ : GroupMoments, SparseMoments or WideMoments
        SparseMoments where sparse rows have more than 1500 features: `solution_` is then called
        estimated. WideMoments where rows in memory have more than 500 features, and are at most
        0.8 times as many. Both hold the rows, so save `subspace_`
        rather than the estimator; `moments_.matrices()` can be merged and saved.
    subspace_ : FairSubspace
        The projection alone, to save or ship.
    solution_ : Certificate
        Objective, lower bound, gap, status; of nested components also `steps`.
    solver_ : str
    n_features_in_ : int
    feature_names_in_ : (p,) array of str
        Where the columns have names.

    Notes
    -----
    The covariance is that of probabilistic PCA (Tipping and Bishop 1999) within the subspace: there
    it is that of the rows; outside, the noise has the same variance along every direction. It is
    about the fit's centre, in units of the features, scaled if the fit scales.

    For two groups every criterion takes its optimum at a boundary point of the achievable errors,
    which a subspace of exactly d dimensions reaches; the solvers find it with one symmetric
    eigenproblem per step. For more groups a gap may stay open, and `solution_` then says so.

    Settings inside criterion, restriction and solver are parameters too, such as
    `criterion__penalty` in a grid search.

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
    # Columns that were named as groups or weights at fit, and are no features.
    _reserved_columns: tuple[str, ...]
    __metadata_request__fit: ClassVar[dict[str, bool]] = {"sensitive_features": True}
    __metadata_request__partial_fit: ClassVar[dict[str, bool]] = {"sensitive_features": True}

    def __init__(
        self,
        n_components: int | float = 2,
        *,
        criterion: Any = "minimax_loss",
        restriction: Any = None,
        center: Any = "global",
        scale: bool = False,
        solver: Any = "auto",
        tol: float = 1e-9,
        allow_extra: bool = False,
        nested: bool = False,
        whiten: bool = False,
        missing_groups: str = "error",
        on_missing: OnMissing = "error",
        max_groups: int | None = None,
        random_state: Any = None,
    ) -> None:
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
        self.missing_groups = missing_groups
        self.on_missing = on_missing
        self.max_groups = max_groups
        self.random_state = random_state

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters of this estimator.

        Parameters
        ----------
        deep : bool
            Also the settings inside criterion, restriction and solver, such as
            `criterion__penalty`.

        Returns
        -------
        dict of str to value
        """
        parameters: dict[str, Any] = super().get_params(deep=deep)
        for owner in _OBJECT_PARAMETERS if deep else ():
            parameters |= {
                f"{owner}__{name}": value
                for name, value in init_parameters(
                    _parameter_object(owner, parameters[owner])
                ).items()
            }
        return parameters

    def set_params(self, **params: Any) -> "FairPCA":
        """Set parameters; `criterion__penalty` replaces the criterion by one with that penalty.

        Returns
        -------
        FairPCA

        Raises
        ------
        InvalidParameter
            A parameter that is not there, or a value out of range (then also InvalidType). Nothing
            is changed then.
        """
        feature_names = super().get_params(deep=False)
        changed: dict[str, Any] = {}
        fields: dict[str, dict[str, Any]] = {}
        for name, value in params.items():
            owner, _, field = name.partition("__")
            if owner not in feature_names:
                raise InvalidParameter(
                    f"Invalid parameter {owner!r} for estimator {self}",
                    f"Valid parameters are: {sorted(feature_names)!r}",
                    "Use one of these",
                )
            (fields.setdefault(owner, {}) if field else changed)[field or owner] = value
        for owner, values in fields.items():
            part = _parameter_object(owner, changed.get(owner, feature_names[owner]))
            field_names = list(init_parameters(part))
            if unknown := [name for name in values if name not in field_names]:
                raise InvalidParameter(
                    f"Invalid parameter {unknown[0]!r} for {owner} {part!r}",
                    f"Valid parameters are: {field_names!r}",
                    f"Set {owner} to an object that has this parameter first",
                )
            changed[owner] = replace(part, **values)
        super().set_params(**changed)
        return self

    def fit(
        self, X: Any, y: Any = None, *, sensitive_features: Any = None, sample_weight: Any = None
    ) -> "FairPCA":
        """Fit on rows.

        Parameters
        ----------
        X : (n, p) table of finite numbers
            Whatever `GroupMoments.from_rows` takes: an array (also a scipy sparse matrix, which is
            never filled, or one on a GPU), a data frame, a Dask or Spark collection, an Arrow
            stream, the path of a CSV, Parquet or Arrow file or of a folder of them, or rows already
            opened.
        y : (n,) array-like, or column name of X, optional
            The class of each row, for a restriction with `within_classes`; otherwise ignored.
        sensitive_features : (n,) or (n, a) array-like or data frame, or column name(s) of X
            Group of each row; several attributes make their intersections. Named columns are
            taken out of X before fitting.
        sample_weight : (n,) array-like, or column name of X, optional
            Finite and not negative; a row of weight zero counts as absent. So does one whose weight
            is less than 1e-200 of the largest, with a warning.

        Returns
        -------
        FairPCA

        Raises
        ------
        InvalidInput
            Missing groups, y missing where it is needed, too many groups, NaN, infinity, text,
            lengths that differ, no rows.
        InvalidParameter
            A setting out of range.
        Incompatible
            A criterion, restriction or solver that is not available for this number of groups or
            together with another, or a share of variance that no dimension keeps; with
            whiten=True, a component along which the variance is no more than rounding.
        """
        with caller_remedies(row_remedies(X, _CALL)):
            return self._fit_rows(X, y, sensitive_features, sample_weight)

    def partial_fit(
        self, X: Any, y: Any = None, *, sensitive_features: Any = None, sample_weight: Any = None
    ) -> "FairPCA":
        """Add rows to those seen so far, and fit on all of them.

        The result is that of one `fit` on all rows, up to rounding. A group that appears for the
        first time is added. Parameters are those of `fit`; features that have names are matched by
        these. Moments are merged as k matrices of p x p numbers, also those of sparse rows, and of
        rows that are fewer than their features.

        Returns
        -------
        FairPCA
        """
        remedies = row_remedies(X, _CALL) | {Cause.INCOMPLETE_PARTS: _COMPLETE_PARTS}
        with caller_remedies(remedies):
            return self._fit_rows(X, y, sensitive_features, sample_weight, incremental=True)

    def fit_moments(self, moments: Moments) -> "FairPCA":
        """Fit on moments; no rows are needed.

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
        settings = self._validated_settings()
        if self.max_groups is not None:  # moments of more than usual were allowed when made
            with caller_remedies(group_limit_remedies(_CALL)):
                GroupLimit(self.max_groups).check(moments.labels, int(moments.counts.sum()))
        restriction = settings["restriction"]
        if restriction is not None and isinstance(moments, GroupMoments):
            moments = moments.with_attributes(restriction.columns)
        fitted = copy(self)
        set_or_check_features(fitted, moments, reset=True)
        return self._finish_fit(fitted, moments, settings, (), has_groups=True)

    def transform(self, X: Any) -> Any:
        """Coordinates in the subspace, without group labels.

        Parameters
        ----------
        X : (n, p) array, sparse matrix or data frame
            A group column that was named at fit is ignored if present.

        Returns
        -------
        (n, d) array
            Of the precision of X: float32 where all of its features are, and float64 otherwise;
            dense for sparse matrices. Where the rows lie elsewhere (a cluster, another device), the
            same kind of object there.
        """
        check_is_fitted(self)
        X = drop_columns(X, self._reserved_columns)
        remote_result = map_rows(X, self.subspace_.transform_map)
        if remote_result is not None:
            return remote_result
        frame = as_eager_frame(X)
        rows = ArrayRows(X) if frame is None else FrameRows.all_features(frame)
        set_or_check_features(self, rows, reset=False)
        return self.subspace_.transform(X)

    def inverse_transform(self, Z: Any) -> Any:
        """Rows in the original features from their coordinates.

        Parameters
        ----------
        Z : (n, d) array

        Returns
        -------
        (n, p) array
            Of the precision of Z. Where the coordinates lie elsewhere, the same kind of object
            there.
        """
        check_is_fitted(self)
        return self.subspace_.inverse_transform(Z)

    def score_samples(self, X: Any) -> Any:
        """Minus the squared reconstruction error of each row, shape (n,).

        In squared units of the features, scaled if `scale`; a numpy array wherever the rows lie,
        but of a Dask collection a Dask array or series, which is computed lazily. Of a row with
        missing cells it is the expected error (:meth:`FairSubspace.squared_residuals`).
        """
        check_is_fitted(self)
        X = drop_columns(X, self._reserved_columns)
        scores = self.subspace_.score_map
        remote_result = map_rows(X, scores)
        if remote_result is not None:
            return remote_result
        rows = open_group_rows(X, SingleGroup(""), on_missing=self.subspace_.on_missing)
        set_or_check_features(self, rows, reset=False)
        return np.concatenate(
            [scores.function(block.values) for block in feature_blocks(rows, scores)]
        )

    def score(self, X: Any, y: Any = None) -> float:
        """Mean of `score_samples`: minus the mean squared reconstruction error, higher is better.

        scikit-learn's `PCA.score` is another figure, the mean log-likelihood of the rows under a
        Gaussian model: the two rank models of the same rows and dimension alike only where the
        model of the noise fits. Groups are ignored: for a search that uses them, score by a metric
        of the groups, such as the largest of :func:`fairspan.metrics.excess_loss`.

        Parameters
        ----------
        X : as :meth:`transform` takes it
        y : object, optional
            Not looked at.

        Returns
        -------
        float
        """
        mean = self.score_samples(X).mean()
        return float(mean.compute() if hasattr(mean, "compute") else mean)

    @property
    def n_samples_seen_(self) -> int:
        """Rows that were fitted on, those of every `partial_fit` together."""
        return int(self.moments_.counts.sum())

    @property
    def singular_values_(self) -> FloatArray:
        """Square root of the variance of each component times the total weight, shape (r,).

        Of ordinary PCA of rows without weights these are the singular values of the centred rows.
        """
        moments = self.moments_
        values = np.sqrt(self.explained_variance_ * moments.weights.sum())
        # The exponent is even, so that its square root is a power of two.
        return np.asarray(np.ldexp(values, moments.weight_exponent // 2))

    @property
    def noise_variance_(self) -> float:
        """Mean variance of the directions outside the subspace; zero if there are none.

        Of ordinary PCA the mean of the p - d least eigenvalues of the covariance (divided by the
        total weight, not n - 1).
        """
        return self._covariance_and_noise("noise_variance_")[1]

    def get_covariance(self) -> FloatArray:
        """V M V' + s (I - V V'), M the covariance within the subspace and s the noise variance.

        Returns
        -------
        (p, p) array
            In squared units of the features, scaled if the fit scales. Divided by the total
            weight, not n - 1 as scikit-learn's.

        Raises
        ------
        Incompatible
            A soft or an oblique projection.
        """
        check_is_fitted(self)
        return _low_rank_plus_noise(
            self.subspace_.components, *self._covariance_and_noise("get_covariance")
        )

    def get_precision(self) -> FloatArray:
        """The inverse of :meth:`get_covariance`, from the d x d part alone.

        Returns
        -------
        (p, p) array

        Raises
        ------
        Incompatible
            As :meth:`get_covariance`; or a covariance without an inverse, where a direction has no
            variance.
        """
        check_is_fitted(self)
        inside, noise = self._covariance_and_noise("get_precision")
        outside = self.subspace_.n_features > self.subspace_.dimension
        variances = np.linalg.eigvalsh(inside)
        if variances[0] <= _NOISE_ROUNDING * variances[-1] or (outside and noise == 0):
            raise IncompatibleParameters(
                "The covariance has no inverse: the rows do not vary along a direction",
                "Allowed: rows that vary along every direction",
                "Leave out constant features, or choose fewer components",
            )
        components, inverse = self.subspace_.components, np.asarray(np.linalg.inv(inside))
        return _low_rank_plus_noise(components, inverse, 1 / noise if outside else 0.0)

    def _covariance_and_noise(self, what: str) -> tuple[FloatArray, float]:
        """The covariance within the subspace, and the mean variance outside of it."""
        subspace, proportions = self.subspace_, self.moments_.proportions
        check_orthonormal_components(subspace, what)
        second, projector = subspace.second_moments_and_projector(self.moments_)
        inside = np.tensordot(proportions, second.compress(projector.basis), axes=1)
        total = float(proportions @ second.traces)
        outside = subspace.n_features - subspace.dimension
        residual_variance = total - float(self.explained_variance_.sum())
        return (
            np.asarray(inside),
            residual_variance / outside
            if outside and residual_variance > _NOISE_ROUNDING * total
            else 0.0,
        )

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = self.on_missing in KEEPING_MISSING
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def _validated_settings(self) -> dict[str, Any]:
        """What :func:`fit_subspace` takes, by name, checked before anything is read.

        Raises
        ------
        InvalidParameter, InvalidType
        """
        check_choice("missing_groups", self.missing_groups, ("error", "ignore"))
        check_choice("on_missing", self.on_missing, ON_MISSING)
        is_number = isinstance(self.tol, numbers.Real) and not isinstance(self.tol, bool | np.bool_)
        if not is_number or not 0 <= self.tol < 1:
            raise InvalidParameter(
                f"tol is {self.tol!r}",
                "Allowed: a number from 0 to below 1, a share of the objective",
                "Use the default, 1e-9",
            )
        for name in ("scale", "allow_extra", "nested", "whiten"):
            check_bool(name, getattr(self, name))
        check_center(self.center)
        GroupLimit(self.max_groups)
        names = ("center", "scale", "tol", "allow_extra", "nested", "random_state")
        return {
            **{
                name: get_object(getattr(self, name))
                for name, get_object in _OBJECT_PARAMETERS.items()
            },
            **{name: plain_value(getattr(self, name)) for name in names},
        }

    def _fit_rows(
        self,
        X: Any,
        y: Any,
        sensitive_features: Any,
        sample_weight: Any,
        *,
        incremental: bool = False,
    ) -> "FairPCA":
        """Fit on rows, and on the moments from before if it `adds` the rows to them."""
        settings, limit = self._validated_settings(), GroupLimit(self.max_groups)
        restriction = settings["restriction"]
        has_groups = sensitive_features is not None or is_row_source(X)
        needs_labels = bool(has_groups and restriction is not None and restriction.within_classes)
        if needs_labels and y is None:
            raise InvalidInput(
                f"y is missing, and the restriction is {restriction!r}",
                "Allowed: the class of each row: an array, or the name of a column of X",
                "Pass y=..., or leave within_classes out",
            )
        if not has_groups and self.missing_groups == "ignore":
            sensitive_features = SingleGroup(_SINGLE_GROUP_LABEL)
        fitted, previous_moments = copy(self), None
        y_used = y if needs_labels else None
        restriction_columns = () if restriction is None else restriction.columns
        rows = open_rows(
            X,
            sensitive_features,
            {"y": y_used},
            sample_weight,
            self.on_missing,
            attributes=restriction_columns,
        )
        warn_of_unused_categories(rows)
        reserved_columns = rows.reserved_columns if isinstance(rows, BaseRows) else ()
        reserved_columns += (
            (y_used,) if isinstance(y_used, str) and y_used not in reserved_columns else ()
        )
        if incremental and hasattr(self, "moments_"):
            if has_groups != self._has_groups:
                raise InvalidInput(
                    f"partial_fit received rows {'with' if has_groups else 'without'} groups "
                    f"after rows {'with' if self._has_groups else 'without'} them",
                    "Allowed: rows all with groups, or all without",
                    "Fit again on all rows with their groups",
                )
            previous_moments, reserved_columns = (
                self.moments_.to_dense(),
                reserved_columns or self._reserved_columns,
            )
            feature_names = previous_moments.feature_names
            if feature_names is not None and sorted(rows.feature_names or ()) == sorted(
                feature_names
            ):
                rows = rows.select_features(feature_names)
        set_or_check_features(fitted, rows, reset=previous_moments is None)
        check_n_components(self.n_components, fitted.n_features_in_, allow_fraction=True)
        # Rows are added to matrices, as moments that keep their rows cannot be merged.
        moments: Moments = (
            compute_group_moments(rows, limit, initial=previous_moments, has_y=needs_labels)
            if incremental
            else compute_moments(rows, limit, has_y=needs_labels)
        )
        known_groups = () if previous_moments is None else previous_moments.labels
        return self._finish_fit(
            fitted,
            moments,
            settings,
            reserved_columns,
            has_groups=has_groups,
            known_groups=known_groups,
        )

    def _finish_fit(
        self,
        result: "FairPCA",
        moments: Moments,
        settings: dict[str, Any],
        columns: tuple[str, ...],
        *,
        has_groups: bool,
        known_groups: Collection[Label] = (),
    ) -> "FairPCA":
        """Fit a copy of this estimator, and take over all of it at once, or nothing.

        Groups that the rows before had are `known_groups`.
        """
        if has_groups and moments.n_groups == 1:
            warn(
                f"All rows are of one group ({moments.labels[0]!r}), so this is ordinary PCA. "
                "Fairness needs at least two groups; check the group column."
            )
        if has_groups:
            y_used = moments.labels
            counts = moments.counts.tolist()
            for message in label_warnings(y_used, counts, known_groups):
                warn(message)
            many = many_groups_warning(y_used, counts)
            if many is not None and self.max_groups is None:
                has_new_groups = not set(y_used) <= set(known_groups)
                if has_new_groups:
                    warn(many)
        subspace, problem, coordinates = fit_moments(moments, self.n_components, **settings)
        projector = subspace.projector
        if coordinates is not None:
            projector = projector.with_stacked_columns(
                coordinates.project(projector.stacked_columns)
            )
        variance_kept = error_reduction_by_component(projector, problem.second_moments)
        pooled_variance, certificate = (
            moments.proportions @ variance_kept,
            subspace.require_certificate(),
        )
        result.components_ = subspace.components
        result.mean_ = np.asarray(subspace.mean)
        result.scale_ = subspace.scale
        result.n_components_ = subspace.n_components
        result.explained_variance_ = pooled_variance
        with np.errstate(invalid="ignore"):  # 0 / 0: a group, or a table, without variance
            result.explained_variance_ratio_ = pooled_variance / np.float64(
                certificate.total_variance
            )
            traces = problem.second_moments.traces
            result.group_explained_variance_ratio_ = variance_kept / traces[:, None]
        result.groups_ = moments.groups
        result.group_errors_ = certificate.errors
        result.group_losses_ = certificate.losses
        result.disparity_ = signed_disparity(certificate.errors)
        result.moments_ = moments
        if self.whiten:
            subspace = _whitened(subspace, moments, pooled_variance)
        result.subspace_ = subspace
        result.solution_ = certificate
        result.solver_ = certificate.solver
        result._reserved_columns, result._has_groups = columns, has_groups
        self.__dict__ = result.__dict__
        return self


def _whitened(subspace: FairSubspace, moments: Moments, variances: FloatArray) -> FairSubspace:
    """Divide each coordinate by its standard deviation; one that is exactly zero stays as it is.

    Parameters
    ----------
    subspace : FairSubspace
    moments : GroupMoments, SparseMoments or WideMoments
        In units of the rows.
    variances : (d,) array
        Pooled variance of each coordinate.

    Raises
    ------
    Incompatible
        The projection is soft or oblique, or the variance of a coordinate is no more than
        rounding.
    """
    check_orthonormal_components(subspace, "whiten=True")
    squares = moments.variances
    if subspace.center != "group":
        squares = squares + moments.offsets_from(subspace.mean) ** 2
    units = np.ones(subspace.n_features) if subspace.scale is None else subspace.scale
    of_features = moments.proportions @ squares / units**2
    # A direction is compared with its own features, so that a column of large numbers does not
    # make the variance of other columns rounding.
    along = subspace.components**2 @ of_features
    # Entries of a component are rounded themselves, which brings in a share of every feature.
    spilled = _ROUNDINGS**2 * float(of_features.sum())
    is_rounding = variances <= subspace.n_features * _ROUNDINGS * along + spilled
    is_zero = (variances == 0) & (along == 0)
    wrong = np.flatnonzero(is_rounding & ~is_zero)
    if wrong.size:
        first = int(wrong[0])
        raise IncompatibleParameters(
            f"whiten=True was requested, and the rows have a variance of {variances[first]:.1e} "
            f"along component {first + 1} of {len(variances)}, which is rounding",
            "Allowed with whiten=True: components along which the rows vary; otherwise rounding "
            "becomes a coordinate of variance one",
            "Choose fewer components, or use whiten=False",
        )
    return replace(subspace, whitening=np.sqrt(np.where(is_zero, 1.0, variances)))


def _low_rank_plus_noise(components: FloatArray, inside: FloatArray, outside: float) -> FloatArray:
    """The (p, p) matrix that is `inside` in the subspace and a multiple of I outside of it."""
    within = components.T @ (inside - outside * np.eye(len(components))) @ components
    return np.asarray(within + outside * np.eye(components.shape[1]))


def set_or_check_features(estimator: Any, rows_or_moments: Any, *, reset: bool) -> None:
    """Set the features to those of rows or moments, or make sure that rows have those set before.

    Raises
    ------
    InvalidInput
        Other features than before; for rows in memory it is scikit-learn's own ValueError.
    """
    if isinstance(rows_or_moments, FrameRows):
        validate_data(
            estimator, rows_or_moments.feature_frame.to_native(), reset=reset, skip_check_array=True
        )
        return
    names = rows_or_moments.feature_names
    if reset:
        estimator.n_features_in_ = rows_or_moments.n_features
        if names is not None:
            estimator.feature_names_in_ = np.asarray(names, dtype=object)
        elif hasattr(estimator, "feature_names_in_"):  # of rows fitted before
            del estimator.feature_names_in_
    elif names is None and isinstance(rows_or_moments, ArrayRows | SparseRows):
        placeholder = np.broadcast_to(0.0, (1, rows_or_moments.n_features))
        validate_data(estimator, placeholder, reset=False, skip_check_array=True)
    elif names is None:
        check_n_columns(rows_or_moments.n_features, estimator.n_features_in_, "features")
    elif names != (feature_names := tuple(getattr(estimator, "feature_names_in_", ()))):
        previous_moments = (
            f"of the rows before, {format_list(feature_names)}"
            if feature_names
            else "without names"
        )
        raise InvalidInput(
            f"The rows have {counted(len(names), 'feature')}, {format_list(names)}",
            f"Allowed: the features {previous_moments}",
            "Choose the same columns in the same order",
        )


def check_orthonormal_components(subspace: FairSubspace, requested: str) -> None:
    """Make sure that coordinates are those along orthonormal components.

    Raises
    ------
    Incompatible
    """
    if subspace.is_soft or subspace.is_oblique:
        kind = "a soft projection" if subspace.is_soft else "an oblique projection"
        raise IncompatibleParameters(
            f"{requested} was requested for {kind}",
            "Allowed: orthonormal components",
            "Fit without allow_extra, and with a restriction that is not oblique",
        )


def _parameter_object(owner: str, value: Any) -> Any:
    """The object of a parameter, made from its name if need be; else the value."""
    try:
        return (
            _OBJECT_PARAMETERS[owner](value)
            if owner in _OBJECT_PARAMETERS and isinstance(value, str)
            else value
        )
    except FairspanError:  # parameters are only checked when fitting
        return value
