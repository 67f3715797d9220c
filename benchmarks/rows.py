"""Rows to measure on: the real ones of the data folder, and made ones of any shape."""

import os
from pathlib import Path

import numpy as np
import numpy.typing as npt

from reproduction.data import load, load_faces

FloatArray = npt.NDArray[np.float64]
Labeled = tuple[FloatArray, npt.NDArray[np.str_] | npt.NDArray[np.int_]]

FOLDER = Path(
    os.environ.get("FAIRSPAN_DATA", Path(__file__).parents[2] / "shared" / "data")
).absolute()
_MOST_FACTORS, _BLOCK = 100, 100_000


def missing(file: str | None) -> str | None:
    """Why a real data set cannot be had; None if it can, or if no file is needed."""
    if file is None or (FOLDER / file).is_file():
        return None
    return f"{file} is not in {FOLDER}; name the folder that holds it with FAIRSPAN_DATA"


def standardized(X: FloatArray) -> FloatArray:
    """Each column less its mean, divided by its standard deviation (ddof 0) unless constant."""
    deviation = X.std(axis=0)
    return np.asarray((X - X.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0))


def table(name: str, group: str | None = None, integer_labels: bool = False) -> Labeled:
    """Standardized rows of a data set, labels as the file spells them or as whole numbers."""
    found = load(name, FOLDER, group)
    labels, codes = (
        found.sensitive_features,
        np.unique(found.sensitive_features, return_inverse=True),
    )
    return standardized(found.X), codes[1] if integer_labels else labels


def faces(n_rows: int | None = None) -> Labeled:
    """Labeled Faces in the Wild, 49 x 36 pixels, by gender; the first rows of them or all."""
    found = load_faces(FOLDER)
    return found.X[:n_rows].copy(), found.sensitive_features[:n_rows]


def made(n: int, p: int, k: int = 2, seed: int = 0) -> Labeled:
    """Rows of k groups, whole numbers, that share up to 100 factors but weigh them differently.

    The variances of the factors fall like 1 / j, with noise beneath; the first group has half of
    the rows, the others share the rest.
    """
    rng = np.random.default_rng(seed)
    r = min(p, _MOST_FACTORS)
    spread = np.arange(1, r + 1) ** -0.5 * rng.uniform(0.2, 2.0, (k, r))
    directions = rng.standard_normal((r, p)) / p**0.5
    means = rng.standard_normal((k, p)) / p**0.5
    labels = np.maximum(rng.integers(2 - k, k, n), 0)
    # Every group is there, however few the rows are.
    labels[:k] = np.arange(k)
    X = np.empty((n, p))
    for start in range(0, n, _BLOCK):
        own = labels[start : start + _BLOCK]
        rows = (rng.standard_normal((len(own), r)) * spread[own]) @ directions
        rows += means[own]
        rows += rng.standard_normal(rows.shape) * (0.1 / p**0.5)
        X[start : start + _BLOCK] = rows
    return X, labels
