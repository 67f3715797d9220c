"""The paper's toy of two Gaussian groups in the plane, appendix D.2.1; and Figure 1."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fairspan.displays.style import FOREGROUND, GREEN, ORANGE, SKY, VERMILION
from fairspan.estimator.fit import fit_moments
from fairspan.estimator.fit_settings import FitSettings
from fairspan.model.subspace import FairSubspace
from fairspan.moments.group_moments import GroupMoments
from fairspan.problem.criteria.criterion import Criterion
from fairspan.problem.criteria.error_gap import RobustErrorGap
from reproduction.experiment import Cell, Result, Setting
from reproduction.vu.protocol import Part

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COVARIANCES = (np.array([[4.0, 0.0], [0.0, 0.2]]), np.array([[0.2, 0.4], [0.4, 3.0]]))
N_TRAIN = (200, 100)
LABELS = ("group 0", "group 1")
_PENALTIES = (0.0, 0.05, 0.1, 0.12, 0.14, 0.16, 0.18, 0.2, 0.5, 2.5)
_RADIUS = 0.15


def toy_rows(sizes: tuple[int, int], generator: np.random.Generator) -> Part:
    """Rows of both groups, each Gaussian about the origin."""
    rows = [
        generator.multivariate_normal(np.zeros(2), covariance, size)
        for covariance, size in zip(COVARIANCES, sizes, strict=True)
    ]
    return Part(np.concatenate(rows), np.repeat(np.array(LABELS), sizes))


@dataclass(frozen=True)
class Direction:
    """A first direction, and the errors of the toy's groups."""

    method: str
    penalty: float | None
    component: tuple[float, float]
    errors: tuple[float, float]
    error: float

    @property
    def degrees(self) -> float:
        """Angle to the horizontal axis, from -90 to 90."""
        x, y = self.component
        return float(np.degrees(np.arctan2(y, x) if x > 0 else np.arctan2(-y, -x)))


def directions(part: Part) -> list[Direction]:
    """PCA, RFPCA at growing penalties, equal errors, and the fair PCA of Samadi et al."""
    moments = GroupMoments.from_rows(part.rows, part.groups)
    cases: list[tuple[str, float | None, str | Criterion]] = [("PCA", None, "total_error")]
    cases += [("RFPCA", penalty, RobustErrorGap(penalty, _RADIUS)) for penalty in _PENALTIES]
    cases += [("equal errors", None, "equal_error"), ("FairPCA", None, "minimax_loss")]
    return [_direction(name, penalty, moments, how) for name, penalty, how in cases]


def _direction(
    name: str, penalty: float | None, moments: GroupMoments, criterion: str | Criterion
) -> Direction:
    fit: FairSubspace = fit_moments(
        moments, FitSettings.parse(1, criterion, center="none")
    ).subspace
    x, y = fit.components[0].tolist()
    first, second = fit.require_certificate().errors.tolist()
    return Direction(
        name,
        penalty,
        (x, y),
        (first, second),
        float(moments.proportions @ fit.require_certificate().errors),
    )


class Figure1:
    """The first direction as the penalty grows."""

    name = "vu-figure1"
    title = "RFPCA: the first direction of a toy as the penalty grows"
    source = "Vu, Tran, Yue and Nguyen (2022), Figure 1"
    files = ()

    def run(self, setting: Setting) -> Result:
        """Draw the toy and fit; too short to keep."""
        part = toy_rows(N_TRAIN, np.random.default_rng(setting.seed))
        fits = directions(part)
        rows: list[tuple[Cell, ...]] = [
            (
                direction.method,
                direction.penalty,
                direction.degrees,
                *direction.errors,
                abs(direction.errors[0] - direction.errors[1]),
                direction.error,
            )
            for direction in fits
        ]
        columns = ("method", "penalty", "degrees", *(f"error of {g}" for g in LABELS))
        notes = (
            "Two Gaussian groups in the plane of 200 and 100 rows, with the covariances of "
            "appendix D.2.1; radius alpha = 0.15. The paper prints a picture without figures.",
            "The paper says that heavy penalties recover the fair PCA of Samadi et al. They go to "
            "equal errors; Samadi et al. equalize excess losses, which is another direction.",
        )
        return Result(
            self.title,
            (*columns, "ABDiff", "ARE"),
            rows,
            notes,
            lambda figure: _draw_directions(figure, part, fits),
        )


def _draw_directions(figure: "Figure", part: Part, fits: Sequence[Direction]) -> None:
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    figure.set_size_inches(7.4, 5.6)
    axes = figure.subplots()
    for label, color, marker in zip(LABELS, (SKY, ORANGE), "o^", strict=True):
        x, y = part.rows[part.groups == label].T
        axes.scatter(x, y, s=12, color=color, marker=marker, alpha=0.45, linewidth=0, label=label)
    shades = colormaps["cividis"]
    styles = {"PCA": (VERMILION, "-"), "FairPCA": (GREEN, "-"), "equal errors": (FOREGROUND, ":")}
    penalized = [direction for direction in fits if direction.penalty is not None]
    for direction in fits:
        if direction.penalty is None:
            length = 5.2
            name = direction.method
            color, line = styles[direction.method]
        else:
            rank = penalized.index(direction)
            length = 3.4
            line = "-"
            name = f"RFPCA, penalty {direction.penalty:g}"
            color = to_hex(shades(rank / len(penalized)))
        x, y = (length * c * (1 if direction.component[0] > 0 else -1) for c in direction.component)
        axes.plot([0, x], [0, y], color=color, linestyle=line, linewidth=2.2, label=name)
    axes.set(aspect="equal", xlim=(-6, 6), ylim=(-5.5, 5.5), title="First direction")
    # Outside of the figure's axes rather than of these: their labels keep their room then.
    figure.legend(loc="outside right center", fontsize=8, frameon=False)


FIGURE_1 = Figure1()
