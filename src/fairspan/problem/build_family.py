"""Build the problems of all numbers of components from moments, a criterion and a restriction."""

from dataclasses import replace

from fairspan.errors import IncompatibleParameters
from fairspan.linalg.rounding import EPS
from fairspan.moments.base_moments import Center
from fairspan.moments.compute import Moments
from fairspan.moments.row_space import RowSpace
from fairspan.moments.second_moments import SecondMoments
from fairspan.parameters import is_integer
from fairspan.problem.criteria.criterion import Criterion
from fairspan.problem.directions import check_enough_directions
from fairspan.problem.family import ProblemFamily
from fairspan.problem.problem import Problem
from fairspan.problem.restrictions.restriction import Restriction, differences_of
from fairspan.problem.rounding_budget import RoundingBudget, RowRank
from fairspan.typing import FloatArray


def build_problem_family(
    moments: Moments,
    n_components: int | float,
    criterion: Criterion,
    *,
    restriction: Restriction | None = None,
    center: Center = "global",
    feature_scale: FloatArray | None = None,
    allow_extra: bool = False,
    second_moments: SecondMoments | None = None,
) -> ProblemFamily:
    """Build the problems of a criterion, one for each number of components.

    Parameters
    ----------
    moments : GroupMoments, SparseMoments or WideMoments
        For WideMoments, of fewer rows than features, the problem is posed in coordinates of the
        space that the rows span (row coordinates), unless the restriction depends on the features.
    n_components : int or float
        d, or a fraction of every group's variance to keep.
    criterion : Criterion
    restriction : Restriction or None
    center : {"global", "group", "none"}
        Center about which errors are measured.
    feature_scale : (p,) array, optional
        Divisor of each feature.
    allow_extra : bool
        Whether a soft projection of more than d dimensions may be returned.
    second_moments : SecondMoments, optional
        Second moments of the same data about the same center, if they exist already, to reuse
        solved eigenproblems.

    Returns
    -------
    ProblemFamily

    Raises
    ------
    IncompatibleParameters, UnknownGroup
        The criterion or the restriction is undefined for these groups.
    """
    scaled_moments = moments.in_units(feature_scale)
    # Row coordinates rotate the features, which a restriction may not allow.
    coordinates: RowSpace | None = None
    if restriction is None or restriction.is_rotation_equivariant:
        coordinates = scaled_moments.reduce_to_row_space(n_components, center)
    problem_moments: Moments
    if coordinates is None:
        problem_moments = scaled_moments.in_features()
        center_point = scaled_moments.center_point(center)
    else:
        # Few rows span a low-dimensional space, in whose coordinates the problem is small.
        problem_moments = coordinates.coordinate_moments
        center_point = coordinates.point
    if second_moments is None:
        second_moments = problem_moments.second_moments_about(center_point)
    # About the origin, rows also vary along their common mean.
    max_rank = scaled_moments.max_rank + int(center == "none")
    # A fraction of variance becomes a number of components later: one is a placeholder.
    problem = Problem(
        second_moments,
        moments.labels,
        moments.weights,
        n_components=int(n_components) if is_integer(n_components) else 1,
        criterion=criterion,
        allow_extra=allow_extra,
        rounding=replace(
            _coordinate_rounding(coordinates),
            row_rank=_row_rank(moments, second_moments, max_rank),
        ),
        weight_exponent=moments.weight_exponent,  # weights are in units of 2**weight_exponent
    )
    if restriction is not None:
        restriction.check_compatible(moments.labels, criterion, allow_extra=allow_extra)
        _check_center(restriction, center)
        if coordinates is not None:
            restriction = _restriction_in_coordinates(
                restriction, coordinates, problem.n_components
            )
    return ProblemFamily(problem, restriction, problem_moments, center_point, coordinates)


def _coordinate_rounding(coordinates: RowSpace | None) -> RoundingBudget:
    """Return the rounding budget of row coordinates, or of features if there are none.

    Row coordinates are inexact: axes are not quite orthonormal, and rows lie slightly outside their
    span.
    """
    if coordinates is None:
        return RoundingBudget()
    return RoundingBudget(
        orthogonality_defect=coordinates.orthogonality_defect,
        span_residuals=coordinates.span_residuals(),
    )


def _row_rank(moments: Moments, second_moments: SecondMoments, max_rank: int) -> RowRank:
    """Bound on the rank of the rows, with the variance of a typical one.

    They tell errors that are zero from errors that are lost in rounding.

    Parameters
    ----------
    moments : GroupMoments, SparseMoments or WideMoments
    second_moments : SecondMoments
        Of the problem.
    max_rank : int
        Bound on the rank of the rows, in any coordinates.
    """
    # The squared length of a typical row, as a share of the mean of all. If only moments are known,
    # a single row may be 1e8 times as long as the others, so that the share is about EPS.
    spread = moments.row_spread
    typical_share = EPS if spread is None else spread.typical_share
    proportions = moments.proportions
    return RowRank(
        maximum=min(max_rank, second_moments.n_features),
        second_moments=second_moments,
        proportions=proportions,
        typical_variance=typical_share * float(proportions @ second_moments.traces),
    )


def _check_center(restriction: Restriction, center: Center) -> None:
    """Check that errors are about the mean of all rows if an oblique restriction shifts rows.

    Raises
    ------
    IncompatibleParameters
    """
    if center != "global" and restriction.oblique:
        raise IncompatibleParameters(
            f"{restriction!r} was requested with center={center!r}",
            "Allowed: center='global': rows are shifted about the mean of all rows",
            "Use center='global', or an orthogonal restriction",
        )


def _restriction_in_coordinates(
    restriction: Restriction, coordinates: RowSpace, n_components: int
) -> Restriction:
    """Equivalent restriction in row coordinates.

    There are fewer row coordinates than features: they omit most directions without variance
    (:mod:`fairspan.moments.wide`), which a restriction counts as allowed.

    Raises
    ------
    IncompatibleParameters
        Fewer directions are allowed than components or directions were requested, or the number of
        directions is not given.
    """
    # A restriction that counts no directions is the same in all coordinates.
    if not restriction.forbids_mean_differences_only and not restriction.counts_directions:
        return restriction
    n_features = coordinates.moments_of_rows.n_features
    rank = differences_of(restriction, coordinates.coordinate_moments).shape[1]
    check_enough_directions(n_components, n_features, rank)
    return restriction.in_row_coordinates(coordinates, n_components, n_features - rank)
