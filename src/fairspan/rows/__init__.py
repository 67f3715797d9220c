"""Data sources: read rows as blocks of numbers with group labels, wherever they are stored."""
