"""Cases that are hard for floating point, by name; each maker draws one case from a generator.

Names of makers seed the generators, so a change of a name changes the cases.
"""

from collections.abc import Callable

import numpy as np

import fairspan as fs
from torture.cases import Case, FloatArray

Maker = Callable[[np.random.Generator], Case]

HARD_CASES: dict[str, Maker] = {}

_HADAMARD = np.array([[1.0, 1, 1, 1], [1, -1, 1, -1], [1, 1, -1, -1], [1, -1, -1, 1]]) / 2


def hard_case(maker: Maker) -> Maker:
    """Register a maker of cases by its name."""
    HARD_CASES[maker.__name__] = maker
    return maker


def make_labels(k: int) -> list[str]:
    return [f"g{g:02d}" for g in range(k)]


def draw_criterion(rng: np.random.Generator, k: int, *, without: tuple[str, ...] = ()):
    """Draw one of the criteria that are defined for k groups."""
    penalty = float(rng.choice([0.1, 0.5, 2.0]))
    choices = {
        "minimax_loss": fs.MinimaxLoss(),
        "minimax_error": fs.MinimaxError(),
        "total_error": fs.TotalError(),
        **({"equal_error": fs.EqualError(penalty - 0.1)} if k <= 2 else {}),
        "error_gap": fs.ErrorGap(penalty),
        "robust_error_gap": fs.RobustErrorGap(penalty, float(rng.choice([0.0, 0.15, 1.0]))),
        "nash_welfare": fs.NashWelfare(),
        "least_variance": fs.LeastVariance(),
        "relative_loss": fs.MinimaxLoss(relative=True),
        "relative_error": fs.MinimaxError(relative=True),
    }
    if k == 2:
        trade_off = float(rng.choice([0.0, 0.25, 0.5, 1.0]))
        choices["disparity"] = fs.Disparity(trade_off, make_labels(2)[int(rng.integers(2))])
    names = [name for name in choices if name not in without]
    return choices[names[int(rng.integers(len(names)))]]


def repeat_labels(k: int, n_each: int) -> list[str]:
    return [label for label in make_labels(k) for _ in range(n_each)]


def draw_rows(rng: np.random.Generator, k: int, p: int, n_each: int) -> FloatArray:
    """Draw rows of k groups, one after the other, of different size and shape."""
    parts = []
    for _ in range(k):
        mix = rng.standard_normal((p, p)) * rng.uniform(0.3, 2, p)
        parts.append(rng.standard_normal((n_each, p)) @ mix + 0.5 * rng.standard_normal(p))
    return np.vstack(parts)


def draw_shape(rng: np.random.Generator, *, max_groups: int = 3, max_features: int = 4):
    """Draw numbers k, p and d of groups, features and components, d < p; mostly two groups."""
    p = int(rng.integers(2, max_features + 1))
    return draw_n_groups(rng, max_groups), p, int(rng.integers(1, p))


def draw_n_groups(rng: np.random.Generator, max_groups: int = 3) -> int:
    """Draw a number of groups; mostly two, as more of them take ten times as long."""
    return 2 if rng.random() < 0.7 else int(rng.integers(3, max_groups + 1))


def draw_plain(rng: np.random.Generator, *, max_groups: int = 3, without: tuple[str, ...] = ()):
    """Draw rows, their groups, d and a criterion, none of them hard."""
    k, p, d = draw_shape(rng, max_groups=max_groups)
    n_each = int(rng.integers(p + 1, p + 5))
    return (
        draw_rows(rng, k, p, n_each),
        repeat_labels(k, n_each),
        d,
        draw_criterion(rng, k, without=without),
    )


@hard_case
def nothing_special(rng):
    rows, groups, d, criterion = draw_plain(rng)
    return Case(d, criterion, rows, groups)


@hard_case
def columns_far_from_zero(rng):
    rows, groups, d, criterion = draw_plain(rng)
    offsets = 10.0 ** rng.integers(0, 13, rows.shape[1])
    return Case(d, criterion, rows + offsets, groups, center=str(rng.choice(["global", "group"])))


@hard_case
def far_from_zero_about_the_origin(rng):
    rows, groups, d, criterion = draw_plain(rng)
    offsets = 10.0 ** rng.integers(0, 13) * rng.choice([-1.0, 1.0], rows.shape[1])
    return Case(d, criterion, rows + offsets, groups, center="none")


@hard_case
def columns_of_all_sizes(rng):
    rows, groups, d, criterion = draw_plain(rng, without=("robust_error_gap",))
    return Case(d, criterion, rows * 10.0 ** rng.uniform(-74, 73, rows.shape[1]), groups)


@hard_case
def all_rows_tiny_or_large(rng):
    rows, groups, d, criterion = draw_plain(rng, without=("robust_error_gap",))
    return Case(d, criterion, rows * 10.0 ** float(rng.choice([-74, -60, -40, 40, 60, 73])), groups)


@hard_case
def subnormal_numbers(rng):
    rows, groups, d, criterion = draw_plain(rng, without=("robust_error_gap",))
    tiny = np.round(8 * rows) * 5e-324 * 2.0 ** rng.integers(0, 40)
    return Case(d, criterion, np.where(rng.random(rows.shape) < 0.5, tiny, rows), groups)


def _change_axes(rng: np.random.Generator, matrices: FloatArray) -> FloatArray:
    """Express matrices in other axes, exactly: entries of the rotation are powers of two."""
    p = matrices.shape[1]
    turn = np.eye(p)
    if p >= 4:
        turn[:4, :4] = _HADAMARD
        turn = turn[rng.permutation(p)]
    return np.array([turn.T @ matrix @ turn for matrix in matrices])


def _draw_shares(rng: np.random.Generator, k: int) -> FloatArray:
    return 2.0 ** rng.integers(0, 3, k)


@hard_case
def two_groups_with_a_tie_at_the_optimum(rng):
    # Both groups have the same variances, in another order, so their equal mixture has ties.
    p = int(rng.integers(2, 6))
    first = rng.integers(0, 4, p).astype(float)
    second = first[::-1] if rng.random() < 0.5 else rng.permutation(first)
    matrices = _change_axes(rng, np.array([np.diag(first), np.diag(second)]))
    criterion = draw_criterion(rng, 2, without=("disparity", "nash_welfare"))
    shares = None if rng.random() < 0.5 else _draw_shares(rng, 2)
    return Case(int(rng.integers(1, p)), criterion, matrices=matrices, shares=shares)


@hard_case
def ties_of_every_multiplicity(rng):
    # All groups share multiples of the identity on blocks; each group adds one direction.
    k = draw_n_groups(rng)
    p = int(rng.integers(3, 7))
    size = int(rng.integers(2, p + 1))
    base = np.diag([1.0] * size + [float(x) for x in rng.integers(0, 3, p - size)])
    matrices = []
    for g in range(k):
        extra = np.zeros((p, p))
        extra[g % p, g % p] = float(rng.integers(0, 3))
        matrices.append(base + extra)
    criterion = draw_criterion(rng, k, without=("disparity", "nash_welfare"))
    return Case(int(rng.integers(1, p)), criterion, matrices=_change_axes(rng, np.array(matrices)))


@hard_case
def small_integers(rng):
    k, p, d = draw_shape(rng, max_groups=4)
    vectors = rng.integers(-2, 3, (k, 2, p)).astype(float)
    matrices = np.einsum("gri,grj->gij", vectors, vectors)
    return Case(d, draw_criterion(rng, k, without=("nash_welfare", "disparity")), matrices=matrices)


@hard_case
def one_row_beside_ten_million(rng):
    rows, groups, d, criterion = draw_plain(rng, without=("nash_welfare",))
    few = groups.index("g01") + 1
    kept_rows = [i for i, label in enumerate(groups) if label != "g01" or i < few]
    rows = rows[kept_rows]
    groups = [groups[i] for i in kept_rows]
    weights = np.where(np.array(groups) == "g01", 1.0, 1e7)
    return Case(d, criterion, rows, groups, weights)


@hard_case
def all_dimensions(rng):
    rows, groups, _, criterion = draw_plain(rng)
    rows = rows * 10.0 ** rng.integers(-6, 7, rows.shape[1])
    return Case(
        rows.shape[1],
        criterion,
        rows,
        groups,
        may_be_refused=False,
        must_be_optimal=criterion.name != "robust_error_gap",
    )


@hard_case
def a_hundred_groups(rng):
    k, p = 100, 2
    n_each = 3
    rows = draw_rows(rng, k, p, n_each) * rng.uniform(0.5, 2, (k, 1)).repeat(n_each, axis=0)
    without = ("robust_error_gap", "equal_error", "error_gap")
    return Case(1, draw_criterion(rng, k, without=without), rows, repeat_labels(k, n_each))


@hard_case
def rank_one(rng):
    k, p, d = draw_shape(rng)
    n_each = 4
    directions = rng.standard_normal((k, p)) if rng.random() < 0.5 else np.ones((k, p))
    lengths = rng.standard_normal((k, n_each))
    rows = (lengths[:, :, None] * directions[:, None, :]).reshape(k * n_each, p)
    return Case(d, draw_criterion(rng, k), rows, repeat_labels(k, n_each), center="none")


@hard_case
def nearly_identical_groups(rng):
    k, p, d = draw_shape(rng)
    n_each = p + 3
    shared = draw_rows(rng, 1, p, n_each)
    noise_size = 10.0 ** -int(rng.choice([2, 4, 6, 8, 8, 8, 10, 12, 14, 16]))
    rows = np.vstack([shared + noise_size * rng.standard_normal((n_each, p)) for _ in range(k)])
    return Case(d, draw_criterion(rng, k), rows, repeat_labels(k, n_each))


@hard_case
def nearly_identical_groups_with_equal_errors(rng):
    k, (_, p, d) = 2, draw_shape(rng)
    n_each = p + 3
    shared = draw_rows(rng, 1, p, n_each)
    noise_size = 10.0 ** -int(rng.choice([4, 6, 8, 8, 8, 10, 12, 14]))
    rows = np.vstack([shared + noise_size * rng.standard_normal((n_each, p)) for _ in range(k)])
    return Case(d, fs.EqualError(), rows, repeat_labels(k, n_each))


@hard_case
def identical_groups(rng):
    k, p, d = draw_shape(rng)
    n_each = p + 3
    shared = draw_rows(rng, 1, p, n_each)
    orders = [rng.permutation(n_each) for _ in range(k)]
    rows = np.vstack([shared[permutation] for permutation in orders])
    return Case(d, draw_criterion(rng, k), rows, repeat_labels(k, n_each))


@hard_case
def rows_of_sixteen_bits(rng):
    rows, groups, d, criterion = draw_plain(rng)
    return Case(d, criterion, (rows * 10.0 ** rng.integers(-3, 4)).astype(np.float16), groups)


@hard_case
def duplicated_rows(rng):
    k, p, d = draw_shape(rng)
    few = draw_rows(rng, k, p, 2)
    rows = few.repeat(4, axis=0)
    return Case(d, draw_criterion(rng, k), rows, repeat_labels(k, 8))


@hard_case
def constant_columns(rng):
    rows, groups, d, criterion = draw_plain(rng)
    is_constant = rng.random(rows.shape[1]) < 0.5
    rows = np.where(is_constant, rng.choice([0.0, 1.0, 0.1, 1e8], rows.shape[1]), rows)
    center = str(rng.choice(["global", "group"]))
    return Case(d, criterion, rows, groups, center=center, scale=bool(rng.random() < 0.3))


def _draw_with_huge_column(rng: np.random.Generator, k: int) -> Case:
    p = int(rng.integers(2, 5))
    n_each = p + 3
    rows = draw_rows(rng, k, p, n_each)
    size = 10.0 ** rng.uniform(4, 10)
    rows[:, 0] = size * (rows[:, 0] + 0.5 * rows[:, 1:].sum(axis=1))
    rows = rows[:, rng.permutation(p)]
    d = int(rng.integers(1, p))
    return Case(d, draw_criterion(rng, k), rows, repeat_labels(k, n_each), center=_draw_center(rng))


def _draw_center(rng: np.random.Generator) -> str:
    return str(rng.choice(["global", "group", "none"]))


@hard_case
def huge_column_of_two_groups(rng):
    return _draw_with_huge_column(rng, 2)


@hard_case
def huge_column_of_three_groups(rng):
    return _draw_with_huge_column(rng, 3)


@hard_case
def huge_column_of_five_groups(rng):
    return _draw_with_huge_column(rng, 5)


@hard_case
def equal_error_at_the_border(rng):
    """Zero is the least sum of p - d eigenvalues of S_1 - S_2: one face alone has equal errors."""
    p, d = (3, int(rng.integers(1, 3))) if rng.random() < 0.5 else (4, int(rng.integers(1, 4)))
    smallest = np.sort(rng.integers(-3, 4, p - d)).astype(float)
    smallest[-1] -= smallest.sum()
    larger = smallest.max() + rng.integers(0, 4, d)
    difference = np.diag(rng.permutation(np.concatenate([smallest, larger])))
    factor = rng.integers(-2, 3, (p, p)).astype(float)
    second = factor @ factor.T + 16 * np.eye(p)
    difference = _change_axes(rng, difference[None])[0] if p == 4 else difference
    matrices = np.array([second + difference, second])
    if rng.random() < 0.5:
        matrices = matrices[::-1]
    return Case(d, fs.EqualError(), matrices=matrices, may_be_refused=False)


@hard_case
def errors_just_within_a_tolerance(rng):
    """The tolerance is the least gap that any subspace has, so one face alone is within it."""
    p = int(rng.integers(2, 5))
    d = int(rng.integers(1, p))
    difference = rng.integers(1, 5, p).astype(float)
    factor = rng.integers(-2, 3, (p, p)).astype(float)
    second = factor @ factor.T + 16 * np.eye(p)
    matrices = np.array([second + np.diag(difference), second])
    if rng.random() < 0.5:
        matrices = matrices[::-1]
    least = float(np.sort(difference)[: p - d].sum())
    return Case(d, fs.EqualError(least), matrices=matrices, may_be_refused=False)


@hard_case
def means_far_apart_with_mean_parity(rng):
    k = draw_n_groups(rng)
    p = int(rng.integers(3, 6))
    d = int(rng.integers(1, p - k + 2))
    n_each = p + 3
    distance = 10.0 ** rng.integers(3, 8)
    means = rng.standard_normal((k, p)) * distance
    if rng.random() < 0.3:
        means[:, k - 1 :] = 0
    rows = draw_rows(rng, k, p, n_each) + means.repeat(n_each, axis=0)
    criterion = draw_criterion(rng, k, without=("robust_error_gap",))
    return Case(
        d,
        criterion,
        rows,
        repeat_labels(k, n_each),
        restriction=fs.MeanParity(),
        center=_draw_center(rng),
    )


@hard_case
def mean_parity(rng):
    k = draw_n_groups(rng)
    p = int(rng.integers(3, 6))
    d = int(rng.integers(1, p - k + 2))
    n_each = p + 3
    rows = draw_rows(rng, k, p, n_each) * 10.0 ** rng.integers(-3, 4)
    criterion = draw_criterion(rng, k, without=("robust_error_gap",))
    return Case(
        d,
        criterion,
        rows,
        repeat_labels(k, n_each),
        restriction=fs.MeanParity(),
        center=_draw_center(rng),
    )


@hard_case
def mean_parity_far_from_zero(rng):
    k = draw_n_groups(rng)
    p = int(rng.integers(3, 6))
    d = int(rng.integers(1, p - k + 2))
    n_each = p + 3
    rows = draw_rows(rng, k, p, n_each) + 10.0 ** rng.integers(5, 13) * rng.standard_normal(p)
    criterion = draw_criterion(rng, k, without=("robust_error_gap",))
    return Case(
        d,
        criterion,
        rows,
        repeat_labels(k, n_each),
        restriction=fs.MeanParity(),
        center=_draw_center(rng),
    )


@hard_case
def mean_parity_with_a_tolerance(rng):
    p = int(rng.integers(2, 5))
    n_each = p + 3
    distance = 10.0 ** rng.integers(-2, 5)
    rows = draw_rows(rng, 2, p, n_each)
    rows[:n_each] += distance * rng.standard_normal(p)
    parity = fs.MeanParity(float(10.0 ** rng.integers(-6, 2)))
    d = int(rng.integers(1, p))
    return Case(d, fs.TotalError(), rows, repeat_labels(2, n_each), restriction=parity)


@hard_case
def covariance_parity(rng):
    p = int(rng.integers(3, 6))
    d = int(rng.integers(1, p - 1))
    parity = fs.CovarianceParity(int(rng.integers(d, p)))
    rows = draw_rows(rng, 2, p, p + 3)
    criterion = draw_criterion(rng, 2, without=("robust_error_gap",))
    return Case(
        d, criterion, rows, repeat_labels(2, p + 3), restriction=parity, center=_draw_center(rng)
    )


@hard_case
def soft_projections(rng):
    k, p = int(rng.integers(3, 5)), int(rng.integers(3, 5))
    criterion = draw_criterion(rng, k, without=("robust_error_gap",))
    d = int(rng.integers(1, p))
    if rng.random() < 0.5:
        vectors = rng.integers(-3, 4, (k, p)).astype(float)
        matrices = np.einsum("gi,gj->gij", vectors, vectors)
        return Case(d, criterion, matrices=matrices, allow_extra=True)
    rows = draw_rows(rng, k, p, 3)
    rows[:, 0] *= 10.0 ** rng.integers(0, 5)
    return Case(d, criterion, rows, repeat_labels(k, 3), allow_extra=True)


@hard_case
def every_center(rng):
    rows, groups, d, criterion = draw_plain(rng)
    distance = np.array([float(g[1:]) for g in groups])[:, None] * 10.0 ** rng.integers(0, 5)
    return Case(d, criterion, rows + distance, groups, center=_draw_center(rng))


@hard_case
def columns_divided_by_their_deviation(rng):
    rows, groups, d, criterion = draw_plain(rng)
    sizes, offsets = 10.0 ** rng.uniform(-60, 60, (2, rows.shape[1]))
    rows = sizes * rows + (sizes * 1e3 if rng.random() < 0.5 else np.minimum(offsets, sizes))
    return Case(d, criterion, rows, groups, center=_draw_center(rng), scale=True)


@hard_case
def a_group_without_variance(rng):
    k, p, d = draw_shape(rng)
    rows = draw_rows(rng, k, p, 5)
    rows[:5] = rows[0]
    return Case(d, draw_criterion(rng, k), rows, repeat_labels(k, 5), center=_draw_center(rng))


@hard_case
def groups_on_axes_of_their_own(rng):
    k = int(rng.integers(2, 5))
    variances = rng.integers(1, 5, k).astype(float)
    matrices = np.array([v * np.diag(axis) for v, axis in zip(variances, np.eye(k), strict=True)])
    criterion = draw_criterion(rng, k, without=("disparity", "nash_welfare"))
    return Case(int(rng.integers(1, k)), criterion, matrices=matrices)


@hard_case
def one_group(rng):
    p = int(rng.integers(1, 5))
    rows = draw_rows(rng, 1, p, p + 3) * 10.0 ** rng.uniform(-8, 8, p)
    return Case(int(rng.integers(1, p + 1)), draw_criterion(rng, 1), rows, repeat_labels(1, p + 3))


@hard_case
def groups_of_very_different_size(rng):
    k, p, d = draw_shape(rng)
    n_each = p + 3
    sizes = 10.0 ** rng.uniform(-8, 8, k)
    rows = draw_rows(rng, k, p, n_each) * sizes.repeat(n_each)[:, None]
    return Case(d, draw_criterion(rng, k), rows, repeat_labels(k, n_each), center=_draw_center(rng))


@hard_case
def weights_of_all_sizes(rng):
    rows, groups, d, criterion = draw_plain(rng)
    by_group = dict(zip(make_labels(4), 10.0 ** rng.uniform(-12, 12, 4), strict=True))
    weights = np.array([by_group[label] for label in groups])
    return Case(d, criterion, rows, groups, weights)


@hard_case
def eigenvalues_in_a_ladder(rng):
    """Each direction varies a million times less than the one before, in rotated axes."""
    p = 4
    sizes = 2.0 ** -(10.0 * np.arange(p))
    k = draw_n_groups(rng)
    matrices = []
    for _ in range(k):
        order = sizes if rng.random() < 0.5 else rng.permutation(sizes)
        matrices.append(np.diag(order * rng.integers(1, 4, p)))
    rotated = _change_axes(rng, np.array(matrices))
    criterion = draw_criterion(rng, k, without=("disparity", "robust_error_gap"))
    return Case(int(rng.integers(1, p)), criterion, matrices=rotated)
