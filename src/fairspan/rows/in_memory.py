"""What rows held in memory have in common: labels and weights beside them, and their blocks."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy.typing as npt

from fairspan.errors import InvalidInput
from fairspan.rows.checks import row_block
from fairspan.rows.groups import listed
from fairspan.rows.labels import Labels
from fairspan.rows.protocol import OnMissing, RowBlock, block_rows
from fairspan.typing import FloatArray


@dataclass(frozen=True, kw_only=True, eq=False)
class RowsInMemory:
    """Rows that can be read from any place, with labels and weights on the host.

    Attributes
    ----------
    labels : Labels or None
    weights : (n,) array or None
    on_missing : {"error", "drop"}
    """

    labels: Labels | None = None
    weights: FloatArray | None = None
    on_missing: OnMissing = "error"

    @property
    def shape(self) -> tuple[int, ...]:
        """(n, p)."""
        raise NotImplementedError

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Names of the features, if they have any."""
        return None

    @property
    def n_features(self) -> int:
        """p, the number of features."""
        return int(self.shape[1])

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.shape[0])

    @property
    def group_columns(self) -> tuple[Any, ...]:
        """Names of the columns that make the groups."""
        return () if self.labels is None else self.labels.names

    def selected(self, names: tuple[str, ...]) -> Self:
        """The same rows, whose width must fit where there are no names to select by.

        Raises
        ------
        InvalidInput
            Another number of columns.
        """
        if self.n_features != len(names):
            raise InvalidInput(
                f"X has {self.n_features} features",
                f"The model was fitted on {len(names)}: {listed(names)}",
                "Pass the columns that it was fitted on",
            )
        return self

    def between(self, start: int, stop: int) -> npt.NDArray[Any]:
        """Some rows as numbers, not checked, shape (stop - start, p); not to be written to."""
        raise NotImplementedError

    def blocks(self) -> Iterator[RowBlock]:
        """Read all rows from the beginning."""
        size, names = block_rows(self.n_features), self.feature_names
        for start in range(0, self.n_rows, size):
            stop = min(start + size, self.n_rows)
            yield row_block(
                start,
                self.between(start, stop),
                None if self.labels is None else self.labels.between(start, stop),
                None if self.weights is None else self.weights[start:stop],
                names,
                self.on_missing,
            )
