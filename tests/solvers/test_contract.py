"""Every solver on every problem of the bank that it accepts; bounds against a conic solver."""

from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import pytest

from bank import BANK
from case_selection import mark_most_long, mark_most_slow, parametrize_diagonal
from fairspan import (
    BoundarySearch,
    Disparity,
    DualNewton,
    EqualError,
    ErrorGap,
    FairPCA,
    GroupMoments,
    LeastVariance,
    MinimaxError,
    MinimaxLoss,
    MultiplicativeWeights,
    NashWelfare,
    RiemannianSubgradient,
    RobustErrorGap,
    Semidefinite,
    TotalError,
)
from fairspan.errors import IncompatibleParameters
from fairspan.extending import Solver, certify
from problems import (
    MINIMAX,
    RELATIVE,
    basis_errors,
    build_problem,
    deflate,
    group_divisors,
    independent_value,
    nested_value,
    random_moments,
    reference_values,
    rows_with_moments,
    solve_exactly,
)


@dataclass(frozen=True)
class Chosen(Solver):
    """The exact solver that "auto" chooses."""

    name = "auto"

    def unsupported_reason(self, problem):
        reasons = [
            solver.unsupported_reason(problem) for solver in (BoundarySearch(), DualNewton())
        ]
        return None if None in reasons else reasons[-1]

    def solve(self, problem, tol, random_state=None):
        return solve_exactly(problem, tol)


SOLVERS = (
    Chosen(),
    BoundarySearch(),
    DualNewton(),
    MultiplicativeWeights(max_iter=50),
    Semidefinite(),
    RiemannianSubgradient(max_iter=60, n_starts=2),
)
GAP = ErrorGap(0.5)
# These find the optimum or say that a gap is open; the others are only held to their claims.
EXACT = ("auto", "boundary", "dual_newton")


def is_accepted():
    for entry in BANK:
        for criterion, optimum in entry.optima:
            problem = build_problem(entry.matrices, entry.n_components, criterion)
            for solver in SOLVERS:
                if solver.unsupported_reason(problem) is None:
                    name = f"{entry.name}-{criterion}-{solver.name}"
                    yield pytest.param(solver, entry, criterion, optimum, id=name)


def quick_cases():
    """All cases of the exact solvers, and a third of the others."""
    exact = [case for case in is_accepted() if case.values[0].name in EXACT]
    others = [case for case in is_accepted() if case.values[0].name not in EXACT]
    return [*exact, *mark_most_slow(others, 3)]


@pytest.mark.parametrize(("solver", "entry", "criterion", "optimum"), quick_cases())
def test_a_solver_keeps_its_claims(solver, entry, criterion, optimum):
    problem = build_problem(entry.matrices, entry.n_components, criterion)
    solution = solver.solve(problem, 1e-9, 0)
    slack = 1e-8 * max(problem.total_variance, 1.0)
    components = solution.components
    assert components.shape == (entry.n_components, entry.matrices.shape[1])
    np.testing.assert_allclose(components @ components.T, np.eye(len(components)), atol=1e-9)
    value = independent_value(problem, components.T)
    assert solution.objective == pytest.approx(value, abs=slack)
    # No subspace is better than the optimum, and no bound above it.
    assert solution.objective >= optimum - slack
    assert solution.lower_bound <= optimum + slack
    relaxed = entry.relaxed.get(criterion.name, optimum)
    if solver.name != "riemannian" and criterion.name != "robust_error_gap":
        assert solution.lower_bound <= relaxed + slack
    worst = max(solution.gap, solution.constraint_violation)
    assert (solution.status in ("optimal", "unresolved")) == (
        worst <= max(solution.absolute_tol, solution.resolution)
    )
    if solver.name in EXACT:
        assert solution.objective == pytest.approx(optimum, abs=slack)
        if criterion.name == "robust_error_gap" and solution.solver == "dual_newton":
            return  # the bound is that of the error gap, which lacks what the radii add
        assert (solution.status == "optimal") == (relaxed == optimum)
        assert solution.lower_bound == pytest.approx(relaxed, abs=slack)


def nested():
    for parameters in is_accepted():
        _, entry, criterion, _ = parameters.values
        # A single component is nested in nothing.
        if entry.n_components > 1 and criterion.supports_nesting:
            is_slow = len(entry.matrices) > 4
            marks = [pytest.mark.slow] if is_slow else []
            yield pytest.param(*parameters.values, id=parameters.id, marks=marks)


@pytest.mark.parametrize(
    ("solver", "entry", "criterion", "optimum"), mark_most_long(list(nested()), 3)
)
def test_a_solver_keeps_its_claims_of_nested_components(solver, entry, criterion, optimum):
    matrices, d = entry.matrices, entry.n_components
    X, labels = rows_with_moments(matrices)
    model = FairPCA(d, criterion=criterion, center="none", solver=solver, nested=True)
    model.fit(X, sensitive_features=labels)
    shares = np.full(len(matrices), 1 / len(matrices))
    slack = 1e-8 * max(float(np.trace(matrices.mean(axis=0))), 1.0)
    solution = model.solution_
    reached = nested_value(matrices, shares, model.components_.T, criterion.name)
    assert solution.objective == pytest.approx(reached, abs=slack)
    assert solution.lower_bound <= optimum + slack
    assert solution.objective >= optimum - slack
    for step, step_solution in enumerate(solution.steps):
        deflated = deflate(matrices, model.components_[:step])
        column = model.components_[step : step + 1].T
        objective = nested_value(deflated, shares, column, criterion.name)
        assert step_solution.objective == pytest.approx(objective, abs=slack)
        assert step_solution.lower_bound <= objective + slack
        if solver.name in EXACT and len(matrices) <= 2:
            assert step_solution.status == "optimal"


def solve_supported(solver, matrices, d=2):
    """Solve for the largest error, or for GAP if the solver does not support it."""
    problem = build_problem(matrices, d, MinimaxError())
    problem = (
        problem if solver.unsupported_reason(problem) is None else replace(problem, criterion=GAP)
    )
    return solver.solve(problem, 1e-6, 0)


# The steps of Riemannian descents are those of the paper, which are not in units of the rows.
@parametrize_diagonal(solver=SOLVERS[:-1], factor=[1e-12, 1e12])
def test_units_change_nothing_but_the_scale(solver, factor):
    matrices = random_moments(np.random.default_rng(1), 2, 5)
    plain, scaled = (solve_supported(solver, unit * matrices) for unit in (1.0, factor))
    assert scaled.objective == pytest.approx(factor * plain.objective, rel=1e-6)
    assert scaled.lower_bound == pytest.approx(factor * plain.lower_bound, rel=1e-6)


@pytest.mark.parametrize("solver", SOLVERS, ids=lambda solver: solver.name)
def test_rows_that_do_not_vary_and_all_dimensions_lose_nothing(solver):
    full_rank = random_moments(np.random.default_rng(1), 2, 3)
    for matrices, d in ((np.zeros((2, 3, 3)), 1), (full_rank, 3)):
        solution = solve_supported(solver, matrices, d)
        assert solution.objective == pytest.approx(0.0, abs=1e-9)
        assert solution.status == "optimal"


def test_all_solvers_and_criteria_take_part():
    cases = [parameters.values for parameters in is_accepted()]
    assert {solver.name for solver, *_ in cases} == {solver.name for solver in SOLVERS}
    assert len({criterion.name for _, _, criterion, _ in cases}) == 9


@pytest.mark.parametrize("solver", SOLVERS, ids=lambda solver: solver.name)
@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize(
    "criterion",
    [
        TotalError(),
        MinimaxLoss(),
        EqualError(),
        ErrorGap(),
        RobustErrorGap(),
        NashWelfare(),
        MinimaxError(),
        LeastVariance(),
        *RELATIVE,
    ],
    ids=str,
)
def test_a_solver_that_cannot_names_those_that_can(solver, criterion, k):
    if k > 2 and isinstance(criterion, EqualError):
        pytest.skip("refused whatever the solver")
    matrices = random_moments(np.random.default_rng(9), k, 4)
    problem = build_problem(matrices, 1, criterion)
    fair = FairPCA(1, criterion=criterion, solver=solver)
    moments = GroupMoments.from_covariances(matrices)
    if solver.unsupported_reason(problem) is None:
        return  # a fit, as of other tests
    with pytest.raises(
        IncompatibleParameters, match=f"'{solver.name}'.*'{criterion.name}'"
    ) as error:
        fair.fit_moments(moments)
    able = [s.name for s in SOLVERS[1:] if s.unsupported_reason(problem) is None]
    assert able
    assert all(f"'{name}'" in error.value.args[1] for name in able)


def test_bounds_are_recomputed_from_the_weights():
    problem = build_problem([np.diag([2.0, 1]), np.diag([1.0, 2])], 1, MinimaxError())
    settings = {"tol": 1e-9, "n_eigenproblems": 1, "trace": [], "solver": "none"}
    axis = np.eye(2)[:, :1]
    diagonal = np.full((2, 1), 0.5**0.5)
    poor = certify(problem, axis, np.array([0.5, 0.5]), **settings)
    assert (poor.objective, poor.status) == (2.0, "open gap")
    assert poor.lower_bound == pytest.approx(1.5)
    best = certify(problem, diagonal, np.array([0.5, 0.5]), **settings)
    assert best.status == "optimal"
    # Weights that are not on the simplex prove nothing as they are.
    doubled = certify(problem, diagonal, np.array([5.0, 5.0]), **settings)
    assert doubled.lower_bound == pytest.approx(1.5)


def conic_optimum(problem):
    """Return the optimum of the relaxed problem by a conic solver."""
    import cvxpy

    second = problem.second_moments.matrices
    d = problem.n_components
    q = problem.proportions
    p = second.shape[1]
    criterion = problem.criterion
    scale = max(np.trace(matrix) for matrix in second)
    second = second / scale
    P = cvxpy.Variable((p, p), PSD=True)
    captured = cvxpy.hstack([cvxpy.trace(matrix @ P) for matrix in second])
    errors = np.trace(second, axis1=1, axis2=2) - captured
    limits = [cvxpy.trace(P) == d, np.eye(p) - P >> 0]
    total = q @ errors
    if criterion in MINIMAX:
        scale = scale if criterion not in RELATIVE else 1.0
        missing = reference_values(second, d, criterion) - captured
        value = cvxpy.max(missing / group_divisors(second, criterion))
    elif isinstance(criterion, ErrorGap):
        value = total + criterion.penalty * (cvxpy.max(errors) - cvxpy.min(errors))
    elif isinstance(criterion, EqualError):
        value = total
        limits.append(cvxpy.abs(errors[1:] - errors[0]) <= criterion.tolerance / scale)
    elif isinstance(criterion, NashWelfare):
        value = -cvxpy.sum(cvxpy.log(captured)) / len(second)
    else:
        assert isinstance(criterion, TotalError | Disparity)
        value = total
    program = cvxpy.Problem(cvxpy.Minimize(value), limits)
    program.solve(solver=cvxpy.CLARABEL)
    if program.status not in ("optimal", "optimal_inaccurate"):
        return None
    if isinstance(criterion, NashWelfare):
        return float(program.value - np.log(scale))
    return float(program.value * scale)


CONIC = (
    *MINIMAX,
    ErrorGap(0.7),
    ErrorGap(6.0),
    EqualError(),
    EqualError(0.5),
    NashWelfare(),
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seed", "criterion"), mark_most_long([*product(range(10), CONIC)], 4), ids=str
)
@pytest.mark.filterwarnings("ignore:.*may be inaccurate")
def test_bounds_agree_with_a_conic_solver(criterion, seed):
    rng = np.random.default_rng(seed)
    k, p = int(rng.integers(2, 6)), int(rng.integers(2, 13))
    if isinstance(criterion, EqualError):
        k = 2
    d = int(rng.integers(1, p))
    matrices = random_moments(rng, k, p)
    problem = build_problem(matrices, d, criterion, list(rng.dirichlet(np.ones(k))))
    relaxed = conic_optimum(problem)
    slack = 2e-6 * problem.total_variance
    try:
        solution = solve_exactly(problem, 1e-9)
    except IncompatibleParameters:
        # Equal errors at exactly d components may be out of reach though the relaxation has some.
        assert isinstance(criterion, EqualError)
        return
    assert relaxed is not None
    assert solution.lower_bound <= relaxed + slack
    assert solution.objective >= relaxed - slack
    if k == 2 or solution.status == "optimal":
        assert solution.objective == pytest.approx(relaxed, abs=slack)
    else:
        assert solution.lower_bound == pytest.approx(relaxed, abs=10 * slack)
    basis = solution.components.T
    assert solution.objective == pytest.approx(independent_value(problem, basis), abs=slack)
    if isinstance(criterion, EqualError):
        apart = np.ptp(basis_errors(matrices, basis)) - criterion.tolerance
        assert apart <= 1e-8 * problem.total_variance
