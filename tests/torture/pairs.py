"""The same problem posed twice: rows in another order, other names, other axes, other units.

The two certificates must agree: no lower bound may be above the value of the other answer.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import fairspan as fs
from torture.cases import Case, FloatArray
from torture.hard_cases import draw_criterion, draw_n_groups, draw_rows, repeat_labels

EPSILON = float(np.finfo(np.float64).eps)
# Rounding of an entry of a second moment, in units of epsilon times the sizes of its two columns.
_ENTRY_ERROR_UNITS = 16


@dataclass(frozen=True)
class EquivalentCase:
    """A case posed in another way.

    Attributes
    ----------
    case : Case
    factor : float
        Ratio of its errors to those of the first.
    """

    case: Case
    factor: float = 1.0


Change = Callable[[np.random.Generator, Case], EquivalentCase]


def reorder_rows(rng: np.random.Generator, case: Case) -> EquivalentCase:
    order = rng.permutation(len(_rows(case)))
    return EquivalentCase(_with_rows(case, _rows(case)[order], [case.groups[i] for i in order]))


def rename_groups(rng: np.random.Generator, case: Case) -> EquivalentCase:
    labels = sorted(set(case.groups))
    names = dict(zip(labels, [labels[i] for i in rng.permutation(len(labels))], strict=True))
    criterion = case.criterion
    if criterion.name == "disparity":
        criterion = replace(criterion, protected=names[criterion.protected])
    return EquivalentCase(
        replace(case, groups=[names[label] for label in case.groups], criterion=criterion)
    )


def rotate_features(rng: np.random.Generator, case: Case) -> EquivalentCase:
    p = _rows(case).shape[1]
    turn = np.linalg.qr(rng.standard_normal((p, p)))[0]
    return EquivalentCase(_with_rows(case, _rows(case) @ turn, case.groups))


def permute_features(rng: np.random.Generator, case: Case) -> EquivalentCase:
    p = _rows(case).shape[1]
    permuted = _rows(case)[:, rng.permutation(p)] * rng.choice([-1.0, 1.0], p)
    return EquivalentCase(_with_rows(case, permuted, case.groups))


def scale_features(rng: np.random.Generator, case: Case) -> EquivalentCase:
    factor = 2.0 ** int(rng.integers(-40, 41))
    criterion = case.criterion
    if criterion.name == "robust_error_gap":
        criterion = replace(criterion, radius=criterion.radius * factor**2)
    elif criterion.name == "equal_error":
        criterion = replace(criterion, tolerance=criterion.tolerance * factor**2)
    scaled = replace(_with_rows(case, factor * _rows(case), case.groups), criterion=criterion)
    return EquivalentCase(scaled, factor**2)


def repeat_rows(rng: np.random.Generator, case: Case) -> tuple[Case, EquivalentCase]:
    """Pose a case with integer weights, and with rows repeated as often as their weights say."""
    times = rng.integers(1, 4, len(_rows(case)))
    weighted = replace(case, weights=times.astype(float))
    groups = np.array(case.groups).repeat(times).tolist()
    return weighted, EquivalentCase(_with_rows(case, _rows(case).repeat(times, axis=0), groups))


CHANGES: dict[str, Callable[[np.random.Generator, Case], Any]] = {
    change.__name__: change
    for change in (
        reorder_rows,
        rename_groups,
        rotate_features,
        permute_features,
        scale_features,
        repeat_rows,
    )
}


def draw_pair(rng: np.random.Generator, change: str) -> tuple[Case, EquivalentCase]:
    """Draw a case and the same case after a change."""
    case = _KINDS[int(rng.integers(len(_KINDS)))](rng)
    twin = CHANGES[change](rng, case)
    return twin if isinstance(twin, tuple) else (case, twin)


def find_disagreement(first: Any, second: Any, case: Case, twin: EquivalentCase) -> float:
    """Return by how much a bound exceeds the other's value, beyond what rounding explains; or 0.

    Parameters
    ----------
    first, second : FairPCA
        Fitted to the case, and to its twin.
    """
    one, other = first.solution_, second.solution_
    rounding = one.resolution + _rounding_of_moments(case, first)
    other_rounding = other.resolution + _rounding_of_moments(twin.case, second)
    if case.criterion.name == "nash_welfare":
        shift = np.log(twin.factor)
        other_bound = other.lower_bound + shift
        other_value = other.objective + shift
        spacing = 4 * EPSILON * (abs(shift) + abs(other.objective))
        tolerance = rounding + other_rounding + spacing
    else:
        # Shares of variances have no unit.
        factor = 1.0 if is_relative(case.criterion) else twin.factor
        other_bound = other.lower_bound / factor
        other_value = other.objective / factor
        spacing = 4 * EPSILON * (abs(one.objective) + abs(other_value))
        tolerance = rounding + other_rounding / factor + spacing
    # Errors that differ within the tolerance make a total below that of equal ones.
    value = one.objective + _decrease_by_violation(one, other, second, case.tol)
    other_decrease = _decrease_by_violation(other, one, first, case.tol)
    other_value += other_decrease / twin.factor
    excess = max(one.lower_bound - other_value, other_bound - value)
    return float(excess - tolerance) if excess > tolerance else 0.0


def is_relative(criterion: Any) -> bool:
    """Return whether errors are divided by variances."""
    return bool(getattr(criterion, "relative", False))


def _decrease_by_violation(solution: Any, bound: Any, model: fs.FairPCA, tol: float) -> float:
    """Return how much less unequal errors may cost than equal ones, for which the bound is."""
    if not solution.constraint_violation:
        return 0.0
    total = float(bound.weights.sum())
    shares = model.moments_.proportions
    leverage = float(np.abs(bound.weights / total - shares).sum()) if total > 0 else 1.0
    decrease = leverage * solution.constraint_violation
    if solution.status == "optimal":
        return min(decrease, 2 * tol * solution.objective)
    return decrease


def _draw_ordinary(rng: np.random.Generator) -> Case:
    k, p, d = _draw_shape(rng)
    n_each = p + 3
    rows = draw_rows(rng, k, p, n_each)
    return Case(d, draw_criterion(rng, k), rows, repeat_labels(k, n_each), center=_draw_center(rng))


def _draw_nearly_identical(rng: np.random.Generator) -> Case:
    k, p, d = _draw_shape(rng)
    n_each = p + 3
    shared = draw_rows(rng, 1, p, n_each)
    noise_size = 10.0 ** -int(rng.choice([4, 6, 8, 8, 8, 10, 12]))
    rows = np.vstack([shared + noise_size * rng.standard_normal((n_each, p)) for _ in range(k)])
    criterion = fs.EqualError() if k == 2 and rng.random() < 0.5 else draw_criterion(rng, k)
    return Case(d, criterion, rows, repeat_labels(k, n_each))


def _draw_huge_column(rng: np.random.Generator) -> Case:
    case = _draw_ordinary(rng)
    rows = _rows(case).copy()
    rows[:, 0] = 10.0 ** rng.uniform(2, 8) * (rows[:, 0] + rows[:, -1])
    return replace(case, rows=rows)


def _draw_tied(rng: np.random.Generator) -> Case:
    k, p, d = _draw_shape(rng)
    n_each = 2 * p
    axes = np.vstack([np.eye(p), -np.eye(p)])
    rows = np.vstack([axes * rng.integers(1, 3, p) for _ in range(k)])
    return Case(d, draw_criterion(rng, k), rows, repeat_labels(k, n_each), center=_draw_center(rng))


def _draw_small_integers(rng: np.random.Generator) -> Case:
    k, p, d = _draw_shape(rng)
    n_each = p + 1
    rows = rng.integers(-2, 3, (k * n_each, p)).astype(float)
    return Case(d, draw_criterion(rng, k), rows, repeat_labels(k, n_each), center=_draw_center(rng))


_KINDS = (
    _draw_ordinary,
    _draw_nearly_identical,
    _draw_huge_column,
    _draw_tied,
    _draw_small_integers,
)


def _draw_shape(rng: np.random.Generator) -> tuple[int, int, int]:
    k = draw_n_groups(rng, 4)
    p = int(rng.integers(2, 5))
    return k, p, int(rng.integers(1, p))


def _draw_center(rng: np.random.Generator) -> str:
    return str(rng.choice(["global", "group", "none"]))


def _rows(case: Case) -> FloatArray:
    assert case.rows is not None
    return case.rows


def _with_rows(case: Case, rows: FloatArray, groups: list[str]) -> Case:
    return replace(case, rows=rows, groups=groups)


@dataclass(frozen=True)
class _GroupRounding:
    """Rounding of one group's errors by an inexact second moment.

    Attributes
    ----------
    variance : float
    error, best_error : float
        Rounding of the error at the components, and of the least possible error.
    captured_share : float
        Rounding of the captured variance, as a share of it.
    """

    variance: float
    error: float
    best_error: float
    captured_share: float


def _rounding_of_moments(case: Case, model: fs.FairPCA) -> float:
    """Return how much rounding of the second moments may change the value, or the bound."""
    groups = [_rounding_of_group(case, model, label) for label in model.groups_]
    name = case.criterion.name
    if is_relative(case.criterion):
        shares = [(g.error + g.best_error) / max(g.variance, 1e-300) for g in groups]
        return max(shares) + 16 * EPSILON
    if name == "nash_welfare":
        return 16 * EPSILON + float(np.mean([g.captured_share for g in groups]))
    largest = max(g.error for g in groups)
    if name == "minimax_loss":
        return largest + max(g.best_error for g in groups)
    if name == "least_variance":
        return largest + 16 * EPSILON * max(g.variance for g in groups)
    return largest * (3 + 2 * getattr(case.criterion, "penalty", 0.0))


def _rounding_of_group(case: Case, model: fs.FairPCA, label: str) -> _GroupRounding:
    second_moment = _second_moment(case, label)
    p = len(second_moment)
    deviations = np.sqrt(np.diag(second_moment))
    entry_rounding = _ENTRY_ERROR_UNITS * EPSILON * np.outer(deviations, deviations)
    residual = np.eye(p) - model.components_.T @ model.components_
    error_rounding = float((np.abs(residual.T @ residual) * entry_rounding).sum())
    smallest = np.linalg.eigh(second_moment)[1][:, : p - case.n_components]
    variance = float(np.trace(second_moment))
    captured = variance - float(np.vdot(residual, second_moment @ residual))
    return _GroupRounding(
        variance,
        error_rounding,
        float((np.abs(smallest @ smallest.T) * entry_rounding).sum()),
        (error_rounding + 16 * EPSILON * variance) / max(captured, 1e-300),
    )


def _second_moment(case: Case, label: str) -> FloatArray:
    """Return the second moment of a group about the center of the errors."""
    rows = _rows(case)
    weights = np.ones(len(rows)) if case.weights is None else case.weights
    members = np.array(case.groups) == label
    group_rows, group_weights = rows[members], weights[members]
    center = {
        "none": np.zeros(rows.shape[1]),
        "global": np.average(rows, axis=0, weights=weights),
        "group": np.average(group_rows, axis=0, weights=group_weights),
    }[case.center]
    centered = group_rows - center
    return (centered * (group_weights / group_weights.sum())[:, None]).T @ centered
