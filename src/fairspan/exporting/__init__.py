"""A projection where it is used: as a graph of ONNX, and as a query."""
