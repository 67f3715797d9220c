"""Rows wherever they are held, read as blocks of numbers with the group of each row."""
