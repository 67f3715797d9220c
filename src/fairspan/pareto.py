"""The exact trade-off of two groups: every pair of errors at which neither can fall alone.

Of all d-dimensional subspaces, those that minimise w_1 e_1 + w_2 e_2 for weights that are not
negative are the Pareto frontier: the lower-left boundary of the convex hull of all pairs
(e_1(V), e_2(V)). Each is the answer of one symmetric eigenproblem, and every point of the boundary
belongs to some V of exactly d dimensions (see :mod:`fairspan.solvers.two_groups.faces`).
"""

import numbers
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from fairspan.certificates.certificate import rotate_to_principal_axes
from fairspan.errors import IncompatibleParameters, InvalidParameter
from fairspan.estimator.fit import fit_moments
from fairspan.formatting.export import to_data_frame
from fairspan.formatting.table import Table
from fairspan.formatting.text import counted
from fairspan.linalg import normalize_signs
from fairspan.linalg.resources import limit_blas_threads
from fairspan.model.subspace import FairSubspace
from fairspan.moments.base import Center
from fairspan.moments.group_moments import GroupMoments
from fairspan.moments.of_rows import compute_moments, not_moments_error
from fairspan.moments.operators import figure_roundings
from fairspan.moments.wide import RowSpace, WideMoments
from fairspan.problem.criteria import Criterion
from fairspan.problem.problem import Problem, check_n_components
from fairspan.problem.reduction import get_criterion
from fairspan.progress import EIGENPROBLEMS, Stage
from fairspan.registry import builtin_names, check_bool, check_number, get_factory
from fairspan.rows.groups import Label, format_label, table_name
from fairspan.rows.opening import open_group_rows
from fairspan.solvers.solve import AutoSolver
from fairspan.solvers.two_groups.faces import (
    RIGHT_ANGLE,
    BoundaryPoint,
    frontier_vertices,
    supporting_contact,
)
from fairspan.typing import FloatArray

_PCA_CRITERION = "total_error"
# Largest gap of a criterion's answer, as a share of its objective; least height that is asked for,
# as a share of the total variance.
_MIN_TOL = 1e-9
# How near the curve a criterion's answer must be to lie on it, as a share of the total variance.
_ON_FRONTIER_TOL = 1e-8
# Angles of weights of which one is negative at least.
_N_OUTER_ANGLES = 64
# Vertices that a notebook shows.
_MAX_SHOWN_VERTICES = 10
# Of a picture's extent: what is not seen. Beyond so many features each vertex takes its time.
_DISPLAY_TOL, _COARSE_DISPLAY_TOL, _MANY_FEATURES = 1e-4, 2e-3, 300


@dataclass(frozen=True, eq=False)
class FrontierPosition:
    """Where the answer of a criterion lies beside the frontier.

    Attributes
    ----------
    criterion : Criterion
    errors : (2,) array
        e_g of each group at the criterion's answer.
    on_frontier : bool
        Whether it is Pareto: neither error can fall without the other rising. Criteria that value
        a gap (equal error, error gap, disparity) may go past an end, where both could be less.
    distance : float
        From the polygon through the frontier's vertices, in units of the errors; for an answer on
        the frontier at most `Frontier.max_deviation`, up to rounding.
    """

    criterion: Criterion
    errors: FloatArray
    on_frontier: bool
    distance: float

    @property
    def name(self) -> str:
        """The criterion's name."""
        return self.criterion.name


def distance_to_polyline(point: FloatArray, polygon: FloatArray) -> float:
    """Least distance of a (2,) point from the line through the (m, 2) vertices."""
    # The first side leads from the first vertex to itself.
    sides = np.diff(polygon, axis=0, prepend=polygon[:1])
    offsets, squared_lengths = point - (polygon - sides), (sides**2).sum(axis=1)
    fraction = np.clip(
        (offsets * sides).sum(axis=1) / np.where(squared_lengths > 0, squared_lengths, 1.0),
        0.0,
        1.0,
    )
    return float(np.linalg.norm(offsets - fraction[:, None] * sides, axis=1).min())


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
    max_deviation : float
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
    max_deviation: float
    n_eigenproblems: int
    _vertices: tuple[BoundaryPoint, ...] = field(repr=False)
    _pca_subspace: FairSubspace = field(repr=False)
    _problem: Problem = field(repr=False)
    _coordinates: RowSpace | None = field(repr=False)

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
        m = len(self._vertices)
        if not isinstance(i, numbers.Integral) or not -m <= i < m:
            raise InvalidParameter(
                f"The requested vertex is {i!r}",
                f"Allowed: a whole number from 0 to {m - 1}",
                "Choose one of the rows of errors",
            )
        basis = rotate_to_principal_axes(self._problem, self._vertices[i].basis)
        if self._coordinates is not None:
            basis = self._coordinates.lift(basis)
        return replace(
            self._pca_subspace,
            components=np.ascontiguousarray(normalize_signs(basis).T),
            certificate=None,
        )

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
            f"{what} of {format_label(group)}": figures[:, g]
            for what, figures in (
                ("weight", self.weights),
                ("error", self.errors),
                ("loss", self.losses),
            )
            for g, group in enumerate(self.groups)
        }
        return to_data_frame({**columns, "total error": self.total_errors}, "Frontier.frame()")

    def locate(self, criterion: str | Criterion) -> FrontierPosition:
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
        problem = replace(self._problem, criterion=get_criterion(criterion))
        problem.criterion.check_problem(problem)
        errors = problem.errors(AutoSolver().solve(problem, _MIN_TOL).components.T)
        tol = _ON_FRONTIER_TOL * problem.total_variance
        distance = distance_to_polyline(errors, self.errors)
        # Past an end, the error that is least there has risen again and the other one as well.
        is_between_ends = (
            errors[1] <= self.errors[0, 1] + tol and errors[0] <= self.errors[-1, 0] + tol
        )
        on_frontier = bool(is_between_ends and distance <= self.max_deviation + tol)
        return FrontierPosition(problem.criterion, errors, on_frontier, distance)

    def locate_all(self) -> tuple[FrontierPosition, ...]:
        """The position of every criterion with its defaults; those without an answer are left out.

        Ordinary PCA is "total_error". "equal_error" has no answer where no subspace has equal
        errors.

        Returns
        -------
        tuple of Placed
        """
        placed = []
        for name in builtin_names("criterion"):
            with suppress(IncompatibleParameters):
                placed.append(self.locate(name))
        return tuple(placed)

    def achievable_region(self) -> FloatArray:
        """Corners of the convex set of all achievable pairs of errors.

        The frontier is its lower left boundary; beyond the ends of it both errors rise. Where the
        boundary is curved, the set reaches a little beyond the line between corners.

        Returns
        -------
        (r, 2) array
            Counterclockwise. Each corner, and every pair between corners, is achievable.
        """
        # The Pareto part by its vertices; the rest through weights of both signs, by angles that
        # are closest where that part ends.
        parameters = np.linspace(0.0, np.pi, _N_OUTER_ANGLES + 2)[1:-1]
        angles = RIGHT_ANGLE + 3 * RIGHT_ANGLE * (1 - np.cos(parameters)) / 2
        with limit_blas_threads(None):
            outer_points = [
                end for angle in angles for end in supporting_contact(self._problem, float(angle))
            ]
        return np.array([point.errors for point in (*self._vertices, *outer_points)])

    def plot(self, ax: Any = None, *, criteria: Sequence[str | Criterion] | None = None) -> Any:
        """Draw the frontier; needs the extra `plot`.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; without it, a new figure is made with pyplot.
        criteria : sequence of str or criterion objects, optional
            Criteria whose answers are shown; all by default.

        Returns
        -------
        displays.FrontierDisplay
            With `ax_`, `figure_` and `frame()`, as scikit-learn's displays.
        """
        return get_factory("picture", "frontier")(self, criteria).plot(ax)

    def __repr__(self) -> str:
        first, second = map(format_label, self.groups)
        return (
            f"<Frontier of {first} and {second}: "
            f"{counted(len(self.errors), 'vertex', 'vertices')}, "
            f"{counted(self.n_components, 'component')}, center {self.center!r}>"
        )

    def _repr_html_(self) -> str:
        """Vertices from one end to the other, and ordinary PCA, as a table in a notebook."""
        names, m = [table_name(group) for group in self.groups], len(self.errors)
        shown = np.unique(np.linspace(0, m - 1, _MAX_SHOWN_VERTICES).round().astype(int)).tolist()
        pca, proportions = self.locate(_PCA_CRITERION).errors, self._problem.proportions
        pca_losses = np.maximum(pca - self._problem.best_errors, 0.0)

        def row(
            name: str, weights: FloatArray, errors: FloatArray, losses: FloatArray, total: float
        ) -> tuple[str, ...]:
            cells = [weights[0], *self.round_to_zero(errors), *self.round_to_zero(losses), total]
            return name, *(f"{value:.4g}" for value in cells)

        totals = self.round_to_zero(self.errors) @ proportions
        points = (self.weights, self.errors, self.losses, totals)
        return Table.from_texts(
            f"{counted(m, 'vertex', 'vertices')}"
            f"{f' ({len(shown)} shown)' if len(shown) < m else ''}, "
            f"{counted(self.n_components, 'component')}, center {self.center!r}",
            (
                "",
                f"weight of {names[0]}",
                *(f"{what} of {name}" for what in ("error", "loss") for name in names),
                "total error",
            ),
            [
                *(row(f"vertex {i}", *(each[i] for each in points)) for i in shown),
                row(
                    "ordinary PCA",
                    proportions,
                    pca,
                    pca_losses,
                    float(proportions @ self.round_to_zero(pca)),
                ),
            ],
            sections=((len(shown), ""),),
        )._repr_html_()

    def round_to_zero(self, errors: FloatArray) -> FloatArray:
        """Return (.., 2) errors or losses of the groups, with zero for what is only rounding."""
        second = self._problem.second_moments
        roundings = figure_roundings(
            second, np.zeros(second.n_groups), by_feature=self._coordinates is None
        )
        return np.where(np.abs(errors) <= roundings, 0.0, errors)


def frontier(
    X: Any,
    n_components: int,
    center: Center = "global",
    *,
    sensitive_features: Any = None,
    scale: bool = False,
    tol: float = 1e-4,
) -> Frontier:
    """Compute the Pareto frontier of two groups' errors, exactly.

    For weights w = (t, 1 - t), t from 1 to 0, the leading d eigenvectors of w_1 S_1 + w_2 S_2
    minimise w_1 e_1 + w_2 e_2. Between two such points the curve lies in the triangle of their
    chord and their supporting lines; triangles are split until all are lower than `tol`.
    Flat edges, where the eigenproblem is tied, are found with both their ends.

    Parameters
    ----------
    X : GroupMoments, or (n, p) table
        Moments of two groups, or what a FairPCA holds of rows that are fewer than their features;
        or rows as :meth:`FairPCA.fit` takes them, with their groups.
    n_components : int
        d, from 1 to p.
    center : {"global", "group", "none"}
    sensitive_features : (n,) array-like, or column name(s) of X, optional
        Groups of the rows, and only of rows.
    scale : bool
        Divide each feature by its pooled standard deviation first.
    tol : float
        Largest distance of the curve from the polygon, as a share of the total variance; at
        least 1e-9. The number of vertices grows as 1 / sqrt(tol).

    Returns
    -------
    Frontier

    Raises
    ------
    Incompatible
        One group, or more than two.
    InvalidParameter, InvalidType
        A setting out of range.
    InvalidInput
        A group of one row with center "group".

    Examples
    --------
    >>> import numpy as np
    >>> from fairspan import frontier
    >>> X = np.array([[2.0, 0.0], [-2.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    >>> curve = frontier(X, 1, sensitive_features=["a", "a", "b", "b"])
    >>> curve.errors
    array([[0., 1.],
           [4., 0.]])
    >>> curve.place("minimax_error").errors.round(3)
    array([0.8, 0.8])
    """
    moments = (
        X if sensitive_features is None else compute_moments(open_group_rows(X, sensitive_features))
    )
    if not isinstance(moments, GroupMoments | WideMoments) or moments.matrix_free:
        raise not_moments_error(X, "Pass moments, or rows with their sensitive_features")
    if moments.n_groups != 2:
        raise IncompatibleParameters(
            f"A frontier received {counted(moments.n_groups, 'group')}",
            "Allowed: exactly two groups: it is a curve in the plane of their errors",
            "Join groups until two are left, or compare criteria with audit",
        )
    check_number("tol", tol, _MIN_TOL)
    tol = float(tol)
    check_bool("scale", scale)
    check_n_components(n_components, moments.n_features)
    # Ordinary PCA brings the problem, the mean and the scale.
    pca, problem, coordinates = fit_moments(
        moments, n_components, criterion=_PCA_CRITERION, center=center, scale=scale
    )
    with limit_blas_threads(None):
        points, height, n_solved = frontier_vertices(problem, float(tol) * problem.total_variance)
    errors = np.array([point.errors for point in points])
    weights = np.array([point.weights for point in points])
    return Frontier(
        errors=errors,
        weights=weights / weights.sum(axis=1, keepdims=True),
        losses=np.maximum(errors - problem.best_errors, 0.0),
        total_errors=errors @ problem.proportions,
        groups=tuple(moments.labels),
        n_components=int(n_components),
        center=center,
        max_deviation=height,
        n_eigenproblems=n_solved,
        _vertices=points,
        _pca_subspace=pca,
        _problem=problem,
        _coordinates=coordinates,
    )


def frontier_for_display(
    moments: GroupMoments | WideMoments, n_components: int, center: Center, *, scale: bool
) -> Frontier:
    """The frontier as fine as a picture needs, however short it is beside the total variance.

    Parameters and errors are those of :func:`frontier`.

    Returns
    -------
    Frontier
        A polygon that is nowhere further from the curve than a ten thousandth of its own extent,
        where float64 resolves that and the features are few.
    """
    with Stage("tracing the trade-off", unit=EIGENPROBLEMS):
        curve = frontier(moments, n_components, center, scale=scale)
        extent = float(np.ptp(curve.errors, axis=0).max())
        fraction = _DISPLAY_TOL if moments.n_features <= _MANY_FEATURES else _COARSE_DISPLAY_TOL
        variance = curve._problem.total_variance
        target_deviation = max(fraction * extent, _MIN_TOL * variance)
        if curve.max_deviation > target_deviation:
            curve = frontier(
                moments, n_components, center, scale=scale, tol=target_deviation / variance
            )
        return curve
