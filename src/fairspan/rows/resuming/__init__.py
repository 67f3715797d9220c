"""Passes over files that go on where they were interrupted."""
