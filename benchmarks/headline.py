"""Time of a fair fit over that of scikit-learn's fastest PCA, in seven cases with a goal each."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from matplotlib.figure import Figure

from benchmarks.effort import Effort, SkippedError
from benchmarks.isolation import run_in_process
from benchmarks.measurement import format_seconds, format_table, log_progress
from benchmarks.pca_comparison import SOLVERS, PCAComparison, compare_with_pca, explain_skip
from benchmarks.plots import draw_ratios
from benchmarks.report import SectionContent
from benchmarks.rows import (
    LabeledRows,
    explain_missing,
    load_faces_by_gender,
    load_table,
    make_rows,
)


@dataclass(frozen=True)
class Case:
    """Rows, a number of components and a goal.

    Attributes
    ----------
    name : str
    load : callable
        Returns the rows and their labels.
    d : int
        Number of components.
    goal : float
        Largest wanted ratio of the time of the fair fit to that of the fastest PCA.
    criterion : str
    file : str or None
        Name of a file in the data folder; None for synthetic rows.
    """

    name: str
    load: Callable[[], LabeledRows]
    d: int
    goal: float
    criterion: str = "minimax_loss"
    file: str | None = None


@dataclass(frozen=True)
class Result:
    """A case, the shape (n, p) of its rows, and the times."""

    case: Case
    shape: tuple[int, int]
    comparison: PCAComparison


def cases(effort: Effort) -> list[Case]:
    """Return the seven cases, with fewer rows if quick."""
    lfw = partial(load_faces_by_gender, 2000 if effort.quick else None)
    tall = partial(make_rows, 100_000 if effort.quick else 2_000_000, 50)
    wide = partial(make_rows, 200 if effort.quick else 500, 2000 if effort.quick else 20_000)
    credit = partial(load_table, "default_credit", "education", integer_labels=True)
    six = partial(load_table, "default_credit", "education_sex6")
    credit_file, lfw_file = "default_credit.parquet", "lfw.npz"
    return [
        Case("Default Credit, integer labels", credit, 5, 1.5, file=credit_file),
        Case("Faces (LFW)", lfw, 20, 1.0, file=lfw_file),
        Case("Faces (LFW), many components", lfw, 200, 2.0, file=lfw_file),
        Case("tall, integer labels", tall, 10, 1.0),
        Case("wide", wide, 10, 1.5),
        Case("Default Credit, six groups", six, 5, 3.0, file=credit_file),
        Case("Faces (LFW), robust error gap", lfw, 20, 1.5, "robust_error_gap", lfw_file),
    ]


def measure(effort: Effort) -> SectionContent:
    """Run every case in its own process."""
    results, skipped = [], []
    for case in cases(effort):
        log_progress(case.name)
        try:
            results.append(run_in_process(effort.limit, run_case, case, effort))
        except SkippedError as error:
            skipped.append(f"- {case.name}: {error}.")
    figures = {"headline": partial(draw, results)} if results else {}
    return SectionContent(format_results(results, skipped, effort), figures=figures)


def run_case(case: Case, effort: Effort) -> Result:
    """Load the rows of a case and compare a fair fit with PCA.

    Raises
    ------
    SkippedError
        The data set is not in the data folder.
    """
    if reason := explain_missing(case.file):
        raise SkippedError(reason)
    X, labels = case.load()
    n, p = X.shape
    return Result(case, (n, p), compare_with_pca((X, labels), case.d, effort, case.criterion))


def format_results(results: list[Result], skipped: list[str], effort: Effort) -> str:
    """Return two tables: ratios with their certificates, and the time of each solver.

    `skipped` has an item of a list in Markdown for each case that was not measured.
    """
    explanation = (
        "A fair fit (`FairPCA(d).fit(X, sensitive_features=groups)`, moments and solve, default "
        "`tol`) over the fastest of scikit-learn's PCA solvers on the same rows, "
        f"median of {effort.repetitions}. `gap` is the certificate's, as a share of the "
        "objective; `optimal` means proven."
    )
    ratios = format_table(
        ["case", "n x p, d", "ratio", "goal", "reached", "gap", "status", "eigenproblems", "path"],
        [_ratio_line(result) for result in results],
    )
    times = format_table(
        ["case", "fair fit", "of it moments", *SOLVERS],
        [_time_line(result) for result in results],
    )
    notes = ["A star marks the fastest; (2) one over five times slower, which was run only twice."]
    if effort.quick:
        notes.append("Quick: fewer rows and repetitions; goals are for the full cases.")
    if skipped:
        notes.append("Not measured:\n\n" + "\n".join(skipped))
    return "\n\n".join([explanation, ratios, times, *notes])


def draw(results: list[Result], figure: Figure) -> None:
    """Plot each ratio and its goal."""
    draw_ratios(
        figure,
        [f"{result.case.name}, d = {result.case.d}" for result in results],
        [result.comparison.ratio for result in results],
        [result.case.goal for result in results],
    )


def _ratio_line(result: Result) -> list[str]:
    case, comparison = result.case, result.comparison
    return [
        case.name,
        f"{result.shape[0]:,} x {result.shape[1]:,}, {case.d}",
        f"**{comparison.ratio:.2f}**",
        f"{case.goal:g}",
        "yes" if comparison.ratio <= case.goal else "no",
        f"{comparison.gap:.1e}",
        comparison.status,
        str(comparison.n_eigenproblems),
        comparison.eigensolver,
    ]


def _time_line(result: Result) -> list[str]:
    moments = result.comparison.moments
    return [
        result.case.name,
        format_seconds(result.comparison.fair),
        "not formed" if moments is None else format_seconds(moments),
        *(_solver_cell(result, solver) for solver in SOLVERS),
    ]


def _solver_cell(result: Result, solver: str) -> str:
    """Return the time of a solver of scikit-learn, or the reason why it did not run."""
    comparison = result.comparison
    if solver not in comparison.pca:
        return explain_skip(solver, result.shape, result.case.d) or ""
    n_times = comparison.n_times
    count = f" ({n_times[solver]})" if n_times[solver] < n_times[comparison.fastest] else ""
    star = " *" if solver == comparison.fastest else ""
    return format_seconds(comparison.pca[solver]) + count + star
