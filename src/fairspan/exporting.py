"""A projection where it is used: as a graph of ONNX, and as one SELECT of standard SQL."""

from typing import TYPE_CHECKING, Any

import numpy as np

from fairspan.errors import Incompatible, InvalidParameter, imported
from fairspan.version import __version__

if TYPE_CHECKING:
    from fairspan.rows.protocol import Projection


# Operators as they have been since 2022, which every runtime of today knows.
_OPERATORS, _FORMAT = 17, 8


def graph_bytes(projection: "Projection", dtype: str) -> bytes:
    """The graph that reduces rows "X" to "coordinates".

    Parameters
    ----------
    projection : Projection
    dtype : {"float64", "float32"}
        Of input and output; it computes in float64.

    Raises
    ------
    MissingDependency, InvalidParameter
    """
    if dtype not in ("float64", "float32"):
        raise InvalidParameter(
            f"dtype is {dtype!r}", "Allowed: 'float64' and 'float32'", "Use 'float64'"
        )
    onnx = imported("onnx", "onnx", "Writing a graph")
    helper, inside = onnx.helper, onnx.TensorProto.DOUBLE
    outside = onnx.TensorProto.FLOAT if dtype == "float32" else inside
    d, p = projection.encoder.shape
    nodes: list[Any] = []
    constants: list[Any] = []
    at = "X"

    def step(operator: str, constant: str | None = None, value: Any = None, **how: Any) -> None:
        nonlocal at
        given = [at]
        if constant is not None:
            numbers = np.ascontiguousarray(value, dtype=np.float64)
            constants.append(onnx.numpy_helper.from_array(numbers, constant))
            given.append(constant)
        at = f"step{len(nodes)}"
        nodes.append(helper.make_node(operator, given, [at], **how))

    if dtype == "float32":
        step("Cast", to=inside)
    if projection.mean is not None:
        step("Sub", "mean", projection.mean)
    if projection.scale is not None:
        step("Div", "scale", projection.scale)
    step("MatMul", "encoder", projection.encoder.T)
    if dtype == "float32":
        step("Cast", to=outside)
    nodes[-1].output[0] = "coordinates"
    graph = helper.make_graph(
        nodes,
        "fairspan",
        [helper.make_tensor_value_info("X", outside, [None, p])],
        [helper.make_tensor_value_info("coordinates", outside, [None, d])],
        constants,
    )
    model = helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", _OPERATORS)],
        ir_version=_FORMAT,
        producer_name="fairspan",
        producer_version=__version__,
    )
    if projection.feature_names is not None:
        helper.set_model_props(model, {"features": "\n".join(projection.feature_names)})
    onnx.checker.check_model(model)
    return bytes(model.SerializeToString())


_INDENT, _PLUS, _NEXT = "\n  ", "\n  + ", ",\n  "


def select_of(projection: "Projection", table: str, *, one_hot: bool = False) -> str:
    """The query that reduces the rows of a table.

    Parameters
    ----------
    projection : Projection
        With named features.
    table : str
    one_hot : bool
        Whether features named column=category are indicators of text in that column.

    Raises
    ------
    Incompatible
        The features have no names; none is an indicator.
    InvalidParameter
        A name that SQL cannot hold.
    """
    names = projection.feature_names
    if names is None:
        raise Incompatible(
            "The features of the model have no names, and SQL names columns",
            "Allowed: models that were fitted on tables with named columns",
            "Fit on a data frame or a file",
        )
    mean = np.zeros(len(names)) if projection.mean is None else projection.mean
    loadings = projection.encoder / (1.0 if projection.scale is None else projection.scale)
    if one_hot and not any("=" in name for name in names):
        raise Incompatible(
            "None of the features is named column=category",
            "Allowed with indicators: models of columns of text",
            "Leave out --one-hot (one_hot=True in Python)",
        )
    columns = [
        f"({_value_of(name, one_hot=one_hot)} - {_number(middle)})"
        for name, middle in zip(names, mean.tolist(), strict=True)
    ]
    made = []
    for row, name in zip(loadings.tolist(), projection.component_names, strict=True):
        terms = [f"{_number(each)} * {at}" for each, at in zip(row, columns, strict=True)]
        made.append(f"{_PLUS.join(terms)} AS {_quoted(name)}")
    return f"SELECT{_INDENT}{_NEXT.join(made)}\nFROM {_quoted(table)}"


def _value_of(name: str, *, one_hot: bool) -> str:
    column, is_indicator, category = name.partition("=")
    if not (one_hot and is_indicator and column):
        return f"CAST({_quoted(name)} AS DOUBLE PRECISION)"
    text = "'" + category.replace("'", "''") + "'"
    # A missing cell stays missing; a category that the model has not seen is 0 in all indicators.
    cell = _quoted(column)
    return f"CASE WHEN {cell} IS NULL THEN NULL WHEN {cell} = {text} THEN 1e+00 ELSE 0e+00 END"


def _quoted(name: str) -> str:
    if not isinstance(name, str) or not name or "\0" in name:
        raise InvalidParameter(
            f"{name!r} names a column or a table",
            "Allowed in SQL: names of one letter or more, without the character NUL",
            "Rename it",
        )
    return '"' + name.replace('"', '""') + '"'


def _number(value: float) -> str:
    """With an exponent, as a number without one is a decimal of few digits; negative in brackets.

    Examples
    --------
    >>> _number(0.1), _number(-2.0)
    ('1e-01', '(-2e+00)')
    """
    text = np.format_float_scientific(value, trim="-")
    return f"({text})" if text.startswith("-") else text
