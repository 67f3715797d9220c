"""Methods that hide the group, and their cost, on held-out rows of Adult and Default Credit."""

from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from benchmarks.effort import Effort, SkippedError
from benchmarks.hiding_methods import METHODS, Bits, Method
from benchmarks.measurement import format_table, log_progress
from benchmarks.report import SectionContent
from benchmarks.rows import DATA_FOLDER, FloatArray, explain_missing
from fairspan.datasets import Dataset
from fairspan.errors import IncompatibleParameters
from fairspan.metrics import leakage, mmd
from reproduction.data import load

DIMENSIONS = (5, 10)
_SPLITS, _QUICK_ROWS = 5, 4_000
_HEADER = ("method", "variance kept", "MMD²", "linear", "boosted", "accuracy", "parity gap")
_FORMATS = ("{:.2%}", "{:.4f}", "{:.3f}", "{:.3f}", "{:.2%}", "{:.3f}")
_EXPLANATION = """\
Half of the rows, drawn at random with the same share of every group and label, fit the method and,
on its reduced rows, a logistic regression of the label. A quarter trains classifiers of the group:
these rows are new to the method, as one that makes the groups' means equal blinds every linear
classifier that learns on the same rows. All figures are of the last quarter. Features are
standardized with the mean and deviation of the first half; the group itself is not among them.
Figures are means over {splits} such splits; the last line of a table bounds their standard errors
over splits.

- *Variance kept*: the share of the variance of the last quarter that least squares on the reduced
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
    """Rows X (n, p) with their group and their label, (n,), both 0 or 1."""

    X: FloatArray
    group: Bits
    label: Bits

    def take(self, positions: Bits) -> "Rows":
        """Return the rows at some positions."""
        return Rows(self.X[positions], self.group[positions], self.label[positions])


@dataclass(frozen=True)
class Split:
    """Standardized rows in three parts.

    Attributes
    ----------
    fit : Rows
        The method and the classifier of the label are fitted on these.
    attack : Rows
        Classifiers that predict the group are trained on these.
    test : Rows
        All figures are of these.
    """

    fit: Rows
    attack: Rows
    test: Rows


@dataclass(frozen=True)
class Figures:
    """Figures of one method on the test rows, in the order of the columns of the table.

    Attributes
    ----------
    kept_variance : float
    discrepancy : float
        Squared maximum mean discrepancy.
    linear_leakage, boosted_leakage : float
        Kolmogorov-Smirnov distances of the scores of two classifiers of the group.
    accuracy, parity_gap : float
        Of a classifier of the label.
    """

    kept_variance: float
    discrepancy: float
    linear_leakage: float
    boosted_leakage: float
    accuracy: float
    parity_gap: float


def measure(effort: Effort) -> SectionContent:
    """Apply every method to both data sets, on one thread: with more, trees only wait."""
    tables = []
    smallest_group = np.inf
    n_splits = 2 if effort.quick else _SPLITS
    dimensions = DIMENSIONS[:1] if effort.quick else DIMENSIONS
    with threadpool_limits(1):
        for name, rows in data_sets(effort.quick):
            splits = [split_rows(rows, seed) for seed in range(n_splits)]
            smallest_group = min(smallest_group, np.bincount(splits[0].test.group).min())
            more_frequent = max(rows.label.mean(), 1 - rows.label.mean())
            shape = f"{len(rows.X):,} rows, {splits[0].fit.X.shape[1]} features that vary"
            for d in dimensions:
                figures = {}
                for method, fit in METHODS.items():
                    log_progress(f"{name}, d = {d}, {method}")
                    figures[method] = figures_of_splits(fit, splits, d)
                tables.append(
                    f"**{name}, d = {d}.** {shape}; the more frequent label is that of "
                    f"{more_frequent:.2%} of them.\n\n"
                    f"{format_table(_HEADER, lines_of_methods(figures))}"
                )
    explanation = _EXPLANATION.format(splits=n_splits, chance=f"{1 / np.sqrt(smallest_group):.2f}")
    if not any("CorrelationRemover" in method for method in METHODS):
        tables.append("Not installed here, so not measured: fairlearn.")
    packages = ("fairspan", "numpy", "scikit-learn", "fairlearn")
    return SectionContent("\n\n".join([explanation, *tables]), packages)


def figures_of_splits(fit: Method, splits: list[Split], d: int) -> FloatArray | None:
    """Return the figures of a method, one row for each split; None if it has no solution."""
    try:
        return np.array([astuple(evaluate(fit, split, d)) for split in splits])
    except IncompatibleParameters:
        # Covariances cannot be equal in so many dimensions.
        return None


def lines_of_methods(figures: dict[str, FloatArray | None]) -> list[list[str]]:
    """Return the lines of a table: means over the splits, and their largest standard errors."""
    lines, standard_errors = [], []
    for method, of_splits in figures.items():
        if of_splits is None:
            lines.append([method, *["-"] * len(_FORMATS)])
        else:
            lines.append([method, *format_figures(of_splits.mean(axis=0))])
            standard_errors.append(of_splits.std(axis=0, ddof=1) / np.sqrt(len(of_splits)))
    largest = np.max(standard_errors, axis=0)
    return [*lines, ["*standard error at most*", *format_figures(largest)]]


def format_figures(figures: FloatArray) -> list[str]:
    """Format one figure for each column of the table."""
    return [form.format(figure) for form, figure in zip(_FORMATS, figures, strict=True)]


def evaluate(fit: Method, split: Split, d: int) -> Figures:
    """Fit a method, reduce all three parts, and compute the figures of the test rows."""
    reduce = fit(split.fit.X, split.fit.group, split.fit.label, d)
    fit_reduced, attack_reduced, test_reduced = (
        reduce(part.X, part.group) for part in (split.fit, split.attack, split.test)
    )
    group, label = split.test.group, split.test.label
    reconstruction = LinearRegression().fit(fit_reduced, split.fit.X)
    residuals = split.test.X - reconstruction.predict(test_reduced)
    classifier = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    predicted = classifier.fit(fit_reduced, split.fit.label).predict(test_reduced)
    attack = (attack_reduced, split.attack.group, test_reduced, group)
    boosting = HistGradientBoostingClassifier(random_state=0)
    return Figures(
        kept_variance=float(1 - (residuals**2).sum() / (split.test.X**2).sum()),
        discrepancy=float(mmd(test_reduced, group, n_permutations=0)),
        linear_leakage=leakage(*attack),
        boosted_leakage=leakage(*attack, classifier=boosting),
        accuracy=float((predicted == label).mean()),
        parity_gap=float(abs(predicted[group == 1].mean() - predicted[group == 0].mean())),
    )


def split_rows(rows: Rows, seed: int) -> Split:
    """Split rows into a half and two quarters, standardized by the half."""
    strata = 2 * rows.group + rows.label
    half, rest = train_test_split(
        np.arange(len(strata)), test_size=0.5, random_state=seed, stratify=strata
    )
    attack, test = train_test_split(rest, test_size=0.5, random_state=seed, stratify=strata[rest])
    fit_rows = rows.X[half]
    varies = fit_rows.std(axis=0) > 0
    scaler = StandardScaler().fit(fit_rows[:, varies])
    scaled = Rows(scaler.transform(rows.X[:, varies]), rows.group, rows.label)
    return Split(scaled.take(half), scaled.take(attack), scaled.take(test))


def data_sets(quick: bool) -> Iterator[tuple[str, Rows]]:
    """Yield Adult by sex and Default Credit by education with their names; fewer rows if quick."""
    for file in ("adult_train.parquet", "adult_test.parquet", "default_credit.parquet"):
        if reason := explain_missing(file):
            raise SkippedError(reason)
    parts = ("adult_train", "adult_test")
    adult = [load(name, DATA_FOLDER, "sex", leave_out=["sex_male"]) for name in parts]
    yield "Adult by sex", _to_rows(adult, quick)
    yield (
        "Default Credit by education",
        _to_rows([load("default_credit", DATA_FOLDER, "education")], quick),
    )


def _to_rows(parts: Sequence[Dataset], quick: bool) -> Rows:
    """Join the parts of a data set, with groups and labels as 0 or 1."""
    X = np.vstack([part.X for part in parts])
    groups = np.concatenate([part.sensitive_features for part in parts])
    labels = np.concatenate([part.y for part in parts])
    _, group = np.unique(groups, return_inverse=True)
    _, label = np.unique(labels, return_inverse=True)
    rows = Rows(X, group, label)
    if not quick:
        return rows
    return rows.take(np.random.default_rng(0).choice(len(X), _QUICK_ROWS, replace=False))
