"""What least squares gives: coefficients with their covariance, and each group's error."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fairspan.errors import InvalidInput
from fairspan.rows.groups import Label
from fairspan.subspace import FairSubspace, feature_values
from fairspan.typing import FloatArray


@dataclass(frozen=True, eq=False)
class LeastSquares:
    """A column as a linear function of the others; made by :func:`least_squares`.

    Attributes
    ----------
    target : str or int
        The column that is explained, as it was named.
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
                f"Allowed are the {len(self.coefficients)} features, without the target",
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
