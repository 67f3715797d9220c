"""When an answer is called optimal, by cases made by hand."""

from dataclasses import replace

import numpy as np
import pytest

from bank import INTEGRALITY_GAP, TIE, TWO_LINES
from by_hand import projector_distance
from fairspan import (
    BoundarySearch,
    Disparity,
    EqualError,
    ErrorGap,
    FairPCA,
    LeastVariance,
    MeanParity,
    MinimaxError,
    MinimaxLoss,
    NashWelfare,
    RobustErrorGap,
    TotalError,
    verify,
)
from fairspan.certificates.optimality import by_pooled_variance, goal, judged
from fairspan.certificates.proof import Proof
from fairspan.errors import Incompatible
from fairspan.extending import certified
from fairspan.moments.operators import DenseSecondMoments
from problems import RELATIVE, independent_value, problem_of, random_basis, random_moments

EVEN = np.array([0.5, 0.5])


def line(angle):
    return np.array([[np.cos(angle)], [np.sin(angle)]])


def judge(problem, basis, weights, tolerance=1e-9):
    return judged(problem, basis, Proof(np.array(weights)), tolerance)


def two_lines(criterion):
    return problem_of(TWO_LINES.matrices, 1, criterion)


# The errors 3 s and 1 - s agree at s = 1/4, where the angle is 30 degrees.
BEST = line(np.pi / 6)


def test_optimal():
    found = judge(two_lines(MinimaxError()), BEST, [0.25, 0.75])
    assert found.status == "optimal"
    assert found.objective == pytest.approx(0.75, rel=1e-14)
    assert found.scale == found.objective
    assert 0 <= found.gap <= found.resolution <= 1e-13


@pytest.mark.parametrize(
    ("basis", "weights"), [(line(0.5), [0.25, 0.75]), (BEST, [0.3, 0.7]), (line(0.5), [0.5, 0.5])]
)
def test_open_gap_of_a_poorer_subspace_or_poorer_weights(basis, weights):
    found = judge(two_lines(MinimaxError()), basis, weights)
    assert found.status == "open gap"
    assert found.lower_bound <= 0.75 <= found.objective
    assert found.gap == pytest.approx(found.objective - found.lower_bound, rel=1e-12)
    # The bound by hand: the least eigenvalue of diag(3 w_1, w_2).
    assert found.lower_bound == pytest.approx(min(3 * weights[0], weights[1]), rel=1e-12)


def test_the_tolerance_is_a_share_of_the_objective():
    problem = two_lines(MinimaxError())
    basis = line(np.pi / 6 + 1e-3)
    found = judge(problem, basis, [0.25, 0.75])
    share = found.gap / found.objective
    assert judge(problem, basis, [0.25, 0.75], 1.001 * share).status == "optimal"
    assert judge(problem, basis, [0.25, 0.75], 0.999 * share).status == "open gap"
    # An axis of large numbers that every subspace keeps changes nothing.
    wide = [np.diag([1e8, *np.diag(each)]) for each in TWO_LINES.matrices]
    with_axis = np.zeros((3, 2))
    with_axis[0, 0], with_axis[1:, 1:] = 1.0, basis
    wider = problem_of(wide, 2, MinimaxError())
    assert judge(wider, with_axis, [0.25, 0.75]).gap == pytest.approx(found.gap, rel=1e-9)
    assert judge(wider, with_axis, [0.25, 0.75], 0.999 * share).status == "open gap"


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
    matrices = [with_a_large_column(each, size) for each in (seed, seed + 10)]
    problem = problem_of(matrices, 2, MinimaxError())
    solution = BoundarySearch().solve(problem, 1e-9)
    assert solution.status in ("optimal", status)
    basis, rng = solution.components.T, np.random.default_rng(0)
    turned = basis + 4 * np.finfo(np.float64).eps * rng.standard_normal(basis.shape)
    found = judge(problem, turned, solution.weights)
    assert found.status == status
    assert (found.gap > 1e-9 * found.objective) == (status == "unresolved")
    assert found.gap <= max(found.resolution, 1e-9 * found.objective)
    # That is far less than what a poorer subspace loses.
    assert found.resolution <= 1e-6 * found.objective
    poorer = np.linalg.qr(basis + 0.1 / size * random_basis(rng, 5, 2))[0]
    assert judge(problem, poorer, solution.weights).status == "open gap"


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
    problem = problem_of(matrices, 4, criterion)
    weights = EVEN
    if isinstance(criterion, NashWelfare):
        weights = 1 / problem.second_moments.traces
    elif isinstance(criterion, LeastVariance):  # the group of the least variance decides
        weights = np.eye(2)[np.argmin(problem.second_moments.traces)]
    found = judge(problem, random_basis(rng, 4, 4), weights)
    assert found.status == "optimal"
    assert found.gap <= found.resolution


@pytest.mark.parametrize("d", [1, 2, 3])
def test_identical_groups_have_no_loss_by_structure(d):
    matrix = random_moments(np.random.default_rng(2), 1, 4)[0]
    problem = problem_of([matrix, matrix], d, MinimaxLoss())
    basis = np.linalg.eigh(matrix)[1][:, ::-1][:, :d]
    found = judge(problem, basis, EVEN)
    assert found.status == "optimal"
    assert found.objective <= found.resolution <= 1e-11
    # Another subspace has a loss.
    assert judge(problem, random_basis(np.random.default_rng(0), 4, d), EVEN).status == "open gap"


def test_equal_errors_must_be_equal():
    problem = two_lines(EqualError())
    # w = q + nu (1, -1): 3 w_1 = w_2 at nu = -1/4, where every subspace has the same w.e.
    weights = [0.25, 0.75]
    found = judge(problem, BEST, weights)
    assert found.status == "optimal"
    assert found.objective == pytest.approx(0.75)
    assert found.violation <= 1e-14
    # Less in total, but unequal: what that is worth counts against the bound.
    unequal = judge(problem, line(np.pi / 6 - 1e-4), weights)
    assert unequal.objective < 0.75
    assert unequal.lower_bound < unequal.objective
    assert unequal.violation == pytest.approx(np.sqrt(3) * 2 * 1e-4, rel=1e-3)
    assert unequal.status == "open gap"
    assert judge(problem, line(np.pi / 6 - 1e-4), weights, 1e-3).status == "optimal"


def test_the_other_criteria_do_not_look_at_equality():
    found = judge(problem_of(TIE.matrices, 1, TotalError()), np.eye(3)[:, :1], EVEN)
    assert found.violation == 0
    assert found.status == "optimal"


def test_a_restricted_problem_is_compared_with_what_is_left_to_choose():
    """What no choice changes, here 1e14 of two means far apart, is no excuse for a gap."""
    matrices = random_moments(np.random.default_rng(3), 2, 5)
    second = DenseSecondMoments(matrices, np.full(2, 1e14))
    free = problem_of(matrices, 2, MinimaxError())
    problem = replace(free, second_moments=second, unrestricted=free, fixed=np.full(2, 1e14))
    solution = BoundarySearch().solve(free, 1e-12)
    weights, basis = solution.weights, solution.components.T
    found = judge(problem, basis, weights, 0.05)
    assert found.objective == pytest.approx(1e14)
    assert found.scale <= solution.objective + 0.1
    # Nor does it raise the rounding that a search may stop at.
    least = [goal(each, each.errors(basis), 0.0) for each in (free, problem)]
    assert least[1] == pytest.approx(least[0], rel=0.1)
    worse = np.linalg.qr(basis + 0.5 * random_basis(np.random.default_rng(0), 5, 2))[0]
    missed = judge(problem, worse, weights, 1e-3)
    assert missed.gap > 0.01 * solution.objective
    assert missed.status == "open gap"


def test_shares_of_variance_within_a_restriction_are_compared_with_what_is_left_to_choose():
    matrices = random_moments(np.random.default_rng(3), 2, 5)
    second = DenseSecondMoments(matrices, np.full(2, 1e3))
    free = problem_of(matrices, 2, MinimaxError(relative=True))
    whole = replace(free, second_moments=second)
    problem = replace(whole, unrestricted=whole, fixed=np.full(2, 1e3))
    basis = random_basis(np.random.default_rng(0), 5, 2)
    traces, kept = (np.einsum("gii->g", each) for each in (matrices, basis.T @ matrices @ basis))
    found = judge(problem, basis, EVEN / (traces + 1e3))
    assert found.scale == pytest.approx(((traces - kept) / (traces + 1e3)).max(), rel=1e-9)


@pytest.mark.parametrize("apart", [1.0, 1e7])
@pytest.mark.parametrize("criterion", ["total_error", "minimax_error", "minimax_loss"])
def test_means_far_apart_do_not_enter_under_mean_parity(criterion, apart):
    rng = np.random.default_rng(4)
    X = rng.standard_normal((200, 4)) * [1, 2, 3, 1]
    groups = np.arange(200) % 2
    X[groups == 1, 0] += apart
    fair = FairPCA(2, criterion=criterion, restriction=MeanParity())
    solution = fair.fit(X, sensitive_features=groups).solution_
    # Three directions are left, of which two are kept; what is lost there is of the size of one.
    assert solution.scale <= 10
    if criterion != "minimax_loss":
        assert solution.tolerance == pytest.approx(1e-9 * solution.scale)
    assert solution.gap <= max(solution.tolerance, solution.resolution)
    assert solution.status in ("optimal", "unresolved")
    assert solution.status == "optimal" or apart > 1


def test_three_lines_beside_a_column_of_large_numbers():
    """With one column of 3e4, a third of the objective was once called optimal."""
    angles = np.deg2rad([0, 60, 120])
    directions = np.c_[np.cos(angles), np.sin(angles)]
    X = np.array([[b * 3e4, *(s * v)] for v in directions for s in (1, -1) for b in (1, -1)])
    groups = np.repeat([0, 1, 2], 4)
    fair = FairPCA(2).fit(X, sensitive_features=groups)
    solution = fair.solution_
    assert solution.objective == pytest.approx(0.75, rel=1e-6)
    # A soft projection loses half of each line, and no bound by weights can be above that.
    assert solution.lower_bound == pytest.approx(0.5, rel=1e-6)
    assert solution.status == "open gap"
    assert solution.scale == solution.objective


def test_equal_errors_out_of_reach_beside_large_numbers():
    first, second = np.diag([1e10, 1.0, 2.0]), np.diag([1.1e10, 3.0, 5.0])
    with pytest.raises(Incompatible, match=r"the least reachable gap is 2\."):
        BoundarySearch().solve(problem_of([first, second], 2, EqualError()), 1e-9)


def test_an_integrality_gap_stays_open():
    problem = problem_of(INTEGRALITY_GAP.matrices, 1, MinimaxError())
    angles = np.linspace(0, np.pi, 2001)
    best = min((line(a) for a in angles), key=lambda basis: independent_value(problem, basis))
    for weights in np.random.default_rng(0).dirichlet(np.ones(3), 50):
        found = judge(problem, best, weights)
        assert found.status == "open gap"
        assert found.lower_bound <= 9 / 4 + 1e-12


@pytest.mark.parametrize("criterion", [*CRITERIA, RobustErrorGap(0.5, 5.0)], ids=str)
@pytest.mark.parametrize("factor", [2.0**-60, 2.0**60])
def test_the_unit_of_the_rows_does_not_change_the_verdict(criterion, factor):
    matrices = random_moments(np.random.default_rng(6), 2, 5)
    basis = random_basis(np.random.default_rng(7), 5, 2)
    if isinstance(criterion, RobustErrorGap):
        radius = {"group 0": 0.2, "group 1": 0.3}
        here = RobustErrorGap(0.5, radius)
        there = RobustErrorGap(0.5, {label: factor * each for label, each in radius.items()})
    else:
        here = there = criterion
    weights = np.array([0.4, 0.6])
    one = judge(problem_of(matrices, 2, here), basis, weights)
    other = judge(problem_of(factor * matrices, 2, there), basis, weights)
    unit = 1.0 if isinstance(criterion, NashWelfare) or criterion in RELATIVE else factor
    assert other.gap == pytest.approx(unit * one.gap, rel=1e-9)
    assert other.resolution == pytest.approx(unit * one.resolution, rel=1e-6)
    assert other.scale == pytest.approx(unit * one.scale, rel=1e-12)
    assert other.status == one.status == "open gap"


def test_a_solution_says_what_it_was_judged_by():
    problem = two_lines(MinimaxError())
    solution = certified(
        problem,
        BEST,
        np.array([0.25, 0.75]),
        tol=1e-6,
        n_eigenproblems=3,
        trace=[],
        solver="none",
    )
    found = judge(problem, BEST, [0.25, 0.75], 1e-6)
    assert solution.objective == pytest.approx(found.objective, rel=1e-15)
    assert solution.scale == pytest.approx(0.75)
    assert solution.tolerance == pytest.approx(0.75e-6)
    assert solution.status == found.status
    assert solution.proof.weights.tolist() == [0.25, 0.75]
    assert solution.relative_gap <= 1e-14


@pytest.mark.parametrize("criterion", CRITERIA, ids=str)
def test_a_goal_is_within_what_is_asked(criterion):
    """A search that reaches it is called optimal, and it is no further than rounding."""
    problem = problem_of(random_moments(np.random.default_rng(8), 2, 5), 2, criterion)
    basis = random_basis(np.random.default_rng(9), 5, 2)
    errors = problem.errors(basis)
    found = judge(problem, basis, EVEN)
    for tolerance in (1e-2, 1e-9):
        assert 0 < goal(problem, errors, tolerance) <= tolerance * found.scale
    assert 0 < goal(problem, errors, 0.0) <= found.resolution


@pytest.mark.parametrize("restriction", [None, MeanParity()], ids=str)
@pytest.mark.parametrize("power", [4, 7, 9, 10, 11, 12, 13])
def test_a_gap_that_is_a_share_of_the_objective_is_never_optimal(power, restriction):
    """Noise alike in all directions, S = b I + A, makes errors large and leaves losses small."""
    rng = np.random.default_rng(power)
    axes = np.vstack([np.eye(5), -np.eye(5)]) * np.sqrt(5)
    spread, other = rng.standard_normal((2, 5, 5))
    noisy = np.linalg.cholesky(10.0**power * np.eye(5) + spread @ spread.T)
    rows = np.vstack([axes @ noisy.T, axes @ other + rng.standard_normal(5)])
    labels = np.repeat(["a", "b"], 10)
    fair = FairPCA(2, restriction=restriction).fit(rows, sensitive_features=labels)
    solution = fair.solution_
    assert solution.status in ("optimal", "unresolved")
    if solution.status == "optimal":
        told_from_zero = solution.objective > 2 * solution.resolution
        assert not told_from_zero or solution.gap <= 4e-5 * solution.objective


def test_weights_that_nearly_cancel_make_much_of_rounding():
    problem = two_lines(EqualError())
    plain = judge(problem, BEST, [0.5, 0.5]).resolution
    cancelling = judge(problem, BEST, [1000.5, -999.5]).resolution
    assert 100 * plain < cancelling < 10_000 * plain
    # Weights count by their shares.
    assert plain / 2 < judge(problem, BEST, [1.5, 1.5]).resolution < 2 * plain


@pytest.mark.parametrize("power", [-150, 150])
def test_nash_welfare_of_far_larger_features_is_moved_by_the_logarithm_of_their_unit(power):
    rng = np.random.default_rng(0)
    X, groups = rng.normal(size=(40, 4)) * [3, 2, 1, 1], ["a", "b"] * 20
    plain, far = (
        FairPCA(2, criterion="nash_welfare").fit(X * unit, sensitive_features=groups)
        for unit in (1.0, 2.0**power)
    )
    moved = -2 * power * np.log(2)
    for name in ("objective", "lower_bound"):
        expected = getattr(plain.solution_, name) + moved
        assert getattr(far.solution_, name) == pytest.approx(expected, rel=1e-9)
    assert verify(far, X * 2.0**power, groups).holds


@pytest.mark.parametrize("seed", range(20))
def test_an_ordered_basis_is_orthonormal_to_a_rounding_or_two(seed):
    """Ten roundings, which two products leave, would show beside hardly any error."""
    rng = np.random.default_rng(seed)
    p, d = 30, int(rng.integers(1, 30))
    rows = rng.standard_normal((2, 60, p)) * np.geomspace(10, 0.01, p)
    problem = problem_of([each.T @ each / 60 for each in rows], d, TotalError())
    basis = np.linalg.qr(rng.standard_normal((p, d)))[0]
    ordered = by_pooled_variance(problem, basis)
    assert np.abs(ordered.T @ ordered - np.eye(d)).max() <= 4 * np.finfo(np.float64).eps
    assert projector_distance(ordered.T, basis.T) <= 1e-13
    # Also where the basis was not quite orthonormal.
    mended = by_pooled_variance(problem, basis * (1 + 1e-10 * rng.random(d)))
    assert np.abs(mended.T @ mended - np.eye(d)).max() <= 4 * np.finfo(np.float64).eps
