"""Rows in a data frame: pandas, polars, pyarrow, or anything else narwhals reads eagerly."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from fairspan.errors import InvalidInput
from fairspan.moments.groups import listed
from fairspan.moments.sources.labels import Labels
from fairspan.moments.sources.protocol import (
    FloatArray,
    OnMissing,
    RowBlock,
    block_rows,
    check_shape,
    checked_values,
    checked_weights,
    row_block,
)


@dataclass(frozen=True)
class FrameRows:
    """Rows of a data frame whose columns are all features.

    Parameters
    ----------
    frame : narwhals DataFrame
    first_row : int
        Number of the frame's first row in a larger table.
    set_aside : narwhals DataFrame or None
        Group columns of the same table, which are features only if asked for by name.
    """

    frame: nw.DataFrame[Any]
    first_row: int = field(default=0, kw_only=True)
    labels: Labels | None = field(default=None, kw_only=True)
    weights: FloatArray | None = field(default=None, kw_only=True)
    on_missing: OnMissing = field(default="error", kw_only=True)
    set_aside: nw.DataFrame[Any] | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        check_shape(self.frame.shape)

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Column names; None where they are not text (pandas numbers unnamed columns)."""
        names = tuple(self.frame.columns)
        return names if all(isinstance(name, str) for name in names) else None

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.frame)

    def joined(
        self, labels: Labels | None, sample_weight: Any = None, on_missing: OnMissing = "error"
    ) -> "FrameRows":
        """The same rows with labels and weights."""
        weights = checked_weights(sample_weight, self.n_rows)
        return replace(self, labels=labels, weights=weights, on_missing=on_missing)

    def selected(self, names: tuple[str, ...]) -> "FrameRows":
        """The same rows with these columns, in this order.

        Raises
        ------
        InvalidInput
            A column is missing.
        """
        aside = () if self.set_aside is None else self.set_aside.columns
        if self.set_aside is not None and any(name in aside for name in names):
            whole = nw.concat([self.frame, self.set_aside], how="horizontal")
            return replace(self, frame=whole, set_aside=None).selected(names)
        missing = [name for name in names if name not in self.frame.columns]
        if missing:
            raise InvalidInput(
                f"X has no column {listed(missing)}",
                f"The model was fitted on {listed(names)}",
                "Add these columns, or fit again without them",
            )
        return replace(self, frame=self.frame.select(list(names)))

    def values(self) -> FloatArray:
        """All rows at once, checked, shape (n, p)."""
        return checked_values(matrix_of(self.frame), 0, self.feature_names)

    def blocks(self) -> Iterator[RowBlock]:
        """Read all rows from the beginning."""
        size = block_rows(self.frame.shape[1])
        for start in range(0, self.n_rows, size):
            stop = min(start + size, self.n_rows)
            yield row_block(
                self.first_row + start,
                matrix_of(self.frame[start:stop]),
                None if self.labels is None else self.labels.between(start, stop),
                None if self.weights is None else self.weights[start:stop],
                self.feature_names,
                self.on_missing,
            )


def check_numeric(schema: Any) -> None:
    """Make sure that every column holds numbers or truth values.

    Raises
    ------
    InvalidInput
        Names the columns that do not.
    """
    # Object columns may hold numbers; converting them tells.
    bad = {
        name: dtype
        for name, dtype in schema.items()
        if not (dtype.is_numeric() or dtype in (nw.Boolean, nw.Object))
    }
    if bad:
        kinds = ", ".join(sorted({str(dtype) for dtype in bad.values()}))
        raise InvalidInput(
            f"These columns hold no numbers but {kinds}: {listed(list(bad))}",
            "Allowed are numbers and truth values",
            "Leave these columns out (--exclude on the command line) or encode them as numbers; "
            "name the group column as sensitive_features",
        )


def matrix_of(frame: nw.DataFrame[Any]) -> FloatArray:
    """Columns side by side as an (r, p) float64 array; a missing cell becomes NaN.

    Raises
    ------
    InvalidInput
        A column that holds no numbers.
    """
    check_numeric(frame.schema)
    matrix = np.empty(frame.shape, dtype=np.float64)
    for index, column in enumerate(frame.iter_columns()):
        if column.dtype == nw.Object:
            matrix[:, index] = _numbers(column)
        elif column.dtype.is_integer() and not column.is_null().any():
            # Arrow refuses to cast whole numbers beyond 2^53, which lose their last digits.
            matrix[:, index] = column.to_numpy()
        else:
            matrix[:, index] = column.cast(nw.Float64).to_numpy()
    return matrix


def _numbers(column: Any) -> FloatArray:
    try:
        return np.asarray(column.to_numpy().astype(np.float64))
    except (ValueError, TypeError, OverflowError) as error:
        raise InvalidInput(
            f"The column {column.name!r} holds values that are no numbers ({error})",
            "Allowed are numbers and truth values",
            "Leave this column out or encode it as numbers",
        ) from error
