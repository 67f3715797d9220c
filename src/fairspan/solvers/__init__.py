"""Finding the subspace and proving how good it is."""
