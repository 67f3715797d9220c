"""What proves a bound: no subspace is below it, whatever the proof is made of."""

from dataclasses import replace

import numpy as np
import pytest

from fairspan import (
    BoundarySearch,
    Disparity,
    DualNewton,
    EqualError,
    ErrorGap,
    LeastVariance,
    MinimaxError,
    MinimaxLoss,
    NashWelfare,
    RobustErrorGap,
    TotalError,
)
from fairspan.certificates.proof import (
    CovariancesProof,
    LinesProof,
    MeansProof,
    Proof,
    positive_part,
)
from fairspan.certificates.supporting_polygon import least_beyond_lines
from fairspan.problem.problem import CovariancesWithin, MeansWithin
from fairspan.solvers.restrictions.parity import LimitedMeans
from problems import MINIMAX, RELATIVE, independent_value, problem_of, random_basis, random_moments
from sweeps import part_of

OF_TWO = (
    TotalError(),
    MinimaxLoss(),
    MinimaxError(),
    ErrorGap(0.0),
    ErrorGap(0.7),
    ErrorGap(20.0),
    Disparity(0.3),
    NashWelfare(),
    RobustErrorGap(0.7, 5.0),
    LeastVariance(),
    *RELATIVE,
)
OF_THREE = tuple(each for each in OF_TWO if not isinstance(each, Disparity))
BOTH = [(2, each) for each in OF_TWO] + [(3, each) for each in OF_THREE]
SEEDS = pytest.mark.parametrize("seed", part_of(range(3), 2))


def bound_of(proof, problem, basis):
    """The value less the gap, and what of the gap is room for rounding."""
    errors = problem.errors(basis)
    gap, rounding = proof.gap(problem, basis, errors)
    return problem.criterion.value(errors, problem) - gap, rounding


def some_problem(seed, k, criterion):
    rng = np.random.default_rng(seed)
    p = int(rng.integers(2, 7))
    matrices = random_moments(rng, k, p)
    d = int(rng.integers(1, p))
    return problem_of(matrices, d, criterion, list(rng.dirichlet(np.full(k, 3.0)))), rng


def least_of_many(problem, rng, n=1000):
    p, d = problem.n_features, problem.n_components
    return min(problem.value(random_basis(rng, p, d)) for _ in range(n))


@SEEDS
@pytest.mark.parametrize(("k", "criterion"), BOTH, ids=str)
def test_no_subspace_is_below_what_any_weights_prove(k, criterion, seed):
    problem, rng = some_problem(seed, k, criterion)
    least = least_of_many(problem, rng)
    some = rng.dirichlet(np.ones(k))
    # Such as a solver gives, and such as no solver should.
    tampered = [some, 7 * some, some + rng.standard_normal(k), -some, np.eye(k)[0], np.zeros(k)]
    for weights in tampered:
        basis = random_basis(rng, problem.n_features, problem.n_components)
        bound, rounding = bound_of(Proof(weights), problem, basis)
        assert bound <= least
        if not np.isfinite(bound):
            # The logarithm where a weight is zero.
            assert isinstance(criterion, NashWelfare)
            continue
        assert 0 <= rounding <= 1e-11 * max(1.0, problem.total_variance)


@SEEDS
@pytest.mark.parametrize(
    ("k", "criterion"),
    [each for each in BOTH if not isinstance(each[1], NashWelfare | RobustErrorGap)],
    ids=str,
)
def test_the_bound_does_not_depend_on_the_subspace_it_is_told_at(k, criterion, seed):
    problem, rng = some_problem(seed, k, criterion)
    weights = rng.dirichlet(np.ones(k))
    bases = [random_basis(rng, problem.n_features, problem.n_components) for _ in range(20)]
    bounds = [bound_of(Proof(weights), problem, each)[0] for each in bases]
    np.testing.assert_allclose(bounds, bounds[0], atol=1e-12 * problem.total_variance)


def best_angle(problem):
    """The least value over the directions of the plane, on a grid that is refined."""

    def scan(angles):
        bases = [np.array([[np.cos(a)], [np.sin(a)]]) for a in angles]
        values = [independent_value(problem, basis) for basis in bases]
        least = int(np.argmin(values))
        return angles[least], values[least]

    best, step = 0.0, np.pi
    for _ in range(4):
        best, value = scan(best + np.linspace(-step, step, 401))
        step /= 100
    return value


@pytest.mark.sweep
@pytest.mark.parametrize("seed", part_of(range(6), 3))
@pytest.mark.parametrize(
    "criterion",
    [*MINIMAX, ErrorGap(0.7), Disparity(0.3, "group 0"), TotalError()],
    ids=str,
)
def test_a_solvers_weights_prove_the_optimum_of_the_plane(criterion, seed):
    matrices = random_moments(np.random.default_rng(seed), 2, 2)
    problem = problem_of(matrices, 1, criterion, [0.3, 0.7])
    optimum, size = best_angle(problem), problem.total_variance
    solution = BoundarySearch().solve(problem, 1e-9)
    bound, _ = bound_of(solution.proof, problem, solution.components.T)
    assert bound <= optimum + 1e-13 * size
    assert bound == pytest.approx(optimum, abs=1e-8 * size)


@pytest.mark.long
@SEEDS
def test_equal_errors_are_bounded_where_they_are_equal(seed):
    """Subspaces on a path between unequal ones of either sign meet equality."""
    rng = np.random.default_rng(seed)
    matrices = random_moments(rng, 2, 5)
    matrices[1] *= np.trace(matrices[0]) / np.trace(matrices[1])
    problem = problem_of(matrices, 2, EqualError(), [0.3, 0.7])
    equal = []
    for _ in range(100):
        start, end = random_basis(rng, 5, 2), random_basis(rng, 5, 2)
        low, high = 0.0, 1.0

        def gap(share, start=start, end=end):
            basis = np.linalg.qr((1 - share) * start + share * end)[0]
            return basis, float(np.subtract(*problem.errors(basis)))

        if gap(low)[1] * gap(high)[1] > 0:
            continue
        sign = np.sign(gap(low)[1])
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if gap(middle)[1] * sign > 0 else (low, middle)
        basis, apart = gap(low)
        if abs(apart) <= 1e-10 * problem.total_variance:
            equal.append(basis)
    assert len(equal) >= 10
    for _ in range(20):
        nu = rng.uniform(-0.5, 0.5)
        proof = Proof(problem.proportions + nu * np.array([1.0, -1.0]))
        for basis in equal:
            gap_there, _ = proof.gap(problem, basis, problem.errors(basis))
            assert gap_there >= -1e-9 * problem.total_variance
    # Weights that cancel prove nothing by their sum, and are replaced.
    for weights in (np.array([1.0, -1.0]), np.array([-1.0, 0.5])):
        assert Proof(weights).gap(problem, equal[0], problem.errors(equal[0]))[0] >= 0


@pytest.mark.sweep
@pytest.mark.parametrize("seed", part_of(range(6), 3))
@pytest.mark.parametrize("penalty", [0.2, 1.0, 10.0])
def test_supporting_lines(seed, penalty):
    rng = np.random.default_rng(seed)
    matrices = random_moments(rng, 2, 4)
    problem = problem_of(matrices, 2, RobustErrorGap(penalty, 20.0), [0.3, 0.7])
    solution = BoundarySearch().solve(problem, 1e-9)
    assert isinstance(solution.proof, LinesProof)
    least = least_of_many(problem, rng)
    basis = random_basis(rng, 4, 2)
    proven, rounding = bound_of(solution.proof, problem, basis)
    assert proven == pytest.approx(solution.lower_bound, rel=1e-9)
    assert proven <= min(least, solution.objective)
    assert 0 <= rounding <= 1e-9 * solution.objective
    # Fewer lines, other lines and longer ones prove less, and nothing that is false.
    lines = solution.proof.lines
    angles = rng.uniform(-np.pi / 4, 3 * np.pi / 4, 6)
    others = np.column_stack([np.cos(angles), np.sin(angles)])
    for each in (lines[::2], others, others[:1], 1e3 * lines, rng.standard_normal((5, 2))):
        proof = LinesProof(solution.proof.weights, np.array(each))
        bound, _ = bound_of(proof, problem, basis)
        assert bound <= min(least, solution.objective) * (1 + 1e-12)
    longer, _ = bound_of(replace(solution.proof, lines=1e3 * lines), problem, basis)
    assert longer == pytest.approx(proven, rel=1e-8)


@pytest.mark.parametrize("seed", range(6))
def test_a_limit_on_means(seed):
    rng = np.random.default_rng(seed)
    p, d = 5, 2
    difference = 3 * rng.standard_normal(p)
    free = problem_of(random_moments(rng, 2, p), d, TotalError(), [0.3, 0.7])
    reached = np.linalg.norm(difference @ free.pooled_optimum.vectors)
    problem = replace(free, limit=MeansWithin(difference, reached / 2))
    solution = LimitedMeans().solve(problem, 1e-9)
    assert isinstance(solution.proof, MeansProof)
    within = bases_within(problem, rng)
    least = min(problem.value(each) for each in within)
    assert solution.lower_bound <= min(least, solution.objective * (1 + 1e-12))
    multiplier = solution.proof.multiplier
    proven, _ = bound_of(solution.proof, problem, within[0])
    assert proven == pytest.approx(solution.lower_bound, rel=1e-10)
    for other in (0.0, multiplier / 2, 2 * multiplier, 1e3 * multiplier, -multiplier):
        bound, _ = bound_of(MeansProof(problem.proportions, other), problem, within[0])
        assert bound <= min(least, proven) + 1e-12 * problem.total_variance


def bases_within(problem, rng, n=300):
    """Random subspaces, turned towards what the limit forbids least until they meet it."""
    p, d = problem.n_features, problem.n_components
    found = []
    while len(found) < n:
        basis = random_basis(rng, p, d)
        if problem.limit.exceeded(basis) <= 0:
            found.append(basis)
        elif isinstance(problem.limit, MeansWithin):
            unit = problem.limit.difference / np.linalg.norm(problem.limit.difference)
            share = rng.uniform()
            closer = np.linalg.qr(basis - share * np.outer(unit, unit @ basis))[0]
            if problem.limit.exceeded(closer) <= 0:
                found.append(closer)
    return found


@pytest.mark.parametrize("seed", range(6))
def test_a_limit_on_covariances(seed):
    rng = np.random.default_rng(seed)
    p, d = 4, 1 + seed % 2
    first, second = random_moments(rng, 2, p)
    difference = first - second
    free = problem_of([first, second], d, TotalError(), [0.3, 0.7])
    tried = [random_basis(rng, p, d) for _ in range(50)]
    norms = [np.abs(np.linalg.eigvalsh(each.T @ difference @ each)).max() for each in tried]
    limit = CovariancesWithin(difference, float(np.quantile(norms, 0.3)))
    problem = replace(free, limit=limit)
    least = min(map(problem.value, bases_within(problem, rng, 200)))
    factors = rng.standard_normal((4, 2, p, p))
    multipliers = [np.zeros((2, p, p)), *(0.3 * f @ f.transpose(0, 2, 1) for f in factors[:3])]
    # What is not positive semidefinite, or not symmetric, is made so first.
    multipliers += [factors[3], -multipliers[1]]
    for each in multipliers:
        proof = CovariancesProof(problem.proportions, each)
        bounds = [bound_of(proof, problem, basis)[0] for basis in tried[:5]]
        np.testing.assert_allclose(bounds, bounds[0], atol=1e-11 * problem.total_variance)
        assert bounds[0] <= least


def test_the_positive_part():
    matrix = np.array([[1.0, 2.0], [2.0, 1.0]])
    np.testing.assert_allclose(positive_part(matrix), np.full((2, 2), 1.5), atol=1e-14)
    np.testing.assert_allclose(positive_part(-np.eye(2)), 0, atol=1e-14)


@pytest.mark.parametrize("criterion", [*MINIMAX, ErrorGap(0.7), NashWelfare()], ids=str)
def test_the_proof_of_many_groups_is_the_bound_of_the_solution(criterion):
    for seed in range(5):
        problem, rng = some_problem(seed, 4, criterion)
        solution = DualNewton().solve(problem, 1e-9)
        bound, _ = bound_of(solution.proof, problem, solution.components.T)
        assert solution.lower_bound == pytest.approx(bound, rel=1e-12, abs=1e-12)
        assert bound <= least_of_many(problem, rng, 300)


def test_lines_that_no_errors_meet_prove_nothing():
    """They leave no polygon, so they are wrong, and must not make any bound."""
    lines, offsets = np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([5.0, 0.1])
    bound = least_beyond_lines(lambda errors: errors, lines, offsets, np.array([1.0, 1.0]), 1e-6)
    assert bound == -np.inf


def test_what_a_subspace_at_its_limit_exceeds_is_room_for_rounding():
    """Of V'DV = cos 2a at one angle; a large multiplier multiplies what is beyond the limit."""
    difference, angle, beyond, large = np.diag([1.0, -1.0, 0.0]), 0.5, 1e-10, 1e9
    free = problem_of([np.eye(3) + difference, np.eye(3)], 1, TotalError())
    problem = replace(free, limit=CovariancesWithin(difference, np.cos(2 * angle) - beyond))
    basis = np.array([[np.cos(angle)], [np.sin(angle)], [0.0]])
    multipliers = np.zeros((2, 3, 3))
    multipliers[0, 0, 0] = large
    proof = CovariancesProof(problem.proportions, multipliers)
    _, rounding = proof.gap(problem, basis, problem.errors(basis))
    assert rounding >= 0.99 * large * beyond
