"""Nash social welfare, of which the logarithm is concave in the variances that groups keep."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fairspan.problem.pieces import KY_FAN, Formula
from fairspan.problem.problem import Criterion, Problem
from fairspan.typing import FloatArray

_EPSILON, _TINY = float(np.finfo(np.float64).eps), float(np.finfo(np.float64).tiny)


@dataclass(frozen=True)
class NashWelfare(Criterion):
    """Nash social welfare of the captured variances: Tantipongpipat et al. (2019).

    Minimises minus the mean of log c_g, c_g = tr S_g - e_g the variance of group g that is kept:
    the product of the c_g is largest. The units of the features add a constant only.

    Examples
    --------
    >>> import numpy as np
    >>> from fairspan import FairPCA, NashWelfare
    >>> X = np.array([[3.0, 0, 0], [-3, 0, 0], [0, 2, 0], [0, -2, 0], [0, 0, 2], [0, 0, -2]])
    >>> groups = ["a", "a", "b", "b", "b", "b"]
    >>> fair = FairPCA(1, criterion=NashWelfare()).fit(X, sensitive_features=groups)
    >>> fair.group_errors_.round(3)
    array([4.5, 3. ])
    >>> fair.group_explained_variance_ratio_.sum(axis=1).round(3)
    array([0.5 , 0.25])
    """

    name: ClassVar[str] = "nash_welfare"
    sentence: ClassVar[str] = (
        "This criterion maximises the product of the variances that the groups keep."
    )
    formula: ClassVar[Formula] = Formula(
        "minus the mean logarithm of the variances that the groups keep.",
        "-float(np.log(traces - errors).mean())",
        KY_FAN + "So no subspace has a weighted sum of kept variances c_g above tr M - L(M), and "
        "of all variances with that sum those have the largest product whose w_g c_g are equal.",
        "float(np.log(weights * len(weights)).mean())\n"
        "lower_bound -= float(np.log(np.trace(mixture) - least_left(mixture)))",
    )
    is_logarithmic: ClassVar[bool] = True
    counts_kept_variance: ClassVar[bool] = True

    def pieces(self, problem: Problem) -> None:
        """None: the logarithm is not piecewise linear."""

    def value(self, errors: FloatArray, problem: Problem) -> float:
        """-(1 / k) sum_g log(tr S_g - e_g); infinite if no variance of a group is kept."""
        kept = problem.second_moments.traces - errors
        return float(self.scores(errors, problem)[0]) if (kept > 0).all() else np.inf

    def scores(self, errors: FloatArray, problem: Problem) -> FloatArray:
        """The value as the largest of one smooth function, shape (1,)."""
        return np.array([-np.log(self._kept(errors, problem)).mean()])

    def gradients(self, errors: FloatArray, problem: Problem) -> FloatArray:
        """Its derivative in the (k,) errors, shape (1, k)."""
        return (1 / (len(errors) * self._kept(errors, problem)))[None, :]

    def _kept(self, errors: FloatArray, problem: Problem) -> FloatArray:
        """c_g; if no variance is kept, the smallest positive value that float64 resolves."""
        traces = problem.second_moments.traces
        return np.maximum(traces - errors, _EPSILON * traces)

    def dual_weights(self, weights: FloatArray, problem: Problem) -> FloatArray:
        """Positive ones: mean log c_g <= log(w.c) - mean log w_g - log k, and w.c <= t_d(M)."""
        least = _EPSILON * float(weights.max())
        return np.maximum(weights, least) if least > 0 else 1 / problem.second_moments.traces

    def bound(self, least: float, weights: FloatArray, problem: Problem) -> float:
        """mean log(k w_g) - log(tr M - L(M))."""
        most = max(float(weights @ problem.second_moments.traces) - least, _TINY)
        return float(np.log(problem.n_groups * weights).mean() - np.log(most))

    def scale(self, errors: FloatArray, problem: Problem) -> float:
        """1: a difference of logarithms is relative by itself."""
        return 1.0

    def rounding(self, roundings: FloatArray, errors: FloatArray, problem: Problem) -> float:
        """The logarithm is steep where little is kept."""
        kept = np.maximum(problem.second_moments.traces - errors, _TINY)
        share = 2 * problem.n_features * _EPSILON
        return share + float((problem.variance_roundings / kept).mean())
