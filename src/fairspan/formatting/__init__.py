"""One spelling of numbers and names, and tables for terminals, notebooks and data frames."""
