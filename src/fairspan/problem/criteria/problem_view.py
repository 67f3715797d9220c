"""View of a problem that its criterion has: the parts that methods of a criterion may read.

A problem (:class:`fairspan.problem.problem.Problem`) holds its criterion, and the methods of a
criterion receive the problem. The protocol here lets criteria be defined below problems, without
an import of them.
"""

from typing import Protocol

from fairspan.linalg import LeadingSubspace
from fairspan.moments.second_moments import DenseSecondMoments, SecondMoments
from fairspan.problem.piecewise import AffinePieces
from fairspan.problem.rounding_budget import RoundingBudget
from fairspan.rows.labels import Label
from fairspan.typing import FloatArray


class EmbeddingView(Protocol):
    """Place of a restricted problem within the problem without its restriction."""

    @property
    def parent(self) -> object | None:
        """The problem without the restriction; None if there is no restriction."""

    @property
    def fixed_errors(self) -> FloatArray | float:
        """Error of each group in the forbidden directions, less the common part, shape (k,)."""

    @property
    def common_error(self) -> float:
        """Error in the forbidden directions that all groups share."""


class ProblemView(Protocol):
    """Problem as its criterion sees it: k groups, p features and d components.

    Every :class:`fairspan.problem.problem.Problem` is one.
    """

    @property
    def second_moments(self) -> SecondMoments:
        """S_1 .. S_k about the chosen center, each divided by its group's weight."""

    @property
    def dense_moments(self) -> DenseSecondMoments:
        """Second moments as matrices; for problems of rows that are not sparse."""

    @property
    def group_labels(self) -> list[Label]:
        """Label of each group."""

    @property
    def group_weights(self) -> FloatArray:
        """Number or total weight of each group's rows, in units of 2**weight_exponent, (k,)."""

    @property
    def weight_exponent(self) -> int:
        """Binary exponent of the unit of the group weights, even."""

    @property
    def proportions(self) -> FloatArray:
        """q_g, each group's share of the total weight, shape (k,)."""

    @property
    def n_groups(self) -> int:
        """Number of groups, k."""

    @property
    def n_features(self) -> int:
        """Number of features, p."""

    @property
    def n_components(self) -> int:
        """Number of components, d."""

    @property
    def total_variance(self) -> float:
        """Pooled trace sum_g q_g tr S_g."""

    @property
    def embedding(self) -> EmbeddingView:
        """Place within the problem without the restriction, and errors outside of it."""

    @property
    def unrestricted(self) -> "ProblemView":
        """The problem without its restriction; the problem itself if it has none."""

    @property
    def rounding(self) -> RoundingBudget:
        """Rounding errors of second moments and coordinates."""

    @property
    def divisors(self) -> FloatArray:
        """Divisors of the group errors in the criterion, shape (k,)."""

    @property
    def affine_pieces(self) -> AffinePieces:
        """The pieces of the criterion; raises IncompatibleParameters if it defines none."""

    @property
    def best_errors(self) -> FloatArray:
        """e*_g, the best error of each group under any d-dimensional subspace, shape (k,)."""

    @property
    def pooled_optimum(self) -> LeadingSubspace:
        """The leading eigenvectors of the pooled second moment: ordinary PCA."""

    def errors(self, basis: FloatArray) -> FloatArray:
        """e_g(V), the error of each group under a (p, d) basis, shape (k,)."""
