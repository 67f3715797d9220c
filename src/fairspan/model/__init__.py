"""Fitted projections, adapters for models of other packages, and exports to ONNX and SQL."""
