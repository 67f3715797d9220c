"""Reconstruction drift of all rows, by NannyML's formulas, against the errors of each group."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.stats import mannwhitneyu

from benchmarks.effort import Effort, SkippedError
from benchmarks.measurement import format_table, log_progress
from benchmarks.report import SectionContent
from benchmarks.rows import DATA_FOLDER, FloatArray, explain_missing
from fairspan import FairPCA, Monitor
from reproduction.data import load

Labels = npt.NDArray[np.str_]

_FILE = "default_credit.parquet"
_GROUP_COLUMN = "education_marriage4"
# Lower education and not married: 2,290 of 30,000 clients, 7.6 %.
_SHUFFLED = "lower/not_married"
_N_GROUPS = 4
_AMOUNTS = ("LIMIT_BAL", "BILL_AMT", "PAY_AMT")
_N_REFERENCE = 15_000
_CHUNK_SIZES = (1_000, 1_500, 3_000)
# Share of the variance that NannyML's components keep, and standard deviations of the reference
# chunks by which its thresholds lie from their mean: its defaults.
_VARIANCE_KEPT = 0.65
_THRESHOLD = 3.0
_LEVEL = 0.95
_N_DRAWS = 100
_QUICK_DRAWS = 3
_HEADER = (
    *("amounts", "rows", "NannyML: same", "shuffled"),
    *("fairspan: same", "shuffled", "unknown", "ranks: same", "shuffled"),
)
_EXPLANATION = """\
Clients of Default Credit, 22 features. Models are made of {reference:,} clients, drawn at random; a
chunk has other clients. It is judged as it is ("same"), and with the columns of one group, not
married and of lower education (7.6 % of the clients), shuffled one by one among its rows
("shuffled"), as by a join that went wrong. Shares of {draws} draws in which there is an alarm.

- *NannyML*: its reconstruction drift, written from its formulas and defaults. PCA of the
  standardized reference keeps 65 % of the variance; the figure of a chunk is the mean distance of a
  row from its reconstruction, over all rows. An alarm is a figure further than three standard
  deviations from the mean of the reference, which is cut into chunks of the same size; ten, its
  default, have 1,500 rows each.
- *fairspan*: the first look of a `Monitor` at level .95 for a fair PCA of as many dimensions, by
  the four groups of education and marriage. *Same*: an alarm in any group. *Shuffled*: an alarm in
  the shuffled group. *Unknown*: nothing is known of the shuffled group, as a few rows dominate its
  error, so that there is no interval and no alarm.
- *Ranks*: what a Monitor could see that kept the errors of rows. A Mann-Whitney test whether the
  rows of the shuffled group have larger errors than those of an earlier chunk, at the level that a
  first look has for one of four groups. A model file has moments only, so `Monitor` cannot do this.
- *Amounts*: limits, bills and payments as they are, or as sign(x) log(1 + |x|)."""


@dataclass(frozen=True)
class Alarms:
    """Alarms in one draw of reference and chunk.

    Attributes
    ----------
    pooled_same, pooled_shuffled : bool
        Reconstruction drift of all rows.
    same, shuffled : bool
        The Monitor: in any group, and in the shuffled one.
    is_unknown : bool
        Whether nothing is known of the shuffled group.
    ranks_same, ranks_shuffled : bool
        The rank test of the errors of the shuffled group.
    """

    pooled_same: bool
    pooled_shuffled: bool
    same: bool
    shuffled: bool
    is_unknown: bool
    ranks_same: bool
    ranks_shuffled: bool


class PooledDrift:
    """Reconstruction drift as NannyML computes it, of all rows together.

    Parameters
    ----------
    reference : (n, p) array
    chunk_size : int
        Number of rows of a chunk; those of the reference decide the thresholds.
    """

    def __init__(self, reference: FloatArray, chunk_size: int) -> None:
        self._mean = reference.mean(axis=0)
        deviation = reference.std(axis=0)
        self._scale = np.where(deviation > 0, deviation, 1.0)
        rows = self._standardize(reference)
        _, singular_values, axes = np.linalg.svd(rows, full_matrices=False)
        shares = np.cumsum(singular_values**2) / np.sum(singular_values**2)
        # As of scikit-learn: the fewest components that keep more than this share.
        self.n_components = int(np.searchsorted(shares, _VARIANCE_KEPT, side="right")) + 1
        self._axes = axes[: self.n_components]
        n_chunks = len(reference) // chunk_size
        figures = [self._figure(chunk) for chunk in np.array_split(reference, n_chunks)]
        # With the divisor n, as of numpy.
        self._center = float(np.mean(figures))
        self._margin = _THRESHOLD * float(np.std(figures))

    def _standardize(self, rows: FloatArray) -> FloatArray:
        return np.asarray((rows - self._mean) / self._scale)

    def _figure(self, rows: FloatArray) -> float:
        """Mean distance of the rows from their reconstructions."""
        standardized = self._standardize(rows)
        residuals = standardized - standardized @ self._axes.T @ self._axes
        return float(np.linalg.norm(residuals, axis=1).mean())

    def has_alarm(self, chunk: FloatArray) -> bool:
        """Whether the figure of a chunk is outside of the thresholds."""
        return abs(self._figure(chunk) - self._center) > self._margin


def measure(effort: Effort) -> SectionContent:
    """Judge chunks of Default Credit, with raw amounts and with their logarithms."""
    if reason := explain_missing(_FILE):
        raise SkippedError(reason)
    data = load("default_credit", DATA_FOLDER, _GROUP_COLUMN)
    n_draws = _QUICK_DRAWS if effort.quick else _N_DRAWS
    tables = {"raw": data.X, "logarithms": take_logarithms(data.X, data.feature_names)}
    lines = []
    for amounts, X in tables.items():
        for chunk_size in _CHUNK_SIZES[:1] if effort.quick else _CHUNK_SIZES:
            log_progress(f"{amounts}, {chunk_size} rows")
            draws = [
                judge_draw(X, data.sensitive_features, chunk_size, seed) for seed in range(n_draws)
            ]
            lines.append([amounts, f"{chunk_size:,}", *shares_of_alarms(draws)])
    explanation = _EXPLANATION.format(reference=_N_REFERENCE, draws=n_draws)
    return SectionContent(f"{explanation}\n\n{format_table(_HEADER, lines)}")


def take_logarithms(X: FloatArray, names: Sequence[str]) -> FloatArray:
    """Return the rows with the logarithms of amounts of money, which keep their sign."""
    is_amount = [name.startswith(_AMOUNTS) for name in names]
    return np.where(is_amount, np.sign(X) * np.log1p(np.abs(X)), X)


def judge_draw(X: FloatArray, groups: Labels, chunk_size: int, seed: int) -> Alarms:
    """Draw reference and chunk, and judge the chunk by both methods, before and after a shuffle."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(X))
    reference = order[:_N_REFERENCE]
    positions = order[_N_REFERENCE : _N_REFERENCE + chunk_size]
    earlier = X[order[_N_REFERENCE + chunk_size : _N_REFERENCE + 2 * chunk_size]]
    earlier_groups = groups[order[_N_REFERENCE + chunk_size : _N_REFERENCE + 2 * chunk_size]]
    chunk = X[positions]
    labels = groups[positions]
    shuffled = shuffle_columns(chunk, labels == _SHUFFLED, rng)
    pooled = PooledDrift(X[reference], chunk_size)
    fair = FairPCA(pooled.n_components, scale=True)
    fair.fit(X[reference], sensitive_features=groups[reference])
    same_monitor = Monitor(fair.subspace_, level=_LEVEL).add(chunk, labels)
    shuffled_monitor = Monitor(fair.subspace_, level=_LEVEL).add(shuffled, labels)
    is_group = labels == _SHUFFLED
    errors_before = errors_of_rows(fair, earlier[earlier_groups == _SHUFFLED])
    return Alarms(
        pooled_same=pooled.has_alarm(chunk),
        pooled_shuffled=pooled.has_alarm(shuffled),
        same=bool(same_monitor.alarms),
        shuffled=_SHUFFLED in shuffled_monitor.alarms,
        is_unknown=_SHUFFLED in shuffled_monitor.unknown_groups,
        ranks_same=have_risen(errors_of_rows(fair, chunk[is_group]), errors_before),
        ranks_shuffled=have_risen(errors_of_rows(fair, shuffled[is_group]), errors_before),
    )


def errors_of_rows(fair: FairPCA, rows: FloatArray) -> FloatArray:
    """Return the squared residual of each row, (n,), in standardized units."""
    residuals = rows - fair.inverse_transform(fair.transform(rows))
    scale = fair.subspace_.scale
    assert scale is not None
    return np.asarray(((residuals / scale) ** 2).sum(axis=1))


def have_risen(errors: FloatArray, earlier: FloatArray) -> bool:
    """Whether errors of rows are larger than earlier ones, by their ranks."""
    # A first look has half of alpha, in two tails, for each of four groups.
    level = (1 - _LEVEL) / 2 / 2 / _N_GROUPS
    return bool(mannwhitneyu(errors, earlier, alternative="greater").pvalue < level)


def shuffle_columns(
    rows: FloatArray, is_shuffled: npt.NDArray[np.bool_], rng: np.random.Generator
) -> FloatArray:
    """Return the rows with each column shuffled by itself among some of them."""
    result = rows.copy()
    result[is_shuffled] = rng.permuted(rows[is_shuffled], axis=0)
    return result


def shares_of_alarms(draws: Sequence[Alarms]) -> list[str]:
    """Format the share of draws with each alarm."""
    figures: list[Callable[[Alarms], bool]] = [
        lambda draw: draw.pooled_same,
        lambda draw: draw.pooled_shuffled,
        lambda draw: draw.same,
        lambda draw: draw.shuffled,
        lambda draw: draw.is_unknown,
        lambda draw: draw.ranks_same,
        lambda draw: draw.ranks_shuffled,
    ]
    return [f"{np.mean([figure(draw) for draw in draws]):.1%}" for figure in figures]
