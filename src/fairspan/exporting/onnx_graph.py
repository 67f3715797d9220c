"""A projection as a graph of ONNX: subtract the mean, divide by the scale, multiply."""

from typing import TYPE_CHECKING, Any

import numpy as np

from fairspan.errors import InvalidParameter, imported
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
    helper, outside = onnx.helper, onnx.TensorProto.DOUBLE
    if dtype == "float32":
        outside = onnx.TensorProto.FLOAT
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
        step("Cast", to=onnx.TensorProto.DOUBLE)
    if projection.mean is not None:
        step("Sub", "mean", projection.mean)
    if projection.scale is not None:
        step("Div", "scale", projection.scale)
    step("MatMul", "encoder", projection.encoder.T)
    if dtype == "float32":
        step("Cast", to=onnx.TensorProto.FLOAT)
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
    written: bytes = model.SerializeToString()
    return written
