"""What tables without column names have in common, whatever holds them."""

from typing import Protocol, Self

from fairspan.errors import InvalidInput
from fairspan.rows.groups import listed


class UnnamedRows(Protocol):
    """Rows of an (n, p) table whose features have no names."""

    @property
    def shape(self) -> tuple[int, ...]:
        """(n, p)."""

    @property
    def feature_names(self) -> None:
        """There are none."""
        return

    @property
    def n_features(self) -> int:
        """p, the number of features."""
        return int(self.shape[1])

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.shape[0])

    def selected(self, names: tuple[str, ...]) -> Self:
        """The same rows, whose width must fit, as there are no names to select by.

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
