"""Boxes of errors that shrink: their bound is below every subspace, also when tampered with."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from fairspan.certificates.boxes import BoxesProof, chords_of, first_box
from fairspan.moments.operators import DenseSecondMoments
from fairspan.problem.criteria import RobustErrorGap
from fairspan.solvers.many_groups.dual_newton import DualNewton
from fairspan.solvers.two_groups.boundary_search import BoundarySearch
from problems import errors_of, problem_of, random_basis, random_moments

SEEDS = pytest.mark.parametrize("seed", range(4))


def solved(seed, k=3):
    return *_solved(seed, k), np.random.default_rng([seed, k])


@cache
def _solved(seed, k):
    rng = np.random.default_rng(seed)
    p, d = int(rng.integers(3, 6)), int(rng.integers(1, 3))
    criterion = RobustErrorGap(float(rng.choice([0.3, 1.0, 5.0])), float(rng.choice([1.0, 30.0])))
    matrices = random_moments(rng, k, p)
    problem = problem_of(matrices, d, criterion, list(rng.dirichlet(np.full(k, 3.0))))
    return problem, DualNewton().solve(problem, 1e-9)


def bound_of(proof, problem, basis):
    errors = problem.errors(basis)
    gap, rounding = proof.gap(problem, basis, errors)
    return problem.criterion.value(errors, problem) - gap, rounding


def least_of_many(problem, rng, basis, n=1000):
    """Of random subspaces, half of them near the one that was found."""
    p, d = problem.n_features, problem.n_components
    least = problem.value(basis)
    for i in range(n):
        other = random_basis(rng, p, d)
        near = 10.0 ** rng.uniform(-6, 0)
        tried = other if i % 2 else np.linalg.qr(basis + near * other)[0]
        least = min(least, problem.value(tried))
    return least


@pytest.mark.long
@SEEDS
def test_the_first_box_holds_every_subspace(seed):
    problem, _, rng = solved(seed)
    low, high = first_box(problem)
    p, d = problem.n_features, problem.n_components
    matrices = problem.second_moments.matrices
    for _ in range(300):
        errors = errors_of(matrices, random_basis(rng, p, d))
        assert (low <= errors).all()
        assert (errors <= high).all()
    for group, matrix in enumerate(matrices):
        values = np.linalg.eigvalsh(matrix)
        assert low[group] == pytest.approx(max(values[: p - d].sum(), 0.0), abs=1e-10)
        assert high[group] == pytest.approx(values[d:].sum(), rel=1e-10)


def test_what_no_direction_reaches_is_in_the_box_of_errors():
    matrices = random_moments(np.random.default_rng(0), 3, 4)
    problem = problem_of(matrices, 2, RobustErrorGap())
    outside = np.array([0.5, 1.0, 2.0])
    beside = replace(problem, second_moments=DenseSecondMoments(matrices, outside))
    for inner, errors in zip(first_box(problem), first_box(beside), strict=True):
        np.testing.assert_allclose(errors, inner + outside)
    basis = np.eye(4)[:, :2]
    np.testing.assert_allclose(beside.errors(basis), problem.errors(basis) + outside)


@pytest.mark.parametrize("unit", [1.0, 1e-9])
@SEEDS
def test_chords_are_below_the_scores_and_meet_them_at_corners(seed, unit):
    problem, _, rng = solved(seed)
    criterion = replace(problem.criterion, radius=unit * problem.criterion.radius)
    matrices, shares = unit * problem.second_moments.matrices, list(problem.proportions)
    problem = problem_of(matrices, problem.n_components, criterion, shares)
    low, high = first_box(problem)
    for a, b in ((low, high), (low, (low + high) / 2), (high, high)):
        chords = chords_of(problem, a, b)
        size = problem.criterion.value(b, problem)
        for _ in range(200):
            errors = a + (b - a) * rng.uniform(size=len(a))
            below = chords.coefficients @ errors - chords.offsets
            assert (below <= problem.criterion.scores(errors, problem) + 1e-12 * size).all()
            corner = np.where(rng.uniform(size=len(a)) < 0.5, a, b)
            below = chords.coefficients @ corner - chords.offsets
            scores = problem.criterion.scores(corner, problem)
            np.testing.assert_allclose(below, scores, atol=1e-11 * size)


@pytest.mark.long
@SEEDS
@pytest.mark.parametrize("k", [3, 4])
def test_no_subspace_is_below_the_bound(seed, k):
    problem, solution, rng = solved(seed, k)
    assert isinstance(solution.proof, BoxesProof)
    basis = solution.components.T
    bound, rounding = bound_of(solution.proof, problem, basis)
    assert bound == pytest.approx(solution.lower_bound, rel=1e-12)
    assert 0 <= rounding <= 1e-9 * solution.objective
    assert bound <= least_of_many(problem, rng, basis)
    # The chords of the first box prove something, and shrinking it proves more.
    first, _ = bound_of(in_rounds(solution.proof, []), problem, basis)
    assert first <= bound + 1e-9 * solution.objective


@SEEDS
def test_the_bound_does_not_depend_on_the_subspace_it_is_told_at(seed):
    problem, solution, rng = solved(seed)
    other = random_basis(rng, problem.n_features, problem.n_components)
    here, _ = bound_of(solution.proof, problem, solution.components.T)
    there, _ = bound_of(solution.proof, problem, other)
    assert there == pytest.approx(here, rel=1e-11)


@SEEDS
def test_the_bound_of_the_first_box_is_the_sum_of_least_eigenvalues(seed):
    problem, solution, rng = solved(seed)
    chords = chords_of(problem, *first_box(problem))
    shares = rng.dirichlet(np.ones(len(chords.offsets)))
    mixture = np.tensordot(shares @ chords.coefficients, problem.second_moments.matrices, axes=1)
    least = np.linalg.eigvalsh(mixture)[: problem.n_features - problem.n_components].sum()
    for size in (1.0, 0.01, 100.0):
        proof = replace(in_rounds(solution.proof, []), multipliers=size * shares)
        bound, _ = bound_of(proof, problem, solution.components.T)
        assert bound == pytest.approx(least - shares @ chords.offsets, rel=1e-9)


def tampered(proof, rng):
    """Multipliers and levels that no search has found."""
    n = len(proof.multipliers)
    yield replace(proof, multipliers=rng.dirichlet(np.ones(n)))
    yield replace(proof, multipliers=100 * proof.multipliers)
    yield replace(proof, multipliers=proof.multipliers - 0.1)
    sides = proof.of_sides
    for changed in (
        3 * sides,
        -sides,
        sides + rng.dirichlet(np.ones(n), len(sides)),
        rng.exponential(10, sides.shape),
    ):
        yield replace(proof, of_sides=changed)
    yield replace(proof, signs=-proof.signs)
    for factor in (0.5, 0.99, 1.01, 2.0):
        yield replace(proof, levels=factor * proof.levels)
    rounds = list(range(len(proof.levels)))
    yield in_rounds(proof, rounds[::-1])
    yield in_rounds(proof, rounds * 2)


def in_rounds(proof, rounds):
    """The same proof with its rounds in another order."""
    ends = np.cumsum(proof.n_sides).astype(int)
    parts = [np.arange(ends[each] - int(proof.n_sides[each]), ends[each]) for each in rounds]
    sides = np.concatenate([np.empty(0, int), *parts])
    return replace(
        proof,
        levels=proof.levels[rounds],
        n_sides=proof.n_sides[rounds],
        groups=proof.groups[sides],
        signs=proof.signs[sides],
        of_sides=proof.of_sides[sides],
    )


@SEEDS
def test_tampering_proves_nothing_that_is_false(seed):
    problem, solution, rng = solved(seed)
    basis = solution.components.T
    least = least_of_many(problem, rng, basis)
    for proof in tampered(solution.proof, rng):
        assert bound_of(proof, problem, basis)[0] <= least * (1 + 1e-12)


@SEEDS
def test_the_bound_of_two_groups_is_below_the_exact_optimum(seed):
    rng = np.random.default_rng(seed)
    matrices = random_moments(rng, 2, 5)
    problem = problem_of(matrices, 2, RobustErrorGap(1.0, 20.0), [0.3, 0.7])
    exact = BoundarySearch().solve(problem, 1e-9)
    boxes = DualNewton().solve(problem, 1e-9)
    assert isinstance(boxes.proof, BoxesProof)
    for proof in (boxes.proof, *tampered(boxes.proof, rng)):
        assert bound_of(proof, problem, exact.components.T)[0] <= exact.objective * (1 + 1e-12)


def test_a_level_that_no_subspace_reaches_leaves_no_box():
    """Then the level itself is the bound: no subspace has a value that small."""
    problem, solution, _ = solved(0)
    basis, level = solution.components.T, 1e-3 * solution.lower_bound
    n = len(solution.proof.multipliers)
    groups = np.repeat(np.arange(problem.n_groups, dtype=float), 2)
    signs = np.tile([1.0, -1.0], problem.n_groups)
    sides = np.full((len(signs), n), 1e4)
    levels, n_sides = np.array([level]), np.array([float(len(signs))])
    even = np.full(n, 1 / n)
    proof = BoxesProof(solution.weights, even, levels, n_sides, groups, signs, sides)
    assert bound_of(proof, problem, basis)[0] == pytest.approx(level, rel=1e-9)
