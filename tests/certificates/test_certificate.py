"""Status and proof of answers to small problems that are solved by hand."""

import numpy as np
import pytest

from case_selection import mark_most_long, parametrize_diagonal
from fairspan import (
    BoundarySearch,
    EqualError,
    FairPCA,
    MeanParity,
    RobustErrorGap,
    verify,
)
from fairspan.errors import IncompatibleParameters
from numpy_reference import generate_group_rows
from problems import (
    build_problem,
)


@pytest.mark.parametrize(
    ("tol", "called"), [(1e-9, "optimal"), (1e-6, "optimal"), (0.01, "optimal within 1 %")]
)
def test_a_loose_tolerance_is_stated_with_the_status(tol, called):
    X, labels = generate_group_rows()
    model = FairPCA(2, tol=tol).fit(X, sensitive_features=labels)
    certificate = model.solution_
    assert (certificate.status, certificate.status_text) == ("optimal", called)
    for text in (repr(certificate), certificate._repr_html_(), model.subspace_._repr_html_()):
        assert f"{called}:" in text


@pytest.mark.parametrize("apart", [1.0, 1e7])
@pytest.mark.parametrize("criterion", ["total_error", "minimax_error", "minimax_loss"])
def test_distant_means_do_not_matter_under_mean_parity(criterion, apart):
    rng = np.random.default_rng(4)
    X = rng.standard_normal((200, 4)) * [1, 2, 3, 1]
    groups = np.arange(200) % 2
    X[groups == 1, 0] += apart
    fair = FairPCA(2, criterion=criterion, restriction=MeanParity())
    solution = fair.fit(X, sensitive_features=groups).solution_
    # Three directions remain, and the fit takes two; the error there is of the order of one.
    assert solution.scale <= 10
    if criterion != "minimax_loss":
        assert solution.absolute_tol == pytest.approx(1e-9 * solution.scale)
    assert solution.gap <= max(solution.absolute_tol, solution.resolution)
    assert solution.status in ("optimal", "unresolved")
    assert solution.status == "optimal" or apart > 1


def test_three_lines_next_to_a_column_of_large_numbers():
    """A gap of a third of the objective was once called optimal, with one column of 3e4."""
    angles = np.deg2rad([0, 60, 120])
    directions = np.c_[np.cos(angles), np.sin(angles)]
    X = np.array([[b * 3e4, *(s * v)] for v in directions for s in (1, -1) for b in (1, -1)])
    groups = np.repeat([0, 1, 2], 4)
    solution = FairPCA(2).fit(X, sensitive_features=groups).solution_
    assert solution.objective == pytest.approx(0.75, rel=1e-6)
    # A soft projection loses half of each line, and no bound by weights can be above that.
    assert solution.lower_bound == pytest.approx(0.5, rel=1e-6)
    assert solution.status == "open gap"
    assert solution.scale == solution.objective


def test_equal_errors_out_of_reach_next_to_large_numbers():
    first, second = np.diag([1e10, 1.0, 2.0]), np.diag([1.1e10, 3.0, 5.0])
    with pytest.raises(IncompatibleParameters, match=r"achievable gap is 2\."):
        BoundarySearch().solve(build_problem([first, second], 2, EqualError()), 1e-9)


@pytest.mark.parametrize("restriction", [None, MeanParity()], ids=str)
@pytest.mark.parametrize("power", [4, 7, 9, 10, 11, 12, 13])
def test_a_gap_that_is_a_share_of_the_objective_is_never_optimal(power, restriction):
    """Isotropic noise, S = b I + A, makes errors large and losses small."""
    rng = np.random.default_rng(power)
    axes = np.vstack([np.eye(5), -np.eye(5)]) * np.sqrt(5)
    spread, other = rng.standard_normal((2, 5, 5))
    noisy = np.linalg.cholesky(10.0**power * np.eye(5) + spread @ spread.T)
    rows = np.vstack([axes @ noisy.T, axes @ other + rng.standard_normal(5)])
    fair = FairPCA(2, restriction=restriction)
    solution = fair.fit(rows, sensitive_features=["a"] * 10 + ["b"] * 10).solution_
    assert solution.status in ("optimal", "unresolved")
    if solution.status == "optimal":
        told_from_zero = solution.objective > 2 * solution.resolution
        assert not told_from_zero or solution.gap <= 4e-5 * solution.objective


@pytest.mark.parametrize("power", [-150, 150])
def test_nash_welfare_of_far_larger_features_is_moved_by_the_logarithm_of_their_unit(power):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 4)) * [3, 2, 1, 1]
    groups = ["a", "b"] * 20
    plain, far = (
        FairPCA(2, criterion="nash_welfare").fit(X * unit, sensitive_features=groups)
        for unit in (1.0, 2.0**power)
    )
    shift = -2 * power * np.log(2)
    for name in ("objective", "lower_bound"):
        expected = getattr(plain.solution_, name) + shift
        assert getattr(far.solution_, name) == pytest.approx(expected, rel=1e-9)
    assert verify(far, X * 2.0**power, groups).holds


@parametrize_diagonal(tolerance=[1e-300, 1e-14, 1e-10, 1e-4], seed=range(3))
def test_a_limit_on_means_that_is_nearly_zero(seed, tolerance):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((60, 4))
    groups = np.arange(60) % 2
    X[groups == 1, 0] += 3
    near = FairPCA(2, criterion="total_error", restriction=MeanParity(tolerance))
    exact = FairPCA(2, criterion="total_error", restriction=MeanParity())
    near, exact = (model.fit(X, sensitive_features=groups).solution_ for model in (near, exact))
    assert near.status == "optimal"
    assert near.lower_bound <= near.objective <= exact.objective * (1 + 1e-12)
    # What the limit leaves of the direction of the means is of the size of the tolerance.
    assert near.lower_bound >= exact.objective - 4 * tolerance - 1e-10


@pytest.mark.parametrize("seed", mark_most_long(range(40), 4))
def test_robust_gap_where_a_restriction_leaves_no_choice(seed):
    """The polygon of supporting lines is then a single point, the errors themselves."""
    rows = np.random.default_rng(seed).standard_normal((40, 3))
    rows[::2] += [2, 1, 0]
    model = FairPCA(2, criterion=RobustErrorGap(2.0, 0.5), restriction=MeanParity())
    solution = model.fit(rows, sensitive_features=np.arange(40) % 2).solution_
    assert solution.status == "optimal"
    assert solution.objective * (1 - 1e-9) <= solution.lower_bound <= solution.objective


@pytest.mark.filterwarnings("ignore:All rows belong")
def test_zero_by_structure_is_optimal_next_to_dates():
    rng = np.random.default_rng(2)
    rows = np.column_stack([rng.standard_normal((40, 3)), np.full(40, 1.7e18)])
    groups = np.arange(40) % 2
    twice = np.vstack([rows, rows])
    cases = [
        (FairPCA(4), rows, groups),
        (FairPCA(3), rows, groups),
        (FairPCA(2), rows, np.zeros(40)),
        (FairPCA(2), twice, np.repeat([0, 1], 40)),
        (FairPCA(2, center="group"), twice, np.repeat([0, 1], 40)),
    ]
    for model, rows_of_case, labels in cases:
        model.fit(rows_of_case, sensitive_features=labels)
        assert model.solution_.objective == pytest.approx(0.0, abs=1e-12)
        assert model.solution_.status == "optimal"
