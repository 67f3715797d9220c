"""What is asked: second moments, a dimension and a criterion. Formulas, and nothing else."""
