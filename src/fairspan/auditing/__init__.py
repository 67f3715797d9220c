"""Audits of models by group: estimates with confidence intervals, findings and verdicts."""
