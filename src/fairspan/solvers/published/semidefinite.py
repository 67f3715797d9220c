"""The semidefinite program and the linear program of Samadi et al. (2018), Algorithm 1.

Kept as the paper has it, as reference and baseline; Newton's method on the dual solves the same
relaxation in a fraction of the time.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy
from scipy import sparse

from fairspan.certificates.optimality import certified
from fairspan.certificates.solution import Solution, TracePoint
from fairspan.errors import Incompatible
from fairspan.linalg import leading_subspace
from fairspan.problem.pieces import Blocks
from fairspan.problem.problem import Problem
from fairspan.solvers.conic import from_triangle, solve_conic, to_triangle
from fairspan.solvers.exact_rank.rank_reduction import SoftBasis
from fairspan.solvers.exact_rank.rounding import best_rounding
from fairspan.solvers.many_groups.dual import Dual
from fairspan.solvers.protocol import Solver
from fairspan.typing import FloatArray

# The time grows with the sixth power: 0.1 s for 20 features, 1 s for 40, 7 s for 60.
_MOST_FEATURES = 100
# Where Clarabel makes no progress as far as this, its last point is taken.
_INTERIOR_POINT = 1e-12
# The simplex method ends at a vertex, which is what keeps the rank low; its tolerances are 1e-7
# unless told.
_SIMPLEX = {
    "method": "highs-ds",
    "options": {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
}
# Eigenvalues of P closer to 0 or 1 than this are taken as 0 or 1.
_WHOLE = 1e-8


@dataclass(frozen=True)
class Semidefinite(Solver):
    """Samadi et al. (2018), Algorithm 1, for every criterion made of maxima of affine functions.

    Takes up to 100 features.

    Notes
    -----
    1. Minimise max_i (R_i - <M_i, P>) over 0 <= P <= I, tr P = d (their equation (4)), M_i the
       mixture of second moments in piece i; for the error gap, a sum of two such maxima.
    2. Keep the eigenvectors u_j of P, and minimise the same over its eigenvalues lb_j in [0, 1],
       sum_j lb_j = d, their equations (5) to (9). A vertex has at most d + k - 1 that are not zero.
    3. With `allow_extra`, this is a soft projection; otherwise a local descent starts from it at
       exactly d components.

    The multipliers of step 1 prove the lower bound through one eigenproblem of their own, so that
    it holds however accurate the conic solver was.

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

    def objection(self, problem: Problem) -> str | None:
        """Why it cannot take this problem; None if it can."""
        if problem.pieces is None:
            return "it takes criteria that are the largest of affine functions of the errors"
        if problem.n_features > _MOST_FEATURES:
            return f"it takes up to {_MOST_FEATURES} features, not {problem.n_features}"
        return None

    def solve(self, problem: Problem, tol: float, random_state: object = None) -> Solution:
        """Solve both programs.

        Parameters
        ----------
        problem : Problem
        tol : float
            A share of the objective; decides the status only. The conic solver works to its own,
            which leaves a gap of about 1e-9 of the variance.
        random_state : object
            Not used: nothing here is random.

        Returns
        -------
        Solution
            With `allow_extra`, of rank d + k - 1 at most.

        Raises
        ------
        Incompatible
            The conic solver failed.
        """
        assert problem.pieces is not None
        dual = Dual(problem, problem.pieces)
        moments = problem.second_moments.applied(np.eye(problem.n_features))
        mixtures = np.tensordot(problem.pieces.coefficients, moments, axes=1)
        references = problem.pieces.references(problem.second_moments.traces)
        blocks = problem.pieces.blocks
        projector, multipliers = _relaxed(mixtures, references, blocks, problem.n_components)
        point = dual.at(multipliers)
        basis = _vertex(mixtures, references, blocks, projector, problem.n_components)
        if not problem.allow_extra:
            basis = best_rounding(problem, basis @ basis.T, [point.atom.basis])
        # The second eigenproblem is that of P.
        count = dual.n_eigenproblems + 1
        return certified(
            problem,
            basis,
            dual.weights(multipliers),
            tol=tol,
            n_eigenproblems=count,
            trace=[TracePoint(count, point.bound, problem.value(basis))],
            solver=self.name,
        )


def _relaxed(
    mixtures: FloatArray, references: FloatArray, blocks: Blocks, n_components: int
) -> tuple[FloatArray, FloatArray]:
    """P of equation (4), (p, p), and the multipliers of its pieces, (m,)."""
    m, p = len(mixtures), mixtures.shape[1]
    if n_components == p:
        # P = I is the only choice, and a conic solver needs more room than that.
        values = references - np.einsum("ipp->i", mixtures)
        return np.eye(p), np.eye(m)[blocks.leaders(values)].sum(axis=0)
    scale = float(np.abs(mixtures).sum(axis=1).max()) or 1.0
    # The unknowns are the triangle of P and the largest piece of each block. The references only
    # shift the pieces; without their common part the digits are those of P.
    identity, n = to_triangle(np.eye(p)), len(blocks)
    n_entries = len(identity)
    entries = sparse.identity(n_entries)
    pieces = [-to_triangle(mixtures / scale), -blocks.membership(m).T]
    rows = sparse.bmat([[identity[None, :], None], pieces, [-entries, None], [entries, None]])
    shifted = -_shifted(references, blocks) / scale
    right = np.concatenate([[n_components], shifted, np.zeros(n_entries), identity])
    aim = np.append(np.zeros(n_entries), np.ones(n))
    found = solve_conic(None, aim, rows, right, (1, m, (p, p)), _INTERIOR_POINT)
    if not np.isfinite(found.x).all():
        raise Incompatible(
            f"The solver 'semidefinite' got no solution from Clarabel, which ended with "
            f"{found.status}",
            "Allowed: second moments whose eigenvalues do not lie too many orders apart",
            "Scale the features, or use solver='auto'",
        )
    multipliers = blocks.normalised(found.duals[1 : 1 + m])
    return from_triangle(found.x[:n_entries], p), multipliers


def _shifted(references: FloatArray, blocks: Blocks) -> FloatArray:
    """References less what those of a block have in common."""
    return np.asarray(references - blocks.largest(references)[blocks.of(len(references))])


def _vertex(
    mixtures: FloatArray,
    references: FloatArray,
    blocks: Blocks,
    projector: FloatArray,
    n_components: int,
) -> FloatArray:
    """(p, r) columns sqrt(lb_j) u_j: equations (5) to (9), at a vertex.

    Unknowns are the p eigenvalues and the largest piece z of each block.
    """
    vectors = leading_subspace(projector, len(projector)).vectors
    gains = np.einsum("pj,ipq,qj->ij", vectors, mixtures, vectors)
    scale = float(np.abs(gains).max()) or 1.0
    (m, p), n = gains.shape, len(blocks)
    found = scipy.optimize.linprog(
        np.append(np.zeros(p), np.ones(n)),
        A_ub=np.hstack([-gains / scale, -blocks.membership(m).T]),
        b_ub=-_shifted(references, blocks) / scale,
        A_eq=np.append(np.ones(p), np.zeros(n))[None, :],
        b_eq=[n_components],
        bounds=[(0, 1)] * p + [(None, None)] * n,
        **_SIMPLEX,
    )
    if found.x is None:
        raise Incompatible(
            f"The solver 'semidefinite' got no solution from HiGHS, which says: {found.message}",
            "Allowed: second moments whose eigenvalues do not lie too many orders apart",
            "Scale the features, or use solver='auto'",
        )
    spectrum = found.x[:p]
    whole = spectrum > 1 - _WHOLE
    fractional = (spectrum > _WHOLE) & ~whole & (whole.sum() < n_components)
    shares = spectrum[fractional]
    shares = shares * (n_components - whole.sum()) / max(shares.sum(), _WHOLE)
    return SoftBasis(vectors[:, whole], vectors[:, fractional], shares).basis
