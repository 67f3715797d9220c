"""Rows in Arrow memory: streams, their batches, and the numbers in them."""
