"""The root along a segment of weights of two groups, and the searches that use it."""

import numpy as np
import pytest

from case_selection import mark_most_slow
from fairspan import (
    DualNewton,
    EqualError,
    ErrorGap,
    FairPCA,
    GroupMoments,
    MinimaxError,
    MinimaxLoss,
    NashWelfare,
    RobustErrorGap,
)
from fairspan.moments.second_moments import DenseSecondMoments
from fairspan.solvers.two_groups.branch_and_bound import clip_to_quadrant
from fairspan.solvers.two_groups.frontier import supporting_contact
from fairspan.solvers.two_groups.geodesic import GrassmannGeodesic, face_endpoints
from fairspan.solvers.two_groups.root_search import RootSearch
from numpy_reference import projector_distance
from problems import basis_errors, build_problem, random_basis, random_moments, top_sum
from real_data import load

IDENTITY_COEFFICIENTS = np.eye(2)


def make_search(matrices, d, coefficients=IDENTITY_COEFFICIENTS, *, constrained=False):
    criterion = EqualError() if constrained else MinimaxError()
    problem = build_problem(np.array(matrices, dtype=float), d, criterion)

    def values_at(basis, errors):
        return tuple((coefficients @ errors).tolist())

    return RootSearch(problem, 1e-9, coefficients, values_at, constrained=constrained)


def prove(search):
    """The dual at the weights that the search gives, by numpy alone."""
    matrices = search.second_moments.matrices
    mixture = np.tensordot(search.weights_at(search.best_t), matrices, axes=1)
    bound = np.trace(mixture) - top_sum(mixture, search.problem.n_components)
    return bound / (1 - search.best_t) if search.constrained else bound


@pytest.mark.parametrize("seed", range(10))
def test_the_bound_at_any_weight_is_below_every_subspace(seed):
    rng = np.random.default_rng(seed)
    matrices = random_moments(rng, 2, 5)
    search = make_search(matrices, 2)
    for t in rng.uniform(0, 1, 5):
        contact = search.solve_at(t)
        for _ in range(100):
            errors = basis_errors(matrices, random_basis(rng, 5, 2))
            assert (1 - t) * errors[0] + t * errors[1] >= contact.dual_value * (1 - 1e-12)
            assert errors.max() >= search.lower_bound * (1 - 1e-12)
    assert search.lower_bound == pytest.approx(prove(search), rel=1e-12)


def random_searches(constrained):
    for seed in range(100):
        rng = np.random.default_rng(seed)
        p = int(rng.integers(2, 13))
        d = int(rng.integers(1, p))
        matrices = random_moments(rng, 2, p)
        coefficients = IDENTITY_COEFFICIENTS
        if constrained:
            pooled = matrices.mean(axis=0)
            errors = basis_errors(matrices, np.linalg.eigh(pooled)[1][:, ::-1][:, :d])
            sign = 1.0 if errors[0] >= errors[1] else -1.0
            coefficients = np.array([[0.5, 0.5], [sign, -sign]])
        search = make_search(matrices, d, coefficients, constrained=constrained)
        left = search.solve_at(0.0)
        right = search.solve_at(1.0)
        if left.residual > 0 > right.residual:
            search.refine_bracket(left, right)
            yield matrices, search


@pytest.mark.parametrize(("constrained", "max_mean"), [(False, 8), (True, 10)])
def test_random_problems_are_closed_in_few_steps(constrained, max_mean):
    counts = []
    for matrices, search in random_searches(constrained=constrained):
        errors = basis_errors(matrices, search.basis)
        # What the excess may be still counts in the value through the multiplier alone.
        assert not constrained or abs(errors[0] - errors[1]) <= 1e-9 * errors.mean()
        value, rel = (errors.mean(), 1e-9) if constrained else (errors.max(), 1e-10)
        assert search.upper_bound == pytest.approx(value, rel=rel)
        assert search.upper_bound - search.lower_bound <= 1e-9 * search.upper_bound
        assert search.lower_bound == pytest.approx(prove(search), rel=rel)
        counts.append(search.n_eigenproblems)
    assert len(counts) >= 50
    assert max(counts) <= 14
    assert np.mean(counts) <= max_mean


def test_a_subspace_beyond_the_constraint_is_not_taken():
    matrices = random_moments(np.random.default_rng(0), 2, 4)
    search = make_search(matrices, 2, np.array([[0.5, 0.5], [1.0, -1.0]]), constrained=True)
    search.solve_at(0.0)
    assert (search.upper_bound, search.basis) == (np.inf, None)


@pytest.mark.parametrize(
    ("polygon", "clipped"),
    [
        ([(2, -1), (-1, 2), (2, 2)], [(0, 1), (0, 2), (1, 0), (2, 0), (2, 2)]),
        ([(0, 0), (1, 0), (0, 1)], [(0, 0), (0, 1), (1, 0)]),
        # What rounding has made negative is moved to the origin.
        ([(-1e-16, -2e-16), (-1e-17, 0)], [(0, 0), (0, 0)]),
        ([(-1, 1), (1, 1)], [(0, 1), (0, 1), (1, 1)]),
    ],
)
def test_polygons_are_clipped_to_the_quadrant(polygon, clipped):
    assert sorted(map(tuple, clip_to_quadrant(np.array(polygon, float)))) == clipped


# Data, components, criterion, and the most eigenproblems that a fit may take.
COUNTS = [
    ("default_credit:group__education", 5, MinimaxLoss(), 8),
    ("wine_quality:group__colour", 3, RobustErrorGap(2.5, 0.15), 30),
    ("german_credit:group__age_lt40", 3, "equal_error", 8),
    ("default_credit:group__education_sex6", 10, MinimaxLoss(), 14),
    ("adult_race5:group__race", 3, NashWelfare(), 17),
]


@pytest.mark.counts
@pytest.mark.parametrize(("name", "d", "criterion", "max_eigenproblems"), COUNTS)
def test_real_data_take_few_eigenproblems(name, d, criterion, max_eigenproblems):
    rows = load(name)
    moments = GroupMoments.from_rows(rows.z_scored(ddof=0), rows.groups)
    solution = FairPCA(d, criterion=criterion, center="group").fit_moments(moments).solution_
    assert solution.status == "optimal"
    assert solution.trace[-1].n_eigenproblems <= solution.n_eigenproblems
    assert 1 <= solution.n_eigenproblems <= max_eigenproblems


def test_the_bound_on_the_robust_error_gap_holds_far_from_zero():
    rng = np.random.default_rng(11)
    X = rng.standard_normal((5, 4)) + 1e6 * rng.standard_normal(4)
    fair = FairPCA(2, criterion=RobustErrorGap(), center="none")
    solution = fair.fit(X, sensitive_features=[0, 1, 0, 1, 0]).solution_
    assert solution.lower_bound <= solution.objective


@pytest.mark.parametrize("seed", mark_most_slow(range(12), 3))
def test_a_large_penalty_of_low_rank_or_common_axes_ends_without_a_warning(seed):
    """A step's equations may be singular where groups share their axes or have few."""
    rng = np.random.default_rng(seed)
    p = int(rng.integers(6, 20))
    k = int(rng.integers(3, 5))
    axes = np.linalg.qr(rng.standard_normal((p, p)))[0]
    values = rng.uniform(0.1, 3, (k, p)) * (np.arange(p) < (p if seed % 2 else p // 3))
    matrices = np.array([(axes * eigenvalues) @ axes.T for eigenvalues in values])
    matrices = (matrices + matrices.transpose(0, 2, 1)) / 2
    solution = DualNewton().solve(build_problem(matrices, 2, ErrorGap(256.0)), 1e-9)
    assert solution.lower_bound <= solution.objective


def make_tied_edge(seed, n_fixed, n_tied, n_free, p=9):
    """Two matrices whose sum has an eigenvalue of multiplicity n_tied at position d."""
    rng = np.random.default_rng(seed)
    spectrum = np.r_[np.linspace(9, 7, n_fixed), np.full(n_tied, 4.0)]
    spectrum = np.r_[spectrum, np.linspace(2, 1, p - len(spectrum))]
    turn = np.linalg.qr(rng.standard_normal((p, p)))[0]
    mixture = (turn * spectrum) @ turn.T
    half = rng.standard_normal((p, p))
    first = half + half.T
    second_moments = DenseSecondMoments(np.array([first, mixture - first]))
    leading = second_moments.leading(np.ones(2), n_fixed + n_free)
    return second_moments, leading, face_endpoints(second_moments, np.array([1.0, -1.0]), leading)


def difference_of(second_moments, basis):
    """h.c(V) along h = (1, -1)."""
    return second_moments.captured_variances(basis) @ [1, -1]


@pytest.mark.parametrize(
    ("n_fixed", "n_tied", "n_free"), [(0, 2, 1), (2, 5, 2), (1, 6, 4), (3, 4, 3), (0, 9, 4)]
)
def test_every_point_of_the_edge_is_reached_without_leaving_it(n_fixed, n_tied, n_free):
    second_moments, leading, ends = make_tied_edge(n_tied, n_fixed, n_tied, n_free)
    assert leading.n_untied == n_fixed
    low, high = (difference_of(second_moments, end) for end in ends)
    assert low < high
    for target in np.linspace(low, high, 11)[1:-1]:
        basis = GrassmannGeodesic(*ends[::-1]).find_root(
            lambda basis, target=target: difference_of(second_moments, basis) - target,
            (high - target, low - target),
            1e-12,
        )
        np.testing.assert_allclose(basis.T @ basis, np.eye(n_fixed + n_free), atol=1e-12)
        captured_variances = second_moments.captured_variances(basis)
        reached = captured_variances @ [1, -1], captured_variances.sum()
        assert reached == pytest.approx((target, leading.eigenvalue_sum), abs=1e-10)


def test_ends_of_the_edge_are_extreme():
    second_moments, leading, ends = make_tied_edge(1, 1, 4, 2)
    low, high = (difference_of(second_moments, end) for end in ends)
    rng = np.random.default_rng(0)
    for _ in range(200):
        pick = leading.tied_vectors @ np.linalg.qr(rng.standard_normal((4, 2)))[0]
        basis = np.hstack([leading.vectors[:, :1], pick])
        assert low - 1e-10 <= difference_of(second_moments, basis) <= high + 1e-10


def test_the_foot_of_a_near_tie_is_on_the_supporting_line():
    # The mixture with weights (1, 0) has eigenvalues 3, 2 and 1.9, of which two are taken as tied.
    problem = build_problem([np.diag([3.0, 2.0, 1.9]), np.diag([1.0, 1.0, 5.0])], 2, MinimaxError())
    ends = supporting_contact(problem, 0.0, 0.2)
    assert sorted(end.errors[0] for end in ends) == pytest.approx([1.9, 2.0])
    assert [end.foot[0] for end in ends] == pytest.approx([1.9, 1.9], rel=1e-14)
    assert [end.foot[1] for end in ends] == [end.errors[1] for end in ends]


SIZES = pytest.mark.parametrize(("p", "d"), [(2, 1), (5, 2), (6, 5), (9, 4), (4, 4)])
SHARES = np.linspace(0, 1, 11)


def ends(p, d):
    rng = np.random.default_rng(10 * p + d)
    return random_basis(rng, p, d), random_basis(rng, p, d)


@SIZES
def test_it_leads_from_one_to_the_other_through_orthonormal_bases(p, d):
    first, last = ends(p, d)
    path = GrassmannGeodesic(first, last)
    for share, end in ((0.0, first), (1.0, last)):
        assert projector_distance(path.basis_at(share).T, end.T) <= 1e-13
    for share in SHARES:
        basis = path.basis_at(share)
        np.testing.assert_allclose(basis.T @ basis, np.eye(d), atol=1e-14)


@pytest.mark.parametrize("angle", [0.0, 1e-12, 1e-6, 1.0, np.pi / 2])
def test_geodesics_of_small_and_right_angles_are_accurate(angle):
    turn = random_basis(np.random.default_rng(0), 5, 5)
    first = turn[:, :2]
    last = np.column_stack([turn[:, 0], np.cos(angle) * turn[:, 1] + np.sin(angle) * turn[:, 2]])
    path = GrassmannGeodesic(first, last)
    assert path.angles.max() == pytest.approx(angle, rel=1e-3, abs=1e-15)
    for share in SHARES:
        basis = path.basis_at(share)
        np.testing.assert_allclose(basis.T @ basis, np.eye(2), atol=1e-14)
        sine = np.sin(share * angle)
        np.testing.assert_allclose(np.linalg.norm(turn[:, 2] @ basis), sine, rtol=1e-3, atol=1e-15)


@pytest.mark.parametrize(("p", "d"), [(2, 1), (5, 2), (6, 5), (9, 4)])
@pytest.mark.parametrize("seed", range(5))
def test_a_zero_is_found(p, d, seed):
    first, last = ends(p, d)
    half = np.random.default_rng(seed).standard_normal((p, p))
    difference = half + half.T

    def captured_difference(basis):
        return float(np.vdot(basis, difference @ basis))

    low = captured_difference(first)
    high = captured_difference(last)
    for share in (1e-6, 0.2, 0.9):
        level = low + share * (high - low)
        sign = 1.0 if low > high else -1.0
        basis = GrassmannGeodesic(first, last).find_root(
            lambda b, level=level, sign=sign: sign * (captured_difference(b) - level),
            (sign * (low - level), sign * (high - level)),
            0.0,
        )
        np.testing.assert_allclose(basis.T @ basis, np.eye(d), atol=1e-14)
        assert captured_difference(basis) == pytest.approx(
            level, abs=1e-13 * np.abs(difference).sum()
        )


def test_a_value_within_the_tolerance_ends_the_search():
    path = GrassmannGeodesic(*np.eye(2)[:, :, None])
    calls = []

    def function(basis):
        calls.append(basis)
        return float(basis[0, 0] ** 2 - 0.3)

    for tolerance, max_calls in ((0.5, 3), (1e-3, 12), (0.0, 60)):
        calls.clear()
        basis = path.find_root(function, (0.7, -0.3), tolerance)
        assert abs(function(basis)) <= tolerance + 1e-15
        assert len(calls) <= max_calls + 1
