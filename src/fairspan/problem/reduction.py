"""Reduce problems to smaller ones where a part of the solution is known.

A restriction allows some directions only, rows that are fewer than their features span few
coordinates, and nested components lie in the complement of earlier ones. Each case is a
:class:`Reduction`: a smaller problem with a map that lifts its components back to the larger one.
"""

from dataclasses import dataclass, replace
from typing import cast

from fairspan.linalg.complement import OrthogonalComplement
from fairspan.moments.projector import Projector
from fairspan.moments.second_moments import SecondMoments, deflate
from fairspan.moments.sparse_scatter import SparseSecondMoments
from fairspan.problem.oblique import ObliqueShift
from fairspan.problem.problem import Problem
from fairspan.problem.rounding_budget import RoundingBudget
from fairspan.typing import FloatArray


@dataclass(frozen=True, eq=False)
class Reduction:
    """Smaller problem, with the map that lifts its components to the larger one.

    Attributes
    ----------
    problem : Problem
    axes : (p, m) array or None
        Orthonormal axes of the smaller problem in the features of the larger one; None if they are
        the same.
    oblique_shift : ObliqueShift or None
        Shift of the rows before projecting, for an oblique restriction; the problem is then that of
        the shifted rows.
    required : (p, r) array or None
        Orthonormal directions of the larger problem, orthogonal to the axes, that every solution
        contains; the smaller problem has r components less.
    """

    problem: Problem
    axes: FloatArray | None = None
    oblique_shift: ObliqueShift | None = None
    required: FloatArray | None = None

    def lift(self, columns: FloatArray) -> FloatArray:
        """Lift (m, r) columns to the coordinates of the larger problem, shape (p, r)."""
        return columns if self.axes is None else self.axes @ columns

    def projector(self, components: FloatArray) -> Projector:
        """Projection that (d, p) components of a solution stand for."""
        if self.oblique_shift is None:
            return Projector(components)
        return Projector(components @ self.oblique_shift.matrix, components.T)


def restricted_rounding(
    unrestricted: Problem, second_moments: SecondMoments, n_forbidden: int
) -> RoundingBudget:
    """Return the rounding budget within the directions that a restriction allows.

    Parameters
    ----------
    unrestricted : Problem
        Problem with all directions.
    second_moments : SecondMoments
        Second moments in the allowed directions.
    n_forbidden : int
        Number of forbidden directions.
    """
    return unrestricted.rounding.within(
        second_moments,
        n_forbidden=n_forbidden,
        is_full=unrestricted.n_features - n_forbidden <= unrestricted.n_components,
    )


def deflate_reduction(reduction: Reduction, basis: FloatArray) -> Reduction:
    """Problem of the next nested component, in the orthogonal complement of the previous ones.

    Component v_r minimizes the criterion over unit vectors orthogonal to V = (v_1 .. v_(r-1)), i.e.
    with the deflated second moments P S_g P, P = I - VV'; for minimax loss,
    max_g (lambda_1(P S_g P) - v'S_gv). The first d components thus solve the nested problem for
    every d, and d can be reduced later (Matakos et al. 2025). Each step is a problem with d = 1,
    proven given the previous steps; the first d components together need not be optimal among all
    d-dimensional subspaces.

    Parameters
    ----------
    reduction : Reduction
        Problem of a single component.
    basis : (p, r) array
        Previous components: orthonormal columns, r < p.

    Returns
    -------
    Reduction
        In coordinates of the complement; for sparse rows, in the original features.
    """
    if not basis.shape[1]:
        return reduction
    problem = reduction.problem
    unrestricted = problem.unrestricted
    if not problem.second_moments.has_matrices:
        # Sparse rows keep their features: the previous components become forbidden directions.
        deflated = cast(SparseSecondMoments, problem.second_moments).forbid(basis)
        deflated_unrestricted = cast(SparseSecondMoments, unrestricted.second_moments).forbid(basis)
        unrestricted = replace(unrestricted, second_moments=deflated_unrestricted)
        embedding = replace(problem.embedding, parent=unrestricted)
        problem = replace(problem, second_moments=deflated, embedding=embedding)
        return replace(reduction, problem=problem)
    if reduction.axes is None:
        # No direction is forbidden, so the complement is that in all features.
        complement, problem = _deflate_problem(problem, basis)
        return Reduction(problem, complement.basis)
    # Remove the components from the allowed directions, and from all directions for the parent: the
    # problem without its restriction, to which excess losses and the figures of PCA refer.
    complement, problem = _deflate_problem(problem, reduction.axes.T @ basis)
    unrestricted_complement, unrestricted = _deflate_problem(unrestricted, basis)
    # Axes of the remaining allowed directions: in the features, and in the parent's coordinates.
    axes = complement.coordinates(reduction.axes.T).T
    embedding = replace(
        problem.embedding, parent=unrestricted, axes=unrestricted_complement.coordinates(axes)
    )
    return Reduction(replace(problem, embedding=embedding), axes)


def _deflate_problem(problem: Problem, basis: FloatArray) -> tuple[OrthogonalComplement, Problem]:
    """Orthogonal complement of a basis, and the problem restricted to it.

    The rounding error of projecting the second moments onto the complement adds to that of the
    directions that the problem forbids already.
    """
    deflated = deflate(problem.dense_moments, basis)
    problem = replace(
        problem,
        second_moments=deflated.second_moments,
        rounding=problem.rounding.after_components(deflated.rounding, basis.shape[1]),
        warm_start=None,  # it belongs to the previous component
    )
    return deflated.complement, problem
