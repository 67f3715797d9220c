"""Fair canonical correlation of Zhou et al. (2023) and of Hou et al. (2025), on made rows.

Zhou et al. give up correlation of all rows for smaller differences between the groups' disparity
errors: how much less a group's scores correlate than those of its own best pair. Hou et al. require
that no score covaries with the group (FR-CCA). Both are computed from their formulas: the first by
gradients on the product of two Stiefel manifolds, from the ordinary pair, the second in closed
form. The columns of each group are made white, so that the disparity errors of Zhou et al. are the
losses of FairCCA, and its bound holds for them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from fairspan.cross_decomposition import FairCCA
from fairspan.displays.style import BLUE, MUTED, VERMILION
from reproduction.experiment import Cell, Effort, Result, Setting

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FloatArray = npt.NDArray[np.float64]
Pair = tuple[FloatArray, FloatArray]

N_COMPONENTS = 2
_N_X, _N_Y = 12, 10
# Rows of the groups, and the correlations of the pairs in each, as Zhou et al. have them.
_GROUP_SIZES = (1000, 150, 200)
_CORRELATIONS = (
    (0.95, 0.9, 0.85, 0.7, 0.5),
    (0.8, 0.77, 0.75, 0.7, 0.6),
    (0.7, 0.68, 0.65, 0.62, 0.59),
)
# Length of the random change of a group's directions, relative to those common to all.
_TURN = 0.2
# Length of the difference between the means of two groups, in standard deviations.
_SHIFT = 0.5
# Weights of the differences between disparity errors, relative to the correlation.
PENALTIES = (0.1, 1.0, 10.0, 100.0)
_N_DRAWS = {Effort.QUICK: 1, Effort.NORMAL: 5, Effort.FULL: 20}
_N_STEPS = {Effort.QUICK: 200, Effort.NORMAL: 1000, Effort.FULL: 5000}
# A step is halved until it decreases the objective by this share of what its slope promises.
_ARMIJO_SHARE = 1e-4
# Decrease, relative to the objective, below which a search has ended.
_NEGLIGIBLE_DECREASE = 1e-13
# Marker and color of the methods in the figure, and their horizontal distance from the draw.
_MARKS = (("CCA", "s", MUTED, 0.0), ("SF-CCA", "o", VERMILION, -0.1), ("FairCCA", "D", BLUE, 0.1))
_COLUMNS = (
    *("draw", "method", "correlation of all rows", "largest disparity error", "largest difference"),
    *("covariance with the group", "lower bound", "above the bound"),
)


@dataclass(frozen=True, eq=False)
class GroupedTables:
    """Rows of two tables, and their groups.

    Attributes
    ----------
    x, y : (n, p) and (n, q) arrays
    groups : (n,) array of int
    """

    x: FloatArray
    y: FloatArray
    groups: npt.NDArray[np.int64]

    @property
    def cross_covariances(self) -> FloatArray:
        """Cross-covariance of each group about the means of all rows, (k, p, q)."""
        x = self.x - self.x.mean(axis=0)
        y = self.y - self.y.mean(axis=0)
        parts = [self.groups == group for group in np.unique(self.groups)]
        return np.array([x[members].T @ y[members] / members.sum() for members in parts])

    def disparity_errors(self, pair: Pair) -> FloatArray:
        """Disparity error of each group, (k,): the most that a pair keeps, less what this one does.

        Scores of all rows have variance one in either.
        """
        covariances = self.cross_covariances
        whitened = _inverse_root(self.x) @ covariances @ _inverse_root(self.y)
        best = np.linalg.svd(whitened, compute_uv=False)[:, : pair[0].shape[1]].sum(axis=1)
        return np.asarray(best - _captured(covariances, pair))


class FairCCAFormulas:
    """SF-CCA, FR-CCA and CCA against FairCCA, which proves how far each is from the best."""

    name = "fair-cca"
    title = "Fair canonical correlation: published methods and the proven optimum"
    source = "Zhou et al. (2023), SF-CCA; Hou et al. (2025), FR-CCA; from their formulas"
    files = ()

    def run(self, setting: Setting) -> Result:
        """Compute it: one draw of rows if quick, five, or twenty if full."""
        n_draws = _N_DRAWS[setting.effort]
        rows: list[tuple[Cell, ...]] = []
        for draw in range(n_draws):
            setting.progress(f"draw {draw + 1}", draw, n_draws)
            compute = partial(
                _compare, np.random.default_rng([setting.seed, draw]), _N_STEPS[setting.effort]
            )
            records = setting.store.get_or_compute(f"draw {draw + 1}", compute)
            rows += [(draw + 1, *row) for row in records]
        penalties = ", ".join(f"{penalty:g}" for penalty in PENALTIES)
        notes = (
            f"Three groups of 1,000, 150 and 200 rows, {_N_X} and {_N_Y} columns, d = "
            f"{N_COMPONENTS}. The correlations of each group's five pairs are those in the code of "
            "Zhou et al.; their directions are random, and turned in each group. Columns are white "
            "in each group: then a disparity error is a loss of FairCCA, whose bound holds for all "
            "pairs.",
            "Disparity error: the sum of the d largest canonical correlations of a group, less the "
            "sum of the correlations of its scores. Difference: between two of these errors, of "
            "which SF-CCA penalizes the squares. The lower bound is that of the certificate.",
            f"SF-CCA: gradients with line search, from the ordinary pair, for the penalties "
            f"{penalties}; shown is the pair with the smallest largest disparity error. Their own "
            "code takes fewer steps, without a search. --full makes twenty draws and longer "
            "searches.",
            "The lines from 'CCA without parity' on are of the first two groups, after the means "
            f"of the second were moved by {_SHIFT:g} standard deviations. FR-CCA maximizes the "
            "correlation of all rows among scores that do not covary with the group, in closed "
            'form: FairCCA with criterion="total_covariance" and restriction="mean_parity" is the '
            "same pair. With the minimax loss, the group that loses most loses less under the same "
            "restriction.",
        )
        return Result(self.title, _COLUMNS, rows, notes, partial(_draw, rows=rows))


FAIR_CCA = FairCCAFormulas()


def make_rows(rng: np.random.Generator) -> GroupedTables:
    """Make rows of groups with white columns, whose pairs have the printed correlations."""
    n_pairs = len(_CORRELATIONS[0])
    common = rng.standard_normal((_N_X, n_pairs)), rng.standard_normal((_N_Y, n_pairs))
    x_parts, y_parts = [], []
    for n_rows, correlations in zip(_GROUP_SIZES, _CORRELATIONS, strict=True):
        u, v = (
            np.linalg.qr(basis + _TURN * rng.standard_normal(basis.shape))[0] for basis in common
        )
        x = _white(rng.standard_normal((n_rows, _N_X)))
        noise = _white(rng.standard_normal((n_rows, _N_Y)))
        cross = u @ np.diag(correlations) @ v.T
        rest = np.linalg.cholesky(np.eye(_N_Y) - cross.T @ cross)
        x_parts.append(x)
        y_parts.append(_white(x @ cross + noise @ rest.T))
    return GroupedTables(
        np.vstack(x_parts), np.vstack(y_parts), np.repeat(np.arange(len(x_parts)), _GROUP_SIZES)
    )


def _white(rows: FloatArray) -> FloatArray:
    """Rows with means of zero and uncorrelated columns of variance one, as near as can be."""
    centered = rows - rows.mean(axis=0)
    left, _, right = np.linalg.svd(centered, full_matrices=False)
    return np.asarray(np.sqrt(len(rows)) * left @ right)


def with_shifted_means(tables: GroupedTables, rng: np.random.Generator) -> GroupedTables:
    """Return the rows of the first two groups with the second shifted."""
    in_first_two = tables.groups < 2
    x, y = tables.x[in_first_two], tables.y[in_first_two]
    second = tables.groups[in_first_two][:, None] == 1
    directions = (rng.standard_normal(table.shape[1]) for table in (x, y))
    x_shift, y_shift = (_SHIFT * direction / np.linalg.norm(direction) for direction in directions)
    return GroupedTables(x + second * x_shift, y + second * y_shift, tables.groups[in_first_two])


def canonical_pair(x: FloatArray, y: FloatArray, n_components: int) -> Pair:
    """Canonical weights of two tables: scores are uncorrelated and have variance one."""
    x_root, y_root = _inverse_root(x), _inverse_root(y)
    cross = (x - x.mean(axis=0)).T @ (y - y.mean(axis=0)) / len(x)
    left, _, right = np.linalg.svd(x_root @ cross @ y_root)
    return x_root @ left[:, :n_components], y_root @ right[:n_components].T


def _inverse_root(rows: FloatArray) -> FloatArray:
    """Inverse square root of the covariance of rows."""
    values, vectors = np.linalg.eigh(np.cov(rows.T, ddof=0))
    return np.asarray(vectors / np.sqrt(values) @ vectors.T)


def sf_cca(
    covariances: FloatArray, weights: FloatArray, penalty: float, n_steps: int, start: Pair
) -> Pair:
    """Pair of SF-CCA, by gradients with line search.

    Minimizes -tr U'CV + penalty * sum_(g < h) (E_g - E_h)^2 over pairs of orthonormal columns, with
    C the weighted mean of the groups' cross-covariances and E_g the disparity error of group g.
    """
    u, v = start
    value = sf_objective(covariances, weights, penalty, (u, v))
    step = 1.0
    for _ in range(n_steps):
        gradients = sf_gradient(covariances, weights, penalty, (u, v))
        slopes = [
            _tangent(point, gradient) for point, gradient in zip((u, v), gradients, strict=True)
        ]
        squared_slope = sum(float(np.vdot(slope, slope)) for slope in slopes)
        if squared_slope == 0:
            break
        step *= 2
        while True:
            candidate = _orthonormal(u - step * slopes[0]), _orthonormal(v - step * slopes[1])
            candidate_value = sf_objective(covariances, weights, penalty, candidate)
            if candidate_value <= value - _ARMIJO_SHARE * step * squared_slope:
                break
            step /= 2
            if step * squared_slope <= _NEGLIGIBLE_DECREASE * abs(value):
                return u, v
        u, v = candidate
        value = candidate_value
    return u, v


def sf_objective(covariances: FloatArray, weights: FloatArray, penalty: float, pair: Pair) -> float:
    """Value of the objective of SF-CCA."""
    errors = disparity_errors(covariances, pair)
    differences = errors[:, None] - errors
    pooled = np.einsum("g,gij->ij", weights, covariances)
    # Every pair of groups is in the matrix twice.
    return float(-np.trace(pair[0].T @ pooled @ pair[1]) + penalty / 2 * (differences**2).sum())


def sf_gradient(covariances: FloatArray, weights: FloatArray, penalty: float, pair: Pair) -> Pair:
    """Gradient of the objective of SF-CCA by both matrices of weights."""
    errors = disparity_errors(covariances, pair)
    k = len(errors)
    # The derivative by E_g is 2 * penalty * sum_h (E_g - E_h), and E_g falls by tr U'C_gV.
    factors = -weights - 2 * penalty * (k * errors - errors.sum())
    mixture = np.einsum("g,gij->ij", factors, covariances)
    return mixture @ pair[1], mixture.T @ pair[0]


def disparity_errors(covariances: FloatArray, pair: Pair) -> FloatArray:
    """Disparity errors of orthonormal weights of white tables, (k,)."""
    d = pair[0].shape[1]
    best = np.linalg.svd(covariances, compute_uv=False)[:, :d].sum(axis=1)
    return np.asarray(best - _captured(covariances, pair))


def _captured(covariances: FloatArray, pair: Pair) -> FloatArray:
    """Return the covariance of the scores of each group, summed over pairs of scores, (k,)."""
    return np.asarray(np.einsum("id,gij,jd->g", pair[0], covariances, pair[1]))


def _tangent(point: FloatArray, gradient: FloatArray) -> FloatArray:
    """Project a gradient to the directions in which columns stay orthonormal."""
    product = point.T @ gradient
    return gradient - point @ (product + product.T) / 2


def _orthonormal(matrix: FloatArray) -> FloatArray:
    """Nearest matrix with orthonormal columns, the retraction."""
    left, _, right = np.linalg.svd(matrix, full_matrices=False)
    return np.asarray(left @ right)


def fr_cca(tables: GroupedTables, n_components: int) -> Pair:
    """Return canonical weights among those whose scores do not covary with the group."""
    indicator = (tables.groups == tables.groups.max()) - (
        tables.groups == tables.groups.max()
    ).mean()
    x_basis, y_basis = (
        np.linalg.svd((indicator @ table)[None])[2][1:].T for table in (tables.x, tables.y)
    )
    u, v = canonical_pair(tables.x @ x_basis, tables.y @ y_basis, n_components)
    return x_basis @ u, y_basis @ v


def _compare(rng: np.random.Generator, n_steps: int) -> list[tuple[Cell, ...]]:
    """Return the rows of the table for one draw, without its number."""
    tables = make_rows(rng)
    shifted = with_shifted_means(tables, rng)
    return [*_compare_groups(tables, n_steps), *_compare_parity(shifted)]


def _compare_groups(tables: GroupedTables, n_steps: int) -> list[tuple[Cell, ...]]:
    covariances = tables.cross_covariances
    weights = np.bincount(tables.groups) / len(tables.groups)
    ordinary = canonical_pair(tables.x, tables.y, N_COMPONENTS)
    pairs = [sf_cca(covariances, weights, penalty, n_steps, ordinary) for penalty in PENALTIES]
    published = min(pairs, key=lambda pair: tables.disparity_errors(pair).max())
    fair, bound = _fair_cca(tables)
    return [
        _row(name, tables, pair, bound)
        for name, pair in (("CCA", ordinary), ("SF-CCA", published), ("FairCCA", fair))
    ]


def _compare_parity(tables: GroupedTables) -> list[tuple[Cell, ...]]:
    total, _ = _fair_cca(tables, criterion="total_covariance", restriction="mean_parity")
    fair, bound = _fair_cca(tables, restriction="mean_parity")
    return [
        _row("CCA without parity", tables, canonical_pair(tables.x, tables.y, N_COMPONENTS)),
        _row("FR-CCA, parity", tables, fr_cca(tables, N_COMPONENTS), bound),
        _row("FairCCA total covariance, parity", tables, total, bound),
        _row("FairCCA, parity", tables, fair, bound),
    ]


def _fair_cca(
    tables: GroupedTables, criterion: str = "minimax_loss", restriction: str | None = None
) -> tuple[Pair, float]:
    """Return the pair of FairCCA, and the lower bound of its objective."""
    model = FairCCA(N_COMPONENTS, criterion=criterion, restriction=restriction, scale=False)
    model.fit(tables.x, tables.y, sensitive_features=tables.groups)
    return (model.x_weights_, model.y_weights_), model.solution_.lower_bound


def _row(
    name: str, tables: GroupedTables, pair: Pair, bound: float | None = None
) -> tuple[Cell, ...]:
    """Return one line of the table; `bound` is that of the largest disparity error."""
    x_scores = (tables.x - tables.x.mean(axis=0)) @ pair[0]
    y_scores = (tables.y - tables.y.mean(axis=0)) @ pair[1]
    correlation = float((x_scores * y_scores).mean(axis=0).sum())
    indicators = tables.groups[:, None] == np.unique(tables.groups)
    scores = np.hstack([x_scores, y_scores])
    with_group = float(np.abs(indicators.T @ scores).max() / len(scores))
    errors = tables.disparity_errors(pair)
    largest = float(errors.max())
    above = None if bound is None else largest / bound - 1
    return name, correlation, largest, float(np.ptp(errors)), with_group, bound, above


def _draw(figure: "Figure", rows: Sequence[tuple[Cell, ...]]) -> None:
    """Draw the largest disparity error of each draw and method, with the bound."""
    figure.set_size_inches(7, 4)
    ax = figure.subplots()
    for method, marker, color, offset in _MARKS:
        points = [(row[0], row[3]) for row in rows if row[1] == method]
        draws, errors = zip(*points, strict=True)
        places = np.array(draws) + offset
        ax.plot(places, errors, marker, color=color, linestyle="none", label=method)
    bounds = [(row[0], row[6]) for row in rows if row[1] == "FairCCA"]
    draws, values = zip(*bounds, strict=True)
    ax.plot(draws, values, "_", color="k", markersize=24, linestyle="none", label="lower bound")
    ax.set(xlabel="draw", ylabel="largest disparity error", ylim=(0, None), xticks=draws)
    ax.legend(frameon=False)
