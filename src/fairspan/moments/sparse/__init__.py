"""Moments of sparse rows of many features, without p x p matrices."""
