"""Compute the Pareto frontier of two groups' errors, exactly."""

import numpy as np

from fairspan.errors import Incompatible
from fairspan.estimator.fitting import fit_subspace
from fairspan.linalg.threads import threads_of
from fairspan.moments.center import Center
from fairspan.moments.group_moments import GroupMoments
from fairspan.moments.held_rows.thin_moments import ThinMoments
from fairspan.moments.of_rows import is_moments, not_moments
from fairspan.problem.parameters import check_flag, check_number
from fairspan.problem.problem import check_n_components
from fairspan.progress.stages import Stage
from fairspan.solvers.two_groups.frontier import frontier_vertices
from fairspan.trade_off.curve import Frontier

_PLAIN = "total_error"
_LEAST_TOLERANCE = 1e-9
# Of a picture's extent: what is not seen. Beyond so many features each vertex takes its time.
_SEEN, _SEEN_OF_MANY, _MANY_FEATURES = 1e-4, 2e-3, 300


def frontier(
    moments: GroupMoments | ThinMoments,
    n_components: int,
    center: Center = "global",
    *,
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
    moments : GroupMoments
        Of two groups; or what a FairPCA holds of rows that are fewer than their features.
    n_components : int
        d, from 1 to p.
    center : {"global", "group", "none"}
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
    >>> from fairspan import GroupMoments, frontier
    >>> X = np.array([[2.0, 0.0], [-2.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    >>> curve = frontier(GroupMoments.from_rows(X, ["a", "a", "b", "b"]), 1)
    >>> curve.errors
    array([[0., 1.],
           [4., 0.]])
    >>> curve.place("minimax_error").errors.round(3)
    array([0.8, 0.8])
    """
    if not is_moments(moments) or moments.matrix_free:
        raise not_moments(moments)
    if moments.n_groups != 2:
        raise Incompatible(
            f"A frontier received {moments.n_groups} groups",
            "Allowed: exactly two groups: it is a curve in the plane of their errors",
            "Join groups until two are left, or compare criteria with audit",
        )
    check_number("tol", tol, _LEAST_TOLERANCE)
    check_flag("scale", scale)
    check_n_components(n_components, moments.n_features)
    # Ordinary PCA brings the problem, the mean and the scale.
    pca = fit_subspace(moments, n_components, criterion=_PLAIN, center=center, scale=scale)
    problem = pca.problem
    with threads_of(None):
        vertices = frontier_vertices(problem, float(tol) * problem.total_variance)
    errors = np.array([point.errors for point in vertices.points])
    weights = np.array([point.face.weights for point in vertices.points])
    return Frontier(
        errors=errors,
        weights=weights / weights.sum(axis=1, keepdims=True),
        losses=np.maximum(errors - problem.best_errors, 0.0),
        total_errors=errors @ problem.proportions,
        groups=tuple(moments.labels),
        n_components=int(n_components),
        center=center,
        largest_height=vertices.largest_height,
        n_eigenproblems=vertices.n_eigenproblems,
        _points=vertices.points,
        _pca=pca,
    )


def frontier_to_look_at(
    moments: GroupMoments | ThinMoments, n_components: int, center: Center, *, scale: bool
) -> Frontier:
    """The frontier as fine as a picture needs, however short it is beside the total variance.

    Parameters and errors are those of :func:`frontier`.

    Returns
    -------
    Frontier
        A polygon that is nowhere further from the curve than a ten thousandth of its own extent,
        where float64 resolves that and the features are few.
    """
    with Stage("tracing the trade-off"):
        curve = frontier(moments, n_components, center, scale=scale)
        extent = float(np.ptp(curve.errors, axis=0).max())
        share = _SEEN if moments.n_features <= _MANY_FEATURES else _SEEN_OF_MANY
        if curve.largest_height <= max(share * extent, _LEAST_TOLERANCE * curve.total_variance):
            return curve
        finer = max(share * extent / curve.total_variance, _LEAST_TOLERANCE)
        return frontier(moments, n_components, center, scale=scale, tol=finer)
