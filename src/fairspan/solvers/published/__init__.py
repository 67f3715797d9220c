"""The published algorithms, kept as their papers have them, for reference and comparison."""
