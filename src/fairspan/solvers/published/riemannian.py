"""Vu et al. (2022): Riemannian subgradient descent for the (robust) error gap.

Algorithm 1 is kept as the paper has it, as reference and baseline: constant steps, random starts,
and no bound of its own. Two things differ, and neither changes a subspace that it visits. It steps
on V (p x d) where the paper steps on the orthogonal complement U: the subspaces are the same for
both retractions, and few components are then far cheaper. And all starts advance together as one
stack.

A retraction R maps a point V and a tangent step X to the manifold {V : V'V = I_d} such that
R(V, 0) = V and R(V, tX) = V + tX + O(t^2); see Absil, Mahony & Sepulchre (2008), section 4.1. The
tangent space at V is {X : V'X + X'V = 0}. Steps along the Grassmannian have V'X = 0, and there both
retractions span the same subspace, that of V + X: they differ in the basis only. They take stacks:
any leading axes hold independent points.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, cast

import numpy as np
import numpy.typing as npt

from fairspan.certificates.certificate import Certificate, Solver, TracePoint, certify
from fairspan.certificates.proofs import Proof
from fairspan.problem.criteria import ErrorGap
from fairspan.problem.problem import Problem
from fairspan.progress import track
from fairspan.random_state import as_generator
from fairspan.registry import check_choice, check_integer
from fairspan.solvers.solve import AutoSolver
from fairspan.typing import FloatArray


@dataclass(frozen=True)
class RiemannianSubgradient(Solver):
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
    returned : {"best", "last"}
        Which subspace on the way from each start is returned: the best one visited, or the last
        one, as the paper has it. The last one may be far worse.

    Raises
    ------
    InvalidParameter, InvalidType
        Fewer steps or starts than one, or another retraction or choice.

    Notes
    -----
    With errors e, weights v of the active ordered pair of groups and radii eps, the step is V +
    gamma (I - VV')GV, G = sum_g (2 abs(v_g) sqrt(eps_g / e_g) + 2 v_g) S_g, and then back to
    orthonormal columns. For two groups this is the paper's gradient; for more, the other groups'
    terms v_g = q_g stay in it. Subspaces are compared by the criterion
    and not by the paper's equation (6), which may underestimate it. The lower bound comes from
    `solver="auto"`, which solves the problem once more.

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
        check_choice("returned", self.return_iterate, ("best", "last"))

    def unsupported_reason(self, problem: Problem) -> str | None:
        """Why it cannot take this problem; None if it can."""
        if not isinstance(problem.criterion, ErrorGap):
            return "it takes 'error_gap' and 'robust_error_gap' only"
        return "it takes two groups or more" if problem.n_groups < 2 else None

    def solve(self, problem: Problem, tol: float, random_state: Any = None) -> Certificate:
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
        Certificate
            Its trace has one point for each start.
        """
        shape = (self.n_starts, problem.n_features, problem.n_components)
        starts = np.linalg.qr(
            as_generator(0 if random_state is None else random_state).standard_normal(shape)
        )[0]
        bases = self._descend(problem, starts)
        values = list(map(problem.objective, bases))
        # A bound for all subspaces of d dimensions, whoever proves it.
        reference = AutoSolver().solve(replace(problem, allow_extra=False), tol)
        lower_bound, n_eigenproblems = reference.lower_bound, reference.n_eigenproblems
        return certify(
            problem,
            bases[int(np.argmin(values))],
            cast(Proof, reference.proof),
            tol=tol,
            n_eigenproblems=n_eigenproblems,
            trace=[
                TracePoint(n_eigenproblems, lower_bound, each)
                for each in np.minimum.accumulate(values)
            ],
            solver=self.name,
        )

    def _descend(self, problem: Problem, bases: FloatArray) -> FloatArray:
        """The best or last basis on the way from each of the (n, p, d) starts, same shape."""
        second_moments, scores = problem.second_moments, _PaperScores(problem)
        n, p, d = bases.shape
        gamma, retract = 1 / np.sqrt(self.max_iter + 1), RETRACTIONS[self.retraction]
        best, best_values = bases.copy(), np.full(n, np.inf)
        for step in track("descending", range(self.max_iter + 1)):
            images = second_moments.apply(bases.transpose(1, 0, 2).reshape(p, n * d)).reshape(
                -1, p, n, d
            )
            captured = np.einsum("npd,gpnd->gn", bases, images)
            errors = np.maximum(second_moments.traces[:, None] - captured, scores.min_errors)
            values, active = scores.values_and_active_pairs(errors)
            improved = values < best_values
            if improved.any():
                best[improved], best_values[improved] = bases[improved], values[improved]
            if step < self.max_iter:
                ascent = np.einsum("gn,gpnd->npd", scores.doubled_gradients(errors, active), images)
                bases = retract(bases, gamma * horizontal_projection(bases, ascent))
        return best if self.return_iterate == "best" else bases


class _PaperScores:
    """Equation (6) of the paper for every ordered pair, at many errors (k, n) at once.

    F_i(e) = sum_g v_ig e_g + 2 |v_ig| sqrt(eps_g e_g) + v_ig eps_g: the criterion's score i, except
    where a group with v_ig < 0 has an error below its radius.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem, self.criterion = problem, cast(ErrorGap, problem.criterion)
        self.radii = self.criterion.radii(problem)[:, None]
        self.linear = self.criterion.pair_weights(problem)
        self.root_coefficients = 2 * np.abs(self.linear) * np.sqrt(self.radii.T)
        self.constant = self.linear @ self.radii
        self.min_errors = _ERROR_ROUNDING * problem.second_moments.traces[:, None]

    def values_and_active_pairs(
        self, errors: FloatArray
    ) -> tuple[FloatArray, npt.NDArray[np.intp]]:
        """The criterion's value, and the pair that is largest in equation (6), each (n,)."""
        scores = self.linear @ errors + self.root_coefficients @ np.sqrt(errors) + self.constant
        return self.criterion.scores(errors.T, self.problem).max(axis=-1), scores.argmax(axis=0)

    def doubled_gradients(self, errors: FloatArray, active: npt.NDArray[np.intp]) -> FloatArray:
        """2 dF/de_g of the active pair, shape (k, n).

        Where an error is zero, zero replaces the infinite theta / sqrt(e): as a function of U,
        sqrt(e) = |S^(1/2) U| has it among its subgradients there.
        """
        inverse = np.where(errors > self.min_errors, 1 / np.sqrt(np.maximum(errors, 1e-300)), 0.0)
        return np.asarray(2 * self.linear[active].T + self.root_coefficients[active].T * inverse)


# An error below this share of the group's variance is rounding.
_ERROR_ROUNDING = 1e-14

Retraction = Callable[[FloatArray, FloatArray], FloatArray]


def horizontal_projection(basis: FloatArray, directions: FloatArray) -> FloatArray:
    """(I - VV')X: the part of a direction that turns the subspace, not its basis.

    Parameters
    ----------
    basis : (..., p, d) array
        Orthonormal columns V.
    directions : (..., p, d) array
        X.

    Returns
    -------
    (..., p, d) array
        Tangent at V, and orthogonal to it.
    """
    return np.asarray(directions - basis @ (np.swapaxes(basis, -1, -2) @ directions))


def qr_retraction(basis: FloatArray, step: FloatArray) -> FloatArray:
    """The orthonormal factor of V + X, whose triangular factor has a positive diagonal.

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
    # LAPACK's diagonal may be negative, which would turn V into -V at a step of zero.
    diagonal = np.diagonal(triangle, axis1=-2, axis2=-1)
    return np.asarray(factor * np.where(diagonal < 0, -1.0, 1.0)[..., None, :])


def polar_retraction(basis: FloatArray, step: FloatArray) -> FloatArray:
    """(V + X)(I + X'X)^(-1/2): the orthonormal matrix closest to V + X.

    Parameters
    ----------
    basis : (..., p, d) array
        Orthonormal columns V.
    step : (..., p, d) array
        Tangent X.

    Returns
    -------
    (..., p, d) array

    Notes
    -----
    Through the singular value decomposition of V + X: squaring X first would cost half of the
    digits after a long step.

    Examples
    --------
    >>> polar_retraction(np.array([[1.0], [0.0]]), np.array([[0.0], [1.0]])).round(4)
    array([[0.7071],
           [0.7071]])
    """
    left, _, right = np.linalg.svd(basis + step, full_matrices=False)
    return np.asarray(left @ right)


RETRACTIONS: dict[str, Retraction] = {"qr": qr_retraction, "polar": polar_retraction}
