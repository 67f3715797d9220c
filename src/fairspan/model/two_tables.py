"""Recognition of models of two tables, which functions for one table refuse."""

TWO_TABLES_REMEDY = (
    "A model of two tables is audited by audit_pairs and verified by verify_pairs of "
    "fairspan.cross_decomposition"
)


def is_of_two_tables(model: object) -> bool:
    """Whether a model has weights of two tables, x and y, as FairPLS and FairCCA have."""
    pair = getattr(model, "subspace_", model)
    return hasattr(pair, "x") and hasattr(pair, "y")
