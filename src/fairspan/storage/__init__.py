"""Atomic file writing, archives of arrays, and schema validation of files."""
