"""Two groups: exact solutions on the boundary of the trade-off between their errors."""
