"""What hides the group, and what it costs: held-out rows of Adult and of Default Credit."""

from collections.abc import Callable, Iterator
from dataclasses import astuple, dataclass
from functools import partial
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from benchmarks.effort import Effort, SkippedError
from benchmarks.hiders import METHODS, Bits, Method, Reduce
from benchmarks.report import Measured
from benchmarks.results import announce, table_of
from benchmarks.rows import FOLDER, FloatArray, missing
from fairspan.errors import IncompatibleParameters
from fairspan.metrics import leakage, mmd
from reproduction.data import load

DIMENSIONS = (5, 10)
_SPLITS, _QUICK_ROWS = 5, 4_000
_HEADER = ("method", "variance kept", "MMD²", "linear", "boosted", "accuracy", "parity gap")
_FORMATS = ("{:.2%}", "{:.4f}", "{:.3f}", "{:.3f}", "{:.2%}", "{:.3f}")
_READ = """\
Half of the rows, drawn at random with the same share of every group and label, fit the method and,
on its reduced rows, a logistic regression of the label. A quarter trains whoever looks for the
group: these rows are new to the method, as one that makes the groups' means equal blinds every
linear classifier that learns on the same rows. The last quarter judges. Features are standardized
with the mean and deviation of the first half; the group itself is not among them. Figures are means
over {splits} such splits; the last line of a table bounds their standard errors over splits.

- *Variance kept*: the share of the variance of the judging rows that least squares on the reduced
  rows explains.
- *MMD²*: the squared maximum mean discrepancy between the groups' reduced rows (Gaussian kernel,
  median distance); 0 where their distributions agree, and below 0 by chance alone.
- *Linear*, *boosted*: how far the scores of a logistic regression and of gradient-boosted trees
  set the groups apart (Kolmogorov-Smirnov distance, `fairspan.metrics.leakage`); 0 not at all,
  1 wholly. By chance alone it is about {chance}.
- *Accuracy*, *parity gap*: of the logistic regression of the label, the share of rows that it gets
  right, and how far the groups' shares of positive predictions lie apart.

A star marks a method that needs the group of every row that it reduces; the others do not. A dash
stands where the covariances cannot be equal in so many dimensions, in one of the splits at least.
Lines that agree but for the trees are one subspace, found in two ways; the sign of a component
moves the thresholds of the trees."""


@dataclass(frozen=True)
class Rows:
    """Rows with their group and their label, both 0 or 1."""

    X: FloatArray
    group: Bits
    label: Bits

    def taken(self, positions: Bits) -> "Rows":
        """Some of these rows."""
        return Rows(self.X[positions], self.group[positions], self.label[positions])


@dataclass(frozen=True)
class Split:
    """Standardized rows that fit, that train who looks for the group, and that judge."""

    fit: Rows
    look: Rows
    judge: Rows


@dataclass(frozen=True)
class Hidden:
    """What one method leaves of the judging rows, and of the group in them."""

    kept: float
    discrepancy: float
    linear: float
    boosted: float
    accuracy: float
    gap: float


def measure(effort: Effort) -> Measured:
    """Every method on both data sets; one thread, as trees wait for each other with more."""
    parts, smallest, seeds = [], np.inf, range(2 if effort.quick else _SPLITS)
    with threadpool_limits(1):
        for name, rows in data_sets(effort.quick):
            splits = [split(rows, seed) for seed in seeds]
            smallest = min(smallest, np.bincount(splits[0].judge.group).min())
            frequent = max(rows.label.mean(), 1 - rows.label.mean())
            head = f"{len(rows.X):,} rows, {splits[0].fit.X.shape[1]} features that vary"
            for d in DIMENSIONS[:1] if effort.quick else DIMENSIONS:
                found = {}
                for method, fit in METHODS.items():
                    announce(f"{name}, d = {d}, {method}")
                    found[method] = figures_of(fit, splits, d)
                parts.append(
                    f"**{name}, d = {d}.** {head}; the more frequent label is that of "
                    f"{frequent:.2%} of them.\n\n{table_of(_HEADER, lines_of(found))}"
                )
    read = _READ.format(splits=len(seeds), chance=f"{1 / np.sqrt(smallest):.2f}")
    if not any("CorrelationRemover" in method for method in METHODS):
        parts.append("Not installed here, so not measured: fairlearn.")
    return Measured("\n\n".join([read, *parts]), ("fairspan", "numpy", "scikit-learn", "fairlearn"))


def figures_of(fit: Method, splits: list[Split], d: int) -> FloatArray | None:
    """Of one method, a line for each split; None where it has no answer."""
    try:
        return np.array([astuple(judged(partial(fit, d=d), each)) for each in splits])
    except IncompatibleParameters:  # covariances cannot be equal in so many dimensions
        return None


def lines_of(found: dict[str, FloatArray | None]) -> list[list[str]]:
    """The table: means over the splits, and how large their standard errors are at most."""
    lines = [
        [name, *(["-"] * len(_FORMATS) if each is None else shown(each.mean(axis=0)))]
        for name, each in found.items()
    ]
    answers = [each for each in found.values() if each is not None]
    errors = [each.std(axis=0, ddof=1) / np.sqrt(len(each)) for each in answers]
    return [*lines, ["*standard error at most*", *shown(np.max(errors, axis=0))]]


def shown(figures: FloatArray) -> list[str]:
    """The figures of one line."""
    return [form.format(each) for form, each in zip(_FORMATS, figures, strict=True)]


def judged(fit: Callable[[FloatArray, Bits, Bits], Reduce], rows: Split) -> Hidden:
    """Fit, reduce all three parts, and judge what is left of the last."""
    reduce = fit(rows.fit.X, rows.fit.group, rows.fit.label)
    own, looked, judging = (
        reduce(each.X, each.group) for each in (rows.fit, rows.look, rows.judge)
    )
    back = LinearRegression().fit(own, rows.fit.X)
    left = rows.judge.X - back.predict(judging)
    group, label = rows.judge.group, rows.judge.label
    known = (looked, rows.look.group, judging, group)
    decides = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    decided = decides.fit(own, rows.fit.label).predict(judging)
    return Hidden(
        kept=float(1 - (left**2).sum() / (rows.judge.X**2).sum()),
        discrepancy=float(mmd(judging, group, n_permutations=0)),
        linear=leakage(*known),
        boosted=leakage(*known, classifier=HistGradientBoostingClassifier(random_state=0)),
        accuracy=float((decided == label).mean()),
        gap=float(abs(decided[group == 1].mean() - decided[group == 0].mean())),
    )


def split(rows: Rows, seed: int) -> Split:
    """Half, a quarter and a quarter of the rows, in units of the first half."""
    strata = 2 * rows.group + rows.label
    half, other = train_test_split(
        np.arange(len(strata)), test_size=0.5, random_state=seed, stratify=strata
    )
    second, third = train_test_split(
        other, test_size=0.5, random_state=seed, stratify=strata[other]
    )
    first = rows.X[half]
    varies = first.std(axis=0) > 0
    scaler = StandardScaler().fit(first[:, varies])
    scaled = Rows(scaler.transform(rows.X[:, varies]), rows.group, rows.label)
    return Split(*(scaled.taken(each) for each in (half, second, third)))


def data_sets(quick: bool) -> Iterator[tuple[str, Rows]]:
    """Adult by sex and Default Credit by education; some of the rows where it is to be quick."""
    for file in ("adult_train.parquet", "adult_test.parquet", "default_credit.parquet"):
        if reason := missing(file):
            raise SkippedError(reason)
    parts = ("adult_train", "adult_test")
    adult = [load(name, FOLDER, "sex", leave_out=["sex_male"]) for name in parts]
    yield "Adult by sex", _rows(adult, quick)
    yield "Default Credit by education", _rows([load("default_credit", FOLDER, "education")], quick)


def _rows(parts: list[Any], quick: bool) -> Rows:
    X = np.vstack([each.X for each in parts])
    group, label = (
        np.unique(np.concatenate([getattr(each, name) for each in parts]), return_inverse=True)[1]
        for name in ("sensitive_features", "labels")
    )
    rows = Rows(X, group, label)
    if not quick:
        return rows
    return rows.taken(np.random.default_rng(0).choice(len(X), _QUICK_ROWS, replace=False))
