"""A model evaluated again: its problem, projection, errors and certificate, from the data alone."""

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from fairspan.certificates.certificate import Certificate
from fairspan.certificates.eigensolver import OPTIMA_TOL, Eigensolver
from fairspan.certificates.evaluate_solution import EM_CONVERGENCE_TOL, evaluate_solution
from fairspan.certificates.proofs import POLYGON_TOL, Proof
from fairspan.linalg.rounding import ENTRY_TERMS
from fairspan.model.subspace import FairSubspace
from fairspan.moments.compute import Moments
from fairspan.moments.projector import Projector
from fairspan.moments.row_axes import MAX_ORTHOGONALITY_DEFECT
from fairspan.problem.family import ProblemFamily
from fairspan.problem.problem import Problem
from fairspan.problem.reduction import Reduction
from fairspan.typing import FloatArray, ModelLike
from fairspan.verification.check_components import component_entry_rounding, feature_deviations
from fairspan.verification.tolerances import ROUNDING_FACTOR, Allowances
from fairspan.verification.verification_failure import VerificationFailure
from fairspan.verification.verified_data import VerifiedData, distance_from_em_limit

# Rounding error of an error, in units of that of the variance, 2 p EPS tr S: the entries of S add
# at most ENTRY_TERMS p EPS tr S (Cauchy-Schwarz), and the products one unit. Both count twice, for
# a fit to rows and for matrices.
_ROW_ROUNDING_FACTOR = 2 * (ENTRY_TERMS / 2 + 1)


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Model with its problem, projection, errors and certificate recomputed from the data.

    Attributes
    ----------
    model : FairPCA or FairSubspace
    subspace : FairSubspace
        That of the model.
    data : VerifiedData
    family, reduction
        The problem that the certificate names, built from the data.
    projector : Projector
        Projection of the model, in the coordinates of the problem.
    basis : (m, r) array
        Basis of the components, in coordinates of the allowed directions.
    outside_norm : float
        Norm of the part of the components outside the allowed directions.
    errors : (k,) array
        Error of each group.
    variances_kept : (k, r) array
        Reduction of each group's error by each component.
    recomputed : Certificate
        Certificate of the components with the model's proof.
    """

    model: ModelLike
    subspace: FairSubspace
    data: VerifiedData
    family: ProblemFamily
    reduction: Reduction
    projector: Projector
    basis: FloatArray
    outside_norm: float
    errors: FloatArray
    variances_kept: FloatArray
    recomputed: Certificate

    @property
    def moments(self) -> Moments:
        """Moments of the data."""
        return self.data.moments

    @property
    def eigensolvers(self) -> frozenset[Eigensolver]:
        """Eigensolvers that a fit of these data may have used."""
        return self.data.eigensolvers

    @property
    def unrestricted(self) -> Problem:
        """The problem without its restriction."""
        return self.reduction.problem.unrestricted

    @cached_property
    def mean_rounding(self) -> float:
        """Norm of the rounding error of the means about which parts of the rows were accumulated.

        They are rounded relative to their own size.
        """
        rounding = self.moments.offset_rounding(self.moments.mean)
        return float(np.linalg.norm(rounding / self.subspace.row_frame.scale))

    @cached_property
    def rotation_effect(self) -> FloatArray:
        """Bound on the effect of a rotation of the subspace, and of rounded means, on errors, (k,).

        Allowed directions are rounded, and the components were chosen in differently rounded ones:
        the part outside of them acts like a rotation of the subspace.
        """
        mean_rounding = self.mean_rounding
        rotation = self._rotation_bound(self.unrestricted.second_moments.traces, self.errors)
        return np.asarray(rotation + 2 * mean_rounding * np.sqrt(self.errors) + mean_rounding**2)

    def _rotation_bound(self, traces: FloatArray, variances: FloatArray) -> FloatArray:
        """Bound on the effect of a rotation of the subspace on variances, given the traces."""
        norm = self.outside_norm
        return np.asarray(2 * norm * np.sqrt(traces * variances) + norm**2 * traces)

    @cached_property
    def component_rounding(self) -> FloatArray:
        """Rounding error bound of `variances_kept`, shape (k, r)."""
        deviations = feature_deviations(
            self.moments, self.subspace.row_frame.scale, self.subspace.center
        )
        entry_rounding = component_entry_rounding(deviations, self.subspace.projector)
        traces = self.unrestricted.second_moments.traces[:, None]
        variances = np.maximum(self.variances_kept, 0.0)
        rotation = self._rotation_bound(traces, variances)
        mean_rounding = self.mean_rounding
        return np.asarray(
            entry_rounding + rotation + 2 * mean_rounding * np.sqrt(variances) + mean_rounding**2
        )

    @cached_property
    def method_tol(self) -> float:
        """Bound on the difference of the objective between methods of solving these data.

        Methods use matrices of second moments, row coordinates (an orthonormal basis of fewer rows
        than features, THIN), or sparse rows without matrices (MATRIX_FREE). Zero if a fit can only
        have used matrices, except for excess losses: the groups' best errors, which they subtract,
        have the error bound `optima_tol` if they were found in a search subspace.
        """
        problem = self.unrestricted
        criterion = problem.criterion
        errors = self.errors
        tol = 0.0
        if self.eigensolvers & {Eigensolver.THIN, Eigensolver.MATRIX_FREE}:
            variance_rounding = problem.rounding.variance_rounding(problem.second_moments)
            tol = criterion.rounding_bound(
                _ROW_ROUNDING_FACTOR * variance_rounding, errors, problem
            )
            # A bound from supporting lines (robust error gap) is a minimum over a polygon, computed
            # up to this tolerance.
            tol += POLYGON_TOL * abs(self.recomputed.objective)
        if Eigensolver.THIN in self.eigensolvers:
            tol += self._row_coordinate_tol()
        if criterion.uses_excess_loss:
            tol += criterion.rounding_bound(self.optima_tol, errors, problem)
        return float(tol)

    def _row_coordinate_tol(self) -> float:
        """Bound on the difference of the objective that inexact row coordinates make.

        Row coordinates are not quite orthonormal, by `orthogonality_defect`, and directions
        forbidden by a restriction are rotated as much. Both may be as large as a fit accepts in its
        coordinates, or as in those used here.
        """
        problem = self.unrestricted
        budget = problem.rounding
        second_moments = problem.second_moments
        # A restricted problem has a parent.
        is_restricted = self.reduction.problem.embedding.parent is not None
        row_budget = replace(
            budget,
            orthogonality_defect=MAX_ORTHOGONALITY_DEFECT,
            forbidden_rotation=MAX_ORTHOGONALITY_DEFECT if is_restricted else 0.0,
        )
        coordinate_rounding = np.maximum(
            row_budget.coordinate_rounding(second_moments, self.errors),
            budget.coordinate_rounding(second_moments, self.errors),
        )
        # Criteria that depend on the groups' variances also use the rounding of these.
        row_problem = replace(problem, rounding=row_budget)
        return problem.criterion.rounding_bound(
            _ROW_ROUNDING_FACTOR * coordinate_rounding, self.errors, row_problem
        )

    @cached_property
    def matrix_free_resolution(self) -> float:
        """Resolution of a fit without matrices; zero if no fit of these data avoids them."""
        if Eigensolver.MATRIX_FREE not in self.eigensolvers:
            return 0.0
        problem = self.unrestricted
        error_rounding = Eigensolver.MATRIX_FREE.error_rounding * problem.second_moments.traces
        rounding = problem.criterion.rounding_bound(error_rounding, self.errors, problem)
        return 2 * ROUNDING_FACTOR * rounding

    @cached_property
    def em_distance(self) -> float:
        """Distance, in standard deviations, between the limits of two runs of the EM algorithm.

        Zero without missing cells, or if all digits that are compared have converged.
        """
        distance = distance_from_em_limit(self.moments)
        if distance <= 2 * EM_CONVERGENCE_TOL:
            return 0.0
        # The run of the fit may have ended earlier, which increased its resolution. The claimed
        # resolution proves nothing, but this distance only explains failures.
        claimed = self.subspace.require_certificate().resolution
        if self.recomputed.resolution > 0 and math.isfinite(claimed):
            distance *= max(claimed / self.recomputed.resolution, 1.0)
        # Beyond one standard deviation nothing agrees, and an unlimited claim explains anything.
        return min(distance, 1.0)

    def em_rounding(self, allowances: Allowances) -> FloatArray:
        """Error bound of each group's variance due to the EM algorithm, shape (k,).

        Zero if the moments count as exact up to rounding.
        """
        traces = self.unrestricted.second_moments.traces
        if allowances.is_converged:
            return np.zeros(len(traces))
        return np.asarray(ROUNDING_FACTOR * self.em_distance * traces)

    @cached_property
    def optima_tol(self) -> FloatArray:
        """Error bound of the groups' optima, if they are found in a search subspace, shape (k,)."""
        traces = self.unrestricted.second_moments.traces
        if Eigensolver.PROJECTED not in self.eigensolvers:
            return np.zeros(len(traces))
        relative_tol = Eigensolver.PROJECTED.optima_rounding
        tol = self.subspace.require_certificate().tol
        if 0 <= tol < 1:
            relative_tol = max(relative_tol, OPTIMA_TOL * tol)
        return relative_tol * np.maximum(traces, self.unrestricted.total_variance)


def evaluate_reduction(
    reduction: Reduction,
    basis: FloatArray,
    proof: Proof | None,
    tol: float,
    tolerance_factor: float = 1.0,
) -> Certificate:
    """Evaluate a basis and a proof in the coordinates of a reduction.

    Objective and bound include the constant error in forbidden directions. Without a proof, or
    without matrices to compute its bound from, the bound is -inf and the proof None.

    Parameters
    ----------
    reduction : Reduction
    basis : (m, r) array
        In the coordinates of the reduction.
    proof : Proof or None
        In the coordinates of the problem before the reduction, such as the features.
    tol : float
        Largest gap that counts as optimal, relative to the objective.
    tolerance_factor : float
        Factor on tolerance and resolution up to which a gap counts as closed.

    Raises
    ------
    VerificationFailure
        The proof belongs to another kind of problem.
    """
    problem = reduction.problem
    if proof is None or not problem.second_moments.has_matrices:
        # The weights prove nothing here; a certificate needs some.
        weights = problem.proportions if proof is None else proof.weights
        recomputed = evaluate_solution(
            problem, basis, weights, tol=tol, lower_bound=-np.inf, tolerance_factor=tolerance_factor
        )
        return replace(recomputed, proof=None).with_offset(problem.objective_offset)
    proof.check()
    if reduction.axes is not None:
        proof = proof.change_coordinates(reduction.axes.T)
    if not proof.applies_to(problem):
        raise VerificationFailure(
            "The proof stored with the model belongs to another kind of problem."
        )
    recomputed = evaluate_solution(
        problem, basis, proof, tol=tol, tolerance_factor=tolerance_factor
    )
    if reduction.required is not None:
        n_components = problem.unrestricted.n_components
        statement = replace(recomputed.statement, n_components=n_components)
        recomputed = replace(recomputed, statement=statement)
    return recomputed.with_offset(problem.objective_offset)
