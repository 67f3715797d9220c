"""Nested components: one step after the other.

A step is the problem of one component in the complement of those before it
(:func:`fairspan.problem.reduction.left_beside`), solved and proven as any other.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import count, islice
from typing import Any

import numpy as np

from fairspan.certificates.certificate import Certificate, Solver, TracePoint
from fairspan.certificates.optimality import certify, evaluate
from fairspan.certificates.proofs import Proof
from fairspan.linalg import eigh
from fairspan.problem.problem import Problem
from fairspan.problem.reduction import ProblemFamily, Reduction, left_beside
from fairspan.solvers.solve import (
    able_solver,
    check_accepted,
    in_all_directions,
    keeps,
    not_kept,
    solve,
    solve_problem,
)
from fairspan.typing import FloatArray

# Two groups have no other component that is as good but with the same variances.
_FEW_GROUPS = 2


def solve_nested(
    family: ProblemFamily, solver: Solver, n_components: int | float, tol: float, state: Any = None
) -> tuple[Reduction, Certificate]:
    """The first d components, one after the other, with a certificate of each step and prefix.

    Parameters
    ----------
    family : ProblemFamily
    solver : Solver
    n_components : int or float
        d; or the share of every group's variance that they are to keep, as few as do.
    tol : float
    state : int, Generator, RandomState or None

    Raises
    ------
    Incompatible
        The solver, or the restriction, cannot take the problem; no number of components keeps that
        share.
    """
    prefixes = _prefixes(family, solver, tol, state)
    if isinstance(n_components, float):
        share, found = n_components, list[Certificate]()
        for each in islice(prefixes, family.most_components):
            found.append(each)
            if keeps(family, each, share):
                break
        else:
            raise not_kept(family, share, found)
    else:
        able_solver(family, family.at(n_components), solver)
        found = list(islice(prefixes, n_components))
    *before, last = found
    return family.at(len(found)), replace(
        last, prefixes=tuple(replace(each, steps=()) for each in before)
    )


def _prefixes(
    family: ProblemFamily, solver: Solver, tol: float, state: Any
) -> Iterator[Certificate]:
    """The first d components for d = 1, 2, .., of which each takes one more step."""
    single = family.at(1)
    components = np.empty((0, family.any_dimension.n_features))
    steps: list[Certificate] = []
    n_eigenproblems = 0
    for d in count(1):
        left = left_beside(single, components.T)
        check_accepted(solver, left.problem)
        step = solve(left, solver, tol, state, _one_more)
        components = np.vstack([components, step.components])
        n_eigenproblems += step.n_eigenproblems
        together = step
        if d > 1:
            together = _together(family.at(d), components, step)
            n_eigenproblems += 1
        # What groups lose is told of all components so far.
        of_rows = {name: getattr(together, name) for name in ("errors", "losses", "total_variance")}
        steps.append(replace(step, **of_rows))
        point = TracePoint(n_eigenproblems, together.lower_bound, together.objective)
        yield replace(
            together,
            n_eigenproblems=n_eigenproblems,
            trace=(point,),
            steps=tuple(steps),
        )


def _together(reduction: Reduction, components: FloatArray, step: Certificate) -> Certificate:
    """Components as an answer of as many dimensions, with the bound that a step's weights prove.

    Weights of the groups prove a bound for any number of dimensions; those of the last step are
    seldom the best ones.
    """
    basis = components.T if reduction.axes is None else reduction.axes.T @ components.T
    # Without matrices no eigenvalue sum is proven.
    lower_bound = None if reduction.problem.has_matrices else -np.inf
    found = evaluate(
        reduction.problem, basis, Proof(step.weights), tol=step.tol, lower_bound=lower_bound
    )
    found = replace(found, components=components, solver=step.solver, eigen=step.eigen)
    return in_all_directions(reduction, found)


def _one_more(
    problem: Problem, solver: Solver, tol: float, random_state: Any = None
) -> Certificate:
    """One component: of several as good, the one of most pooled variance.

    They are among the tied eigenvectors of the mixture that proves the bound.
    """
    found = solve_problem(problem, solver, tol, random_state)
    if problem.n_groups <= _FEW_GROUPS or found.eigen != "dense" or not found.proof:
        return found
    tied = problem.second_moments.leading(found.weights, 1).tied
    if not tied.shape[1]:
        return found
    compressed = problem.second_moments.compressed(tied)
    most = tied @ eigh(np.tensordot(problem.proportions, compressed, axes=1))[1][:, -1:]
    if problem.value(most) > found.objective + found.tolerance:
        return found
    return certify(
        problem,
        most,
        found.proof,
        tol=tol,
        n_eigenproblems=found.n_eigenproblems,
        trace=found.trace,
        solver=found.solver,
    )
