"""Vu et al. (2022): Riemannian subgradient descent for the (robust) error gap.

Algorithm 1 is implemented as in the paper, for reference and comparison: constant steps, random
starts, no bound of its own. Two things differ without changing the subspaces visited. Steps are
taken on V (p x d) instead of the orthogonal complement U, which is equivalent for both retractions
and much cheaper for few components. All starts advance together as one stack.

A retraction R maps a point V and a tangent step X to the manifold {V : V'V = I_d} such that R(V, 0)
= V and R(V, tX) = V + tX + O(t^2); see Absil, Mahony & Sepulchre (2008), section 4.1. The tangent
space at V is {X : V'X + X'V = 0}. Steps along the Grassmannian satisfy V'X = 0; both retractions
then span the same subspace, that of V + X, and differ in the basis only. They accept stacks:
leading axes hold independent points.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, cast

import numpy as np
import numpy.typing as npt

from fairspan.certificates.certificate import Certificate
from fairspan.certificates.certificate_parts import TracePoint
from fairspan.certificates.evaluate_solution import certify
from fairspan.certificates.proofs import Proof
from fairspan.linalg.rounding import FIGURE_ROUNDING
from fairspan.parameters import check_choice, check_integer
from fairspan.problem.criteria.error_gap import ErrorGap
from fairspan.problem.problem import Problem
from fairspan.progress import track
from fairspan.random_state import as_generator
from fairspan.solvers.auto import solve_exactly
from fairspan.solvers.solver import Solver
from fairspan.typing import FloatArray, RandomSource

# Smaller errors are replaced before a division by their root, whose result is not used then.
_MIN_DIVIDED_ERROR = 1e-300


@dataclass(frozen=True)
class RiemannianSubgradient(Solver):
    """Vu et al. (2022), Algorithm 1, for the error gap and the robust error gap.

    Parameters
    ----------
    max_iter : int, default=1000
        T. Every step has length gamma = 1 / sqrt(T + 1), in units of 1 / variance: the paper
        standardizes the features.
    n_starts : int, default=20
        Number of random starting points.
    retraction : {"qr", "polar"}
        Both yield the same subspaces.
    return_iterate : {"best", "last"}
        Which iterate of each start to return: the best one visited, or the last one, as in the
        paper, which can be far worse.

    Raises
    ------
    InvalidParameter, InvalidType
        `max_iter` or `n_starts` is less than one, or another value is unknown.

    With errors e, weights v of the active ordered pair of groups and radii eps, the step is V +
    gamma (I - VV')GV, G = sum_g (2 abs(v_g) sqrt(eps_g / e_g) + 2 v_g) S_g, followed by a
    retraction. For two groups this is the gradient of the paper; for more, the terms v_g = q_g of
    the other groups are included. Subspaces are compared by the criterion, not by equation (6) of
    the paper, which may underestimate it. The lower bound comes from `solver="auto"`, which solves
    the problem in addition.

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
    return_iterate: str = "best"
    name: ClassVar[str] = "riemannian"

    def __post_init__(self) -> None:
        check_integer("max_iter", self.max_iter)
        check_integer("n_starts", self.n_starts)
        check_choice("retraction", self.retraction, tuple(RETRACTIONS))
        check_choice("return_iterate", self.return_iterate, ("best", "last"))

    def unsupported_reason(self, problem: Problem) -> str | None:
        """Reason why the solver does not support a problem; None if it does."""
        if not isinstance(problem.criterion, ErrorGap):
            return "it supports 'error_gap' and 'robust_error_gap' only"
        return "it needs at least two groups" if problem.n_groups < 2 else None

    def solve(self, problem: Problem, tol: float, random_state: RandomSource = None) -> Certificate:
        """Descend from random starting points.

        Parameters
        ----------
        problem : Problem
        tol : float
            Relative gap; only used to decide the status.
        random_state : int, Generator, RandomState or None
            Source of the random starts. None means seed 0, so that results are reproducible.

        Returns
        -------
        Certificate
            Its trace has one point per start.
        """
        shape = (self.n_starts, problem.n_features, problem.n_components)
        rng = as_generator(0 if random_state is None else random_state)
        starts = np.linalg.qr(rng.standard_normal(shape))[0]
        bases = self._descend(problem, starts)
        values = [problem.objective(basis) for basis in bases]
        # The method has no bound of its own: an exact solver gives one. The descents yield
        # subspaces of d dimensions, so it solves for these even if the problem allows extra ones.
        reference = solve_exactly(replace(problem, allow_extra=False), tol)
        lower_bound = reference.lower_bound
        n_eigenproblems = reference.n_eigenproblems
        # The descents solve no eigenproblems, so their number is that of the bound throughout.
        trace = [
            TracePoint(n_eigenproblems, lower_bound, upper_bound)
            for upper_bound in np.minimum.accumulate(values)
        ]
        return certify(
            problem,
            bases[int(np.argmin(values))],
            cast(Proof, reference.proof),
            tol=tol,
            n_eigenproblems=n_eigenproblems,
            trace=trace,
            solver=self.name,
        )

    def _descend(self, problem: Problem, bases: FloatArray) -> FloatArray:
        """Best or last iterate of each of the (n, p, d) starts, same shape.

        All starts take `max_iter` subgradient steps of constant length together; the best iterate
        of a start is the one with the smallest value of the criterion. The criterion is the largest
        score of all ordered pairs of groups; the pair that attains it is the active one, and the
        subgradient is the gradient of its score as Vu et al. (2022) print it.
        """
        second_moments = problem.second_moments
        scores = _PaperScores(problem)
        n, p, d = bases.shape
        gamma = 1 / np.sqrt(self.max_iter + 1)
        retract = RETRACTIONS[self.retraction]
        best = bases.copy()
        best_values = np.full(n, np.inf)
        for step in track("descending", range(self.max_iter + 1)):
            # The axes of bases are (start, feature, component); of images (group, feature, start,
            # component).
            columns = bases.transpose(1, 0, 2).reshape(p, n * d)
            images = second_moments.apply(columns).reshape(-1, p, n, d)
            captured = np.einsum("npd,gpnd->gn", bases, images)
            # Shape (k, n); kept positive, since the gradient divides by their roots.
            errors = np.maximum(second_moments.traces[:, None] - captured, scores.min_errors)
            values, active = scores.values_and_active_pairs(errors)
            improved = values < best_values
            if improved.any():
                best[improved] = bases[improved]
                best_values[improved] = values[improved]
            if step < self.max_iter:
                # A larger captured variance lowers the error: GV = sum_g 2 dF/de_g S_gV ascends in
                # the former and descends in the score F.
                gradients = scores.doubled_gradients(errors, active)
                ascent = np.einsum("gn,gpnd->npd", gradients, images)
                bases = retract(bases, gamma * horizontal_projection(bases, ascent))
        return best if self.return_iterate == "best" else bases


class _PaperScores:
    """Equation (6) of Vu et al. (2022) for every ordered pair, vectorized over the (k, n) errors.

    F_i(e) = sum_g v_ig e_g + 2 |v_ig| sqrt(eps_g e_g) + v_ig eps_g for pair i, with weights v_ig
    and radii eps_g of the groups. It equals score i of the criterion, except where a group with
    v_ig < 0 has an error below its radius.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.criterion = cast(ErrorGap, problem.criterion)
        self.radii = self.criterion.radii(problem)[:, None]
        self.linear = self.criterion.pair_weights(problem)
        self.root_coefficients = 2 * np.abs(self.linear) * np.sqrt(self.radii.T)
        self.constant = self.linear @ self.radii
        self.min_errors = FIGURE_ROUNDING * problem.second_moments.traces[:, None]

    def values_and_active_pairs(
        self, errors: FloatArray
    ) -> tuple[FloatArray, npt.NDArray[np.intp]]:
        """Values of the criterion, (n,), and indices of the maximal pairs in equation (6), (n,)."""
        scores = self.linear @ errors + self.root_coefficients @ np.sqrt(errors) + self.constant
        values = self.criterion.scores(errors.T, self.problem).max(axis=-1)
        return values, scores.argmax(axis=0)

    def doubled_gradients(self, errors: FloatArray, active: npt.NDArray[np.intp]) -> FloatArray:
        """Twice the gradient of the active pair of each subspace, 2 dF/de_g, shape (k, n).

        `errors` is (k, n), and `active` holds the (n,) indices of the pairs. Where an error is
        zero, zero replaces the infinite term in 1 / sqrt(e): it is a subgradient of sqrt(e) =
        |S^(1/2) U| as a function of U.
        """
        is_positive = errors > self.min_errors
        inverse_roots = 1 / np.sqrt(np.maximum(errors, _MIN_DIVIDED_ERROR))
        inverse_roots = np.where(is_positive, inverse_roots, 0.0)
        linear_part = 2 * self.linear[active].T
        return np.asarray(linear_part + self.root_coefficients[active].T * inverse_roots)


Retraction = Callable[[FloatArray, FloatArray], FloatArray]


def horizontal_projection(basis: FloatArray, directions: FloatArray) -> FloatArray:
    """Part of a direction that changes the subspace and not just its basis, (I - VV')X.

    Parameters
    ----------
    basis : (..., p, d) array
        Orthonormal columns V.
    directions : (..., p, d) array
        X.

    Returns
    -------
    (..., p, d) array
        Tangent at V and orthogonal to V.
    """
    return np.asarray(directions - basis @ (np.swapaxes(basis, -1, -2) @ directions))


def qr_retraction(basis: FloatArray, step: FloatArray) -> FloatArray:
    """QR retraction: the orthonormal factor of V + X, with a positive diagonal of R.

    Parameters
    ----------
    basis : (..., p, d) array
        Orthonormal columns V.
    step : (..., p, d) array
        Tangent X.

    Returns
    -------
    (..., p, d) array

    Examples
    --------
    >>> qr_retraction(np.array([[1.0], [0.0]]), np.array([[0.0], [1.0]])).round(4)
    array([[0.7071],
           [0.7071]])
    """
    factor, triangle = np.linalg.qr(basis + step)
    # LAPACK's diagonal may be negative, which would map V to -V for a zero step.
    diagonal = np.diagonal(triangle, axis1=-2, axis2=-1)
    return np.asarray(factor * np.where(diagonal < 0, -1.0, 1.0)[..., None, :])


def polar_retraction(basis: FloatArray, step: FloatArray) -> FloatArray:
    """Polar retraction (V + X)(I + X'X)^(-1/2): the orthonormal matrix closest to V + X.

    Parameters
    ----------
    basis : (..., p, d) array
        Orthonormal columns V.
    step : (..., p, d) array
        Tangent X.

    Returns
    -------
    (..., p, d) array

    Computed by a singular value decomposition of V + X: squaring X would lose half of the digits
    after a long step.

    Examples
    --------
    >>> polar_retraction(np.array([[1.0], [0.0]]), np.array([[0.0], [1.0]])).round(4)
    array([[0.7071],
           [0.7071]])
    """
    left, _, right = np.linalg.svd(basis + step, full_matrices=False)
    return np.asarray(left @ right)


RETRACTIONS: dict[str, Retraction] = {"qr": qr_retraction, "polar": polar_retraction}
