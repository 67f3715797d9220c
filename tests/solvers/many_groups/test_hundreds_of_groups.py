"""Pieces in blocks, and many groups: the error gap as a sum of two maxima instead of pairs."""

from dataclasses import replace

import cvxpy
import numpy as np
import pytest

from fairspan.problem.criteria import ErrorGap, MinimaxError, MinimaxLoss, NashWelfare, TotalError
from fairspan.problem.pieces import Blocks, Pieces, pairwise_weights
from fairspan.problem.proof_formulas import PiecewiseProof
from fairspan.solvers.choose import Auto
from fairspan.solvers.many_groups.dual import Dual
from fairspan.solvers.many_groups.newton import PiecewiseSearch, Relaxation
from fairspan.solvers.programs import ModelProgram, least_on_simplex
from fairspan.solvers.published.samadi_et_al import Semidefinite
from problems import independent_value, problem_of, random_basis, random_moments, top_sum
from sweeps import part_of


def pairwise(problem, penalty):
    rows = pairwise_weights(problem.proportions, penalty)
    return Pieces(rows, np.zeros(len(rows)))


def blocks_of(rng, n_blocks):
    sizes = rng.integers(1, 6, n_blocks)
    return Blocks((0, *np.cumsum(sizes)[:-1].tolist())), int(sizes.sum())


@pytest.mark.parametrize("k", [2, 3, 7])
def test_blocks_equal_the_pairs_at_any_errors(k):
    rng = np.random.default_rng(k)
    problem = problem_of(random_moments(rng, k, 5), 2, ErrorGap(0.8), list(rng.dirichlet([1] * k)))
    pieces, pairs = problem.pieces, pairwise(problem, 0.8)
    assert len(pieces.offsets) == (2 if k == 2 else 2 * k)
    for _ in range(50):
        errors = rng.exponential(3.0, k)
        value = ErrorGap(0.8).value(errors, problem)
        assert pieces.value(errors) == pytest.approx(value, rel=1e-12)
        assert pairs.value(errors) == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize("seed", range(8))
def test_blocks_and_pairs_have_the_same_bound(seed):
    rng = np.random.default_rng(seed)
    k, p, penalty = 3 + seed % 4, 8, [0.2, 5.0][seed % 2]
    problem = problem_of(random_moments(rng, k, p), 1 + seed % 5, ErrorGap(penalty))
    tolerance = 1e-9 * (1 + penalty) * problem.total_variance
    bounds = []
    for pieces in (problem.pieces, pairwise(problem, penalty)):
        relaxation = Relaxation(Dual(problem, pieces))
        relaxation.run(tolerance)
        assert relaxation.gap <= tolerance
        bounds.append(relaxation.lower)
        # Weights of this form are what proves it: w = q + penalty (u - v).
        weights = relaxation.dual.weights(relaxation.multipliers)
        assert weights.sum() == pytest.approx(1, abs=1e-12)
        assert np.abs(weights - problem.proportions).sum() <= 2 * penalty * (1 + 1e-12)
    assert bounds[0] == pytest.approx(bounds[1], abs=2 * tolerance)


@pytest.mark.parametrize("seed", range(5))
def test_the_semidefinite_program_in_blocks(seed):
    rng = np.random.default_rng(seed)
    problem = problem_of(random_moments(rng, 3 + seed, 6), 2, ErrorGap(0.6))
    found, other = Semidefinite().solve(problem, 1e-9), Auto().solve(problem, 1e-9)
    slack = 1e-6 * problem.total_variance
    assert found.lower_bound == pytest.approx(other.lower_bound, abs=slack)
    assert found.objective >= other.lower_bound - slack


@pytest.mark.parametrize("seed", range(6))
def test_programs_over_several_simplices_agree_with_the_conic_solver(seed):
    rng = np.random.default_rng(seed)
    blocks, n = blocks_of(rng, 1 + seed % 3)
    factor, linear = rng.standard_normal((n, 3)), rng.standard_normal(n)
    found = least_on_simplex(factor, linear, blocks, added=0.1)
    np.testing.assert_allclose(blocks.sums(found), 1.0, atol=1e-12)
    again = least_on_simplex(factor, linear, blocks, added=0.1, start=found)
    np.testing.assert_allclose(again, found, atol=1e-9)
    x = cvxpy.Variable(n)
    bent = cvxpy.sum_squares(factor.T @ x) / 2 + 0.05 * cvxpy.sum_squares(x)
    on_simplices = [x >= 0, blocks.membership(n) @ x == 1]
    conic = cvxpy.Problem(cvxpy.Minimize(bent + linear @ x), on_simplices)
    conic.solve(cvxpy.CLARABEL)
    value = float(np.sum((factor.T @ found) ** 2) / 2 + 0.05 * found @ found + linear @ found)
    assert value == pytest.approx(conic.value, abs=1e-7)

    r = 4
    matrices = rng.standard_normal((n, r, r))
    matrices = matrices + matrices.transpose(0, 2, 1)
    center = blocks.normalised(rng.random(n))
    found, _ = ModelProgram(linear, factor, 0.0, center, matrices, 2, blocks).solve()
    mixed = sum(x[i] * matrices[i] for i in range(n))
    bent = cvxpy.sum_squares(factor.T @ (x - center)) / 2
    aim = linear @ x - bent - cvxpy.lambda_sum_largest(mixed, 2)
    conic = cvxpy.Problem(cvxpy.Maximize(aim), on_simplices)
    conic.solve(cvxpy.CLARABEL)
    step = factor.T @ (found - center)
    top = top_sum(np.tensordot(found, matrices, axes=1), 2)
    assert linear @ found - step @ step / 2 - top == pytest.approx(conic.value, abs=1e-6)


def test_the_least_on_a_simplex_is_stationary_though_many_entries_leave():
    """Where x is least, no entry of the gradient g lies below g.x."""
    rng = np.random.default_rng(2)
    for _ in range(150):
        factor, linear = rng.standard_normal((40, 9)), 0.3 * rng.standard_normal(40)
        found = least_on_simplex(factor, linear)
        slope = factor @ (found @ factor) + linear
        assert found.min() >= 0
        assert found.sum() == pytest.approx(1)
        assert slope.min() >= slope @ found - 1e-9


def test_a_program_of_hundreds_of_pieces_is_solved():
    rng = np.random.default_rng(0)
    n, r, rank = 300, 5, 2
    blocks = Blocks((0, 170))
    matrices = rng.standard_normal((n, r, r))
    matrices = matrices + matrices.transpose(0, 2, 1)
    slopes, factor = rng.standard_normal(n), 0.3 * rng.standard_normal((n, 4))
    center = blocks.normalised(rng.random(n))
    program = ModelProgram(slopes, factor, 0.01, center, matrices, rank, blocks)
    multipliers, shares = program.solve()
    np.testing.assert_allclose(blocks.sums(multipliers), 1.0, atol=1e-12)
    step = multipliers - center
    gains = slopes - factor @ (step @ factor) - 0.01 * step
    gains -= np.tensordot(matrices, shares, axes=2)
    # Nobody would gain more than those that have the weight.
    assert (blocks.largest(gains) <= blocks.sums(multipliers * gains) + 1e-8).all()


def test_multipliers_of_nothing_are_even():
    blocks = Blocks((0, 2))
    found = blocks.normalised(np.array([0.0, -1.0, 3.0, 1.0]))
    np.testing.assert_allclose(found, [0.5, 0.5, 0.75, 0.25])


class SumOfTwoMaxima:
    """A criterion of somebody else: twice the largest error, and the largest of some others."""

    name = "sum_of_two_maxima"

    def check(self, labels):
        pass

    def value(self, errors, problem):
        return 2 * float(errors.max()) + float((3 * errors[:2]).max())

    def pieces(self, problem):
        rows = np.vstack([2 * np.eye(problem.n_groups), 3 * np.eye(problem.n_groups)[:2]])
        return Pieces(rows, np.zeros(len(rows)), Blocks((0, problem.n_groups)))


@pytest.mark.parametrize("seed", range(4))
def test_a_sum_of_maxima_without_a_formula_of_its_own_is_certified(seed):
    rng = np.random.default_rng(seed)
    problem = problem_of(random_moments(rng, 4, 7), 1 + seed, SumOfTwoMaxima())
    solution = Auto().solve(problem, 1e-9)
    mixture = np.tensordot(solution.weights, problem.second_moments.matrices, axes=1)
    bound = float(np.trace(mixture)) - top_sum(mixture, 1 + seed)
    slack = 1e-8 * problem.total_variance
    assert solution.lower_bound == pytest.approx(bound, abs=slack)
    errors = problem.errors(solution.components.T)
    assert solution.objective == pytest.approx(problem.criterion.value(errors, problem))
    weights = PiecewiseProof(problem.criterion).proving_weights(solution.weights, problem)
    np.testing.assert_allclose(weights, solution.weights, atol=1e-7)
    for _ in range(30):
        value = problem.value(random_basis(rng, 7, 1 + seed))
        assert value >= solution.lower_bound - slack


CRITERIA = (ErrorGap(0.5), MinimaxLoss(), MinimaxError(), NashWelfare())


@pytest.mark.parametrize("criterion", CRITERIA, ids=lambda each: each.name)
def test_fifty_groups_are_answered_honestly(criterion):
    rng = np.random.default_rng(1)
    matrices = random_moments(rng, 50, 12)
    problem = problem_of(matrices, 3, criterion, list(rng.dirichlet(np.full(50, 5.0))))
    solution = Auto().solve(problem, 1e-9)
    value = independent_value(problem, solution.components.T)
    assert solution.objective == pytest.approx(value, rel=1e-9)
    assert solution.lower_bound <= solution.objective + 1e-12 * abs(solution.objective)
    # The gap is what it says, and is small; not all subspaces of 50 groups reach the bound.
    closed = solution.gap <= solution.tolerance
    assert (solution.status == "optimal") == closed
    assert solution.gap <= 0.05 * max(solution.scale, 1e-300)
    assert solution.n_eigenproblems <= 600
    for _ in range(20):
        assert independent_value(problem, random_basis(rng, 12, 3)) >= solution.lower_bound


@pytest.mark.parametrize("n_uncounted", [0, 1])
def test_the_gap_alone_starts_where_its_weights_do_not_cancel(n_uncounted):
    rng = np.random.default_rng(3)
    problem = problem_of(random_moments(rng, 5 + n_uncounted, 8), 2, TotalError())
    gap = Pieces.total_and_gap(np.zeros(5), 1.0)
    nothing = np.zeros((len(gap.offsets), n_uncounted))
    gap = replace(gap, coefficients=np.hstack([gap.coefficients, nothing]))
    search = PiecewiseSearch(problem, gap, 1e-9)
    search.relaxation.run(0.0)
    # At weights that cancel the bound would stay at zero.
    assert search.lower > 0


@pytest.mark.long
@pytest.mark.sweep
@pytest.mark.parametrize("seed", part_of(range(3), 3))
@pytest.mark.parametrize("criterion", [MinimaxLoss(), ErrorGap(0.5)], ids=lambda each: each.name)
def test_the_relaxation_of_hundreds_of_groups_is_solved_to_rounding(criterion, seed):
    # Newton's steps used to end damped, with the solution good to nine digits only.
    rng = np.random.default_rng(seed)
    problem = problem_of(random_moments(rng, 200, 12), 3, criterion)
    relaxation = Relaxation(Dual(problem, problem.pieces))
    relaxation.run(1e-11 * problem.total_variance)
    assert relaxation.gap <= 1e-11 * problem.total_variance
    assert relaxation.dual.n_eigenproblems <= 80


@pytest.mark.parametrize("unit", [2.0**-27, 2.0**27])
def test_the_gap_to_reach_is_in_the_units_of_the_errors(unit):
    matrices = random_moments(np.random.default_rng(0), 3, 4)
    found = []
    for each in (matrices, unit * matrices):
        problem = problem_of(each, 2, ErrorGap(1.0))
        search = PiecewiseSearch(problem, Pieces.total_and_gap(np.zeros(3), 1.0), 0.0)
        search.descend_from(random_basis(np.random.default_rng(1), 4, 2))
        found.append(search.tolerance)
    assert found[1] == pytest.approx(unit * found[0], rel=1e-6)
    assert 0 < found[0] < 1e-13 * problem.total_variance / unit
