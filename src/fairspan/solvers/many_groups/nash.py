"""Nash welfare of any number of groups: descents, and a relaxation by Frank and Wolfe's method.

Nash welfare is the product of the captured variances. Its bound: for weights w > 0 the inequality
of arithmetic and geometric means gives mean log c_g <= log(sum_g w_g c_g) - mean log w_g - log k,
and sum_g w_g c_g <= t_d(sum_g w_g S_g). With w_g = 1 / c_g it is tight wherever the subspace leads
its own mixture. If it does not, the relaxed problem is solved by the method of Frank and Wolfe,
whose gap this bound is.
"""

import numpy as np

from fairspan.errors import Incompatible
from fairspan.linalg import eigh
from fairspan.problem.pieces import Pieces
from fairspan.problem.problem import Problem
from fairspan.solvers.exact_rank.descent import Point
from fairspan.solvers.exact_rank.rank_reduction import reduced, soft_basis
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

    def __init__(self, problem: Problem, share: float) -> None:
        if problem.has_group_without_variance:
            where = "" if problem.unrestricted is None else " in the directions that are left"
            raise Incompatible(
                f"The criterion 'nash_welfare' received a group without variance{where}",
                "It is the product of the groups' captured variances: all must have some",
                "Leave that group out, or use 'minimax_loss'",
            )
        super().__init__(problem, share)

    def run(self) -> FloatArray:
        """Descend; if the gap stays open, relax, and descend from there: the best basis found."""
        second, d = self.problem.second_moments, self.problem.n_components
        # All groups on equal terms, so that none starts with nothing.
        start = second.leading(1 / second.traces, d).vectors
        self.n_eigenproblems += 1
        if (second.captured_variances(start) <= _NOTHING * second.traces).any():
            # Where groups vary along axes of their own the logarithm has no slope: nearby it has.
            away = np.random.default_rng(0).standard_normal(start.shape) / np.sqrt(len(start))
            start = np.linalg.qr(start + away)[0]
        self.descend_from(start)
        if self.closed:
            return self.best.basis
        soft = self._relaxed()
        self.descend_from_each(starts_around(soft, d))
        # At the least rank: exactly d for two groups. No group may lose anything.
        pieces = Pieces(np.eye(second.n_groups), second.residual_variances(soft))
        return self.best_or(reduced(second, pieces, soft))

    def improved(self, local: Point) -> None:
        """Take the bound of the weights that balance it."""
        self._leading(self.problem.second_moments.captured_variances(local.basis))

    def _leading(self, captured: FloatArray) -> FloatArray:
        """What leads the mixture with w_g = 1 / (k c_g), whose bound is taken."""
        weights, d = 1 / (len(captured) * captured), self.problem.n_components
        leading = self.problem.second_moments.leading(weights, d)
        self.n_eigenproblems += 1
        bound = float(np.log(weights * len(weights)).mean() - np.log(leading.top_eigenvalue_sum))
        self.prove(bound, weights)
        return leading.vectors

    def _relaxed(self) -> FloatArray:
        """The relaxed problem's solution, (p, r) columns, by Frank and Wolfe's method.

        It is the best mixture of projectors of the subspaces found on the way.
        """
        second, bases, mixture = self.problem.second_moments, [self.best.basis], np.ones(1)
        values = second.captured_variances(bases[0])[None]
        for _ in range(_ROUNDS):
            leading = self._leading(mixture @ values)
            if -float(np.log(mixture @ values).mean()) - self.lower <= self.share / 2:
                break
            bases.append(leading)
            values = np.vstack([values, second.captured_variances(leading)])
            mixture = largest_product(values, np.append(mixture, 0.0))
        stacked = np.hstack([np.sqrt(s) * each for s, each in zip(mixture, bases, strict=True)])
        return soft_basis(*eigh(stacked @ stacked.T), self.problem.n_components)


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
