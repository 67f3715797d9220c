"""Atomic file writing, archives of arrays, and checked reading of their fields."""
