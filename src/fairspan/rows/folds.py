"""Folds for cross-fitting: which rows are left out together, by position or by cluster."""

import numbers
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np

from fairspan.errors import InvalidInput, InvalidParameter
from fairspan.formatting.text import position
from fairspan.rows.groups import CodedLabels, Label
from fairspan.typing import IndexArray

# Constants of the generator splitmix64 (Steele, Lea and Flood 2014), which turns consecutive
# numbers into independent ones.
_STEP, _FIRST, _SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


@dataclass(frozen=True, eq=False)
class FoldedLabels:
    """What is known of some rows beside their values.

    Attributes
    ----------
    groups : CodedLabels of r rows
    folds : (r,) array of int
    clusters : CodedLabels of r rows, or None
        Which rows belong together; None where each is on its own.
    """

    groups: CodedLabels
    folds: IndexArray
    clusters: CodedLabels | None = None


@dataclass(frozen=True)
class Folds:
    """Which fold each row is in: by its position, or by the cluster that it belongs to.

    Of every `n_folds` consecutive rows one is in each fold, in an order that is drawn again each
    time. If the numbers of rows in the parts before are not known (CSV files, Spark, most Dask
    data frames), rows are counted within their part, so that the number of processes does not
    matter.

    Attributes
    ----------
    n_folds : int
        K, at least 2.
    seed : int
    by_cluster : bool
        Whether the last column of the labels names the cluster of a row. All rows of a cluster are
        in one fold.

    Raises
    ------
    InvalidParameter
        Fewer than two folds.

    Examples
    --------
    >>> Folds(3, seed=0).of_positions(0, 9)
    array([1, 2, 0, 0, 1, 2, 1, 2, 0])
    """

    n_folds: int = 10
    seed: int = 0
    by_cluster: bool = False

    def __post_init__(self) -> None:
        value: Any = self.n_folds
        if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < 2:
            raise InvalidParameter(
                f"folds is {value!r}",
                "Allowed: a whole number of at least 2, or None for no estimates on new rows",
                "Use the default, 10",
            )

    def of_positions(self, first_row: int, n_rows: int) -> IndexArray:
        """Folds of consecutive rows, shape (n_rows,)."""
        positions = np.arange(first_row, first_row + n_rows, dtype=np.uint64)
        runs = _scrambled(positions // np.uint64(self.n_folds), self.seed)
        return np.asarray((positions + runs) % np.uint64(self.n_folds), dtype=np.intp)

    def of_cluster(self, cluster: Label) -> int:
        """The fold of all rows of a cluster, the same in every process."""
        digest = blake2b(repr((self.seed, cluster)).encode(), digest_size=8).digest()
        return int.from_bytes(digest, "little") % self.n_folds

    def of_rows(self, labels: CodedLabels, first_row: int) -> FoldedLabels:
        """Groups, folds and clusters of consecutive rows.

        Raises
        ------
        InvalidInput
            A row without a cluster.
        """
        if not self.by_cluster:
            return FoldedLabels(labels, self.of_positions(first_row, len(labels)))
        clusters = CodedLabels.of([label[-1] for label in labels.distinct])[labels.codes]
        missing = clusters.missing
        if missing.any():
            raise InvalidInput(
                f"The cluster of {position('row', first_row + int(np.argmax(missing)))} is missing",
                "Allowed: a cluster for each row",
                "Give rows that belong to nobody else a cluster each, or leave them out",
            )
        folds = np.array([self.of_cluster(label) for label in clusters.distinct], dtype=np.intp)
        return FoldedLabels(labels.without_last_attribute(), folds[clusters.codes], clusters)


def _scrambled(values: Any, seed: int) -> Any:
    """Numbers that look drawn at random, by splitmix64."""
    with np.errstate(over="ignore"):
        mixed = (values + np.uint64(1 + seed)) * np.uint64(_STEP)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(_FIRST)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(_SECOND)
        return mixed ^ (mixed >> np.uint64(31))
