"""Solving under a restriction, and restrictions with a tolerance."""
