"""Control features: the rows of each of their levels, audited on their own."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fairspan.auditing.results import ModelAudit
from fairspan.errors import InvalidInput
from fairspan.formatting.numbers import position
from fairspan.rows.coded_labels import in_order
from fairspan.rows.frames import frame_of
from fairspan.rows.groups import Label
from fairspan.rows.labels import Labels, labels_of, named_columns
from fairspan.rows.protocol import RowBlock, Rows, RowSource, WrappedRows
from fairspan.typing import BoolArray, IntegerArray

PART = "it was fitted on the rows of all levels, and was not fitted again within one"


@dataclass(frozen=True, eq=False)
class Controls:
    """The level of each row.

    Attributes
    ----------
    names : tuple of str
        Of the control features.
    levels : tuple of labels
        In sorted order.
    codes : (n,) array of int
    """

    names: tuple[str, ...]
    levels: tuple[Label, ...]
    codes: IntegerArray

    def rows_within(self, rows: Rows, level: int) -> "RowsWithin":
        """The rows of one level."""
        if not isinstance(rows, RowSource):
            raise _not_in_memory()
        return RowsWithin(rows, self.codes == level)


@dataclass(frozen=True, eq=False)
class RowsWithin(WrappedRows):
    """Some of the rows of a source.

    Attributes
    ----------
    rows : RowSource
    kept : (n,) array of bool
    """

    kept: BoolArray

    @property
    def n_rows(self) -> int:
        """Rows that are kept."""
        return int(self.kept.sum())

    def blocks(self) -> Iterator[RowBlock]:
        """Read the rows that are kept from the beginning."""
        start = 0
        for block in self.rows.blocks():
            own = np.flatnonzero(self.kept[block.first_row : block.first_row + len(block.values)])
            if len(own):
                yield RowBlock(
                    start,
                    block.values[own],
                    None if block.labels is None else block.labels[own],
                    None if block.weights is None else block.weights[own],
                )
            start += len(own)


def taken_out(X: Any, control_features: Any) -> tuple[Any, Controls | None]:
    """The table without its control features, and the level of each row.

    Raises
    ------
    InvalidInput
        Rows that are not in memory, a column that is not there, or lengths that differ.
    """
    if control_features is None:
        return X, None
    frame = frame_of(X)
    n_rows = len(X) if hasattr(X, "__len__") and not isinstance(X, str) else None
    if getattr(X, "shape", None):  # sparse rows have no length
        n_rows = X.shape[0]
    if n_rows is None:
        raise _not_in_memory()
    names = () if frame is None else tuple(named_columns(frame, control_features))
    if names:
        assert frame is not None
        X, labels = frame.drop(list(names)).to_native(), Labels.of_columns(frame, list(names))
    else:
        labels = labels_of(control_features, n_rows, X, "control_features")
        names = tuple(str(name) for name in labels.names if name is not None)
    coded = labels.between(0, n_rows)
    if coded.missing.any():
        raise InvalidInput(
            f"control_features has no value in {position('row', int(np.argmax(coded.missing)))}",
            "Allowed: one value for each row",
            "Drop these rows",
        )
    levels, codes = in_order(coded)
    width = len(levels[0]) if isinstance(levels[0], tuple) else 1
    if len(names) != width:
        names = tuple(f"control_feature_{place}" for place in range(width))
    return X, Controls(names, levels, codes)


def without_estimates(model: ModelAudit) -> ModelAudit:
    """The same, for a model that was fitted on rows of all levels."""
    groups = tuple(replace(group, expected=None) for group in model.groups)
    return replace(model, groups=groups, why_no_estimates=PART)


def _not_in_memory() -> InvalidInput:
    return InvalidInput(
        "control_features was given, and the rows are not in memory",
        "Allowed with control features are arrays and data frames",
        "Read the rows first, for example with pandas.read_parquet",
    )
