"""Rows to measure on: data sets of the data folder, and synthetic rows of any shape."""

import os
from pathlib import Path

import numpy as np
import numpy.typing as npt

from reproduction.data import load, load_faces

FloatArray = npt.NDArray[np.float64]
LabeledRows = tuple[FloatArray, npt.NDArray[np.str_] | npt.NDArray[np.int_]]

DATA_FOLDER = Path(
    os.environ.get("FAIRSPAN_DATA", Path(__file__).parents[2] / "shared" / "data")
).absolute()
_MAX_FACTORS = 100
# Synthetic rows are drawn in blocks of this many, to need little memory besides themselves.
_BLOCK_ROWS = 100_000


def explain_missing(file: str | None) -> str | None:
    """Return a message if a file is not in the data folder; None if it is, or if `file` is None."""
    if file is None or (DATA_FOLDER / file).is_file():
        return None
    return f"{file} is not in {DATA_FOLDER}; name the folder that holds it with FAIRSPAN_DATA"


def standardize(X: FloatArray) -> FloatArray:
    """Subtract each column's mean, and divide by its standard deviation unless it is constant."""
    deviation = X.std(axis=0)
    return np.asarray((X - X.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0))


def load_table(name: str, group: str | None = None, integer_labels: bool = False) -> LabeledRows:
    """Load standardized rows of a data set, with labels as in the file or as integers."""
    data = load(name, DATA_FOLDER, group)
    if not integer_labels:
        return standardize(data.X), data.sensitive_features
    _, codes = np.unique(data.sensitive_features, return_inverse=True)
    return standardize(data.X), codes


def load_faces_by_gender(n_rows: int | None = None) -> LabeledRows:
    """Load Labeled Faces in the Wild, 49 x 36 pixels; the first `n_rows` of them, or all."""
    data = load_faces(DATA_FOLDER)
    return data.X[:n_rows].copy(), data.sensitive_features[:n_rows]


def make_embeddings(n: int, p: int, k: int, seed: int = 0) -> LabeledRows:
    """Draw n rows like those of embeddings, of k groups, with labels 0 to k - 1.

    Variances fall like i^-1.2 along directions that are not the features, about means that are
    large for some features. Each group scales the directions by up to about a half, and turns them.
    """
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, k, n)
    directions = np.linalg.qr(rng.standard_normal((p, p)))[0]
    rows = np.empty((n, p))
    for group in range(k):
        deviations = np.arange(1, p + 1) ** -0.6 * np.exp(0.25 * rng.standard_normal(p))
        turn = np.linalg.qr(np.eye(p) + 0.02 * rng.standard_normal((p, p)))[0]
        in_group = labels == group
        coordinates = rng.standard_normal((int(in_group.sum()), p)) * deviations
        rows[in_group] = coordinates @ (directions @ turn).T + 0.1 * rng.standard_normal(p)
    return rows, labels


def make_rows(n: int, p: int, k: int = 2, seed: int = 0) -> LabeledRows:
    """Draw n rows of k groups that share up to 100 factors but weigh them differently.

    The variances of the factors fall like 1 / j, with noise beneath. Labels are 0 to k - 1; the
    first group has half of the rows, the others share the rest.
    """
    rng = np.random.default_rng(seed)
    n_factors = min(p, _MAX_FACTORS)
    deviations = np.arange(1, n_factors + 1) ** -0.5 * rng.uniform(0.2, 2.0, (k, n_factors))
    directions = rng.standard_normal((n_factors, p)) / p**0.5
    means = rng.standard_normal((k, p)) / p**0.5
    labels = np.maximum(rng.integers(2 - k, k, n), 0)
    # No group is empty, however few the rows are.
    labels[:k] = np.arange(k)
    X = np.empty((n, p))
    for start in range(0, n, _BLOCK_ROWS):
        block_labels = labels[start : start + _BLOCK_ROWS]
        factors = rng.standard_normal((len(block_labels), n_factors)) * deviations[block_labels]
        rows = factors @ directions
        rows += means[block_labels]
        rows += rng.standard_normal(rows.shape) * (0.1 / p**0.5)
        X[start : start + _BLOCK_ROWS] = rows
    return X, labels
