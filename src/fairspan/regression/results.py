"""What least squares explains and gives: the target column, coefficients, errors by group."""

from dataclasses import dataclass, field
from functools import cached_property
from operator import index
from typing import Any, SupportsIndex

import numpy as np

from fairspan.errors import InvalidInput, InvalidType
from fairspan.moments.group_moments import GroupMoments
from fairspan.moments.of_rows import holds_matrices
from fairspan.rows.frames import feature_values
from fairspan.rows.groups import Label, listed
from fairspan.subspace import FairSubspace
from fairspan.typing import FloatArray, IntegerArray


@dataclass(frozen=True, eq=False)
class LeastSquares:
    """A column as a linear function of the others; made by :func:`least_squares`.

    Attributes
    ----------
    target : str or int
        The column that is explained, with the name that was passed.
    feature_names : tuple of p-1 str, or None
        The other columns, in the order of the moments.
    coefficients : (p-1,) array
        In units of the target per unit of the feature.
    intercept : float
        In units of the target.
    covariance : (p, p) array
        sigma^2 (X'X)^-1, the coefficients first and the intercept last.
    residual_variance : float
        sigma^2, the weighted sum of squared residuals by the degrees of freedom.
    degrees_of_freedom : int
        Rows less the number of coefficients that were estimated, the intercept among them.
    n : int
        Rows.
    r2 : float
        Share of the target's variance that is explained, over all rows.
    groups : tuple of k labels
    group_errors : (k,) array
        Mean squared error of each group's rows, in squared units of the target.
    """

    target: str | int
    feature_names: tuple[str, ...] | None
    coefficients: FloatArray
    intercept: float
    covariance: FloatArray
    residual_variance: float
    degrees_of_freedom: int
    n: int
    r2: float
    groups: tuple[Label, ...]
    group_errors: FloatArray

    @property
    def standard_errors(self) -> FloatArray:
        """Standard error of each coefficient, (p-1,), in its units."""
        return np.asarray(np.sqrt(np.diag(self.covariance)[:-1]))

    @property
    def intercept_standard_error(self) -> float:
        """Standard error of the intercept."""
        return float(np.sqrt(self.covariance[-1, -1]))

    def predict(self, X: Any) -> FloatArray:
        """The target of rows, from their features.

        Parameters
        ----------
        X : (n, p-1) array or data frame
            Without the target. Columns of a frame are matched by name, in any order; others, the
            target too, are ignored.

        Returns
        -------
        (n,) array

        Raises
        ------
        InvalidInput
            A missing column, another number of features, text, NaN or infinity.
        """
        rows = feature_values(X, self.feature_names)
        if rows.shape[1] != len(self.coefficients):
            raise InvalidInput(
                f"X has {rows.shape[1]} columns",
                f"Allowed: the {len(self.coefficients)} features, without the target",
                "Pass the columns that it was fitted on",
            )
        return np.asarray(rows @ self.coefficients + self.intercept)


@dataclass(frozen=True, eq=False)
class PrincipalComponentRegression(LeastSquares):
    """Least squares on a subspace; made by :func:`principal_component_regression`.

    All of :class:`LeastSquares` is in the original features; the covariance of their coefficients
    then is of rank d at most, and is conditional on the subspace.

    Attributes
    ----------
    component_coefficients : (d,) array
        In units of the target per unit of the coordinate.
    component_intercept : float
        The target where all coordinates are zero.
    component_covariance : (d, d) array
        Of the components' coefficients.
    subspace : FairSubspace
    """

    component_coefficients: FloatArray = field(kw_only=True)
    component_intercept: float = field(kw_only=True)
    component_covariance: FloatArray = field(kw_only=True)
    subspace: FairSubspace = field(kw_only=True)

    @property
    def component_standard_errors(self) -> FloatArray:
        """Standard error of each component's coefficient, (d,)."""
        return np.asarray(np.sqrt(np.diag(self.component_covariance)))


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
                "Allowed: a GroupMoments of all columns, the target among them",
                "Make it with GroupMoments.from_rows, or matrices() of moments that refer to rows",
            )
        found = cls(moments, _position(moments, target), target)
        if moments.n_features < 2:
            raise InvalidInput(
                "The target is the only column",
                "Allowed: moments of the target and at least one feature",
                "Make the moments of all columns",
            )
        if moments.standard_deviations[found.position] == 0:
            raise InvalidInput(
                f"The target {target!r} has the same value in all rows",
                "Allowed: a column that varies",
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
            "Allowed: the name of a column or its position",
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
