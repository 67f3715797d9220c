"""Proofs of lower bounds: the dual weights and multipliers from which a bound is computed.

A proof is plain data, stored with the solution and in saved models next to the parameters of
criterion and restriction, so that anyone can recompute the bound from second moments alone.
"""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, Generic, NamedTuple, TypeVar, cast

import numpy as np

from fairspan.certificates.polygons import CLIPPING_ROUNDING, lower_bound_beyond_lines
from fairspan.errors import InvalidInput
from fairspan.linalg import scale_to_one, smallest_eigenvalue_sum, symmetrize
from fairspan.linalg.rounding import TINY
from fairspan.moments.second_moments import DenseSecondMoments
from fairspan.problem.criteria.criterion import ConcaveScoresCriterion
from fairspan.problem.limits import (
    CovarianceDifferenceLimit,
    MeanDistanceLimit,
    ParityLimit,
    is_feasible,
)
from fairspan.problem.problem import Problem
from fairspan.typing import FloatArray

# Tolerance of the minimum over the polygon of supporting lines, relative to the value.
POLYGON_TOL = 1e-11
# A limit up to this fraction of the distance of the means nearly requires equal means: its
# multiplier would be so large that the second moments are lost to rounding.
_SMALL_LIMIT_RATIO = 1e-4
# Largest number of supporting lines in a proof, each of which costs an eigenproblem; fits use up to
# about 410.
MAX_LINES = 1000


class ProvenGap(NamedTuple):
    """Objective at a basis minus its lower bound.

    Attributes
    ----------
    value : float
        The gap, rounding allowance included.
    rounding : float
        Part of the gap that allows for rounding errors of the bound.
    """

    value: float
    rounding: float


class ProvenBound(NamedTuple):
    """Lower bound on the objective of every subspace.

    Attributes
    ----------
    value : float
        The bound, from which the rounding allowance has been subtracted.
    rounding : float
        Rounding allowance.
    """

    value: float
    rounding: float


class PenaltyTerm(NamedTuple):
    """Matrix of a limit in the mixture that proves a bound.

    Every subspace V within the limit has weight tr(V'BV) of at most some constant.

    Attributes
    ----------
    matrix : (p, p) array
        B, symmetric.
    weight : float
        Weight mu of the matrix, a multiplier.
    slackness : float
        Constant less the value at the basis in question: the complementary slackness, nonnegative
        if the basis is feasible.
    """

    matrix: FloatArray
    weight: float
    slackness: float


@dataclass(frozen=True, eq=False)
class Proof:
    """Group weights whose mixture of second moments proves the bound.

    Attributes
    ----------
    weights : (k,) array
        May be negative if the criterion depends on a gap between groups.

    Raises
    ------
    InvalidInput
        Numbers that are not finite, or an array of the wrong shape.
    """

    weights: FloatArray
    kind: ClassVar[str] = "weights"

    def __post_init__(self) -> None:
        self.check()

    def check(self) -> None:
        """Check that all arrays are finite and have the right shape.

        Raises
        ------
        InvalidInput
        """
        self._check_array("weights", "k")

    def _check_array(self, name: str, *axes: str) -> None:
        """Raise InvalidInput unless the attribute `name` is a finite array of the right shape.

        Each of `axes` is a required length, such as "2", or a letter for any length. Two equal
        letters at the end require a square matrix.
        """
        numbers = np.atleast_1d(getattr(self, name))
        has_shape = numbers.ndim == len(axes) and all(
            not axis.isdecimal() or int(axis) == length
            for axis, length in zip(axes, numbers.shape, strict=False)
        )
        must_be_square = axes[-1] in axes[:-1]
        is_square = numbers.shape[-1:] == numbers.shape[-2:-1]
        fits = has_shape and (is_square or not must_be_square)
        are_numbers = numbers.dtype.kind in "fiu" and numbers.size > 0
        if not (fits and are_numbers and np.isfinite(numbers).all()):
            raise InvalidInput(
                f"The {name} of a proof have shape {numbers.shape} or are not finite",
                f"Allowed: finite numbers of shape ({', '.join(axes)})",
                "Use the proof that a fit returned",
            )

    def applies_to(self, problem: Problem) -> bool:
        """Whether the proof applies to a problem."""
        return len(self.weights) == problem.n_groups

    def change_coordinates(self, axes: FloatArray) -> "Proof":
        """Return the proof in other coordinates, given axes of shape (m, r)."""
        return self

    def gap(self, problem: Problem, basis: FloatArray, errors: FloatArray) -> ProvenGap:
        """Return the objective at a basis minus the lower bound.

        Parameters
        ----------
        problem : Problem
            With second moments that are matrices.
        basis : (p, r) array
            Basis of the subspace that is evaluated.
        errors : (k,) array
            Errors of the basis.
        """
        criterion = problem.criterion
        bound, bound_rounding = self.lower_bound(problem, basis, errors)
        gap = criterion.value(errors, problem) - bound
        if criterion.is_constrained:
            # If the errors do not quite satisfy the constraint, such as equality, the objective may
            # lie below the bound for errors that do; this difference counts as a gap.
            gap = abs(gap)
        return ProvenGap(gap, bound_rounding)

    def lower_bound(self, problem: Problem, basis: FloatArray, errors: FloatArray) -> ProvenBound:
        """Return a lower bound on the objective of every subspace.

        For weights w of the groups with second moments S_g, and the errors e of any subspace, w.e
        is, by Ky Fan, at least the sum of the p - d smallest eigenvalues of sum_g w_g S_g plus w
        times the variances outside the allowed directions; the criterion turns this into a bound on
        its value. Valid for the second moments of any rows, not only of those the proof was
        computed from. Parameters as for :meth:`gap`; the bound holds at any basis, whose errors
        only scale the rounding allowance.
        """
        second_moments = problem.dense_moments
        criterion = problem.criterion
        # Stored weights may be rounded or even wrong. Only dual-feasible ones imply a bound on the
        # criterion, so the nearest of these are used.
        weights = criterion.dual_feasible_weights(self.weights, problem)
        eigenvalue_sum = second_moments.smallest_eigenvalue_sum(weights, problem.n_components)
        weighted_error = eigenvalue_sum.value + float(weights @ second_moments.excluded_variances)
        rounding = eigenvalue_sum.rounding_error + problem.rounding.bound_rounding(
            problem.second_moments, weights, errors
        )
        bound = criterion.lower_bound(weighted_error - rounding, weights, problem)
        unrounded_bound = criterion.lower_bound(weighted_error, weights, problem)
        return ProvenBound(bound, unrounded_bound - bound)


@dataclass(frozen=True, eq=False)
class SupportingLinesProof(Proof):
    """Supporting lines of two groups' errors, beyond which no value is below the bound.

    For the weights w of each line, the errors e of every subspace have w.e >= L(M), where L(M) is
    the sum of the p - d smallest eigenvalues of the mixture M = sum_g w_g S_g of the groups' second
    moments (Ky Fan). The scores of the robust error gap are concave in the errors, so along each
    side of the polygon formed by the lines they are smallest at an end.

    Attributes
    ----------
    lines : (m, 2) array
        Weights w of the supporting lines; at most 1,000 of them.
    """

    lines: FloatArray
    kind: ClassVar[str] = "lines"

    def check(self) -> None:
        """Check that weights and lines are finite, and that there are not too many lines.

        Raises
        ------
        InvalidInput
        """
        super().check()
        self._check_array("lines", "m", "2")
        if len(self.lines) > MAX_LINES:
            raise InvalidInput(
                f"A proof has {len(self.lines):,} supporting lines",
                f"Allowed: at most {MAX_LINES:,}; fits use fewer than half as many",
                "Use the proof that a fit returned",
            )

    def applies_to(self, problem: Problem) -> bool:
        """Whether the problem is the robust error gap of two groups."""
        is_concave = isinstance(problem.criterion, ConcaveScoresCriterion)
        return super().applies_to(problem) and is_concave and problem.n_groups == 2

    def lower_bound(self, problem: Problem, basis: FloatArray, errors: FloatArray) -> ProvenBound:
        """Return a lower bound on the objective of every subspace.

        For the weights w of each line, the errors e of every subspace have w.e of at least an
        offset: the sum of the p - d smallest eigenvalues of the mixture with these weights, plus w
        times the variances outside the allowed directions. The bound is the least value of the
        criterion over the polygon of the errors that satisfy all lines. Parameters as for
        :meth:`gap`; the objective at the basis only limits which errors are searched.
        """
        second_moments = problem.dense_moments
        criterion = problem.criterion
        value = criterion.value(errors, problem)
        supporting = _SupportingLines.from_weights(self.lines, problem, errors)
        lines = supporting.normals
        # Larger errors need not be searched: no error exceeds its group's trace, and where an error
        # exceeds value / q_g, with the group's proportion q_g, the criterion, which is at least the
        # sum of q_g e_g, exceeds the value. Both limits are doubled as a margin.
        upper_errors = np.minimum(2 * second_moments.traces, 2 * value / problem.proportions)

        def polygon_bound(line_offsets: FloatArray) -> float:
            # A tiny number keeps the box from having no area if the objective is zero.
            return lower_bound_beyond_lines(
                lambda points: criterion.scores(points, problem),
                normals=lines,
                offsets=line_offsets,
                max_errors=upper_errors + TINY,
                tol=POLYGON_TOL * value,
            )

        # If a restriction leaves no choice, the polygon is a single point, which clipping in double
        # precision could lose, so the lines are moved outwards by a margin. Without a restriction
        # no margin is added: square roots of errors near zero would amplify it.
        margin_errors = np.where(second_moments.excluded_variances > 0, upper_errors, 0.0)
        offsets = supporting.offsets - CLIPPING_ROUNDING * (np.abs(lines) @ margin_errors)
        bound = polygon_bound(offsets - supporting.offset_rounding)
        # The tolerance of the bound, and what the rounding errors of the lines cost.
        rounding = value * POLYGON_TOL + max(polygon_bound(offsets) - bound, 0.0)
        return ProvenBound(bound, rounding)


@dataclass(frozen=True, eq=False)
class _SupportingLines:
    """Lines w.e >= b beyond which the errors e of every subspace lie.

    Attributes
    ----------
    normals : (m, 2) array
        w.
    offsets, offset_rounding : (m,) arrays
        b, and bounds on its rounding errors.
    """

    normals: FloatArray
    offsets: FloatArray
    offset_rounding: FloatArray

    @classmethod
    def from_weights(
        cls, weights: FloatArray, problem: Problem, errors: FloatArray
    ) -> "_SupportingLines":
        """Compute the offsets of lines with (m, 2) weights; duplicate lines are left out.

        The (2,) `errors` of a subspace only scale the rounding errors.
        """
        second_moments = problem.dense_moments
        # Lines prove the same at any length; products of subnormal weights would be wrong.
        scaled = scale_to_one(weights)
        lines = np.unique(scaled, axis=0)
        sums = [second_moments.smallest_eigenvalue_sum(w, problem.n_components) for w in lines]
        offsets = np.array([eigenvalue_sum.value for eigenvalue_sum in sums])
        offsets = offsets + lines @ second_moments.excluded_variances
        offset_rounding = np.array([eigenvalue_sum.rounding_error for eigenvalue_sum in sums])
        offset_rounding += [
            problem.rounding.bound_rounding(problem.second_moments, w, errors) for w in lines
        ]
        return cls(lines, offsets, offset_rounding)


Limit = TypeVar("Limit", bound=ParityLimit)


@dataclass(frozen=True, eq=False)
class _LimitProof(Proof, Generic[Limit]):
    """Multipliers of a restriction's limit, whose matrix enters the mixture of the bound."""

    limit_type: ClassVar[type] = CovarianceDifferenceLimit

    def applies_to(self, problem: Problem) -> bool:
        """Whether the problem has the limit that the multipliers belong to."""
        return super().applies_to(problem) and isinstance(problem.limit, self.limit_type)

    @abstractmethod
    def penalty_term(self, limit: Limit, basis: FloatArray) -> PenaltyTerm:
        """Return the penalty matrix of the limit, with its slackness at a (p, d) basis."""

    def gap(self, problem: Problem, basis: FloatArray, errors: FloatArray) -> ProvenGap:
        """Return the total error at a basis minus its lower bound.

        The bound holds for every subspace within the limit, the tolerance of the restriction on the
        difference of two groups' means or covariances. With the penalty matrix B and its weight mu
        from :meth:`penalty_term`, the proof is about the mixture M = sum_g q_g S_g - mu B, with q_g
        the groups' proportions. With U the orthogonal complement of the basis V, the gap is the
        excess of tr(U'MU) over the sum of the p - d smallest eigenvalues of M, plus the
        complementary slackness: how far mu tr(V'BV) is below an upper bound on it that holds within
        the limit.
        """
        limit = problem.limit
        assert limit is not None
        penalty = self.penalty_term(cast(Limit, limit), basis)
        # The matrix, scaled to a largest entry of one, enters the mixture like the second moment of
        # a further group.
        scale = float(np.abs(penalty.matrix).max())
        if scale == 0:
            scale = 1.0
        stacked = np.concatenate([problem.dense_moments.matrices, penalty.matrix[None] / scale])
        weights = np.append(problem.proportions, -penalty.weight * scale)
        eigenvalue_sum = smallest_eigenvalue_sum(stacked, weights, problem.n_components)
        inner_errors = DenseSecondMoments(stacked).inner_errors(basis)
        excess = float(weights @ inner_errors) - eigenvalue_sum.value
        rounding = eigenvalue_sum.rounding_error + problem.rounding.bound_rounding(
            problem.second_moments, weights[:-1], errors
        )
        # A feasible subspace may exceed the limit by rounding error, so that its total error is
        # smaller than that of any subspace strictly within it. The slackness is then negative: this
        # rounding error, amplified by the multipliers. It counts as rounding.
        amplified_excess = max(-penalty.slackness, 0.0) if is_feasible(limit, basis) else 0.0
        return ProvenGap(
            value=excess + rounding + penalty.slackness, rounding=rounding + amplified_excess
        )

    def lower_bound(self, problem: Problem, basis: FloatArray, errors: FloatArray) -> ProvenBound:
        """Return the value minus the gap, without subtracting large numbers."""
        gap = self.gap(problem, basis, errors)
        return ProvenBound(problem.criterion.value(errors, problem) - gap.value, gap.rounding)


@dataclass(frozen=True, eq=False)
class MeanDistanceProof(_LimitProof[MeanDistanceLimit]):
    """Multiplier of a limit on the distance between two means.

    For mu >= 0 and M = sum_g q_g S_g - mu ff', every subspace within the limit delta has a total
    error of at least tr S - t_d(M) - mu delta^2. A very small limit would need a mu so large that S
    is negligible, so a second bound is used there: with f = |f| u, P = I - uu' and |V'u| <= s =
    delta / |f|, tr(V'SV) is at most t_d(PSP) + 2 s |PSu| + s^2 u'Su.

    Attributes
    ----------
    multiplier : float or (1,) array
        mu.
    """

    multiplier: float | FloatArray
    kind: ClassVar[str] = "means"
    limit_type: ClassVar[type] = MeanDistanceLimit

    def check(self) -> None:
        """Check that the multiplier is one finite number.

        Raises
        ------
        InvalidInput
        """
        super().check()
        _check_one_number(self.multiplier)

    def gap(self, problem: Problem, basis: FloatArray, errors: FloatArray) -> ProvenGap:
        """Return the smaller of two gaps, with the multiplier and, for a small limit, without."""
        limit = cast(MeanDistanceLimit, problem.limit)
        multiplier_gap = super().gap(problem, basis, errors)
        length = float(np.linalg.norm(limit.difference))
        is_small = limit.tolerance <= _SMALL_LIMIT_RATIO * length
        # With d = p there is only one subspace, for which the first gap is zero.
        if not is_small or problem.n_components == len(basis):
            return multiplier_gap
        return min(multiplier_gap, self._gap_without_multiplier(problem, limit, basis))

    def _gap_without_multiplier(
        self, problem: Problem, limit: MeanDistanceLimit, basis: FloatArray
    ) -> ProvenGap:
        """Return the gap of a bound that needs no multiplier, for a small limit.

        With S the pooled second moment, u the unit vector along the difference of the means,
        P = I - uu', and s the limit divided by the length of that difference, every basis V within
        the limit has |V'u| <= s. Then tr(V'SV) is at most the sum of the d largest eigenvalues of
        PSP, plus 2 s |PSu| + s^2 u'Su.
        """
        second_moments = problem.dense_moments
        length = float(np.linalg.norm(limit.difference))
        fraction = limit.tolerance / length
        unit = limit.difference / length
        pooled = np.tensordot(problem.proportions, second_moments.matrices, axes=1)
        image = pooled @ unit
        unit_variance = float(unit @ image)
        # PSu, and below PSP as S minus its part along u.
        image_residual = image - unit_variance * unit
        deflation = np.outer(unit, image - unit_variance / 2 * unit)
        deflated = pooled - deflation - deflation.T
        eigenvalue_sum = smallest_eigenvalue_sum(
            symmetrize(deflated)[None], np.ones(1), problem.n_components
        )
        residual_norm = float(np.linalg.norm(image_residual))
        limit_allowance = 2 * fraction * residual_norm + fraction**2 * unit_variance
        rounding = eigenvalue_sum.rounding_error + CLIPPING_ROUNDING * float(np.trace(pooled))
        total_error = float(problem.proportions @ second_moments.inner_errors(basis))
        excess = total_error - eigenvalue_sum.value - unit_variance
        return ProvenGap(value=excess + limit_allowance + rounding, rounding=rounding)

    def penalty_term(self, limit: MeanDistanceLimit, basis: FloatArray) -> PenaltyTerm:
        """Return ff', mu and the slackness mu (delta^2 - |V'f|^2)."""
        multiplier = max(float(np.ravel(self.multiplier)[0]), 0.0)
        squared_distance = float(np.sum((limit.difference @ basis) ** 2))
        slackness = multiplier * (limit.tolerance**2 - squared_distance)
        return PenaltyTerm(np.outer(limit.difference, limit.difference), multiplier, slackness)


@dataclass(frozen=True, eq=False)
class CovarianceDifferenceProof(_LimitProof[CovarianceDifferenceLimit]):
    """Multipliers of a limit on the difference of two covariances.

    With phi_1 and phi_2 the smallest nonnegative numbers for which phi_1 I + D and phi_2 I - D are
    positive semidefinite, M_1 and M_2 their square roots, a subspace within the limit tau satisfies
    <Z_i, (phi_i + tau) I - M_i VV' M_i> >= 0 for all positive semidefinite Z_i. So tr(V'SV) is at
    most sum_i (phi_i + tau) tr Z_i + t_d(S - sum_i M_i Z_i M_i).

    Attributes
    ----------
    multipliers : (2, p, p) array
        Z_1 and Z_2.
    """

    multipliers: FloatArray
    kind: ClassVar[str] = "covariances"

    def check(self) -> None:
        """Check that the multipliers are two finite square matrices.

        Raises
        ------
        InvalidInput
        """
        super().check()
        self._check_array("multipliers", "2", "p", "p")

    def applies_to(self, problem: Problem) -> bool:
        """Whether the problem limits covariances of the same number of features."""
        p = problem.n_features
        return super().applies_to(problem) and self.multipliers.shape == (2, p, p)

    def change_coordinates(self, axes: FloatArray) -> "Proof":
        """Return the proof with the multipliers in other coordinates."""
        return replace(self, multipliers=axes @ self.multipliers @ axes.T)

    def penalty_term(self, limit: CovarianceDifferenceLimit, basis: FloatArray) -> PenaltyTerm:
        """Return the penalty matrix B = sum_i M_i Z_i M_i, its weight one, and the slackness.

        Z_1 and Z_2 are the multipliers. With D the difference of the two covariances, phi_i is the
        least shift that makes phi_1 I + D, or phi_2 I - D, positive semidefinite, and M_i is the
        square root of that matrix. A basis V within the limit tau has tr(V'BV) of at most
        sum_i (phi_i + tau) tr Z_i; the slackness is the difference. Any stored multiplier is made
        positive semidefinite first, so that it proves a bound whatever it is.
        """
        penalty = np.zeros_like(limit.difference)
        constant = 0.0
        for sign, matrix in zip((1.0, -1.0), self.multipliers, strict=True):
            values, vectors = np.linalg.eigh(sign * limit.difference)
            phi = max(0.0, -float(values[0]))
            root = (vectors * np.sqrt(np.maximum(values + phi, 0.0))) @ vectors.T
            multiplier = positive_part(matrix)
            penalty += root @ multiplier @ root
            constant += (phi + limit.tolerance) * float(np.trace(multiplier))
        slackness = constant - float(np.vdot(basis, penalty @ basis))
        return PenaltyTerm(penalty, 1.0, slackness)


@dataclass(frozen=True, eq=False)
class CovarianceTraceProof(_LimitProof[CovarianceDifferenceLimit]):
    """Scalar multiplier of a limit on the difference of two covariances.

    A subspace within the limit tau has |tr(V'DV)| <= d tau, so tr(V'SV) is at most
    t_d(S - nu D) + |nu| d tau for every nu.

    Attributes
    ----------
    multiplier : float or (1,) array
        nu.
    """

    multiplier: float | FloatArray
    kind: ClassVar[str] = "covariance_trace"

    def check(self) -> None:
        """Check that the multiplier is one finite number.

        Raises
        ------
        InvalidInput
        """
        super().check()
        _check_one_number(self.multiplier)

    def penalty_term(self, limit: CovarianceDifferenceLimit, basis: FloatArray) -> PenaltyTerm:
        """Return the difference D of the covariances, shifted, its weight nu, and the slackness.

        nu is the multiplier. A basis V of d columns within the limit tau has |tr(V'DV)| <= d tau,
        so the slackness is |nu| d tau - nu tr(V'DV).
        """
        multiplier = float(np.ravel(self.multiplier)[0])
        # Errors under a matrix are clipped at zero, so it must be positive semidefinite. A multiple
        # of I, added to D, changes the value at the basis and the optimum by the same amount.
        min_eigenvalue = min(float(np.linalg.eigvalsh(limit.difference)[0]), 0.0)
        shifted = limit.difference - min_eigenvalue * np.eye(len(limit.difference))
        trace_difference = float(np.vdot(basis, limit.difference @ basis))
        slackness = (
            abs(multiplier) * basis.shape[1] * limit.tolerance - multiplier * trace_difference
        )
        return PenaltyTerm(shifted, multiplier, slackness)


def _check_one_number(multiplier: float | FloatArray) -> None:
    """Raise InvalidInput unless the multiplier is one finite number."""
    if np.size(multiplier) != 1 or not np.isfinite(multiplier).all():
        raise InvalidInput(
            f"The multiplier of a proof is {multiplier!r}",
            "Allowed: one finite number",
            "Use the proof that a fit returned",
        )


def positive_part(matrix: FloatArray) -> FloatArray:
    """Positive part of a symmetric matrix: negative eigenvalues are set to zero."""
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    return np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T)


PROOF_KINDS: dict[str, Callable[..., Proof]] = {
    proof_class.kind: proof_class
    for proof_class in (
        Proof,
        SupportingLinesProof,
        MeanDistanceProof,
        CovarianceDifferenceProof,
        CovarianceTraceProof,
    )
}


def proof_arrays(proof: Proof | None) -> dict[str, FloatArray] | None:
    """Arrays of a proof by name; None for no proof or an unknown kind."""
    if proof is None:
        return None
    known_class: object = PROOF_KINDS.get(proof.kind)
    if type(proof) is not known_class:
        return None
    return {name: np.atleast_1d(value) for name, value in vars(proof).items()}
