"""Build the problems of all dimensions from moments, a criterion and a restriction."""

import numbers
from dataclasses import dataclass, replace
from functools import cached_property
from typing import cast

import numpy as np
from scipy.linalg import blas

from fairspan.errors import IncompatibleParameters
from fairspan.formatting.messages import counted
from fairspan.linalg.complement import OrthogonalComplement
from fairspan.linalg.rounding import ENTRY_TERMS, EPS, ZERO_EIGENVALUE
from fairspan.moments.base import Center
from fairspan.moments.compute import Moments
from fairspan.moments.projector import Projector
from fairspan.moments.second_moments import DenseSecondMoments, SecondMoments
from fairspan.moments.sparse import SparseSecondMoments
from fairspan.moments.wide import RowSpace
from fairspan.problem.criteria import Criterion, get_criterion
from fairspan.problem.directions import (
    check_enough_directions,
)
from fairspan.problem.mean_agreement import ConstrainedMeans
from fairspan.problem.oblique import ObliqueShift, oblique_shift
from fairspan.problem.problem import Embedding, Problem
from fairspan.problem.reduction import Reduction, restricted_rounding
from fairspan.problem.restrictions import (
    CovarianceParity,
    MeanParity,
    Restriction,
    Uncorrelated,
    differences_of,
)
from fairspan.problem.rounding_budget import RoundingBudget, RowRank
from fairspan.registry import builtin_names
from fairspan.typing import FloatArray

# Directions are few if they are at most this fraction (1 / n) of all.
_FEW_DIRECTIONS_DIVISOR = 20


@dataclass(frozen=True, eq=False)
class ProblemFamily:
    """Problems of one criterion and data set, one for each number of components.

    Attributes
    ----------
    template : Problem
        The problem without the restriction; its `n_components` is a placeholder.
    restriction : Restriction or None
        Expressed in the coordinates of the problem.
    moments : GroupMoments, SparseMoments or WideMoments
        Moments from which the problem was built.
    center_point : (p,) or (k, p) array
        Point about which errors are measured; None for each group's own mean.
    coordinates : RowSpace or None
        Row coordinates of the problem, if it is not posed in the features.
    """

    template: Problem
    restriction: Restriction | None
    moments: Moments
    center_point: FloatArray
    coordinates: RowSpace | None

    def reduction_at(self, n_components: int) -> Reduction:
        """Problem for a number of components, in the directions that the restriction allows.

        Raises
        ------
        Incompatible
            The restriction allows too few directions.
        """
        # The template has no restriction, and perhaps a placeholder for the number of components.
        unrestricted = self.template
        if n_components != unrestricted.n_components:
            unrestricted = replace(unrestricted, n_components=n_components)
        restriction = self.restriction
        if restriction is None:
            return Reduction(unrestricted)
        if not unrestricted.has_matrices:
            return self._sparse_reduction(unrestricted)
        # An oblique restriction shifts the rows until means agree, others choose among directions.
        if restriction.oblique:
            return self._oblique_reduction(unrestricted)
        return self._projected_reduction(unrestricted, restriction)

    def _sparse_reduction(self, unrestricted: Problem) -> Reduction:
        """Problem of sparse rows, in the same features without the forbidden directions.

        Coordinates along the allowed directions would not be sparse, so second moments are
        projected instead.
        """
        # The variance along the forbidden directions is lost by every allowed subspace.
        forbidden = self._forbidden_basis(unrestricted.n_components)
        sparse_moments = cast(SparseSecondMoments, unrestricted.second_moments)
        fixed_errors, common_error = unrestricted.criterion.split_fixed_errors(
            sparse_moments.captured_variances(forbidden)
        )
        problem = replace(
            unrestricted,
            second_moments=sparse_moments.forbid(forbidden, fixed_errors),
            embedding=Embedding(
                parent=unrestricted, fixed_errors=fixed_errors, common_error=common_error
            ),
        )
        return Reduction(problem)

    def _projected_reduction(self, unrestricted: Problem, restriction: Restriction) -> Reduction:
        """Problem in coordinates along the allowed directions.

        Errors in the forbidden directions are fixed, and added to those along the allowed ones. A
        restriction with a tolerance also limits a difference between groups (`limit`).
        """
        forbidden, axes, covariances = self._split_directions(
            restriction, unrestricted.n_components
        )
        if axes is None:  # all directions are allowed
            limit = restriction.limit(self.constrained_means.means, covariances)
            return Reduction(replace(unrestricted, limit=limit))
        limit = restriction.limit(self.constrained_means.means @ axes, covariances)
        fixed_errors, common_error, fixed_rounding = self._fixed_errors(unrestricted, forbidden)
        # Assembled from covariances and means along the axes: the second moments of all directions
        # also contain means far apart, whose rounding error would remain after projecting. The
        # limit may refer to the covariances, which are then copied before they are updated.
        matrices = np.ascontiguousarray(covariances) if limit is None else covariances.copy()
        for matrix, offset in zip(matrices, self._mean_offsets @ axes, strict=True):
            # Updated in place: the matrix is C-ordered, and a separate outer product is slower.
            blas.dger(1.0, offset, offset, a=matrix.T, overwrite_a=1)
        dense_moments = unrestricted.dense_moments
        offset_rounding = np.abs(axes.T) @ dense_moments.offset_rounding_error
        second_moments = DenseSecondMoments(
            matrices,
            excluded_variances=fixed_errors,
            offset_rounding_error=offset_rounding,
            uncertainty=dense_moments.uncertainty,
        )
        rounding = restricted_rounding(unrestricted, second_moments, forbidden.shape[1])
        problem = unrestricted.along(
            axes,
            second_moments=second_moments,
            embedding=Embedding(unrestricted, axes, fixed_errors, common_error),
            limit=limit,
            rounding=replace(
                rounding,
                fixed_errors=fixed_rounding,
                inner_variances=EPS * ENTRY_TERMS * self.moments.variances.sum(axis=1),
            ),
        )
        return Reduction(problem, axes)

    @property
    def max_components(self) -> int:
        """Largest number of components that can be requested."""
        # Row coordinates span the rows and a few further directions, which limits the components.
        if self.coordinates is None:
            maximum = self.template.n_features
        else:
            maximum = self.coordinates.max_components
        if self.restriction is None:
            return maximum
        if self.restriction.oblique:
            # Shifted rows vary along no more directions than this.
            return min(maximum, self._oblique_shift.rank)
        allowed = self.restriction.max_components(self.constrained_means.means, self._covariances)
        return min(maximum, allowed)

    @cached_property
    def constrained_means(self) -> ConstrainedMeans:
        """Means that the restriction requires to be equal.

        If errors are about the origin, covariance parity also uses the direction of the mean of all
        rows, where there is something to keep even without variance. This mean is added to all,
        which leaves the differences as they are, and shortened so that they keep their precision.
        """
        restriction = cast(Restriction, self.restriction)
        means = restriction.constrained_means(self.moments)
        if isinstance(restriction, CovarianceParity):
            common_mean = self._mean_offset  # zero unless errors are about the origin
            length = float(np.linalg.norm(common_mean))
            max_length = float(np.linalg.norm(self.moments.standard_deviations))
            if length > max_length:
                common_mean = common_mean * (max_length / length)
            means = means + common_mean
        return ConstrainedMeans(
            means,
            self.moments,
            restriction,
            self.center_point,
            self.coordinates,
            self.template.rounding.orthogonality_defect,
        )

    @cached_property
    def _mean_offset(self) -> FloatArray:
        """Mean of all rows relative to the point about which errors are measured, shape (p,)."""
        if self.center_point.ndim > 1:  # each group has its own
            return np.zeros(self.moments.n_features)
        return np.asarray(self.moments.proportions @ self._mean_offsets)

    @cached_property
    def _mean_offsets(self) -> FloatArray:
        """Group means relative to the point about which errors are measured, shape (k, p)."""
        return self.moments.offsets_from(self.center_point)

    @cached_property
    def _scatters(self) -> FloatArray:
        """Weighted scatter matrices about each group's own mean, shape (k, p, p)."""
        return self.moments.to_dense().scatters

    @cached_property
    def _covariances(self) -> FloatArray:
        """Covariances about each group's own mean, shape (k, p, p)."""
        return self._scatters / self.moments.weights[:, None, None]

    @cached_property
    def _oblique_shift(self) -> ObliqueShift:
        pooled = self.template.dense_moments.mixture(self.template.proportions)
        return oblique_shift(pooled, self.constrained_means.difference_directions)

    def _forbidden_basis(self, n_components: int) -> FloatArray:
        """Orthonormal basis of the mean differences, shape (p, r), all that is forbidden."""
        columns = self.constrained_means.difference_directions
        check_enough_directions(n_components, len(columns), columns.shape[1])
        return np.linalg.qr(columns)[0]

    def _split_directions(
        self, restriction: Restriction, n_components: int
    ) -> tuple[FloatArray, FloatArray | None, FloatArray]:
        """Split all directions into those that the restriction forbids and those that it allows.

        Returns
        -------
        forbidden : (p, r) array
            Orthonormal basis of the forbidden directions.
        allowed : (p, m) array or None
            Orthonormal basis Q of the allowed directions; None if all are.
        covariances : (k, m, m) array
            Q'C_gQ, the covariance of each group in the allowed directions.
        """
        p = self.constrained_means.means.shape[1]
        if restriction.forbids_mean_differences_only:
            forbidden = self._forbidden_basis(n_components)
            complement = OrthogonalComplement.from_differences(
                self.constrained_means.difference_directions
            )
            basis = complement.basis
            # If few directions are forbidden, Q is applied as a product of as many reflections,
            # which is faster than two products with Q.
            if forbidden.shape[1] <= p // _FEW_DIRECTIONS_DIVISOR:
                covariances = complement.compress(self._scatters, scales=1 / self.moments.weights)
            else:
                covariances = np.array([basis.T @ matrix @ basis for matrix in self._covariances])
            return forbidden, basis, covariances
        axes = restriction.allowed_directions(
            self.constrained_means.means, self._covariances, n_components
        )
        if axes is None:
            no_directions = np.empty((p, 0))
            return no_directions, None, self._covariances
        # The columns of a complete QR factor after those that span the axes are orthogonal to them.
        forbidden = np.linalg.qr(axes, mode="complete")[0][:, axes.shape[1] :]
        covariances = np.array([axes.T @ matrix @ axes for matrix in self._covariances])
        return forbidden, axes, covariances

    @property
    def _rank_within_groups(self) -> int:
        """Number of directions along which rows vary about the means of their groups.

        It is the rank of the correlation matrix, to which every feature contributes alike.
        """
        pooled = np.tensordot(self.moments.proportions, self._covariances, axes=1)
        deviations = np.sqrt(np.maximum(np.diag(pooled), 0.0))
        deviations = np.where(deviations > 0, deviations, 1.0)
        eigenvalues = np.linalg.eigvalsh(pooled / deviations / deviations[:, None])
        return int(np.count_nonzero(eigenvalues > ZERO_EIGENVALUE * eigenvalues[-1]))

    def _oblique_reduction(self, unrestricted: Problem) -> Reduction:
        """Problem of an oblique restriction: PCA of the rows after a shift that makes means agree.

        An oblique restriction requires the criterion "total_error", so only the error over all rows
        matters: that of the shifted rows plus the variance that the shift loses, `common_error`.
        Each group therefore gets the second moment of the shifted rows of all groups.
        """
        shift = self._oblique_shift
        if unrestricted.n_components > shift.rank:
            raise self._too_few_oblique_directions(unrestricted)
        k = unrestricted.n_groups
        p = unrestricted.n_features
        shifted_moments = DenseSecondMoments(
            np.broadcast_to(shift.shifted_second_moment, (k, p, p)),
            offset_rounding_error=unrestricted.dense_moments.offset_rounding_error,
            uncertainty=unrestricted.dense_moments.uncertainty,
        )
        rounding = restricted_rounding(
            unrestricted, shifted_moments, self.constrained_means.difference_directions.shape[1]
        )
        # Rounding of the variance that is lost, of the variance that is left, and of both due to
        # the sensitivity of the shift.
        problem = replace(
            unrestricted,
            second_moments=shifted_moments,
            embedding=Embedding(unrestricted, common_error=shift.variance_lost),
            rounding=replace(
                rounding,
                fixed_errors=EPS * ENTRY_TERMS * shift.variance_lost,
                inner_variances=EPS * ENTRY_TERMS * shifted_moments.traces,
                oblique_shift=shift.rounding,
            ),
        )
        return Reduction(problem, oblique_shift=shift)

    def _too_few_oblique_directions(self, unrestricted: Problem) -> IncompatibleParameters:
        """Return the error for more components than directions along which shifted rows vary.

        An oblique restriction shifts the rows of each group so that the means of all k groups agree
        along the encoder, which removes up to k - 1 of the directions within groups. If more than
        that are missing, rounding hides them, and the message says so.
        """
        rank = self._oblique_shift.rank
        n_components = unrestricted.n_components
        if n_components > self._rank_within_groups - (unrestricted.n_groups - 1):
            return IncompatibleParameters(
                f"n_components is {n_components} with {self.restriction!r}",
                f"Allowed: at most {rank}: once the means agree, the rows vary along no more "
                "directions",
                "Choose fewer components",
            )
        return IncompatibleParameters(
            f"{self.restriction!r} was requested with n_components={n_components}, and the means "
            f"of the groups are so far apart that double precision resolves only "
            f"{counted(rank, 'direction')} along which rows vary within groups",
            "Allowed: mean differences that leave digits for the variation within groups",
            "Look for wrong entries in the distant group, such as codes of missing values; or drop "
            "that group",
        )

    def _fixed_errors(
        self, unrestricted: Problem, forbidden: FloatArray
    ) -> tuple[FloatArray, float, FloatArray]:
        """Errors in the forbidden directions, which every allowed subspace leaves out.

        Parameters
        ----------
        unrestricted : Problem
        forbidden : (p, r) array
            Orthonormal basis of these directions.

        Returns
        -------
        fixed_errors : (k,) array
            Error of each group, less the common part.
        common_error : float
            Error that all groups share.
        rounding : (k,) array
            Rounding error bound of their sum.
        """
        scatters = np.array([np.vdot(forbidden, scatter @ forbidden) for scatter in self._scatters])
        # Errors are about a center, from which the group means differ by the offsets.
        mean_parts = ((self._mean_offsets @ forbidden) ** 2).sum(axis=1)
        errors = scatters / self.moments.weights + mean_parts
        offset_rounding = float(np.linalg.norm(unrestricted.dense_moments.offset_rounding_error))
        fixed_errors, common_error = unrestricted.criterion.split_fixed_errors(errors)
        total_fixed = fixed_errors + common_error
        # If an offset is off by o, an error e is off by at most 2 sqrt(e) o + o^2.
        rounding = (
            2 * np.sqrt(total_fixed) * offset_rounding
            + offset_rounding**2
            + EPS * ENTRY_TERMS * total_fixed
        )
        return fixed_errors, common_error, rounding


def check_means_agree(family: ProblemFamily, projector: Projector) -> None:
    """Check that a solution removes the mean differences that its restriction forbids.

    Parameters
    ----------
    family : ProblemFamily
    projector : Projector
        The solution, in the coordinates of the problems.

    Raises
    ------
    Incompatible
        Along some component, means differ by more than a millionth of its standard deviation.
    """
    restriction = family.restriction
    if not isinstance(restriction, MeanParity | CovarianceParity | Uncorrelated):
        return
    # A single group has only one mean, but columns may still be correlated with its rows.
    if family.moments.n_groups > 1 or isinstance(restriction, Uncorrelated):
        family.constrained_means.check_agree(projector)


def build_problem_family(
    moments: Moments,
    n_components: int | float,
    criterion: Criterion,
    *,
    restriction: Restriction | None = None,
    center: Center = "global",
    feature_scale: FloatArray | None = None,
    allow_extra: bool = False,
    second_moments: SecondMoments | None = None,
) -> ProblemFamily:
    """Build the problems of a criterion, one for each number of components.

    Parameters
    ----------
    moments : GroupMoments, SparseMoments or WideMoments
        For WideMoments, of fewer rows than features, the problem is posed in coordinates of the
        space that the rows span (row coordinates), unless the restriction depends on the features.
    n_components : int or float
        d, or a fraction of every group's variance to keep.
    criterion : Criterion
    restriction : Restriction or None
    center : {"global", "group", "none"}
        Center about which errors are measured.
    feature_scale : (p,) array, optional
        Divisor of each feature.
    allow_extra : bool
        Whether a soft projection of more than d dimensions may be returned.
    second_moments : SecondMoments, optional
        Second moments of the same data about the same center, if they exist already, to reuse
        solved eigenproblems.

    Returns
    -------
    ProblemFamily

    Raises
    ------
    Incompatible, UnknownGroup
        The criterion or the restriction is undefined for these groups.
    """
    scaled_moments = moments if feature_scale is None else moments.divided_by(feature_scale)
    # Row coordinates rotate the features, which a restriction may not allow.
    allows_rotation = restriction is None or restriction.is_rotation_equivariant
    coordinates: RowSpace | None = None
    rounding = RoundingBudget()
    problem_moments: Moments
    if allows_rotation:
        coordinates = scaled_moments.reduce_to_row_space(n_components, center)
    if coordinates is not None:
        # Few rows span a low-dimensional space, in whose coordinates the problem is small. They are
        # inexact: axes are not quite orthonormal, and rows lie slightly outside their span.
        rounding = RoundingBudget(
            orthogonality_defect=coordinates.orthogonality_defect,
            span_residuals=coordinates.span_residuals(),
        )
        problem_moments = coordinates.coordinate_moments
        center_point = coordinates.point
    else:
        problem_moments = scaled_moments.in_features()
        center_point = scaled_moments.center_point(center)
    if second_moments is None:
        second_moments = problem_moments.second_moments_about(center_point)
    # About the origin, rows also vary along their common mean.
    max_rank = scaled_moments.max_rank + int(center == "none")
    # A fraction of variance becomes a number of components later: one is a placeholder.
    problem = Problem(
        second_moments,
        moments.labels,
        moments.weights,
        n_components=int(n_components) if isinstance(n_components, numbers.Integral) else 1,
        criterion=criterion,
        allow_extra=allow_extra,
        rounding=replace(rounding, row_rank=_row_rank(moments, second_moments, max_rank)),
        weight_exponent=moments.weight_exponent,
    )
    if restriction is not None:
        restriction.check_compatible(moments.labels, criterion, allow_extra=allow_extra)
        _check_center(restriction, center)
        if coordinates is not None:
            restriction = _restriction_in_coordinates(
                restriction, coordinates, problem.n_components
            )
    return ProblemFamily(problem, restriction, problem_moments, center_point, coordinates)


def _row_rank(moments: Moments, second_moments: SecondMoments, max_rank: int) -> RowRank:
    """Bound on the rank of the rows, with the variance of a typical one.

    They tell errors that are zero from errors that are lost in rounding.

    Parameters
    ----------
    moments : GroupMoments, SparseMoments or WideMoments
    second_moments : SecondMoments
        Of the problem.
    max_rank : int
        Bound on the rank of the rows, in any coordinates.
    """
    # The squared length of a typical row, as a share of the mean of all. With moments alone, a
    # single row may be 1e8 times larger than the others.
    spread = moments.row_spread
    typical_share = EPS if spread is None else spread.typical_share
    proportions = moments.proportions
    return RowRank(
        maximum=min(max_rank, second_moments.n_features),
        second_moments=second_moments,
        proportions=proportions,
        typical_variance=typical_share * float(proportions @ second_moments.traces),
    )


def _check_center(restriction: Restriction, center: Center) -> None:
    """Check that errors are about the mean of all rows if an oblique restriction shifts rows.

    Raises
    ------
    Incompatible
    """
    if center != "global" and restriction.oblique:
        raise IncompatibleParameters(
            f"{restriction!r} was requested with center={center!r}",
            "Allowed: center='global': rows are shifted about the mean of all rows",
            "Use center='global', or an orthogonal restriction",
        )


def _restriction_in_coordinates(
    restriction: Restriction, coordinates: RowSpace, n_components: int
) -> Restriction:
    """Equivalent restriction in row coordinates.

    There are fewer row coordinates than features: they omit most directions without variance
    (:mod:`fairspan.moments.wide`), which a restriction counts as allowed.

    Raises
    ------
    Incompatible
        Fewer directions are allowed than components or directions were requested, or the number of
        directions is not given.
    """
    # A restriction that counts no directions is the same in all coordinates.
    counts_directions = isinstance(restriction, CovarianceParity) and restriction.tolerance is None
    if not restriction.forbids_mean_differences_only and not counts_directions:
        return restriction
    moments = coordinates.coordinate_moments
    n_features = coordinates.moments_of_rows.n_features
    rank = differences_of(restriction, moments).shape[1]
    n_available = n_features - rank
    check_enough_directions(n_components, n_features, rank)
    if not isinstance(restriction, CovarianceParity) or moments.n_groups == 1:
        return restriction
    n_directions = restriction.n_directions
    if n_directions is None or not n_components <= n_directions <= n_available:
        n_varying = coordinates.n_axes
        raise IncompatibleParameters(
            f"{restriction!r} was requested for rows that vary along only {n_varying} of "
            f"{counted(n_features, 'direction')}",
            f"Allowed: n_directions from {n_components} to {n_available}; up to "
            f"{n_features - n_varying}, directions without variance suffice",
            "Choose such a number, or another n_components",
        )
    # Directions without variance, which the coordinates omit, are selected last.
    return replace(restriction, n_directions=min(n_directions, moments.n_features - rank))


def check_nesting_supported(
    criterion: Criterion, restriction: Restriction | None, *, allow_extra: bool
) -> None:
    """Check that components can be nested.

    Raises
    ------
    Incompatible
        The criterion or the restriction does not support nesting, or soft projections are allowed.
    """
    if not criterion.supports_nesting:
        supported = [
            name for name in builtin_names("criterion") if get_criterion(name).supports_nesting
        ]
        raise IncompatibleParameters(
            f"nested=True was requested with {criterion!r}",
            f"Allowed: the criteria {', '.join(map(repr, supported))}, with default parameters",
            "Use one of these, or nested=False",
        )
    if restriction is not None and not restriction.forbids_mean_differences_only:
        raise IncompatibleParameters(
            f"nested=True was requested with {restriction!r}",
            "Allowed: restrictions with the same allowed directions for every number of "
            "components, such as MeanParity()",
            "Use MeanParity(), or nested=False",
        )
    if allow_extra:
        raise IncompatibleParameters(
            "nested=True was requested with allow_extra=True",
            "Allowed with nested=True: allow_extra=False, since each component is one direction",
            "Drop one of the two",
        )
