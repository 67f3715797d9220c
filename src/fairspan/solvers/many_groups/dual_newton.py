"""Any number of groups: Newton's method on the dual for the bound, descent for the subspace.

For more than two groups some tables have no subspace of exactly d dimensions as good as the relaxed
optimum (Tantipongpipat et al. 2019; NP-hard to decide when the number of groups is part of the
input). So both sides are computed: the bound, by Newton's method on the dual, and the best
subspace, by descent. Their gap is reported; it is called optimal only if it is closed.

The descent finds multipliers too, which balance the pieces at its subspace and prove a bound. The
gap they leave is narrowed by the relaxation from below and by further descents from above.

Nash welfare is the product of the captured variances. Its bound: for weights w > 0 the inequality
of arithmetic and geometric means gives mean log c_g <= log(sum_g w_g c_g) - mean log w_g - log k,
and sum_g w_g c_g <= t_d(sum_g w_g S_g). With w_g = 1 / c_g it is tight wherever the subspace leads
its own mixture. If it does not, the relaxed problem is solved by the method of Frank and Wolfe,
whose gap this bound is.
"""

from dataclasses import dataclass
from typing import ClassVar, cast

import numpy as np

from fairspan.certificates.certificate import Certificate, Solver
from fairspan.certificates.optimality import certify
from fairspan.errors import Incompatible
from fairspan.problem.criteria import ErrorGap
from fairspan.problem.pieces import Pieces
from fairspan.problem.problem import Problem
from fairspan.solvers.exact_rank.descent import (
    LocalOptimum,
    Search,
    descend_from_each,
    scores_of,
    starts_around,
)
from fairspan.solvers.exact_rank.rank_reduction import SoftBasis, reduced_keeping
from fairspan.solvers.large.growing_subspace import GrowingSubspace, pays
from fairspan.solvers.many_groups.dual import Dual
from fairspan.solvers.many_groups.newton import PiecewiseSearch, Relaxation
from fairspan.solvers.programs import least_on_simplex
from fairspan.typing import FloatArray

_ROUNDS = 200
_NEWTON_STEPS = 30
# Changes of a mean logarithm below this are rounding.
_LEVEL = 1e-14
# Below this share of a group's variance the logarithm is too steep to walk along.
_NOTHING = 1e-6
_SMALLEST = 2.0**-40
# Of the robust error gap, beside the groups' own optima and the relaxed one.
_RANDOM_STARTS = 2


@dataclass(frozen=True)
class DualNewton(Solver):
    """Solver for every criterion but equal error and any number of groups, with a proven gap.

    Notes
    -----
    Piecewise linear criteria: the dual first, by Newton steps whose model holds the eigenvalues
    around the cut as a block (:mod:`fairspan.solvers.many_groups.newton`); then, if a gap remains,
    descents from its result. With `allow_extra` the relaxed solution itself is returned if exactly
    d components do not reach it, at d + floor(sqrt(2 k + 1/4) - 3/2) dimensions at most. The
    robust error gap takes the bound of the error gap; Nash welfare has a relaxation of its own,
    solved by the method of Frank and Wolfe.

    Examples
    --------
    >>> import numpy as np
    >>> from fairspan import DualNewton, FairPCA
    >>> X = np.array([[2.0, 0, 0], [-2, 0, 0], [0, 2, 0], [0, -2, 0], [0, 0, 2], [0, 0, -2]])
    >>> groups = ["a", "a", "b", "b", "c", "c"]
    >>> fair = FairPCA(1, solver=DualNewton()).fit(X, sensitive_features=groups)
    >>> fair.group_losses_.round(3), fair.solution_.status.value
    (array([2.667, 2.667, 2.667]), 'optimal')
    """

    name: ClassVar[str] = "dual_newton"

    def objection(self, problem: Problem) -> str | None:
        """Why it cannot take this problem; None if it can."""
        if problem.criterion.wants_equal_errors:
            return "equal errors are made for one or two groups alone, by 'boundary'"
        return None

    def solve(self, problem: Problem, tol: float, random_state: object = None) -> Certificate:
        """Find a subspace with a small objective, and a bound.

        Parameters
        ----------
        problem : Problem
        tol : float
            The gap to reach, as a share of the objective.
        random_state : object
            Not used: starts are taken from a fixed sequence.

        Returns
        -------
        Certificate

        Raises
        ------
        Incompatible
            NashWelfare where a group has no variance.
        """
        if pays(problem, tol):
            return GrowingSubspace(self).solve(problem, tol)
        return self.solve_dense(problem, tol)

    def solve_dense(self, problem: Problem, tol: float, random_state: object = None) -> Certificate:
        """Find it by eigenproblems of whole matrices, and not in a subspace that grows."""
        if problem.pieces is not None:
            search: PiecewiseSearch | NashSearch = PiecewiseSearch(problem, problem.pieces, tol)
        elif problem.criterion.is_logarithmic:
            search = NashSearch(problem, tol)
        else:
            return solve_robust(problem, tol, self.name)
        search.run()
        return search.solution(self.name)


def solve_robust(problem: Problem, tol: float, solver: str) -> Certificate:
    """The robust error gap of more than two groups: descents, and the error gap's dual as bound.

    The robust error gap is the largest over ordered pairs of sum_g h(v_g, e_g, eps_g), and the
    error gap with the same penalty is the largest of sum_g v_g e_g. Since h(v, e, eps) >= v e, no
    subspace has a robust error gap below its error gap, which is at least what the dual of the
    error gap proves. For v >= 0, v (sqrt(e) + sqrt(eps))^2 >= v e. For v < 0 and e >= eps,
    0 <= sqrt(e) - sqrt(eps) <= sqrt(e), so v (sqrt(e) - sqrt(eps))^2 >= v e. For v < 0 and e < eps,
    h = 0 >= v e. The bound lacks what the radii add, so the gap is usually open.
    """
    plain = cast(Pieces, ErrorGap(problem.robust.penalty).pieces(problem))
    relaxation = Relaxation(Dual(problem, plain))
    search = Search(problem, scores_of(problem), tol)
    first = problem.pooled_optimum.vectors
    search.descend_from(first)
    relaxation.run(search.tolerance / 2)
    search.proven = relaxation.lower
    search.n_steps += 1 + problem.n_groups + relaxation.dual.n_eigenproblems
    rng = np.random.default_rng(0)
    starts = [relaxation.relaxed.leading(problem.n_components), relaxation.nearest.basis]
    starts += [optimum.vectors for optimum in problem.group_optima]
    starts += [np.linalg.qr(rng.standard_normal(first.shape))[0] for _ in range(_RANDOM_STARTS)]
    for start in starts:
        if not search.closed:
            search.descend_from(start)
    assert search.best is not None
    return certify(
        problem,
        search.best.basis,
        relaxation.dual.weights(relaxation.multipliers),
        tol=tol,
        n_eigenproblems=search.n_eigenproblems,
        trace=search.trace,
        solver=solver,
    )


class NashSearch(Search):
    """Upper and lower bounds of minus the mean log of the captured variances."""

    def __init__(self, problem: Problem, tol: float) -> None:
        super().__init__(problem, scores_of(problem), tol)
        self.weights = np.empty(0)
        self.projector: FloatArray | None = None

    def run(self) -> None:
        """Descend; if the gap stays open, relax, and descend from there."""
        if self.problem.has_group_without_variance:
            where = "" if self.problem.unrestricted is None else " in the directions that are left"
            raise Incompatible(
                f"The criterion 'nash_welfare' received a group without variance{where}",
                "It is the product of the groups' captured variances: all must have some",
                "Leave that group out, or use 'minimax_loss'",
            )
        self.descend_from(self._start())
        if self.closed:
            return
        self.projector = self._relaxed()
        descend_from_each(self, starts_around(self.projector, self.problem.n_components))

    def _start(self) -> FloatArray:
        """Leading eigenvectors of all groups on equal terms, so that none starts with nothing.

        Where one does all the same, because groups vary along axes of their own, the logarithm has
        no slope, and a subspace nearby is taken.
        """
        second, d = self.problem.second_moments, self.problem.n_components
        basis = second.leading(1 / second.traces, d).vectors
        self.n_steps += 1
        if (second.captured_variances(basis) > _NOTHING * second.traces).all():
            return basis
        away = np.random.default_rng(0).standard_normal(basis.shape) / np.sqrt(len(basis))
        return np.linalg.qr(basis + away)[0]

    def solution(self, solver: str) -> Certificate:
        """The best subspace, or with `allow_extra` a soft projection if that is better."""
        assert self.best is not None
        basis = self.best.basis
        if self.projector is not None and not self.closed:
            soft = SoftBasis.of(self.projector, self.problem.n_components)
            # At the least rank: exactly d for two groups.
            soft = reduced_keeping(self.problem.second_moments, soft)
            whole = not len(soft.shares)
            if (self.problem.allow_extra or whole) and self.problem.value(soft.basis) < self.upper:
                basis = soft.basis
        return certify(
            self.problem,
            basis,
            self.weights,
            tol=self.share,
            n_eigenproblems=self.n_eigenproblems,
            trace=self.trace,
            solver=solver,
        )

    def improved(self, local: LocalOptimum) -> None:
        """Take the bound of its weights."""
        leading = self.problem.second_moments.leading(local.weights, self.problem.n_components)
        self._take_bound(local.weights, leading.top_eigenvalue_sum)

    def _take_bound(self, weights: FloatArray, total: float) -> None:
        self.n_steps += 1
        bound = float(np.log(weights).mean() + np.log(len(weights)) - np.log(total))
        if bound > self.lower:
            self.proven, self.weights = bound, weights

    def _relaxed(self) -> FloatArray:
        """P of the relaxed problem, shape (p, p), by Frank and Wolfe's method.

        It is the best mixture of projectors of the subspaces found on the way.
        """
        assert self.best is not None
        second, k = self.problem.second_moments, self.problem.n_groups
        bases, mixture = [self.best.basis], np.ones(1)
        for _ in range(_ROUNDS):
            values = np.array([second.captured_variances(each) for each in bases])
            unused = np.zeros(len(bases) - len(mixture))
            mixture = largest_product(values, np.append(mixture, unused))
            captured = mixture @ values
            weights = 1 / (k * captured)
            leading = second.leading(weights, self.problem.n_components)
            self._take_bound(weights, leading.top_eigenvalue_sum)
            if float(-np.log(captured).mean()) - self.lower <= self.share / 2:
                break
            bases.append(leading.vectors)
        stacked = np.hstack(
            [np.sqrt(share) * each for share, each in zip(mixture, bases, strict=False)]
        )
        return np.asarray(stacked @ stacked.T)


def largest_product(values: FloatArray, start: FloatArray) -> FloatArray:
    """The mixture of atoms with the largest mean log of captured variances, by Newton's method.

    Parameters
    ----------
    values : (J, k) array
        Captured variances of each atom; positive somewhere for every group.
    start : (J,) array
        On the simplex, with every mixed variance positive.

    Returns
    -------
    (J,) array
        On the simplex.
    """
    mixture, k = start, values.shape[1]
    for _ in range(_NEWTON_STEPS):
        captured = mixture @ values
        slope = -(values / captured).mean(axis=1)
        factor = values / captured / np.sqrt(k)
        linear = slope - factor @ (mixture @ factor)
        step = least_on_simplex(factor, linear, start=mixture) - mixture
        share = 1.0
        while share > _SMALLEST:
            moved = (mixture + share * step) @ values
            # The value stops rising at half the digits; the step still finds the others.
            if moved.min() > 0 and np.log(moved / captured).sum() >= -_LEVEL:
                break
            share /= 2
        else:
            break
        mixture = mixture + share * step
        # Where several mixtures are the best, steps between them go on.
        if np.abs(step @ values / captured).max() < _LEVEL:
            break
    return mixture
