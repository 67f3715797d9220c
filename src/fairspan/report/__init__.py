"""The audit page: one dictionary of facts, and the HTML file made of it."""
