"""Semidefinite relaxation: Algorithm 1 of Samadi et al. (2018), as in the paper.

A semidefinite program is followed by a linear one. Newton's method on the dual solves the same
relaxation much faster; this implementation serves for reference and comparison.
"""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
import scipy

from fairspan.certificates.certificate import Certificate
from fairspan.certificates.certificate_parts import TracePoint
from fairspan.certificates.evaluate_solution import certify
from fairspan.errors import IncompatibleParameters
from fairspan.linalg import leading_subspace
from fairspan.problem.piecewise import Blocks
from fairspan.problem.problem import Problem
from fairspan.solvers.convex_programs import CONIC_TOL, ConeSizes, smat, solve_conic, svec
from fairspan.solvers.local_descent import best_local_descent
from fairspan.solvers.rank_reduction import soft_basis
from fairspan.solvers.solver import Solver
from fairspan.typing import FloatArray, RandomSource

# Largest number of features for Algorithm 1, whose run time grows with the sixth power: 0.1 s for
# 20 features, 1 s for 40, 7 s for 60.
_MAX_FEATURES = 100
# The simplex method ends at a vertex, which keeps the rank low; its default tolerances of 1e-7 are
# tightened.
_LINPROG_OPTIONS = {
    "method": "highs-ds",
    "options": {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
}


@dataclass(frozen=True)
class Semidefinite(Solver):
    """Samadi et al. (2018), Algorithm 1, for every sum of maxima of affine functions.

    Supports up to 100 features.

    Notes
    -----
    1. Minimize max_i (R_i - <M_i, P>) over 0 <= P <= I, tr P = d (equation (4)), with M_i the
       mixture of second moments in piece i; for the error gap, a sum of two such maxima.
    2. Keep the eigenvectors u_j of P and minimize over its eigenvalues lb_j in [0, 1],
       sum_j lb_j = d (equations (5) to (9)). At a vertex at most d + k - 1 of them are nonzero.
    3. With `allow_extra` this is the soft projection returned; otherwise it is the start of a local
       descent at exactly d components.

    The multipliers of step 1 prove the lower bound through a separate eigenproblem, so the bound
    holds however accurate the conic solver was.

    Examples
    --------
    >>> import numpy as np
    >>> from fairspan import FairPCA, Semidefinite
    >>> X = np.array([[3.0, 1, 0], [-3, -1, 0], [0, 2, 1], [0, -2, -1]])
    >>> groups = ["a", "a", "b", "b"]
    >>> fair = FairPCA(1, solver=Semidefinite()).fit(X, sensitive_features=groups)
    >>> fair.group_losses_.round(3), fair.solution_.status.value
    (array([2.421, 2.421]), 'optimal')
    """

    name: ClassVar[str] = "semidefinite"

    def unsupported_reason(self, problem: Problem) -> str | None:
        """Reason why the solver does not support a problem; None if it does."""
        if problem.pieces is None or problem.criterion.is_constrained:
            return "it supports only criteria that are maxima of affine functions of the errors"
        if problem.n_features > _MAX_FEATURES:
            return f"it supports up to {_MAX_FEATURES} features, not {problem.n_features}"
        return None

    def solve(self, problem: Problem, tol: float, random_state: RandomSource = None) -> Certificate:
        """Solve the semidefinite and the linear program.

        Parameters
        ----------
        problem : Problem
        tol : float
            Relative gap; only used to decide the status. The conic solver has its own tolerance,
            which leaves a gap of about 1e-9 of the variance.
        random_state : object
            Ignored: the solver is deterministic.

        Returns
        -------
        Certificate
            Of exactly d components or, where the problem allows extra dimensions (`allow_extra`),
            of a soft projection of rank at most d + k - 1.

        Raises
        ------
        IncompatibleParameters
            The conic solver failed.
        """
        pieces = problem.pieces
        assert pieces is not None
        d = problem.n_components
        # Second moments as matrices, (k, p, p): their images of the identity.
        moments = problem.second_moments.apply(np.eye(problem.n_features))
        mixtures = np.tensordot(pieces.coefficients, moments, axes=1)
        piece_constants = pieces.piece_values(problem.second_moments.traces)
        projector, multipliers = _solve_relaxation(mixtures, piece_constants, pieces.blocks, d)
        weights = multipliers @ pieces.coefficients
        leading = problem.second_moments.leading(weights, d).vectors
        bound = float(multipliers @ pieces.piece_values(problem.errors(leading)))
        basis = _solve_vertex_program(mixtures, piece_constants, pieces.blocks, projector, d)
        if not problem.allow_extra:
            # The relaxed solution may have more than d columns: descend from its leading d.
            basis = best_local_descent(problem, basis, [leading])
        return certify(
            problem,
            basis,
            weights,
            tol=tol,
            # One for the mixture, one for the relaxed solution.
            n_eigenproblems=2,
            trace=[TracePoint(2, bound, problem.objective(basis))],
            solver=self.name,
        )


class _RelaxedSolution(NamedTuple):
    """Solution of the semidefinite program.

    Attributes
    ----------
    projector : (p, p) array
        P.
    multipliers : (m,) array
        Multipliers of the pieces, on a simplex for each block.
    """

    projector: FloatArray
    multipliers: FloatArray


def _solve_relaxation(
    mixtures: FloatArray, piece_constants: FloatArray, blocks: Blocks, n_components: int
) -> _RelaxedSolution:
    """Minimize the sum of the block maxima of R_i - <M_i, P> by a semidefinite program.

    Equation (4) of Samadi et al. (2018). P is symmetric with 0 <= P <= I and tr P = d. Piece i is
    R_i - <M_i, P>, an affine function of the errors; the pieces are divided into blocks, each of
    which contributes its largest piece.

    Parameters
    ----------
    mixtures : (m, p, p) array
        M_i, the mixture of second moments in each piece.
    piece_constants : (m,) array
        R_i.
    blocks : Blocks
        Partition of the pieces into blocks.
    n_components : int
        d.

    Returns
    -------
    _RelaxedSolution

    Raises
    ------
    IncompatibleParameters
        The conic solver found no solution.
    """
    m = len(mixtures)
    p = mixtures.shape[1]
    if n_components == p:
        # P = I is the only feasible point, and a conic solver needs an interior.
        values = piece_constants - np.einsum("ipp->i", mixtures)
        # All weight on the largest piece of each block.
        multipliers = np.zeros(m)
        multipliers[blocks.argmax(values)] = 1.0
        return _RelaxedSolution(np.eye(p), multipliers)
    scale = float(np.abs(mixtures).sum(axis=1).max()) or 1.0
    # The variables are svec(P) and the largest piece of each block. The constants only shift the
    # pieces; subtracting their common part preserves the digits of P.
    identity = svec(np.eye(p))
    n = len(blocks.starts)
    n_entries = len(identity)
    entries = scipy.sparse.identity(n_entries)
    pieces = [-svec(mixtures / scale), -blocks.indicator_matrix(m).T]
    # tr P = d; no piece exceeds the largest of its block; P >= 0; I - P >= 0.
    rows = scipy.sparse.bmat([[identity[None, :], None], pieces, [-entries, None], [entries, None]])
    piece_rhs = -_subtract_block_maxima(piece_constants, blocks) / scale
    rhs = np.concatenate([[n_components], piece_rhs, np.zeros(n_entries), identity])
    cost = np.append(np.zeros(n_entries), np.ones(n))
    # One equation, m inequalities and two semidefinite matrices of order p, in the order of `rows`.
    cone_sizes = ConeSizes(1, m, psd_orders=(p, p))
    solution = solve_conic(
        quadratic=None,
        linear=cost,
        constraints=rows,
        rhs=rhs,
        cone_sizes=cone_sizes,
        tol=CONIC_TOL,
    )
    if not np.isfinite(solution.x).all():
        raise IncompatibleParameters(
            "The solver 'semidefinite' found no solution: Clarabel ended with status "
            f"{solution.status}",
            "Allowed: second moments whose eigenvalues do not span too many orders of magnitude",
            "Scale the features, or use solver='auto'",
        )
    return _RelaxedSolution(
        projector=smat(solution.x[:n_entries], p),
        multipliers=blocks.normalize(solution.duals[1 : 1 + m]),
    )


def _subtract_block_maxima(piece_constants: FloatArray, blocks: Blocks) -> FloatArray:
    """Subtract the maximum of each block from the (m,) piece constants."""
    block_of = blocks.block_indices(len(piece_constants))
    return np.asarray(piece_constants - blocks.maxima(piece_constants)[block_of])


def _solve_vertex_program(
    mixtures: FloatArray,
    piece_constants: FloatArray,
    blocks: Blocks,
    projector: FloatArray,
    n_components: int,
) -> FloatArray:
    """Reoptimize the eigenvalues lb_j of P at a vertex; return columns sqrt(lb_j) u_j, (p, r).

    Equations (5) to (9) of Samadi et al. (2018). The eigenvectors u_j of P, the (p, p) `projector`,
    stay fixed, and the problem of :func:`_solve_relaxation` is solved over its eigenvalues lb_j in
    [0, 1] with sum d: a linear program, whose variables are the p eigenvalues and the largest piece
    z of each block. At a vertex few eigenvalues are fractional, so the columns are few.

    Raises
    ------
    IncompatibleParameters
        The linear program was not solved.
    """
    vectors = leading_subspace(projector, len(projector)).vectors
    # Decrease of piece i per unit of eigenvalue j, u_j'M_iu_j.
    piece_gains = np.einsum("pj,ipq,qj->ij", vectors, mixtures, vectors)
    scale = float(np.abs(piece_gains).max()) or 1.0
    m, p = piece_gains.shape
    n = len(blocks.starts)
    cost = np.append(np.zeros(p), np.ones(n))
    # No piece exceeds the largest of its block.
    piece_rows = np.hstack([-piece_gains / scale, -blocks.indicator_matrix(m).T])
    trace_row = np.append(np.ones(p), np.zeros(n))
    eigenvalue_bounds = [(0, 1)] * p
    maximum_bounds = [(None, None)] * n
    result = scipy.optimize.linprog(
        cost,
        A_ub=piece_rows,
        b_ub=-_subtract_block_maxima(piece_constants, blocks) / scale,
        A_eq=trace_row[None, :],
        b_eq=[n_components],
        bounds=[*eigenvalue_bounds, *maximum_bounds],
        **_LINPROG_OPTIONS,
    )
    if result.x is None:
        raise IncompatibleParameters(
            f"The solver 'semidefinite' found no solution: HiGHS reports {result.message}",
            "Allowed: second moments whose eigenvalues do not span too many orders of magnitude",
            "Scale the features, or use solver='auto'",
        )
    eigenvalues = result.x[:p]
    return soft_basis(eigenvalues, vectors, n_components)
