"""Many groups in blocks of pieces, and eigenvalues that are tied."""

from dataclasses import dataclass, fields, replace

import numpy as np
import pytest

from case_selection import mark_most_slow, select_cases
from fairspan import DualNewton, ErrorGap, MinimaxError, MinimaxLoss, NashWelfare, TotalError
from fairspan.extending import AffinePieces, Blocks, Criterion
from fairspan.solvers.auto import solve_exactly
from fairspan.solvers.convex_programs import (
    SaddlePoint,
    minimize_on_simplex,
    solve_saddle_point,
)
from fairspan.solvers.local_descent import descend
from fairspan.solvers.many_groups import relaxation
from fairspan.solvers.many_groups.relaxation import Cluster, Relaxation
from fairspan.solvers.many_groups.searches import PrimalDualSearch
from internal.relaxations import solve_relaxation
from problems import (
    FloatArray,
    build_problem,
    independent_value,
    random_basis,
    random_moments,
    top_sum,
)


def pairwise(problem, penalty):
    rows = ErrorGap(penalty).pair_weights(problem)
    return AffinePieces(rows, np.zeros(len(rows)))


def gap_pieces(k):
    return AffinePieces(np.vstack([np.eye(k), -np.eye(k)]), np.zeros(2 * k), Blocks((0, k)))


def blocks_of(rng, n_blocks):
    sizes = rng.integers(1, 6, n_blocks)
    return Blocks((0, *np.cumsum(sizes)[:-1].tolist())), int(sizes.sum())


@pytest.mark.parametrize("k", [2, 3, 7])
def test_blocks_equal_the_pairs_at_any_errors(k):
    rng = np.random.default_rng(k)
    problem = build_problem(
        random_moments(rng, k, 5), 2, ErrorGap(0.8), list(rng.dirichlet([1] * k))
    )
    pieces = problem.pieces
    pairs = pairwise(problem, 0.8)
    assert len(pieces.offsets) == (2 if k == 2 else 2 * k)
    for _ in range(50):
        errors = rng.exponential(3.0, k)
        value = problem.proportions @ errors + 0.8 * np.ptp(errors)
        assert pieces.value(errors) == pytest.approx(value, rel=1e-12)
        assert pairs.value(errors) == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize("seed", range(8))
def test_blocks_and_pairs_have_the_same_bound(seed):
    rng = np.random.default_rng(seed)
    k = 3 + seed % 4
    p = 8
    penalty = [0.2, 5.0][seed % 2]
    problem = build_problem(random_moments(rng, k, p), 1 + seed % 5, ErrorGap(penalty))
    tolerance = 1e-9 * (1 + penalty) * problem.total_variance
    bounds = []
    for pieces in (problem.pieces, pairwise(problem, penalty)):
        relaxation = Relaxation(problem, pieces)
        relaxation.solve(tolerance)
        assert relaxation.gap <= tolerance
        bounds.append(relaxation.lower_bound)
        # Weights of this form are what proves it: w = q + penalty (u - v).
        weights = relaxation.weights
        assert weights.sum() == pytest.approx(1, abs=1e-12)
        assert np.abs(weights - problem.proportions).sum() <= 2 * penalty * (1 + 1e-12)
    assert bounds[0] == pytest.approx(bounds[1], abs=2 * tolerance)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_programs_over_several_simplices_agree_with_the_conic_solver(seed):
    import cvxpy

    rng = np.random.default_rng(seed)
    blocks, n = blocks_of(rng, 1 + seed % 3)
    factor = rng.standard_normal((n, 3))
    linear = rng.standard_normal(n)
    minimizer = minimize_on_simplex(factor, linear, blocks, ridge=0.1)
    np.testing.assert_allclose(blocks.sums(minimizer), 1.0, atol=1e-12)
    warm_minimizer = minimize_on_simplex(factor, linear, blocks, ridge=0.1, start=minimizer)
    np.testing.assert_allclose(warm_minimizer, minimizer, atol=1e-9)
    x = cvxpy.Variable(n)
    bent = cvxpy.sum_squares(factor.T @ x) / 2 + 0.05 * cvxpy.sum_squares(x)
    on_simplices = [x >= 0, blocks.indicator_matrix(n) @ x == 1]
    conic = cvxpy.Problem(cvxpy.Minimize(bent + linear @ x), on_simplices)
    conic.solve(cvxpy.CLARABEL)
    value = float(
        np.sum((factor.T @ minimizer) ** 2) / 2 + 0.05 * minimizer @ minimizer + linear @ minimizer
    )
    assert value == pytest.approx(conic.value, abs=1e-7)

    r = 4
    matrices = rng.standard_normal((n, r, r))
    matrices = matrices + matrices.transpose(0, 2, 1)
    center = blocks.normalize(rng.random(n))
    minimizer, _ = solve_saddle_point(linear, factor, 0.0, center, matrices, 2, blocks)
    mixed = sum(x[i] * matrices[i] for i in range(n))
    bent = cvxpy.sum_squares(factor.T @ (x - center)) / 2
    aim = linear @ x - bent - cvxpy.lambda_sum_largest(mixed, 2)
    conic = cvxpy.Problem(cvxpy.Maximize(aim), on_simplices)
    conic.solve(cvxpy.CLARABEL)
    step = factor.T @ (minimizer - center)
    top = top_sum(np.tensordot(minimizer, matrices, axes=1), 2)
    assert linear @ minimizer - step @ step / 2 - top == pytest.approx(conic.value, abs=1e-6)


@pytest.mark.parametrize("n", [40, 200])
def test_the_least_on_a_simplex_is_stationary_though_many_entries_leave(n):
    """No entry of the gradient g is below g.x at the minimum x."""
    rng = np.random.default_rng(2)
    for _ in range(40):
        factor = rng.standard_normal((n, 9))
        linear = 0.3 * rng.standard_normal(n)
        minimizer = minimize_on_simplex(factor, linear, start=np.full(n, 1 / n))
        slope = factor @ (minimizer @ factor) + linear
        assert minimizer.min() >= 0
        assert minimizer.sum() == pytest.approx(1)
        assert slope.min() >= slope @ minimizer - 1e-9


class SumOfTwoMaxima(Criterion):
    """A foreign criterion: twice the largest error, plus the largest of some others."""

    name = "sum_of_two_maxima"

    def value(self, errors, problem):
        return 2 * float(errors.max()) + float((3 * errors[:2]).max())

    def pieces(self, problem):
        rows = np.vstack([2 * np.eye(problem.n_groups), 3 * np.eye(problem.n_groups)[:2]])
        return AffinePieces(rows, np.zeros(len(rows)), Blocks((0, problem.n_groups)))


@pytest.mark.parametrize("seed", range(4))
def test_a_sum_of_maxima_without_a_formula_of_its_own_is_certified(seed):
    rng = np.random.default_rng(seed)
    problem = build_problem(random_moments(rng, 4, 7), 1 + seed, SumOfTwoMaxima())
    solution = solve_exactly(problem, 1e-9)
    mixture = np.tensordot(solution.weights, problem.second_moments.matrices, axes=1)
    bound = float(np.trace(mixture)) - top_sum(mixture, 1 + seed)
    slack = 1e-8 * problem.total_variance
    assert solution.lower_bound == pytest.approx(bound, abs=slack)
    errors = problem.errors(solution.components.T)
    assert solution.objective == pytest.approx(problem.criterion.value(errors, problem))
    weights = problem.criterion.dual_feasible_weights(solution.weights, problem)
    np.testing.assert_allclose(weights, solution.weights, atol=1e-7)
    for _ in range(30):
        value = problem.objective(random_basis(rng, 7, 1 + seed))
        assert value >= solution.lower_bound - slack


CRITERIA = (ErrorGap(0.5), MinimaxLoss(), MinimaxError(), NashWelfare())


@pytest.mark.parametrize("criterion", CRITERIA, ids=lambda criterion: criterion.name)
def test_fifty_groups_are_answered_honestly(criterion):
    rng = np.random.default_rng(1)
    matrices = random_moments(rng, 50, 12)
    problem = build_problem(matrices, 3, criterion, list(rng.dirichlet(np.full(50, 5.0))))
    solution = solve_exactly(problem, 1e-9)
    value = independent_value(problem, solution.components.T)
    assert solution.objective == pytest.approx(value, rel=1e-9)
    assert solution.lower_bound <= solution.objective + 1e-12 * abs(solution.objective)
    # The gap is what it says, and is small; not all subspaces of 50 groups reach the bound.
    closed = solution.gap <= solution.absolute_tol
    assert (solution.status == "optimal") == closed
    assert solution.gap <= 0.05 * max(solution.scale, 1e-300)
    assert solution.n_eigenproblems <= 600
    for _ in range(20):
        assert independent_value(problem, random_basis(rng, 12, 3)) >= solution.lower_bound


@pytest.mark.parametrize("n_uncounted", [0, 1])
def test_the_gap_alone_starts_where_its_weights_do_not_cancel(n_uncounted):
    rng = np.random.default_rng(3)
    problem = build_problem(random_moments(rng, 5 + n_uncounted, 8), 2, TotalError())
    gap = gap_pieces(5)
    nothing = np.zeros((len(gap.offsets), n_uncounted))
    gap = replace(gap, coefficients=np.hstack([gap.coefficients, nothing]))
    relaxation = Relaxation(problem, gap)
    relaxation.solve(0.0)
    # At weights that cancel the bound would stay at zero.
    assert relaxation.lower_bound > 0


@pytest.mark.long
@pytest.mark.sweep
@pytest.mark.parametrize("seed", select_cases(range(3), 3))
@pytest.mark.parametrize(
    "criterion", [MinimaxLoss(), ErrorGap(0.5)], ids=lambda criterion: criterion.name
)
def test_the_relaxation_of_hundreds_of_groups_is_solved_to_rounding(criterion, seed):
    # Newton's steps used to end damped, with the solution good to nine digits only.
    rng = np.random.default_rng(seed)
    problem = build_problem(random_moments(rng, 200, 12), 3, criterion)
    assert solve_relaxation(problem, 1e-11).n_eigenproblems <= 80


@pytest.mark.parametrize("unit", [2.0**-27, 2.0**27])
def test_the_gap_to_reach_is_in_the_units_of_the_errors(unit):
    matrices = random_moments(np.random.default_rng(0), 3, 4)
    searches = [
        PrimalDualSearch(build_problem(u * matrices, 2, ErrorGap(1.0)), 0.0) for u in (1.0, unit)
    ]
    for search in searches:
        search.descend_from(random_basis(np.random.default_rng(1), 4, 2))
    gap, rescaled_gap = (search.target_gap for search in searches)
    assert rescaled_gap == pytest.approx(unit * gap, rel=1e-6)
    assert 0 < gap < 1e-13 * searches[0].problem.total_variance


@dataclass(frozen=True)
class Game:
    """The function that `solve_saddle_point` maximizes."""

    slopes: FloatArray
    factor: FloatArray
    damping: float
    center: FloatArray
    matrices: FloatArray
    rank: int

    def solve(self):
        return solve_saddle_point(*(getattr(self, field.name) for field in fields(self)))

    def value(self, multipliers):
        step = multipliers - self.center
        bent = np.sum((step @ self.factor) ** 2) + self.damping * step @ step
        mixed = np.tensordot(multipliers, self.matrices, axes=1)
        return multipliers @ self.slopes - bent / 2 - top_sum(mixed, self.rank)


def program(seed, n=None):
    rng = np.random.default_rng(seed)
    n = n or int(rng.integers(1, 17))
    r = int(rng.integers(2, 8))
    matrices = rng.standard_normal((n, r, r))
    return Game(
        rng.standard_normal(n),
        np.sqrt(seed % 3) * rng.standard_normal((n, 3)),
        0.1 * (seed % 2),
        rng.dirichlet(np.ones(n)),
        matrices + matrices.transpose(0, 2, 1),
        int(rng.integers(1, r)),
    )


def test_a_panic_of_the_conic_solver_is_no_solution():
    # At this damping its code in Rust panics, which is no subclass of Exception.
    game = replace(program(0), damping=1e200)
    multipliers, shares = game.solve()
    assert np.isnan(multipliers).all()
    assert np.isnan(shares).all()


@pytest.mark.parametrize("p", [8, 160])
def test_a_search_without_the_conic_solver_returns_its_best_solution(monkeypatch, p):
    def return_nan(*arguments):
        return SaddlePoint(np.full(4, np.nan), np.full((6, 6), np.nan))

    problem = build_problem(tied_moments(4, p, 0), 2, MinimaxLoss())
    expected = DualNewton().solve(problem, 1e-9)
    monkeypatch.setattr(relaxation, "solve_saddle_point", return_nan)
    solution = DualNewton().solve(problem, 1e-9)
    assert solution.lower_bound <= expected.objective <= solution.objective * (1 + 1e-9)
    assert solution.gap <= 0.1 * solution.objective


# Of many multipliers few are looked at, until none of the others would raise the value.
@pytest.mark.parametrize("n", [None, 300])
@pytest.mark.parametrize("seed", range(12))
def test_the_program_is_solved_to_many_digits(seed, n):
    game = program(seed, n)
    multipliers, shares = game.solve()
    assert multipliers.min() >= 0
    assert multipliers.sum() == pytest.approx(1)
    # The other player's answer proves it.
    eigenvalues = np.linalg.eigvalsh(shares)
    assert eigenvalues.min() >= -1e-10
    assert eigenvalues.max() <= 1 + 1e-10
    assert np.trace(shares) == pytest.approx(game.rank, abs=1e-8)
    step = multipliers - game.center
    bend = game.factor @ (step @ game.factor) + game.damping * step
    gains = game.slopes - bend - np.tensordot(game.matrices, shares, axes=2)
    reached = gains @ multipliers + (multipliers - step / 2) @ bend
    assert gains.max() - gains @ multipliers <= 1e-8
    assert reached == pytest.approx(game.value(multipliers), abs=1e-8)


@pytest.mark.parametrize("scale", [1e-13, 1e13])
def test_the_program_scales_with_its_unit(scale):
    game = program(4)
    scaled = replace(
        game,
        slopes=scale * game.slopes,
        factor=np.sqrt(scale) * game.factor,
        damping=scale * game.damping,
        matrices=scale * game.matrices,
    )
    expected = game.value(game.solve()[0])
    assert scaled.value(scaled.solve()[0]) == pytest.approx(scale * expected, rel=1e-8)


def test_a_program_of_nothing_but_zeros_is_solved():
    even = np.full(2, 0.5)
    game = Game(np.zeros(2), np.zeros((2, 1)), 0.0, even, np.zeros((2, 3, 3)), 1)
    multipliers, shares = game.solve()
    assert multipliers.sum() == pytest.approx(1)
    assert np.trace(shares) == pytest.approx(1)


@pytest.mark.parametrize("block", [False, True])
@pytest.mark.parametrize(
    "criterion", [MinimaxLoss(), ErrorGap(0.5)], ids=lambda criterion: criterion.name
)
def test_the_model_is_right_to_second_order(criterion, block):
    rng = np.random.default_rng(0)
    problem = build_problem(random_moments(rng, 4, 9), 3, criterion)
    relaxation = Relaxation(problem, problem.pieces)
    m = len(problem.pieces.offsets)
    model = relaxation.evaluate_dual(rng.dirichlet(np.ones(m)))
    model = replace(model, cluster=Cluster(1, 5) if block else Cluster(3, 3))
    factor = model.curvature_factor(model.leading_occupations)
    other = problem.pieces.blocks.normalize(rng.dirichlet(np.ones(m)))
    direction = other - model.multipliers
    misses = []
    for length in (1e-2, 1e-3):
        moved_multipliers = model.multipliers + length * direction
        model_error = (
            model.model_value(moved_multipliers, factor)
            - relaxation.evaluate_dual(moved_multipliers).dual_value
        )
        misses.append(abs(model_error) / problem.total_variance)
    # A tenth of the step leaves a thousandth of the error.
    assert misses[1] <= 2e-3 * misses[0] + 1e-14


def tied_moments(k, p, seed):
    """Groups that vary along unrelated axes: the relaxed optimum has a tie."""
    rng = np.random.default_rng(seed)
    sizes = [np.exp(-np.arange(p) * rng.uniform(3, 8) / p) * rng.uniform(0.5, 2) for _ in range(k)]
    axes = [random_basis(rng, p, p) for _ in range(k)]
    return np.array([(q * s) @ q.T for q, s in zip(axes, sizes, strict=True)])


def test_a_tie_at_the_optimum_takes_few_eigenproblems():
    # Cutting planes alone took 80 to 340, and stalled at 1e-6 on some.
    for p, k, d in [(50, 8, 10), (60, 16, 10), (160, 16, 10)]:
        problem = build_problem(tied_moments(k, p, 0), d, MinimaxLoss())
        assert solve_relaxation(problem, 1e-11).n_eigenproblems <= 30


@pytest.mark.parametrize("unit", mark_most_slow([1e6, 1e-6], 2))
@pytest.mark.parametrize(
    ("seed", "k", "p", "d"), [(75, 10, 8, 2), (92, 10, 10, 1), (209, 10, 10, 5), (451, 6, 12, 1)]
)
def test_damped_steps_do_not_end_the_search_before_the_gap_is_closed(seed, k, p, d, unit):
    # One in thirty such problems was left with a gap of 1e-9 to 1e-8 while steps were damped.
    matrices = unit * random_moments(np.random.default_rng(seed), k, p)
    solve_relaxation(
        build_problem(matrices, d, MinimaxLoss() if seed % 2 else MinimaxError()), 1e-11
    )


def test_multipliers_that_cancel_are_no_start():
    # The least gap of three groups: even weights of all ordered pairs leave no mixture at all.
    solve_relaxation(build_problem(tied_moments(3, 8, 1), 2, ErrorGap(1e6)), 1e-9 * 1e6)


def test_descents_of_scores_that_bend_converge_like_newtons_method():
    # Without the bend of the logarithm they went on by constant shares, for up to 200 steps.
    for seed in range(5):
        rng = np.random.default_rng(seed)
        d = int(rng.integers(2, 8))
        problem = build_problem(tied_moments(4, 20, seed), d, NashWelfare())
        start = problem.second_moments.leading(1 / problem.second_moments.traces, d).vectors
        local, n_steps = descend(problem, start)
        assert n_steps <= 20
        weights = 1 / problem.second_moments.captured_variances(local.basis)
        # Stationary: the subspace is invariant under the mixture of its own slopes.
        mixture = np.tensordot(weights, problem.second_moments.matrices, axes=1)
        image = mixture @ local.basis
        outside = image - local.basis @ (local.basis.T @ image)
        assert np.linalg.norm(outside) <= 1e-6 * np.linalg.norm(image)
