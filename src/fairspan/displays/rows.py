"""Rows that a display is given beside an estimator."""

from typing import Any

from fairspan.auditing.models import read_model
from fairspan.displays.fitted import criterion_name
from fairspan.errors import InvalidInput
from fairspan.moments.of_rows import Moments, moments_of
from fairspan.rows.checks import check_width
from fairspan.rows.group_limit import GroupLimit
from fairspan.rows.protocol import Rows
from fairspan.rows.registry import is_opened, rows_of


def rows_for(estimator: Any, X: Any, sensitive_features: Any, purpose: str) -> Rows:
    """Rows with their groups, of the features that the estimator was fitted on.

    Raises
    ------
    InvalidInput
        Rows without groups, groups without rows, or rows of other features.
    """
    if X is None or (sensitive_features is None and not is_opened(X)):
        given = "sensitive_features without X" if X is None else "X without sensitive_features"
        raise InvalidInput(
            f"{purpose} received {given}",
            "Allowed are rows with the group of each",
            "Pass both X and sensitive_features",
        )
    rows, subspace = rows_of(X, sensitive_features), estimator.subspace_
    if subspace.feature_names is not None:
        rows = rows.selected(subspace.feature_names)
    check_width(rows.n_features, subspace.n_features, "features")
    return rows


def moments_for(estimator: Any, rows: Rows) -> Moments:
    """Moments of rows whose groups the estimator knows.

    Raises
    ------
    UnknownGroup
        A group that the estimator was not fitted on.
    """
    model = read_model(criterion_name(estimator), estimator)
    moments = moments_of(rows, GroupLimit(n_known=len(model.known_groups)))
    model.check_groups(moments.labels)
    return moments
