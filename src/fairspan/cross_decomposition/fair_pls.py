"""FairPLS and FairCCA: fair partial least squares and canonical correlation, as estimators."""

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from fairspan.cross_decomposition.fit_pairs import PairedFit, fit_pairs
from fairspan.cross_decomposition.joined_tables import JoinedRows, column_names, open_joined
from fairspan.cross_decomposition.paired_criteria import PairedCriterion
from fairspan.cross_decomposition.pose_pairs import PairedSettings
from fairspan.errors import (
    Cause,
    InvalidInput,
    InvalidType,
    caller_remedies,
    describe_type,
    warn,
)
from fairspan.formatting.messages import counted
from fairspan.moments.base_moments import Center
from fairspan.moments.compute import not_moments_error
from fairspan.moments.group_moments import GroupMoments, compute_group_moments
from fairspan.problem.restrictions.restriction import Restriction
from fairspan.rows.blocks import OnMissing
from fairspan.rows.frames import drop_columns, float_dtype, open_features
from fairspan.rows.group_limit import GroupLimit
from fairspan.rows.label_checks import label_warnings
from fairspan.rows.labels import format_list
from fairspan.rows.opening import map_rows, row_remedies
from fairspan.solvers.auto import Auto, resolve_solver
from fairspan.solvers.solver import Solver
from fairspan.typing import LabelsLike, RandomSource, TableLike, WeightsLike

_INCOMPLETE_PARTS_REMEDY = (
    'Fit all rows at once with on_missing="em", or drop incomplete rows of each part with '
    'on_missing="drop"'
)


class _FairPairs(
    ClassNamePrefixFeaturesOutMixin,  # type: ignore[misc]
    TransformerMixin,  # type: ignore[misc]
    BaseEstimator,  # type: ignore[misc]
):
    """Base class of the estimators of pairs of subspaces, with the parameters that all have.

    Subclasses set `_method`.
    """

    _method: ClassVar[str]
    __metadata_request__fit: ClassVar[dict[str, bool]] = {"sensitive_features": True}
    __metadata_request__partial_fit: ClassVar[dict[str, bool]] = {"sensitive_features": True}

    n_features_in_: int

    def __init__(
        self,
        n_components: int = 2,
        *,
        criterion: str | PairedCriterion = "minimax_loss",
        restriction: str | Restriction | None = None,
        restricted_tables: str = "both",
        center: Center = "global",
        scale: bool = True,
        solver: str | Solver | Auto = "auto",
        tol: float = 1e-9,
        on_missing: OnMissing = "error",
        max_groups: int | None = None,
        random_state: RandomSource = None,
    ) -> None:
        # Validated in fit, as scikit-learn requires.
        self.n_components = n_components
        self.criterion = criterion
        self.restriction = restriction
        self.restricted_tables = restricted_tables
        self.center = center
        self.scale = scale
        self.solver = solver
        self.tol = tol
        self.on_missing = on_missing
        self.max_groups = max_groups
        self.random_state = random_state

    def fit(
        self,
        X: TableLike,
        Y: object = None,
        *,
        sensitive_features: LabelsLike = None,
        sample_weight: WeightsLike = None,
    ) -> Self:
        """Fit the model on the rows of two tables.

        Parameters
        ----------
        X : (n, p) table of finite numbers
            Any input of `GroupMoments.from_rows`: an array, a sparse matrix, a data frame, a Dask
            or Spark data frame, the path of a file or folder.
        Y : (n, q) or (n,) array or data frame, or names of columns of X
            The second table. Names are required if X is not in memory.
        sensitive_features : (n,) or (n, a) array-like or data frame, or column name(s) of X
            Group of each row; several attributes define their intersections.
        sample_weight : (n,) array-like, or column name of X, optional
            Finite and nonnegative.

        Returns
        -------
        self

        Raises
        ------
        InvalidInput
            Missing groups or Y, too many groups, NaN, infinity, text, inconsistent lengths, or no
            rows.
        InvalidParameter
            A parameter is out of range.
        IncompatibleParameters
            Too many components for these tables, tables that do not covary, or, for FairCCA, a
            table of which some columns depend on others.
        """
        with caller_remedies(row_remedies(X, f"{type(self).__name__}({{}})")):
            return self._fit_rows(X, Y, sensitive_features, sample_weight, initial=None)

    def partial_fit(
        self,
        X: TableLike,
        Y: object = None,
        *,
        sensitive_features: LabelsLike = None,
        sample_weight: WeightsLike = None,
    ) -> Self:
        """Add rows to those seen so far, and fit on all of them.

        The result equals that of one `fit` on all rows, up to rounding. Parameters are those of
        :meth:`fit`.

        Returns
        -------
        self
        """
        remedies = row_remedies(X, f"{type(self).__name__}({{}})")
        with caller_remedies({**remedies, Cause.INCOMPLETE_PARTS: _INCOMPLETE_PARTS_REMEDY}):
            initial = getattr(self, "moments_", None)
            return self._fit_rows(X, Y, sensitive_features, sample_weight, initial=initial)

    def fit_moments(self, moments: GroupMoments, targets: int | Sequence[str]) -> Self:
        """Fit the model on moments of the joined table, without rows.

        Parameters
        ----------
        moments : GroupMoments
            Of the columns of both tables.
        targets : int or sequence of str
            Columns of Y: the number of the last columns, or their names.

        Returns
        -------
        self

        Raises
        ------
        InvalidInput, InvalidType
            The moments have no such columns, or are no moments.
        """
        if not isinstance(moments, GroupMoments):
            raise not_moments_error(moments)
        if self.max_groups is not None:
            n_rows = int(moments.counts.sum())
            GroupLimit(self.max_groups).check(moments.labels, n_rows)
        ordered, n_targets = _move_targets_last(moments, targets)
        return self._fit_moments(ordered, n_targets, reserved_columns=())

    def transform(self, X: TableLike, Y: TableLike = None) -> Any:
        """Return the scores of X, or of both tables; groups are not needed.

        Parameters
        ----------
        X : (n, p) table
            Columns of a frame are matched by name; group columns named in fit are ignored.
        Y : (n, q) table, or names of columns of X, optional

        Returns
        -------
        x_scores : (n, d) array
        y_scores : (n, d) array
            Only if `Y` is passed.
        """
        check_is_fitted(self)
        x_scores = self._scores(X, "x")
        if Y is None:
            return x_scores
        # Names of columns, as `fit` takes them, are those of one table with all columns.
        y_scores = self._scores(X if column_names(Y) is not None else Y, "y")
        if len(getattr(x_scores, "shape", ())) == 2 and len(x_scores) != len(y_scores):
            raise InvalidInput(
                f"X has {counted(len(x_scores), 'row')} and Y has {len(y_scores)}",
                "Allowed: two tables whose rows belong together, one by one",
                "Pass both tables of the same rows",
            )
        return x_scores, y_scores

    def fit_transform(
        self,
        X: TableLike,
        Y: object = None,
        *,
        sensitive_features: LabelsLike = None,
        sample_weight: WeightsLike = None,
    ) -> Any:
        """Fit, and return the scores of X and of Y, each of shape (n, d).

        Parameters are those of :meth:`fit`.
        """
        self.fit(X, Y, sensitive_features=sensitive_features, sample_weight=sample_weight)
        return self.transform(X, Y)

    @property
    def n_samples_seen_(self) -> int:
        """Number of rows fitted, including those of every `partial_fit`."""
        return int(self.moments_.counts.sum())

    @property
    def _n_features_out(self) -> int:
        return int(self.subspace_.n_components)

    def _scores(self, table: TableLike, name: str) -> Any:
        """Scores of one of the tables, "x" or "y"."""
        weights = getattr(self.subspace_, name)
        table = drop_columns(table, self._reserved_columns)
        remote_result = map_rows(table, weights.row_map)
        if remote_result is not None:
            return remote_result
        if name == "y" and len(getattr(table, "shape", ())) == 1:
            table = np.asarray(table).reshape(-1, 1)
        rows = open_features(table)
        return weights.transform_rows(rows, float_dtype(table, weights.feature_names))

    def _settings(self) -> PairedSettings:
        """Validate all parameters but `max_groups`, before any data are read."""
        return PairedSettings.parse(
            self._method,
            self.n_components,
            self.criterion,
            self.restriction,
            restricted_tables=self.restricted_tables,
            center=self.center,
            scale=self.scale,
            regularization=getattr(self, "regularization", 0.0),
            tol=self.tol,
        )

    def _fit_rows(
        self,
        X: TableLike,
        Y: object,
        sensitive_features: LabelsLike,
        sample_weight: WeightsLike,
        *,
        initial: GroupMoments | None,
    ) -> Self:
        """Fit on rows, merged with earlier moments; nothing changes if anything raises."""
        self._settings()
        joined = open_joined(X, Y, sensitive_features, sample_weight, self.on_missing)
        if initial is not None:
            self._check_same_tables(joined)
        moments = compute_group_moments(joined.rows, GroupLimit(self.max_groups), initial=initial)
        for message in label_warnings(moments.labels, moments.counts.tolist(), ()):
            warn(message)
        return self._fit_moments(
            moments, joined.n_targets, joined.reserved_columns, joined.target_names
        )

    def _check_same_tables(self, joined: JoinedRows) -> None:
        """Check that further rows have as many columns in each table.

        Raises
        ------
        InvalidInput
        """
        known = (self.subspace_.x.n_features, self.subspace_.y.n_features)
        received = (joined.rows.n_features - joined.n_targets, joined.n_targets)
        if received == known:
            # Columns of frames are matched by name; those of an array and a frame are not.
            self._check_target_names(joined)
            return
        raise InvalidInput(
            f"X and Y have {received[0]} and {received[1]} columns",
            f"Allowed: {known[0]} and {known[1]}, as in the rows seen so far",
            "Pass the same columns",
        )

    def _check_target_names(self, joined: JoinedRows) -> None:
        """Check that columns of Y beside an array X are those of the rows seen so far, in order.

        Raises
        ------
        InvalidInput
        """
        known = self.subspace_.y.feature_names
        names = joined.target_names
        if joined.rows.feature_names is not None or names is None or names == known:
            return
        described = "without names" if known is None else format_list(known)
        raise InvalidInput(
            f"Y has the columns {format_list(names)}",
            f"Allowed: those of the rows seen so far, in this order: {described}",
            "Pass the same columns in the same order",
        )

    def _fit_moments(
        self,
        moments: GroupMoments,
        n_targets: int,
        reserved_columns: tuple[str, ...],
        target_names: tuple[str, ...] | None = None,
    ) -> Self:
        """Fit on moments of X, followed by the columns of Y.

        `target_names` are the names of Y where X has none.
        """
        settings = self._settings()
        fit = fit_pairs(
            moments, n_targets, settings, resolve_solver(self.solver), self.random_state
        )
        if moments.feature_names is None and target_names is not None:
            weights = replace(fit.subspace.y, feature_names=target_names)
            fit = replace(fit, subspace=replace(fit.subspace, y=weights))
        fitted = copy(self)
        fitted._set_fit(fit, moments, reserved_columns)
        self.__dict__ = fitted.__dict__
        return self

    def _set_fit(
        self, fit: PairedFit, moments: GroupMoments, reserved_columns: tuple[str, ...]
    ) -> None:
        """Set the attributes that follow from a fit."""
        pair = fit.subspace
        certificate = pair.certificate
        self.subspace_ = pair
        self.solution_ = certificate
        self.moments_ = moments
        self.x_weights_ = pair.x.rotations
        self.y_weights_ = pair.y.rotations
        self.covariances_ = fit.covariances
        self.groups_ = moments.groups
        self.group_covariances_ = certificate.figures.kept
        self.group_best_covariances_ = certificate.figures.best
        self.group_losses_ = certificate.losses
        self.n_features_in_ = pair.x.n_features
        if pair.x.feature_names is not None:
            self.feature_names_in_ = np.asarray(pair.x.feature_names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        self._reserved_columns = reserved_columns


def _move_targets_last(
    moments: GroupMoments, targets: int | Sequence[str]
) -> tuple[GroupMoments, int]:
    """Moments with the columns of Y behind those of X, and the number of these columns.

    Raises
    ------
    InvalidInput
    """
    p = moments.n_features
    if isinstance(targets, bool) or not isinstance(targets, int | np.integer | str | Sequence):
        raise InvalidType(
            f"targets is {describe_type(targets)}",
            "Allowed: the number of columns of Y, which are the last ones, or their names",
            "Pass one of these",
        )
    if isinstance(targets, int | np.integer):
        if not 1 <= targets < p:
            raise InvalidInput(
                f"targets is {targets}",
                f"Allowed: from 1 to {p - 1}, as the moments have {counted(p, 'column')}",
                "Pass the number of columns of Y",
            )
        return moments, int(targets)
    names = (targets,) if isinstance(targets, str) else tuple(targets)
    available = moments.feature_names
    is_distinct = len(set(names)) == len(names)
    if available is None or not names or not is_distinct or not set(names) < set(available):
        known = "without names" if available is None else format_list(available)
        raise InvalidInput(
            f"targets names the columns {format_list(names)}",
            f"Allowed: some of the columns of the moments, each once: {known}",
            "Check the names, or pass the number of columns of Y if they are the last ones",
        )
    others = [name for name in available if name not in names]
    order = [available.index(name) for name in (*others, *names)]
    return moments.select_features(order), len(names)


class FairPLS(_FairPairs):
    """Partial least squares of two tables that keeps covariance for every group.

    Finds orthonormal weights U of X and V of Y that minimize a criterion of what the groups keep of
    their cross-covariances C_g, c_g = tr U'C_gV. The loss of a group is K_d(C_g) - c_g, where K_d,
    the sum of the d largest singular values, is the most that any pair keeps of it. `solution_`
    certifies how close to optimal the pair is.

    Parameters
    ----------
    n_components : int, default=2
        d, less than the number of columns of either table.
    criterion : str or object, default="minimax_loss"
        - "minimax_loss": largest loss of a group
        - "minimax_relative_loss": the same as a fraction of the group's own best
        - "total_covariance": minus the covariance kept over all rows; equal to scikit-learn's
          `PLSSVD`
        - "nash_welfare": minus the mean logarithm of the covariances kept
    restriction : str or object, default=None
        "mean_parity", `MeanParity()` or `MeanParity(attributes="marginal")`: the scores of all
        groups have the same mean. Losses are still measured against the best pair without it.
    restricted_tables : {"both", "x", "y"}, default="both"
        Tables whose scores the restriction is about.
    center : {"global", "group", "none"}, default="global"
        Point about which covariances are computed.
    scale : bool, default=True
        Divide each column by its standard deviation (ddof 0).
    solver : str or object, default="auto"
        Solver of the minimax criteria: "auto", "boundary" (two groups) or "dual_newton".
    tol : float, default=1e-9
        Largest gap that counts as optimal, relative to the objective.
    on_missing : {"error", "drop", "em", "em-drop-empty"}, default="error"
        What to do with rows with missing cells: raise, drop them, or fit to the observed cells.
        `transform` needs complete rows.
    max_groups : int or None, default=None
        Maximum number of groups; None allows 100.
    random_state : int, Generator, RandomState or None
        Used by solvers with random starts; the default solver has none.

    Attributes
    ----------
    x_weights_ : (p, d) array
        U, orthonormal columns, in order of decreasing covariance over all rows; the largest entry
        of each is positive. Scores are ``((X - mean) / scale) @ x_weights_``.
    y_weights_ : (q, d) array
        V.
    covariances_ : (d,) array
        Covariance of each pair of scores over all rows, divided by the total weight.
    groups_ : (k,) array
    group_covariances_ : (k,) array
        Covariance c_g that each group keeps, in (scaled) units of X times units of Y.
    group_best_covariances_ : (k,) array
        K_d(C_g).
    group_losses_ : (k,) array
    solution_ : PairedCertificate
    subspace_ : PairedSubspace
        The weights alone, to save or deploy.
    moments_ : GroupMoments
        Of the columns of X, followed by those of Y.
    n_features_in_ : int
    feature_names_in_ : (p,) array of str
        Only if the columns have names.

    Notes
    -----
    Unlike `PLSCanonical` and `CCA` of scikit-learn, which deflate the tables after each component,
    all components are found at once, as in `PLSSVD`. Standard deviations and covariances are
    divided by the total weight, not by n - 1.

    The second table is `Y`, as rows of both belong together; scikit-learn calls it `y`.

    With d equal to the number of columns of a table, the two subspaces can only be rotated against
    each other, and no bound is tight: such a number is refused.

    Examples
    --------
    >>> import numpy as np
    >>> from fairspan.cross_decomposition import FairPLS
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(400, 5))
    >>> Y = np.column_stack([2 * X[:, 0], X[:, 1], X[:, 2]]) + rng.normal(size=(400, 3))
    >>> groups = np.repeat(["many", "few"], [350, 50])
    >>> Y[350:] = Y[350:, ::-1]
    >>> ordinary = FairPLS(1, criterion="total_covariance").fit(X, Y, sensitive_features=groups)
    >>> fair = FairPLS(1).fit(X, Y, sensitive_features=groups)
    >>> bool(fair.group_losses_.max() < ordinary.group_losses_.max())
    True
    >>> fair.solution_.status == "optimal"
    True
    """

    _method: ClassVar[str] = "pls"


class FairCCA(_FairPairs):
    """Canonical correlation of two tables that keeps correlation for every group.

    Both tables are whitened by their pooled covariances, and then as in
    :class:`~fairspan.cross_decomposition.FairPLS`: what a group keeps is tr U'C_gV, C_g its
    cross-covariance of the whitened columns. With one group, the sum of the d largest canonical
    correlations.

    Parameters
    ----------
    n_components : int, default=2
        d, less than the number of columns of either table.
    criterion, restriction, restricted_tables, center, scale, solver, tol, on_missing, max_groups
        As for :class:`~fairspan.cross_decomposition.FairPLS`.
    regularization : float, default=0.0
        Share r, from 0 to 1, by which the pooled covariance S of each table is shrunk before
        whitening, to (1 - r) S + r tr(S) / p I. Needed if columns depend on each other.
    random_state : int, Generator, RandomState or None

    Attributes
    ----------
    x_weights_, y_weights_ : (p, d) and (q, d) arrays
        Weights of the standardized columns: with center="global" and without regularization, the
        scores of all rows are uncorrelated and of unit variance.
    covariances_ : (d,) array
        Covariance of each pair of scores over all rows; their correlation under these conditions.
    groups_, group_covariances_, group_best_covariances_, group_losses_, solution_, subspace_,
    moments_, n_features_in_, feature_names_in_
        As for :class:`~fairspan.cross_decomposition.FairPLS`.

    Examples
    --------
    >>> import numpy as np
    >>> from fairspan.cross_decomposition import FairCCA
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(400, 4))
    >>> Y = X[:, :3] + rng.normal(size=(400, 3))
    >>> fair = FairCCA(1).fit(X, Y, sensitive_features=["a", "b"] * 200)
    >>> x_scores, y_scores = fair.transform(X, Y)
    >>> bool(np.isclose(np.corrcoef(x_scores[:, 0], y_scores[:, 0])[0, 1], fair.covariances_[0]))
    True
    """

    _method: ClassVar[str] = "cca"

    def __init__(
        self,
        n_components: int = 2,
        *,
        criterion: str | PairedCriterion = "minimax_loss",
        restriction: str | Restriction | None = None,
        restricted_tables: str = "both",
        center: Center = "global",
        scale: bool = True,
        regularization: float = 0.0,
        solver: str | Solver | Auto = "auto",
        tol: float = 1e-9,
        on_missing: OnMissing = "error",
        max_groups: int | None = None,
        random_state: RandomSource = None,
    ) -> None:
        super().__init__(
            n_components,
            criterion=criterion,
            restriction=restriction,
            restricted_tables=restricted_tables,
            center=center,
            scale=scale,
            solver=solver,
            tol=tol,
            on_missing=on_missing,
            max_groups=max_groups,
            random_state=random_state,
        )
        self.regularization = regularization
