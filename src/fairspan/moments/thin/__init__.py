"""Moments of rows that are fewer than their features, without p x p matrices."""
