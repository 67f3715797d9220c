"""Progress of long work: stages that report it, and a line that shows it."""
