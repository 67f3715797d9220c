"""Which columns only rise or only fall from row to row, as row numbers and identifiers do."""

from dataclasses import dataclass

import numpy as np

from fairspan.typing import BoolArray, FloatArray

# Fewer rows may be in order by chance; of so many, with odds of 1 to 10^18 for each column.
_FEWEST_ROWS = 20
# Steps from one row to the next that leave a value as it is.
_MOST_TIES = 0.01


@dataclass(frozen=True, eq=False)
class OrderedColumns:
    """What is known, after some rows, of the order of each column's values.

    Rows come block by block, in their order; two parts merge where the rows of the first come
    before those of the second. Columns that are already out of order are not checked again, so
    that most blocks take almost no time.

    Attributes
    ----------
    n_rows : int
    first, last : (p,) arrays
        Values in the first and in the last row; of no meaning where there are no rows.
    ties : (p,) array
        Steps that leave the value as it is, while the column is in order.
    never_falls, never_rises : (p,) arrays of bool

    Examples
    --------
    >>> import numpy as np
    >>> rows = np.column_stack([np.arange(30), np.arange(30) % 7])
    >>> start = OrderedColumns.before(2)
    >>> start.absorb(rows[:12]).merged(start.absorb(rows[12:])).columns()
    (0,)
    """

    n_rows: int
    first: FloatArray
    last: FloatArray
    ties: FloatArray
    never_falls: BoolArray
    never_rises: BoolArray

    @classmethod
    def before(cls, n_features: int) -> "OrderedColumns":
        """Before any row."""
        nothing, everything = np.zeros(n_features), np.ones(n_features, dtype=bool)
        return cls(0, nothing, nothing, nothing, everything, everything)

    def absorb(self, values: FloatArray) -> "OrderedColumns":
        """After the next rows, an (r, p) array."""
        if not len(values):
            return self
        candidates = np.flatnonzero(self.never_falls | self.never_rises)
        ties = np.zeros(len(self.ties))
        never_falls, never_rises = np.zeros((2, len(ties)), dtype=bool)
        if len(candidates):
            steps = np.diff(values[:, candidates], axis=0)
            ties[candidates] = (steps == 0).sum(axis=0)
            never_falls[candidates] = (steps >= 0).all(axis=0)
            never_rises[candidates] = (steps <= 0).all(axis=0)
        # Copies, as blocks may be views of the user's data.
        first, last = values[0].astype(np.float64), values[-1].astype(np.float64)
        return self.merged(OrderedColumns(len(values), first, last, ties, never_falls, never_rises))

    def merged(self, later: "OrderedColumns") -> "OrderedColumns":
        """What is known after these rows and the later ones."""
        if not self.n_rows or not later.n_rows:
            return later if later.n_rows else self
        return OrderedColumns(
            self.n_rows + later.n_rows,
            self.first,
            later.last,
            self.ties + later.ties + (self.last == later.first),
            self.never_falls & later.never_falls & (self.last <= later.first),
            self.never_rises & later.never_rises & (self.last >= later.first),
        )

    def columns(self) -> tuple[int, ...]:
        """Positions of the columns whose values are in order and nearly all different."""
        if self.n_rows < _FEWEST_ROWS:
            return ()
        different = self.ties <= _MOST_TIES * (self.n_rows - 1)
        in_order = (self.never_falls | self.never_rises) & different
        return tuple(np.flatnonzero(in_order).tolist())

    def to_array(self) -> FloatArray:
        """Everything in one (6, p) array, for engines that move bytes."""
        counted = np.full(len(self.first), float(self.n_rows))
        order = (self.never_falls, self.never_rises)
        return np.stack([counted, self.first, self.last, self.ties, *order], dtype=np.float64)

    @classmethod
    def from_array(cls, array: FloatArray) -> "OrderedColumns":
        """What :meth:`to_array` was made of."""
        counted, first, last, ties, never_falls, never_rises = array
        return cls(int(counted[0]), first, last, ties, never_falls > 0, never_rises > 0)
