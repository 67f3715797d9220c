"""Many features: problems are solved inside a small subspace that grows as needed."""
