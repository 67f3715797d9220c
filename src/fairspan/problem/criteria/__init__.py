"""What a fair projection minimises: one small class for each criterion.

Symbols, as in Samadi et al. (2018): e_g(V) = tr S_g - tr(V'S_gV) is the average squared
reconstruction error of group g, e*_g the least error that any d-dimensional subspace has on g, and
l_g = e_g - e*_g >= 0 its excess loss. q_g is its share of the rows. All errors are in squared units
of the features.
"""

from fairspan.problem.criteria.error_gap import ErrorGap, RobustErrorGap
from fairspan.problem.criteria.linear import Disparity, EqualError, TotalError
from fairspan.problem.criteria.minimax import LeastVariance, MinimaxError, MinimaxLoss
from fairspan.problem.criteria.nash import NashWelfare
from fairspan.problem.problem import Criterion

__all__ = [
    "Criterion",
    "Disparity",
    "EqualError",
    "ErrorGap",
    "LeastVariance",
    "MinimaxError",
    "MinimaxLoss",
    "NashWelfare",
    "RobustErrorGap",
    "TotalError",
]
