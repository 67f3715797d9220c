"""Seven cases with a goal each: a fair fit over the best of scikit-learn's PCA solvers."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from matplotlib.figure import Figure

from benchmarks.effort import Effort, SkippedError
from benchmarks.isolation import alone
from benchmarks.plots import draw_ratios
from benchmarks.racing import SOLVERS, Race, race, why_not
from benchmarks.report import Measured
from benchmarks.results import announce, shown_seconds, table_of
from benchmarks.rows import Labeled, faces, made, missing, table


@dataclass(frozen=True)
class Case:
    """Rows, a dimension, and how many times plain PCA's time the fair fit may take.

    Attributes
    ----------
    name : str
    rows : callable
    d : int
    goal : float
    criterion : str
    file : str or None
        Of the data folder, where the rows are real.
    """

    name: str
    rows: Callable[[], Labeled]
    d: int
    goal: float
    criterion: str = "minimax_loss"
    file: str | None = None


@dataclass(frozen=True)
class Result:
    """A case that ran."""

    case: Case
    shape: tuple[int, int]
    race: Race


def cases(effort: Effort) -> list[Case]:
    """The seven; quick ones have fewer rows."""
    lfw = partial(faces, 2000 if effort.quick else None)
    tall = partial(made, 100_000 if effort.quick else 2_000_000, 50)
    wide = partial(made, 200 if effort.quick else 500, 2000 if effort.quick else 20_000)
    credit = partial(table, "default_credit", "education", integer_labels=True)
    six = partial(table, "default_credit", "education_sex6")
    money, images = "default_credit.parquet", "lfw.npz"
    return [
        Case("Default Credit, integer labels", credit, 5, 1.5, file=money),
        Case("Faces (LFW)", lfw, 20, 1.0, file=images),
        Case("Faces (LFW), many components", lfw, 200, 2.0, file=images),
        Case("tall, integer labels", tall, 10, 1.0),
        Case("wide", wide, 10, 1.5),
        Case("Default Credit, six groups", six, 5, 3.0, file=money),
        Case("Faces (LFW), robust error gap", lfw, 20, 1.5, "robust_error_gap", images),
    ]


def measure(effort: Effort) -> Measured:
    """Run every case in a process of its own."""
    results, left_out = [], []
    for case in cases(effort):
        announce(case.name)
        try:
            results.append(alone(effort.limit, run_case, case, effort))
        except SkippedError as error:
            left_out.append(f"- {case.name}: {error}.")
    figures = {"headline": partial(draw, results)} if results else {}
    return Measured(report(results, left_out, effort), figures=figures)


def run_case(case: Case, effort: Effort) -> Result:
    """Load the rows and race.

    Raises
    ------
    SkippedError
        The data set is not there.
    """
    if reason := missing(case.file):
        raise SkippedError(reason)
    rows = case.rows()
    n, p = rows[0].shape
    return Result(case, (n, p), race(rows, case.d, effort, case.criterion))


def report(results: list[Result], left_out: list[str], effort: Effort) -> str:
    """Two tables: ratios with their certificates, and each solver's time."""
    explained = (
        "A fair fit (`FairPCA(d).fit(X, sensitive_features=groups)`, moments and solve, default "
        "`tol`) over the fastest of scikit-learn's PCA solvers on the same rows, "
        f"median of {effort.repetitions}. `gap` is the certificate's, as a share of the "
        "objective; `optimal` means proven."
    )
    ratios = table_of(
        ["case", "n x p, d", "ratio", "goal", "reached", "gap", "status", "eigenproblems", "path"],
        [_ratio_line(each) for each in results],
    )
    times = table_of(
        ["case", "fair fit", "of it moments", *SOLVERS],
        [_time_line(each) for each in results],
    )
    notes = ["A star marks the fastest; (2) one over five times slower, which was run only twice."]
    if effort.quick:
        notes.append("Quick: fewer rows and turns; goals are for the whole cases.")
    if left_out:
        notes.append("Not measured:\n\n" + "\n".join(left_out))
    return "\n\n".join([explained, ratios, times, *notes])


def draw(results: list[Result], figure: Figure) -> None:
    """Each ratio beside its goal."""
    draw_ratios(
        figure,
        [f"{each.case.name}, d = {each.case.d}" for each in results],
        [each.race.ratio for each in results],
        [each.case.goal for each in results],
    )


def _ratio_line(result: Result) -> list[str]:
    case, found = result.case, result.race
    return [
        case.name,
        f"{result.shape[0]:,} x {result.shape[1]:,}, {case.d}",
        f"**{found.ratio:.2f}**",
        f"{case.goal:g}",
        "yes" if found.ratio <= case.goal else "no",
        f"{found.gap:.1e}",
        found.status,
        str(found.n_eigenproblems),
        found.eigensolver,
    ]


def _time_line(result: Result) -> list[str]:
    found = result.race
    moments = "not formed" if found.moments is None else shown_seconds(found.moments)
    return [
        result.case.name,
        shown_seconds(found.fair),
        moments,
        *(_rival(result, solver) for solver in SOLVERS),
    ]


def _rival(result: Result, solver: str) -> str:
    found = result.race
    if solver not in found.rivals:
        return why_not(solver, result.shape, result.case.d) or ""
    star = " *" if solver == found.best else ""
    turns = found.turns[solver]
    few = f" ({turns})" if turns < found.turns[found.best] else ""
    return shown_seconds(found.rivals[solver]) + few + star
