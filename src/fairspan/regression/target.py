"""The column that is explained, and the moments of the others with it."""

from dataclasses import dataclass
from functools import cached_property
from operator import index
from typing import SupportsIndex

import numpy as np

from fairspan.errors import InvalidInput, InvalidType
from fairspan.moments.group_moments import GroupMoments
from fairspan.moments.of_rows import holds_matrices
from fairspan.rows.groups import listed
from fairspan.typing import FloatArray, IntegerArray


@dataclass(frozen=True, eq=False)
class Target:
    """One column of the moments against all others, the features.

    Attributes
    ----------
    moments : GroupMoments
        Of all p columns.
    position : int
        Of the target among them.
    name : str or int
        As it was given.
    """

    moments: GroupMoments
    position: int
    name: str | int

    @classmethod
    def of(cls, moments: GroupMoments, target: str | int) -> "Target":
        """Find the column by its name or position.

        Raises
        ------
        InvalidInput
            No such column, no other column, or a target that does not vary.
        InvalidType
            Moments or target of another kind.
        """
        if not holds_matrices(moments):
            raise InvalidType(
                f"moments is a {type(moments).__name__}",
                "Allowed is a GroupMoments of all columns, the target among them",
                "Make it with GroupMoments.from_rows, or matrices() of moments that refer to rows",
            )
        found = cls(moments, _position(moments, target), target)
        if moments.n_features < 2:
            raise InvalidInput(
                "The target is the only column",
                "Allowed are moments of the target and at least one feature",
                "Make the moments of all columns",
            )
        if moments.standard_deviations[found.position] == 0:
            raise InvalidInput(
                f"The target {target!r} has the same value in all rows",
                "Allowed is a column that varies",
                "Choose another column",
            )
        return found

    @cached_property
    def features(self) -> IntegerArray:
        """Positions of the other columns, (p-1,)."""
        others = np.arange(self.moments.n_features, dtype=np.int64)
        return np.delete(others, self.position)

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Names of the features, if they have any."""
        names = self.moments.feature_names
        return None if names is None else tuple(names[i] for i in self.features)

    @property
    def spelled_features(self) -> list[str]:
        """What the features are called in messages: their names, or their columns' numbers."""
        names = self.moments.feature_names
        return [f"column {i}" if names is None else repr(names[i]) for i in self.features.tolist()]

    @cached_property
    def covariance(self) -> FloatArray:
        """Of all columns about the mean of all rows, divided by the total weight, (p, p)."""
        second = self.moments.second_moments("global")
        return np.asarray(np.tensordot(self.moments.proportions, second, axes=1))

    def group_errors(self, coefficients: FloatArray) -> FloatArray:
        """Mean squared error of each group's rows about the plane through the mean, (k,)."""
        residual = np.zeros(self.moments.n_features)
        residual[self.position] = 1.0
        residual[self.features] = -coefficients
        second = self.moments.second_moments("global")
        # Rounding may leave a perfect fit just below zero.
        return np.asarray(np.maximum(second @ residual @ residual, 0.0))


def _position(moments: GroupMoments, target: str | int) -> int:
    names, p = moments.feature_names, moments.n_features
    columns = f"{p} columns without names" if names is None else f"the columns {listed(names)}"
    if isinstance(target, str) and names is not None and target in names:
        return names.index(target)
    if isinstance(target, bool) or not isinstance(target, str | SupportsIndex):
        raise InvalidType(
            f"target is {target!r}",
            "Allowed is the name of a column or its position",
            f"The moments have {columns}",
        )
    position = p if isinstance(target, str) else index(target)
    if not -p <= position < p:
        raise InvalidInput(
            f"There is no column {target!r} to be the target",
            f"The moments have {columns}",
            "Name one of these columns, or give its position from 0",
        )
    return position % p
