"""Proofs inside a small subspace, where they are most easily false; and where no such W will do."""

from dataclasses import dataclass

import numpy as np
import pytest

from case_selection import mark_most_long, mark_most_slow, parametrize_diagonal, select_cases
from fairspan import (
    BoundarySearch,
    DualNewton,
    EqualError,
    ErrorGap,
    FairPCA,
    GroupMoments,
    LeastVariance,
    MeanParity,
    MinimaxError,
    MinimaxLoss,
    NashWelfare,
    RobustErrorGap,
    TotalError,
)
from fairspan.errors import IncompatibleParameters
from fairspan.extending import Solver
from fairspan.solvers.auto import solve_problem
from fairspan.solvers.eigenvalue_bounds import complement_eigenvalue_bound
from fairspan.solvers.growing_subspace import solve_growing
from fairspan.solvers.search_subspace import SearchSubspace
from problems import RELATIVE, build_problem, random_moments, top_sum


@dataclass(frozen=True)
class Growing(Solver):
    """Always within a subspace that grows, also where this does not pay."""

    solver: Solver
    name = "growing"

    def unsupported_reason(self, problem):
        return self.solver.unsupported_reason(problem)

    def solve(self, problem, tol, random_state=None):
        return solve_growing(problem, self.solver, tol, random_state)


def fit_both(matrices, d, criterion, tol=1e-9):
    """Return the solutions with full matrices and in a growing subspace."""
    first, second = (build_problem(matrices, d, criterion) for _ in range(2))
    solver = BoundarySearch()
    solver = solver if solver.unsupported_reason(first) is None else DualNewton()
    return solver.solve(first, tol), solve_growing(second, solver, tol)


def random_matrix(rng, values):
    turn = np.linalg.qr(rng.standard_normal((len(values), len(values))))[0]
    matrix = (turn * values) @ turn.T
    return (matrix + matrix.T) / 2


def hide_leading_eigenvector(p, d):
    """Return a group whose leading eigenvector is orthogonal to the start of iterations."""
    start = np.random.default_rng(0).standard_normal((p, d + 6))
    other_columns = np.random.default_rng(5).standard_normal((p, p - start.shape[1]))
    turn = np.linalg.qr(np.hstack([start, other_columns]))[0]
    # The last column is orthogonal to the start and to all that the others map it to.
    values = np.concatenate([[3, 2, 1, 0.9, 0.8, 0.7, 0.6], np.zeros(p - 8), [5.0]])
    hidden = (turn * values) @ turn.T
    return np.array([(hidden + hidden.T) / 2, np.diag(2.0 ** -np.arange(p))])


@pytest.mark.parametrize(
    "criterion", [MinimaxLoss(), MinimaxError(), ErrorGap(), TotalError()], ids=str
)
def test_an_eigenvector_that_the_iteration_never_sees_is_found_by_the_proof(criterion):
    dense, projected = fit_both(hide_leading_eigenvector(300, 1), 1, criterion)
    assert projected.status == "optimal"
    assert projected.objective == pytest.approx(dense.objective, rel=1e-9)
    assert projected.lower_bound <= dense.objective * (1 + 1e-9)


def test_losses_are_measured_against_the_optimum_that_the_proof_found():
    problem = build_problem(hide_leading_eigenvector(300, 1), 1, MinimaxLoss())
    solve_growing(problem, BoundarySearch(), 1e-9)
    assert problem.best_errors[0] == pytest.approx(problem.second_moments.traces[0] - 5, rel=1e-9)


@parametrize_diagonal(unit=[1e-6, 1.0, 1e6], k=[1, 2, 3])
def test_nash_welfare_is_proven_in_any_unit(k, unit):
    matrices = unit * random_moments(np.random.default_rng(k), k, 40)
    dense, projected = fit_both(matrices, 1, NashWelfare())
    assert (dense.status, projected.status) == ("optimal", "optimal")
    assert projected.gap <= 1e-9
    assert projected.objective == pytest.approx(dense.objective, abs=2e-9)


@pytest.mark.parametrize("unit", mark_most_slow([1e6, 1e-6, 1e-3], 3))
def test_the_robust_error_gap_is_proven_in_any_unit(unit):
    rng = np.random.default_rng(3)
    matrices = np.array([random_matrix(rng, 0.97 ** np.arange(120)) for _ in range(2)])
    dense, projected = fit_both(unit * matrices, 3, RobustErrorGap())
    assert projected.status == "optimal"
    assert projected.objective == pytest.approx(dense.objective, rel=1e-8)
    assert projected.lower_bound >= dense.objective * (1 - 1e-8)


def test_nash_welfare_falls_with_the_logarithm_of_what_is_lacking():
    """The subspace lacks an eigenvector of one group; no bound may exceed the optimum."""
    matrices = 1e-6 * random_moments(np.random.default_rng(0), 1, 300)
    optimum = -np.log(top_sum(matrices[0], 2))
    for tol in (1e-2, 1e-4, 1e-6):
        problem = build_problem(matrices, 2, NashWelfare())
        solution = solve_growing(problem, BoundarySearch(), tol)
        assert solution.lower_bound <= optimum + 1e-12
        assert solution.gap <= tol


def test_cancellation_in_a_mixture_counts_as_rounding_of_its_ceilings():
    """Two groups are nearly equal; no bound is smaller than the rounding of either."""
    rng = np.random.default_rng(1)
    large = random_matrix(rng, np.exp(-np.arange(60) / 10.0))
    slight = 1e-15 * random_matrix(rng, np.ones(60))
    problem = build_problem([large + slight, large], 2, EqualError())
    second = problem.second_moments
    weights = np.array([1.0, -1.0])
    assert second.norm_bound(weights) == pytest.approx(2 * np.linalg.norm(large))
    basis = np.eye(60)[:, :3]
    mixture = second.mixture(weights)
    cancellation = 1e-16 * np.linalg.norm(large)
    level = 2 * np.linalg.norm(mixture)
    proven_bound = complement_eigenvalue_bound(
        mixture, basis, mixture @ basis, level, second.norm_bound(weights)
    )
    assert proven_bound > level + cancellation


def test_a_factor_proves_what_lies_next_to_any_subspace():
    """Also one that is no union of eigenspaces: just above the largest eigenvalue, and no lower."""
    rng = np.random.default_rng(6)
    matrix = random_matrix(rng, np.linspace(0.1, 3, 12))
    basis = np.linalg.qr(rng.standard_normal((12, 4)))[0]
    complement_projector = np.eye(12) - basis @ basis.T
    largest = float(np.linalg.eigvalsh(complement_projector @ matrix @ complement_projector)[-1])
    size = float(np.linalg.norm(matrix))
    above = complement_eigenvalue_bound(matrix, basis, matrix @ basis, 1.001 * largest, size)
    assert above == pytest.approx(1.001 * largest, rel=1e-9)
    assert (
        complement_eigenvalue_bound(matrix, basis, matrix @ basis, 0.999 * largest, size) == np.inf
    )


def test_a_ceiling_has_room_for_the_rounding_of_what_it_was_proven_with():
    """Rump (2006): (p + 1) epsilon times the trace; and of each product, its terms."""
    epsilon = np.finfo(float).eps
    level = 2.5
    p = 40
    matrix = np.diag(np.linspace(1.0, 2.0, p))
    none = np.zeros((p, 0))
    trace = p * level - np.trace(matrix)
    rounding = complement_eigenvalue_bound(matrix, none, none, level, 0.0) - level
    assert rounding >= (p + 1) * epsilon * trace
    for m in (1, 30):
        basis = np.eye(p)[:, :m]
        ceiling = complement_eigenvalue_bound(matrix, basis, matrix @ basis, level, 1e6)
        assert ceiling - level >= (p + m) * epsilon * np.sqrt(m + 1) * 1e6


def test_a_subspace_of_all_dimensions_lacks_nothing():
    matrices = random_moments(np.random.default_rng(2), 2, 6)
    second = build_problem(matrices, 2, MinimaxError()).second_moments
    space = SearchSubspace.from_basis(second, second.n_ritz(2), np.eye(6))
    assert space.project_mixture(np.array([0.3, 0.7])).top_sum_excess(2, 0.0) == 0.0


def test_sums_outside_a_subspace_are_bounded_for_all_mixtures_together():
    """Sums outside a subspace of coordinates, for groups and mixtures of either sign."""
    rng = np.random.default_rng(2)
    matrices = [1e-3 * random_matrix(rng, 0.8 ** np.arange(80)) for _ in range(2)]
    second = build_problem(matrices, 2, MinimaxError()).second_moments
    space = SearchSubspace.from_basis(second, second.n_ritz(2), np.eye(80)[:, :8])
    mixtures = [
        np.array(mixture) for mixture in ((0.4, 0.6), (0.41, 0.59), (1.2, -0.2), (1.0, 0.0))
    ]
    for goal in (np.inf, 1e-12):
        proven_sums = space.prove_missing_sums(mixtures, 2, min(goal, 1.0))
        for weights in mixtures:
            lacking = top_sum(second.mixture(weights), 2) - space.project_mixture(weights).ritz_sum(
                2
            )
            assert lacking - 1e-15 <= proven_sums[weights.tobytes()] <= goal
            space = space.expand(second.approximate_leading(weights, 2).vectors)


CRITERIA = (
    MinimaxLoss(),
    MinimaxError(),
    ErrorGap(0.7),
    EqualError(),
    NashWelfare(),
    RobustErrorGap(),
    TotalError(),
    LeastVariance(),
    *RELATIVE,
)
CRITERIA_AND_RATES = [(criterion, rate) for criterion in CRITERIA for rate in (0.5, 3, 8)]


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("criterion", "rate"), mark_most_slow(select_cases(CRITERIA_AND_RATES, 5), 2), ids=str
)
def test_nearly_flat_spectra_are_solved_as_if_never_projected(criterion, rate):
    rng = np.random.default_rng(3)
    values = np.exp(-rate * np.arange(80) / 80)
    for k in (2, 5):
        if k > 2 and isinstance(criterion, RobustErrorGap | EqualError):
            continue
        matrices = np.array([random_matrix(rng, values) for _ in range(k)])
        dense, projected = fit_both(matrices, 3, criterion)
        slack = 1e-9 * build_problem(matrices, 3, criterion).total_variance
        assert projected.status == dense.status == "optimal"
        assert abs(projected.objective - dense.objective) <= 2 * slack
        assert projected.lower_bound <= dense.objective + slack / 100


def test_infeasible_equal_errors_are_reported_at_all_dimensions():
    matrices = np.array([np.eye(40), 2 * np.eye(40)])
    for solver in (BoundarySearch(), Growing(BoundarySearch())):
        with pytest.raises(IncompatibleParameters, match="achievable gap is 38"):
            solver.solve(build_problem(matrices, 2, EqualError()), 1e-6)


@pytest.mark.counts
@pytest.mark.parametrize(
    ("falls", "unit", "projects"),
    [
        *((1.5, unit, True) for unit in (1e-6, 1.0, 1e6)),
        (0, 1.0, False),
        pytest.param(0, 1e-6, False, marks=pytest.mark.slow),
        pytest.param(0, 1e6, False, marks=pytest.mark.slow),
    ],
)
def test_auto_projects_where_few_eigenvalues_matter(falls, unit, projects):
    # From 500 features on a search subspace may be faster.
    values = unit * (1.0 + np.arange(500)) ** -falls
    problem = build_problem([np.diag(values), np.diag(0.5 * values)], 5, MinimaxLoss())
    solution = solve_problem(problem, BoundarySearch(), 1e-9)
    assert (solution.eigensolver == "projected") == projects


@pytest.mark.parametrize(
    "criterion", [criterion for criterion in CRITERIA if criterion not in RELATIVE], ids=str
)
def test_a_group_without_variance_does_not_change_the_optimum(criterion):
    """The bound may rest on the empty group alone, of which nothing can be lacking."""
    matrices = random_moments(np.random.default_rng(6), 2, 46)
    matrices[0] = 0.0
    if isinstance(criterion, NashWelfare):
        pytest.skip("the product is zero")
    problem = build_problem(matrices, 1, criterion)
    try:
        dense, projected = fit_both(matrices, 1, criterion)
    except IncompatibleParameters:
        return
    assert projected.status == dense.status == "optimal"
    assert projected.objective == pytest.approx(dense.objective, abs=2e-9 * problem.total_variance)


@parametrize_diagonal(criterion=["minimax_loss", "total_error"], k=[2, 3])
def test_losses_under_a_restriction_use_the_unrestricted_optima(criterion, k):
    rng = np.random.default_rng(k)
    p = 120
    d = 4
    labels = np.arange(240) % k
    shapes = [rng.standard_normal((p, p)) * 0.9 ** np.arange(p) for _ in range(k)]
    X = np.einsum("ni,nij->nj", rng.standard_normal((240, p)), np.array(shapes)[labels])
    X += labels[:, None] * rng.standard_normal(p)
    moments = GroupMoments.from_rows(X, labels)
    settings = {"n_components": d, "criterion": criterion, "restriction": MeanParity()}
    solver = BoundarySearch() if k == 2 or criterion == "total_error" else DualNewton()
    dense, projected = (
        FairPCA(**settings, solver=either_solver).fit_moments(moments)
        for either_solver in (solver, Growing(solver))
    )
    assert projected.solution_.eigensolver == "projected"
    assert projected.solution_.status == dense.solution_.status == "optimal"
    assert projected.solution_.objective == pytest.approx(dense.solution_.objective, rel=1e-9)
    # The optima of the groups, in all directions and in those that are left, are counted as well.
    assert projected.solution_.n_eigenproblems >= 2 * k
    for second, error, loss in zip(
        moments.second_moments(), projected.group_errors_, projected.group_losses_, strict=True
    ):
        best = np.trace(second) - np.linalg.eigvalsh(second)[-d:].sum()
        assert loss == pytest.approx(error - best, rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("big", mark_most_long([1e4, 1e5], 2))
def test_a_column_of_large_numbers_moves_no_objective_of_many_features(big):
    """One component is the column, which has both signs in all rows; the others have one less."""
    rng = np.random.default_rng(0)
    spreads = np.arange(1, 500) ** -0.4
    Y = np.vstack([(1 + g) * rng.standard_normal((200, 499)) * spreads for g in range(2)])
    Y[200:] = Y[200:, rng.permutation(499)]
    groups = np.repeat([0, 1], 200)
    X = np.vstack([np.insert(Y, 0, sign * big, axis=1) for sign in (1, -1)])
    plain = FairPCA(1, center="none").fit(Y, sensitive_features=groups).solution_
    fair = FairPCA(2, center="none").fit(X, sensitive_features=np.tile(groups, 2)).solution_
    assert fair.objective == pytest.approx(plain.objective, rel=2e-10)
    assert fair.lower_bound <= plain.objective * (1 + 1e-12)


@pytest.mark.parametrize("big", [1e3, 1e6])
def test_a_column_of_large_numbers_next_to_equal_means(big):
    """Forbidden directions may be so large that a step of the bound is rounding."""
    rng = np.random.default_rng(40)
    labels = np.arange(180) % 3
    X = rng.standard_normal((180, 30)) * np.arange(1, 31) ** -0.8 * (1 + labels[:, None])
    X += labels[:, None] * rng.standard_normal(30)
    X[:, 4] *= big
    settings = {"n_components": 1, "criterion": "error_gap", "restriction": MeanParity()}
    dense, grown = (
        FairPCA(**settings, solver=solver).fit(X, sensitive_features=labels).solution_
        for solver in (DualNewton(), Growing(DualNewton()))
    )
    assert grown.objective <= dense.objective * (1 + 2e-9) + dense.resolution
    assert grown.lower_bound <= dense.objective * (1 + 1e-12) + dense.resolution
    # Where rounding keeps the gap open in the subspace, the problem is solved without one.
    assert grown.status == dense.status


@pytest.mark.slow
def test_many_groups_are_solved_without_a_subspace_that_would_be_as_large():
    p = 520
    d = 10
    rng = np.random.default_rng(58)
    scales = np.arange(1, p + 1) ** -1.0
    covariances = [random_matrix(rng, scales) for _ in range(12)]
    two_groups = GroupMoments.from_covariances(covariances[:2])
    all_groups = GroupMoments.from_covariances(covariances)
    model = FairPCA(d, criterion=TotalError())
    assert model.fit_moments(two_groups).solution_.eigensolver == "projected"
    assert model.fit_moments(all_groups).solution_.eigensolver == "dense"
    pooled = all_groups.second_moments().mean(axis=0)
    expected = np.trace(pooled) - np.linalg.eigvalsh(pooled)[-d:].sum()
    assert model.solution_.objective == pytest.approx(expected, rel=1e-10)
