"""Rows become per-group moments, once: everything else is computed from these."""
