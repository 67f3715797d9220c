"""Fair partial least squares and canonical correlation against ordinary partial least squares."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
from sklearn.cross_decomposition import PLSSVD

from benchmarks.effort import Effort
from benchmarks.measurement import format_seconds, format_table, log_progress, median_seconds
from benchmarks.report import SectionContent
from fairspan.cross_decomposition import FairCCA, FairPLS, PairedCertificate

FloatArray = npt.NDArray[np.float64]

_N_X, _N_Y = 50, 20
_N_COMPONENTS = 2
# Number of directions in which the two tables covary.
_N_SHARED = 8
# Largest wanted ratio of the times of a fair fit and of PLSSVD.
_GOAL = 3.0


@dataclass(frozen=True)
class Comparison:
    """Times of a fair fit and of an ordinary one on the same rows, run in turns.

    Attributes
    ----------
    case : str
        Name of the fair fit and size of the rows.
    seconds, reference_seconds : float
        Medians.
    certificate : PairedCertificate
    goal : float
        Largest wanted ratio of the two.
    """

    case: str
    seconds: float
    reference_seconds: float
    certificate: PairedCertificate
    goal: float

    @property
    def line(self) -> list[str]:
        """Cells of a line of the table."""
        ratio = self.seconds / self.reference_seconds
        return [
            self.case,
            format_seconds(self.seconds),
            format_seconds(self.reference_seconds),
            f"**{ratio:.2f}**",
            f"{self.goal:g}",
            "yes" if ratio <= self.goal else "no",
            f"{self.certificate.relative_gap:.1e}",
            str(self.certificate.status),
        ]


def measure(effort: Effort) -> SectionContent:
    """Compare fits to rows of two and of six groups."""
    n_rows = 2000 if effort.quick else 20_000
    comparisons = []
    for n_groups in (2, 6):
        X, Y, groups = make_tables(n_rows, n_groups)
        size = f"{n_rows:,} x ({_N_X} + {_N_Y}), {n_groups} groups, d = {_N_COMPONENTS}"
        log_progress(size)
        models = {"FairPLS": FairPLS(_N_COMPONENTS), "FairCCA": FairCCA(_N_COMPONENTS)}
        runs: dict[str, Callable[[], object]] = {
            name: partial(model.fit, X, Y, sensitive_features=groups)
            for name, model in models.items()
        }
        runs["PLSSVD"] = partial(PLSSVD(_N_COMPONENTS).fit, X, Y)
        for run in runs.values():
            run()
        seconds = median_seconds(runs, effort.repetitions)
        comparisons += [
            Comparison(
                f"`{name}`, {size}", seconds[name], seconds["PLSSVD"], model.solution_, _GOAL
            )
            for name, model in models.items()
        ]
    header = ["case", "median", "`PLSSVD`", "ratio", "goal", "reached", "gap", "status"]
    text = (
        f"Fits to rows with default settings beside scikit-learn's `PLSSVD`, medians of "
        f"{effort.repetitions} turns. `gap` is the certificate's, as a share of the objective.\n\n"
    )
    return SectionContent(
        text + format_table(header, [comparison.line for comparison in comparisons])
    )


def make_tables(
    n_rows: int, n_groups: int, seed: int = 0
) -> tuple[FloatArray, FloatArray, npt.NDArray[np.int64]]:
    """Draw rows of two tables that covary along directions of which each group turns some."""
    rng = np.random.default_rng(seed)
    groups = rng.integers(0, n_groups, n_rows)
    x_common = rng.standard_normal((_N_SHARED, _N_X))
    y_common = rng.standard_normal((_N_SHARED, _N_Y))
    X = rng.standard_normal((n_rows, _N_X))
    Y = rng.standard_normal((n_rows, _N_Y))
    for group in range(n_groups):
        in_group = groups == group
        factors = rng.standard_normal((in_group.sum(), _N_SHARED)) * rng.uniform(0.3, 1, _N_SHARED)
        X[in_group] += factors @ (x_common + 0.5 * rng.standard_normal(x_common.shape))
        Y[in_group] += factors @ (y_common + 0.5 * rng.standard_normal(y_common.shape))
    return X, Y, groups
