"""Restrictions: constraints that make the projected groups look alike."""
