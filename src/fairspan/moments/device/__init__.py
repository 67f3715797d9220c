"""Moments of arrays on a device such as a GPU, computed there."""
