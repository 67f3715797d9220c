"""Export a projection to ONNX and SQL."""

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Protocol

import numpy as np

from fairspan.errors import Cause, IncompatibleParameters, InvalidParameter, import_optional
from fairspan.moments.reference_frame import ReferenceFrame
from fairspan.parameters import check_bool
from fairspan.typing import FloatArray
from fairspan.version import __version__


class ExportableProjection(Protocol):
    """Part of a subspace that exports to other languages need."""

    @property
    def encoder(self) -> FloatArray:
        """Matrix that maps centered and scaled rows to coordinates, shape (d, p)."""

    @property
    def mean(self) -> FloatArray | None:
        """Mean that is subtracted from each row, shape (p,)."""

    @property
    def scale(self) -> FloatArray | None:
        """Divisor of each centered row, shape (p,)."""

    @property
    def row_frame(self) -> ReferenceFrame:
        """Mean and scale, as zeros and ones where there are none."""

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Names of the features."""

    @property
    def component_names(self) -> tuple[str, ...]:
        """Names of the coordinates."""


# Operator set and format of 2022, which all current runtimes support.
_OPSET_VERSION = 17
_IR_VERSION = 8


@dataclass(frozen=True)
class _Operation:
    """Operation of a graph on the output of the previous one.

    Attributes
    ----------
    operator : str
    constant_names : tuple of str
        Names of its further inputs, which are constants.
    attributes : dict
    """

    operator: str
    constant_names: tuple[str, ...] = ()
    attributes: dict[str, object] = field(default_factory=dict)


def onnx_bytes(projection: ExportableProjection, dtype: str) -> bytes:
    """Serialize the ONNX graph that maps rows "X" to "coordinates".

    Parameters
    ----------
    projection : ExportableProjection
    dtype : {"float64", "float32"}
        Type of input and output; computations use float64.

    Raises
    ------
    MissingDependency, InvalidParameter
    """
    if dtype not in ("float64", "float32"):
        raise InvalidParameter(
            f"dtype is {dtype!r}", "Allowed: 'float64' and 'float32'", "Use 'float64'"
        )
    onnx = import_optional("onnx", "onnx", "Writing a graph")
    helper = onnx.helper
    float64_type = onnx.TensorProto.DOUBLE
    io_type = onnx.TensorProto.FLOAT if dtype == "float32" else float64_type
    # Operators by name with their constant, which is named like the operator.
    operators = {"Sub": projection.mean, "Div": projection.scale, "MatMul": projection.encoder.T}
    constants = [
        onnx.numpy_helper.from_array(np.ascontiguousarray(value, dtype=np.float64), operator)
        for operator, value in operators.items()
        if value is not None
    ]
    operations = [
        _Operation(constant.name, constant_names=(constant.name,)) for constant in constants
    ]
    if dtype == "float32":
        to_float64 = _Operation("Cast", attributes={"to": float64_type})
        to_float32 = _Operation("Cast", attributes={"to": io_type})
        operations = [to_float64, *operations, to_float32]
    # Each operation takes the output of the previous one.
    names = ["X", *(f"step{i}" for i in range(1, len(operations))), "coordinates"]
    nodes = [
        helper.make_node(
            operation.operator,
            [input_name, *operation.constant_names],
            [output_name],
            **operation.attributes,
        )
        for operation, (input_name, output_name) in zip(operations, pairwise(names), strict=True)
    ]
    d, p = projection.encoder.shape
    rows = helper.make_tensor_value_info("X", io_type, [None, p])
    coordinates = helper.make_tensor_value_info("coordinates", io_type, [None, d])
    graph = helper.make_graph(nodes, "fairspan", [rows], [coordinates], constants)
    model = helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", _OPSET_VERSION)],
        ir_version=_IR_VERSION,
        producer_name="fairspan",
        producer_version=__version__,
    )
    if projection.feature_names is not None:
        helper.set_model_props(model, {"features": "\n".join(projection.feature_names)})
    onnx.checker.check_model(model)
    return bytes(model.SerializeToString())


def sql_select(projection: ExportableProjection, table: str, *, one_hot: bool = False) -> str:
    """SELECT statement that transforms the rows of a table, with one column per coordinate.

    Parameters
    ----------
    projection : ExportableProjection
        With feature names.
    table : str
    one_hot : bool
        Whether features named column=category are indicators of text columns.

    Raises
    ------
    IncompatibleParameters
        The features have no names, or none is an indicator.
    InvalidParameter
        A name cannot be represented in SQL, or `one_hot` is no boolean.
    """
    check_bool("one_hot", one_hot)
    names = projection.feature_names
    if names is None:
        raise IncompatibleParameters(
            "The features of the model have no names, which SQL needs",
            "Allowed: models fitted on tables with named columns",
            "Fit on a data frame or a file",
        )
    if one_hot and not any("=" in name for name in names):
        raise IncompatibleParameters(
            "None of the features is named column=category",
            "Allowed with one_hot: models with indicator features",
            "Drop one_hot=True",
            cause=Cause.NO_INDICATORS,
        )
    frame = projection.row_frame
    loadings = projection.encoder / frame.scale
    centered_columns = [
        f"({_sql_value(name, one_hot=one_hot)} - {_sql_number(column_mean)})"
        for name, column_mean in zip(names, frame.center.tolist(), strict=True)
    ]
    expressions = []
    for component, name in zip(loadings.tolist(), projection.component_names, strict=True):
        terms = [
            f"{_sql_number(loading)} * {column}"
            for loading, column in zip(component, centered_columns, strict=True)
        ]
        expressions.append("\n  + ".join(terms) + f" AS {_sql_identifier(name)}")
    select = ",\n  ".join(expressions)
    return f"SELECT\n  {select}\nFROM {_sql_identifier(table)}"


def _sql_value(name: str, *, one_hot: bool) -> str:
    column, is_indicator, category = name.partition("=")
    if not (one_hot and is_indicator and column):
        return f"CAST({_sql_identifier(name)} AS DOUBLE PRECISION)"
    # A missing cell stays NULL; a category unknown to the model is 0 in all indicators.
    cell = _sql_identifier(column)
    text = category.replace("'", "''")
    return f"CASE WHEN {cell} IS NULL THEN NULL WHEN {cell} = '{text}' THEN 1e+00 ELSE 0e+00 END"


def _sql_identifier(name: str) -> str:
    if not isinstance(name, str) or not name or "\0" in name:
        raise InvalidParameter(
            f"{name!r} is used as the name of a column or a table",
            "Allowed in SQL: nonempty names without the NUL character",
            "Rename it",
        )
    return '"' + name.replace('"', '""') + '"'


def _sql_number(value: float) -> str:
    """Format a number in scientific notation, in parentheses if it is negative.

    SQL reads numbers without an exponent as decimals of low precision.

    Examples
    --------
    >>> _sql_number(0.1), _sql_number(-2.0)
    ('1e-01', '(-2e+00)')
    """
    text = np.format_float_scientific(value, trim="-")
    return f"({text})" if text.startswith("-") else text
