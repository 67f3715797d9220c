"""Types of tables, labels, arrays and random numbers used in signatures."""

from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import narwhals.stable.v2 as nw
    import pyarrow as pa
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from narwhals.stable.v2.typing import IntoDataFrame

AnyArray = npt.NDArray[Any]
BoolArray = npt.NDArray[np.bool_]
FloatArray = npt.NDArray[np.float64]
IndexArray = npt.NDArray[np.intp]
IntegerArray = npt.NDArray[np.int64]
RandomSource = int | np.random.Generator | np.random.RandomState | None
"""Seed or generator of random numbers, as scikit-learn's `random_state`."""

# What a caller passes may have any type until it is recognized: these names say what it should be.
TableLike: TypeAlias = object
"""Table of rows: an array, data frame, path, Arrow stream, Dask or Spark collection, open rows."""
LabelsLike: TypeAlias = object
"""Labels of rows: an array, series or data frame with one per row, names of columns, or None."""
WeightsLike: TypeAlias = object
"""Weights of rows: an array-like of one number per row, the name of a column, or None."""
ModelLike: TypeAlias = object
"""Fitted model: of this library, a PCA of scikit-learn, or a pipeline that ends in one of them."""

EagerFrame: TypeAlias = "nw.DataFrame[IntoDataFrame] | pa.Table"
"""Table in memory: a data frame that narwhals wraps, or a Table of pyarrow."""
RawLabel: TypeAlias = object
"""Label as a column holds it: not validated yet, and None or NaN if it is missing."""
RowIndex: TypeAlias = slice | IndexArray | BoolArray
"""Rows to select: a range, positions, or a mask."""
ColumnName: TypeAlias = Hashable
"""Name of a column: text in most tables, any hashable object in pandas."""
JsonValue: TypeAlias = str | float | bool | Sequence["JsonValue"] | Mapping[str, "JsonValue"] | None
"""Value that JSON can represent."""
Record: TypeAlias = dict[str, object]
"""Values by name, as methods called `to_dict` return them."""


class PlottedDisplay(Protocol):
    """Display that has been drawn, following scikit-learn's convention.

    The displays of :mod:`fairspan.displays` are such; lower layers name the type without importing
    them.

    Attributes
    ----------
    ax_ : matplotlib Axes
    axes_ : tuple of matplotlib Axes
        The panels; `(ax_,)` if there is only one.
    figure_ : matplotlib Figure
    """

    ax_: "Axes"
    axes_: "tuple[Axes, ...]"
    figure_: "Figure"

    def plot(self, ax: "Axes | None" = None) -> "PlottedDisplay":
        """Draw again, on the given axes or on those of a new figure."""

    def frame(self) -> Any:
        """Return the plotted data as a pandas DataFrame."""
