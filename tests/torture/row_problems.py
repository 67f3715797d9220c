"""Problems of rows that take other paths through the library than a small table does."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

import fairspan as fs

FloatArray = np.ndarray
CENTERS = ("global", "group", "none")
INCOMPLETE_KINDS = (
    "number",
    "category",
    "twice",
    "constant",
    "far",
    "units",
    "whole",
    "sum",
    "rare",
    "long",
)


@dataclass(frozen=True, eq=False)
class RowProblem:
    """Rows with groups, and the settings of a fit.

    Attributes
    ----------
    values : (n, p) array
    groups : (n,) array
    n_components : int
    settings : dict
        Parameters of FairPCA.
    extra_columns : (n, q) array, optional
        Columns that are no features; the reduced rows must be uncorrelated with them.
    complete : (n, p) array, optional
        The values before cells were removed.
    """

    values: FloatArray
    groups: FloatArray
    n_components: int
    settings: dict[str, Any] = field(default_factory=dict)
    extra_columns: FloatArray | None = None
    complete: FloatArray | None = None

    @property
    def size(self) -> int:
        return self.values.size

    @property
    def table(self) -> FloatArray:
        """All columns: the features, then the extra ones."""
        if self.extra_columns is None:
            return self.values
        return np.hstack([self.values, self.extra_columns])

    @property
    def is_relative(self) -> bool:
        """Whether the criterion divides errors by the groups' variances."""
        return bool(getattr(self.settings["criterion"], "relative", False))

    def code(self) -> str:
        return f"rows {self.values.shape}, d = {self.n_components}, {self.settings}"

    def unfitted(self) -> fs.FairPCA:
        return fs.FairPCA(self.n_components, **self.settings)

    def fit(self, table: Any = None) -> fs.FairPCA:
        """Fit to the rows, or to the same rows in another form."""
        rows = self.table if table is None else table
        return self.unfitted().fit(rows, sensitive_features=self.groups)

    def moments(self) -> fs.GroupMoments:
        return fs.GroupMoments.from_rows(self.table, self.groups)


Maker = Callable[[np.random.Generator], RowProblem]


def draw_thin(rng: np.random.Generator) -> RowProblem:
    """Draw fewer rows than features, with any center and restriction."""
    k = 2 if rng.random() < 0.6 else int(rng.integers(3, 5))
    n_each = int(rng.integers(4, 24))
    p = 2 * k * n_each + int(rng.integers(5, 300))
    covariance_parity = fs.CovarianceParity(int(rng.integers(4, p - 1)))
    restrictions = [None, fs.MeanParity(), fs.MeanParity(oblique=True), covariance_parity]
    # Covariance parity is defined for two groups.
    restriction = restrictions[int(rng.integers(4 if k == 2 else 3))]
    settings: dict[str, Any] = {"criterion": _draw_criterion(rng, k)}
    settings["center"] = str(rng.choice(CENTERS))
    if restriction is not None:
        settings["restriction"] = restriction
    groups = np.repeat(np.arange(k), n_each)
    values = _draw_values(rng, k, n_each, p)
    return RowProblem(values, groups, int(rng.integers(1, 5)), settings)


def draw_nearly_dependent(rng: np.random.Generator) -> RowProblem:
    """Draw fewer rows than features, with singular values down to 1e-7 of the largest."""
    problem = draw_thin(rng)
    noise = rng.standard_normal(problem.values.shape)
    left_vectors, singular_values, right_vectors = np.linalg.svd(noise, full_matrices=False)
    smallest = 10.0 ** -rng.uniform(1, 7)
    singular_values = np.geomspace(1.0, smallest, len(singular_values))
    return replace(problem, values=(left_vectors * singular_values) @ right_vectors)


def draw_few_directions(rng: np.random.Generator) -> RowProblem:
    """Draw such rows of two groups, and about as many directions as they vary along, or fewer."""
    problem = draw_nearly_dependent(rng)
    n = len(problem.values)
    n_directions = int(rng.integers(problem.n_components, n + 1))
    settings = {**problem.settings, "restriction": fs.CovarianceParity(n_directions)}
    return replace(problem, groups=np.arange(n) * 2 // n, settings=settings)


def draw_single_subspace(rng: np.random.Generator) -> RowProblem:
    """Draw a problem with as many components as mean parity leaves, so one subspace is allowed."""
    k = 2 if rng.random() < 0.7 else int(rng.integers(3, 5))
    p = int(rng.integers(k, 8))
    n_each = int(rng.integers(9, 30))
    values = rng.standard_normal((k * n_each, p)) * 10.0 ** rng.uniform(-2, 2, p)
    values += (10.0 ** rng.uniform(-1, 3) * rng.standard_normal((k, p))).repeat(n_each, axis=0)
    settings = {"criterion": _draw_criterion(rng, k), "restriction": fs.MeanParity()}
    settings["center"] = str(rng.choice(CENTERS))
    return RowProblem(values, np.repeat(np.arange(k), n_each), p - k + 1, settings)


def draw_small(rng: np.random.Generator) -> RowProblem:
    """Draw a table of few features."""
    k, p = int(rng.integers(2, 5)), int(rng.integers(2, 12))
    n_each = int(rng.integers(3, 40))
    settings = {"criterion": _draw_criterion(rng, k), "center": str(rng.choice(CENTERS))}
    if rng.random() < 0.3:
        settings["restriction"] = fs.MeanParity()
    values = _draw_values(rng, k, n_each, p) + (1e5 if rng.random() < 0.2 else 0.0)
    groups = np.repeat(np.arange(k), n_each)
    return RowProblem(values, groups, int(rng.integers(1, p + 1)), settings)


def draw_with_extra_columns(rng: np.random.Generator) -> RowProblem:
    """Draw features, and columns with which the reduced rows must be uncorrelated."""
    k, p, n_each = int(rng.integers(1, 4)), int(rng.integers(4, 10)), int(rng.integers(12, 40))
    values = _draw_values(rng, k, n_each, p)
    groups = np.repeat(np.arange(k), n_each)
    n_extra = int(rng.integers(1, 3))
    within_groups = bool(rng.random() < 0.4)
    extra = rng.standard_normal((k * n_each, n_extra)) * 10.0 ** rng.uniform(-3, 3, n_extra)
    extra[:, 0] += rng.choice([0.0, 1.0, 1e4]) + rng.choice([0.0, 1.0]) * groups
    # Half of the time the features depend strongly on these columns.
    if rng.random() < 0.5:
        coefficients = rng.normal(size=(n_extra, p))
        values = values + values.std() * (extra / extra.std(axis=0)) @ coefficients
    n_free = p - n_extra * (k if within_groups else 1)
    restriction = fs.Uncorrelated(range(p, p + n_extra), within_groups=within_groups)
    settings = {"criterion": _draw_criterion(rng, k), "restriction": restriction}
    settings["center"] = str(rng.choice(CENTERS))
    n_components = int(rng.integers(1, max(n_free, 1) + 1))
    return RowProblem(values, groups, n_components, settings, extra)


def draw_large_column(rng: np.random.Generator, *, p: int) -> RowProblem:
    """Draw p columns, the first of which is large and uncorrelated with the others.

    The first component is this column, so d components are d - 1 components of the others.
    """
    k = int(rng.integers(2, 4))
    n_each = p + int(rng.integers(50, 300))
    deviations = np.arange(1, p) ** -rng.uniform(0.3, 1)
    parts = [
        (1 + g) * (rng.standard_normal((n_each, p - 1)) * deviations)[:, rng.permutation(p - 1)]
        for g in range(k)
    ]
    criteria = [fs.MinimaxLoss(), fs.MinimaxError(), fs.ErrorGap(0.5)]
    settings: dict[str, Any] = {"criterion": criteria[int(rng.integers(len(criteria)))]}
    settings["center"] = str(rng.choice(CENTERS))
    groups = np.tile(np.repeat(np.arange(k), n_each), 2)
    others = np.vstack(parts)
    large = np.full((len(others), 1), 10.0 ** rng.uniform(3, 7))
    values = np.vstack([np.hstack([large, others]), np.hstack([-large, others])])
    return RowProblem(values, groups, int(rng.integers(2, 4)), settings)


def draw_many_features(rng: np.random.Generator, *, is_sparse: bool) -> RowProblem:
    """Draw rows whose features have decreasing variances, in another order for each group."""
    k = 2 if rng.random() < 0.6 else 3
    p = int(rng.integers(30, 120)) if is_sparse else int(rng.integers(500, 640))
    n_each = int(rng.integers(20, 90)) if is_sparse else p + 20
    deviations = np.arange(1, p + 1) ** -rng.uniform(0.3, 1)
    values = rng.standard_normal((k * n_each, p)) * deviations
    if is_sparse:
        values *= rng.random(values.shape) < 0.2
    for g in range(k):
        members = slice(g * n_each, (g + 1) * n_each)
        values[members] = values[members][:, rng.permutation(p)]
    if rng.random() < 0.3:
        values[:, 0] *= 10.0 ** rng.uniform(1, 5)
    settings = {"criterion": _draw_criterion(rng, k), "center": str(rng.choice(CENTERS))}
    if is_sparse and rng.random() < 0.3:
        settings["restriction"] = fs.MeanParity()
    groups = np.repeat(np.arange(k), n_each)
    return RowProblem(values, groups, int(rng.integers(1, 6)), settings)


def draw_incomplete(rng: np.random.Generator) -> RowProblem:
    """Draw columns of many kinds, which may determine each other, with missing cells."""
    n, k = int(rng.integers(30, 600)), int(rng.integers(2, 4))
    kinds = rng.choice(INCOMPLETE_KINDS, rng.integers(2, 7))
    columns = [_draw_columns(rng, kind, n) for kind in kinds]
    values = np.hstack(columns).astype(np.float64)
    sizes = np.array([6, 3, 1])[:k]
    groups = rng.choice(["a", "b", "c"][:k], n, p=sizes / sum(sizes))
    is_missing = rng.random(values.shape) < rng.choice([0.02, 0.1, 0.3, 0.5])
    if rng.random() < 0.5:
        is_missing &= (groups == groups[0])[:, None]
    is_missing[np.arange(n), rng.integers(0, values.shape[1], n)] = False
    settings = {"on_missing": "em", "scale": bool(rng.integers(2))}
    n_components = int(rng.integers(1, values.shape[1]))
    incomplete = np.where(is_missing, np.nan, values)
    return RowProblem(incomplete, groups, n_components, settings, complete=values)


def _draw_columns(rng: np.random.Generator, kind: str, n: int) -> FloatArray:
    x = rng.standard_normal((n, rng.integers(1, 4)))
    # All kinds are drawn every time: seeds of known regressions depend on it.
    return {
        "category": rng.integers(0, 5, n)[:, None] == np.arange(6.0),
        "twice": np.hstack([x, x]),
        "constant": np.full_like(x, 3.0),
        "far": x + 1e7,
        "units": x * 10.0 ** rng.integers(-6, 7),
        "whole": np.round(3 * x),
        "sum": np.hstack([x, x.sum(axis=1, keepdims=True)]),
        "rare": rng.random(x.shape) < 3 / n,
        "long": np.exp(2 * x),
    }.get(kind, x)


def _draw_criterion(rng: np.random.Generator, k: int) -> Any:
    criteria = [
        fs.MinimaxLoss(),
        fs.MinimaxLoss(relative=True),
        fs.MinimaxError(),
        fs.MinimaxError(relative=True),
        fs.TotalError(),
        fs.ErrorGap(float(rng.choice([0.1, 0.5, 2.0]))),
        fs.LeastVariance(),
    ]
    if k == 2:
        criteria += [fs.RobustErrorGap(float(rng.choice([0.1, 0.5, 2.0])), 0.5)]
    return criteria[int(rng.integers(len(criteria)))]


def _draw_values(rng: np.random.Generator, k: int, n_each: int, p: int) -> FloatArray:
    """Draw rows that are dense, mostly zero, counts, repeated, or of rank three."""
    n = k * n_each
    kind = int(rng.integers(5))
    if kind == 0:
        values = rng.standard_normal((n, p)) * np.arange(1, p + 1) ** -rng.uniform(0, 1)
    elif kind == 1:
        values = rng.random((n, p)) * (rng.random((n, p)) < rng.choice([0.01, 0.03, 0.2]))
    elif kind == 2:
        values = rng.poisson(rng.choice([0.02, 0.1, 1.0]), (n, p)).astype(float)
    elif kind == 3:
        values = rng.standard_normal((n, p))[rng.integers(0, max(n // 2, 1), n)]
    else:
        values = rng.standard_normal((n, 3)) @ rng.standard_normal((3, p))
    if rng.random() < 0.3:
        values[:, int(rng.integers(p))] *= 10.0 ** rng.uniform(2, 6)
    if rng.random() < 0.3:
        values[:n_each] *= 10.0 ** rng.uniform(-3, 3)
    return values
