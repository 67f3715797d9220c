"""Release files, and trials of them."""
