"""What is proven of an answer: the solution, when it is called optimal, and verification."""
