"""The audit page: an HTML file made of the facts, and of nothing else."""
