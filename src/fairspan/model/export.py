"""A projection where it is used: as a graph of ONNX, and as one SELECT of standard SQL."""

from typing import Any

import numpy as np

from fairspan.errors import Incompatible, InvalidParameter, imported
from fairspan.rows.protocol import Projection
from fairspan.version import __version__

# Operators as they have been since 2022, which every runtime of today knows.
_OPERATORS, _FORMAT = 17, 8


def graph_bytes(projection: Projection, dtype: str) -> bytes:
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
    operators = {"Sub": projection.mean, "Div": projection.scale, "MatMul": projection.encoder.T}
    constants = [
        onnx.numpy_helper.from_array(np.ascontiguousarray(value, dtype=np.float64), operator)
        for operator, value in operators.items()
        if value is not None
    ]
    chain: list[tuple[str, list[str], dict[str, Any]]]
    chain = [(constant.name, [constant.name], {}) for constant in constants]
    if dtype == "float32":
        chain = [("Cast", [], {"to": inside}), *chain, ("Cast", [], {"to": outside})]
    names = ["X", *(f"step{i}" for i in range(1, len(chain))), "coordinates"]
    nodes = [
        helper.make_node(operator, [names[i], *given], [names[i + 1]], **settings)
        for i, (operator, given, settings) in enumerate(chain)
    ]
    d, p = projection.encoder.shape
    ends = [
        helper.make_tensor_value_info(name, outside, [None, width])
        for name, width in (("X", p), ("coordinates", d))
    ]
    graph = helper.make_graph(nodes, "fairspan", ends[:1], ends[1:], constants)
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


def select_of(projection: Projection, table: str, *, one_hot: bool = False) -> str:
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
    if one_hot and not any("=" in name for name in names):
        raise Incompatible(
            "None of the features is named column=category",
            "Allowed with indicators: models of columns of text",
            "Leave out --one-hot (one_hot=True in Python)",
        )
    mean = np.zeros(len(names)) if projection.mean is None else projection.mean
    loadings = projection.encoder / (1.0 if projection.scale is None else projection.scale)
    columns = [
        f"({_value_of(name, one_hot=one_hot)} - {_number(middle)})"
        for name, middle in zip(names, mean.tolist(), strict=True)
    ]
    made = [
        "\n  + ".join(f"{_number(each)} * {at}" for each, at in zip(row, columns, strict=True))
        + f" AS {_quoted(name)}"
        for row, name in zip(loadings.tolist(), projection.component_names, strict=True)
    ]
    select = ",\n  ".join(made)
    return f"SELECT\n  {select}\nFROM {_quoted(table)}"


def _value_of(name: str, *, one_hot: bool) -> str:
    column, is_indicator, category = name.partition("=")
    if not (one_hot and is_indicator and column):
        return f"CAST({_quoted(name)} AS DOUBLE PRECISION)"
    # A missing cell stays missing; a category that the model has not seen is 0 in all indicators.
    cell, text = _quoted(column), category.replace("'", "''")
    return f"CASE WHEN {cell} IS NULL THEN NULL WHEN {cell} = '{text}' THEN 1e+00 ELSE 0e+00 END"


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
