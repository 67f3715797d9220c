"""The worked example of the notes on fair PCA: six rows in the plane, one dimension kept.

Group A is (2, 0), (3, 0), (4, 0); group B is (0, 1), (0, 2), (0, 3); nothing is centered. Ordinary
PCA keeps the first axis, so A is reconstructed exactly and B not at all. Theorem 1 of the notes
trades total error against the gap e_B - e_A by one eigenproblem.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import scipy.optimize

from fairspan.displays.style import BLUE, FOREGROUND, GREEN, MUTED, VERMILION
from fairspan.estimator.fit import fit_moments
from fairspan.estimator.fit_settings import FitSettings
from fairspan.moments.group_moments import GroupMoments
from fairspan.problem.criteria.criterion import Criterion
from fairspan.problem.criteria.linear import Disparity
from reproduction.comparison import relative_difference
from reproduction.experiment import Cell, Result, Setting

if TYPE_CHECKING:
    from matplotlib.figure import Figure

A = ((2.0, 0.0), (3.0, 0.0), (4.0, 0.0))
B = ((0.0, 1.0), (0.0, 2.0), (0.0, 3.0))
_COLUMNS = ("step", "quantity", "ours", "expected", "from", "relative difference")
# The sweep, denser where the disparity flips.
_SWEEP = (0.0, 0.25, 0.5, 0.75, 0.8, 0.84, 0.85, 0.855, 0.86, 0.9, 0.95, 1.0)
_PRINTED, _BY_HAND = "notes", "by hand"
_COLORS = (BLUE, VERMILION, FOREGROUND)


class NotesExample:
    """The toy, step by step, with the trade-off sweep and where its disparity flips sign."""

    name = "notes-example"
    title = "A toy of six rows, step by step, and the trade-off sweep"
    source = "The notes on fair PCA: worked example and Theorem 1"
    files = ()

    def run(self, setting: Setting) -> Result:
        """Compute it; the steps are too short to keep."""
        moments = GroupMoments.from_rows(np.array(A + B), ["A"] * 3 + ["B"] * 3)
        flip = find_flip(moments)
        return Result(
            self.title,
            _COLUMNS,
            [*_first_steps(moments), *_sweep_rows(moments), *_flip_rows(moments, flip)],
            (
                "S_A = diag(29/3, 0) and S_B = diag(0, 14/3) about the origin. Ordinary PCA keeps "
                "the first axis: errors 0 and 14/3 = 4.67.",
                "The sweep minimizes t * total error + (1 - t) * (e_B - e_A). Below the flip it "
                "keeps the second axis, above it the first: the disparity jumps from -29/3 to "
                "14/3 and is never zero, since the objective values the signed gap.",
                f"The flip, by bisection on the sign, is at t = {flip:.6f}; by hand at 86/101.",
                "Exactly equal errors need the criterion equal_error: there the direction is "
                "(a, b) with 29/3 (1 - a^2) = 14/3 (1 - b^2).",
            ),
            lambda figure: _draw(figure, moments, flip),
        )


NOTES_EXAMPLE = NotesExample()


def errors_of(moments: GroupMoments, criterion: str | Criterion) -> tuple[float, float]:
    """Return errors of A and B about the origin in one dimension, fitted by a criterion."""
    fit = fit_moments(moments, FitSettings.parse(1, criterion, center="none"))
    e_a, e_b = fit.certificate.errors.tolist()
    return e_a, e_b


def disparity_at(moments: GroupMoments, trade_off: float) -> float:
    """e_B - e_A at a trade-off."""
    e_a, e_b = errors_of(moments, Disparity(trade_off=trade_off, protected="B"))
    return e_b - e_a


def find_flip(moments: GroupMoments) -> float:
    """Return the trade-off at which the disparity changes sign."""
    flip = scipy.optimize.bisect(lambda t: disparity_at(moments, t), 0.0, 1.0, xtol=1e-12)
    return float(flip)


def _row(
    step: str, quantity: str, ours: float, expected: float | None = None, by: str = _BY_HAND
) -> tuple[Cell, ...]:
    source = None if expected is None else by
    return step, quantity, ours, expected, source, relative_difference(ours, expected)


def _first_steps(moments: GroupMoments) -> list[tuple[Cell, ...]]:
    s_a, s_b = moments.second_moments("none")
    e_a, e_b = errors_of(moments, "total_error")
    pooled = np.linalg.eigvalsh((s_a + s_b) / 2)[::-1]
    return [
        _row("1 second moments", "S_A[1, 1]", float(s_a[0, 0]), 29 / 3),
        _row("1 second moments", "S_B[2, 2]", float(s_b[1, 1]), 14 / 3),
        _row("2 ordinary PCA", "largest eigenvalue", float(pooled[0]), 29 / 6),
        _row("2 ordinary PCA", "other eigenvalue", float(pooled[1]), 14 / 6),
        _row("2 ordinary PCA", "error of A", e_a, 0.0, _PRINTED),
        _row("2 ordinary PCA", "error of B", e_b, 4.67, _PRINTED),
        _row("2 ordinary PCA", "disparity", e_b - e_a, 4.67, _PRINTED),
    ]


def _sweep_rows(moments: GroupMoments) -> list[tuple[Cell, ...]]:
    return [
        _row(
            "3 trade-off sweep",
            f"disparity at t = {t:.4g}",
            disparity_at(moments, t),
            14 / 3 if t > 86 / 101 else -29 / 3,
        )
        for t in _SWEEP
    ]


def _flip_rows(moments: GroupMoments, flip: float) -> list[tuple[Cell, ...]]:
    equal_a, equal_b = errors_of(moments, "equal_error")
    fair_a, fair_b = errors_of(moments, "minimax_loss")
    # With a^2 + b^2 = 1, 29/3 (1 - a^2) = 14/3 a^2, both errors are (29/3)(14/3) / (43/3).
    both = (29 / 3) * (14 / 3) / (43 / 3)
    return [
        _row("4 sign flip", "t", flip, 86 / 101),
        _row("5 equal error", "error of A", equal_a, both),
        _row("5 equal error", "error of B", equal_b, both),
        # Each group alone is reconstructed exactly, so losses are errors.
        _row("6 minimax loss", "loss of A", fair_a, both),
        _row("6 minimax loss", "loss of B", fair_b, both),
    ]


def _draw(figure: "Figure", moments: GroupMoments, flip: float) -> None:
    figure.set_size_inches(9, 3.8)
    left, right = figure.subplots(1, 2, width_ratios=[1, 1.5])
    for rows, color, marker, name in ((A, _COLORS[0], "o", "A"), (B, _COLORS[1], "s", "B")):
        x, y = zip(*rows, strict=True)
        left.plot(x, y, marker, color=color, markersize=8, linestyle="none", label=f"group {name}")
    left.axhline(0, color=_COLORS[2], linewidth=1.2, zorder=0, label="ordinary PCA")
    fair = fit_moments(
        moments, FitSettings.parse(1, "equal_error", center="none")
    ).subspace.components[0]
    left.axline((0, 0), (fair[0], fair[1]), color=GREEN, linestyle="--", label="equal error")
    left.set(xlim=(-0.3, 4.4), ylim=(-0.5, 4.6), title="Six rows and two directions")
    left.set_aspect("equal")
    left.legend(loc="upper right", fontsize=8)
    below = np.linspace(0, flip, 50)[:-1]
    above = np.linspace(flip, 1, 20)[1:]
    _step(right.plot, moments, below, above)
    right.axvline(flip, color=MUTED, linestyle=":", linewidth=1)
    right.axhline(0, color=MUTED, linewidth=0.8)
    right.annotate(f"sign flips at {flip:.4f}", (flip, 0.4), (0.44, 0.9), fontsize=9)
    right.set(
        xlabel="trade-off t", ylabel="squared error", title="Errors and disparity along the sweep"
    )
    right.legend(loc=(0.03, 0.6), fontsize=8)


def _step(
    plot: Callable[..., object],
    moments: GroupMoments,
    below: "np.ndarray[tuple[int], np.dtype[np.float64]]",
    above: "np.ndarray[tuple[int], np.dtype[np.float64]]",
) -> None:
    """Three curves that jump: errors of A and B, and their difference."""
    styles = (("error of A", "-"), ("error of B", "-"), ("disparity", "--"))
    for part in (below, above):
        pairs = [errors_of(moments, Disparity(trade_off=t, protected="B")) for t in part]
        curves = [[a for a, _ in pairs], [b for _, b in pairs], [b - a for a, b in pairs]]
        for values, color, (label, line) in zip(curves, _COLORS, styles, strict=True):
            name = label if part is below else None
            plot(part, values, line, color=color, label=name, linewidth=1.8)
