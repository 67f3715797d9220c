"""A fitted projection by itself, the models of others that are read as one, and their exports."""
