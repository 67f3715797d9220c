"""Extensions of fairspan, passed as objects or named on the command line."""
