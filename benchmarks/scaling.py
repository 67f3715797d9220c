"""How time grows with rows, features, components, groups and threads, ours and plain PCA's."""

import os
from dataclasses import dataclass, replace
from functools import partial

from matplotlib.figure import Figure
from threadpoolctl import threadpool_limits

from benchmarks.effort import Effort, SkippedError
from benchmarks.isolation import alone
from benchmarks.plots import draw_curves, exponent
from benchmarks.racing import Race, race
from benchmarks.report import Measured
from benchmarks.results import announce, shown_seconds, table_of
from benchmarks.rows import made

_REPETITIONS = 3


@dataclass(frozen=True)
class Sizes:
    """What one point is measured at."""

    n: int = 10_000
    p: int = 50
    d: int = 5
    k: int = 2
    threads: int | None = None

    def race(self, effort: Effort) -> Race:
        """Race at these sizes."""
        with threadpool_limits(self.threads):
            return race(made(self.n, self.p, self.k), self.d, effort)


@dataclass(frozen=True)
class Curve:
    """Points along one size, all else fixed.

    Attributes
    ----------
    name : str
        Field of Sizes that varies.
    label, title : str
    values : tuple of int
    fixed : Sizes
    """

    name: str
    label: str
    title: str
    values: tuple[int, ...]
    fixed: Sizes

    def points(self) -> list[Sizes]:
        """The sizes at each value."""
        return [replace(self.fixed, **{self.name: value}) for value in self.values]


@dataclass(frozen=True)
class Measurements:
    """A curve with what was found along it."""

    curve: Curve
    races: tuple[Race, ...]

    @property
    def fair(self) -> list[float]:
        """Seconds of the fair fit at each point."""
        return [each.fair for each in self.races]

    @property
    def plain(self) -> list[float]:
        """Seconds of scikit-learn's fastest at each point."""
        return [each.rivals[each.best] for each in self.races]


def curves(effort: Effort) -> list[Curve]:
    """Five curves of five points; quick ones stop at the third."""
    cores = os.cpu_count() or 1
    threads = tuple(2**i for i in range(5) if 2**i <= cores)
    found = [
        Curve(
            "n",
            "n, rows",
            "50 features, 5 components, 2 groups",
            (10_000, 30_000, 100_000, 300_000, 1_000_000),
            Sizes(),
        ),
        Curve(
            "p",
            "p, features",
            "5,000 rows, 10 components, 2 groups",
            (100, 200, 400, 800, 1600),
            Sizes(5000, d=10),
        ),
        Curve(
            "d",
            "d, components",
            "5,000 rows, 800 features, 2 groups",
            (4, 8, 16, 32, 64),
            Sizes(5000, 800),
        ),
        Curve(
            "k",
            "k, groups",
            "50,000 rows, 50 features, 5 components",
            (2, 4, 8, 16, 32),
            Sizes(50_000),
        ),
        Curve(
            "threads",
            "t, threads",
            "200,000 rows, 100 features, 10 components, 2 groups",
            threads,
            Sizes(200_000, 100, 10),
        ),
    ]
    return [replace(each, values=each.values[:3]) for each in found] if effort.quick else found


def measure(effort: Effort) -> Measured:
    """Every curve in a process of its own."""
    effort = replace(effort, repetitions=1 if effort.quick else _REPETITIONS)
    found, left_out = [], []
    for curve in curves(effort):
        announce(f"scaling in {curve.label}")
        try:
            found.append(alone(effort.limit, along, curve, effort))
        except SkippedError as error:
            left_out.append(f"- {curve.label}: {error}.")
    figures = {f"scaling-{each.curve.name}": partial(draw, each) for each in found}
    return Measured(report(found, left_out), figures=figures)


def along(curve: Curve, effort: Effort) -> Measurements:
    """Race at each point.

    Raises
    ------
    SkippedError
        There is one point only.
    """
    if len(curve.values) < 2:
        raise SkippedError("this machine has one core")
    return Measurements(curve, tuple(each.race(effort) for each in curve.points()))


def report(found: list[Measurements], left_out: list[str]) -> str:
    """A table with a line for each point, and one with the exponents."""
    explained = (
        "Made rows; a fair fit beside scikit-learn's fastest PCA at each point, which is named. "
        "Exponents b are those of the least-squares fit seconds = a size^b; a size that a method "
        "does not depend on has 0, and perfect use of threads -1."
    )
    exponents = [
        [
            each.curve.label,
            each.curve.title,
            f"{exponent(each.curve.values, each.fair):.2f}",
            f"{exponent(each.curve.values, each.plain):.2f}",
        ]
        for each in found
    ]
    points = [line for each in found for line in _point_lines(each)]
    notes = ["Not measured:\n\n" + "\n".join(left_out)] if left_out else []
    return "\n\n".join(
        [
            explained,
            table_of(["size", "all else", "exponent, fairspan", "exponent, PCA"], exponents),
            table_of(["size", "", "fairspan", "PCA", "its solver", "ratio", "status"], points),
            *notes,
        ]
    )


def draw(measurements: Measurements, figure: Figure) -> None:
    """Both curves of one size."""
    curve = measurements.curve
    both = {"fairspan": measurements.fair, "scikit-learn's fastest PCA": measurements.plain}
    draw_curves(figure, curve.label, curve.values, both, curve.title)


def _point_lines(measurements: Measurements) -> list[list[str]]:
    curve = measurements.curve
    return [
        [
            curve.label,
            f"{value:,}",
            shown_seconds(each.fair),
            shown_seconds(each.rivals[each.best]),
            each.best,
            f"{each.ratio:.2f}",
            each.status,
        ]
        for value, each in zip(curve.values, measurements.races, strict=True)
    ]
