"""Nested components: each is the answer of one dimension in what is left beside those before it.

v_r minimises the criterion over the unit vectors that are orthogonal to V = (v_1 .. v_(r-1)), where
the second moments are P S_g P, P = I - VV': for the largest loss, max_g (lambda_1(P S_g P) -
v'S_gv). So the first d components are an answer of d dimensions for every d, and d can be cut later
(Matakos et al. 2025). Every step is the problem of d = 1, proven given the steps before it; the
first d components together need not be optimal among all subspaces of d dimensions.
"""

from dataclasses import replace

from fairspan.errors import Incompatible
from fairspan.moments.deflation import DeflatedSparse, deflated
from fairspan.problem.criteria import Criterion, declares
from fairspan.problem.posing import Restricted, criterion_of
from fairspan.problem.problem import Problem
from fairspan.problem.restrictions import Restriction
from fairspan.registry import names_of
from fairspan.typing import FloatArray

_DECLARED = "can_be_nested"


def check_nested(
    criterion: Criterion, restriction: Restriction | None, *, allow_extra: bool
) -> None:
    """Make sure that components can be nested.

    Raises
    ------
    Incompatible
        The criterion or the restriction does not say so of itself, or a soft projection is allowed.
    """
    if not declares(criterion, _DECLARED):
        able = [name for name in names_of("criterion") if declares(criterion_of(name), _DECLARED)]
        raise Incompatible(
            f"nested=True was asked for with {criterion!r}",
            f"Allowed are the criteria {', '.join(map(repr, able))}, with default settings",
            "Use one of these, or nested=False",
        )
    if restriction is not None and not declares(restriction, _DECLARED):
        raise Incompatible(
            f"nested=True was asked for with {restriction!r}",
            "Allowed are restrictions that leave the same directions for every number of "
            "components, such as MeanParity()",
            "Use MeanParity(), or nested=False",
        )
    if allow_extra:
        raise Incompatible(
            "nested=True was asked for with allow_extra=True",
            "Allowed with nested components is allow_extra=False: each of them is one direction",
            "Leave out one of the two",
        )


def left_beside(restricted: Restricted, basis: FloatArray) -> Restricted:
    """The problem of the next component.

    Parameters
    ----------
    restricted : Restricted
        The problem of a single component.
    basis : (p, r) array
        The components before it: orthonormal columns, r < p.

    Returns
    -------
    Restricted
        In coordinates beside these; where the rows stay sparse, in those of the features.
    """
    if not basis.shape[1]:
        return restricted
    second = restricted.problem.second_moments
    if not restricted.problem.has_matrices:
        left = DeflatedSparse(second, basis)  # type: ignore[arg-type]
        return replace(restricted, problem=replace(restricted.problem, second_moments=left))
    if restricted.directions is None:
        problem, beside = _deflated(restricted.problem, basis, None)
        return replace(restricted, problem=problem, directions=beside)
    whole, _ = _deflated(restricted.full, basis, None)
    inside = restricted.directions.T @ basis
    problem, beside = _deflated(restricted.problem, inside, restricted.directions)
    problem = replace(problem, unrestricted=whole, directions=None)
    return replace(restricted, problem=problem, directions=beside)


def _deflated(
    problem: Problem, basis: FloatArray, directions: FloatArray | None
) -> tuple[Problem, FloatArray]:
    """A problem beside a basis, and what is left of the directions that are its coordinates."""
    left = deflated(problem.dense, basis, directions)
    rounding = left.rounding
    if problem.fixed_rounding is not None:
        rounding = rounding + problem.fixed_rounding
    left_of = replace(problem, second_moments=left.second_moments, fixed_rounding=rounding)
    return left_of, left.directions
