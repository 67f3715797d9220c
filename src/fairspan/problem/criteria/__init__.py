"""Criteria: the objectives that a fair projection can minimize."""
