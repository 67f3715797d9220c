"""The algorithms of Samadi et al. (2018), kept as the paper has them, as reference and baseline.

Algorithm 1 is a semidefinite and a linear program: Newton's method on the dual solves the same
relaxation in a fraction of the time. Algorithms 2 and 3 play multiplicative weights, here on the k
second moments: a round costs one eigenproblem however many rows there are.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy

from fairspan.certificates.certificate import Certificate, Solver, TracePoint, certify, target_gap
from fairspan.errors import IncompatibleParameters
from fairspan.linalg import leading_subspace
from fairspan.problem.criteria import LeastVariance, MinimaxCriterion
from fairspan.problem.problem import AffinePieces, Blocks, Problem
from fairspan.registry import check_integer, check_number
from fairspan.solvers.convex_programs import smat, solve_conic, svec
from fairspan.solvers.exact_rank import best_local_descent, soft_basis
from fairspan.typing import FloatArray

# The time grows with the sixth power: 0.1 s for 20 features, 1 s for 40, 7 s for 60.
_MAX_FEATURES = 100
# Where Clarabel makes no progress as far as this, its last point is taken.
_CONIC_TOL = 1e-12
# The simplex method ends at a vertex, which is what keeps the rank low; its tolerances are 1e-7
# unless told.
_LINPROG_OPTIONS = {
    "method": "highs-ds",
    "options": {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
}
# A step is positive; one that is smaller than this changes no weight.
_MIN_STEP_SIZE = 1e-12
# Those of "auto", one after the other.
_AUTO_STEP_SIZES = (16.0, 4.0, 1.0)


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

    def unsupported_reason(self, problem: Problem) -> str | None:
        """Why it cannot take this problem; None if it can."""
        if problem.pieces is None or problem.criterion.requires_equal_errors:
            return "it takes criteria that are the largest of affine functions of the errors"
        if problem.n_features > _MAX_FEATURES:
            return f"it takes up to {_MAX_FEATURES} features, not {problem.n_features}"
        return None

    def solve(self, problem: Problem, tol: float, random_state: object = None) -> Certificate:
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
        Certificate
            With `allow_extra`, of rank d + k - 1 at most.

        Raises
        ------
        Incompatible
            The conic solver failed.
        """
        assert problem.pieces is not None
        moments = problem.second_moments.apply(np.eye(problem.n_features))
        mixtures = np.tensordot(problem.pieces.coefficients, moments, axes=1)
        piece_constants = problem.pieces.piece_values(problem.second_moments.traces)
        blocks = problem.pieces.blocks
        projector, multipliers = _solve_relaxation(
            mixtures, piece_constants, blocks, problem.n_components
        )
        weights = multipliers @ problem.pieces.coefficients
        leading = problem.second_moments.leading(weights, problem.n_components).vectors
        bound = float(multipliers @ problem.pieces.piece_values(problem.errors(leading)))
        basis = _solve_vertex_program(
            mixtures, piece_constants, blocks, projector, problem.n_components
        )
        if not problem.allow_extra:
            basis = best_local_descent(problem, basis, [leading])
        return certify(
            problem,
            basis,
            weights,
            tol=tol,
            n_eigenproblems=2,  # of the mixture, and of P
            trace=[TracePoint(2, bound, problem.objective(basis))],
            solver=self.name,
        )


def _solve_relaxation(
    mixtures: FloatArray, piece_constants: FloatArray, blocks: Blocks, n_components: int
) -> tuple[FloatArray, FloatArray]:
    """P of equation (4), (p, p), and the multipliers of its pieces, (m,)."""
    m, p = len(mixtures), mixtures.shape[1]
    if n_components == p:
        # P = I is the only choice, and a conic solver needs more room than that.
        values = piece_constants - np.einsum("ipp->i", mixtures)
        return np.eye(p), np.eye(m)[blocks.argmax(values)].sum(axis=0)
    scale = float(np.abs(mixtures).sum(axis=1).max()) or 1.0
    # The unknowns are the triangle of P and the largest piece of each block. The references only
    # shift the pieces; without their common part the digits are those of P.
    identity, n = svec(np.eye(p)), len(blocks)
    n_entries = len(identity)
    entries = scipy.sparse.identity(n_entries)
    pieces = [-svec(mixtures / scale), -blocks.indicator_matrix(m).T]
    rows = scipy.sparse.bmat([[identity[None, :], None], pieces, [-entries, None], [entries, None]])
    piece_rhs = -_subtract_block_maxima(piece_constants, blocks) / scale
    rhs = np.concatenate([[n_components], piece_rhs, np.zeros(n_entries), identity])
    cost = np.append(np.zeros(n_entries), np.ones(n))
    x, duals, status = solve_conic(None, cost, rows, rhs, (1, m, (p, p)), _CONIC_TOL)
    if not np.isfinite(x).all():
        raise IncompatibleParameters(
            f"The solver 'semidefinite' got no solution from Clarabel, which ended with {status}",
            "Allowed: second moments whose eigenvalues do not lie too many orders apart",
            "Scale the features, or use solver='auto'",
        )
    return smat(x[:n_entries], p), blocks.normalize(duals[1 : 1 + m])


def _subtract_block_maxima(references: FloatArray, blocks: Blocks) -> FloatArray:
    """References less what those of a block have in common."""
    return np.asarray(references - blocks.maxima(references)[blocks.block_indices(len(references))])


def _solve_vertex_program(
    mixtures: FloatArray,
    piece_constants: FloatArray,
    blocks: Blocks,
    projector: FloatArray,
    n_components: int,
) -> FloatArray:
    """(p, r) columns sqrt(lb_j) u_j: equations (5) to (9), at a vertex.

    Unknowns are the p eigenvalues and the largest piece z of each block.
    """
    vectors = leading_subspace(projector, len(projector)).vectors
    piece_gains = np.einsum("pj,ipq,qj->ij", vectors, mixtures, vectors)
    scale = float(np.abs(piece_gains).max()) or 1.0
    (m, p), n = piece_gains.shape, len(blocks)
    result = scipy.optimize.linprog(
        np.append(np.zeros(p), np.ones(n)),
        A_ub=np.hstack([-piece_gains / scale, -blocks.indicator_matrix(m).T]),
        b_ub=-_subtract_block_maxima(piece_constants, blocks) / scale,
        A_eq=np.append(np.ones(p), np.zeros(n))[None, :],
        b_eq=[n_components],
        bounds=[(0, 1)] * p + [(None, None)] * n,
        **_LINPROG_OPTIONS,
    )
    if result.x is None:
        raise IncompatibleParameters(
            f"The solver 'semidefinite' got no solution from HiGHS, which says: {result.message}",
            "Allowed: second moments whose eigenvalues do not lie too many orders apart",
            "Scale the features, or use solver='auto'",
        )
    eigenvalues = result.x[:p]
    return soft_basis(eigenvalues, vectors, n_components)


@dataclass(frozen=True)
class MultiplicativeWeights(Solver):
    """Samadi et al. (2018), Algorithms 2 and 3, for minimax loss, minimax error, least variance.

    Parameters
    ----------
    step : "auto" or float, default="auto"
        eta times the scale of the losses, positive. The theory requires losses in [0, 1], so each
        is divided by the largest that it can be, max_g t_d(S_g) (minimax loss) or max_g tr S_g
        (minimax error, least variance): eta is `step` / that scale, in units of 1 / variance.
        Relative ones have the same scale, each group's divided by its tr S_g. "auto" takes
        16, 4 and 1 for a third of the rounds each, each from the weights that have proven the best
        bound so far, and keeps the best bound and the best subspace of all.
    max_iter : int, default=100
        T, the most rounds in all. They end earlier where the gap is within the tolerance.

    Raises
    ------
    InvalidParameter, InvalidType
        A step that is not positive, or fewer rounds than one.

    Notes
    -----
    The weights w of the groups start equal. In each round V is the leading eigenvectors of sum_g
    w_g S_g, v_g the loss or error of group g at V, and w_g becomes w_g exp(eta v_g), normalised.
    The paper ends with the better of the average of the projectors VV' and the last of them; here
    it is the best of all. With `allow_extra` the average is a soft projection; otherwise it, the
    last and the best V are starts of a local descent at exactly d components.

    The average is within scale * (log(k) / (step * T) + step / 8) of the lower bound, the best of
    the dual values seen (Freund & Schapire 1997). That holds for every problem, and calls for a
    small step and many rounds: :meth:`for_accuracy`. On most data a step far above 1 is better, as
    losses are far smaller than the scale; where it is too large, the weights swing to and fro and
    the gap stays open.

    Examples
    --------
    >>> import numpy as np
    >>> from fairspan import FairPCA, MultiplicativeWeights
    >>> X = np.array([[3.0, 1, 0], [-3, -1, 0], [0, 2, 1], [0, -2, -1]])
    >>> groups = ["a", "a", "b", "b"]
    >>> for rounds in (2, 100):
    ...     solver = MultiplicativeWeights(step=1.0, max_iter=rounds)
    ...     fair = FairPCA(1, solver=solver).fit(X, sensitive_features=groups)
    ...     print(fair.solution_.n_eigenproblems, fair.solution_.status)
    2 open gap
    10 optimal
    """

    step_size: float | str = "auto"
    max_iter: int = 100
    name: ClassVar[str] = "multiplicative"

    def __post_init__(self) -> None:
        if self.step_size != "auto":
            check_number("step", self.step_size, _MIN_STEP_SIZE, also_allowed="'auto', or ")
        check_integer("max_iter", self.max_iter)

    @classmethod
    def for_accuracy(cls, accuracy: float, n_groups: int = 2) -> "MultiplicativeWeights":
        """Step and rounds that guarantee an accuracy: Theorem A.2 of Samadi et al. (2018).

        Parameters
        ----------
        accuracy : float
            epsilon, above 0 and at most 1: the gap of the average, as a share of the scale by which
            losses are divided.
        n_groups : int, default=2
            m, how many groups there are: the rounds grow with its logarithm.

        Returns
        -------
        MultiplicativeWeights
            eta = epsilon / (8 l) and T = 32 l rho log(m) / epsilon^2, in units of the scale, where
            l and rho are one.

        Raises
        ------
        InvalidParameter, InvalidType
            An accuracy that is no number above 0 and at most 1, or fewer than one group.

        Examples
        --------
        >>> MultiplicativeWeights.for_accuracy(0.1)
        MultiplicativeWeights(step=0.0125, max_iter=2219)
        """
        check_number("accuracy", accuracy, _MIN_STEP_SIZE, 1)
        check_integer("n_groups", n_groups)
        n_rounds = 32 * np.log(max(n_groups, 2)) / accuracy**2
        return cls(step_size=accuracy / 8, max_iter=int(np.ceil(n_rounds)))

    def unsupported_reason(self, problem: Problem) -> str | None:
        """Why it cannot take this problem; None if it can."""
        if not isinstance(problem.criterion, MinimaxCriterion | LeastVariance):
            return "it takes 'minimax_loss', 'minimax_error' and 'least_variance' only"
        return "it takes two groups or more" if problem.n_groups < 2 else None

    def solve(self, problem: Problem, tol: float, random_state: object = None) -> Certificate:
        """Play the rounds.

        Parameters
        ----------
        problem : Problem
        tol : float
            The gap to reach, as a share of the objective.
        random_state : object
            Not used: nothing here is random.

        Returns
        -------
        Certificate
            Its trace has one point for each round. The upper bounds are those of subspaces of d
            dimensions, or with `allow_extra` of the average as well.
        """
        pieces = problem.pieces
        assert pieces is not None
        # Losses and errors are between zero and these; what is negative varies by the variance.
        traces = problem.second_moments.traces
        never_negative = problem.criterion.is_nonnegative
        value_range = (
            pieces.piece_values(traces) if never_negative else pieces.coefficients @ traces
        )
        # All zero without rows that vary, and then so are the values.
        inverse_scale = 1 / float(value_range.max()) if value_range.max() > 0 else 0.0
        step_sizes = _AUTO_STEP_SIZES if self.step_size == "auto" else (float(self.step_size),)
        runs, trace, initial_log_weights = (
            list[_WeightUpdateRun](),
            list[TracePoint](),
            np.zeros(problem.n_groups),
        )
        for n in range(self.max_iter):
            if n % -(-self.max_iter // len(step_sizes)) == 0:
                runs.append(
                    _WeightUpdateRun(
                        problem, pieces, step_sizes[len(runs)] * inverse_scale, initial_log_weights
                    )
                )
            runs[-1].step()
            best = min(runs, key=lambda each: each.upper)
            best_bound_run = max(runs, key=lambda each: each.lower)
            initial_log_weights = best_bound_run.bound_log_weights
            trace.append(TracePoint(n + 1, best_bound_run.lower, best.upper))
            if best.upper - best_bound_run.lower <= target_gap(problem, best.best_errors, tol):
                break
        basis = soft_basis(
            *np.linalg.eigh(best.projector_sum / best.n_rounds), problem.n_components
        )
        if best.average_value >= best.best_value:
            basis = best_local_descent(problem, basis, [best.last_basis, best.best_basis])
        return certify(
            problem,
            basis,
            best_bound_run.bound_weights,
            tol=tol,
            n_eigenproblems=n + 1,
            trace=trace,
            solver=self.name,
        )


class _WeightUpdateRun:
    """The rounds of one step: the weights, the bound that they prove, and the subspaces met.

    Attributes
    ----------
    n : int
        Rounds so far.
    lower : float
        The best dual value, which the weights `proof` prove; `proven` are their logarithms.
    least : float
        The best value of a subspace, `nearest`, which has these `errors`.
    average : float
        The value of the average of all projectors; infinite unless extra dimensions are allowed.
    """

    def __init__(
        self, problem: Problem, pieces: AffinePieces, eta: float, start: FloatArray
    ) -> None:
        self.problem, self.pieces, self.eta = problem, pieces, eta
        self.log_weights, self.error_sum = start, np.zeros(problem.n_groups)
        self.projector_sum = np.zeros((problem.n_features, problem.n_features))
        self.n_rounds, self.lower, self.best_value, self.average_value = 0, -np.inf, np.inf, np.inf
        self.bound_weights = self.bound_log_weights = self.best_errors = self.last_basis = (
            self.best_basis
        ) = np.empty(0)

    @property
    def upper(self) -> float:
        """The best value so far."""
        return min(self.best_value, self.average_value)

    def step(self) -> None:
        """One round."""
        problem, pieces = self.problem, self.pieces
        exponentials = np.exp(self.log_weights - self.log_weights.max())
        multipliers = pieces.blocks.normalize(exponentials)
        weights = multipliers @ pieces.coefficients
        self.last_basis = problem.second_moments.leading(weights, problem.n_components).vectors
        errors = problem.errors(self.last_basis)
        values = pieces.piece_values(errors)
        self.projector_sum += self.last_basis @ self.last_basis.T
        self.error_sum += errors
        if float(multipliers @ values) > self.lower:
            self.lower, self.bound_weights = float(multipliers @ values), weights
            self.bound_log_weights = self.log_weights
        if values.max() < self.best_value:
            self.best_value, self.best_basis, self.best_errors = (
                float(values.max()),
                self.last_basis,
                errors,
            )
        self.n_rounds, self.log_weights = self.n_rounds + 1, self.log_weights + self.eta * values
        if problem.allow_extra:
            self.average_value = pieces.value(self.error_sum / self.n_rounds)
