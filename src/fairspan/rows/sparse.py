"""Rows in a sparse matrix of scipy: compressed rows or columns, coordinates, or another kind."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from fairspan.errors import InvalidInput
from fairspan.moments.accumulate import RunningMoments
from fairspan.moments.group_moments import GroupMoments
from fairspan.moments.held_rows.sparse_group import SparseGroup
from fairspan.moments.held_rows.sparse_moments import SparseMoments
from fairspan.moments.intake import Intake
from fairspan.rows.checks import row_block
from fairspan.rows.group_limit import USUAL_LIMIT, GroupLimit
from fairspan.rows.groups import LabelCoder
from fairspan.rows.labels import Labels, labels_of
from fairspan.rows.protocol import (
    FloatArray,
    OnMissing,
    Projection,
    RowBlock,
    block_rows,
)
from fairspan.rows.sparse_cells import Csr, checked_matrix, row_numbers
from fairspan.rows.unnamed import UnnamedRows
from fairspan.rows.weights import checked_weights

# Where more of the cells are stored, blocks with all their zeros are multiplied faster.
_SPARSE_UP_TO = 1 / 12
# Numbers of one part of reduced rows that are computed at once.
_PART_NUMBERS = 2**22


@dataclass(frozen=True, eq=False)
class SparseRows(UnnamedRows):
    """Rows of a sparse matrix.

    Attributes
    ----------
    matrix : (n, p) csr_array
        Finite numbers, or NaN where missing cells are dropped; no duplicates, no stored zeros.
    labels : Labels or None
    weights : (n,) array or None
    on_missing : {"error", "drop"}
    """

    matrix: Csr
    labels: Labels | None = field(default=None, kw_only=True)
    weights: FloatArray | None = field(default=None, kw_only=True)
    on_missing: OnMissing = field(default="error", kw_only=True)

    @property
    def shape(self) -> tuple[int, ...]:
        """(n, p)."""
        return tuple(self.matrix.shape)

    @property
    def group_columns(self) -> tuple[Any, ...]:
        """Names of the columns that make the groups."""
        return () if self.labels is None else self.labels.names

    def blocks(self) -> Iterator[RowBlock]:
        """Read all rows from the beginning, a few hundred at a time with all their zeros."""
        size = block_rows(self.n_features)
        for start in range(0, self.n_rows, size):
            stop = min(start + size, self.n_rows)
            yield row_block(
                start,
                self.matrix[start:stop].toarray(),
                None if self.labels is None else self.labels.between(start, stop),
                None if self.weights is None else self.weights[start:stop],
                None,
                self.on_missing,
            )

    def moments(self, limit: GroupLimit = USUAL_LIMIT) -> GroupMoments | None:
        """Moments of each group, as matrices; None if there are no rows."""
        if self.matrix.nnz > _SPARSE_UP_TO * self.n_rows * self.n_features:
            running = RunningMoments(None, limit)
            for block in self.blocks():
                running.absorb(block)
            return running.finished()
        staying = self.staying(limit)
        if staying is None:
            return None
        if staying.n_groups == 0:
            return GroupMoments.from_groups([], self.n_features, None, staying.intake)
        return staying.matrices()

    def staying(self, limit: GroupLimit = USUAL_LIMIT) -> SparseMoments | None:
        """Moments that refer to the rows instead of matrices; None if there are no rows."""
        whole = self._complete()
        n_dropped = self.n_rows - whole.n_rows
        present = np.ones(whole.n_rows, bool) if whole.weights is None else whole.weights > 0
        if whole.labels is None:
            raise InvalidInput(
                "The rows carry no group labels", "Allowed is a label for each row", "Name a group"
            )
        coder = LabelCoder()
        codes = coder.encode(whole.labels.between(0, whole.n_rows))
        counts = np.bincount(codes[present])
        limit.check(int(np.count_nonzero(counts)), int(counts.sum()), self.n_features)
        parts = []
        with np.errstate(over="ignore", invalid="ignore"):  # found by check_magnitude
            for code, label in enumerate(coder.labels):
                own = np.flatnonzero((codes == code) & present)
                if len(own):
                    weights = None if whole.weights is None else whole.weights[own]
                    parts.append(SparseGroup.of(label, whole.matrix[own], weights))
        if not parts and not n_dropped:
            return None
        return SparseMoments.of_groups(parts, Intake(n_dropped))

    def _complete(self) -> "SparseRows":
        """Without the rows in which something is missing, where these are to be dropped."""
        if self.on_missing == "error" or self.labels is None:
            return self
        missing = self.labels.between(0, self.n_rows).missing
        missing[row_numbers(self.matrix)[np.isnan(self.matrix.data)]] = True
        if not missing.any():
            return self
        kept = np.flatnonzero(~missing)
        labels = self.labels.between(0, self.n_rows)[kept]
        return replace(
            self,
            matrix=self.matrix[kept],
            labels=Labels(len(kept), lambda start, stop: labels[start:stop]),
            weights=None if self.weights is None else self.weights[kept],
        )


def open_rows(
    X: Any, sensitive_features: Any, sample_weight: Any, on_missing: OnMissing
) -> SparseRows:
    """Rows of a sparse matrix, whose groups and weights are beside it."""
    matrix = checked_matrix(X, allow_nan=on_missing == "drop")
    n_rows = matrix.shape[0]
    return SparseRows(
        matrix,
        labels=labels_of(sensitive_features, n_rows, X),
        weights=checked_weights(sample_weight, n_rows),
        on_missing=on_missing,
    )


def transformed(X: Any, projection: Projection) -> npt.NDArray[Any]:
    """Coordinates of the rows as a (n, d) array; single precision stays single.

    Raises
    ------
    InvalidInput
        Another number of features, NaN or infinity.
    """
    matrix = checked_matrix(X)
    p = projection.components.shape[1]
    if matrix.shape[1] != p:
        raise InvalidInput(
            f"X has {matrix.shape[1]} features, but the projection is expecting {p} features as "
            "input",
            f"Allowed are rows of {p} features",
            "Pass the columns that it was fitted on",
        )
    directions = projection.components.T
    if projection.scale is not None:
        directions = directions / projection.scale[:, None]
    offset = 0.0 if projection.mean is None else projection.mean @ directions
    single = np.dtype(X.dtype) == np.float32
    reduced = np.empty((matrix.shape[0], directions.shape[1]), np.float32 if single else np.float64)
    size = max(_PART_NUMBERS // directions.shape[1], 1)
    for start in range(0, len(reduced), size):
        # In double precision: in single precision a large mean would cost digits.
        reduced[start : start + size] = matrix[start : start + size] @ directions - offset
    return reduced
