"""Fits of fewer rows than features, in coordinates, agree with fits of p x p matrices."""

import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from case_selection import mark_most_long, parametrize_diagonal
from fairspan import (
    CovarianceParity,
    Disparity,
    ErrorGap,
    FairPCA,
    GroupMoments,
    MeanParity,
    MinimaxError,
    audit,
    frontier,
    metrics,
    regression,
)
from fairspan.errors import FairspanWarning, IncompatibleParameters, InvalidInput, InvalidType
from numpy_reference import projector_distance, reference_errors, relative_error
from two_representations import (
    CENTERS,
    CRITERIA,
    OTHER_SOLVERS,
    alternate,
    assert_orthonormal,
    assert_same_optimum,
    assert_solver_comes_close,
    lower_limits,
    needs_process_status,
    run_with_peak,
)


@pytest.fixture(autouse=True)
def low_wide_limit(monkeypatch):
    lower_limits(monkeypatch, "moments.compute.MIN_WIDE_FEATURES")


def rows(seed=0, n=14, p=22, groups=("a", "b"), rank=None, offset=0.0):
    """Rows of groups that differ in shape and place, each group with as many as any other."""
    rng = np.random.default_rng(seed)
    labels = alternate(list(groups), n)
    shape = rng.uniform(0.3, 3.0, (len(groups), p))
    X = rng.standard_normal((n, p)) * alternate(shape, n)
    X += 0.7 * alternate(rng.standard_normal((len(groups), p)), n)
    if rank is not None:
        X = X[:, :rank] @ rng.standard_normal((rank, p))
    return X + offset * rng.uniform(0.5, 1, p), labels, rng.uniform(0.3, 3.0, n)


def fit_both(X, labels, weights=None, *, d=3, **settings):
    """Fit in coordinates, and from matrices."""
    arguments = {"sensitive_features": labels, "sample_weight": weights}
    thin = FairPCA(d, **settings).fit(X, **arguments)
    assert thin.solution_.eigensolver == "thin"
    moments = GroupMoments.from_rows(X, labels, weights)
    # Matrices alone cannot tell zero errors from rounding.
    moments = replace(moments, row_spread=thin.moments_.row_spread)
    return thin, FairPCA(d, **settings).fit_moments(moments)


def assert_same_fit(thin, dense, *, rtol=1e-9, same_subspace=True):
    total = dense.explained_variance_.sum() / dense.explained_variance_ratio_.sum()
    assert thin.solution_.eigensolver == "thin"
    assert thin.solution_.status == dense.solution_.status
    assert thin.solution_.gap <= max(thin.solution_.absolute_tol, thin.solution_.resolution)
    unit = 1.0 if "nash" in str(dense.criterion) else total
    assert_same_optimum(thin, dense, atol=rtol * unit, bound_atol=2e-9 * unit)
    assert_orthonormal(thin.components_, dense.n_components_)
    assert relative_error(thin.mean_, dense.mean_) <= 1e-14
    assert thin.groups_.tolist() == dense.groups_.tolist()
    if not same_subspace:
        return
    assert projector_distance(thin.components_, dense.components_) <= 1e-7
    np.testing.assert_allclose(thin.components_, dense.components_, atol=1e-6)
    # Near an optimum of logarithms, errors may trade places within the tolerance.
    slack = 1e-6 if "nash" in str(dense.criterion) else 1e-8
    for name in ("group_errors_", "group_losses_", "explained_variance_"):
        mine, theirs = getattr(thin, name), getattr(dense, name)
        assert np.abs(mine - theirs).max() <= slack * total
    for name in ("explained_variance_ratio_", "group_explained_variance_ratio_"):
        np.testing.assert_allclose(getattr(thin, name), getattr(dense, name), atol=slack)


@parametrize_diagonal(center=CENTERS, criterion=CRITERIA)
def test_every_criterion_and_center(criterion, center):
    X, labels, _ = rows()
    assert_same_fit(*fit_both(X, labels, criterion=criterion, center=center))


@parametrize_diagonal(
    center=CENTERS, scale=[False, True], criterion=["minimax_loss", "error_gap", "disparity"]
)
def test_weights_scaling_and_absent_rows(criterion, scale, center):
    X, labels, weights = rows(1)
    weights[[2, 5]] = 0.0
    thin, dense = fit_both(X, labels, weights, criterion=criterion, scale=scale, center=center)
    assert_same_fit(thin, dense)
    assert thin.moments_.counts.tolist() == [6, 6]
    if scale:
        assert relative_error(thin.scale_, dense.scale_) <= 1e-12


@parametrize_diagonal(
    center=CENTERS, criterion=["minimax_loss", "minimax_error", "total_error", "error_gap"]
)
def test_three_groups(criterion, center):
    X, labels, _ = rows(2, n=18, p=25, groups="abc")
    assert_same_fit(*fit_both(X, labels, criterion=criterion, center=center))


@pytest.mark.parametrize("allow_extra", [False, True])
def test_gaps_that_stay_open_and_soft_projections(allow_extra):
    # Each group has a direction of its own: one component cannot serve them equally.
    rng = np.random.default_rng(0)
    X = 0.05 * rng.standard_normal((12, 20))
    X[np.arange(12), np.arange(12) % 3] += np.repeat([3.0, -3.0], 6)
    labels = alternate(list("abc"), 12)
    thin, dense = fit_both(X, labels, d=1, allow_extra=allow_extra)
    assert_same_optimum(thin, dense, atol=1e-7 * X.var(axis=0).sum())
    assert thin.solution_.status == dense.solution_.status
    assert thin.components_.shape == dense.components_.shape
    lengths = np.linalg.norm(thin.components_, axis=1)
    np.testing.assert_allclose(lengths, np.linalg.norm(dense.components_, axis=1), atol=1e-4)
    figures = metrics.reconstruction_error(thin.subspace_, X, labels)
    assert list(figures.values()) == pytest.approx(thin.group_errors_.tolist(), rel=1e-9)


@parametrize_diagonal(center=CENTERS, criterion=["minimax_loss", "error_gap", "equal_error"])
def test_an_offset_of_a_million_deviations_costs_no_digits(criterion, center):
    X, labels, _ = rows(3)
    X = np.round(X * 2**20) / 2**20  # so that the offset rounds nothing
    offset = 2.0**20 * np.arange(1, X.shape[1] + 1)
    plain = FairPCA(3, criterion=criterion, center=center).fit(X, sensitive_features=labels)
    far, dense = fit_both(X + offset, labels, criterion=criterion, center=center)
    if center == "none":
        assert_same_fit(far, dense, same_subspace=False)
        return
    assert projector_distance(far.components_, plain.components_) <= 1e-8
    assert relative_error(far.group_errors_, plain.group_errors_) <= 1e-9
    assert far.solution_.status == "optimal"


@pytest.mark.parametrize("criterion", ["minimax_loss", "minimax_error"])
def test_repeated_rows_are_weights(criterion):
    X, labels, _ = rows(5, n=8, p=26)
    times = np.array([1, 2, 3, 1, 2, 1, 3, 2])
    weighted, _ = fit_both(X, labels, times, d=2, criterion=criterion)
    unweighted = FairPCA(2, criterion=criterion)
    unweighted.fit(np.repeat(X, times, axis=0), sensitive_features=np.repeat(labels, times))
    assert projector_distance(unweighted.components_, weighted.components_) <= 1e-7
    assert relative_error(unweighted.group_errors_, weighted.group_errors_) <= 1e-9


@parametrize_diagonal(
    d=[6, 7, 12, 16, 21, 22], criterion=[*CRITERIA[:6], ErrorGap(50.0), Disparity(0.05)]
)
def test_more_components_than_the_rows_span(criterion, d):
    # Six directions vary: beyond them, the others fill up, unless the criterion wants none.
    X, labels, _ = rows(6, n=14, rank=6)
    try:
        thin, dense = fit_both(X, labels, d=d, criterion=criterion)
    except IncompatibleParameters:
        moments = GroupMoments.from_rows(X, labels)
        with pytest.raises(IncompatibleParameters, match="no subspace"):
            FairPCA(d, criterion=criterion).fit_moments(moments)
        return
    assert_same_fit(thin, dense, same_subspace=False)
    errors = reference_errors(X, labels, thin.components_, thin.mean_)
    total = X.var(axis=0).sum()
    np.testing.assert_allclose(thin.group_errors_, errors, atol=1e-9 * total)
    np.testing.assert_allclose(thin.group_errors_, dense.group_errors_, atol=1e-8 * total)


@pytest.mark.filterwarnings("ignore:All rows belong to")
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("d", [1, 4, 11])
def test_a_single_group_is_principal_component_analysis(d, weighted):
    from sklearn.decomposition import PCA

    X, _, _ = rows(8, n=12, p=40)
    repeats = np.arange(12) % 3 + 1 if weighted else np.ones(12, dtype=int)
    pca = PCA(d, svd_solver="full").fit(np.repeat(X, repeats, axis=0))
    mine = FairPCA(d, missing_groups="ignore").fit(X, sample_weight=repeats)
    n = repeats.sum()
    np.testing.assert_allclose(
        mine.explained_variance_, pca.explained_variance_ * (n - 1) / n, rtol=1e-10
    )
    assert projector_distance(mine.components_, pca.components_) <= 1e-7
    np.testing.assert_allclose(np.abs(mine.components_ @ pca.components_.T), np.eye(d), atol=1e-7)
    np.testing.assert_allclose(mine.mean_, pca.mean_, rtol=1e-12)


def test_a_wide_range_of_units_keeps_its_digits():
    # A column of currency holds all but 1e-13 of the variance.
    X, labels, _ = rows(9, n=14, p=30)
    X[:, 4] *= 1e7
    thin, dense = fit_both(X, labels, d=5, criterion="total_error")
    axes = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)[2][:5]
    assert projector_distance(thin.components_, axes) <= 1e-7
    reference = reference_errors(X, labels, axes, X.mean(axis=0))
    assert relative_error(thin.group_errors_, reference) <= 1e-6
    assert thin.solution_.objective <= dense.solution_.objective * (1 + 1e-6)


@parametrize_diagonal(
    center=CENTERS, share=[0.3, 0.7, 0.95, 0.9999], criterion=["minimax_loss", "disparity"]
)
def test_a_share_of_variance(criterion, share, center):
    X, labels, _ = rows(10, n=10, p=13)
    try:
        thin, dense = fit_both(X, labels, d=share, criterion=criterion, center=center)
    except IncompatibleParameters:
        moments = GroupMoments.from_rows(X, labels)
        with pytest.raises(IncompatibleParameters, match="kept by a group"):
            FairPCA(share, criterion=criterion, center=center).fit_moments(moments)
        return
    assert thin.n_components_ == dense.n_components_
    assert (thin.group_explained_variance_ratio_.sum(axis=1) >= share - 1e-9).all()
    # A direction without variance is any of many.
    unique = criterion == "minimax_loss" and thin.n_components_ < 9
    assert_same_fit(thin, dense, same_subspace=unique)


@pytest.mark.parametrize("center", CENTERS)
@pytest.mark.parametrize(
    "restriction",
    [MeanParity(), MeanParity(0.5), CovarianceParity(21), CovarianceParity(18)],
)
def test_restrictions(restriction, center):
    X, labels, _ = rows(11)
    thin, dense = fit_both(
        X, labels, d=2, criterion="total_error", restriction=restriction, center=center
    )
    # About the origin, directions along which rows agree but do not vary are any of many.
    if center != "none" or restriction != CovarianceParity(18):
        assert_same_fit(thin, dense)
    differences = thin.components_ @ (X[labels == "a"].mean(axis=0) - X[labels == "b"].mean(axis=0))
    limit = getattr(restriction, "tolerance", None) or 0.0
    assert np.linalg.norm(differences) <= limit + 1e-9
    assert thin.solution_.restriction == restriction


@pytest.mark.parametrize("criterion", ["minimax_loss", "error_gap"])
def test_mean_parity_of_three_groups_at_an_offset(criterion):
    X, labels, _ = rows(12, n=15, groups="abc")
    settings = {"criterion": criterion, "restriction": MeanParity()}
    thin, dense = fit_both(X, labels, d=3, **settings)
    assert_same_fit(thin, dense)
    far = FairPCA(3, **settings).fit(X + 2.0**20, sensitive_features=labels)
    assert projector_distance(far.components_, thin.components_) <= 1e-6


def test_means_that_agree_take_no_direction_away():
    X, labels, _ = rows(13)
    for label in "ab":
        X[labels == label] -= X[labels == label].mean(axis=0)
    X = np.round(X * 2**10) / 2**10
    X[-2:] -= X[::2].sum(axis=0), X[1::2].sum(axis=0)
    X += 2.0**20
    free = FairPCA(3).fit(X, sensitive_features=labels)
    hidden = FairPCA(3, restriction=MeanParity()).fit(X, sensitive_features=labels)
    assert projector_distance(free.components_, hidden.components_) <= 1e-7


def test_infeasible_restrictions_report_the_number_of_features():
    X, labels, _ = rows(14)
    for d, restriction, message in (
        (22, MeanParity(), "at most 21: the restriction removes 1 of 22"),
        (2, CovarianceParity(), r"vary along only 13 of 22.*from 2 to 21.*up to 9"),
        (5, CovarianceParity(4), "from 5 to 21"),
    ):
        with pytest.raises(IncompatibleParameters, match=message):
            FairPCA(d, restriction=restriction).fit(X, sensitive_features=labels)


@pytest.mark.parametrize("solver", OTHER_SOLVERS)
def test_other_solvers(solver):
    X, labels, _ = rows(15)
    solution = assert_solver_comes_close(solver, X, X, labels, max_excess=5e-2)
    assert solution.eigensolver == "thin"


@pytest.mark.filterwarnings("ignore:Constant columns")
@parametrize_diagonal(scale=[False, True], d=[1, 4, 12])
def test_rows_that_are_all_equal(d, scale):
    X = np.full((6, 12), 3.7)
    for center in CENTERS:
        thin, dense = fit_both(X, list("aabbab"), d=d, scale=scale, center=center)
        assert thin.components_.shape == (d, 12)
        assert_orthonormal(thin.components_, d)
        np.testing.assert_allclose(thin.group_errors_, dense.group_errors_, atol=1e-12)
        assert thin.solution_.status == dense.solution_.status


def test_a_group_of_equal_rows_has_no_logarithm():
    X, labels, _ = rows(18)
    X[labels == "b"] = X[1]
    with pytest.raises(IncompatibleParameters, match="without variance"):
        FairPCA(2, criterion="nash_welfare", center="group", solver="dual_newton").fit(
            X, sensitive_features=labels
        )


def test_partial_fit_merges_matrices():
    X, labels, _ = rows(20)
    thin = FairPCA(3).fit(X, sensitive_features=labels)
    parts = FairPCA(3)
    for part in (slice(None, 6), slice(6, 9), slice(9, None)):
        parts.partial_fit(X[part], sensitive_features=labels[part])
    assert isinstance(parts.moments_, GroupMoments)
    assert_same_fit(thin, parts)


@parametrize_diagonal(center=CENTERS, scale=[False, True])
def test_an_audit_has_the_figures_of_the_matrices(scale, center):
    X, labels, weights = rows(21)
    fair = FairPCA(3, center=center, scale=scale)
    fair.fit(X, sensitive_features=labels, sample_weight=weights)
    other_rows = rows(22)[0]
    for table in (X, other_rows):
        mine = audit(fair, table, labels, sample_weight=weights, folds=None)
        theirs = audit(fair, moments=GroupMoments.from_rows(table, labels, weights))
        assert [model.name for model in mine.models] == ["minimax loss", "PCA"]
        figures, expected = (
            [
                (
                    group.observed_error.value,
                    group.observed_best_error,
                    group.observed_total_variance,
                )
                for model in result.models
                for group in model.groups
            ]
            for result in (mine, theirs)
        )
        np.testing.assert_allclose(figures, expected, rtol=1e-9)
    assert mine.models[0].in_sample is False


def test_metrics_of_any_subspace():
    X, labels, _ = rows(23)
    anything = np.linalg.qr(np.random.default_rng(0).standard_normal((22, 18)))[0].T
    expected = reference_errors(X, labels, anything, X.mean(axis=0))
    # Of so many dimensions, the best subspace loses nothing.
    for figure in (metrics.reconstruction_error, metrics.excess_loss):
        np.testing.assert_allclose(list(figure(anything, X, labels).values()), expected, 1e-10)


def test_the_trade_off_of_two_groups():
    X, labels, _ = rows(24)
    moments = FairPCA(2).fit(X, sensitive_features=labels).moments_
    expected = frontier(moments.to_dense(), 2)
    curve = frontier(moments, 2)
    np.testing.assert_allclose(curve.errors, expected.errors, rtol=1e-8)
    np.testing.assert_allclose(
        curve.subspace(3).components, expected.subspace(3).components, atol=1e-7
    )
    assert curve.locate("minimax_loss").on_frontier
    assert curve.n_components == 2


def test_functions_that_need_matrices_refuse_thin_moments():
    X, labels, _ = rows(25)
    moments = FairPCA(2).fit(X, sensitive_features=labels).moments_
    for call in (
        lambda: regression.least_squares(moments, 0),
        lambda: audit(FairPCA(2).fit(X, sensitive_features=labels), moments=moments),
    ):
        with pytest.raises(InvalidType, match="Allowed: a GroupMoments"):
            call()


def test_rows_that_cannot_be_fitted():
    X, labels, weights = rows(26)
    fair = FairPCA(2)
    for value, word in ((np.nan, "NaN"), (np.inf, "infinity")):
        table = X.copy()
        table[3, 7] = value
        with pytest.raises(InvalidInput, match=f"{word}, first in row 4 "):
            fair.fit(table, sensitive_features=labels)
        weights[3] = 0.0
        with pytest.raises(InvalidInput, match=f"{word}, first in row 4 "):
            fair.fit(table, sensitive_features=labels, sample_weight=weights)
    for scale in (False, True):
        with pytest.raises(InvalidInput, match="overflow"):
            FairPCA(2, scale=scale).fit(1e160 * X, sensitive_features=labels)
    with pytest.raises(InvalidInput, match="label"):
        fair.fit(X, sensitive_features=[None, *labels[1:]])


WIDE = """
rng = np.random.default_rng(0)
n, p = 500, 20_000
groups = rng.integers(0, 2, n)
X = rng.standard_normal((n, 12)) * np.linspace(6, 1, 12) @ rng.standard_normal((12, p))
X[groups == 1] += rng.standard_normal(p)
X += rng.standard_normal((n, p))
before = peak()
fair = fairspan.FairPCA(10).fit(X, sensitive_features=groups)
print(json.dumps({
    "kilobytes": peak() - before,
    "status": fair.solution_.status,
    "eigensolver": fair.solution_.eigensolver,
    "gap": fair.solution_.gap / fair.solution_.absolute_tol,
    "losses": fair.group_losses_.tolist(),
    "errors": fair.group_errors_.tolist(),
    "orthonormal": float(np.abs(fair.components_ @ fair.components_.T - np.eye(10)).max()),
    "residuals": [float(((lambda R: (R - R @ fair.components_.T @ fair.components_) ** 2)(
        X[groups == g] - X.mean(axis=0))).sum(axis=1).mean()) for g in (0, 1)],
}))
"""


@pytest.mark.long
@needs_process_status
def test_many_features_in_little_memory():
    # A covariance matrix of each group takes 3.2 GB, and the rows 80 MB. What is taken before the
    # fit differs by machine.
    figures = run_with_peak(WIDE)
    assert figures["kilobytes"] < 300_000
    assert (figures["status"], figures["eigensolver"]) == ("optimal", "thin")
    assert figures["gap"] <= 1
    assert figures["losses"][0] == pytest.approx(figures["losses"][1], rel=1e-6)
    assert figures["errors"] == pytest.approx(figures["residuals"], rel=1e-9)
    assert figures["orthonormal"] <= 1e-12


def test_batches_of_partial_fit_may_share_an_array():
    batches = np.random.default_rng(8).standard_normal((2, 20, 60)) + np.arange(2)[:, None, None]
    labels = np.repeat(["a", "b"], 10)
    shared = np.empty((20, 60))
    fair = FairPCA(2)
    for batch in batches:
        shared[:] = batch
        fair.partial_fit(shared, sensitive_features=labels)
    total = GroupMoments.from_rows(np.vstack(batches), np.tile(labels, 2))
    np.testing.assert_allclose(fair.mean_, total.mean, atol=1e-12)
    np.testing.assert_allclose(
        fair.group_errors_, FairPCA(2).fit_moments(total).group_errors_, rtol=1e-9
    )


@pytest.mark.parametrize("scale", [False, True])
def test_a_table_that_is_changed_after_the_fit_changes_no_model(scale):
    original, labels, weights = rows(25)
    X = original.copy()
    arguments = {"sensitive_features": labels, "sample_weight": weights}
    fair = FairPCA(3, scale=scale).fit(X, **arguments)
    expected = FairPCA(3, scale=scale).fit(original, **arguments)
    curve = frontier(X, 2, sensitive_features=labels)
    X[::2] *= 3.0
    for model in (fair, pickle.loads(pickle.dumps(fair))):
        for name, value in vars(expected).items():
            if isinstance(value, np.ndarray):
                np.testing.assert_array_equal(getattr(model, name), value)
        assert model.noise_variance_ == expected.noise_variance_
        np.testing.assert_array_equal(model.get_covariance(), expected.get_covariance())
        np.testing.assert_array_equal(model.get_precision(), expected.get_precision())
        np.testing.assert_array_equal(model.transform(original), expected.transform(original))
        np.testing.assert_array_equal(
            model.score_samples(original), expected.score_samples(original)
        )
        # Other fits of the same rows would be wrong.
        with pytest.raises(InvalidInput, match=r"rows have changed.*Fit again"):
            FairPCA(2).fit_moments(model.moments_)
        with pytest.raises(InvalidInput, match="rows have changed"):
            model.partial_fit(original, **arguments)
    with pytest.raises(InvalidInput, match="rows have changed"):
        curve.subspace(0)
    # With the rows as they were, all of this works again.
    X[:] = original
    again = FairPCA(2).fit_moments(fair.moments_)
    np.testing.assert_allclose(
        again.group_errors_, FairPCA(2).fit(original, **arguments).group_errors_
    )
    assert curve.subspace(0).dimension == 2
    counts = fair.partial_fit(original, **arguments).moments_.counts
    assert counts.sum() == 2 * len(original)


def test_covariances_of_few_rows_are_those_of_matrices():
    X, labels, weights = rows(26)
    for settings in ({}, {"center": "group"}, {"center": "none"}, {"scale": True}):
        thin, dense = fit_both(X, labels, weights, **settings)
        assert thin.noise_variance_ == pytest.approx(dense.noise_variance_, rel=1e-8)
        np.testing.assert_allclose(thin.get_covariance(), dense.get_covariance(), atol=1e-6)


@pytest.mark.parametrize("kind", [np.asarray, pd.DataFrame])
def test_incomplete_rows_are_as_if_absent(kind):
    X, labels, weights = rows(27, n=18, p=40)
    labels = labels.astype(object)
    X[3, 5] = X[8] = np.nan
    X[12, :2] = np.inf  # the row has no group
    labels[12] = None
    complete = np.setdiff1d(np.arange(18), [3, 8, 12])
    arguments = {"sensitive_features": labels, "sample_weight": weights}
    table = kind(X)
    fair = FairPCA(2, on_missing="drop").fit(table, **arguments)
    expected = FairPCA(2).fit(
        X[complete], sensitive_features=labels[complete], sample_weight=weights[complete]
    )
    assert fair.solution_.eigensolver == "thin"
    assert fair.moments_.n_dropped == 3
    np.testing.assert_array_equal(fair.components_, expected.components_)
    np.testing.assert_array_equal(fair.group_losses_, expected.group_losses_)
    result = audit(fair, table, labels, sample_weight=weights, on_missing="drop")
    expected_result = audit(
        expected, X[complete], labels[complete], sample_weight=weights[complete]
    )
    assert result.rows.n_dropped == 3
    # Folds, and with them expected figures, depend on the positions of the rows.
    figures = ["model", "group", "observed_error", "observed_loss", "observed_variance_kept"]
    pd.testing.assert_frame_equal(result.frame()[figures], expected_result.frame()[figures])
    # Cells of rows that are kept must be finite.
    X[4, 7] = np.inf
    with pytest.raises(InvalidInput, match=r"infinity, first in row 5 \(index 4\)"):
        FairPCA(2, on_missing="drop").fit(kind(X), **arguments)


def test_incomplete_rows_of_a_whole_group_are_named():
    X, labels, _ = rows(28, groups=("a", "b", "c"))
    X[labels == "b", 4] = np.nan
    with pytest.warns(FairspanWarning, match="removes all 5 rows of group 'b'"):
        fair = FairPCA(2, on_missing="drop").fit(X, sensitive_features=labels)
    assert fair.groups_.tolist() == ["a", "c"]
    X[:] = np.nan
    with pytest.raises(InvalidInput, match="no rows"):
        FairPCA(2, on_missing="drop").fit(X, sensitive_features=labels)


def test_moments_of_another_estimator_are_accepted_in_any_representation():
    X = np.random.default_rng(9).standard_normal((40, 60))
    fair = FairPCA(2).fit(X, sensitive_features=["a", "b"] * 20)
    assert fair.solution_.eigensolver == "thin"
    again = FairPCA(2).fit_moments(fair.moments_)
    np.testing.assert_array_equal(again.components_, fair.components_)


def errors_by_rows(fair, X, labels):
    """Return errors of each group in long double, from the rows and their reconstructions."""
    encoder, decoder, mean = (
        np.asarray(array, dtype=np.longdouble)
        for array in (fair.components_, fair.subspace_.decoder, fair.mean_)
    )
    errors = []
    for label in fair.groups_:
        rows = X[labels == label].astype(np.longdouble)
        rows -= rows.mean(axis=0) if fair.center == "group" else mean
        errors.append(float(((rows - rows @ encoder.T @ decoder.T) ** 2).sum(axis=1).mean()))
    return np.array(errors)


@pytest.mark.parametrize("seed", mark_most_long(range(12), 5))
@pytest.mark.parametrize(
    ("criterion", "center", "restriction"),
    [
        ("total_error", "global", MeanParity(oblique=True)),
        ("minimax_error", "none", None),
        ("minimax_loss", "none", MeanParity()),
        ("error_gap", "group", None),
    ],
    ids=str,
)
def test_errors_of_mostly_zero_rows_are_within_the_reported_bounds(
    criterion, center, restriction, seed
):
    """Rows span one direction less than their number, so no axis may consist of rounding."""
    rng = np.random.default_rng(seed)
    X = rng.random((60, 150)) * (rng.random((60, 150)) < 0.03)
    X = rng.poisson(0.1, X.shape).astype(float) if seed % 2 else X
    labels = np.arange(60) % 2
    fair = FairPCA(2, criterion=criterion, center=center, restriction=restriction)
    fair.fit(X, sensitive_features=labels)
    np.testing.assert_allclose(fair.group_errors_, errors_by_rows(fair, X, labels), rtol=1e-12)
    if restriction is not None:
        means = [fair.transform(X[labels == label]).mean(axis=0) for label in (0, 1)]
        np.testing.assert_allclose(*means, atol=1e-12)


@pytest.mark.parametrize("center", CENTERS)
def test_errors_of_a_large_column_and_a_large_group_are_within_the_reported_bounds(center):
    rng = np.random.default_rng(1)
    X = rng.random((12, 100)) * (rng.random((12, 100)) < 0.3)
    labels = np.arange(12) % 2
    X[:, 0] *= 1e4
    X[labels == 1] *= 1e6
    fair = FairPCA(2, criterion=MinimaxError(relative=True), center=center)
    fair.fit(X, sensitive_features=labels)
    np.testing.assert_allclose(fair.group_errors_, errors_by_rows(fair, X, labels), rtol=1e-11)


def test_a_share_that_only_directions_without_variance_would_reach():
    """A criterion without weight on one group cannot reach that group's share."""
    X, labels, _ = rows(10, n=10, p=60)
    with pytest.raises(IncompatibleParameters, match="up to 9 components"):
        FairPCA(0.9, criterion=Disparity(0.0, protected="b")).fit(X, sensitive_features=labels)
