"""The HTML audit report and its JSON data."""
