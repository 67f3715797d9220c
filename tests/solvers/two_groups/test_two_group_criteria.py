"""Every criterion of two groups on every real data set, and published values."""

from itertools import pairwise

import numpy as np
import pytest

from case_selection import mark_most_long, mark_most_slow, parametrize_diagonal, select_cases
from fairspan import (
    Disparity,
    DualNewton,
    EqualError,
    ErrorGap,
    FairPCA,
    GroupMoments,
    MeanParity,
    MinimaxLoss,
    RobustErrorGap,
    TotalError,
)
from fairspan.errors import IncompatibleParameters
from problems import (
    basis_errors,
    build_problem,
    independent_value,
    minimize_over_angles,
    problem_from_moments,
    random_basis,
    random_moments,
    search_boundary,
)
from real_data import TWO_GROUPS, load, load_faces

PENALTIES = (0.0, 0.5, 2.5, 25.0)
ALPHAS = (0.0, 0.15, 5.0)


def moments_of(name, ddof=0):
    rows = load(name)
    return GroupMoments.from_rows(rows.z_scored(ddof=ddof), rows.groups)


def dimensions(p):
    """Few of few features, many and all but one; only two where that takes long."""
    return sorted({1, 3, p // 2, p - 1} if p < 40 else {3, p - 1})


def check_proven(problem, solution):
    """Assert that an answer is optimal, or unresolved where a group has only rounding.

    Roots of errors are steep: a small error is known to fewer digits than the tolerance.
    """
    assert solution.gap <= max(1e-9 * solution.objective, solution.resolution)
    if solution.status != "optimal":
        assert solution.status == "unresolved"
        errors = problem.errors(solution.components.T)
        assert errors.min() <= 1e-6 * problem.second_moments.traces.max()


def least_on_polygon(problem, solution):
    """The bound of the supporting lines, from their crossings alone.

    The scores are concave, so their least value over the region that the lines leave is found on
    its lower-left boundary; that is cut at its vertices, between which the scores are compared on a
    fine grid.
    """
    second = problem.second_moments.matrices
    criterion = problem.criterion
    traces = np.trace(second, axis1=1, axis2=2)
    lines = []
    for w in solution.supporting_weights:
        values = np.linalg.eigvalsh(np.tensordot(w, second, axes=1))
        lines.append((*w, w @ traces - values[::-1][: problem.n_components].sum()))
    lines = np.array([*lines, (1, 0, 0), (0, 1, 0)])
    corners = []
    for i, (a, b, c) in enumerate(lines):
        for e, f, g in lines[:i]:
            if abs(a * f - b * e) > 1e-12:
                point = np.linalg.solve([[a, b], [e, f]], [c, g])
                if (lines[:, :2] @ point >= lines[:, 2] - 1e-11 * traces.max()).all():
                    corners.append(np.maximum(point, 0.0))
    # Only neighbors along the boundary bound a cell; in between the region is convex.
    corners = np.array(sorted(corners, key=lambda point: (point[0], -point[1])))
    best = min(criterion.value(point, problem) for point in corners)
    for a, b in pairwise(corners):
        for share in np.linspace(0, 1, 9):
            best = min(best, criterion.value(a + share * (b - a), problem))
    return best


@pytest.mark.long
@pytest.mark.sweep
@pytest.mark.parametrize("name", TWO_GROUPS)
def test_robust_error_gap_is_proven_on_every_data_set(name, pytestconfig):
    moments = moments_of(name)
    by_lapack = pytestconfig.getoption("--path") == "auto"
    for number, d in enumerate(dimensions(moments.n_features)):
        for penalty in PENALTIES:
            # Each penalty and each radius at every number of dimensions, if not each pair.
            for alpha in select_cases(ALPHAS, 3, PENALTIES.index(penalty) + number):
                problem = problem_from_moments(moments, d, RobustErrorGap(penalty, alpha), "none")
                solution = search_boundary(problem)
                # Of an error that is nothing but rounding, float64 has no root of nine digits.
                check_proven(problem, solution)
                value = independent_value(problem, solution.components.T)
                slack = max(1e-12, solution.resolution)
                assert solution.objective == pytest.approx(value, rel=1e-9, abs=slack)
                if penalty == alpha == 0:
                    pooled = np.tensordot(
                        problem.proportions, problem.second_moments.matrices, axes=1
                    )
                    values, vectors = np.linalg.eigh(pooled)
                    pca = vectors[:, -d:]
                    # Where eigenvalues are tied, PCA may keep another of their directions.
                    if values[-d] - values[-d - 1] > 1e-9 * values[-1]:
                        atol = 1e-8 if by_lapack else max(1e-8, widest_angle(solution, pooled))
                        ours = solution.components.T @ solution.components
                        np.testing.assert_allclose(ours, pca @ pca.T, atol=atol)


def widest_angle(solution, matrix):
    """Inside a subspace the search ends once the gap is closed, which bounds the projector.

    |P - P*|_F^2 <= 2 gap / (lambda_d - lambda_d+1) for the d leading eigenvectors of a matrix.
    """
    values = np.linalg.eigvalsh(matrix)[::-1]
    d = len(solution.components)
    gap = max(solution.gap, solution.resolution)
    return np.sqrt(2 * gap / (values[d - 1] - values[d])) if d < len(values) else 0.0


@pytest.mark.long
@pytest.mark.sweep
@pytest.mark.counts
@pytest.mark.parametrize("name", TWO_GROUPS)
def test_robust_error_gap_takes_few_steps_on_every_data_set(name):
    moments = moments_of(name)
    for number, d in enumerate(dimensions(moments.n_features)):
        for penalty in PENALTIES[1::2]:
            for alpha in select_cases(ALPHAS[:2], 2, PENALTIES.index(penalty) // 2 + number):
                problem = problem_from_moments(moments, d, RobustErrorGap(penalty, alpha), "none")
                n_eigenproblems = search_boundary(problem, 1e-6).n_eigenproblems
                assert n_eigenproblems <= 90  # eight on average


# Standardized, uncentred, d = 3, alpha = 0.15: at penalties 0.5 and 2.5.
PUBLISHED = {
    "biodeg:group__ready_biodegradable": (29.664452, 49.176023),
    "german_credit:group__age_lt40": (41.870212, 45.998642),
    "statlog_landsat:group__soil": (3.331157, 4.183118),
    "wine_quality:group__colour": (4.490052, 5.342261),
    "letter:group__vowel": (7.667817, 8.500001),
    "magic:group__gamma": (4.919937, 9.368091),
    "parkinsons:group__sex": (5.379888, 6.321996),
    "default_credit:group__education": (10.474890, 12.153352),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_robust_error_gap_has_the_published_values(name):
    moments = moments_of(name)
    for penalty, value in zip((0.5, 2.5), PUBLISHED[name], strict=True):
        fair = FairPCA(3, criterion=RobustErrorGap(penalty, 0.15), center="none")
        solution = fair.fit_moments(moments).solution_
        assert solution.objective == pytest.approx(value, rel=1e-6)
        assert solution.status == "optimal"
        assert solution.theorem_3_2_holds is True


def test_the_supporting_lines_prove_the_bound():
    rng = np.random.default_rng(4)
    for penalty in (0.2, 1.0, 10.0):
        matrices = random_moments(rng, 2, 5)
        criterion = RobustErrorGap(penalty, 20.0)
        problem = build_problem(matrices, 2, criterion, [0.3, 0.7])
        solution = search_boundary(problem)
        assert least_on_polygon(problem, solution) >= solution.lower_bound - 1e-6
        for _ in range(300):
            basis = random_basis(rng, 5, 2)
            assert criterion.value(basis_errors(matrices, basis), problem) >= solution.lower_bound


@pytest.mark.parametrize("seed", mark_most_slow(range(12), 3))
def test_robust_error_gap_in_two_dimensions_by_brute_force(seed):
    rng = np.random.default_rng(seed)
    matrices = random_moments(rng, 2, 2)
    penalty, alpha = float(rng.choice([0.1, 0.6, 4.0])), float(rng.choice([0.0, 5.0, 200.0]))
    problem = build_problem(matrices, 1, RobustErrorGap(penalty, alpha), [0.35, 0.65])

    def value(line):
        # The error is measured along the normal, so that it is exact where it is small.
        normal = line[::-1, 0] * [1, -1]
        errors = np.maximum(normal @ matrices @ normal, 0.0)
        return problem.criterion.scores(errors, problem).max()

    brute, _ = minimize_over_angles(value)
    solution = search_boundary(problem)
    assert solution.objective == pytest.approx(brute, rel=1e-9)
    assert solution.status == "optimal"


def test_failure_of_theorem_3_2_is_reported():
    problem = build_problem(
        random_moments(np.random.default_rng(0), 2, 4), 3, RobustErrorGap(5, 900)
    )
    assert search_boundary(problem).theorem_3_2_holds is False
    assert (
        search_boundary(
            build_problem(problem.second_moments.matrices, 3, TotalError())
        ).theorem_3_2_holds
        is None
    )


@pytest.mark.long
@pytest.mark.sweep
@pytest.mark.parametrize("name", TWO_GROUPS)
def test_error_gap_and_equal_error_are_proven_on_every_data_set(name, pytestconfig):
    moments = moments_of(name)
    # A subspace that grows is solved in again, with small matrices, in each of its rounds. How many
    # it takes where rounding decides differs by processor.
    most = 70 if pytestconfig.getoption("--path") == "auto" else 75
    p = moments.n_features
    for number, d in enumerate(sorted({1, 3, p // 2, p - 1})):
        for n_centers, center in enumerate(("none", "group")):
            for penalty in select_cases(PENALTIES, 2, number + n_centers):
                problem = problem_from_moments(moments, d, ErrorGap(penalty), center)
                solution = search_boundary(problem)
                check_proven(problem, solution)
                value = independent_value(problem, solution.components.T)
                assert solution.objective == pytest.approx(value, rel=1e-9, abs=1e-12)
                assert solution.n_eigenproblems <= most
            _check_equal_error(problem_from_moments(moments, d, EqualError(), center))


def _check_equal_error(problem):
    first, second = problem.second_moments.matrices
    differences = np.sort(np.linalg.eigvalsh(first - second))
    n_smallest = problem.n_features - problem.n_components
    least = differences[:n_smallest].sum()
    most = differences[::-1][:n_smallest].sum()
    if least > 1e-9 or most < -1e-9:
        with pytest.raises(IncompatibleParameters) as error:
            search_boundary(problem)
        feasible_gap = float(error.value.args[0].rsplit(" ", 1)[1])
        assert feasible_gap == pytest.approx(max(least, -most), rel=1e-5)
        return
    solution = search_boundary(problem)
    check_proven(problem, solution)
    assert solution.constraint_violation <= 1e-9
    errors = basis_errors(problem.second_moments.matrices, solution.components.T)
    assert abs(errors[1] - errors[0]) <= 1e-9
    assert solution.objective == pytest.approx(problem.proportions @ errors, rel=1e-9, abs=1e-9)


@parametrize_diagonal(tolerance=[0.0, 0.2, 1.0, 3.0], seed=range(6))
def test_errors_within_a_tolerance_against_every_angle(seed, tolerance):
    """Two features, one component: every line through the origin is looked at."""
    first, second = random_moments(np.random.default_rng(seed), 2, 2)
    problem = build_problem([first, second], 1, EqualError(tolerance), [0.3, 0.7])
    angles = np.linspace(0, np.pi, 400_001)
    lines = np.array([np.cos(angles), np.sin(angles)])
    errors = [
        np.trace(matrix) - (lines * (matrix @ lines)).sum(axis=0) for matrix in (first, second)
    ]
    gaps = np.abs(errors[0] - errors[1])
    is_feasible = gaps <= tolerance + 1e-4
    if gaps.min() > tolerance + 1e-4:
        with pytest.raises(IncompatibleParameters, match="smallest achievable gap") as error:
            search_boundary(problem)
        feasible_gap = float(str(error.value.args[0]).rsplit(" ", 1)[1])
        assert feasible_gap == pytest.approx(gaps.min(), rel=1e-5)
        return
    best = (0.3 * errors[0] + 0.7 * errors[1])[is_feasible].min()
    solution = search_boundary(problem)
    assert solution.status == "optimal"
    assert solution.objective == pytest.approx(best, abs=2e-3)
    assert np.ptp(basis_errors([first, second], solution.components.T)) <= tolerance + 1e-9


def test_errors_within_a_tolerance_are_those_of_the_error_gap():
    """The multiplier of the constraint is the penalty that has the same answer."""
    moments = moments_of("default_credit:group__education")
    near = search_boundary(problem_from_moments(moments, 10, EqualError(0.05), "group"), 1e-13)
    weights = near.weights / near.weights.sum()
    q = moments.weights / moments.weights.sum()
    penalty = float(abs(weights[0] - q[0]))
    assert penalty > 0.01
    gap = search_boundary(problem_from_moments(moments, 10, ErrorGap(penalty), "group"), 1e-13)
    assert gap.objective == pytest.approx(near.objective + penalty * 0.05, rel=1e-11)
    # Beyond the gap of ordinary PCA the constraint says nothing.
    plain = search_boundary(problem_from_moments(moments, 10, TotalError(), "group"))
    free = search_boundary(
        problem_from_moments(moments, 10, EqualError(float(np.ptp(plain.errors)) + 1), "group")
    )
    assert free.objective == pytest.approx(plain.objective, rel=1e-12)


def test_a_large_penalty_is_equal_error():
    moments = moments_of("default_credit:group__education")
    # A value is least to second order: subspaces are known to the root of the tolerance.
    equal = search_boundary(problem_from_moments(moments, 10, EqualError(), "group"), 1e-13)
    gap = search_boundary(problem_from_moments(moments, 10, ErrorGap(25.0), "group"), 1e-13)
    np.testing.assert_allclose(
        gap.components.T @ gap.components, equal.components.T @ equal.components, atol=1e-6
    )


TOY = np.array([[2.0, 0], [3, 0], [4, 0], [0, 1], [0, 2], [0, 3]])


@parametrize_diagonal(trade_off=np.linspace(0, 1, 11), data=["toy", "credit"])
def test_theorem_1_of_the_notes(data, trade_off):
    if data == "toy":
        X = TOY
        groups = np.array(list("AAABBB"))
        d = 1
    else:
        rows = load("default_credit:group__education")
        X = rows.z_scored(ddof=0)
        groups = rows.groups
        d = 3
    labels = np.unique(groups)
    group_rows = [X[groups == label] for label in labels]
    second = [rows.T @ rows / len(rows) for rows in group_rows]
    pooled = X.T @ X / len(X)
    fair = FairPCA(d, criterion=Disparity(float(trade_off), labels[1]), center="none")
    fair.fit(X, sensitive_features=groups)
    matrix = trade_off * pooled + (1 - trade_off) * (second[1] - second[0])
    values, vectors = np.linalg.eigh(matrix)
    values = values[::-1]
    leading = vectors[:, -d:]
    ours = fair.components_.T @ fair.components_
    if values[d - 1] - values[d] > 1e-9:
        np.testing.assert_allclose(ours, leading @ leading.T, atol=1e-9)
    assert np.vdot(ours, matrix) == pytest.approx(values[:d].sum(), rel=1e-12)
    if trade_off == 1:
        pca = np.linalg.eigh(pooled)[1][:, ::-1][:, :d]
        np.testing.assert_allclose(ours, pca @ pca.T, atol=1e-9)


@pytest.mark.parametrize("center", ["none", "global", "group"])
def test_equal_error_has_no_disparity(center):
    fair = FairPCA(10, criterion="equal_error", center=center)
    rows = load("default_credit:group__education")
    fair.fit(rows.z_scored(ddof=0), sensitive_features=rows.groups)
    assert abs(fair.disparity_) <= 1e-9
    toy = FairPCA(1, criterion="equal_error", center="none")
    assert abs(toy.fit(TOY, sensitive_features=list("AAABBB")).disparity_) <= 1e-9


def test_counterexample_2_the_constant_of_theorem_b_2_must_stay():
    # Without sum_b q_b (e_b + eps_b) the paper's objective ranks subspaces in another order.
    rng = np.random.default_rng(8)
    matrices = random_moments(rng, 3, 4)
    criterion = RobustErrorGap(2.5, {f"group {g}": 0.5 for g in range(3)})
    problem = build_problem(matrices, 2, criterion, [0.2, 0.3, 0.5])
    bases = [random_basis(rng, 4, 2) for _ in range(200)]
    errors = np.array([basis_errors(matrices, basis) for basis in bases])
    values = np.array([criterion.value(error_pair, problem) for error_pair in errors])
    without = values - errors @ problem.proportions - 0.5
    assert np.argmin(values) != np.argmin(without)
    # The solver minimizes the criterion with its constant.
    solution = DualNewton().solve(problem, 1e-9)
    assert solution.objective <= values.min()
    value = independent_value(problem, solution.components.T)
    assert solution.objective == pytest.approx(value, rel=1e-9)


def test_heavy_penalties_do_not_give_the_minimax_loss():
    # Section 9, 3: they equalize errors, Samadi et al. equalize excess losses.
    moments = moments_of("default_credit:group__education")
    heavy = FairPCA(10, criterion=ErrorGap(25.0), center="group").fit_moments(moments)
    fair = FairPCA(10, criterion=MinimaxLoss(), center="group").fit_moments(moments)
    assert heavy.group_losses_.max() > 1.2 * fair.group_losses_.max()


@pytest.mark.long
def test_faces_robust_error_gap():
    rows = load_faces()
    moments = GroupMoments.from_rows(rows.X, rows.groups)
    problem = problem_from_moments(moments, 20, RobustErrorGap(0.5, 0.15), "global")
    solution = search_boundary(problem)
    assert solution.status == "optimal"
    assert solution.gap <= 1e-9 * problem.total_variance
    assert solution.n_eigenproblems <= 60
    value = independent_value(problem, solution.components.T)
    assert solution.objective == pytest.approx(value, rel=1e-9)


@pytest.mark.parametrize("tol", [1e-3, 1e-6])
def test_robust_bound_holds_where_nearly_tied_subspaces_miss_their_line(tol):
    # The second group's total variance is below a tolerance of 1e-3, but a steep score counts it.
    matrices = np.array(
        [
            [[1.07799728, 0.219508506], [0.219508506, 0.0512709]],
            [[1.26191451e-05, 7.34085670e-06], [7.34085670e-06, 6.51833946e-06]],
        ]
    )
    criterion = RobustErrorGap(1000.0, {"group 0": 357.5, "group 1": 7522.2})
    problem = build_problem(matrices, 1, criterion, [0.99774628, 0.00225372])
    solution = search_boundary(problem, tol)
    least, _ = minimize_over_angles(lambda basis: independent_value(problem, basis))
    assert solution.lower_bound <= least * (1 + 1e-12)
    if solution.status == "optimal":
        assert solution.objective <= least + solution.absolute_tol * 1.001
    assert solution.objective <= least * (1 + 1e-9)


def _fit_equal_error(X, groups, tolerance):
    model = FairPCA(2, criterion=EqualError(tolerance=tolerance), restriction=MeanParity())
    return model.fit(X, sensitive_features=groups).solution_


@pytest.mark.parametrize("seed", mark_most_long(range(3), 3))
def test_the_bound_at_the_smallest_feasible_gap_counts_variances_outside_of_the_restriction(seed):
    rng = np.random.default_rng(seed)
    wide = rng.normal(size=(60, 5)) @ rng.normal(size=(5, 5)) * 3 + rng.normal(size=5)
    X = np.vstack([wide, rng.normal(size=(60, 5)) + rng.normal(size=5)])
    groups = np.repeat(["a", "b"], 60)
    with pytest.raises(IncompatibleParameters, match="smallest achievable gap") as error:
        _fit_equal_error(X, groups, 0.0)
    rounded_gap = float(str(error.value.args[0]).rsplit(" ", 1)[1])
    infeasible = rounded_gap * (1 - 1e-5)
    feasible = rounded_gap * (1 + 1e-5)
    for _ in range(30):
        middle = (infeasible + feasible) / 2
        try:
            _fit_equal_error(X, groups, middle)
        except IncompatibleParameters:
            infeasible = middle
        else:
            feasible = middle
    solution = _fit_equal_error(X, groups, feasible)
    assert solution.objective - solution.lower_bound <= 1e-6 * solution.objective
    # Slightly above, the gap of the errors binds in the interior, and the optimum is proven.
    interior = _fit_equal_error(X, groups, feasible * (1 + 1e-9))
    assert interior.status == "optimal"
    assert solution.lower_bound <= solution.objective
    assert solution.objective == pytest.approx(interior.objective, rel=1e-5)
