"""Subspaces of exactly d dimensions: local descent, rounding, and rank reduction."""
