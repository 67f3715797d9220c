"""The papers' tables and figures, computed from the data: ``./run reproduce NAME``."""
