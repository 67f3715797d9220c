"""Methods that hide the group: restrictions of fairspan, and published methods by their formulas.

Every method is fitted on training rows: it takes standardized rows X (n, p), their group (0 or 1),
their label (0 or 1) and the number of components d, and returns a function that reduces rows, given
their groups. The formulas are those of the cited papers; none of their code is used.
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

# Share of the directions that Kleindessner et al. (2023) keep: those whose variances differ least.
_KEPT_SHARE = 0.85


def fit_pca(X: FloatArray, group: Bits, label: Bits, d: int) -> Reduce:
    """Fit ordinary PCA."""
    model = PCA(d).fit(X)
    return lambda rows, _: np.asarray(model.transform(rows))


def fit_restricted(
    restriction: MeanParity | CovarianceParity, X: FloatArray, group: Bits, label: Bits, d: int
) -> Reduce:
    """Fit fair PCA with the smallest total error that a restriction allows."""
    model = FairPCA(d, criterion="total_error", restriction=restriction)
    model.fit(X, label, sensitive_features=group)
    return lambda rows, _: np.asarray(model.transform(rows))


def fit_correlation_remover(X: FloatArray, group: Bits, label: Bits, d: int) -> Reduce:
    """Fit PCA after CorrelationRemover of fairlearn, which regresses each feature on the group."""
    remover_type: Any = import_module("fairlearn.preprocessing").CorrelationRemover
    remover = remover_type(sensitive_feature_ids=[X.shape[1]]).fit(np.column_stack([X, group]))

    def residuals(rows: FloatArray, row_groups: Bits) -> FloatArray:
        return np.asarray(remover.transform(np.column_stack([rows, row_groups])))

    model = PCA(d).fit(residuals(X, group))
    return lambda rows, row_groups: np.asarray(model.transform(residuals(rows, row_groups)))


def fit_leace(X: FloatArray, group: Bits, label: Bits, d: int) -> Reduce:
    """Fit PCA after LEACE (Belrose et al. 2023, theorem 4.3), which erases the group.

    r(x) = x - W^+ P W (x - m), with W = (S^1/2)^+ the whitening of the covariance S, and P the
    projection onto the span of W Cov(x, z).
    """
    mean = X.mean(axis=0)
    values, vectors = np.linalg.eigh(np.cov(X.T, bias=True))
    # Directions without variance but for rounding are left out of S^1/2 and of its inverse.
    varies = values > values[-1] * len(values) * np.finfo(np.float64).eps
    root = vectors[:, varies] * np.sqrt(values[varies])
    whitening = (vectors[:, varies] / np.sqrt(values[varies])).T
    direction = whitening @ ((X - mean).T @ (group - group.mean()) / len(X))
    direction /= np.linalg.norm(direction)
    eraser = np.eye(X.shape[1]) - np.outer(root @ direction, direction @ whitening)
    model = PCA(d).fit((X - mean) @ eraser.T)
    return lambda rows, _: np.asarray(model.transform((rows - mean) @ eraser.T))


def fit_kleindessner(
    X: FloatArray, group: Bits, label: Bits, d: int, *, covariances: bool = False
) -> Reduce:
    """Fit fair PCA of Kleindessner et al. (2023): equal means, and nearly equal covariances.

    It is PCA in the null space R of (z - mean)' X, their section 3.1; with the covariances, in the
    span of the eigenvectors of R'(C_1 - C_0)R of the smallest absolute eigenvalues, section 3.3.
    """
    mean = X.mean(axis=0)
    mean_difference = (X - mean).T @ (group - group.mean())
    basis = np.linalg.svd(mean_difference[:, None])[0][:, 1:]
    if covariances:
        first, second = (np.cov((X[group == g] @ basis).T, bias=True) for g in (0, 1))
        values, vectors = np.linalg.eigh(first - second)
        most_equal = np.argsort(np.abs(values))[: int(_KEPT_SHARE * X.shape[1])]
        basis = basis @ vectors[:, most_equal]
    model = PCA(d).fit((X - mean) @ basis)
    return lambda rows, _: np.asarray(model.transform((rows - mean) @ basis))


_RESTRICTIONS: Mapping[str, MeanParity | CovarianceParity] = {
    "`MeanParity()`": MeanParity(),
    "`MeanParity(oblique=True)`": MeanParity(oblique=True),
    '`MeanParity(within_classes="all")`': MeanParity(within_classes="all"),
    "`CovarianceParity()`": CovarianceParity(),
    "`CovarianceParity(tolerance=0.0)`": CovarianceParity(tolerance=0.0),
}
# A star marks methods that need the group of every row that they reduce.
METHODS: Mapping[str, Method] = {
    "PCA": fit_pca,
    **{name: partial(fit_restricted, restriction) for name, restriction in _RESTRICTIONS.items()},
    "Kleindessner et al., means": fit_kleindessner,
    "Kleindessner et al., covariances": partial(fit_kleindessner, covariances=True),
    "LEACE, PCA": fit_leace,
    **({"`CorrelationRemover`, PCA *": fit_correlation_remover} if find_spec("fairlearn") else {}),
}
