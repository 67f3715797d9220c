"""What is released, and the checks that it must pass."""
