"""Groups, classes, clusters and weights of rows, as callers pass them."""

from collections.abc import Iterator
from dataclasses import dataclass, fields

from fairspan.typing import LabelsLike, WeightsLike

# Names of the arguments in messages, by field of `RowMetadata`.
_ARGUMENT_NAMES = {
    "groups": "sensitive_features",
    "classes": "y",
    "clusters": "clusters",
    "weights": "sample_weight",
}


@dataclass(frozen=True)
class RowMetadata:
    """Groups, classes, clusters and weights of rows, as callers pass them.

    Each is an array-like with one value per row, the name of a column of the table, or None if the
    rows have none.

    Attributes
    ----------
    groups : array-like, data frame, column name(s), SingleGroup, or None
    classes : array-like, column name, or None
        The argument `y`.
    clusters : array-like, column name, or None
    weights : array-like, column name, or None
        The argument `sample_weight`.
    """

    groups: LabelsLike = None
    classes: LabelsLike = None
    clusters: LabelsLike = None
    weights: WeightsLike = None

    def by_argument(self) -> Iterator[tuple[str, LabelsLike | WeightsLike]]:
        """Yield the name of the argument in messages, and its value, unless that is None."""
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None:
                yield _ARGUMENT_NAMES[field.name], value
