"""The conic route: against the boundary search, against another program, and its low rank."""

from dataclasses import replace

import numpy as np
import pytest

from case_selection import parametrize_diagonal, select_cases
from fairspan import (
    Disparity,
    EqualError,
    ErrorGap,
    MinimaxError,
    MinimaxLoss,
    NashWelfare,
    RobustErrorGap,
    Semidefinite,
    TotalError,
)
from problems import build_problem, random_moments, search_boundary, top_sum

pytestmark = pytest.mark.sweep
SEEDS = pytest.mark.parametrize("seed", select_cases(range(5), 3))


def by_name(criterion):
    return criterion.name


def random_problem(seed, k, criterion, allow_extra):
    rng = np.random.default_rng(seed)
    p = int(rng.integers(3, 9))
    matrices = random_moments(rng, k, p)
    shares = list(rng.dirichlet(np.full(k, 4.0)))
    problem = build_problem(matrices, int(rng.integers(1, p)), criterion, shares)
    return replace(problem, allow_extra=allow_extra)


@parametrize_diagonal(
    allow_extra=[False, True],
    criterion=[
        MinimaxLoss(),
        MinimaxError(),
        ErrorGap(0.7),
        RobustErrorGap(0.7, 0.0),
        Disparity(0.3),
    ],
)
@SEEDS
def test_two_groups_against_the_boundary_search(seed, criterion, allow_extra):
    problem = random_problem(seed, 2, criterion, allow_extra)
    exact = search_boundary(problem)
    solution = Semidefinite().solve(problem, 1e-6)
    assert solution.objective == pytest.approx(exact.objective, abs=1e-6 * problem.total_variance)
    assert solution.status == "optimal"
    rounding = 1e-9 * problem.total_variance
    assert solution.lower_bound <= exact.objective + rounding
    moments = problem.second_moments.matrices
    pieces, d = problem.pieces, problem.n_components
    # The bound by numpy alone, from the weights: m.R is w.tr S - m.b, b the best errors or zero.
    mixture = np.tensordot(solution.weights, moments, axes=1)
    offset = solution.weights @ pieces.offsets if pieces.offsets.any() else 0.0
    bound = np.trace(mixture) - offset - top_sum(mixture, d)
    assert solution.lower_bound <= bound + rounding


def largest_piece(criterion, errors, problem):
    """The criterion in cvxpy, written from its formula."""
    import cvxpy

    total = problem.proportions @ errors
    if isinstance(criterion, ErrorGap):
        return total + criterion.penalty * (cvxpy.max(errors) - cvxpy.min(errors))
    offsets = 0.0
    if isinstance(criterion, MinimaxLoss):
        moments = problem.second_moments.matrices
        offsets = np.array([np.trace(S) - top_sum(S, problem.n_components) for S in moments])
    return cvxpy.max(errors - offsets)


@pytest.mark.slow
@pytest.mark.parametrize("criterion", [MinimaxLoss(), MinimaxError(), ErrorGap(0.4)], ids=by_name)
@SEEDS
def test_three_groups_against_another_program(seed, criterion):
    """The unknown of the program is Q = I - P, so errors are its traces with the moments."""
    import cvxpy

    problem = random_problem(seed, 3, criterion, allow_extra=True)
    p, d, total = problem.n_features, problem.n_components, problem.total_variance
    Q = cvxpy.Variable((p, p), PSD=True)
    scaled = problem.second_moments.matrices / total
    errors = cvxpy.hstack([cvxpy.trace(S @ Q) for S in scaled])
    shrunk = replace(problem, second_moments=replace(problem.second_moments, matrices=scaled))
    program = cvxpy.Problem(
        cvxpy.Minimize(largest_piece(criterion, errors, shrunk)),
        [np.eye(p) >> Q, cvxpy.trace(Q) == p - d],
    )
    program.solve(cvxpy.CLARABEL)
    solution = Semidefinite().solve(problem, 1e-6 * total)
    assert solution.objective / total == pytest.approx(program.value, abs=1e-6)
    assert solution.status == "optimal"


@parametrize_diagonal(k=[2, 3, 5], criterion=[MinimaxLoss(), ErrorGap(0.4), TotalError()])
@SEEDS
def test_rank_of_the_vertex(seed, criterion, k):
    problem = random_problem(seed, k, criterion, allow_extra=True)
    solution = Semidefinite().solve(problem, 0.0)
    assert len(solution.components) <= problem.n_components + k - 1
    gram = solution.components @ solution.components.T
    np.testing.assert_allclose(gram, np.diag(np.diag(gram)), atol=1e-9)
    captured = 1 - (1 - np.diag(gram)) ** 2
    assert captured.sum() == pytest.approx(problem.n_components, abs=1e-9)
    assert solution.gap <= 1e-6 * problem.total_variance
    # That of P, and that of the mixture which proves the bound.
    assert solution.n_eigenproblems == solution.trace[-1].n_eigenproblems == 2
    hard = Semidefinite().solve(replace(problem, allow_extra=False), 0.0)
    np.testing.assert_allclose(
        hard.components @ hard.components.T, np.eye(problem.n_components), atol=1e-12
    )
    assert hard.objective >= hard.lower_bound


def test_supported_problems_and_parameters():
    solver = Semidefinite()
    matrices = random_moments(np.random.default_rng(0), 2, 4)
    for criterion in (TotalError(), MinimaxLoss(), ErrorGap(), RobustErrorGap(1.0, 0.0)):
        assert solver.unsupported_reason(build_problem(matrices, 2, criterion)) is None
    for criterion in (EqualError(), NashWelfare(), RobustErrorGap()):
        assert "affine" in solver.unsupported_reason(build_problem(matrices, 2, criterion))
    wide = build_problem(np.broadcast_to(np.eye(101), (2, 101, 101)), 2, MinimaxLoss())
    assert "100 features" in solver.unsupported_reason(wide)
