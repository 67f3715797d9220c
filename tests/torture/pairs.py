"""The same problem posed twice: rows in another order, other names, other axes, other units.

Neither certificate may refute the other answer: a bound above a value that was reached.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import fairspan as fs
from torture.cases import Case, FloatArray
from torture.hard_cases import criterion, groups_of, n_groups, plain_rows

EPSILON = float(np.finfo(np.float64).eps)
# As the judges allow for what an entry of a second moment may be off by.
_ENTRIES = 16


@dataclass(frozen=True)
class EquivalentCase:
    """A case posed in another way.

    Attributes
    ----------
    case : Case
    factor : float
        Its errors are so many times those of the first.
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
    chosen = case.criterion
    if chosen.name == "disparity":
        chosen = replace(chosen, protected=names[chosen.protected])
    return EquivalentCase(
        replace(case, groups=[names[each] for each in case.groups], criterion=chosen)
    )


def rotate_features(rng: np.random.Generator, case: Case) -> EquivalentCase:
    p = _rows(case).shape[1]
    turn = np.linalg.qr(rng.standard_normal((p, p)))[0]
    return EquivalentCase(_with_rows(case, _rows(case) @ turn, case.groups))


def permute_features(rng: np.random.Generator, case: Case) -> EquivalentCase:
    p = _rows(case).shape[1]
    turned = _rows(case)[:, rng.permutation(p)] * rng.choice([-1.0, 1.0], p)
    return EquivalentCase(_with_rows(case, turned, case.groups))


def scale_features(rng: np.random.Generator, case: Case) -> EquivalentCase:
    factor = 2.0 ** int(rng.integers(-40, 41))
    chosen = case.criterion
    if chosen.name == "robust_error_gap":
        chosen = replace(chosen, radius=chosen.radius * factor**2)
    elif chosen.name == "equal_error":
        chosen = replace(chosen, tolerance=chosen.tolerance * factor**2)
    scaled = replace(_with_rows(case, factor * _rows(case), case.groups), criterion=chosen)
    return EquivalentCase(scaled, factor**2)


def repeat_rows(rng: np.random.Generator, case: Case) -> tuple[Case, EquivalentCase]:
    """Weights of whole numbers, against rows as often as their weights say."""
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
    """A case and its twin."""
    case = _KINDS[int(rng.integers(len(_KINDS)))](rng)
    found = CHANGES[change](rng, case)
    return found if isinstance(found, tuple) else (case, found)


def find_disagreement(first: Any, second: Any, case: Case, twin: EquivalentCase) -> float:
    """By how much a bound is above the other's value, beyond what rounding explains; or 0.

    Parameters
    ----------
    first, second : FairPCA
        Fitted to the case, and to its twin.
    """
    one, other = first.solution_, second.solution_
    room = one.resolution + _transform_difference(case, first)
    other_room = other.resolution + _transform_difference(twin.case, second)
    if case.criterion.name == "nash_welfare":
        shift = np.log(twin.factor)
        other_bound, other_value = other.lower_bound + shift, other.objective + shift
        most = room + other_room + 4 * EPSILON * (abs(shift) + abs(other.objective))
    else:
        # Shares of variances have no unit.
        factor = 1.0 if is_relative(case.criterion) else twin.factor
        other_bound, other_value = other.lower_bound / factor, other.objective / factor
        most = room + other_room / factor
        # A float is no finer than its last digit.
        most += 4 * EPSILON * (abs(one.objective) + abs(other_value))
    # Errors that differ, as the tolerance lets them, make a total below that of equal ones.
    reached = one.objective + _objective_difference(one, other, second, case.tol)
    other_reached = other_value + _objective_difference(other, one, first, case.tol) / twin.factor
    apart = max(one.lower_bound - other_reached, other_bound - reached)
    return float(apart - most) if apart > most else 0.0


def is_relative(criterion_: Any) -> bool:
    """Whether errors are divided by variances."""
    return bool(getattr(criterion_, "relative", False))


def _objective_difference(reached: Any, bound: Any, model: fs.FairPCA, tol: float) -> float:
    """How much less unequal errors may cost than equal ones, for which the bound is."""
    if not reached.constraint_violation:
        return 0.0
    total = float(bound.weights.sum())
    shares = model.moments_.proportions
    leverage = float(np.abs(bound.weights / total - shares).sum()) if total > 0 else 1.0
    most = 2 * tol * reached.objective if reached.status == "optimal" else np.inf
    return min(leverage * reached.constraint_violation, most)


def _ordinary(rng: np.random.Generator) -> Case:
    k, p, d = _shape(rng)
    each = p + 3
    rows = plain_rows(rng, k, p, each)
    return Case(d, criterion(rng, k), rows, groups_of(k, each), center=_center(rng))


def _nearly_identical(rng: np.random.Generator) -> Case:
    k, p, d = _shape(rng)
    each = p + 3
    shared = plain_rows(rng, 1, p, each)
    apart = 10.0 ** -int(rng.choice([4, 6, 8, 8, 8, 10, 12]))
    rows = np.vstack([shared + apart * rng.standard_normal((each, p)) for _ in range(k)])
    chosen = fs.EqualError() if k == 2 and rng.random() < 0.5 else criterion(rng, k)
    return Case(d, chosen, rows, groups_of(k, each))


def _huge_column(rng: np.random.Generator) -> Case:
    case = _ordinary(rng)
    rows = _rows(case).copy()
    rows[:, 0] = 10.0 ** rng.uniform(2, 8) * (rows[:, 0] + rows[:, -1])
    return replace(case, rows=rows)


def _tied(rng: np.random.Generator) -> Case:
    k, p, d = _shape(rng)
    each = 2 * p
    axes = np.vstack([np.eye(p), -np.eye(p)])
    rows = np.vstack([axes * rng.integers(1, 3, p) for _ in range(k)])
    return Case(d, criterion(rng, k), rows, groups_of(k, each), center=_center(rng))


def _small_integers(rng: np.random.Generator) -> Case:
    k, p, d = _shape(rng)
    each = p + 1
    rows = rng.integers(-2, 3, (k * each, p)).astype(float)
    return Case(d, criterion(rng, k), rows, groups_of(k, each), center=_center(rng))


_KINDS = (_ordinary, _nearly_identical, _huge_column, _tied, _small_integers)


def _shape(rng: np.random.Generator) -> tuple[int, int, int]:
    k, p = n_groups(rng, 4), int(rng.integers(2, 5))
    return k, p, int(rng.integers(1, p))


def _center(rng: np.random.Generator) -> str:
    return str(rng.choice(["global", "group", "none"]))


def _rows(case: Case) -> FloatArray:
    assert case.rows is not None
    return case.rows


def _with_rows(case: Case, rows: FloatArray, groups: list[str]) -> Case:
    return replace(case, rows=rows, groups=groups)


def _transform_difference(case: Case, model: fs.FairPCA) -> float:
    """How much rounding of the second moments may move the value, or the bound."""
    rows, criterion_ = _rows(case), case.criterion
    weights = np.ones(len(rows)) if case.weights is None else case.weights
    labels = np.array(case.groups)
    everything = np.average(rows, axis=0, weights=weights)
    found, own, kept, traces = [], [], [], []
    left = np.eye(rows.shape[1]) - model.components_.T @ model.components_
    for label in model.groups_:
        of_group, shares = rows[labels == label], weights[labels == label]
        point = {
            "none": np.zeros(rows.shape[1]),
            "global": everything,
            "group": np.average(of_group, axis=0, weights=shares),
        }[case.center]
        centered = of_group - point
        second = (centered * (shares / shares.sum())[:, None]).T @ centered
        spread = np.sqrt(np.diag(second))
        unsure = _ENTRIES * EPSILON * np.outer(spread, spread)
        found.append(float((np.abs(left.T @ left) * unsure).sum()))
        few = np.linalg.eigh(second)[1][:, : rows.shape[1] - case.n_components]
        own.append(float((np.abs(few @ few.T) * unsure).sum()))
        trace = float(np.trace(second))
        traces.append(trace)
        error = float(np.vdot(left, second @ left))
        kept.append((found[-1] + 16 * EPSILON * trace) / max(trace - error, 1e-300))
    largest = max(found)
    if is_relative(criterion_):
        shares = [(f + o) / max(t, 1e-300) for f, o, t in zip(found, own, traces, strict=True)]
        return max(shares) + 16 * EPSILON
    if criterion_.name == "minimax_loss":
        return largest + max(own)
    if criterion_.name == "least_variance":
        return largest + 16 * EPSILON * max(traces)
    if criterion_.name == "nash_welfare":
        return 16 * EPSILON + float(np.mean(kept))
    return largest * (3 + 2 * getattr(criterion_, "penalty", 0.0))
