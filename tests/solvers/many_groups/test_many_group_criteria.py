"""Three groups and more: published values, exactly d components, ranks, soft projections."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize

from bank import INTEGRALITY_GAP
from case_selection import parametrize_diagonal, select_cases
from fairspan import (
    BoundarySearch,
    DualNewton,
    ErrorGap,
    FairPCA,
    GroupMoments,
    LeastVariance,
    MinimaxError,
    MinimaxLoss,
    NashWelfare,
    RobustErrorGap,
)
from fairspan.errors import IncompatibleParameters
from problems import (
    RELATIVE,
    build_problem,
    dual_bound,
    independent_value,
    minimax_value,
    minimize_over_angles,
    problem_from_moments,
    random_basis,
    random_moments,
)
from real_data import MANY_GROUP_NAMES, load

# Relaxed minimax losses, standardized (ddof 0), about each group's mean, at d = 1, 3, 10.
PUBLISHED = {
    "default_credit:group__education3": (0.209640, 0.422883, 0.456136),
    "default_credit:group__education_sex4": (0.090815, 0.351982, 0.308471),
    "default_credit:group__education_sex6": (0.348006, 0.781478, 0.494892),
    "adult_race5:group__race": (3.817820, 4.547864, 6.135149),
}
DIMENSIONS = (1, 3, 10)


@pytest.fixture(scope="module", params=MANY_GROUP_NAMES)
def real_moments(request):
    rows = load(request.param)
    return request.param, GroupMoments.from_rows(rows.z_scored(ddof=0), rows.groups)


@pytest.mark.parametrize("d", DIMENSIONS)
def test_exactly_d_components_reach_the_published_relaxation(real_moments, d):
    name, moments = real_moments
    fair = FairPCA(d, criterion="minimax_loss", center="group").fit_moments(moments)
    published = PUBLISHED[name][DIMENSIONS.index(d)]
    solution = fair.solution_
    assert fair.components_.shape == (d, moments.n_features)
    assert solution.objective == pytest.approx(published, abs=6e-7)
    assert solution.status == "optimal"
    assert solution.gap <= 1e-6 * solution.objective
    # From the components and the weights alone.
    second = moments.second_moments("group")
    value = minimax_value(second, fair.components_.T, MinimaxLoss())
    bound = dual_bound(second, solution.weights, d, MinimaxLoss())
    assert value - bound <= 1e-8 * value
    assert fair.group_losses_.max() == pytest.approx(value, rel=1e-9)


OTHERS = [
    MinimaxError(),
    ErrorGap(0.5),
    NashWelfare(),
    RobustErrorGap(0.5, 5.0),
    LeastVariance(),
    *RELATIVE,
]


# A soft projection is better than what any search has found of rank d.
NO_RANK = [("default_credit:group__education_sex6", criterion, 10) for criterion in RELATIVE]


@pytest.mark.long
@pytest.mark.sweep
@pytest.mark.parametrize(
    ("criterion", "d"),
    select_cases([(criterion, d) for criterion in OTHERS for d in DIMENSIONS], 3),
    ids=lambda value: getattr(value, "name", value),
)
def test_other_criteria_are_proven_on_real_data(real_moments, d, criterion):
    name, moments = real_moments
    solution = FairPCA(d, criterion=criterion, center="group").fit_moments(moments).solution_
    is_open = criterion.name == "robust_error_gap" or (name, criterion, d) in NO_RANK
    assert solution.status == ("open gap" if is_open else "optimal")
    assert solution.relative_gap <= (0.005 if (name, criterion, d) in NO_RANK else np.inf)
    problem = problem_from_moments(moments, d, criterion)
    value = independent_value(problem, solution.components.T)
    assert solution.objective == pytest.approx(value, rel=1e-9)


def test_equal_errors_of_more_than_two_groups_are_refused(real_moments):
    _, moments = real_moments
    with pytest.raises(IncompatibleParameters, match=r"received \d groups.*Use 'error_gap'"):
        FairPCA(10, criterion="equal_error").fit_moments(moments)


@pytest.mark.parametrize(
    ("p", "k", "d"), [(50, 8, 10), (100, 16, 10), pytest.param(200, 16, 20, marks=pytest.mark.slow)]
)
def test_many_groups_and_features(p, k, d):
    rng = np.random.default_rng(0)
    factors = [rng.standard_normal((p, p)) * np.exp(rng.standard_normal(p)) for _ in range(k)]
    problem = build_problem([f @ f.T / p for f in factors], d, MinimaxLoss())
    solution = DualNewton().solve(problem, 1e-8)
    assert solution.gap <= 1e-8 * solution.objective
    assert solution.status == "optimal"


def test_an_integrality_gap_is_open_and_a_soft_projection_closes_it():
    problem = build_problem(INTEGRALITY_GAP.matrices, 1, MinimaxError())
    solution = DualNewton().solve(problem, 1e-9)
    assert solution.status == "open gap"
    assert solution.objective == pytest.approx(42 / 17, abs=1e-9)
    assert solution.lower_bound == pytest.approx(9 / 4, abs=1e-9)
    soft = DualNewton().solve(replace(problem, allow_extra=True), 1e-9)
    assert soft.status == "optimal"
    assert soft.objective == pytest.approx(9 / 4, abs=1e-9)
    assert len(soft.components) == 2
    # The embedding reconstructs rows with the errors that the relaxed solution promises.
    residual_map = np.eye(2) - soft.components.T @ soft.components
    errors = [np.trace(residual_map @ matrix @ residual_map) for matrix in INTEGRALITY_GAP.matrices]
    np.testing.assert_allclose(errors, 9 / 4, atol=1e-9)


def rows_with(matrices, rng):
    """Rows of each group whose second moment about zero, their mean, is exactly the matrix."""
    X, groups = [], []
    for group, matrix in enumerate(matrices):
        noise = rng.standard_normal((40, len(matrix)))
        white = np.linalg.qr(noise - noise.mean(axis=0))[0] * np.sqrt(40)
        X.append(white @ np.linalg.cholesky(matrix).T)
        groups += [group] * 40
    return np.vstack(X), groups


def test_a_soft_projection_through_the_estimator():
    X, groups = rows_with(INTEGRALITY_GAP.matrices, np.random.default_rng(0))
    hard = FairPCA(1, criterion="minimax_error").fit(X, sensitive_features=groups)
    soft = FairPCA(1, criterion="minimax_error", allow_extra=True)
    soft.fit(X, sensitive_features=groups)
    assert (hard.n_components_, soft.n_components_) == (1, 2)
    assert (hard.solution_.status, soft.solution_.status) == ("open gap", "optimal")
    np.testing.assert_allclose(soft.group_errors_, 9 / 4, atol=1e-8)
    for group in range(3):
        rows = X[np.array(groups) == group]
        errors = ((rows - soft.inverse_transform(soft.transform(rows))) ** 2).sum(axis=1)
        assert errors.mean() == pytest.approx(9 / 4, abs=1e-8)
        assert -soft.score(rows) == pytest.approx(9 / 4, abs=1e-8)


@pytest.mark.counts
def test_nash_welfare_of_identical_groups_takes_few_eigenproblems():
    # Its start, a step or two that find nothing better, and the bound that closes the gap.
    matrix = random_moments(np.random.default_rng(1), 1, 6)[0]
    solution = DualNewton().solve(build_problem([matrix] * 3, 2, NashWelfare()), 1e-9)
    assert solution.status == "optimal"
    assert [step.n_eigenproblems for step in solution.trace] in ([3], [4])


@parametrize_diagonal(
    seed=[2, 7],
    criterion=[MinimaxLoss(), ErrorGap(0.7), NashWelfare(), RobustErrorGap(), LeastVariance()],
)
def test_bounds_in_the_trace_enclose_the_optimum_and_close_in(criterion, seed):
    matrices = random_moments(np.random.default_rng(seed), 3, 6)
    solution = DualNewton().solve(build_problem(matrices, 2, criterion), 1e-9)
    counts, lower, upper = np.array(
        [[step.n_eigenproblems, step.lower_bound, step.upper_bound] for step in solution.trace]
    ).T
    assert (np.diff(counts) >= 0).all()
    assert 1 <= counts[0] <= counts[-1] <= solution.n_eigenproblems
    assert (lower[1:] >= lower[:-1]).all()
    assert (upper[1:] <= upper[:-1]).all()
    rounding = 1e-9 * abs(solution.objective)
    assert lower[-1] <= solution.objective + rounding
    assert upper[-1] >= solution.lower_bound - rounding
    assert upper[-1] == pytest.approx(solution.objective, abs=rounding)


@pytest.mark.long
@pytest.mark.sweep
@pytest.mark.parametrize("seed", select_cases(range(6), 2))
def test_no_subspace_beats_the_bound_of_the_robust_error_gap(seed):
    rng = np.random.default_rng(seed)
    k, p = int(rng.integers(3, 6)), int(rng.integers(3, 8))
    d = int(rng.integers(1, p))
    matrices = random_moments(rng, k, p)
    criterion = RobustErrorGap(float(rng.choice([0.1, 1.0, 5.0])), float(rng.choice([1.0, 60.0])))
    problem = build_problem(matrices, d, criterion, list(rng.dirichlet(np.ones(k))))
    solution = DualNewton().solve(problem, 1e-9)
    for _ in range(400):
        basis = random_basis(rng, p, d)
        assert independent_value(problem, basis) >= solution.lower_bound
        near = np.linalg.qr(solution.components.T + 0.05 * basis)[0]
        assert independent_value(problem, near) >= solution.lower_bound
    # The bound is that of the error gap, whatever the radius.
    plain = DualNewton().solve(replace(problem, criterion=ErrorGap(criterion.penalty)), 1e-9)
    assert solution.lower_bound == pytest.approx(plain.lower_bound, rel=1e-8)


def test_the_robust_error_gap_of_two_groups_is_that_of_branch_and_bound():
    rng = np.random.default_rng(1)
    for _ in range(2):
        matrices = random_moments(rng, 2, 6)
        problem = build_problem(matrices, 2, RobustErrorGap(1.0, 20.0), [0.3, 0.7])
        exact = BoundarySearch().solve(problem, 1e-9)
        solution = DualNewton().solve(problem, 1e-9)
        assert solution.objective == pytest.approx(exact.objective, rel=1e-7)
        assert solution.lower_bound <= exact.lower_bound + 1e-9


@pytest.mark.parametrize(
    "criterion",
    [MinimaxLoss(), NashWelfare(), pytest.param(RobustErrorGap(), marks=pytest.mark.slow)],
    ids=str,
)
def test_order_rotation_and_copies_of_groups_change_nothing(criterion):
    rng = np.random.default_rng(5)
    matrices = random_moments(rng, 3, 5)
    shares = [0.2, 0.3, 0.5]
    problem = build_problem(matrices, 2, criterion, shares)
    value = DualNewton().solve(problem, 1e-9).objective
    rotation = random_basis(rng, 5, 5)
    for other in (
        build_problem(matrices[[2, 0, 1]], 2, criterion, [0.5, 0.2, 0.3]),
        build_problem(rotation @ matrices @ rotation.T, 2, criterion, shares),
    ):
        assert DualNewton().solve(other, 1e-9).objective == pytest.approx(value, rel=1e-8)


@pytest.mark.filterwarnings("error")
@parametrize_diagonal(d=[1, 2], penalty=[0.3, 1000.0])
def test_robust_error_gap_takes_a_group_without_variance(d, penalty):
    matrices = np.array([np.zeros((2, 2)), [[2.0, 1], [1, 3]], [[1.0, 0], [0, 0.2]]])
    problem = build_problem(matrices, d, RobustErrorGap(penalty, 0.5))
    solution = DualNewton().solve(problem, 1e-9)
    least, _ = minimize_over_angles(lambda basis: independent_value(problem, basis))
    least = least if d == 1 else np.inf
    rounding = 1e-12 * penalty
    assert solution.lower_bound <= least + rounding
    value = independent_value(problem, solution.components.T)
    assert solution.objective == pytest.approx(value, rel=1e-9)
    assert solution.objective <= least + rounding


@pytest.mark.parametrize("size", [0.0, 1e-9, 1.0])
def test_the_rounding_of_the_robust_error_gap_covers_what_that_of_errors_does_to_it(size):
    # At an error of zero the score is a root: rounding of 1e-15 moves it by 1e-8.
    criterion = RobustErrorGap(100.0, {"group 0": 1.0, "group 1": 5.0, "group 2": 1e6})
    problem = build_problem(random_moments(np.random.default_rng(3), 3, 4), 1, criterion)
    errors = size * problem.second_moments.traces
    roundings = 1e-15 * problem.second_moments.traces
    value = criterion.value(errors + roundings, problem)
    change = value - criterion.value(errors, problem)
    rounding = criterion.rounding_bound(roundings, errors, problem)
    assert change <= rounding <= 1e3 * change + 1e-13 * value


@pytest.mark.filterwarnings("ignore:All rows belong")
@pytest.mark.parametrize("solver", ["auto", "dual_newton"])
@pytest.mark.parametrize("sizes", [(0,), (1, 0, 1)])
def test_nash_welfare_of_a_group_without_variance_is_reported(solver, sizes):
    moments = GroupMoments.from_covariances([size * np.eye(3) for size in sizes])
    fair = FairPCA(1, criterion="nash_welfare", solver=solver)
    with pytest.raises(IncompatibleParameters, match="without variance"):
        fair.fit_moments(moments)


@pytest.mark.long
@pytest.mark.sweep
@pytest.mark.parametrize("unit", [1e-13, 1.0, 1e13])
@pytest.mark.parametrize("criterion", [MinimaxLoss(), MinimaxError()], ids=str)
def test_weights_prove_the_bound_in_any_unit(criterion, unit):
    # Incomes in units of a currency have second moments of 1e13.
    for seed in select_cases(range(20), 4):
        rng = np.random.default_rng(seed)
        k, p = int(rng.integers(3, 8)), int(rng.integers(2, 6))
        integer_matrices = np.array(
            [np.diag(rng.integers(0, 4, p).astype(float)) for _ in range(k)]
        )
        problem = build_problem(unit * integer_matrices, 1, criterion)
        solution = DualNewton().solve(problem, 1e-9)
        bound = dual_bound(problem.second_moments.matrices, solution.weights, 1, criterion)
        assert solution.lower_bound <= max(bound, 0.0) + 1e-12 * problem.total_variance
        plain = DualNewton().solve(build_problem(integer_matrices, 1, criterion), 1e-9)
        assert solution.status == plain.status
        assert solution.objective == pytest.approx(unit * plain.objective, abs=1e-7 * unit)


@pytest.mark.parametrize(
    ("seed", "k", "p"), [(102, 4, 3), pytest.param(130, 5, 5, marks=pytest.mark.slow)]
)
def test_nash_welfare_leaves_the_local_optimum_that_its_first_descent_finds(seed, k, p):
    rng = np.random.default_rng(seed)
    rng.integers(2, 7), rng.integers(3, 8), rng.integers(1, p)
    problem = build_problem(random_moments(rng, k, p), 2, NashWelfare())
    solution = DualNewton().solve(problem, 1e-9)

    def value(numbers):
        return problem.objective(np.linalg.qr(numbers.reshape(p, 2))[0])

    starts = np.random.default_rng(0).standard_normal((4, 2 * p))
    best = min(minimize(value, start).fun for start in starts)
    assert solution.objective <= best + 1e-8
