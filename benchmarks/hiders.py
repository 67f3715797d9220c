"""Methods that hide the group, each fitted on training rows: ours, and others from their formulas.

Every method takes standardized rows X (n, p), their group (0 or 1), their label (0 or 1) and the
number of components d, and returns a function of rows and their groups that reduces them. The
formulas are those of the papers that are named; no code of theirs is used.
"""

from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.decomposition import PCA

from benchmarks.rows import FloatArray
from fairspan import CovarianceParity, FairPCA, MeanParity

Bits = npt.NDArray[np.int_]
Reduce = Callable[[FloatArray, Bits], FloatArray]
Method = Callable[[FloatArray, Bits, Bits, int], Reduce]

# Kleindessner et al. (2023) keep this share of the directions, those whose variances differ least.
_KEPT_DIRECTIONS = 0.85


def plain(X: FloatArray, group: Bits, label: Bits, d: int) -> Reduce:
    """Ordinary PCA."""
    model = PCA(d).fit(X)
    return lambda rows, _: np.asarray(model.transform(rows))


def ours(
    restriction: MeanParity | CovarianceParity, X: FloatArray, group: Bits, label: Bits, d: int
) -> Reduce:
    """A restriction of this library, and the least total error that it allows."""
    model = FairPCA(d, criterion="total_error", restriction=restriction)
    model.fit(X, label, sensitive_features=group)
    return lambda rows, _: np.asarray(model.transform(rows))


def decorrelated(X: FloatArray, group: Bits, label: Bits, d: int) -> Reduce:
    """fairlearn's CorrelationRemover, which subtracts what the group tells of each feature; PCA."""
    maker: Any = import_module("fairlearn.preprocessing").CorrelationRemover
    remover = maker(sensitive_feature_ids=[X.shape[1]]).fit(np.column_stack([X, group]))

    def removed(rows: FloatArray, own: Bits) -> FloatArray:
        return np.asarray(remover.transform(np.column_stack([rows, own])))

    model = PCA(d).fit(removed(X, group))
    return lambda rows, own: np.asarray(model.transform(removed(rows, own)))


def erased(X: FloatArray, group: Bits, label: Bits, d: int) -> Reduce:
    """LEACE (Belrose et al. 2023, theorem 4.3), and PCA of what it leaves.

    r(x) = x - W^+ P W (x - m), with W = (S^1/2)^+ the whitening of the covariance S, and P the
    projection onto the span of W Cov(x, z).
    """
    mean = X.mean(axis=0)
    values, vectors = np.linalg.eigh(np.cov(X.T, bias=True))
    varies = values > values[-1] * len(values) * np.finfo(np.float64).eps
    root = vectors[:, varies] * np.sqrt(values[varies])
    whitening = (vectors[:, varies] / np.sqrt(values[varies])).T
    direction = whitening @ ((X - mean).T @ (group - group.mean()) / len(X))
    direction /= np.linalg.norm(direction)
    eraser = np.eye(X.shape[1]) - np.outer(root @ direction, direction @ whitening)
    model = PCA(d).fit((X - mean) @ eraser.T)
    return lambda rows, _: np.asarray(model.transform((rows - mean) @ eraser.T))


def kleindessner(
    X: FloatArray, group: Bits, label: Bits, d: int, *, covariances: bool = False
) -> Reduce:
    """Fair PCA of Kleindessner et al. (2023): equal means, and nearly equal covariances.

    PCA in the null space R of (z - mean)' X, their section 3.1; with the covariances, in the span
    of the eigenvectors of R'(C_1 - C_0)R of the smallest absolute eigenvalues, section 3.3.
    """
    mean = X.mean(axis=0)
    apart = (X - mean).T @ (group - group.mean())
    basis = np.linalg.svd(apart[:, None])[0][:, 1:]
    if covariances:
        first, second = (np.cov((X[group == g] @ basis).T, bias=True) for g in (0, 1))
        values, vectors = np.linalg.eigh(first - second)
        kept = np.argsort(np.abs(values))[: int(_KEPT_DIRECTIONS * X.shape[1])]
        basis = basis @ vectors[:, kept]
    model = PCA(d).fit((X - mean) @ basis)
    return lambda rows, _: np.asarray(model.transform((rows - mean) @ basis))


_OURS = (
    MeanParity(),
    MeanParity(oblique=True),
    MeanParity(within_classes="all"),
    CovarianceParity(),
    CovarianceParity(tolerance=0.0),
)
_NAMES = (
    "`MeanParity()`",
    "`MeanParity(oblique=True)`",
    '`MeanParity(within_classes="all")`',
    "`CovarianceParity()`",
    "`CovarianceParity(tolerance=0.0)`",
)
# A star marks what needs the group of every row that it reduces.
METHODS: Mapping[str, Method] = {
    "PCA": plain,
    **{name: partial(ours, each) for name, each in zip(_NAMES, _OURS, strict=True)},
    "Kleindessner et al., means": kleindessner,
    "Kleindessner et al., covariances": partial(kleindessner, covariances=True),
    "LEACE, PCA": erased,
    **({"`CorrelationRemover`, PCA *": decorrelated} if find_spec("fairlearn") else {}),
}
