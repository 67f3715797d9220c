"""Watching of a saved model on new rows, one look after another."""
