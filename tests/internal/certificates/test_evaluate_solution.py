"""Evaluation of a subspace: objective, bound by its proof, rounding and status."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import brentq

from bank import TIE, TWO_LINES
from case_selection import mark_most_long, select_cases
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
from fairspan.certificates.error_rounding import target_gap
from fairspan.certificates.evaluate_solution import evaluate_solution, rotate_to_principal_axes
from fairspan.certificates.polygons import lower_bound_beyond_lines
from fairspan.certificates.proofs import (
    CovarianceDifferenceProof,
    MeanDistanceProof,
    Proof,
    SupportingLinesProof,
    positive_part,
)
from fairspan.extending import certify
from fairspan.moments.second_moments import DenseSecondMoments
from fairspan.problem.limits import CovarianceDifferenceLimit, MeanDistanceLimit
from fairspan.problem.problem import Embedding
from numpy_reference import projector_distance
from problems import (
    RELATIVE,
    build_problem,
    random_basis,
    random_moments,
)

EVEN = np.array([0.5, 0.5])


def line(angle):
    return np.array([[np.cos(angle)], [np.sin(angle)]])


def evaluate(problem, basis, weights, tolerance=1e-9):
    return evaluate_solution(problem, basis, Proof(np.array(weights)), tol=tolerance)


def two_lines(criterion):
    return build_problem(TWO_LINES.matrices, 1, criterion)


# The errors 3 s and 1 - s agree at s = 1/4, where the angle is 30 degrees.
BEST = line(np.pi / 6)


def test_the_optimum_has_status_optimal():
    evaluation = evaluate(two_lines(MinimaxError()), BEST, [0.25, 0.75])
    assert (evaluation.status, evaluation.scale) == ("optimal", evaluation.objective)
    assert evaluation.objective == pytest.approx(0.75, rel=1e-14)
    assert 0 <= evaluation.gap <= evaluation.resolution <= 1e-13


@pytest.mark.parametrize(
    ("basis", "weights"), [(line(0.5), [0.25, 0.75]), (BEST, [0.3, 0.7]), (line(0.5), [0.5, 0.5])]
)
def test_open_gap_of_a_poorer_subspace_or_poorer_weights(basis, weights):
    evaluation = evaluate(two_lines(MinimaxError()), basis, weights)
    assert evaluation.status == "open gap"
    assert evaluation.lower_bound <= 0.75 <= evaluation.objective
    assert evaluation.gap == pytest.approx(evaluation.objective - evaluation.lower_bound, rel=1e-12)
    # The bound by hand: the least eigenvalue of diag(3 w_1, w_2).
    assert evaluation.lower_bound == pytest.approx(min(3 * weights[0], weights[1]), rel=1e-12)


def test_the_tolerance_is_a_share_of_the_objective():
    problem = two_lines(MinimaxError())
    basis = line(np.pi / 6 + 1e-3)
    evaluation = evaluate(problem, basis, [0.25, 0.75])
    share = evaluation.gap / evaluation.objective
    assert evaluate(problem, basis, [0.25, 0.75], 1.001 * share).status == "optimal"
    assert evaluate(problem, basis, [0.25, 0.75], 0.999 * share).status == "open gap"
    # An axis of large numbers that every subspace keeps changes nothing.
    wide = [np.diag([1e8, *np.diag(matrix)]) for matrix in TWO_LINES.matrices]
    with_axis = np.zeros((3, 2))
    with_axis[0, 0] = 1.0
    with_axis[1:, 1:] = basis
    wider = build_problem(wide, 2, MinimaxError())
    assert evaluate(wider, with_axis, [0.25, 0.75]).gap == pytest.approx(evaluation.gap, rel=1e-9)
    assert evaluate(wider, with_axis, [0.25, 0.75], 0.999 * share).status == "open gap"


def with_a_large_column(seed, size):
    rng = np.random.default_rng(seed)
    factor = rng.standard_normal((5, 5))
    factor[0] *= size
    return factor @ factor.T


@pytest.mark.parametrize("seed", [0, 2, 3, 4])
@pytest.mark.parametrize(
    ("size", "status"), [(1.0, "optimal"), (1e3, "optimal"), (1e8, "unresolved")]
)
def test_unresolved_where_float64_cannot_tell(seed, size, status):
    """A basis of float64 numbers turns by an epsilon, which a large column makes a large error."""
    matrices = [with_a_large_column(matrix_seed, size) for matrix_seed in (seed, seed + 10)]
    problem = build_problem(matrices, 2, MinimaxError())
    solution = BoundarySearch().solve(problem, 1e-9)
    assert solution.status in ("optimal", status)
    basis = solution.components.T
    rng = np.random.default_rng(0)
    perturbed_basis = basis + 4 * np.finfo(np.float64).eps * rng.standard_normal(basis.shape)
    evaluation = evaluate(problem, perturbed_basis, solution.weights)
    assert evaluation.status == status
    assert (evaluation.gap > 1e-9 * evaluation.objective) == (status == "unresolved")
    assert evaluation.gap <= max(evaluation.resolution, 1e-9 * evaluation.objective)
    # That is far less than what a poorer subspace loses.
    assert evaluation.resolution <= 1e-6 * evaluation.objective
    poorer = np.linalg.qr(basis + 0.1 / size * random_basis(rng, 5, 2))[0]
    assert evaluate(problem, poorer, solution.weights).status == "open gap"


CRITERIA = (
    TotalError(),
    MinimaxLoss(),
    MinimaxError(),
    EqualError(),
    ErrorGap(2.0),
    Disparity(0.5),
    NashWelfare(),
    LeastVariance(),
    *RELATIVE,
)


@pytest.mark.parametrize("criterion", CRITERIA, ids=str)
@pytest.mark.parametrize("size", [1.0, 1e4])
def test_all_dimensions_leave_zero_by_structure(criterion, size):
    rng = np.random.default_rng(1)
    scales = np.array([size, 1, 1, 1])
    matrices = random_moments(rng, 2, 4) * np.outer(scales, scales)
    problem = build_problem(matrices, 4, criterion)
    weights = EVEN
    if isinstance(criterion, NashWelfare):
        weights = 1 / problem.second_moments.traces
    elif isinstance(criterion, LeastVariance):  # the group of the least variance decides
        weights = np.eye(2)[np.argmin(problem.second_moments.traces)]
    evaluation = evaluate(problem, random_basis(rng, 4, 4), weights)
    assert evaluation.status == "optimal"
    assert evaluation.gap <= evaluation.resolution


@pytest.mark.parametrize("d", [1, 2, 3])
def test_identical_groups_have_no_loss_by_structure(d):
    matrix = random_moments(np.random.default_rng(2), 1, 4)[0]
    problem = build_problem([matrix, matrix], d, MinimaxLoss())
    basis = np.linalg.eigh(matrix)[1][:, ::-1][:, :d]
    evaluation = evaluate(problem, basis, EVEN)
    assert evaluation.status == "optimal"
    assert evaluation.objective <= evaluation.resolution <= 1e-11
    # Another subspace has a loss.
    assert (
        evaluate(problem, random_basis(np.random.default_rng(0), 4, d), EVEN).status == "open gap"
    )


def test_equal_errors_must_be_equal():
    problem = two_lines(EqualError())
    # w = q + nu (1, -1): 3 w_1 = w_2 at nu = -1/4, where every subspace has the same w.e.
    weights = [0.25, 0.75]
    evaluation = evaluate(problem, BEST, weights)
    assert evaluation.status == "optimal"
    assert evaluation.objective == pytest.approx(0.75)
    assert evaluation.constraint_violation <= 1e-14
    # Less in total, but unequal: what that is worth counts against the bound.
    unequal = evaluate(problem, line(np.pi / 6 - 1e-4), weights)
    assert unequal.lower_bound < unequal.objective < 0.75
    assert unequal.constraint_violation == pytest.approx(np.sqrt(3) * 2 * 1e-4, rel=1e-3)
    assert unequal.status == "open gap"
    assert evaluate(problem, line(np.pi / 6 - 1e-4), weights, 1e-3).status == "optimal"


def test_the_other_criteria_do_not_look_at_equality():
    evaluation = evaluate(build_problem(TIE.matrices, 1, TotalError()), np.eye(3)[:, :1], EVEN)
    assert (evaluation.constraint_violation, evaluation.status) == (0, "optimal")


def test_gaps_of_restricted_problems_are_relative_to_the_free_errors():
    """Errors that no choice changes, here 1e14 of two means far apart, do not excuse a gap."""
    matrices = random_moments(np.random.default_rng(3), 2, 5)
    second = DenseSecondMoments(matrices, np.full(2, 1e14))
    free = build_problem(matrices, 2, MinimaxError())
    embedding = Embedding(free, fixed_errors=np.full(2, 1e14))
    problem = replace(free, second_moments=second, embedding=embedding)
    solution = BoundarySearch().solve(free, 1e-12)
    weights = solution.weights
    basis = solution.components.T
    evaluation = evaluate(problem, basis, weights, 0.05)
    assert evaluation.objective == pytest.approx(1e14)
    assert evaluation.scale <= solution.objective + 0.1
    # Nor does it raise the rounding that a search may stop at.
    smallest_gaps = [
        target_gap(either_problem, either_problem.errors(basis), 0.0)
        for either_problem in (free, problem)
    ]
    assert smallest_gaps[1] == pytest.approx(smallest_gaps[0], rel=0.1)
    worse = np.linalg.qr(basis + 0.5 * random_basis(np.random.default_rng(0), 5, 2))[0]
    worse_evaluation = evaluate(problem, worse, weights, 1e-3)
    assert worse_evaluation.gap > 0.01 * solution.objective
    assert worse_evaluation.status == "open gap"


def test_gaps_of_shares_of_variance_within_a_restriction_are_relative_to_the_free_errors():
    matrices = random_moments(np.random.default_rng(3), 2, 5)
    second = DenseSecondMoments(matrices, np.full(2, 1e3))
    free = build_problem(matrices, 2, MinimaxError(relative=True))
    unembedded = replace(free, second_moments=second)
    problem = replace(unembedded, embedding=Embedding(unembedded, fixed_errors=np.full(2, 1e3)))
    basis = random_basis(np.random.default_rng(0), 5, 2)
    traces, captured = (
        np.einsum("gii->g", group_matrices)
        for group_matrices in (matrices, basis.T @ matrices @ basis)
    )
    evaluation = evaluate(problem, basis, EVEN / (traces + 1e3))
    assert evaluation.scale == pytest.approx(((traces - captured) / (traces + 1e3)).max(), rel=1e-9)


def with_unit(criterion, unit):
    """A radius is in squared units of the rows."""
    if not isinstance(criterion, RobustErrorGap):
        return criterion
    return RobustErrorGap(0.5, {"group 0": 0.2 * unit, "group 1": 0.3 * unit})


@pytest.mark.parametrize("criterion", [*CRITERIA, RobustErrorGap(0.5, 5.0)], ids=str)
@pytest.mark.parametrize("factor", [2.0**-60, 2.0**60])
def test_the_unit_of_the_rows_does_not_change_the_verdict(criterion, factor):
    matrices = random_moments(np.random.default_rng(6), 2, 5)
    basis = random_basis(np.random.default_rng(7), 5, 2)
    one, other = (
        evaluate(build_problem(unit * matrices, 2, with_unit(criterion, unit)), basis, [0.4, 0.6])
        for unit in (1.0, factor)
    )
    unit = 1.0 if isinstance(criterion, NashWelfare) or criterion in RELATIVE else factor
    assert other.gap == pytest.approx(unit * one.gap, rel=1e-9)
    assert other.resolution == pytest.approx(unit * one.resolution, rel=1e-6)
    assert other.scale == pytest.approx(unit * one.scale, rel=1e-12)
    assert other.status == one.status == "open gap"


def test_a_solution_reports_its_evaluation_rows():
    problem = two_lines(MinimaxError())
    settings = {"tol": 1e-6, "n_eigenproblems": 3, "trace": [], "solver": "none"}
    solution = certify(problem, BEST, np.array([0.25, 0.75]), **settings)
    evaluation = evaluate(problem, BEST, [0.25, 0.75], 1e-6)
    claims = solution.objective, solution.scale, solution.absolute_tol
    assert claims == pytest.approx((evaluation.objective, 0.75, 0.75e-6), rel=1e-14)
    assert (solution.status, solution.proof.weights.tolist()) == (evaluation.status, [0.25, 0.75])
    assert solution.relative_gap <= 1e-14


@pytest.mark.parametrize("criterion", CRITERIA, ids=str)
def test_a_goal_is_within_the_tolerance(criterion):
    """A search that reaches it is called optimal, and it is no further than rounding."""
    problem = build_problem(random_moments(np.random.default_rng(8), 2, 5), 2, criterion)
    basis = random_basis(np.random.default_rng(9), 5, 2)
    errors = problem.errors(basis)
    evaluation = evaluate(problem, basis, EVEN)
    for tolerance in (1e-2, 1e-9):
        assert 0 < target_gap(problem, errors, tolerance) <= tolerance * evaluation.scale
    assert 0 < target_gap(problem, errors, 0.0) <= evaluation.resolution


def test_weights_that_nearly_cancel_make_much_of_rounding():
    problem = two_lines(EqualError())
    plain, canceling, thrice = (
        evaluate(problem, BEST, weights).resolution
        for weights in ([0.5, 0.5], [1000.5, -999.5], [1.5, 1.5])
    )
    assert 100 * plain < canceling < 10_000 * plain
    # Weights count by their shares.
    assert plain / 2 < thrice < 2 * plain


@pytest.mark.parametrize("seed", range(20))
def test_an_ordered_basis_is_orthonormal_to_a_rounding_or_two(seed):
    """Two products leave about ten roundings, which matter where the error is tiny."""
    rng = np.random.default_rng(seed)
    p = 30
    d = int(rng.integers(1, 30))
    rows = rng.standard_normal((2, 60, p)) * np.geomspace(10, 0.01, p)
    problem = build_problem(
        [group_rows.T @ group_rows / 60 for group_rows in rows], d, TotalError()
    )
    basis = np.linalg.qr(rng.standard_normal((p, d)))[0]
    ordered = rotate_to_principal_axes(problem, basis)
    assert np.abs(ordered.T @ ordered - np.eye(d)).max() <= 4 * np.finfo(np.float64).eps
    assert projector_distance(ordered.T, basis.T) <= 1e-13
    # Also where the basis was not quite orthonormal.
    rotated = rotate_to_principal_axes(problem, basis * (1 + 1e-10 * rng.random(d)))
    assert np.abs(rotated.T @ rotated - np.eye(d)).max() <= 4 * np.finfo(np.float64).eps


CRITERIA_OF_TWO_GROUPS = (
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
CRITERIA_OF_THREE_GROUPS = tuple(
    criterion for criterion in CRITERIA_OF_TWO_GROUPS if not isinstance(criterion, Disparity)
)
GROUPS_AND_CRITERIA = [(2, criterion) for criterion in CRITERIA_OF_TWO_GROUPS] + [
    (3, criterion) for criterion in CRITERIA_OF_THREE_GROUPS
]
SEEDS = pytest.mark.parametrize("seed", mark_most_long(range(3), 3))


def compute_bound(proof, problem, basis):
    """Return the bound, value minus gap, and the rounding of the gap."""
    errors = problem.errors(basis)
    gap, rounding = proof.gap(problem, basis, errors)
    return problem.criterion.value(errors, problem) - gap, rounding


def draw_problem(seed, k, criterion):
    rng = np.random.default_rng(seed)
    p = int(rng.integers(2, 7))
    matrices = random_moments(rng, k, p)
    d = int(rng.integers(1, p))
    return build_problem(matrices, d, criterion, list(rng.dirichlet(np.full(k, 3.0)))), rng


def random_minimum(problem, rng, n=150):
    p = problem.n_features
    d = problem.n_components
    return min(problem.objective(random_basis(rng, p, d)) for _ in range(n))


@SEEDS
@pytest.mark.parametrize(("k", "criterion"), GROUPS_AND_CRITERIA, ids=str)
def test_no_subspace_is_below_what_any_weights_prove(k, criterion, seed):
    problem, rng = draw_problem(seed, k, criterion)
    smallest = random_minimum(problem, rng)
    mixture = rng.dirichlet(np.ones(k))
    # Such as a solver gives, and such as no solver should.
    false_weights = [
        mixture,
        7 * mixture,
        mixture + rng.standard_normal(k),
        -mixture,
        np.eye(k)[0],
        np.zeros(k),
    ]
    for weights in false_weights:
        basis = random_basis(rng, problem.n_features, problem.n_components)
        bound, rounding = compute_bound(Proof(weights), problem, basis)
        assert bound <= smallest
        if not np.isfinite(bound):
            # The logarithm where a weight is zero.
            assert isinstance(criterion, NashWelfare)
            continue
        assert 0 <= rounding <= 1e-11 * max(1.0, problem.total_variance)


@SEEDS
@pytest.mark.parametrize(
    ("k", "criterion"),
    [case for case in GROUPS_AND_CRITERIA if not isinstance(case[1], NashWelfare | RobustErrorGap)],
    ids=str,
)
def test_the_bound_does_not_depend_on_the_subspace_at_which_it_is_computed(k, criterion, seed):
    problem, rng = draw_problem(seed, k, criterion)
    weights = rng.dirichlet(np.ones(k))
    bases = [random_basis(rng, problem.n_features, problem.n_components) for _ in range(20)]
    bounds = [compute_bound(Proof(weights), problem, basis)[0] for basis in bases]
    np.testing.assert_allclose(bounds, bounds[0], atol=1e-12 * problem.total_variance)


@pytest.mark.long
@SEEDS
def test_equal_errors_are_bounded_where_they_are_equal(seed):
    """Subspaces on a path between unequal ones of either sign meet equality."""
    rng = np.random.default_rng(seed)
    matrices = random_moments(rng, 2, 5)
    matrices[1] *= np.trace(matrices[0]) / np.trace(matrices[1])
    problem = build_problem(matrices, 2, EqualError(), [0.3, 0.7])

    def interpolate(share, ends):
        return np.linalg.qr((1 - share) * ends[0] + share * ends[1])[0]

    def error_difference(share, ends):
        return float(np.subtract(*problem.errors(interpolate(share, ends))))

    paths = [(random_basis(rng, 5, 2), random_basis(rng, 5, 2)) for _ in range(100)]
    paths = [ends for ends in paths if error_difference(0, ends) * error_difference(1, ends) < 0]
    equal = [
        interpolate(brentq(error_difference, 0, 1, (ends,), xtol=1e-15), ends) for ends in paths
    ]
    assert len(equal) >= 10
    differences = [np.subtract(*problem.errors(basis)) for basis in equal]
    assert np.abs(differences).max() <= 1e-10 * problem.total_variance
    for _ in range(20):
        nu = rng.uniform(-0.5, 0.5)
        proof = Proof(problem.proportions + nu * np.array([1.0, -1.0]))
        for basis in equal:
            gap_there, _ = proof.gap(problem, basis, problem.errors(basis))
            assert gap_there >= -1e-9 * problem.total_variance
    # Weights that cancel prove nothing by their sum, and are replaced.
    for weights in ([1.0, -1.0], [-1.0, 0.5]):
        assert Proof(np.array(weights)).gap(problem, equal[0], problem.errors(equal[0]))[0] >= 0


@pytest.mark.sweep
@pytest.mark.parametrize("seed", select_cases(range(6), 3))
@pytest.mark.parametrize("penalty", [0.2, 1.0, 10.0])
def test_no_subspace_is_below_the_bound_of_supporting_lines(seed, penalty):
    rng = np.random.default_rng(seed)
    matrices = random_moments(rng, 2, 4)
    problem = build_problem(matrices, 2, RobustErrorGap(penalty, 20.0), [0.3, 0.7])
    solution = BoundarySearch().solve(problem, 1e-9)
    assert isinstance(solution.proof, SupportingLinesProof)
    smallest = random_minimum(problem, rng)
    basis = random_basis(rng, 4, 2)
    proven_bound, rounding = compute_bound(solution.proof, problem, basis)
    assert proven_bound == pytest.approx(solution.lower_bound, rel=1e-9)
    assert proven_bound <= min(smallest, solution.objective)
    assert 0 <= rounding <= 1e-9 * solution.objective
    # Fewer lines, other lines and longer ones prove less, and nothing that is false.
    lines = solution.proof.lines
    angles = rng.uniform(-np.pi / 4, 3 * np.pi / 4, 6)
    other_lines = np.column_stack([np.cos(angles), np.sin(angles)])
    for line_set in (
        lines[::2],
        other_lines,
        other_lines[:1],
        1e3 * lines,
        rng.standard_normal((5, 2)),
    ):
        proof = SupportingLinesProof(solution.proof.weights, np.array(line_set))
        bound, _ = compute_bound(proof, problem, basis)
        assert bound <= min(smallest, solution.objective) * (1 + 1e-12)
    longer, _ = compute_bound(replace(solution.proof, lines=1e3 * lines), problem, basis)
    assert longer == pytest.approx(proven_bound, rel=1e-8)


@pytest.mark.parametrize("seed", range(6))
def test_no_feasible_subspace_is_below_the_bound_under_a_limit_on_means(seed):
    rng = np.random.default_rng(seed)
    p = 5
    d = 2
    difference = 3 * rng.standard_normal(p)
    free = build_problem(random_moments(rng, 2, p), d, TotalError(), [0.3, 0.7])
    reached = np.linalg.norm(difference @ free.pooled_optimum.vectors)
    problem = replace(free, limit=MeanDistanceLimit(difference, reached / 2))
    solution = BoundarySearch().solve(problem, 1e-9)
    assert isinstance(solution.proof, MeanDistanceProof)
    within = random_allowed_bases(problem, rng)
    smallest = min(problem.objective(basis) for basis in within)
    assert solution.lower_bound <= min(smallest, solution.objective * (1 + 1e-12))
    proven_bound, _ = compute_bound(solution.proof, problem, within[0])
    assert proven_bound == pytest.approx(solution.lower_bound, rel=1e-10)
    for factor in (0.0, 0.5, 2.0, 1e3, -1.0):
        other = MeanDistanceProof(problem.proportions, factor * solution.proof.multiplier)
        bound, _ = compute_bound(other, problem, within[0])
        assert bound <= min(smallest, proven_bound) + 1e-12 * problem.total_variance


@pytest.mark.parametrize("seed", range(6))
def test_the_bound_of_a_limit_on_means_without_a_multiplier(seed):
    rng = np.random.default_rng(seed)
    problem = build_problem(random_moments(rng, 2, 5), 2, TotalError(), [0.3, 0.7])
    unit = np.eye(5)[0]
    problem = replace(problem, limit=MeanDistanceLimit(unit, 1e-4))
    worthless = MeanDistanceProof(problem.proportions, 0.0)
    pooled = np.tensordot(problem.proportions, problem.dense_moments.matrices, axes=1)
    inner = np.linalg.eigh(pooled[1:, 1:])[1][:, -2:]
    best = np.vstack([np.zeros(2), inner])
    bound, _ = compute_bound(worthless, problem, best)
    # The steepest turn that the limit allows, and any others.
    turns = [*rng.standard_normal((200, 2)), inner.T @ pooled[1:, 0]]
    for turn in turns:
        rotated_basis = np.linalg.qr(best + 1e-4 * np.outer(unit, turn / np.linalg.norm(turn)))[0]
        assert problem.limit.excess(rotated_basis) <= 1e-12
        assert bound <= problem.objective(rotated_basis) + 1e-13
    assert bound >= problem.objective(best) - 1e-2 * problem.total_variance


def random_allowed_bases(problem, rng, n=300):
    """Return random subspaces, rotated until they satisfy the limit."""
    p = problem.n_features
    d = problem.n_components
    bases = []
    while len(bases) < n:
        basis = random_basis(rng, p, d)
        if problem.limit.excess(basis) <= 0:
            bases.append(basis)
        elif isinstance(problem.limit, MeanDistanceLimit):
            unit = problem.limit.difference / np.linalg.norm(problem.limit.difference)
            share = rng.uniform()
            closer = np.linalg.qr(basis - share * np.outer(unit, unit @ basis))[0]
            if problem.limit.excess(closer) <= 0:
                bases.append(closer)
    return bases


@pytest.mark.parametrize("seed", range(6))
def test_no_feasible_subspace_is_below_the_bound_under_a_limit_on_covariances(seed):
    rng = np.random.default_rng(seed)
    p = 4
    d = 1 + seed % 2
    first, second = random_moments(rng, 2, p)
    difference = first - second
    free = build_problem([first, second], d, TotalError(), [0.3, 0.7])
    bases = [random_basis(rng, p, d) for _ in range(50)]
    norms = [np.abs(np.linalg.eigvalsh(basis.T @ difference @ basis)).max() for basis in bases]
    limit = CovarianceDifferenceLimit(difference, float(np.quantile(norms, 0.3)))
    problem = replace(free, limit=limit)
    smallest = min(map(problem.objective, random_allowed_bases(problem, rng, 200)))
    factors = rng.standard_normal((4, 2, p, p))
    multipliers = [np.zeros((2, p, p)), *(0.3 * f @ f.transpose(0, 2, 1) for f in factors[:3])]
    # What is not positive semidefinite, or not symmetric, is made so first.
    multipliers += [factors[3], -multipliers[1]]
    for multiplier in multipliers:
        proof = CovarianceDifferenceProof(problem.proportions, multiplier)
        bounds = [compute_bound(proof, problem, basis)[0] for basis in bases[:5]]
        np.testing.assert_allclose(bounds, bounds[0], atol=1e-11 * problem.total_variance)
        assert bounds[0] <= smallest


@pytest.mark.parametrize(
    ("matrix", "part"), [([[1.0, 2.0], [2.0, 1.0]], np.full((2, 2), 1.5)), (-np.eye(2), 0)]
)
def test_the_positive_part(matrix, part):
    np.testing.assert_allclose(positive_part(np.array(matrix)), part, atol=1e-14)


def test_lines_that_no_errors_meet_prove_nothing():
    """They leave no polygon, so they are wrong, and must not make any bound."""
    offsets = np.array([5.0, 0.1])
    assert lower_bound_beyond_lines(lambda e: e, np.eye(2), offsets, np.ones(2), 1e-6) == -np.inf


def test_the_excess_over_a_limit_counts_as_rounding():
    """The limit is V'DV = cos 2a at one angle; a large multiplier magnifies the excess over it."""
    difference = np.diag([1.0, -1.0, 0.0])
    angle = 0.5
    beyond = 1e-10
    large = 1e9
    free = build_problem([np.eye(3) + difference, np.eye(3)], 1, TotalError())
    problem = replace(free, limit=CovarianceDifferenceLimit(difference, np.cos(2 * angle) - beyond))
    basis = np.array([[np.cos(angle)], [np.sin(angle)], [0.0]])
    multipliers = np.zeros((2, 3, 3))
    multipliers[0, 0, 0] = large
    proof = CovarianceDifferenceProof(problem.proportions, multipliers)
    _, rounding = proof.gap(problem, basis, problem.errors(basis))
    assert rounding >= 0.99 * large * beyond


def test_optimal_needs_an_objective_that_is_known():
    second = np.array([np.diag([4.0, 1.0, 0.2]), np.diag([3.0, 1.5, 0.1])])
    problem = build_problem(second, 1, TotalError())
    basis = np.eye(3)[:, :1]
    # The means may be off by as much as the last two columns vary: 1.4 of errors of 1.4.
    unsure = DenseSecondMoments(second, offset_rounding_error=np.array([0.0, 0.9, 0.3]))
    evaluations = {
        is_known: evaluate_solution(
            replace(problem, second_moments=second_moments), basis, np.full(2, 0.5), tol=1e-9
        )
        for is_known, second_moments in ((True, problem.dense_moments), (False, unsure))
    }
    assert evaluations[False].gap == pytest.approx(0.0, abs=1e-12)
    assert evaluations[False].resolution > 1e-6 * evaluations[False].objective
    assert (evaluations[True].status, evaluations[False].status) == ("optimal", "unresolved")


@pytest.mark.parametrize(
    "criterion",
    [
        *(MinimaxLoss(), MinimaxError(), LeastVariance(), ErrorGap(0.7), NashWelfare()),
        *(pytest.param(criterion, marks=pytest.mark.slow) for criterion in RELATIVE),
    ],
    ids=str,
)
def test_the_proof_of_many_groups_is_the_bound_of_the_solution(criterion):
    for seed in range(2):
        problem, rng = draw_problem(seed, 4, criterion)
        solution = DualNewton().solve(problem, 1e-9)
        bound, _ = compute_bound(solution.proof, problem, solution.components.T)
        assert solution.lower_bound == pytest.approx(bound, rel=1e-12, abs=1e-12)
        assert bound <= random_minimum(problem, rng)
