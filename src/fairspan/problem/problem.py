"""The optimisation problem that a solver receives."""

import numbers
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from fairspan.errors import InvalidParameter
from fairspan.linalg import LeadingSubspace
from fairspan.moments.operators import SecondMoments
from fairspan.problem.criteria import Criterion

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Problem:
    """Find an orthonormal (p, d) basis V that minimises a criterion of the groups' errors.

    Attributes
    ----------
    second_moments : SecondMoments
        S_1 .. S_k about the chosen centre, each divided by its group's weight.
    proportions : (k,) array
        q_g, each group's share of the rows.
    n_components : int
        d, from 1 to p.
    criterion : Criterion
    """

    second_moments: SecondMoments
    proportions: FloatArray
    n_components: int
    criterion: Criterion

    def __post_init__(self) -> None:
        check_n_components(self.n_components, self.second_moments.n_features)

    @property
    def n_groups(self) -> int:
        """k."""
        return self.second_moments.n_groups

    @cached_property
    def total_variance(self) -> float:
        """sum_g q_g tr S_g, the pooled trace; tolerances are shares of it."""
        return float(self.proportions @ self.second_moments.traces)

    @cached_property
    def group_optima(self) -> tuple[LeadingSubspace, ...]:
        """The best d-dimensional subspace of each group alone: k eigenproblems, solved once."""
        return tuple(
            self.second_moments.leading(alone, self.n_components) for alone in np.eye(self.n_groups)
        )

    @property
    def top_eigenvalue_sums(self) -> FloatArray:
        """t_d(S_g): the most variance that d dimensions can capture of each group, shape (k,)."""
        return np.array([optimum.top_eigenvalue_sum for optimum in self.group_optima])

    @cached_property
    def best_errors(self) -> FloatArray:
        """e*_g = tr S_g - t_d(S_g), the error of each group's own optimum, shape (k,)."""
        return np.array([self.errors(best.vectors)[g] for g, best in enumerate(self.group_optima)])

    def errors(self, basis: FloatArray) -> FloatArray:
        """e_g(V) = tr S_g - tr(V'S_gV) of each group, never below zero, shape (k,)."""
        return self.second_moments.residual_variances(basis)


def check_n_components(n_components: object, n_features: int) -> None:
    """Make sure that d is a whole number from 1 to p.

    Raises
    ------
    InvalidParameter
    """
    whole = isinstance(n_components, numbers.Integral) and not isinstance(n_components, bool)
    if not whole or not 1 <= n_components <= n_features:  # type: ignore[operator]
        raise InvalidParameter(
            f"n_components is {n_components!r}",
            f"Allowed is a whole number from 1 to the number of features, {n_features}",
            "Choose a number in that range",
        )
