"""Multiplicative weights for minimax losses and errors: Samadi et al. (2018), Algorithms 2 and 3.

Kept as the paper has it, as reference and baseline, but on the k second moments: a round costs one
eigenproblem however many rows there are.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fairspan.certificates.optimality import certified, goal
from fairspan.certificates.solution import Solution, TracePoint
from fairspan.problem.parameters import check_count, check_number
from fairspan.problem.problem import Problem
from fairspan.solvers.exact_rank.rank_reduction import SoftBasis
from fairspan.solvers.exact_rank.rounding import best_rounding
from fairspan.solvers.many_groups.dual import Dual
from fairspan.solvers.protocol import Solver
from fairspan.typing import FloatArray

# A step is positive; one that is smaller than this changes no weight.
_SMALLEST_STEP = 1e-12


@dataclass(frozen=True)
class MultiplicativeWeights(Solver):
    """Samadi et al. (2018), Algorithms 2 and 3, for minimax loss, minimax error, least variance.

    Parameters
    ----------
    step : float, default=1.0
        eta times the scale of the losses, positive. The theory requires losses in [0, 1], so each
        is divided by the largest that it can be, max_g t_d(S_g) (minimax loss) or max_g tr S_g
        (minimax error, least variance): eta is `step` / that scale, in units of 1 / variance.
        Relative ones have the same scale, each group's divided by its tr S_g.
    max_iter : int, default=100
        T, the most rounds. They end earlier where the gap is within the tolerance.

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
    the dual values seen (Freund & Schapire 1997): for a small gap, lower the step and take more
    rounds.

    Examples
    --------
    >>> import numpy as np
    >>> from fairspan import FairPCA, MultiplicativeWeights
    >>> X = np.array([[3.0, 1, 0], [-3, -1, 0], [0, 2, 1], [0, -2, -1]])
    >>> groups = ["a", "a", "b", "b"]
    >>> for rounds in (2, 100):
    ...     solver = MultiplicativeWeights(max_iter=rounds)
    ...     fair = FairPCA(1, solver=solver).fit(X, sensitive_features=groups)
    ...     print(fair.solution_.n_eigenproblems, fair.solution_.status)
    2 open gap
    10 optimal
    """

    step: float = 1.0
    max_iter: int = 100
    name: ClassVar[str] = "multiplicative"

    def __post_init__(self) -> None:
        check_number("step", self.step, _SMALLEST_STEP)
        check_count("max_iter", self.max_iter)

    def objection(self, problem: Problem) -> str | None:
        """Why it cannot take this problem; None if it can."""
        if not problem.criterion.is_largest_of_groups:
            return "it takes 'minimax_loss', 'minimax_error' and 'least_variance' only"
        return "it takes two groups or more" if problem.n_groups < 2 else None

    def solve(self, problem: Problem, tol: float, random_state: object = None) -> Solution:
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
        Solution
            Its trace has one point for each round. The upper bounds are those of subspaces of d
            dimensions, or with `allow_extra` of the average as well.
        """
        rounds = _Rounds(problem)
        for _ in range(self.max_iter):
            rounds.play(self.step)
            errors = problem.errors(rounds.nearest.basis)
            if rounds.upper - rounds.lower <= goal(problem, errors, tol):
                break
        return certified(
            problem,
            rounds.basis(),
            rounds.dual.weights(rounds.best.multipliers),
            tol=tol,
            n_eigenproblems=rounds.dual.n_eigenproblems,
            trace=rounds.trace,
            solver=self.name,
        )


class _Rounds:
    """The state between rounds."""

    def __init__(self, problem: Problem) -> None:
        pieces, p, k = problem.pieces, problem.n_features, problem.n_groups
        assert pieces is not None
        self.problem, self.dual = problem, Dual(problem, pieces)
        traces = problem.second_moments.traces
        # Losses and errors are between zero and these; what is negative varies by the variance.
        never_negative = problem.criterion.is_never_negative
        self.most = pieces.references(traces) if never_negative else pieces.coefficients @ traces
        self.log_weights, self.errors, self.projectors = np.zeros(k), np.zeros(k), np.zeros((p, p))
        self.least, self.upper, self.lower = np.inf, np.inf, -np.inf
        self.trace: list[TracePoint] = []

    def play(self, step: float) -> None:
        """One round."""
        weights = np.exp(self.log_weights - self.log_weights.max())
        self.last = self.dual.at(weights / weights.sum())
        if self.last.bound > self.lower:
            self.lower, self.best = self.last.bound, self.last
        atom = self.last.atom
        self.projectors += atom.basis @ atom.basis.T
        self.errors += atom.errors
        values = self.dual.pieces.at(atom.errors)
        # t_d(S_g) or tr S_g are the largest losses or errors; all zero without rows that vary, and
        # then so are the values.
        scale = float(self.most.max())
        if scale > 0:
            self.log_weights = self.log_weights + step / scale * values
        if values.max() < self.least:
            self.least, self.nearest = float(values.max()), atom
        n_rounds = len(self.trace) + 1
        self.upper = self.least
        if self.problem.allow_extra:
            self.upper = min(self.least, self._average_value(n_rounds))
        self.trace.append(TracePoint(self.dual.n_eigenproblems, self.lower, self.upper))

    def basis(self) -> FloatArray:
        """(p, r) columns of the answer: orthonormal, or of length sqrt(lb_j) if it is soft."""
        n_rounds = len(self.trace)
        average = self.projectors / n_rounds
        if self.problem.allow_extra and self._average_value(n_rounds) < self.least:
            return SoftBasis.of(average, self.problem.n_components).basis
        starts = [self.last.atom.basis, self.nearest.basis]
        return best_rounding(self.problem, average, starts)

    def _average_value(self, n_rounds: int) -> float:
        return self.dual.pieces.value(self.errors / n_rounds)
