"""Published algorithms, implemented as in their papers, for reference and comparison."""
