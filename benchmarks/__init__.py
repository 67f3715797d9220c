"""Benchmarks against what users would run instead: ``./run bench`` writes RESULTS.md."""
