"""Fits, audits and reduced rows of sparse matrices agree with those of dense ones."""

import dataclasses
from operator import attrgetter

import numpy as np
import pytest
import scipy.sparse

from case_selection import parametrize_diagonal
from fairspan import (
    CovarianceParity,
    Disparity,
    ErrorGap,
    FairPCA,
    GroupMoments,
    MeanParity,
    Uncorrelated,
    audit,
    frontier,
    metrics,
    verify,
)
from fairspan.errors import IncompatibleParameters, InvalidInput, InvalidType
from numpy_reference import projector_distance, reference_errors, relative_error
from two_representations import (
    CRITERIA,
    OTHER_SOLVERS,
    assert_orthonormal,
    assert_same_optimum,
    assert_solver_comes_close,
    fit_sparse_and_dense,
    lower_limits,
    needs_process_status,
    run_with_peak,
)

KINDS = [scipy.sparse.csr_matrix, scipy.sparse.csc_array, scipy.sparse.coo_array]


def topics(seed=0, n=400, p=40, groups=("a", "b"), share=0.15):
    """Draw counts of words from topics that groups use in different proportions."""
    rng = np.random.default_rng(seed)
    labels = rng.choice(list(groups), n)
    sizes = {group: rng.uniform(0.3, 2.0, 6) for group in groups}
    words = np.abs(rng.standard_normal((6, p))) * (rng.random((6, p)) < 0.4)
    amounts = rng.exponential(1.0, (n, 6)) * np.array([sizes[label] for label in labels])
    X = amounts @ words + 0.2 * rng.standard_normal((n, p))
    return np.where(rng.random((n, p)) < share, X, 0.0), labels, rng.uniform(0.2, 3, n)


@pytest.fixture
def low_dense_limit(monkeypatch):
    """Treat few features as many."""
    lower_limits(monkeypatch, "moments.compute.MAX_DENSE_FEATURES")


def assert_same_fit(sparse, dense, *, status="estimated"):
    is_matrix_free = sparse.solution_.eigensolver == "matrix-free"
    assert is_matrix_free == (status == "estimated")
    total = dense.moments_.proportions @ np.einsum("gii->g", dense.moments_.second_moments())
    assert abs(sparse.solution_.objective - dense.solution_.objective) <= 1e-9 * total
    # Inside a small subspace the gap is closed to 1e-9, not to rounding, which leaves an angle.
    if dense.solution_.eigensolver == "dense":
        assert projector_distance(sparse.components_, dense.components_) <= 1e-6
        assert relative_error(sparse.group_errors_, dense.group_errors_) <= 1e-8
    assert dense.solution_.status == "optimal"
    assert sparse.solution_.status == ("optimal" if status == "optimal" else "estimated")
    assert sparse.solution_.gap <= sparse.solution_.absolute_tol


@pytest.mark.parametrize("kind", KINDS)
def test_few_features_are_fitted_by_matrices(kind):
    X, labels, weights = topics(share=0.05)
    assert_same_fit(*fit_sparse_and_dense(X, labels, weights, kind=kind), status="optimal")


@pytest.mark.usefixtures("low_dense_limit")
@parametrize_diagonal(seed=[0, 1], criterion=CRITERIA)
def test_every_criterion(criterion, seed):
    X, labels, _ = topics(seed, n=500)
    if criterion == "equal_error":  # within reach where both groups vary as much
        sizes = [X[labels == label].var(axis=0).sum() for label in "ab"]
        X[labels == "b"] *= np.sqrt(sizes[0] / sizes[1])
    assert_same_fit(*fit_sparse_and_dense(X, labels, d=4, kind=KINDS[seed], criterion=criterion))
    if criterion in ("minimax_loss", "minimax_error", "total_error"):
        assert_same_fit(*fit_sparse_and_dense(*topics(3, groups="abc")[:2], criterion=criterion))


def same_refusal(X, labels, expected_text, fair):
    """Return the message for sparse rows, which is that for dense ones."""
    errors = []
    for rows in (X, scipy.sparse.csr_array(X)):
        with pytest.raises(IncompatibleParameters, match=expected_text) as error:
            fair.fit(rows, sensitive_features=labels)
        errors.append(error.value)
    assert errors[0].args[0] == errors[1].args[0]
    return str(errors[1])


@pytest.mark.usefixtures("low_dense_limit")
def test_equal_errors_that_are_out_of_reach_tell_the_least_gap():
    X, labels, _ = topics()
    X[labels == "b"] *= 3
    expected_text = "no subspace of 2 dimensions"
    message = same_refusal(X, labels, expected_text, FairPCA(2, criterion="equal_error"))
    assert "restriction" not in message


@pytest.mark.usefixtures("low_dense_limit")
@parametrize_diagonal(
    center=["group", "none"], scale=[False, True], criterion=["minimax_loss", "error_gap"]
)
def test_every_center_weights_and_scaling(criterion, scale, center):
    X, labels, weights = topics(2)
    X[:, 4] += 30  # a column without zeros
    sparse, dense = fit_sparse_and_dense(
        X, labels, weights, criterion=criterion, scale=scale, center=center
    )
    assert_same_fit(sparse, dense)
    assert relative_error(sparse.mean_, dense.mean_) <= 1e-12
    if scale:
        assert relative_error(sparse.scale_, dense.scale_) <= 1e-12


@pytest.mark.usefixtures("low_dense_limit")
@pytest.mark.parametrize("allow_extra", [False, True])
def test_a_gap_that_stays_open_is_not_called_estimated(allow_extra):
    # Three groups, each with a direction of its own: one component cannot serve them equally.
    rng = np.random.default_rng(0)
    labels = np.repeat(list("abc"), 200)
    X = np.zeros((600, 40))
    X[np.arange(600), rng.integers(0, 40, 600)] = rng.standard_normal(600)
    X[np.arange(600), np.repeat([0, 1, 2], 200)] += 4 * rng.choice([-1, 1], 600)
    sparse, dense = fit_sparse_and_dense(X, labels, d=1, allow_extra=allow_extra)
    assert_same_optimum(sparse, dense, atol=1e-7 * X.var(axis=0).sum())
    expected = {"optimal": "estimated"}.get(dense.solution_.status, dense.solution_.status)
    assert sparse.solution_.status == expected
    assert len(sparse.components_) == len(dense.components_)


@pytest.mark.usefixtures("low_dense_limit")
def test_a_tie_is_resolved_as_with_matrices():
    # Mirror images: at equal weights both groups' first directions are tied.
    side = np.zeros((400, 60))
    rng = np.random.default_rng(1)
    side[:, 0] = 3 * rng.standard_normal(400)
    side[np.arange(400), rng.integers(2, 60, 400)] = 1.0
    mirrored = side.copy()
    mirrored[:, [0, 1]] = side[:, [1, 0]]
    X = np.vstack([side, mirrored])
    labels = np.repeat(["a", "b"], 400)
    sparse, dense = fit_sparse_and_dense(X, labels, d=1, center="group")
    assert sparse.solution_.status == "estimated"
    assert relative_error(sparse.group_losses_, dense.group_losses_) <= 1e-9


@pytest.mark.usefixtures("low_dense_limit")
def test_more_components_than_the_rows_span():
    X, labels, _ = topics(4, n=40, p=60)
    X[:, 20:] = 0
    sparse, dense = fit_sparse_and_dense(X, labels, d=25)
    assert_orthonormal(sparse.components_, 25)
    np.testing.assert_allclose(sparse.group_errors_, dense.group_errors_, atol=1e-12)


@pytest.mark.usefixtures("low_dense_limit")
@pytest.mark.filterwarnings("ignore:All rows belong to")
@pytest.mark.parametrize("criterion", ["minimax_loss", "total_error", "robust_error_gap"])
def test_rows_of_zeros_a_single_group_and_all_components(criterion):
    X, labels, _ = topics(n=30, p=8, share=0.5)
    for table, groups, d in ((0 * X, labels, 2), (X, ["a"] * 30, 2), (X, labels, 8)):
        sparse, dense = fit_sparse_and_dense(table, groups, d=d, criterion=criterion)
        assert sparse.components_.shape == (d, 8)
        np.testing.assert_allclose(sparse.group_errors_, dense.group_errors_, atol=1e-12)
        # The root of an error that is zero up to rounding is not known to the tolerance.
        steep = criterion == "robust_error_gap" and d == 8
        assert sparse.solution_.status == ("unresolved" if steep else "estimated")


@pytest.mark.usefixtures("low_dense_limit")
@pytest.mark.parametrize("solver", OTHER_SOLVERS)
def test_other_solvers(solver):
    X, labels, _ = topics()
    rows = scipy.sparse.csr_array(X)
    solution = assert_solver_comes_close(solver, rows, X, labels, max_excess=1e-2)
    assert solution.status != "optimal"


@pytest.mark.usefixtures("low_dense_limit")
@parametrize_diagonal(groups=["ab", "abc"], criterion=CRITERIA)
def test_equal_means_without_matrices(criterion, groups):
    two_alone = ("disparity", "equal_error", "error_gap", "robust_error_gap")
    if criterion == "equal_error" or (groups == "abc" and criterion in two_alone):
        return
    X, labels, weights = topics(groups=groups)
    X[:, 3] += 2.0 * (labels == "b")
    settings = {"criterion": criterion, "restriction": MeanParity(), "scale": groups == "ab"}
    sparse, dense = fit_sparse_and_dense(X, labels, weights, d=4, **settings)
    assert_same_fit(sparse, dense)
    near = 1e-6 if criterion == "nash_welfare" else 1e-8
    np.testing.assert_allclose(sparse.group_losses_, dense.group_losses_, rtol=near, atol=near)
    means = [
        np.average(sparse.transform(X[labels == group]), axis=0, weights=weights[labels == group])
        for group in groups
    ]
    np.testing.assert_allclose(means, means[:1] * len(groups), atol=1e-12)
    assert verify(sparse, scipy.sparse.csr_array(X), labels, sample_weight=weights).holds


@pytest.mark.usefixtures("low_dense_limit")
def test_equal_means_of_nested_components_without_matrices():
    X, labels, _ = topics()
    sparse, dense = fit_sparse_and_dense(X, labels, restriction=MeanParity(), nested=True)
    for d in (1, 2, 3):
        one, other = (fair.subspace_.truncate(d) for fair in (sparse, dense))
        assert projector_distance(one.components, other.components) <= 1e-6
        assert one.certificate.objective == pytest.approx(other.certificate.objective, rel=1e-7)
    apart = np.subtract(*(sparse.transform(X[labels == group]).mean(axis=0) for group in "ab"))
    np.testing.assert_allclose(apart, 0, atol=1e-12)


@pytest.mark.usefixtures("low_dense_limit")
def test_equal_means_leave_too_few_directions_without_matrices():
    X, labels, _ = topics(n=60, p=8)
    same_refusal(X, labels, "at most 7", FairPCA(8, restriction=MeanParity()))
    largest = FairPCA(7, restriction=MeanParity())
    largest.fit(scipy.sparse.csr_array(X), sensitive_features=labels)
    assert_orthonormal(largest.components_, 7)


@pytest.mark.usefixtures("low_dense_limit")
def test_components_that_leave_what_is_allowed_are_not_verified(monkeypatch):
    X, labels, _ = topics()
    rows = scipy.sparse.csr_array(X)
    hidden = FairPCA(2, restriction=MeanParity()).fit(rows, sensitive_features=labels).subspace_
    apart = np.subtract(*(X[labels == group].mean(axis=0) for group in "ab"))
    altered = hidden.components + 1e-6 * np.outer([1, 0], apart / np.linalg.norm(apart))
    cheat = dataclasses.replace(hidden, components=np.linalg.qr(altered.T)[0].T)
    monkeypatch.setattr("fairspan.moments.row_moments._MAX_MATRIX_ENTRIES", 0)
    assert verify(hidden, rows, labels).holds
    result = verify(cheat, rows, labels)
    assert not result.holds
    assert "leave the allowed directions" in result.messages[0]


@pytest.mark.usefixtures("low_dense_limit")
@pytest.mark.parametrize(
    "restriction", [MeanParity(tolerance=0.1), MeanParity(oblique=True), CovarianceParity()]
)
def test_functions_that_need_matrices_refuse_sparse_moments(restriction):
    X, labels, _ = topics()
    X = scipy.sparse.csr_array(X)
    with pytest.raises(IncompatibleParameters, match="fitted without matrices"):
        FairPCA(2, criterion="total_error", restriction=restriction).fit(
            X, sensitive_features=labels
        )
    with pytest.raises(IncompatibleParameters, match="a fraction"):
        FairPCA(0.5).fit(X, sensitive_features=labels)
    moments = GroupMoments.from_rows(X, labels)
    assert isinstance(moments, GroupMoments)
    FairPCA(2, criterion="total_error", restriction=restriction).fit_moments(moments)
    with pytest.raises(InvalidType, match="Allowed: a GroupMoments"):
        frontier(FairPCA(2).fit(X, sensitive_features=labels).moments_, 2)


@pytest.mark.usefixtures("low_dense_limit")
def test_sparse_rows_with_columns_not_to_correlate_with_get_matrices():
    X, labels, _ = topics()
    model = FairPCA(2, restriction=Uncorrelated([0]))
    model.fit(scipy.sparse.csr_array(X), sensitive_features=labels)
    assert isinstance(model.moments_, GroupMoments)
    assert np.corrcoef(model.transform(X[:, 1:]).T, X[:, 0])[2, :2] == pytest.approx(0, abs=1e-9)
    # Rows that were kept without the columns cannot be restricted later.
    free = FairPCA(2).fit(scipy.sparse.csr_array(X), sensitive_features=labels)
    assert free.solution_.eigensolver == "matrix-free"
    with pytest.raises(InvalidInput, match="columns"):
        model.fit_moments(free.moments_)


@pytest.mark.usefixtures("low_dense_limit")
def test_partial_fit_merges_matrices():
    X, labels, _ = topics()
    batch = FairPCA(3).fit(X, sensitive_features=labels)
    parts = FairPCA(3)
    for part in (slice(None, 150), slice(150, 250), slice(250, None)):
        parts.partial_fit(scipy.sparse.csr_array(X[part]), sensitive_features=labels[part])
    assert_same_fit(parts, batch, status="optimal")


@parametrize_diagonal(dtype=[np.float64, np.float32, np.int64], scale=[False, True], kind=KINDS)
def test_transform_and_scores(kind, scale, dtype):
    X, labels, _ = topics()
    X = np.round(4 * X).astype(dtype)
    fair = FairPCA(3, scale=scale).fit(X, sensitive_features=labels)
    reduced = fair.transform(kind(X))
    expected = fair.transform(X)
    assert type(reduced) is np.ndarray
    assert reduced.dtype == expected.dtype
    tolerance = 1e-5 if dtype == np.float32 else 1e-10
    np.testing.assert_allclose(reduced, expected, atol=tolerance)
    for function in (fair.score_samples, fair.score, fair.subspace_.transform):
        np.testing.assert_allclose(function(kind(X)), function(X), atol=tolerance)


def test_transform_in_parts(monkeypatch):
    X, labels, _ = topics()
    fair = FairPCA(3).fit(X, sensitive_features=labels)
    monkeypatch.setattr("fairspan.rows.sparse_rows._CHUNK_ENTRIES", 100)
    np.testing.assert_allclose(fair.transform(scipy.sparse.csr_array(X)), fair.transform(X))


def test_rows_that_cannot_be_reduced():
    X, labels, _ = topics()
    fair = FairPCA(3).fit(scipy.sparse.csr_array(X), sensitive_features=labels)
    narrow = X[:, :-1].copy()
    X[3, 2] = np.nan
    for rows, message in (
        (narrow, "X has 39 features"),
        (X, r"NaN, first in row 4 \(index 3\), column 3 \(index 2\)"),
    ):
        for method in (fair.transform, fair.score_samples):
            with pytest.raises(ValueError, match=message):
                method(scipy.sparse.csr_array(rows))


@pytest.mark.usefixtures("low_dense_limit")
def test_an_audit_has_the_figures_and_intervals_of_the_dense_rows():
    X, labels, weights = topics()
    sparse = scipy.sparse.csc_array(X)
    fair = FairPCA(3).fit(sparse, sensitive_features=labels, sample_weight=weights)
    mine = audit(fair, sparse, labels, sample_weight=weights, folds=5)
    theirs = audit({"fair": fair.subspace_}, X, labels, sample_weight=weights, folds=None).models[0]
    assert [model.name for model in mine.models] == ["minimax loss", "PCA"]
    figures = attrgetter(
        *("observed_total_variance", "observed_best_error", "observed_variance_kept"),
        *("observed_error.value", "observed_error.low", "observed_error.high"),
    )
    for one, other in zip(mine.models[0].groups, theirs.groups, strict=True):
        assert figures(one) == pytest.approx(figures(other), rel=1e-9)
        assert one.observed_loss == pytest.approx(
            other.observed_loss, abs=1e-8 * one.observed_total_variance
        )
    reference = reference_errors(X, labels, fair.components_, fair.mean_, weights)
    assert relative_error(fair.group_errors_, reference) <= 1e-9
    assert [group.observed_error.value for group in mine.models[0].groups] == pytest.approx(
        reference
    )
    assert any("not proven (estimated)" in str(finding) for finding in mine.findings)


@pytest.mark.usefixtures("low_dense_limit")
def test_metrics_take_sparse_rows():
    X, labels, _ = topics()
    fair = FairPCA(3).fit(X, sensitive_features=labels)
    for figure in (metrics.reconstruction_error, metrics.excess_loss):
        sparse = figure(fair, scipy.sparse.csr_array(X), labels)
        assert sparse == pytest.approx(figure(fair, X, labels), rel=1e-8, abs=1e-8)


LARGE = """
rng = np.random.default_rng(0)
n, p, cells = 100_000, 3_000, 500_000
rows, topic, group = rng.integers(0, n, cells), rng.integers(0, 8, n), rng.integers(0, 2, n)
own = rng.random(cells) < 0.5
columns = np.where(own, topic[rows] * 50 + rng.integers(0, 50, cells), rng.integers(0, p, cells))
serves = group[rows] == topic[rows] % 2
values = rng.exponential(1.0, cells) * np.where(own, (1 + 0.15 * topic[rows]) * (1 + serves), 1.0)
X = scipy.sparse.csr_array((values, (rows, columns)), shape=(n, p))
fair = fairspan.FairPCA(5).fit(X, sensitive_features=group)
reduced = fair.transform(X)
print(json.dumps({
    "kilobytes": peak(),
    "status": fair.solution_.status,
    "gap": fair.solution_.gap,
    "tolerance": fair.solution_.absolute_tol,
    "losses": fair.group_losses_.tolist(),
    "shape": reduced.shape,
    "mean": float(np.abs(reduced.mean(axis=0)).max()),
}))
"""


@pytest.mark.long
@needs_process_status
def test_many_rows_and_features_in_little_memory():
    # Dense, the rows take 2.4 GB.
    figures = run_with_peak(LARGE)
    assert figures["kilobytes"] < 600_000
    assert figures["status"] == "estimated"
    assert figures["gap"] <= figures["tolerance"]
    assert figures["losses"][0] == pytest.approx(figures["losses"][1], abs=1e-7)
    assert figures["shape"] == [100_000, 5]
    assert figures["mean"] <= 1e-10


@pytest.mark.usefixtures("low_dense_limit")
def test_penalties_prefer_directions_that_no_group_leads_in():
    X, labels, _ = topics(6)
    for penalty in (5.0, 100.0):
        assert_same_fit(*fit_sparse_and_dense(X, labels, d=2, criterion=ErrorGap(penalty)))


@pytest.mark.usefixtures("low_dense_limit")
@pytest.mark.parametrize("seed", range(6))
def test_the_group_that_pca_serves_worse_where_it_leaves_no_error(seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((8, 12)) * (rng.random((8, 12)) < 0.15)
    labels = np.array(list("abababab"))
    sparse, dense = fit_sparse_and_dense(X, labels, d=7, criterion=Disparity(0.5))
    scale = np.abs(dense.group_errors_).max()
    assert abs(sparse.solution_.objective - dense.solution_.objective) <= 1e-9 * scale


@pytest.mark.usefixtures("low_dense_limit", "no_sparse_row_coordinates")
def test_features_that_are_zero_everywhere_change_nothing():
    """Test the fit without them, which is faster, against that of the other features."""
    random = np.random.default_rng(2)
    p = 60
    groups = np.arange(90) % 2
    X = random.standard_normal((90, p)) * (random.random((90, p)) < 0.2)
    places = np.sort(random.choice(200, p, replace=False))
    wide = scipy.sparse.lil_array((90, 200))
    wide[:, places] = X
    narrow = FairPCA(2).fit(scipy.sparse.csr_array(X), sensitive_features=groups)
    padded = FairPCA(2).fit(wide.tocsr(), sensitive_features=groups)
    assert padded.solution_.objective == pytest.approx(narrow.solution_.objective, rel=1e-9)
    components = np.asarray(padded.components_)
    assert not np.delete(components, places, axis=1).any()
    cosines = np.linalg.svd(components[:, places] @ narrow.components_.T)[1]
    np.testing.assert_allclose(cosines, 1.0, atol=1e-6)


def test_an_objective_below_the_rounding_of_sparse_rows_is_unresolved(monkeypatch):
    monkeypatch.setattr("fairspan.moments.compute.MAX_DENSE_FEATURES", 3)
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((60, 6))
    groups = np.arange(60) % 2
    rows[rng.random(rows.shape) < 0.5] = 0.0
    model = FairPCA(2, criterion="minimax_error")
    model.fit(scipy.sparse.csr_array(rows), sensitive_features=groups)
    assert model.solution_.status == "estimated"
    # The variance of the other columns is less than the rounding of this one.
    rows[:, 0] *= 1e16
    model.fit(scipy.sparse.csr_array(rows), sensitive_features=groups)
    assert model.solution_.resolution > model.solution_.objective
    assert model.solution_.status == "unresolved"
    # Zero by structure is distinguished from rounding: rows of rank two lose nothing.
    rows[:, 0] /= 1e16
    rows[:, 3:] = 0.0
    rows[:, 2] = rows[:, 1]
    model.fit(scipy.sparse.csr_array(rows), sensitive_features=groups)
    assert model.solution_.objective < 1e-12
    assert model.solution_.status == "estimated"


@pytest.mark.long
@pytest.mark.usefixtures("no_sparse_row_coordinates")
@pytest.mark.parametrize("seed", [7, 20])
def test_a_solution_next_to_close_eigenvalues_is_closed_and_verified(seed):
    # Eigenvalues of the mixture lie close together, so that a solution of other directions than the
    # leading ones is drawn out of every subspace by a little.
    rng = np.random.default_rng(seed)
    X = scipy.sparse.random(
        400, 1600, 0.02, format="csr", random_state=rng, data_rvs=rng.standard_normal
    )
    groups = np.arange(400) % 2
    model = FairPCA(3).fit(X, sensitive_features=groups)
    dense = FairPCA(3).fit_moments(GroupMoments.from_rows(X.toarray(), groups))
    assert model.solution_.eigensolver == "matrix-free"
    assert model.solution_.status == "estimated"
    assert model.solution_.n_eigenproblems < 150
    assert model.solution_.objective == pytest.approx(dense.solution_.objective, rel=1e-9)
    assert verify(model, X, groups).holds


@pytest.mark.usefixtures("low_dense_limit", "no_sparse_row_coordinates")
def test_a_table_of_zeros_is_never_made_dense(monkeypatch):
    def refuse(*_):
        raise AssertionError("rows of zeros were made dense")

    monkeypatch.setattr("fairspan.moments.group_rows.GroupRows.mean_squared_residual", refuse)
    rows = scipy.sparse.csr_array((60, 200))
    groups = np.arange(60) % 2
    fair = FairPCA(2).fit(rows, sensitive_features=groups)
    assert fair.solution_.eigensolver == "matrix-free"
    assert fair.group_errors_.tolist() == [0, 0]
    assert verify(fair.subspace_, rows, groups).holds
