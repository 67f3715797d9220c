"""Per-group moments: sufficient statistics of the rows, from which the rest is computed."""
