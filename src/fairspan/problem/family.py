"""Problems of one criterion and data set, one for each number of components."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import cast

import numpy as np
from scipy.linalg import blas

from fairspan.errors import IncompatibleParameters
from fairspan.formatting.messages import counted
from fairspan.linalg.complement import OrthogonalComplement
from fairspan.linalg.rounding import ENTRY_TERMS, EPS, ZERO_EIGENVALUE
from fairspan.moments.compute import Moments
from fairspan.moments.projector import Projector
from fairspan.moments.row_space import RowSpace
from fairspan.moments.second_moments import DenseSecondMoments
from fairspan.moments.sparse_scatter import SparseSecondMoments
from fairspan.problem.directions import check_enough_directions
from fairspan.problem.mean_agreement import ConstrainedMeans
from fairspan.problem.oblique import ObliqueShift, oblique_shift
from fairspan.problem.problem import Embedding, Problem
from fairspan.problem.reduction import Reduction, restricted_rounding
from fairspan.problem.restrictions.restriction import AllowedDirections, Restriction
from fairspan.problem.rounding_budget import RoundingBudget
from fairspan.typing import FloatArray

# Directions are few if they are at most this fraction (1 / n) of all.
_FEW_DIRECTIONS_DIVISOR = 20


@dataclass(frozen=True, eq=False)
class _DirectionSplit:
    """All directions, split into those that a restriction forbids and those that it allows.

    Attributes
    ----------
    forbidden : (p, r) array
        Orthonormal basis of the forbidden directions.
    allowed : AllowedDirections
        With an orthonormal basis Q of the allowed directions.
    covariances : (k, m, m) array
        Q'C_gQ, the covariance of each group in the allowed directions.
    """

    forbidden: FloatArray
    allowed: AllowedDirections
    covariances: FloatArray


@dataclass(frozen=True, eq=False)
class _FixedErrors:
    """Errors in the forbidden directions, which every allowed subspace leaves out.

    Attributes
    ----------
    by_group : (k,) array
        Error of each group, less the common part.
    common : float
        Error that all groups share. It is split off where it only adds a constant to the objective,
        since it would hide digits of small errors.
    rounding : (k,) array
        Rounding error bound of their sum.
    """

    by_group: FloatArray
    common: float
    rounding: FloatArray


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
        Point about which errors are measured, or the mean of each group.
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
        IncompatibleParameters
            The restriction allows too few directions.
        """
        # The template has no restriction, and perhaps a placeholder for the number of components.
        unrestricted = self.template
        if n_components != unrestricted.n_components:
            unrestricted = replace(unrestricted, n_components=n_components)
        restriction = self.restriction
        if restriction is None:
            return Reduction(unrestricted)
        if not unrestricted.second_moments.has_matrices:
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
        # Every allowed subspace loses the variance along the forbidden directions. The part of it
        # that all groups share is added to the objective at the end instead of to each error, where
        # it would hide digits of small errors.
        forbidden = self._forbidden_basis(unrestricted.n_components)
        sparse_moments = cast(SparseSecondMoments, unrestricted.second_moments)
        fixed_errors, common_error = unrestricted.criterion.split_fixed_errors(
            sparse_moments.captured_variances(forbidden)
        )
        problem = replace(
            unrestricted,
            second_moments=sparse_moments.forbid(forbidden, excluded_variances=fixed_errors),
            embedding=Embedding(
                parent=unrestricted, fixed_errors=fixed_errors, common_error=common_error
            ),
        )
        return Reduction(problem)

    def _projected_reduction(self, unrestricted: Problem, restriction: Restriction) -> Reduction:
        """Problem in coordinates along the allowed directions.

        Errors in the forbidden directions are fixed, and added to those along the allowed ones; the
        part that all groups share, `common_error`, is kept apart if it only adds a constant to the
        criterion. A restriction with a tolerance also limits a difference between groups (`limit`):
        of the means that the restriction compares (`constrained_means`), which need not be those
        about which errors are measured (`_mean_offsets`), or of the covariances.
        """
        split = self._split_directions(restriction, unrestricted.n_components)
        forbidden = split.forbidden
        covariances = split.covariances
        axes = split.allowed.axes
        if axes is None:  # all directions are allowed
            limit = restriction.limit(self.constrained_means.means, covariances)
            return Reduction(replace(unrestricted, limit=limit))
        required = restriction.required_directions(self.moments, forbidden)
        n_required = 0
        if required is not None:
            n_required = required.shape[1]
            _check_more_components(unrestricted.n_components, n_required, restriction)
            axes = _complement_of(np.hstack([forbidden, required]))
            covariances = np.array([axes.T @ matrix @ axes for matrix in self._covariances])
        limit = restriction.limit(self.constrained_means.means @ axes, covariances)
        # A limit may keep a reference to the covariances, which are then copied before an update.
        matrices = np.ascontiguousarray(covariances) if limit is None else covariances.copy()
        self._add_mean_offsets(matrices, axes)
        fixed_errors = self._fixed_errors(unrestricted, forbidden)
        dense_moments = unrestricted.dense_moments
        second_moments = DenseSecondMoments(
            matrices,
            excluded_variances=fixed_errors.by_group,
            offset_rounding_error=np.abs(axes.T) @ dense_moments.offset_rounding_error,
            uncertainty=dense_moments.uncertainty,
        )
        # Directions that every solution contains leave fewer components to choose.
        remaining = replace(unrestricted, n_components=unrestricted.n_components - n_required)
        problem = remaining.along(
            axes,
            second_moments=second_moments,
            embedding=Embedding(unrestricted, axes, fixed_errors.by_group, fixed_errors.common),
            limit=limit,
            rounding=self._projected_rounding(
                unrestricted, second_moments, split, n_required, fixed_errors.rounding
            ),
        )
        return Reduction(problem, axes, required=required)

    def _add_mean_offsets(self, covariances: FloatArray, axes: FloatArray) -> None:
        """Turn covariances along (p, m) axes into second moments about the center, in place.

        The second moments of all directions also contain means far apart, whose rounding error
        would remain after projecting.
        """
        for matrix, offset in zip(covariances, self._mean_offsets @ axes, strict=True):
            # The matrix is C-ordered, and a separate outer product is slower.
            blas.dger(1.0, offset, offset, a=matrix.T, overwrite_a=1)

    def _projected_rounding(
        self,
        unrestricted: Problem,
        second_moments: DenseSecondMoments,
        split: _DirectionSplit,
        n_required: int,
        fixed_rounding: FloatArray,
    ) -> RoundingBudget:
        """Return the rounding budget in coordinates along the allowed directions.

        Parameters
        ----------
        unrestricted : Problem
        second_moments : DenseSecondMoments
            Second moments in these coordinates.
        split : _DirectionSplit
            Forbidden and allowed directions.
        n_required : int
            Number of directions that every solution contains.
        fixed_rounding : (k,) array
            Rounding errors of the errors in the forbidden directions.
        """
        allowed = split.allowed
        n_forbidden = split.forbidden.shape[1]
        rounding = unrestricted.rounding.within(
            second_moments,
            n_forbidden=n_forbidden - allowed.n_constant + n_required,
            is_full=unrestricted.n_features - n_forbidden <= unrestricted.n_components,
        )
        selection_change: FloatArray | float = 0.0
        if not allowed.is_resolved or allowed.neighbors.size:
            selection_change = allowed.largest_change(self._covariances, self._mean_offsets)
        return replace(
            rounding,
            fixed_errors=fixed_rounding,
            inner_variances=EPS * ENTRY_TERMS * self.moments.variances.sum(axis=1),
            selection_change=selection_change,
        )

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

        If errors are about the origin, the mean of all rows counts as variance, so covariance
        parity has to know its direction: it may be worth keeping though rows do not vary along it.
        The mean of all rows is therefore added to all of these means, which leaves their
        differences as they are; if it is long, it is shortened, so that the differences keep their
        digits.
        """
        restriction = cast(Restriction, self.restriction)
        means = restriction.constrained_means(self.moments)
        if restriction.uses_common_mean:
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
            orthogonality_defect=self.template.rounding.orthogonality_defect,
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

    def _split_directions(self, restriction: Restriction, n_components: int) -> _DirectionSplit:
        """Split all directions into those that the restriction forbids and those that it allows."""
        if restriction.forbids_mean_differences_only:
            return self._split_by_mean_differences(n_components)
        p = self.constrained_means.means.shape[1]
        defect = None if self.coordinates is None else self.template.rounding.orthogonality_defect
        allowed = restriction.select_directions(
            self.constrained_means.means,
            self._covariances,
            n_components,
            orthogonality_defect=defect,
        )
        axes = allowed.axes
        if axes is None:
            no_directions = np.empty((p, 0))
            return _DirectionSplit(no_directions, allowed, self._covariances)
        # The columns of a complete QR factor after those that span the axes are orthogonal to them.
        forbidden = np.linalg.qr(axes, mode="complete")[0][:, axes.shape[1] :]
        covariances = np.array([axes.T @ matrix @ axes for matrix in self._covariances])
        return _DirectionSplit(forbidden, allowed, covariances)

    def _split_by_mean_differences(self, n_components: int) -> _DirectionSplit:
        """Split all directions into those along which the means differ, and their complement."""
        differences = self.constrained_means.difference_directions
        forbidden = self._forbidden_basis(n_components)
        complement = OrthogonalComplement.from_differences(differences)
        basis = complement.basis
        p = len(differences)
        # If few directions are forbidden, Q is applied as a product of as many reflections, which
        # is faster than two products with Q.
        if forbidden.shape[1] <= p // _FEW_DIRECTIONS_DIVISOR:
            covariances = complement.compress(self._scatters, scales=1 / self.moments.weights)
        else:
            covariances = np.array([basis.T @ matrix @ basis for matrix in self._covariances])
        return _DirectionSplit(forbidden, AllowedDirections.exact(basis, p), covariances)

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
        # The shift maps the mean differences to zero, so these are the forbidden directions.
        n_forbidden = self.constrained_means.difference_directions.shape[1]
        rounding = restricted_rounding(unrestricted, shifted_moments, n_forbidden)
        # Rounding errors of the variance that the shift loses (`fixed_errors`), of the variance
        # that it leaves (`inner_variances`), and of both where a rounding error of the second
        # moments changes the shift itself (`oblique_shift`).
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

    def _fixed_errors(self, unrestricted: Problem, forbidden: FloatArray) -> _FixedErrors:
        """Compute the errors in forbidden directions with a (p, r) orthonormal basis."""
        scatters = np.array([np.vdot(forbidden, scatter @ forbidden) for scatter in self._scatters])
        # Errors are about a center, from which the group means differ by the offsets.
        mean_parts = ((self._mean_offsets @ forbidden) ** 2).sum(axis=1)
        # Variances that are zero may be computed as slightly negative.
        errors = np.maximum(scatters / self.moments.weights, 0.0) + mean_parts
        offset_rounding = float(np.linalg.norm(unrestricted.dense_moments.offset_rounding_error))
        fixed_errors, common_error = unrestricted.criterion.split_fixed_errors(errors)
        total_fixed = fixed_errors + common_error
        # If an offset is off by o, an error e is off by at most 2 sqrt(e) o + o^2.
        rounding = (
            2 * np.sqrt(total_fixed) * offset_rounding
            + offset_rounding**2
            + EPS * ENTRY_TERMS * total_fixed
        )
        return _FixedErrors(fixed_errors, common_error, rounding)


def _complement_of(directions: FloatArray) -> FloatArray:
    """Orthonormal basis of the complement of (p, n) directions, shape (p, p - n)."""
    n = directions.shape[1]
    return np.asarray(np.linalg.qr(directions, mode="complete")[0][:, n:])


def _check_more_components(n_components: int, n_required: int, restriction: Restriction) -> None:
    """Check that there are more components than directions that every solution contains.

    Raises
    ------
    IncompatibleParameters
    """
    if n_components <= n_required:
        raise IncompatibleParameters(
            f"n_components is {n_components} with {restriction!r}, which requires "
            f"{counted(n_required, 'direction')}",
            f"Allowed: at least {n_required + 1}",
            "Choose more components, or drop keep_outcome",
        )


def check_means_agree(family: ProblemFamily, projector: Projector) -> None:
    """Check that a solution removes the mean differences that its restriction forbids.

    Parameters
    ----------
    family : ProblemFamily
    projector : Projector
        The solution, in the coordinates of the problems.

    Raises
    ------
    IncompatibleParameters
        Along some component, means differ by more than a millionth of its standard deviation.
    """
    restriction = family.restriction
    if restriction is None or not restriction.requires_equal_means:
        return
    # A single group has one mean, which differs from no other. But covariances of the features with
    # other columns may differ from zero within one group, too.
    if family.moments.n_groups > 1 or restriction.compares_covariances:
        family.constrained_means.check_agree(projector)
