"""Vu et al. (2022): Riemannian subgradient descent for the (robust) error gap, and its measures.

Algorithm 1 is kept as the paper has it, as reference and baseline: constant steps, random starts,
and no bound of its own. Two things differ, and neither changes a subspace that it visits. It steps
on V (p x d) where the paper steps on the orthogonal complement U: the subspaces are the same for
both retractions, and few components are then far cheaper. And all starts advance together as one
stack. How smooth the objective is, and how nearly stationary a subspace, are the measures by which
the paper judges the descent, for any subspace whatever found it.
"""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from fairspan.certificates.optimality import certified
from fairspan.certificates.solution import Solution, TracePoint
from fairspan.problem.parameters import check_choice, check_count
from fairspan.problem.problem import Problem
from fairspan.progress import track
from fairspan.random_state import generator_of
from fairspan.solvers.many_groups.dual_newton import DualNewton
from fairspan.solvers.many_groups.simplex_program import least_on_simplex
from fairspan.solvers.published.retractions import RETRACTIONS, horizontal
from fairspan.solvers.two_groups.boundary_search import BoundarySearch
from fairspan.typing import FloatArray


@dataclass(frozen=True)
class RiemannianSubgradient:
    """Vu et al. (2022), Algorithm 1, for the error gap and the robust error gap.

    Parameters
    ----------
    max_iter : int, default=1000
        T. Every step has the length gamma = 1 / sqrt(T + 1), which has units of 1 / variance: the
        paper standardises the features.
    n_starts : int, default=20
        Random starting points.
    retraction : {"qr", "polar"}
        Both give the same subspaces.

    Raises
    ------
    InvalidParameter, InvalidType
        Fewer steps or starts than one, or another retraction.

    Notes
    -----
    With errors e, weights v of the active ordered pair of groups and radii eps, the step is V +
    gamma (I - VV')GV, G = sum_g (2 abs(v_g) sqrt(eps_g / e_g) + 2 v_g) S_g, and then back to
    orthonormal columns. For two groups this is the paper's gradient; for more, the other groups'
    terms v_g = q_g stay in it. The best visited subspace is returned, as measured by the criterion
    and not by the paper's equation (6), which may underestimate it. The lower bound comes from
    `solver="auto"`, which solves the problem once more. The paper's Lipschitz constant and its
    measure of stationarity are in :mod:`fairspan.solvers.published.riemannian`, for any subspace.

    Examples
    --------
    >>> import numpy as np
    >>> from fairspan import ErrorGap, FairPCA, RiemannianSubgradient
    >>> X = np.array([[3.0, 1, 0], [-3, -1, 0], [0, 2, 1], [0, -2, -1]])
    >>> groups = ["a", "a", "b", "b"]
    >>> solver = RiemannianSubgradient(max_iter=100, n_starts=2, retraction="polar")
    >>> fair = FairPCA(1, criterion=ErrorGap(0.3), solver=solver, random_state=0)
    >>> certificate = fair.fit(X, sensitive_features=groups).solution_
    >>> certificate.status.value, round(certificate.lower_bound, 3)
    ('open gap', 2.421)
    """

    max_iter: int = 1000
    n_starts: int = 20
    retraction: str = "qr"
    name: ClassVar[str] = "riemannian"

    def __post_init__(self) -> None:
        check_count("max_iter", self.max_iter)
        check_count("n_starts", self.n_starts)
        check_choice("retraction", self.retraction, tuple(RETRACTIONS))

    def objection(self, problem: Problem) -> str | None:
        """Why it cannot take this problem; None if it can."""
        if not hasattr(problem.criterion, "robust"):
            return "it takes 'error_gap' and 'robust_error_gap' only"
        return "it takes two groups or more" if problem.n_groups < 2 else None

    def solve(self, problem: Problem, tol: float, random_state: Any = None) -> Solution:
        """Descend from random starts.

        Parameters
        ----------
        problem : Problem
        tol : float
            A share of the objective; decides the status only.
        random_state : int, Generator, RandomState or None
            Source of the random starts. None is the seed 0: the same call gives the same answer.

        Returns
        -------
        Solution
            Its trace has one point for each start.
        """
        shape = (self.n_starts, problem.n_features, problem.n_components)
        starts = np.linalg.qr(
            generator_of(0 if random_state is None else random_state).standard_normal(shape)
        )[0]
        bases = self._descended(problem, starts)
        values = [problem.value(basis) for basis in bases]
        # A bound for all subspaces of d dimensions, whoever proves it.
        exact = BoundarySearch() if problem.n_groups == 2 else DualNewton()
        outside = exact.solve(replace(problem, allow_extra=False), tol)
        lower, count = outside.lower_bound, outside.n_eigenproblems
        assert outside.proof is not None
        return certified(
            problem,
            bases[int(np.argmin(values))],
            outside.proof,
            tol=tol,
            n_eigenproblems=count,
            trace=[TracePoint(count, lower, each) for each in np.minimum.accumulate(values)],
            solver=self.name,
        )

    def _descended(self, problem: Problem, bases: FloatArray) -> FloatArray:
        """The best basis on the way from each of the (n, p, d) starts, same shape."""
        second, scores = problem.second_moments, _PaperScores(problem)
        n, p, d = bases.shape
        gamma, retract = 1 / np.sqrt(self.max_iter + 1), RETRACTIONS[self.retraction]
        best, least = bases.copy(), np.full(n, np.inf)
        for step in track("descending", range(self.max_iter + 1)):
            side_by_side = bases.transpose(1, 0, 2).reshape(p, n * d)
            images = second.applied(side_by_side).reshape(-1, p, n, d)
            captured = np.einsum("npd,gpnd->gn", bases, images)
            errors = np.maximum(second.traces[:, None] - captured, scores.floor)
            values, active = scores.criterion_and_active(errors)
            better = values < least
            if better.any():
                best[better], least[better] = bases[better], values[better]
            if step < self.max_iter:
                ascent = np.einsum("gn,gpnd->npd", scores.doubled_slopes(errors, active), images)
                bases = retract(bases, gamma * horizontal(bases, ascent))
        return best


class _PaperScores:
    """Equation (6) of the paper for every ordered pair, at many errors (k, n) at once.

    F_i(e) = sum_g v_ig e_g + 2 |v_ig| sqrt(eps_g e_g) + v_ig eps_g: the criterion's score i, except
    where a group with v_ig < 0 has an error below its radius.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem, self.criterion = problem, problem.robust
        self.radii = self.criterion.radii(problem)[:, None]
        self.linear = self.criterion.pair_weights(problem)
        self.theta = 2 * np.abs(self.linear) * np.sqrt(self.radii.T)
        self.constant = self.linear @ self.radii
        self.floor = ROUNDING * problem.second_moments.traces[:, None]
        self.may_fall_short = bool((self.linear < 0).any() and self.radii.any())

    def criterion_and_active(self, errors: FloatArray) -> tuple[FloatArray, npt.NDArray[np.intp]]:
        """The criterion's value, and the pair that is largest in equation (6), each (n,)."""
        scores = self.linear @ errors + self.theta @ np.sqrt(errors) + self.constant
        active = scores.argmax(axis=0)
        if self.may_fall_short and (errors < self.radii).any():
            return self.criterion.scores(errors.T, self.problem).max(axis=-1), active
        return scores.max(axis=0), active

    def doubled_slopes(self, errors: FloatArray, active: npt.NDArray[np.intp]) -> FloatArray:
        """2 dF/de_g of the active pair, shape (k, n).

        Where an error is zero, zero replaces the infinite theta / sqrt(e): as a function of U,
        sqrt(e) = |S^(1/2) U| has it among its subgradients there.
        """
        inverse = np.where(errors > self.floor, 1 / np.sqrt(np.maximum(errors, 1e-300)), 0.0)
        return np.asarray(2 * self.linear[active].T + self.theta[active].T * inverse)


# An error below this share of the group's variance is rounding.
ROUNDING = 1e-14


def lipschitz_constant(problem: Problem) -> float:
    """L such that |F(U) - F(U')| <= L |U - U'| and |grad F(U)| <= L, Frobenius norms.

    Takes the place of equation (9) of Vu et al. (2022), which divides by the smallest eigenvalue of
    each S_g and so is infinite for a group of less than full rank.

    Parameters
    ----------
    problem : Problem
        With the criterion 'error_gap' or 'robust_error_gap'.

    Returns
    -------
    float
        L, in squared units of the features; for F of equation (6) as for the criterion.

    Notes
    -----
    A score is <C, UU'> + sum_g theta_g sqrt(e_g), C = sum_g v_g S_g, theta_g = 2 |v_g| sqrt(eps_g).
    sqrt(e_g) = |S_g^(1/2) U| changes by at most sqrt(max eig S_g) |U - U'|. UU' - U'U'' has trace
    zero and eigenvalues +- sin of the at most r = min(d, p - d) principal angles, so that C changes
    by at most (max eig C - min eig C) sqrt(r) |U - U'|. Together::

        L = max over pairs of  sum_g theta_g sqrt(max eig S_g) + sqrt(r) (max eig C - min eig C)

    Where a group with v_g < 0 has an error near its radius, the criterion weighs it by a share of
    v_g; the spread of C is convex in that share, hence largest at 0 or 1. Both are looked at.
    """
    second, criterion = problem.second_moments, problem.robust

    def largest(weights: FloatArray) -> float:
        return float(second.leading(weights, 1).eigenvalues[0])

    def spread(weights: FloatArray) -> float:
        return largest(weights) + largest(-weights)

    # Singular second moments may have a largest eigenvalue of minus rounding.
    roots = np.sqrt([max(largest(alone), 0.0) for alone in np.eye(problem.n_groups)])
    radii = np.sqrt(criterion.radii(problem))
    rank = min(problem.n_components, problem.n_features - problem.n_components)
    return max(
        float(2 * np.abs(v) @ (radii * roots))
        + float(np.sqrt(rank)) * max(spread(v), spread(np.maximum(v, 0.0)))
        for v in np.unique(criterion.pair_weights(problem), axis=0)
    )


def stationarity(problem: Problem, basis: FloatArray) -> float:
    """How far a subspace is from stationary: zero exactly where no direction leads downhill.

    Vu et al. (2022) measure gap_mu(U) = |prox_mu F(U) - U| / mu with mu = 1 / (4 L), a minimisation
    over all subspaces. This is the same with the scores made linear at V,
    X* = argmin over tangent X of max_i (F_i + <grad F_i, X>) + |X|^2 / (2 mu), and |X*| / mu. It is
    the gradient's length where one score is largest by far, and the length of the shortest
    subgradient where several are equal; unlike these it does not jump in between.

    Parameters
    ----------
    problem : Problem
        With the criterion 'error_gap' or 'robust_error_gap'.
    basis : (p, d) array
        Orthonormal columns.

    Returns
    -------
    float
        At most L of :func:`lipschitz_constant`, in squared units of the features.
    """
    steepest = lipschitz_constant(problem)
    if steepest == 0:
        return 0.0
    criterion, errors = problem.robust, problem.errors(basis)
    slopes = criterion.gradients(
        np.maximum(errors, ROUNDING * problem.second_moments.traces), problem
    )
    images = problem.second_moments.applied(basis)
    gradients = horizontal(basis, -2 * np.tensordot(slopes, images, axes=1))
    factor = gradients.reshape(len(gradients), -1) / np.sqrt(4 * steepest)
    # The dual of the problem above: weights of the scores.
    shares = least_on_simplex(factor, -criterion.scores(errors, problem))
    return float(np.linalg.norm(np.tensordot(shares, gradients, axes=1)))
