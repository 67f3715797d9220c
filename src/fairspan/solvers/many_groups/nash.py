"""Nash welfare of any number of groups: descents, and a relaxation by Frank and Wolfe's method.

Nash welfare is the product of the captured variances. Its bound: for weights w > 0 the inequality
of arithmetic and geometric means gives mean log c_g <= log(sum_g w_g c_g) - mean log w_g - log k,
and sum_g w_g c_g <= t_d(sum_g w_g S_g). With w_g = 1 / c_g it is tight wherever the subspace leads
its own mixture. If it does not, the relaxed problem is solved by the method of Frank and Wolfe,
whose gap this bound is.
"""

import numpy as np

from fairspan.errors import Incompatible
from fairspan.problem.problem import Problem
from fairspan.solvers.exact_rank.descent import Point, Scores
from fairspan.solvers.exact_rank.rank_reduction import SoftBasis, reduced_keeping
from fairspan.solvers.exact_rank.starts import Search, starts_around
from fairspan.solvers.programs import least_on_simplex
from fairspan.typing import FloatArray

_ROUNDS = 200
_NEWTON_STEPS = 30
# Changes of a mean logarithm below this are rounding.
_LEVEL = 1e-14
# Below this share of a group's variance the logarithm is too steep to walk along.
_NOTHING = 1e-6
_SMALLEST = 2.0**-40


class NashSearch(Search):
    """Upper and lower bounds of minus the mean log of the captured variances."""

    def __init__(self, problem: Problem, tol: float) -> None:
        super().__init__(problem, Scores.of(problem), tol)
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
        self.descend_from_each(starts_around(self.projector, self.problem.n_components))

    def _start(self) -> FloatArray:
        """Leading eigenvectors of all groups on equal terms, so that none starts with nothing.

        Where one does all the same, because groups vary along axes of their own, the logarithm has
        no slope, and a subspace nearby is taken.
        """
        second, d = self.problem.second_moments, self.problem.n_components
        basis = second.leading(1 / second.traces, d).vectors
        self.n_eigenproblems += 1
        if (second.captured_variances(basis) > _NOTHING * second.traces).all():
            return basis
        away = np.random.default_rng(0).standard_normal(basis.shape) / np.sqrt(len(basis))
        return np.linalg.qr(basis + away)[0]

    def basis(self) -> FloatArray:
        """The best subspace, or with `allow_extra` a soft projection if that is better."""
        assert self.best is not None
        if self.projector is not None and not self.closed:
            soft = SoftBasis.of(self.projector, self.problem.n_components)
            # At the least rank: exactly d for two groups.
            soft = reduced_keeping(self.problem.second_moments, soft)
            allowed = self.problem.allow_extra or not len(soft.shares)
            if allowed and self.problem.value(soft.basis) < self.upper:
                return soft.basis
        return self.best.basis

    def improved(self, local: Point) -> None:
        """Take the bound of its weights."""
        self._take_bound(self.problem.second_moments.captured_variances(local.basis))

    def _take_bound(self, captured: FloatArray) -> FloatArray:
        """Take the bound of w_g = 1 / (k c_g), and return what leads their mixture."""
        weights, d = 1 / (len(captured) * captured), self.problem.n_components
        leading = self.problem.second_moments.leading(weights, d)
        self.n_eigenproblems += 1
        bound = float(np.log(weights * len(weights)).mean() - np.log(leading.top_eigenvalue_sum))
        if bound > self.lower:
            self.lower, self.weights = bound, weights
        return leading.vectors

    def _relaxed(self) -> FloatArray:
        """P of the relaxed problem, shape (p, p), by Frank and Wolfe's method.

        It is the best mixture of projectors of the subspaces found on the way.
        """
        assert self.best is not None
        second = self.problem.second_moments
        bases, mixture = [self.best.basis], np.ones(1)
        for _ in range(_ROUNDS):
            values = np.array([second.captured_variances(each) for each in bases])
            unused = np.zeros(len(bases) - len(mixture))
            mixture = largest_product(values, np.append(mixture, unused))
            captured = mixture @ values
            leading = self._take_bound(captured)
            if float(-np.log(captured).mean()) - self.lower <= self.share / 2:
                break
            bases.append(leading)
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
