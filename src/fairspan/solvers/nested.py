"""Nested components, computed one at a time.

Each step is a problem with one component in the orthogonal complement of the previous ones
(:func:`fairspan.problem.reduction.deflate_reduction`), solved and proven like any other.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import count, islice

import numpy as np

from fairspan.certificates.certificate import Certificate
from fairspan.certificates.certificate_parts import RunRecord, TracePoint
from fairspan.certificates.evaluate_solution import certify, evaluate_solution
from fairspan.certificates.proofs import Proof
from fairspan.problem.family import ProblemFamily
from fairspan.problem.problem import Problem
from fairspan.problem.reduction import Reduction, deflate_reduction
from fairspan.solvers.auto import Auto, choose_solver, solve_problem
from fairspan.solvers.solve import select_solver, solve_reduction, with_unrestricted_errors
from fairspan.solvers.solver import Solver
from fairspan.solvers.variance_dimension import keeps_variance, variance_not_kept
from fairspan.typing import FloatArray, RandomSource

# Up to this many groups, tied components have the same group variances.
_UNIQUE_UP_TO_GROUPS = 2


def solve_nested(
    family: ProblemFamily,
    solver: Solver | Auto,
    n_components: int | float,
    tol: float,
    random_state: RandomSource = None,
) -> tuple[Reduction, Certificate]:
    """Compute nested components one at a time, with a certificate for each step and each prefix.

    Parameters
    ----------
    family : ProblemFamily
    solver : Solver or Auto
    n_components : int or float
        d, or the fraction of every group's variance to keep with as few components as possible.
    tol : float
    random_state : int, Generator, RandomState or None

    Returns
    -------
    Reduction
        The joint problem of all components, to which the certificate refers.
    Certificate
        Of all components as a joint solution, with the certificate of each step (a problem of one
        component) in `steps` and those of the first 1, 2, ... components in `prefixes`.

    Raises
    ------
    IncompatibleParameters
        The solver or restriction does not support the problem, or no number of components keeps the
        requested variance.
    """
    prefixes = _nested_prefixes(family, solver, tol, random_state)
    if isinstance(n_components, float):
        certificates = _prefixes_for_variance(family, prefixes, n_components)
    else:
        # Checks that the solver supports the joint problem; each step checks its own.
        select_solver(family, family.reduction_at(n_components), solver)
        certificates = list(islice(prefixes, n_components))
    # The steps of a prefix are the first ones of the last certificate: do not store them twice.
    *shorter, last = certificates
    certificate = replace(last, prefixes=tuple(replace(prefix, steps=()) for prefix in shorter))
    return family.reduction_at(len(certificates)), certificate


def _prefixes_for_variance(
    family: ProblemFamily, prefixes: Iterator[Certificate], min_variance_kept: float
) -> list[Certificate]:
    """Return the certificates of the first 1, 2, ... components, until every group keeps enough.

    Raises
    ------
    IncompatibleParameters
        As many components as possible keep too little.
    """
    certificates: list[Certificate] = []
    for prefix in islice(prefixes, family.max_components):
        certificates.append(prefix)
        if keeps_variance(family, prefix, min_variance_kept):
            return certificates
    raise variance_not_kept(family, min_variance_kept, certificates)


def _nested_prefixes(
    family: ProblemFamily, solver: Solver | Auto, tol: float, random_state: RandomSource
) -> Iterator[Certificate]:
    """Yield the certificate of the first d components, with its steps, for d = 1, 2, ...

    Endless: the caller takes as many as it needs. The components of step d are orthogonal to those
    before it, and its problem is that of one component in their orthogonal complement.
    """
    first_problem = family.reduction_at(1)
    # Components are in all features, those of the problem without its restriction.
    n_features = family.template.n_features
    components = np.empty((0, n_features))
    steps: list[Certificate] = []
    n_eigenproblems = 0
    for d in count(1):
        deflated = deflate_reduction(first_problem, components.T)
        step_solver = choose_solver(solver, deflated.problem)
        step = solve_reduction(deflated, step_solver, tol, random_state, _solve_next_component)
        components = np.vstack([components, step.components])
        n_eigenproblems += step.n_eigenproblems
        prefix = step
        if d > 1:
            prefix = _evaluate_prefix(family.reduction_at(d), components, step)
            n_eigenproblems += 1
        # The certificate of a step reports the errors and losses of all components up to this one.
        figures = replace(
            step.figures,
            errors=prefix.errors,
            losses=prefix.losses,
            total_variance=prefix.total_variance,
        )
        steps.append(replace(step, figures=figures))
        point = TracePoint(n_eigenproblems, prefix.lower_bound, prefix.objective)
        run = replace(prefix.run, n_eigenproblems=n_eigenproblems, trace=(point,))
        yield replace(prefix, run=run, steps=tuple(steps))


def _evaluate_prefix(
    reduction: Reduction, components: FloatArray, step: Certificate
) -> Certificate:
    """Certificate of the (d, p) components as a joint solution of the d-dimensional problem.

    A nested fit finds one component at a time. Its first d components need not be the best for d
    dimensions; the gap of this certificate says by how much they may fall short.

    Parameters
    ----------
    reduction : Reduction
        The d-dimensional problem, in the coordinates that the restriction allows.
    components : (d, p) array
        Orthonormal rows, in the features.
    step : Certificate
        Certificate of the fit of component d alone. Its group weights prove the lower bound:
        weights prove one for any dimension, though these are rarely the best for d.
    """
    basis = components.T
    if reduction.axes is not None:
        # Coordinates along the directions that the restriction allows, in which the problem is.
        basis = reduction.axes.T @ basis
    # None means that the bound is computed from the weights. Without matrices no eigenvalue sum is
    # proven, so there is no bound.
    lower_bound = None if reduction.problem.second_moments.has_matrices else -np.inf
    certificate = evaluate_solution(
        reduction.problem, basis, Proof(step.weights), tol=step.tol, lower_bound=lower_bound
    )
    run = RunRecord(solver=step.solver, eigensolver=step.eigensolver)
    certificate = replace(certificate, components=components, run=run)
    # So far, errors and losses are those in the allowed directions.
    return with_unrestricted_errors(reduction, certificate)


def _solve_next_component(
    problem: Problem, solver: Solver, tol: float, random_state: RandomSource = None
) -> Certificate:
    """Compute one component; among tied solutions, choose the one with the largest pooled variance.

    The solver's choice among equally good components would be arbitrary, and with more than two
    groups later steps depend on it. Tied solutions are combinations of the tied eigenvectors of the
    mixture that proves the bound; the one with the largest pooled variance is used if it is as good
    as the solver's.
    """
    certificate = solve_problem(problem, solver, tol, random_state)
    if problem.n_groups <= _UNIQUE_UP_TO_GROUPS:
        return certificate
    # Ties are known only from all eigenvectors, and another component needs a proof to go with it.
    if not certificate.eigensolver.finds_all_eigenvectors or not certificate.proof:
        return certificate
    tied = problem.second_moments.leading(certificate.weights, 1).tied_vectors
    if not tied.shape[1]:
        return certificate
    compressed = problem.second_moments.compress(tied)
    pooled = np.tensordot(problem.proportions, compressed, axes=1)
    max_variance_component = tied @ np.linalg.eigh(pooled)[1][:, -1:]
    if problem.objective(max_variance_component) > certificate.objective + certificate.absolute_tol:
        return certificate
    return certify(
        problem,
        max_variance_component,
        certificate.proof,
        tol=tol,
        n_eigenproblems=certificate.n_eigenproblems,
        trace=certificate.trace,
        solver=certificate.solver,
    )
