"""Times of a fair fit and of every PCA solver of scikit-learn, on the same rows and in turns."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
from sklearn.decomposition import PCA

from benchmarks.effort import Effort
from benchmarks.measurement import median_seconds_and_counts
from benchmarks.rows import LabeledRows
from fairspan import FairPCA, GroupMoments

SOLVERS = ("auto", "covariance_eigh", "randomized", "arpack")
# scikit-learn's covariance_eigh forms a p x p matrix; with more features it would run for hours.
_MAX_FEATURES = 5000


@dataclass(frozen=True)
class PCAComparison:
    """Times in seconds of a fair fit and of PCA, and the certificate of the fair fit.

    Attributes
    ----------
    fair : float
        Time of `FairPCA.fit`, moments and solve.
    moments : float or None
        Time of the moments alone; None with more features than rows, where a fit needs no p x p
        matrix.
    pca : dict of str to float
        Time of each solver of scikit-learn's PCA.
    n_times : dict of str to int
        Number of times that the median of each solver is of.
    gap : float
        Of the certificate, as a share of the total variance.
    status, eigensolver : str
    n_eigenproblems : int
    """

    fair: float
    moments: float | None
    pca: dict[str, float]
    n_times: dict[str, int]
    gap: float
    status: str
    eigensolver: str
    n_eigenproblems: int

    @property
    def fastest(self) -> str:
        """The fastest solver of scikit-learn."""
        return min(self.pca, key=lambda name: self.pca[name])

    @property
    def ratio(self) -> float:
        """Time of the fair fit over that of the fastest PCA."""
        return self.fair / self.pca[self.fastest]


def compare_with_pca(
    rows: LabeledRows, d: int, effort: Effort, criterion: str = "minimax_loss"
) -> PCAComparison:
    """Time a fair fit and every PCA solver that can take the rows."""
    X, labels = rows
    model = FairPCA(d, criterion=criterion)
    runs: dict[str, Callable[[], object]] = {
        "fair": partial(model.fit, X, sensitive_features=labels)
    }
    if X.shape[1] <= X.shape[0]:
        runs["moments"] = partial(GroupMoments.from_rows, X, labels)
    pca = pca_runs(X, d)
    seconds, n_times = median_seconds_and_counts(
        runs | pca, effort.repetitions, may_be_cut=list(pca)
    )
    certificate = model.solution_
    return PCAComparison(
        fair=seconds["fair"],
        moments=seconds.get("moments"),
        pca={name: seconds[name] for name in pca},
        n_times={name: n_times[name] for name in pca},
        gap=certificate.relative_gap,
        status=certificate.status.value,
        eigensolver=certificate.eigensolver,
        n_eigenproblems=certificate.n_eigenproblems,
    )


def pca_runs(X: npt.NDArray[np.floating], d: int) -> dict[str, Callable[[], object]]:
    """Return a function for each PCA solver that can take these rows, which fits it."""
    return {
        name: partial(PCA(d, svd_solver=name, random_state=0).fit, X)
        for name in SOLVERS
        if explain_skip(name, X.shape, d) is None
    }


def explain_skip(solver: str, shape: tuple[int, ...], d: int) -> str | None:
    """Return the reason why a solver cannot take rows of this shape; None if it can."""
    if solver == "covariance_eigh" and shape[1] > _MAX_FEATURES:
        return f"forms a matrix of {shape[1]:,} x {shape[1]:,} and would run for hours"
    if solver == "arpack" and d >= min(shape):
        return "needs fewer components than rows and features"
    return None
