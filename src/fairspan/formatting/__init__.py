"""Formatting of numbers and names, and tables for terminals, notebooks and HTML."""
