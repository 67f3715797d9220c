"""Rows that a display is given beside an estimator."""

from typing import Any

from fairspan.errors import InvalidInput
from fairspan.moments.sources.protocol import Rows
from fairspan.moments.sources.registry import is_opened, rows_of


def rows_for(estimator: Any, X: Any, sensitive_features: Any, purpose: str) -> Rows:
    """Rows with their groups, of the features that the estimator was fitted on.

    Raises
    ------
    InvalidInput
        Rows without groups, or groups without rows.
    """
    if X is None or (sensitive_features is None and not is_opened(X)):
        given = "sensitive_features without X" if X is None else "X without sensitive_features"
        raise InvalidInput(
            f"{purpose} received {given}",
            "Allowed are rows with the group of each",
            "Pass both X and sensitive_features",
        )
    rows = rows_of(X, sensitive_features)
    names = estimator.subspace_.feature_names
    return rows if names is None else rows.selected(names)
