"""Nested components: each is optimal for one dimension in the complement of those before it.

v_r minimises the criterion over the unit vectors that are orthogonal to V = (v_1 .. v_(r-1)), where
the second moments are P S_g P, P = I - VV': for the largest loss, max_g (lambda_1(P S_g P) -
v'S_gv). So the first d components are an answer of d dimensions for every d, and d can be cut later
(Matakos et al. 2025). Every step is the problem of d = 1, proven given the steps before it; the
first d components together need not be optimal among all subspaces of d dimensions.
"""

from dataclasses import replace
from functools import partial
from typing import cast

import numpy as np

from fairspan.errors import Incompatible
from fairspan.moments.operators import Complement, deflated
from fairspan.moments.sparse import SparseSecondMoments
from fairspan.problem.criteria import Criterion
from fairspan.problem.posing import Restricted, criterion_of
from fairspan.problem.problem import Problem
from fairspan.problem.restrictions import Restriction
from fairspan.registry import names_of
from fairspan.typing import FloatArray


def check_nested(
    criterion: Criterion, restriction: Restriction | None, *, allow_extra: bool
) -> None:
    """Make sure that components can be nested.

    Raises
    ------
    Incompatible
        The criterion or the restriction does not say so of itself, or a soft projection is allowed.
    """
    if not criterion.can_be_nested:
        able = [name for name in names_of("criterion") if criterion_of(name).can_be_nested]
        raise Incompatible(
            f"nested=True was requested with {criterion!r}",
            f"Allowed: the criteria {', '.join(map(repr, able))}, with default settings",
            "Use one of these, or nested=False",
        )
    if restriction is not None and not restriction.can_be_nested:
        raise Incompatible(
            f"nested=True was requested with {restriction!r}",
            "Allowed: restrictions that leave the same directions for every number of "
            "components, such as MeanParity()",
            "Use MeanParity(), or nested=False",
        )
    if allow_extra:
        raise Incompatible(
            "nested=True was requested with allow_extra=True",
            "Allowed with nested components: allow_extra=False, as each of them is one direction",
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
    if not restricted.problem.has_matrices:
        sparse = cast(SparseSecondMoments, restricted.problem.second_moments).beside(basis)
        problem = replace(restricted.problem, second_moments=sparse)
        if problem.unrestricted is not None:
            beside = cast(SparseSecondMoments, restricted.full.second_moments).beside(basis)
            problem = replace(problem, unrestricted=replace(restricted.full, second_moments=beside))
        return replace(restricted, problem=problem, forbidden=sparse.forbidden)
    left, problem = _deflated(restricted.problem, basis, restricted.directions)
    if restricted.directions is None:
        return replace(restricted, problem=problem, directions=left.basis)
    whole, full = _deflated(restricted.full, basis, None)
    directions = left.coordinates(restricted.directions.T).T
    problem = replace(
        problem,
        unrestricted=full,
        to_coordinates=partial(np.matmul, whole.coordinates(directions).T),
    )
    return replace(restricted, problem=problem, directions=directions)


def _deflated(
    problem: Problem, basis: FloatArray, directions: FloatArray | None
) -> tuple[Complement, Problem]:
    """A problem, posed in the coordinates of some directions, beside a basis."""
    left, rounding, complement = deflated(
        problem.dense, basis if directions is None else directions.T @ basis
    )
    if problem.fixed_rounding is not None:
        rounding = rounding + problem.fixed_rounding
    return complement, replace(problem, second_moments=left, fixed_rounding=rounding)
