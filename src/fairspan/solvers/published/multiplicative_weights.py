"""Multiplicative weights: Algorithms 2 and 3 of Samadi et al. (2018), as in the paper.

The weights here are those of the k second moments, so that a round costs one eigenproblem
regardless of the number of rows.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fairspan.certificates.certificate import Certificate
from fairspan.certificates.certificate_parts import TracePoint
from fairspan.certificates.error_rounding import target_gap
from fairspan.certificates.evaluate_solution import certify
from fairspan.parameters import check_integer, check_number
from fairspan.problem.criteria.minimax import LeastVariance, MinimaxCriterion
from fairspan.problem.piecewise import AffinePieces
from fairspan.problem.problem import Problem
from fairspan.solvers.local_descent import best_local_descent
from fairspan.solvers.rank_reduction import soft_basis
from fairspan.solvers.solver import Solver
from fairspan.typing import FloatArray, RandomSource

# Smallest step size accepted; smaller ones would barely change any weight.
_MIN_STEP_SIZE = 1e-12
# Theorem A.2 takes an eighth of the accuracy as the step size.
_STEPS_PER_ACCURACY = 8
# Step sizes of "auto", used in this order.
_AUTO_STEP_SIZES = (16.0, 4.0, 1.0)


@dataclass(frozen=True)
class MultiplicativeWeights(Solver):
    """Samadi et al. (2018), Algorithms 2 and 3, for minimax loss, minimax error and least variance.

    Parameters
    ----------
    step_size : "auto" or float, default="auto"
        Step size eta times the scale of the losses; positive. The theory requires losses in [0, 1],
        so each is divided by its largest possible value, max_g t_d(S_g) (minimax loss) or max_g tr
        S_g (minimax error, least variance): eta is `step_size` / scale, in units of 1 / variance.
        For relative criteria each group's value is divided by tr S_g. "auto" uses 16, 4 and 1 for a
        third of the rounds each, each starting from the weights with the best bound so far, and
        keeps the best bound and subspace overall.
    max_iter : int, default=100
        T, the maximum number of rounds in total. The iteration stops earlier if the gap is within
        the tolerance.

    Raises
    ------
    InvalidParameter, InvalidType
        The step size is not positive, or `max_iter` is less than one.

    The group weights w start equal. In each round, V consists of the leading eigenvectors of sum_g
    w_g S_g, v_g is the loss or error of group g at V, and w_g becomes w_g exp(eta v_g), normalized.
    The paper returns the better of the average of the projectors VV' and the last one; this solver
    returns the best of all. With `allow_extra` the average is a soft projection; otherwise the
    average, the last and the best V are starting points of a local descent at exactly d components.

    The average is within scale * (log(k) / (step_size * T) + step_size / 8) of the lower bound, the
    best dual value found (Freund & Schapire 1997). This worst-case guarantee calls for a small step
    size and many rounds: :meth:`for_accuracy`. On most data a step size far above 1 works better,
    since losses are far smaller than the scale; if it is too large, the weights oscillate and the
    gap stays open.

    Examples
    --------
    >>> import numpy as np
    >>> from fairspan import FairPCA, MultiplicativeWeights
    >>> X = np.array([[3.0, 1, 0], [-3, -1, 0], [0, 2, 1], [0, -2, -1]])
    >>> groups = ["a", "a", "b", "b"]
    >>> for max_iter in (2, 100):
    ...     solver = MultiplicativeWeights(step_size=1.0, max_iter=max_iter)
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
            check_number("step_size", self.step_size, _MIN_STEP_SIZE, also_allowed="'auto', or ")
        check_integer("max_iter", self.max_iter)

    @classmethod
    def for_accuracy(cls, accuracy: float, n_groups: int = 2) -> "MultiplicativeWeights":
        """Step size and rounds that guarantee an accuracy: Theorem A.2 of Samadi et al. (2018).

        Parameters
        ----------
        accuracy : float
            epsilon, from 8e-12 to 1: the gap of the average relative to the scale of the losses. A
            smaller one would need more rounds than can be run.
        n_groups : int, default=2
            Number of groups m; the rounds grow with its logarithm.

        Returns
        -------
        MultiplicativeWeights
            eta = epsilon / (8 l) and T = 32 l rho log(m) / epsilon^2, in units of the scale, where
            l and rho are one.

        Raises
        ------
        InvalidParameter, InvalidType
            The accuracy is not a number from 8e-12 to 1, or there is less than one group.

        Examples
        --------
        >>> MultiplicativeWeights.for_accuracy(0.1)
        MultiplicativeWeights(step_size=0.0125, max_iter=2219)
        """
        check_number("accuracy", accuracy, _STEPS_PER_ACCURACY * _MIN_STEP_SIZE, 1)
        check_integer("n_groups", n_groups)
        # One group counts as two: log(1) = 0 would give no round at all.
        n_rounds = 32 * np.log(max(n_groups, 2)) / accuracy**2
        return cls(step_size=accuracy / _STEPS_PER_ACCURACY, max_iter=int(np.ceil(n_rounds)))

    def unsupported_reason(self, problem: Problem) -> str | None:
        """Reason why the solver does not support a problem; None if it does."""
        if not isinstance(problem.criterion, MinimaxCriterion | LeastVariance):
            return "it supports 'minimax_loss', 'minimax_error' and 'least_variance' only"
        return "it needs at least two groups" if problem.n_groups < 2 else None

    def solve(self, problem: Problem, tol: float, random_state: RandomSource = None) -> Certificate:
        """Run the rounds with each step size in turn; return the best subspace and the best bound.

        Parameters
        ----------
        problem : Problem
        tol : float
            Relative gap to reach.
        random_state : object
            Ignored: the solver is deterministic.

        Returns
        -------
        Certificate
            Its trace has one point per round. The upper bounds are those of subspaces of d
            dimensions or, where the problem allows extra dimensions (`allow_extra`), also of the
            average of the projectors.
        """
        pieces = problem.pieces
        assert pieces is not None  # the supported criteria are all piecewise linear
        inverse_scale = _inverse_scale(problem, pieces)
        step_sizes = _AUTO_STEP_SIZES if self.step_size == "auto" else (float(self.step_size),)
        # Rounded up.
        rounds_per_step_size = -(-self.max_iter // len(step_sizes))
        runs: list[_WeightUpdateRun] = []
        trace: list[TracePoint] = []
        initial_log_weights = np.zeros(problem.n_groups)
        for n in range(self.max_iter):
            if n % rounds_per_step_size == 0:
                eta = step_sizes[len(runs)] * inverse_scale
                runs.append(_WeightUpdateRun(problem, pieces, eta, initial_log_weights))
            runs[-1].step()
            best_run = min(runs, key=lambda run: run.upper_bound)
            best_bound_run = max(runs, key=lambda run: run.lower_bound)
            initial_log_weights = best_bound_run.bound_log_weights
            trace.append(TracePoint(n + 1, best_bound_run.lower_bound, best_run.upper_bound))
            gap = best_run.upper_bound - best_bound_run.lower_bound
            if gap <= target_gap(problem, best_run.best_errors, tol):
                break
        return certify(
            problem,
            best_run.solution(),
            best_bound_run.bound_weights,
            tol=tol,
            n_eigenproblems=n + 1,
            trace=trace,
            solver=self.name,
        )


def _inverse_scale(problem: Problem, pieces: AffinePieces) -> float:
    """One over the largest range of a piece over all subspaces, the unit of the step size.

    Losses and errors range from zero to their value for a subspace that keeps nothing, where errors
    are the traces. Other pieces, minus the variance kept, range over their coefficients times the
    traces. Zero if the rows do not vary, in which case all values are zero too.
    """
    traces = problem.second_moments.traces
    value_range = pieces.coefficients @ traces
    if problem.criterion.is_nonnegative:
        value_range = pieces.piece_values(traces)
    return 1 / float(value_range.max()) if value_range.max() > 0 else 0.0


class _WeightUpdateRun:
    """Rounds with one step size: the weights, the bound they prove, and the subspaces visited.

    Parameters
    ----------
    problem : Problem
    pieces : AffinePieces
        One affine function of the errors for each group: its loss, error or variance kept.
    eta : float
        Step size in units of 1 / variance.
    log_weights : (k,) array
        Logarithms of the initial weights of the pieces, up to a constant.

    Attributes
    ----------
    n_rounds : int
        Number of rounds so far.
    lower_bound : float
        Best dual value, proven by `bound_weights`, whose logarithms are `bound_log_weights`.
    best_value : float
        Best value of a subspace, `best_basis`, with errors `best_errors`.
    average_value : float
        Value of the average of all projectors; infinite unless extra dimensions are allowed.
    """

    def __init__(
        self, problem: Problem, pieces: AffinePieces, eta: float, log_weights: FloatArray
    ) -> None:
        """Prepare a run with step size `eta`, from logarithms of the initial piece weights."""
        self.problem = problem
        self.pieces = pieces
        self.eta = eta
        self.log_weights = log_weights
        # Sums over the rounds so far, for the average of their projectors and its errors.
        self.error_sum = np.zeros(problem.n_groups)
        self.projector_sum = np.zeros((problem.n_features, problem.n_features))
        self.n_rounds = 0
        # Best lower bound so far, best value of a subspace, and value of the average projector.
        self.lower_bound = -np.inf
        self.best_value = np.inf
        self.average_value = np.inf
        # Placeholders until the first round: group weights and logarithms of piece weights with the
        # best bound, errors and basis of the best subspace, and the basis of the last round.
        self.bound_weights = np.empty(0)
        self.bound_log_weights = np.empty(0)
        self.best_errors = np.empty(0)
        self.best_basis = np.empty(0)
        self.last_basis = np.empty(0)

    @property
    def upper_bound(self) -> float:
        """Best value so far."""
        return min(self.best_value, self.average_value)

    def solution(self) -> FloatArray:
        """Return a basis, (p, d), or a soft basis, (p, r), of the best solution.

        It is the average projector if extra dimensions are allowed (its value is infinite
        otherwise) and it is better. Otherwise a descent starts from its leading eigenvectors, from
        the last and from the best subspace.
        """
        values, vectors = np.linalg.eigh(self.projector_sum / self.n_rounds)
        average = soft_basis(values, vectors, self.problem.n_components)
        if self.average_value < self.best_value:
            return average
        return best_local_descent(self.problem, average, [self.last_basis, self.best_basis])

    def step(self) -> None:
        """Perform one round: solve for the current weights, record results, update the weights.

        The weighted sum of the pieces at the leading eigenvectors of the mixture is the smallest of
        any subspace, hence a lower bound (dual value) on the largest piece. Pieces with large
        values get a larger weight in the next round.
        """
        problem = self.problem
        pieces = self.pieces
        # Subtracting the largest avoids overflow.
        exponentials = np.exp(self.log_weights - self.log_weights.max())
        multipliers = pieces.blocks.normalize(exponentials)
        weights = multipliers @ pieces.coefficients
        self.last_basis = problem.second_moments.leading(weights, problem.n_components).vectors
        errors = problem.errors(self.last_basis)
        values = pieces.piece_values(errors)
        self.projector_sum += self.last_basis @ self.last_basis.T
        self.error_sum += errors
        dual_value = float(multipliers @ values)
        if dual_value > self.lower_bound:
            self.lower_bound = dual_value
            self.bound_weights = weights
            self.bound_log_weights = self.log_weights
        if values.max() < self.best_value:
            self.best_value = float(values.max())
            self.best_basis = self.last_basis
            self.best_errors = errors
        self.n_rounds += 1
        self.log_weights = self.log_weights + self.eta * values
        if problem.allow_extra:
            self.average_value = pieces.value(self.error_sum / self.n_rounds)
