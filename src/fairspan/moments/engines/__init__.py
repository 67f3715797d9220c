"""Engines: where the parts of a table are read, in this process, in several, or on a cluster."""
