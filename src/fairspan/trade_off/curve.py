"""The Pareto frontier of two groups' errors as a polygon."""

import numbers
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fairspan.certificates.optimality import by_pooled_variance
from fairspan.drawing.frontier import FrontierPicture
from fairspan.errors import Incompatible, InvalidParameter
from fairspan.estimator.fit import Fit
from fairspan.formatting.data_frames import data_frame
from fairspan.formatting.html_table import html_table
from fairspan.linalg.threads import threads_of
from fairspan.moments.center import Center
from fairspan.problem.criteria import Criterion
from fairspan.problem.posing import criterion_of
from fairspan.registry import names_of
from fairspan.rows.groups import Label, printable, spelled
from fairspan.solvers.choose import Auto
from fairspan.solvers.two_groups.frontier import BoundaryPoint, attainable_polygon
from fairspan.subspace import FairSubspace
from fairspan.trade_off.placed import Placed, distance_from
from fairspan.typing import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes


_PLAIN = "total_error"
# Largest gap of a criterion's answer, as a share of its objective.
_TOLERANCE = 1e-9
# How near the curve a criterion's answer must be to lie on it, as a share of the total variance.
_ON_CURVE = 1e-8
# Errors up to this share of the total variance are rounding, as in audits.
_ROUNDING = 1e-12
# Vertices that a notebook shows.
_MOST_VERTICES = 10


@dataclass(frozen=True, eq=False)
class Frontier:
    """The Pareto frontier of two groups' errors as a polygon; made by :func:`frontier`.

    Attributes
    ----------
    errors : (m, 2) array
        e_1 and e_2 at each vertex, in squared (scaled) units of the features: from the optimum of
        the first group to that of the second, so the first column rises and the second falls.
    weights : (m, 2) array
        Not negative, each row summing to one: the vertex minimises w_1 e_1 + w_2 e_2.
    losses : (m, 2) array
        e_g - e*_g, the loss of each group against its own optimum.
    total_errors : (m,) array
        q_1 e_1 + q_2 e_2, the error over all rows.
    groups : tuple of 2 labels
    n_components : int
        d.
    center : {"global", "group", "none"}
    largest_height : float
        Proven bound on how far the curve lies below the polygon, in units of the errors.
    n_eigenproblems : int
        Number of eigenproblems that were solved for the curve.
    """

    errors: FloatArray
    weights: FloatArray
    losses: FloatArray
    total_errors: FloatArray
    groups: tuple[Label, ...]
    n_components: int
    center: Center
    largest_height: float
    n_eigenproblems: int
    _points: tuple[BoundaryPoint, ...] = field(repr=False)
    _pca: Fit = field(repr=False)

    @property
    def total_variance(self) -> float:
        """Variance over all rows, in units of the errors."""
        return self._pca.problem.total_variance

    def subspace(self, i: int) -> FairSubspace:
        """The subspace of vertex i, of exactly d orthonormal components.

        Parameters
        ----------
        i : int
            From 0, or from -1 backwards, as in a list.

        Returns
        -------
        FairSubspace
            With the mean, scale and feature names of the moments.

        Raises
        ------
        InvalidParameter
            There is no such vertex.
        """
        m = len(self._points)
        if not isinstance(i, numbers.Integral) or not -m <= i < m:
            raise InvalidParameter(
                f"The requested vertex is {i!r}",
                f"Allowed: a whole number from 0 to {m - 1}",
                "Choose one of the rows of errors",
            )
        basis = by_pooled_variance(self._pca.problem, self._points[i].basis)
        columns = self._pca.in_features(basis)
        components = np.ascontiguousarray(columns.T)
        return replace(self._pca.subspace, components=components, provenance=None)

    def frame(self) -> Any:
        """The vertices as a pandas DataFrame.

        Returns
        -------
        pandas.DataFrame
            For each group, as it is spelled in tables, `weight of`, `error of` and `loss of` it;
            and `total error`. One row for each vertex.

        Raises
        ------
        MissingDependency
            pandas is not installed.
        """
        columns = {
            f"{what} of {spelled(group)}": figures[:, g]
            for what, figures in (
                ("weight", self.weights),
                ("error", self.errors),
                ("loss", self.losses),
            )
            for g, group in enumerate(self.groups)
        }
        return data_frame({**columns, "total error": self.total_errors}, "Frontier.frame()")

    def place(self, criterion: str | Criterion) -> Placed:
        """Fit a criterion to the same moments and locate its answer.

        Parameters
        ----------
        criterion : str or criterion object

        Returns
        -------
        Placed

        Raises
        ------
        Incompatible
            No subspace answers it, or no solver can take it.
        InvalidParameter, InvalidType, UnknownGroup
            No criterion, or one for other groups.
        """
        # What is known of the moments serves every criterion.
        problem = replace(self._pca.problem, criterion=criterion_of(criterion))
        solution = Auto().solve(problem, _TOLERANCE)
        errors = problem.errors(solution.components.T)
        slack = _ON_CURVE * problem.total_variance
        distance = distance_from(errors, self.errors)
        # Past an end, the error that is least there has risen again and the other one as well.
        first, last = self.errors[0], self.errors[-1]
        between = errors[1] <= first[1] + slack and errors[0] <= last[0] + slack
        on_frontier = bool(between and distance <= self.largest_height + slack)
        return Placed(problem.criterion, errors, on_frontier, distance)

    def landmarks(self) -> tuple[Placed, ...]:
        """The position of every criterion with its defaults; those without an answer are left out.

        Ordinary PCA is "total_error". "equal_error" has no answer where no subspace has equal
        errors.

        Returns
        -------
        tuple of Placed
        """
        placed = []
        for name in names_of("criterion"):
            try:
                placed.append(self.place(name))
            except Incompatible:
                continue
        return tuple(placed)

    def region(self) -> FloatArray:
        """Corners of the convex set of all achievable pairs of errors.

        The frontier is its lower left boundary; beyond the ends of it both errors rise. Where the
        boundary is curved, the set reaches a little beyond the line between corners.

        Returns
        -------
        (r, 2) array
            Counterclockwise. Each corner, and every pair between corners, is achievable.
        """
        with threads_of(None):
            return attainable_polygon(self._pca.problem, self._points)

    def picture(self, criteria: Sequence[str | Criterion] | None = None) -> FrontierPicture:
        """The frontier with what lies above it, ordinary PCA, and answers of criteria.

        Parameters
        ----------
        criteria : sequence of str or criterion objects, optional
            By default every criterion that has an answer.

        Returns
        -------
        FrontierPicture
            Not drawn yet.
        """
        placed = self.landmarks() if criteria is None else tuple(map(self.place, criteria))
        first, second = (printable(spelled(group)) for group in self.groups)
        answers = {each.name: each.errors for each in placed if each.name != _PLAIN}
        return FrontierPicture(
            errors=self._rounded(self.errors),
            groups=(first, second),
            region=self._rounded(self.region()),
            plain=self._rounded(self.place(_PLAIN).errors),
            answers={name: self._rounded(errors) for name, errors in answers.items()},
            n_components=self.n_components,
        )

    def plot(
        self, ax: "Axes | None" = None, *, criteria: Sequence[str | Criterion] | None = None
    ) -> FrontierPicture:
        """Draw the frontier; needs the extra `plot`.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; without it, a new figure is made with pyplot.
        criteria : sequence of str or criterion objects, optional
            Criteria whose answers are shown; all by default.

        Returns
        -------
        FrontierPicture
            With `ax_`, `figure_` and `frame()`, as scikit-learn's displays.
        """
        return self.picture(criteria).plot(ax)

    def __repr__(self) -> str:
        first, second = map(spelled, self.groups)
        return (
            f"<Frontier of {first} and {second}: {len(self.errors)} vertices, "
            f"{self.n_components} components, center {self.center!r}>"
        )

    def _repr_html_(self) -> str:
        """Vertices from one end to the other, and ordinary PCA, as a table in a notebook."""
        names = [printable(spelled(group)) for group in self.groups]
        m = len(self.errors)
        seen = np.unique(np.linspace(0, m - 1, _MOST_VERTICES).round().astype(int)).tolist()
        points = (self.weights, self.errors, self.losses, self.total_errors)
        rows = [(f"vertex {i}", *self._shown(*(each[i] for each in points))) for i in seen]
        among = f" ({len(seen)} shown)" if len(seen) < m else ""
        pca = self._pca
        shares = pca.problem.proportions
        of_pca = self._shown(shares, pca.errors, pca.losses, float(shares @ pca.errors))
        return html_table(
            f"{m:,} vertices{among}, {self.n_components} components, center {self.center!r}",
            (
                "",
                f"weight of {names[0]}",
                *(f"{what} of {name}" for what in ("error", "loss") for name in names),
                "total error",
            ),
            [
                ("", rows),
                ("", [("ordinary PCA", *of_pca)]),
            ],
        )

    def _shown(
        self, weights: FloatArray, errors: FloatArray, losses: FloatArray, total: float
    ) -> list[str]:
        """Cells of one point."""
        figures = self._rounded(np.array([*errors, *losses, total]))
        return [f"{value:.4g}" for value in (weights[0], *figures)]

    def _rounded(self, errors: FloatArray) -> FloatArray:
        """Errors, with zero for what is only rounding."""
        return np.where(np.abs(errors) <= _ROUNDING * self.total_variance, 0.0, errors)
