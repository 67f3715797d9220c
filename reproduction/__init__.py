"""The papers' tables and figures, ours beside what they print; for the command reproduce alone."""
