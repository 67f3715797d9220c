"""What is released, and how it is tried."""
