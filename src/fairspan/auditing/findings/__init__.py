"""Findings of an audit, each with a stable code (docs/findings.md)."""
