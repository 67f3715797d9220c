"""Growth of the time of a fair fit and of PCA with rows, features, components, groups, threads."""

import os
from dataclasses import dataclass, replace
from functools import partial

from matplotlib.figure import Figure
from threadpoolctl import threadpool_limits

from benchmarks.effort import Effort, SkippedError
from benchmarks.isolation import run_in_process
from benchmarks.measurement import format_seconds, format_table, log_progress
from benchmarks.pca_comparison import PCAComparison, compare_with_pca
from benchmarks.plots import draw_curves, exponent
from benchmarks.report import SectionContent
from benchmarks.rows import make_rows

_REPETITIONS = 3


@dataclass(frozen=True)
class Sizes:
    """Sizes of one point: rows n, features p, components d, groups k; None for all threads."""

    n: int = 10_000
    p: int = 50
    d: int = 5
    k: int = 2
    threads: int | None = None

    def compare(self, effort: Effort) -> PCAComparison:
        """Compare a fair fit with PCA at these sizes."""
        with threadpool_limits(self.threads):
            return compare_with_pca(make_rows(self.n, self.p, self.k), self.d, effort)


@dataclass(frozen=True)
class Curve:
    """Several values of one size, while all others are fixed.

    Attributes
    ----------
    name : str
        Field of Sizes that varies.
    label, title : str
        Name of the varying size, and description of the fixed ones.
    values : tuple of int
    fixed : Sizes
    """

    name: str
    label: str
    title: str
    values: tuple[int, ...]
    fixed: Sizes

    def points(self) -> list[Sizes]:
        """Return the sizes at each value."""
        return [replace(self.fixed, **{self.name: value}) for value in self.values]


@dataclass(frozen=True)
class Measurements:
    """A curve and the times at each of its points."""

    curve: Curve
    comparisons: tuple[PCAComparison, ...]

    @property
    def fair_seconds(self) -> list[float]:
        """Times of the fair fit at each point."""
        return [comparison.fair for comparison in self.comparisons]

    @property
    def pca_seconds(self) -> list[float]:
        """Times of scikit-learn's fastest PCA at each point."""
        return [comparison.pca[comparison.fastest] for comparison in self.comparisons]


def curves(effort: Effort) -> list[Curve]:
    """Return five curves of five points; of three points if quick."""
    cores = os.cpu_count() or 1
    threads = tuple(2**i for i in range(5) if 2**i <= cores)
    all_curves = [
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
    if effort.quick:
        return [replace(curve, values=curve.values[:3]) for curve in all_curves]
    return all_curves


def measure(effort: Effort) -> SectionContent:
    """Measure every curve in its own process."""
    effort = replace(effort, repetitions=1 if effort.quick else _REPETITIONS)
    measurements, skipped = [], []
    for curve in curves(effort):
        log_progress(f"scaling in {curve.label}")
        try:
            measurements.append(run_in_process(effort.limit, measure_curve, curve, effort))
        except SkippedError as error:
            skipped.append(f"- {curve.label}: {error}.")
    figures = {
        f"scaling-{curve_times.curve.name}": partial(draw, curve_times)
        for curve_times in measurements
    }
    return SectionContent(format_measurements(measurements, skipped), figures=figures)


def measure_curve(curve: Curve, effort: Effort) -> Measurements:
    """Compare a fair fit with PCA at each point.

    Raises
    ------
    SkippedError
        The curve has one point only.
    """
    if len(curve.values) < 2:
        raise SkippedError("this machine has one core")
    return Measurements(curve, tuple(sizes.compare(effort) for sizes in curve.points()))


def format_measurements(measurements: list[Measurements], skipped: list[str]) -> str:
    """Return a table of the exponents, and one with a line for each point.

    `skipped` has an item of a list in Markdown for each curve that was not measured.
    """
    explanation = (
        "Synthetic rows; a fair fit and scikit-learn's fastest PCA at each point, which is named. "
        "Exponents b are those of the least-squares fit seconds = a size^b; a size that a method "
        "does not depend on has 0, and perfect use of threads -1."
    )
    exponents = [
        [
            curve_times.curve.label,
            curve_times.curve.title,
            f"{exponent(curve_times.curve.values, curve_times.fair_seconds):.2f}",
            f"{exponent(curve_times.curve.values, curve_times.pca_seconds):.2f}",
        ]
        for curve_times in measurements
    ]
    points = [line for curve_times in measurements for line in _point_lines(curve_times)]
    notes = ["Not measured:\n\n" + "\n".join(skipped)] if skipped else []
    return "\n\n".join(
        [
            explanation,
            format_table(["size", "all else", "exponent, fairspan", "exponent, PCA"], exponents),
            format_table(["size", "", "fairspan", "PCA", "its solver", "ratio", "status"], points),
            *notes,
        ]
    )


def draw(measurements: Measurements, figure: Figure) -> None:
    """Plot the times of the fair fit and of PCA against one size."""
    curve = measurements.curve
    seconds = {
        "fairspan": measurements.fair_seconds,
        "scikit-learn's fastest PCA": measurements.pca_seconds,
    }
    draw_curves(figure, curve.label, curve.values, seconds, curve.title)


def _point_lines(measurements: Measurements) -> list[list[str]]:
    curve = measurements.curve
    return [
        [
            curve.label,
            f"{value:,}",
            format_seconds(comparison.fair),
            format_seconds(comparison.pca[comparison.fastest]),
            comparison.fastest,
            f"{comparison.ratio:.2f}",
            comparison.status,
        ]
        for value, comparison in zip(curve.values, measurements.comparisons, strict=True)
    ]
