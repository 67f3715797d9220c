"""Maximum mean discrepancy: how far the distributions of the groups' reduced rows lie apart."""

from itertools import combinations
from math import ceil
from typing import Any, Self

import numpy as np

from fairspan.errors import InvalidInput, InvalidParameter
from fairspan.metrics.columns import coded_groups
from fairspan.metrics.separation import rows_and_names
from fairspan.progress import track
from fairspan.random_state import generator_of
from fairspan.rows.groups import listed
from fairspan.typing import FloatArray, IntegerArray

# Up to so many rows all pairs are compared; of more, those within blocks of about that size.
_BLOCK = 2_000
# Rows whose distances give the width of the kernel.
_FOR_MEDIAN = 1_000


class Discrepancy(float):
    """The squared maximum mean discrepancy, a number, and how it was found.

    Attributes
    ----------
    p_value : float or None
        Share of permutations of the groups' labels that give at least this number, the observed one
        counted; None without permutations.
    bandwidth : float
        Width of the kernel, in the units of the rows.
    n_blocks : int
        Blocks whose estimates were averaged; 1 where all pairs of rows were compared.
    """

    p_value: float | None
    bandwidth: float
    n_blocks: int

    def __new__(cls, value: float, p_value: float | None, bandwidth: float, n_blocks: int) -> Self:
        """A number with its attributes."""
        made = super().__new__(cls, value)
        made.p_value, made.bandwidth, made.n_blocks = p_value, bandwidth, n_blocks
        return made

    def __repr__(self) -> str:
        """The number, and the p-value."""
        told = "" if self.p_value is None else f", p_value={self.p_value:.3g}"
        return f"Discrepancy({float(self):.6g}{told})"


def mmd(
    Z: Any,
    sensitive_features: Any,
    *,
    bandwidth: float | None = None,
    n_permutations: int = 199,
    random_state: Any = 0,
) -> Discrepancy:
    r"""Squared maximum mean discrepancy between the groups' rows, estimated without bias.

    MMD^2 = E k(z, z') + E k(w, w') - 2 E k(z, w) for rows z, z' of one group and w, w' of another,
    with the Gaussian kernel k(z, w) = exp(-\|z - w\|^2 / (2 s^2)) (Gretton et al. 2012, equation
    3). It is zero only if both groups' rows have the same distribution. The estimate can be
    slightly negative. With more than two groups, the largest value of all pairs is returned.

    Parameters
    ----------
    Z : (n, d) array or data frame
        A representation of the rows, such as ``model.transform(X)``.
    sensitive_features : (n,) or (n, a) array-like or data frame, or mapping of name to column
        Group of each row; several attributes make their intersections.
    bandwidth : float, optional
        Width s of the kernel; by default the median distance between two rows.
    n_permutations : int, default=199
        Permutations of the labels for the p-value; 0 for none.
    random_state : int, numpy Generator, or None, default=0
        Seed of the permutations, of the rows for the median, and of the blocks.

    Returns
    -------
    Discrepancy
        A float with attributes `p_value`, `bandwidth` and `n_blocks`.

    Raises
    ------
    InvalidInput
        One group only, a group of one row, NaN or infinity, missing labels, lengths that differ.
    InvalidParameter
        A bandwidth that is not above zero, or a negative number of permutations.

    Notes
    -----
    With up to 2,000 rows all pairs are compared. More rows are split into blocks of about that
    size in which each group has its share, and the estimates of the blocks are averaged (Zaremba
    et al. 2013): the time is linear in the rows, the estimate stays unbiased and its variance
    grows. Labels are permuted within blocks. Where one group has too few rows for so many blocks,
    rows of the larger groups are drawn.

    Examples
    --------
    >>> import numpy as np
    >>> from fairspan import metrics
    >>> rng = np.random.default_rng(0)
    >>> groups = np.repeat(["a", "b"], 100)
    >>> Z = rng.normal(size=(200, 2)) + 2.0 * (groups == "b")[:, None]
    >>> found = metrics.mmd(Z, groups)
    >>> round(found, 2), found.p_value
    (0.56, 0.005)
    """
    rows, _ = rows_and_names(Z, None)
    groups, codes = coded_groups(sensitive_features, Z, len(rows), ("Z", "sensitive_features"))
    counts = np.bincount(codes, minlength=len(groups))
    if len(groups) < 2 or counts.min() < 2:
        few = [label for label, count in zip(groups, counts, strict=True) if count < 2]
        raise InvalidInput(
            f"The group(s) {listed(few)} have one row each" if few else "All rows are of one group",
            "Allowed: two groups or more, of two rows or more",
            "Leave such groups out, or check the group column",
        )
    if bandwidth is not None and not bandwidth > 0:
        raise InvalidParameter(
            f"bandwidth is {bandwidth!r}", "Allowed: numbers above zero", "Leave it out"
        )
    if n_permutations < 0:
        raise InvalidParameter(
            f"n_permutations is {n_permutations}", "Allowed: 0 and more", "Choose 199"
        )
    random = generator_of(random_state)
    width = _median_distance(rows, random) if bandwidth is None else float(bandwidth)
    blocks = _blocks(codes, counts, random)
    totals = np.zeros((1 + n_permutations, len(list(combinations(range(len(groups)), 2)))))
    for block in track("comparing rows", blocks, "blocks"):
        totals += _of_block(rows[block], codes[block], width, n_permutations, random)
    largest = (totals / len(blocks)).max(axis=1)
    p_value = float((largest >= largest[0]).mean()) if n_permutations else None
    return Discrepancy(float(largest[0]), p_value, width, len(blocks))


def _median_distance(rows: FloatArray, random: np.random.Generator) -> float:
    """Median distance between two rows that differ; 1 where all are the same."""
    from scipy.spatial.distance import pdist

    drawn = rows
    if len(rows) > _FOR_MEDIAN:
        drawn = rows[random.choice(len(rows), _FOR_MEDIAN, replace=False)]
    distances = pdist(drawn)
    median = float(np.median(distances))
    if median == 0:  # most rows are the same
        median = float(np.median(distances[distances > 0])) if distances.any() else 1.0
    return median


def _blocks(
    codes: IntegerArray, counts: IntegerArray, random: np.random.Generator
) -> list[IntegerArray]:
    """Positions of the rows of each block; every group has as many rows in each."""
    if len(codes) <= _BLOCK:
        return [np.arange(len(codes))]
    most = max(_BLOCK // len(counts), 2)
    n_blocks = min(ceil(counts.max() / most), int(counts.min()) // 2)
    parts: list[list[IntegerArray]] = [[] for _ in range(n_blocks)]
    for code in range(len(counts)):
        own = random.permutation(np.flatnonzero(codes == code))
        size = min(len(own) // n_blocks, most)
        for number, part in enumerate(parts):
            part.append(own[number * size : (number + 1) * size])
    return [np.concatenate(part) for part in parts]


def _of_block(
    rows: FloatArray,
    codes: IntegerArray,
    width: float,
    n_permutations: int,
    random: np.random.Generator,
) -> FloatArray:
    """Estimates (1 + m, pairs) of one block: with its labels, and with each permutation of them."""
    from scipy.spatial.distance import pdist, squareform

    # A row is not compared with itself, so the diagonal stays zero.
    kernel = squareform(np.exp(-(pdist(rows, "sqeuclidean") / (2 * width**2))))
    n_groups = int(codes.max()) + 1
    counts = np.bincount(codes, minlength=n_groups).astype(np.float64)
    drawn = np.array([codes, *(random.permutation(codes) for _ in range(n_permutations))])
    members = (drawn[:, :, None] == np.arange(n_groups)).astype(np.float64)
    # One product for all permutations.
    beside = np.moveaxis(members, 0, 1).reshape(len(codes), -1)
    met = np.moveaxis((kernel @ beside).reshape(len(codes), -1, n_groups), 1, 0)
    sums = members.transpose(0, 2, 1) @ met
    within = np.diagonal(sums, axis1=1, axis2=2) / (counts * (counts - 1))
    across = sums / np.outer(counts, counts)
    pairs = combinations(range(n_groups), 2)
    return np.transpose([within[:, a] + within[:, b] - 2 * across[:, a, b] for a, b in pairs])
