"""Exact trade-off of two groups: the pairs of errors of which neither can decrease alone.

Among all d-dimensional subspaces, those that minimize w_1 e_1 + w_2 e_2 for nonnegative weights
form the Pareto frontier: the lower-left boundary of the convex hull of all pairs (e_1(V), e_2(V)).
Each is the solution of one symmetric eigenproblem, and every boundary point is attained by some V
of exactly d dimensions (see :mod:`fairspan.solvers.two_groups`).
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from fairspan.certificates.evaluate_solution import rotate_to_principal_axes
from fairspan.class_loaders import load_class
from fairspan.errors import IncompatibleParameters, InvalidParameter
from fairspan.estimator.fit import Fit, fit_moments
from fairspan.estimator.fit_settings import FitSettings
from fairspan.formatting.export import to_data_frame
from fairspan.formatting.messages import counted
from fairspan.formatting.table import Table
from fairspan.formatting.units import Unit
from fairspan.linalg import normalize_signs
from fairspan.linalg.rounding import zero_negligible
from fairspan.linalg.threads import limit_blas_threads
from fairspan.model.subspace import FairSubspace
from fairspan.moments.base_moments import Center
from fairspan.moments.compute import Moments, compute_moments, not_moments_error
from fairspan.moments.group_moments import GroupMoments
from fairspan.moments.second_moments import figure_roundings
from fairspan.moments.wide import WideMoments
from fairspan.parameters import check_number, is_integer
from fairspan.problem.criteria.criterion import Criterion
from fairspan.problem.criteria.criterion_catalog import get_criterion
from fairspan.problem.part_parameters import check_n_components
from fairspan.progress import EIGENPROBLEMS, Stage
from fairspan.registry import builtin_names
from fairspan.rows.labels import Label, format_label, table_name
from fairspan.rows.opening import open_group_rows
from fairspan.solvers.auto import solve_exactly
from fairspan.solvers.two_groups.frontier import (
    RIGHT_ANGLE,
    BoundaryPoint,
    frontier_vertices,
    supporting_contact,
)
from fairspan.typing import FloatArray, PlottedDisplay

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Criterion that is ordinary PCA.
_PCA_CRITERION = "total_error"
# Tolerance of a criterion's solution, relative to its objective; also the smallest `tol` of a
# frontier, relative to the total variance.
_MIN_TOL = 1e-9
# Distance from the curve, relative to the total variance, up to which a solution lies on it.
_ON_FRONTIER_TOL = 1e-8
# Number of angles of weights of which at least one is negative.
_N_OUTER_ANGLES = 64
# Number of vertices shown in a notebook.
_MAX_SHOWN_VERTICES = 10
# Deviation of a plotted curve that is invisible, relative to the extent of the plot.
_DISPLAY_TOL = 1e-4
# The same for more than _MANY_FEATURES features, where each vertex takes time: about a pixel.
_COARSE_DISPLAY_TOL = 2e-3
_MANY_FEATURES = 300


@dataclass(frozen=True, eq=False)
class FrontierPosition:
    """Position of a criterion's solution relative to the frontier.

    Attributes
    ----------
    criterion : Criterion
    errors : (2,) array
        Error of each group at the criterion's solution.
    on_frontier : bool
        Whether it is Pareto optimal: neither error can decrease without the other increasing.
        Criteria that penalize a gap (equal error, error gap, disparity) may lie beyond an end,
        where both errors could decrease.
    distance : float
        Distance from the polygon through the frontier's vertices, in units of the errors; for
        solutions on the frontier at most `Frontier.max_deviation`, up to rounding.
    """

    criterion: Criterion
    errors: FloatArray
    on_frontier: bool
    distance: float

    @property
    def name(self) -> str:
        """Name of the criterion."""
        return self.criterion.name


def distance_to_polyline(point: FloatArray, polygon: FloatArray) -> float:
    """Smallest distance of a (2,) point from the polyline through (m, 2) vertices."""
    # Side i ends at vertex i; the first one has length zero, so that one vertex suffices.
    sides = np.diff(polygon, axis=0, prepend=polygon[:1])
    starts = polygon - sides
    offsets = point - starts
    squared_lengths = (sides**2).sum(axis=1)
    projections = (offsets * sides).sum(axis=1)
    fraction = np.clip(projections / np.where(squared_lengths > 0, squared_lengths, 1.0), 0.0, 1.0)
    return float(np.linalg.norm(offsets - fraction[:, None] * sides, axis=1).min())


@dataclass(frozen=True, eq=False)
class Frontier:
    """Pareto frontier of two groups' errors as a polygon; created by :func:`frontier`.

    Attributes
    ----------
    errors : (m, 2) array
        e_1 and e_2 at each vertex, in squared (scaled) units of the features, from the optimum of
        the first group to that of the second: the first column increases, the second decreases.
    weights : (m, 2) array
        Nonnegative, each row summing to one; the vertex minimizes w_1 e_1 + w_2 e_2.
    losses : (m, 2) array
        e_g - e*_g, excess loss of each group.
    total_errors : (m,) array
        q_1 e_1 + q_2 e_2, the error over all rows.
    groups : tuple of 2 labels
    n_components : int
        d.
    center : {"global", "group", "none"}
    max_deviation : float
        Proven bound on the distance of the curve from the polygon, in units of the errors.
    n_eigenproblems : int
        Number of eigenproblems solved for the curve.
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
    _pca: Fit = field(repr=False)

    def subspace(self, i: int) -> FairSubspace:
        """Return the subspace of vertex i, with exactly d orthonormal components.

        Parameters
        ----------
        i : int
            Negative indices count from the end.

        Returns
        -------
        FairSubspace
            With the mean, scale and feature names of the data.

        Raises
        ------
        InvalidParameter
            There is no such vertex.
        """
        m = len(self._vertices)
        if not is_integer(i) or not -m <= i < m:
            raise InvalidParameter(
                f"The vertex is {i!r}",
                f"Allowed: an integer from {-m} to {m - 1}",
                "Choose a row index of errors",
            )
        basis = rotate_to_principal_axes(self._pca.problem, self._vertices[i].basis)
        if self._pca.coordinates is not None:
            # With fewer rows than features, the problem was posed in coordinates of the row space.
            basis = self._pca.coordinates.lift(basis)
        # Mean, scale and names are those of ordinary PCA, but its certificate is for PCA only.
        return replace(
            self._pca.subspace,
            components=np.ascontiguousarray(normalize_signs(basis).T),
            certificate=None,
        )

    def frame(self) -> Any:
        """Return the vertices as a pandas DataFrame.

        Returns
        -------
        pandas.DataFrame
            For each group, named as in tables, the columns `weight of`, `error of` and `loss of`
            it; and `total error`. One row per vertex.

        Raises
        ------
        MissingDependency
            pandas is not installed.
        """
        columns = {}
        quantities = {"weight": self.weights, "error": self.errors, "loss": self.losses}
        for quantity, values in quantities.items():
            for g, group in enumerate(self.groups):
                columns[f"{quantity} of {format_label(group)}"] = values[:, g]
        columns["total error"] = self.total_errors
        return to_data_frame(columns, "Frontier.frame()")

    def locate(self, criterion: str | Criterion) -> FrontierPosition:
        """Fit a criterion to the same moments and locate its solution relative to the frontier.

        Parameters
        ----------
        criterion : str or criterion object

        Returns
        -------
        FrontierPosition

        Raises
        ------
        IncompatibleParameters
            No subspace is feasible, or no solver supports the criterion.
        InvalidParameter, InvalidType, UnknownGroup
            An invalid criterion, or one for other groups.
        """
        # The second moments keep solved eigenproblems, which all criteria share.
        problem = replace(self._pca.problem, criterion=get_criterion(criterion))
        problem.criterion.check_problem(problem)
        certificate = solve_exactly(problem, tol=_MIN_TOL)
        errors = problem.errors(certificate.components.T)
        tol = _ON_FRONTIER_TOL * problem.total_variance
        distance = distance_to_polyline(errors, self.errors)
        # On the frontier, each group's error is largest at the end where the other's is smallest.
        # Beyond that end both increase, which a small distance alone would not show.
        max_first = self.errors[-1, 0]
        max_second = self.errors[0, 1]
        # The curve is up to `max_deviation` away from the polygon of its vertices.
        is_between_ends = errors[1] <= max_second + tol and errors[0] <= max_first + tol
        on_frontier = bool(is_between_ends and distance <= self.max_deviation + tol)
        return FrontierPosition(problem.criterion, errors, on_frontier, distance)

    def locate_all(self) -> tuple[FrontierPosition, ...]:
        """Locate the solution of every criterion with default parameters; omit infeasible ones.

        Ordinary PCA is "total_error". "equal_error" is infeasible if no subspace has equal errors.

        Returns
        -------
        tuple of FrontierPosition
        """
        positions = []
        for name in builtin_names("criterion"):
            with suppress(IncompatibleParameters):  # infeasible
                positions.append(self.locate(name))
        return tuple(positions)

    def achievable_region(self) -> FloatArray:
        """Corners of the convex set of all achievable pairs of errors.

        The frontier is its lower-left boundary; beyond its ends both errors increase. Where the
        boundary is curved, the set extends slightly beyond the polygon.

        Returns
        -------
        (r, 2) array
            Counterclockwise. Every corner, and every pair between corners, is achievable.
        """
        # The Pareto part is given by its vertices. For the rest, weights (cos angle, sin angle) go
        # from a right angle to a full turn, so that at least one is negative; the cosine spaces the
        # angles most densely near both ends, where the Pareto part begins and stops.
        parameters = np.linspace(0.0, np.pi, _N_OUTER_ANGLES + 2)[1:-1]
        angles = RIGHT_ANGLE + 3 * RIGHT_ANGLE * (1 - np.cos(parameters)) / 2
        # At each angle, the points of smallest weighted error are on the boundary: both ends of an
        # edge, which are usually one point. One thread (None: of every BLAS library), since there
        # are many small eigenproblems.
        with limit_blas_threads(None):
            outer_points = [
                point
                for angle in angles
                for point in supporting_contact(self._pca.problem, float(angle))
            ]
        return np.array([point.errors for point in (*self._vertices, *outer_points)])

    def plot(
        self,
        ax: "Axes | None" = None,
        *,
        criteria: Sequence[str | Criterion] | None = None,
        unit: Unit = "share",
    ) -> PlottedDisplay:
        """Plot the frontier; needs the extra `plot`.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Axes to draw on; by default, those of a new figure.
        criteria : sequence of str or criterion objects, optional
            Criteria whose solutions are shown; by default all built-in ones that are feasible.
        unit : {"share", "squared"}
            Errors as shares of each group's variance, or in squared units of the features.

        Returns
        -------
        displays.FrontierDisplay
            With `ax_`, `figure_` and `frame()`, like scikit-learn's displays.
        """
        # By name, since the display is built on frontiers.
        display = load_class("result display", "frontier").from_frontier(self, criteria, unit=unit)
        return cast(PlottedDisplay, display.plot(ax))

    def __repr__(self) -> str:
        first, second = map(format_label, self.groups)
        return (
            f"<Frontier of {first} and {second}: "
            f"{counted(len(self.errors), 'vertex', 'vertices')}, "
            f"{counted(self.n_components, 'component')}, center {self.center!r}>"
        )

    def _repr_html_(self) -> str:
        """HTML table of the vertices and of ordinary PCA, for notebooks."""
        names = [table_name(group) for group in self.groups]
        m = len(self.errors)
        vertices = np.unique(
            np.linspace(0, m - 1, _MAX_SHOWN_VERTICES).round().astype(int)
        ).tolist()
        proportions = self._pca.problem.proportions
        # Errors that are no more than rounding error count as zero.
        totals = self.round_to_zero(self.errors) @ proportions
        rows = [
            self._table_row(
                f"vertex {i}", self.weights[i], self.errors[i], self.losses[i], totals[i]
            )
            for i in vertices
        ]
        pca_errors = self.locate(_PCA_CRITERION).errors
        pca_losses = np.maximum(pca_errors - self._pca.problem.best_errors, 0.0)
        pca_total = float(proportions @ self.round_to_zero(pca_errors))
        rows.append(self._table_row("ordinary PCA", proportions, pca_errors, pca_losses, pca_total))
        n_shown = f" ({len(vertices)} shown)" if len(vertices) < m else ""
        caption = (
            f"{counted(m, 'vertex', 'vertices')}{n_shown}, "
            f"{counted(self.n_components, 'component')}, center {self.center!r}"
        )
        header = (
            "",
            f"weight of {names[0]}",
            *(f"error of {name}" for name in names),
            *(f"loss of {name}" for name in names),
            "total error",
        )
        table = Table.from_texts(caption, header, rows, sections=((len(vertices), ""),))
        return table._repr_html_()

    def _table_row(
        self, name: str, weights: FloatArray, errors: FloatArray, losses: FloatArray, total: float
    ) -> tuple[str, ...]:
        values = [weights[0], *self.round_to_zero(errors), *self.round_to_zero(losses), total]
        return name, *(f"{value:.4g}" for value in values)

    @property
    def variances(self) -> FloatArray:
        """Variance of each group about the center, (2,), of which an error is a part."""
        return self._pca.problem.second_moments.traces

    def round_to_zero(self, errors: FloatArray) -> FloatArray:
        """Set errors or losses that are rounding error to zero, shape (..., 2)."""
        second_moments = self._pca.problem.second_moments
        roundings = figure_roundings(
            second_moments,
            # Only what is negligible beside the features' variances becomes zero.
            errors=np.zeros(second_moments.n_groups),
            by_feature=self._pca.coordinates is None,
        )
        return zero_negligible(errors, roundings)


def frontier(
    X: object,
    n_components: int,
    center: Center = "global",
    *,
    sensitive_features: object = None,
    scale: bool = False,
    tol: float = 1e-4,
) -> Frontier:
    """Compute the exact Pareto frontier of two groups' errors.

    For weights w = (t, 1 - t) with t from 1 to 0, the d leading eigenvectors of w_1 S_1 + w_2 S_2
    minimize w_1 e_1 + w_2 e_2. Between two such points the curve lies in the triangle of their
    chord and their supporting lines; triangles are split until all are lower than `tol`. Flat
    edges, where the eigenproblem is tied, are found with both ends.

    Parameters
    ----------
    X : GroupMoments, or (n, p) table
        Moments of two groups (GroupMoments or WideMoments), or rows as for :meth:`FairPCA.fit`,
        with their groups.
    n_components : int
        d, from 1 to p.
    center : {"global", "group", "none"}
    sensitive_features : (n,) array-like, or column name(s) of X, optional
        Groups of the rows; only with rows.
    scale : bool
        Divide each feature by its pooled standard deviation first.
    tol : float
        Largest distance of the curve from the polygon, relative to the total variance; at least
        1e-9. The number of vertices grows like 1 / sqrt(tol).

    Returns
    -------
    Frontier

    Raises
    ------
    IncompatibleParameters
        The number of groups is not two.
    InvalidParameter, InvalidType
        A parameter is out of range.
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
    >>> curve.locate("minimax_error").errors.round(3)
    array([0.8, 0.8])
    """
    moments = _moments_of_two_groups(X, sensitive_features)
    check_number("tol", tol, _MIN_TOL)
    tol = float(tol)
    check_n_components(n_components, moments.n_features)
    # The fit of ordinary PCA also provides problem, mean and scale; and the row coordinates of the
    # problem, if there are fewer rows than features.
    settings = FitSettings.parse(n_components, _PCA_CRITERION, center=center, scale=scale)
    pca = fit_moments(moments, settings)
    problem = pca.problem
    # One thread (None: of every BLAS library): there are many small eigenproblems.
    with limit_blas_threads(None):
        vertices = frontier_vertices(problem, tol * problem.total_variance)
    errors = np.array([point.errors for point in vertices.points])
    weights = np.array([point.weights for point in vertices.points])
    # Subspaces of the curve are found on demand, perhaps from rows of the caller.
    moments.guard_rows()
    return Frontier(
        errors=errors,
        weights=weights / weights.sum(axis=1, keepdims=True),
        losses=np.maximum(errors - problem.best_errors, 0.0),
        total_errors=errors @ problem.proportions,
        groups=tuple(moments.labels),
        n_components=int(n_components),
        center=center,
        max_deviation=vertices.max_deviation,
        n_eigenproblems=vertices.n_eigenproblems,
        _vertices=vertices.points,
        _pca=pca,
    )


def _moments_of_two_groups(X: object, sensitive_features: object) -> GroupMoments | WideMoments:
    """Return the given moments, or compute those of a table, and check that they are of two groups.

    Raises
    ------
    IncompatibleParameters
        The number of groups is not two.
    InvalidType
        Rows without groups, or sparse rows, which are fitted without matrices.
    """
    if sensitive_features is None:
        moments = X
    else:
        moments = compute_moments(open_group_rows(X, sensitive_features))
    if not isinstance(moments, GroupMoments | WideMoments):
        raise not_moments_error(X, "Pass moments, or rows with their sensitive_features")
    if moments.n_groups != 2:
        raise IncompatibleParameters(
            f"frontier received {counted(moments.n_groups, 'group')}",
            "Allowed: exactly two groups, whose errors span the plane of the curve",
            "Merge groups until two remain, or compare criteria with audit",
        )
    return moments


def frontier_for_display(
    moments: Moments, n_components: int, center: Center, *, scale: bool
) -> Frontier:
    """Frontier with the resolution that a plot needs, however short the curve is.

    The default tolerance is relative to the total variance, of which a short curve may be a small
    part: such a curve is computed again with a smaller tolerance.

    Parameters and exceptions as for :func:`frontier`.

    Returns
    -------
    Frontier
        A polygon whose distance from the curve is at most 1e-4 of its extent (2e-3 for many
        features), if float64 resolves that.
    """
    with Stage("computing the trade-off curve", unit=EIGENPROBLEMS):
        curve = frontier(moments, n_components, center, scale=scale)
        extent = float(np.ptp(curve.errors, axis=0).max())
        is_wide = moments.n_features > _MANY_FEATURES
        display_tol = _COARSE_DISPLAY_TOL if is_wide else _DISPLAY_TOL
        variance = curve._pca.problem.total_variance
        target_deviation = max(display_tol * extent, _MIN_TOL * variance)
        if curve.max_deviation <= target_deviation:
            return curve
        tol = target_deviation / variance
        return frontier(moments, n_components, center, scale=scale, tol=tol)
