"""Search for slices of the rows, conjunctions of attributes, that lose most under a model."""
