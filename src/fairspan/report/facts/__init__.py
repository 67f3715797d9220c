"""Everything that a report says, as one plain dictionary."""
