"""Cases whose work is counted, from all parts of the library, of some milliseconds each."""

import io
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
import scipy.sparse

import fairspan as fs
from fairspan.cli import run as run_command


@dataclass(frozen=True)
class LabeledRows:
    """Rows, and the group of each."""

    X: np.ndarray
    groups: np.ndarray

    def fit(self, n_components, **settings):
        """Fit a model on these rows."""
        return fs.FairPCA(n_components, **settings).fit(self.X, sensitive_features=self.groups)

    def moments(self):
        return fs.GroupMoments.from_rows(self.X, self.groups)


@cache
def rows(n, p, k=2, decay=0.5):
    """Normal rows of k groups with different axes; variances fall like 1 / j**(2 decay)."""
    rng = np.random.default_rng(58)
    groups = np.arange(n) % k
    X = rng.normal(size=(n, p)) * np.arange(1, p + 1) ** -decay
    for group in range(k):
        rotation = np.linalg.qr(np.eye(p) + 0.1 * rng.normal(size=(p, p)))[0]
        X[groups == group] = X[groups == group] @ rotation * (1 + group / k)
    return LabeledRows(X, groups)


@cache
def many_features():
    """Draw rows of 16 MB, compared with which a fit holds little else."""
    X = np.random.default_rng(60).normal(size=(100, 20_000))
    return LabeledRows(X, np.arange(100) % 2)


@cache
def nearly_dependent_rows():
    """Rows that lie within 1e-5 of five dimensions."""
    rng = np.random.default_rng(61)
    near = rng.normal(size=(60, 5)) @ rng.normal(size=(5, 10_000))
    return LabeledRows(near + 1e-5 * rng.normal(size=near.shape), np.arange(60) % 2)


@cache
def sparse_rows():
    dense = rows(300, 1600, decay=1.0)
    X = np.where(np.abs(dense.X) > 0.05, dense.X, 0.0)
    return LabeledRows(scipy.sparse.csr_array(X), dense.groups)


@cache
def incomplete_rows():
    complete = rows(200, 6)
    X = complete.X.copy()
    X[np.random.default_rng(59).random(X.shape) < 0.1] = np.nan
    return LabeledRows(X, complete.groups)


@cache
def fit_audited_rows():
    """Fit a model of the rows that most audits read."""
    return rows(400, 8).fit(2)


@cache
def csv_file():
    data = rows(2000, 6)
    path = Path(mkdtemp()) / "rows.csv"
    lines = [",".join([*(f"x{j}" for j in range(6)), "group"])]
    for values, group in zip(data.X.tolist(), data.groups.tolist(), strict=True):
        lines.append(",".join([*map(repr, values), f"g{group}"]))
    path.write_text("\n".join([*lines, ""]))
    return path


def fit_in_batches():
    data = rows(400, 8)
    model = fs.FairPCA(2)
    for start in range(0, 400, 40):
        batch = slice(start, start + 40)
        model.partial_fit(data.X[batch], sensitive_features=data.groups[batch])


def audit(data, model, **settings):
    return fs.audit(model, data.X, data.groups, **settings)


def run_quietly(*arguments):
    output = io.StringIO()
    with redirect_stdout(output), redirect_stderr(output):
        status = run_command([str(argument) for argument in arguments])
    assert status == 0, output.getvalue()


def save_and_load():
    path = csv_file().with_name("model.fair")
    fit_audited_rows().subspace_.save(path)
    fs.FairSubspace.load(path)


def write_page():
    data = rows(400, 8)
    fs.write_report(csv_file().with_name("page.html"), data.X, data.groups, n_components=2)


CASES: dict[str, Callable[[], object]] = {
    "fit, two groups": lambda: rows(400, 8).fit(2),
    "fit, six groups": lambda: rows(600, 20, k=6).fit(5),
    "fit, 32 groups": lambda: rows(1600, 20, k=32).fit(5),
    "fit, 100 features": lambda: rows(500, 100).fit(10),
    "fit, small subspaces": lambda: rows(800, 600, decay=1.0).fit(5),
    "fit, wide": lambda: rows(60, 600).fit(5),
    "fit, wide, six groups": lambda: rows(60, 600, k=6).fit(3),
    "fit, 20,000 features": lambda: many_features().fit(2),
    "fit, 20,000 features, scaled": lambda: many_features().fit(2, scale=True, center="group"),
    "fit, 20,000 features, dropped rows": lambda: many_features().fit(2, on_missing="drop"),
    "fit, nearly dependent rows": lambda: nearly_dependent_rows().fit(2),
    "fit, sparse": lambda: sparse_rows().fit(3),
    "fit, share of variance": lambda: rows(400, 30).fit(0.8),
    "fit, share of variance, wide": lambda: rows(60, 600).fit(0.8),
    "fit, nested": lambda: rows(400, 20).fit(5, nested=True),
    "fit, scaled, by group": lambda: rows(400, 8).fit(2, scale=True, center="group"),
    "fit, minimax error": lambda: rows(600, 20, k=3).fit(5, criterion="minimax_error"),
    "fit, total error": lambda: rows(400, 20).fit(5, criterion="total_error"),
    "fit, equal error": lambda: rows(400, 20).fit(5, criterion=fs.EqualError(1.0)),
    "fit, error gap": lambda: rows(400, 20).fit(5, criterion="error_gap"),
    "fit, robust error gap": lambda: rows(400, 20).fit(5, criterion="robust_error_gap"),
    "fit, Nash welfare": lambda: rows(600, 20, k=3).fit(5, criterion="nash_welfare"),
    "fit, mean parity": lambda: rows(600, 20, k=3).fit(5, restriction=fs.MeanParity()),
    "fit, covariance parity": lambda: rows(400, 20).fit(
        5, restriction=fs.CovarianceParity(n_directions=10)
    ),
    "fit, missing cells": lambda: incomplete_rows().fit(2, on_missing="em"),
    "partial_fit, ten batches": fit_in_batches,
    "transform": lambda: fit_audited_rows().transform(rows(400, 8).X),
    "save and load": save_and_load,
    "verify": lambda: fs.verify(fit_audited_rows(), rows(400, 8).X, rows(400, 8).groups),
    "audit, two groups": lambda: audit(rows(400, 8), fit_audited_rows()),
    "audit, 100 features": lambda: audit(rows(500, 100), rows(500, 100).fit(10)),
    "audit, one pass": lambda: audit(rows(400, 8), fit_audited_rows(), folds=None),
    "fairspan fit": lambda: run_quietly(
        "fit", csv_file(), "--group", "group", "-d", 2, "-o", csv_file().with_name("cli.fair")
    ),
    "fairspan audit": lambda: run_quietly("audit", csv_file(), "--group", "group", "-d", 2),
    "report": write_page,
}
