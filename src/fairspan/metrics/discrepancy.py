"""Maximum mean discrepancy: how far apart the groups' distributions are, beyond their means."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from fairspan.errors import InvalidInput
from fairspan.metrics.columns import coded_groups
from fairspan.metrics.separation import representation
from fairspan.problem.parameters import check_count, check_number
from fairspan.random_state import generator_of
from fairspan.rows.groups import Label, listed, spelled
from fairspan.typing import FloatArray, IntegerArray

# Rows from which the median distance is taken.
_ROWS_FOR_MEDIAN = 1000
# A bandwidth is above zero.
_SMALLEST = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True, eq=False)
class MeanDiscrepancy:
    """Squared maximum mean discrepancies of groups; made by :func:`mmd`.

    Attributes
    ----------
    groups : tuple of k labels
        In sorted order.
    counts : (k,) array of int
        Rows of each group.
    squared : (k, k) array
        Unbiased estimate of MMD^2 of each pair of groups; below zero by chance where two are alike.
    largest : float
        The largest of them.
    pair : tuple of two labels
        The groups that are this far apart.
    p_value : float or None
        Share of permutations of the groups whose largest MMD^2 is no smaller; None without any.
    bandwidth : float
        The kernel's.
    n_blocks : int
        Blocks of rows over which the estimate is averaged; 1 where all pairs of rows count.
    """

    groups: tuple[Label, ...]
    counts: IntegerArray
    squared: FloatArray
    largest: float
    pair: tuple[Label, Label]
    p_value: float | None
    bandwidth: float
    n_blocks: int

    def __repr__(self) -> str:
        a, b = map(spelled, self.pair)
        chance = "" if self.p_value is None else f", p-value {self.p_value:.3g}"
        return (
            f"<MeanDiscrepancy of {len(self.groups)} groups, largest MMD^2 {self.largest:.4g}, "
            f"{a} and {b}{chance}>"
        )


def mmd(
    Z: Any,
    sensitive_features: Any,
    *,
    bandwidth: float | None = None,
    block_size: int = 1000,
    n_permutations: int = 200,
    random_state: Any = 0,
) -> MeanDiscrepancy:
    """How far apart the groups' distributions are in a representation, by a Gaussian kernel.

    MMD^2(a, b) = E k(x, x') + E k(y, y') - 2 E k(x, y) for rows x, x' of group a and y, y' of
    group b, with k(u, v) = exp(-||u - v||^2 / (2 bandwidth^2)). It is zero only where both groups
    have the same distribution (Gretton et al. 2012, Lemma 6, estimated without bias). With more
    than two groups every pair is compared, and the largest counts.

    Parameters
    ----------
    Z : (n, d) array or data frame
        A representation of rows, such as ``model.transform(X)``.
    sensitive_features : (n,) or (n, a) array-like or data frame, or mapping of name to column
        Group of each row; several attributes make their intersections.
    bandwidth : float, optional
        By default the median distance of two rows, of up to 1000 that are drawn at random.
    block_size : int, default=1000
        More rows are shuffled and split into blocks of about this size, in which each group has its
        share, and the blocks' estimates are averaged (Zaremba et al. 2013): time and memory then
        grow with the rows, and not with their square. Blocks are larger where a group is so small
        that it would have fewer than two rows in each.
    n_permutations : int, default=200
        Permutations of the groups, within blocks, for the p-value; 0 for none.
    random_state : int, Generator, RandomState or None, default=0

    Returns
    -------
    MeanDiscrepancy

    Raises
    ------
    InvalidInput
        One group only, a group of one row, lengths that differ, NaN or infinity, missing labels.
    InvalidParameter, InvalidType
        A setting out of range.

    Notes
    -----
    The p-value tests that all groups have one distribution. It is valid at any number of rows, and
    at least 1 / (1 + n_permutations). Columns are taken in their own units.

    Examples
    --------
    >>> import numpy as np
    >>> from fairspan import metrics
    >>> rng = np.random.default_rng(0)
    >>> Z = rng.standard_normal((200, 2))
    >>> groups = np.repeat(["a", "b"], 100)
    >>> metrics.mmd(Z, groups).p_value > 0.05
    True
    >>> Z[100:] *= 3  # the means still agree
    >>> metrics.mmd(Z, groups).p_value < 0.01
    True
    """
    if bandwidth is not None:
        check_number("bandwidth", bandwidth, _SMALLEST)
    check_count("block_size", block_size, least=4)
    check_count("n_permutations", n_permutations, least=0)
    rows, _ = representation(Z, None)
    groups, codes = coded_groups(sensitive_features, Z, len(rows), ("Z", "sensitive_features"))
    counts = np.bincount(codes, minlength=len(groups))
    _check_several_rows(groups, counts)
    rng = generator_of(random_state)
    if bandwidth is None:
        bandwidth = _median_distance(rows, rng)
    pairs = np.triu_indices(len(groups), 1)
    squared = np.zeros((len(groups), len(groups)))
    permutations = np.zeros((n_permutations, *squared.shape))
    blocks = _blocks(codes, counts, block_size, rng)
    for block in blocks:
        kernel = _kernel(rows[block], bandwidth)
        members = np.eye(len(groups))[codes[block]]
        squared += _squared(kernel, members) / len(blocks)
        for permutation in permutations:
            permutation += _squared(kernel, rng.permutation(members)) / len(blocks)
    permuted = permutations[:, *pairs].max(axis=1, initial=-np.inf)
    widest = int(np.argmax(squared[pairs]))
    largest = float(squared[pairs][widest])
    # Sums in another order are rounded otherwise.
    reached = permuted >= largest - 1e-12
    p_value = float((1 + reached.sum()) / (1 + n_permutations)) if n_permutations else None
    pair = groups[pairs[0][widest]], groups[pairs[1][widest]]
    return MeanDiscrepancy(
        groups, counts, squared, largest, pair, p_value, float(bandwidth), len(blocks)
    )


def _squared(kernel: FloatArray, members: FloatArray) -> FloatArray:
    """MMD^2 of each pair of groups from a kernel with a diagonal of zeros, shape (k, k)."""
    counts = members.sum(axis=0)
    sums = members.T @ kernel @ members
    own = np.diag(sums) / (counts * (counts - 1))
    squared = own[:, None] + own - 2 * sums / np.outer(counts, counts)
    np.fill_diagonal(squared, 0.0)
    return np.asarray(squared)


def _kernel(rows: FloatArray, bandwidth: float) -> FloatArray:
    """k(u, v) of all pairs of different rows; zero on the diagonal."""
    kernel = np.exp(-_squared_distances(rows) / (2 * bandwidth**2))
    np.fill_diagonal(kernel, 0.0)
    return np.asarray(kernel)


def _squared_distances(rows: FloatArray) -> FloatArray:
    centred = rows - rows.mean(axis=0)
    lengths = (centred**2).sum(axis=1)
    return np.maximum(lengths[:, None] + lengths - 2 * centred @ centred.T, 0.0)


def _median_distance(rows: FloatArray, rng: np.random.Generator) -> float:
    """Of two rows that differ; 1 where all are the same."""
    if len(rows) > _ROWS_FOR_MEDIAN:
        rows = rows[rng.choice(len(rows), _ROWS_FOR_MEDIAN, replace=False)]
    squares = _squared_distances(rows)[np.triu_indices(len(rows), 1)]
    apart = squares[squares > 0]
    return float(np.sqrt(np.median(apart))) if len(apart) else 1.0


def _blocks(
    codes: IntegerArray, counts: IntegerArray, block_size: int, rng: np.random.Generator
) -> list[IntegerArray]:
    """Positions of the rows of each block, each group spread evenly over the blocks."""
    n_blocks = max(1, min(-(-len(codes) // block_size), int(counts.min()) // 2))
    if n_blocks == 1:
        return [np.arange(len(codes))]
    spread = [
        np.array_split(rng.permutation(np.flatnonzero(codes == group)), n_blocks)
        for group in range(len(counts))
    ]
    return [np.concatenate(parts) for parts in zip(*spread, strict=True)]


def _check_several_rows(groups: tuple[Label, ...], counts: IntegerArray) -> None:
    if len(groups) < 2:
        raise InvalidInput(
            f"All rows belong to one group, {groups[0]!r}",
            "Allowed are two groups or more",
            "Check the group column, or the filter that made these rows",
        )
    single = [label for label, count in zip(groups, counts, strict=True) if count < 2]
    if single:
        raise InvalidInput(
            f"These groups have a single row: {listed(single)}",
            "Allowed are groups of two rows or more: distances within a group are compared",
            "Leave these rows out, or join these groups with others",
        )
