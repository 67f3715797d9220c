"""Parts of the time of a fit, compared with the limits of the machine."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from time import process_time

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.effort import Effort, SkippedError
from benchmarks.isolation import run_in_process
from benchmarks.measurement import format_seconds, format_table, log_progress
from benchmarks.pca_comparison import pca_runs
from benchmarks.report import SectionContent
from benchmarks.rows import (
    LabeledRows,
    explain_missing,
    load_faces_by_gender,
    load_table,
    make_embeddings,
    make_rows,
)
from benchmarks.work_record import PARTS, WorkRecord, record_work
from fairspan import FairPCA
from fairspan.moments.compute import compute_moments
from fairspan.rows.opening import open_group_rows

# Size of the matrices that the rates of this machine are measured with: beyond its caches.
_RATE_SIZE = 1500
_BYTES = 8  # of a float64 number
# A fit that takes less is repeated, and the fastest counts.
_SECONDS_TO_REPEAT = 2.0


@dataclass(frozen=True)
class Case:
    """Rows and a number of components.

    Attributes
    ----------
    name : str
    load : callable
        Returns the rows and their labels.
    d : int
        Number of components.
    file : str or None
        Name of a file in the data folder; None for synthetic rows.
    """

    name: str
    load: Callable[[], LabeledRows]
    d: int
    file: str | None = None


@dataclass(frozen=True)
class Rates:
    """Speed of one thread of this machine.

    Attributes
    ----------
    flops : float
        Floating point operations per second in a product of two large matrices.
    bytes : float
        Bytes per second of the sum of a long vector.
    """

    flops: float
    bytes: float


@dataclass(frozen=True)
class Result:
    """Measured work of a case.

    Attributes
    ----------
    case : Case
    n, p, k : int
        Rows, features and groups.
    is_wide : bool
        Whether the fit works in coordinates of the rows, which are fewer than the features.
    seconds, moments_seconds : float
        Processor time in one thread, of all of the fit and of its moments.
    pca_seconds : float
        That of scikit-learn's fastest PCA.
    record : WorkRecord
        Of the fit from its moments.
    rates : Rates
    status : str
    """

    case: Case
    n: int
    p: int
    k: int
    is_wide: bool
    seconds: float
    moments_seconds: float
    pca_seconds: float
    record: WorkRecord
    rates: Rates
    status: str

    @property
    def n_coordinates(self) -> int:
        """Number of coordinates of the fit: of rows, or of features."""
        return self.n if self.is_wide else self.p

    @property
    def flops(self) -> float:
        """Operations of the fit; half of the product of the rows with themselves is needed."""
        # The record of a wide fit, whose moments are formed with the row axes, includes them.
        moments_flops = 0 if self.is_wide else self.n * self.p**2
        return float(moments_flops) + self.record.flops

    @property
    def least_flops(self) -> float:
        """Operations that a proven fit needs at least, whatever the method.

        They are the moments, a product of each group's matrix with its own d eigenvectors and one
        with the solution, the Cholesky factorization that proves the bound and, from coordinates of
        rows, the components in the features.
        """
        m = self.n_coordinates
        d = self.case.d
        least = self.n * self.p * m + 4 * self.k * m**2 * d + m**3 / 3
        if self.is_wide:
            least += 2 * self.n * self.p * d
        return float(least)

    @property
    def least_seconds(self) -> float:
        """Time of these operations, or of one pass over rows and matrices if that is longer."""
        n_bytes = _BYTES * (self.n * self.p + self.k * self.n_coordinates**2)
        return max(self.least_flops / self.rates.flops, n_bytes / self.rates.bytes)


def cases(effort: Effort) -> list[Case]:
    """Return the cases; few and small ones if quick."""
    credit = "default_credit.parquet"
    two = partial(load_table, "default_credit", "education", integer_labels=True)
    six = partial(load_table, "default_credit", "education_sex6")
    if effort.quick:
        return [Case("Credit, two groups", two, 5, credit), Case("8 groups", _small_groups, 4)]
    return [
        Case("Credit, two groups", two, 5, credit),
        Case("Credit, six groups", six, 5, credit),
        Case("32 groups", partial(make_rows, 50_000, 50, 32), 5),
        Case("16 groups, open gap", partial(make_rows, 20_000, 768, 16), 20),
        Case("Faces (LFW)", load_faces_by_gender, 20, "lfw.npz"),
        Case("Faces (LFW), many components", load_faces_by_gender, 200, "lfw.npz"),
        Case("embeddings, two groups", partial(make_embeddings, 20_000, 1536, 2), 128),
        Case("embeddings, 8 groups", partial(make_embeddings, 20_000, 1536, 8), 128),
        Case("wide", partial(make_rows, 500, 20_000), 10),
        Case("long embeddings", partial(make_embeddings, 10_000, 4096, 2), 256),
    ]


def _small_groups() -> LabeledRows:
    return make_rows(2000, 60, 8)


def measure(effort: Effort) -> SectionContent:
    """Measure every case in its own process."""
    results, skipped = [], []
    for case in cases(effort):
        log_progress(case.name)
        try:
            results.append(run_in_process(effort.limit, run_case, case, effort))
        except SkippedError as error:
            skipped.append(f"- {case.name}: {error}.")
    return SectionContent(format_results(results, skipped))


def run_case(case: Case, effort: Effort) -> Result:
    """Measure a fair fit and PCA in one thread, and the rates of this machine.

    Raises
    ------
    SkippedError
        The data set is not in the data folder.
    """
    if reason := explain_missing(case.file):
        raise SkippedError(reason)
    X, labels = case.load()
    model = FairPCA(case.d)
    rows = open_group_rows(X, labels)
    with threadpool_limits(1):
        few = X[:200]
        model.fit(few, sensitive_features=np.arange(len(few)) % 2)  # load what a fit needs
        runs = pca_runs(X, case.d) | {
            "fit": partial(model.fit, X, sensitive_features=labels),
            "moments": partial(compute_moments, rows),
        }
        seconds = {name: least_seconds(run, effort.repetitions) for name, run in runs.items()}
        moments = compute_moments(rows)
        record = record_work(lambda: model.fit_moments(moments), min(X.shape))
        rates = measure_rates()
    fit_seconds = seconds.pop("fit")
    moments_seconds = seconds.pop("moments")
    return Result(
        case=case,
        n=X.shape[0],
        p=X.shape[1],
        k=len(moments.labels),
        is_wide=moments.has_row_coordinates,
        seconds=fit_seconds,
        moments_seconds=moments_seconds,
        pca_seconds=min(seconds.values()),
        record=record,
        rates=rates,
        status=model.solution_.status.value,
    )


def least_seconds(run: Callable[[], object], repetitions: int) -> float:
    """Return the least processor time of several calls; of one call if it takes long."""
    times: list[float] = []
    while len(times) < repetitions and sum(times) < _SECONDS_TO_REPEAT:
        start = process_time()
        run()
        times.append(process_time() - start)
    return min(times)


def measure_rates() -> Rates:
    """Measure products of two matrices and sums of a long vector; the fastest of each counts."""
    matrix = np.random.default_rng(0).standard_normal((_RATE_SIZE, _RATE_SIZE))
    vector = np.ones(20 * _RATE_SIZE**2)
    product_seconds = least_seconds(lambda: matrix @ matrix, repetitions=4)
    sum_seconds = least_seconds(vector.sum, repetitions=4)
    return Rates(flops=2 * _RATE_SIZE**3 / product_seconds, bytes=vector.nbytes / sum_seconds)


def format_results(results: list[Result], skipped: list[str]) -> str:
    """Return a table of times and limits, and one of the parts of each fit.

    `skipped` has an item of a list in Markdown for each case that was not measured.
    """
    limits = format_table(
        ["case", "n x p, d", "groups", "fit", "PCA", "ratio", "Gflop", "least", "limit", "status"],
        [_limit_line(result) for result in results],
    )
    parts = format_table(
        ["case", "moments", *PARTS, "all else", "large eigenproblems"],
        [_part_line(result) for result in results],
    )
    rates = [
        f"{result.rates.flops / 1e9:.0f} Gflop/s and {result.rates.bytes / 1e9:.0f} GB/s"
        for result in results
    ]
    notes = [f"Measured rates by case: {'; '.join(rates)}."]
    if skipped:
        notes.append("Not measured:\n\n" + "\n".join(skipped))
    return "\n\n".join([_EXPLANATION, limits, _PARTS_EXPLANATION, parts, *notes])


_EXPLANATION = """
Processor time of `FairPCA(d).fit(X, sensitive_features=groups)` in one thread, the least of
several, beside that of the fastest of scikit-learn's PCA solvers. *Gflop* are the operations of the
fit. *Least* are those that any method needs: moments of the rows, a product of each group's second
moment with its own d eigenvectors and one with the solution, and one Cholesky factorization to
prove the bound; all in coordinates of the rows if these are fewer than the features. *Limit* is
their time at the rate of a product of two matrices, or that of reading rows and second moments
once, whichever is longer. It is out of reach where eigenproblems are solved: half of their
operations are products of a matrix and a vector, which wait for memory."""

_PARTS_EXPLANATION = """
Parts of that time, each second counted once, for the outermost part. *Small programs* find weights
of the groups. *Row axes* are orthonormal axes of rows that are fewer than the features. *Large
eigenproblems* are those of at least half of the features, or of the rows if these are fewer."""


def _limit_line(result: Result) -> list[str]:
    return [
        result.case.name,
        f"{result.n:,} x {result.p:,}, {result.case.d}",
        str(result.k),
        format_seconds(result.seconds),
        format_seconds(result.pca_seconds),
        f"**{result.seconds / result.pca_seconds:.2f}**",
        f"{result.flops / 1e9:.3g}",
        f"{result.least_flops / 1e9:.3g}",
        format_seconds(result.least_seconds),
        result.status,
    ]


def _part_line(result: Result) -> list[str]:
    parts = [result.moments_seconds, *(result.record.seconds[part] for part in PARTS)]
    parts.append(max(result.seconds - sum(parts), 0.0))
    shares = [f"{100 * part / result.seconds:.0f} %" for part in parts]
    return [result.case.name, *shares, str(result.record.n_large)]
