"""A bank of problems whose optima are known in closed form, whatever the solver.

Each entry holds the least value of some criteria over subspaces of exactly d dimensions and, where
it is smaller, over the relaxation. All groups have equal shares.
"""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from fairspan import (
    Disparity,
    EqualError,
    ErrorGap,
    LeastVariance,
    MinimaxError,
    MinimaxLoss,
    NashWelfare,
    RobustErrorGap,
    TotalError,
)
from fairspan.extending import Criterion

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Entry:
    name: str
    matrices: FloatArray
    n_components: int
    optima: tuple[tuple[Criterion, float], ...]
    relaxed: dict[str, float] = field(default_factory=dict)


def lines(variances: list[float], n_components: int) -> Entry:
    """Return a problem of groups that vary along one axis each.

    By Schur and Horn, the shares s_g that a rank-d projector keeps of the axes are any numbers in
    [0, 1] that sum to d, and e_g = a_g (1 - s_g).
    """
    a = np.array(variances)
    d = n_components
    k = len(a)
    level = (k - d) / (1 / a).sum()  # all errors equal: s_g = 1 - level / a_g
    assert (level <= a).all()
    total = np.sort(a)[: k - d].sum() / k
    return Entry(
        f"{k} lines, d = {d}",
        np.array([v * np.diag(axis) for v, axis in zip(a, np.eye(k), strict=True)]),
        d,
        (
            (TotalError(), total),
            (MinimaxLoss(), level),
            (MinimaxError(), level),
            (MinimaxLoss(relative=True), (k - d) / k),
            (MinimaxError(relative=True), (k - d) / k),
            # All that is kept equal: s_g = kept / a_g.
            (LeastVariance(), -min(d / (1 / a).sum(), a.min())),
            *([(EqualError(), level)] if k == 2 else []),
            (ErrorGap(0.0), total),
            # Beyond this penalty no gap pays.
            (ErrorGap(2.0 * k), level),
            (NashWelfare(), -np.log(a * d / k).mean() if d < k else 0.0),
            (RobustErrorGap(0.0, 0.0), total),
        ),
    )


TIE = Entry(
    "a flat edge",
    np.array([np.diag([2.0, 1, 0.5]), np.diag([1.0, 2, 0.5])]),
    1,
    (
        (TotalError(), 2.0),
        (MinimaxLoss(), 0.5),
        (MinimaxError(), 2.0),
        (MinimaxLoss(relative=True), 1 / 7),
        (MinimaxError(relative=True), 4 / 7),
        (LeastVariance(), -1.5),
        (EqualError(), 2.0),
        (ErrorGap(0.5), 2.0),
        (ErrorGap(25.0), 2.0),
        (NashWelfare(), -np.log(1.5)),
        # Both errors are 2, both worst cases (sqrt 2 + sqrt r)^2 and, less so, (sqrt 2 - sqrt r)^2.
        (
            RobustErrorGap(1.0, {"group 0": 0.5, "group 1": 0.5}),
            1.5 * (2**0.5 + 0.5**0.5) ** 2 - 0.5 * (2**0.5 - 0.5**0.5) ** 2,
        ),
    ),
)

# Two lines of variance 3 and 1: the errors 3 s and 1 - s trade off along a straight line.
TWO_LINES = Entry(
    "two lines",
    np.array([np.diag([3.0, 0.0]), np.diag([0.0, 1.0])]),
    1,
    (
        (TotalError(), 0.5),
        (MinimaxLoss(), 0.75),
        (MinimaxError(), 0.75),
        (MinimaxLoss(relative=True), 0.5),
        (MinimaxError(relative=True), 0.5),
        (LeastVariance(), -0.75),
        (EqualError(), 0.75),
        (ErrorGap(0.1), 0.6),
        (ErrorGap(0.4), 0.75),
        (NashWelfare(), -(np.log(1.5) + np.log(0.5)) / 2),
        (Disparity(1.0, "group 1"), 0.5),
        # 0.5 (1 + 2 s) / 2 + 0.5 ((1 - s) - 3 s) falls in s.
        (Disparity(0.5, "group 1"), 0.5 * 1.5 - 0.5 * 3),
        (Disparity(0.0, "group 0"), -1.0),
        (RobustErrorGap(0.4, 0.0), 0.75),
    ),
)

# Section 9, counterexample 1: rank(S_1 - S_2) = 2 > d = 1, and yet equal errors are within reach.
RANK_TWO_DIFFERENCE = Entry(
    "a difference of rank two",
    np.array([np.diag([2.0, 1, 1]), np.diag([1.0, 2, 1])]),
    1,
    (
        (EqualError(), 2.5),
        (MinimaxError(), 2.5),
        (MinimaxLoss(), 0.5),
        (MinimaxError(relative=True), 2.5 / 4),
        (MinimaxLoss(relative=True), 0.5 / 4),
        (LeastVariance(), -1.5),
        (ErrorGap(9.0), 2.5),
    ),
)

# Tantipongpipat et al. (2019): max min_g <A_g, P> is 7/4 relaxed and 26/17 at rank one. Multiples
# of the identity make the traces equal: the least captured variance is that of the largest error.
INTEGRALITY_GAP = Entry(
    "an integrality gap",
    np.array([[[3.0, 1], [1, 2]], [[2.0, 1], [1, 3]], [[2.0, -1], [-1, 2]]]),
    1,
    ((MinimaxError(), 42 / 17),),
    {"minimax_error": 9 / 4},
)

# The same as they are: their least captured variance itself.
LEAST_VARIANCE_GAP = Entry(
    "an integrality gap of the least variance",
    INTEGRALITY_GAP.matrices - np.eye(2) * np.array([1, 1, 0])[:, None, None],
    1,
    ((LeastVariance(), -26 / 17),),
    {"least_variance": -7 / 4},
)

GROUP_WITHOUT_VARIANCE = Entry(
    "a group without variance",
    np.array([np.diag([3.0, 2, 1]), np.zeros((3, 3))]),
    2,
    (
        (TotalError(), 0.5),
        (MinimaxLoss(), 0.0),
        (MinimaxError(), 1.0),
        (LeastVariance(), 0.0),
        (ErrorGap(0.5), 1.0),
    ),
)

ALL_COMPONENTS = Entry(
    "as many components as features",
    np.array([[[2.0, 1], [1, 2]], [[1.0, 0], [0, 5]], [[1.0, 0.2], [0.2, 1]]]),
    2,
    (
        (TotalError(), 0.0),
        (MinimaxLoss(), 0.0),
        (MinimaxError(), 0.0),
        (MinimaxLoss(relative=True), 0.0),
        (MinimaxError(relative=True), 0.0),
        (LeastVariance(), -2.0),
        (ErrorGap(2.0), 0.0),
        (NashWelfare(), -np.log([4, 6, 2]).mean()),
        (RobustErrorGap(0.0, {"group 0": 1.0, "group 1": 1.0, "group 2": 4.0}), 2.0),
    ),
)

ALIKE = Entry(
    "groups that are alike",
    np.array([np.diag([4.0, 3, 2, 1])] * 3),
    2,
    (
        (TotalError(), 3.0),
        (MinimaxLoss(), 0.0),
        (MinimaxError(), 3.0),
        (MinimaxLoss(relative=True), 0.0),
        (MinimaxError(relative=True), 0.3),
        (LeastVariance(), -7.0),
        (ErrorGap(1.0), 3.0),
        (NashWelfare(), -np.log(7)),
    ),
)

BANK = (
    TIE,
    TWO_LINES,
    RANK_TWO_DIFFERENCE,
    GROUP_WITHOUT_VARIANCE,
    lines([3.0, 1.0], 1),
    lines([2.0, 3.0, 4.0], 1),
    lines([2.0, 2.5, 3.0, 3.5, 4.0], 2),
    lines([2.0] * 6, 4),
    INTEGRALITY_GAP,
    LEAST_VARIANCE_GAP,
    ALL_COMPONENTS,
    ALIKE,
)
