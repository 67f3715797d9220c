"""Measured ratios against what one would use instead: ``./run bench``, results in RESULTS.md."""
