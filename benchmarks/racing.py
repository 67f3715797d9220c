"""A fair fit beside every solver of scikit-learn's PCA, same rows, same process, in turns."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sklearn.decomposition import PCA

from benchmarks.effort import Effort
from benchmarks.results import seconds_and_turns
from benchmarks.rows import FloatArray, Labeled
from fairspan import FairPCA, GroupMoments

SOLVERS = ("auto", "covariance_eigh", "randomized", "arpack")
# scikit-learn's covariance_eigh forms a p x p matrix; with more features it would run for hours.
_MOST_FEATURES = 5000


@dataclass(frozen=True)
class Race:
    """Seconds of a fair fit and of its rivals, and what the fit proved.

    Attributes
    ----------
    fair : float
        `FairPCA.fit`, moments and solve.
    moments : float or None
        Moments alone; None with more features than rows, where a fit needs no p x p matrix.
    rivals : dict of str to float
        Solver of scikit-learn's PCA to its time.
    turns : dict of str to int
        How many times of each rival count.
    gap : float
        Of the certificate, as a share of the total variance.
    status, eigensolver : str
    n_eigenproblems : int
    """

    fair: float
    moments: float | None
    rivals: dict[str, float]
    turns: dict[str, int]
    gap: float
    status: str
    eigensolver: str
    n_eigenproblems: int

    @property
    def best(self) -> str:
        """The fastest solver of scikit-learn."""
        return min(self.rivals, key=lambda name: self.rivals[name])

    @property
    def ratio(self) -> float:
        """Fair fit over the fastest plain PCA."""
        return self.fair / self.rivals[self.best]


def race(rows: Labeled, d: int, effort: Effort, criterion: Any = "minimax_loss") -> Race:
    """Run all on the same rows."""
    X, labels = rows
    model = FairPCA(d, criterion=criterion)
    runs: dict[str, Callable[[], object]] = {
        "fair": lambda: model.fit(X, sensitive_features=labels)
    }
    if X.shape[1] <= X.shape[0]:
        runs["moments"] = lambda: GroupMoments.from_rows(X, labels)
    rivals = plain_runs(X, d)
    seconds, turns = seconds_and_turns(runs | rivals, effort.repetitions, spared=list(rivals))
    solution = model.solution_
    return Race(
        fair=seconds["fair"],
        moments=seconds.get("moments"),
        rivals={name: seconds[name] for name in rivals},
        turns={name: turns[name] for name in rivals},
        gap=solution.relative_gap,
        status=solution.status.value,
        eigensolver=solution.eigensolver,
        n_eigenproblems=solution.n_eigenproblems,
    )


def plain_runs(X: FloatArray, d: int) -> dict[str, Callable[[], object]]:
    """Each solver that can take these rows, as a run."""
    fitting = [name for name in SOLVERS if why_not(name, X.shape, d) is None]
    return {
        name: lambda name=name: PCA(d, svd_solver=name, random_state=0).fit(X)  # type: ignore[misc]
        for name in fitting
    }


def why_not(solver: str, shape: tuple[int, ...], d: int) -> str | None:
    """Why a solver is left out; None if it is not."""
    if solver == "covariance_eigh" and shape[1] > _MOST_FEATURES:
        return f"forms a matrix of {shape[1]:,} x {shape[1]:,} and would run for hours"
    if solver == "arpack" and d >= min(shape):
        return "needs fewer components than rows and features"
    return None
