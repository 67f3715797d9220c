"""Assignment of rows to folds, by position or by cluster."""

from dataclasses import dataclass, replace
from hashlib import blake2b

import numpy as np

from fairspan.errors import InvalidInput, InvalidParameter
from fairspan.formatting.messages import describe_position
from fairspan.parameters import is_integer
from fairspan.rows.blocks import RowBlock
from fairspan.rows.coded_labels import CodedLabels
from fairspan.rows.labels import Label
from fairspan.rows.mapped import WrappedRows
from fairspan.typing import IndexArray

# Constants of splitmix64 (Steele, Lea and Flood 2014), which hashes consecutive integers.
_SPLITMIX_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_SPLITMIX_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_SPLITMIX_MIX_2 = np.uint64(0x94D049BB133111EB)


@dataclass(frozen=True)
class Folds:
    """Assignment of rows to folds, by position or by cluster.

    Each run of `n_folds` consecutive rows of the table has one row in every fold, cyclically
    shifted at random. Rows that are dropped keep their positions, so that the folds of the others
    do not depend on where and when rows are dropped. If the sizes of earlier partitions are unknown
    (several CSV files, Spark), positions are counted within each partition, so that the assignment
    does not depend on the number of processes.

    Attributes
    ----------
    n_folds : int
        Number of folds, at least 2.
    seed : int

    Raises
    ------
    InvalidParameter
        Fewer than two folds.

    Examples
    --------
    >>> Folds(3, seed=0).folds_of_positions(np.arange(9))
    array([1, 2, 0, 0, 1, 2, 1, 2, 0])
    """

    n_folds: int = 10
    seed: int = 0

    def __post_init__(self) -> None:
        value: object = self.n_folds
        if not is_integer(value) or value < 2:
            raise InvalidParameter(
                f"folds is {value!r}",
                "Allowed: an integer of at least 2, or None to skip estimates for new rows",
                "Use the default, 10",
            )

    def folds_of_positions(self, positions: IndexArray) -> IndexArray:
        """Return the folds of the rows at these positions in the table, shape (r,).

        Position i is in fold i + s modulo `n_folds`, where s is a hash (splitmix64) of the seed and
        of the number of its run of `n_folds` rows. So every run has one row in each fold, and any
        process finds the fold of a row from its position alone.
        """
        positions = positions.astype(np.uint64)
        runs = positions // np.uint64(self.n_folds)
        with np.errstate(over="ignore"):  # wrap-around is intended
            shift = (runs + np.uint64(1 + self.seed)) * _SPLITMIX_GAMMA
            shift = (shift ^ (shift >> np.uint64(30))) * _SPLITMIX_MIX_1
            shift = (shift ^ (shift >> np.uint64(27))) * _SPLITMIX_MIX_2
            shift ^= shift >> np.uint64(31)
        return np.asarray((positions + shift) % np.uint64(self.n_folds), dtype=np.intp)

    def fold_of_cluster(self, cluster: Label) -> int:
        """Return the fold of a cluster, reproducible across processes."""
        digest = blake2b(repr((self.seed, cluster)).encode(), digest_size=8).digest()
        return int.from_bytes(digest, "little") % self.n_folds

    def assign(
        self, positions: IndexArray, clusters: CodedLabels | None, row_offset: int = 0
    ) -> IndexArray:
        """Return the folds of rows, shape (r,): by cluster if there are clusters, or by position.

        Parameters
        ----------
        positions : (r,) array of int
            Positions of the rows among those of their partition, dropped rows included.
        clusters : CodedLabels of r rows, or None
            All rows of a cluster share a fold.
        row_offset : int
            Number of rows of the table before this partition.

        Raises
        ------
        InvalidInput
            A row without a cluster.
        """
        if clusters is None:
            return self.folds_of_positions(row_offset + positions)
        missing = clusters.missing_mask
        if missing.any():
            first_missing = int(positions[np.argmax(missing)])
            raise InvalidInput(
                f"The cluster of {describe_position('row', first_missing)} is missing",
                "Allowed: a cluster for each row",
                "Give each independent row its own cluster, or drop these rows",
            )
        fold_by_cluster = np.array(
            [self.fold_of_cluster(label) for label in clusters.categories], dtype=np.intp
        )
        return fold_by_cluster[clusters.codes]


@dataclass(frozen=True, eq=False)
class RowsOutsideFold(WrappedRows):
    """Rows of which those in one fold have weight zero.

    Attributes
    ----------
    source : RowSource or PartitionedRows
    folds : Folds
    fold : int
    """

    folds: Folds
    fold: int

    def change_block(self, block: RowBlock) -> RowBlock:
        """Return the block with weight zero for the rows in the fold."""
        weights = np.ones(len(block.values)) if block.weights is None else block.weights
        assigned = self.folds.assign(block.positions, block.clusters, self.row_offset)
        return replace(block, weights=np.where(assigned == self.fold, 0.0, weights))
