"""Parts for fairspan, each of which is passed as an object, or named on the command line."""
