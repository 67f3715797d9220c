"""Methods of solving eigenproblems, with what each of them proves."""

from enum import StrEnum

from fairspan.linalg.rounding import FIGURE_ROUNDING, SUM_ROUNDING

# Number of features from which a fit may search within a growing subspace (PROJECTED): the fewest
# for which that was measured to be faster than LAPACK (:mod:`fairspan.solvers.auto`).
SMALL_SUBSPACES_FROM = 500
# Accuracy to which such a search finds the groups' optima: this fraction of the gap that would be
# allowed if the objective were the total variance. Losses are differences from the optima, so they
# are inexact by a negligible part of that gap.
OPTIMA_TOL = 1e-4


class Eigensolver(StrEnum):
    """Method of solving eigenproblems; compares equal to plain text, as files store it.

    DENSE
        LAPACK on matrices of all features.
    PROJECTED
        Within a search subspace, with the bound proven in all features.
    MATRIX_FREE
        Within a search subspace, by products with sparse rows of many features. It may miss an
        eigenvalue, so it proves no bound.
    THIN
        LAPACK in row coordinates, if there are fewer rows than features.

    Examples
    --------
    >>> Eigensolver.THIN == "thin", Eigensolver.MATRIX_FREE.proves_bounds
    (True, False)
    """

    DENSE = "dense"
    PROJECTED = "projected"
    MATRIX_FREE = "matrix-free"
    THIN = "thin"

    @property
    def proves_bounds(self) -> bool:
        """Whether no eigenvalue can be missed, so that lower bounds are proven."""
        return self is not Eigensolver.MATRIX_FREE

    @property
    def error_rounding(self) -> float:
        """Rounding error of a group's error, relative to the group's variance.

        Zero for methods with matrices, whose entries tell a smaller bound of each error.
        """
        return FIGURE_ROUNDING if self is Eigensolver.MATRIX_FREE else 0.0

    @property
    def optima_rounding(self) -> float:
        """Best accuracy of the groups' optima, relative to the variance; zero without a search.

        A search subspace of few dimensions holds the optima up to a tolerance only.
        """
        is_search = self in (Eigensolver.PROJECTED, Eigensolver.MATRIX_FREE)
        return SUM_ROUNDING if is_search else 0.0

    @property
    def finds_all_eigenvectors(self) -> bool:
        """Whether all eigenvectors of the features are computed, tied ones included."""
        return self is Eigensolver.DENSE
