"""The optimization problem: criteria, restrictions, second moments and the dimension."""
