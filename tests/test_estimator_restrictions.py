"""Restrictions through the estimator: what is hidden is hidden, also of several attributes."""

import numpy as np
import pytest

from case_selection import parametrize_diagonal
from fairspan import (
    CovarianceParity,
    Disparity,
    ErrorGap,
    FairPCA,
    GroupMoments,
    MeanParity,
    RobustErrorGap,
    audit,
    verify,
)
from fairspan.errors import IncompatibleParameters, InvalidParameter, InvalidType
from numpy_reference import projector_distance, random_rows, reference_errors
from real_data import data_path, load

ROWS = random_rows(71, n=120, p=6)
THREE = random_rows(72, n=120, p=6, groups=("c", "a", "b"))
FOUR = random_rows(73, n=120, p=7, groups=("c", "a", "b", "d"))
PLANE = random_rows(74, n=90, p=3, offset=1.0)
CRITERIA = (
    "total_error",
    "minimax_loss",
    "minimax_error",
    "equal_error",
    Disparity(0.3),
    ErrorGap(0.7),
    RobustErrorGap(0.7, 0.5),
)


def fit(rows, d=2, restriction=None, **settings):
    estimator = FairPCA(d, restriction=restriction or MeanParity(), **settings)
    return estimator.fit(rows.X, sensitive_features=rows.labels)


def means_of(Z, labels):
    return np.array([Z[labels == label].mean(axis=0) for label in sorted(set(labels))])


def covariances_of(Z, labels):
    return [np.cov(Z[labels == label].T, bias=True) for label in sorted(set(labels))]


@pytest.mark.parametrize("scale", [False, True])
@pytest.mark.parametrize("center", ["global", "group", "none"])
@pytest.mark.parametrize("rows", [ROWS, THREE, FOUR], ids=["2", "3", "4"])
def test_transformed_groups_have_the_same_mean(rows, center, scale):
    model = fit(rows, criterion="total_error", center=center, scale=scale)
    np.testing.assert_allclose(model.components_ @ model.components_.T, np.eye(2), atol=1e-12)
    means = means_of(model.transform(rows.X), rows.labels)
    assert np.ptp(means, axis=0).max() <= 1e-10


@pytest.mark.parametrize("criterion", CRITERIA, ids=str)
def test_the_objective_is_the_criterion_at_the_groups_own_errors(criterion):
    model = fit(ROWS, criterion=criterion)
    errors = reference_errors(ROWS.X, ROWS.labels, model.components_, ROWS.X.mean(axis=0))
    np.testing.assert_allclose(model.group_errors_, errors, rtol=1e-9)
    free = FairPCA(2, criterion=criterion).fit(ROWS.X, sensitive_features=ROWS.labels)
    best = free.group_errors_ - free.group_losses_
    np.testing.assert_allclose(model.group_losses_, errors - best, rtol=1e-9)
    least = free.solution_.objective
    assert model.solution_.status == "optimal"
    assert model.solution_.objective >= least - 1e-9 * abs(least)


@pytest.mark.parametrize(
    "criterion", [criterion for criterion in CRITERIA if criterion != "equal_error"], ids=str
)
def test_brute_force_over_all_lines_in_the_plane_that_is_left(criterion):
    """p = 3, d = 1: the directions of equal means are a plane, and a line in it is an angle."""
    model = fit(PLANE, 1, criterion=criterion)
    means = means_of(PLANE.X, PLANE.labels)
    plane = np.linalg.svd((means[0] - means[1])[None])[2][1:]
    angles = np.linspace(0, np.pi, 20001)
    lines = np.cos(angles)[:, None] * plane[0] + np.sin(angles)[:, None] * plane[1]
    X = PLANE.X - PLANE.X.mean(axis=0)
    labels = PLANE.labels
    moments = [X[labels == g].T @ X[labels == g] / (labels == g).sum() for g in "ab"]
    errors = np.array([np.trace(S) - np.einsum("ij,jk,ik->i", lines, S, lines) for S in moments])
    best = np.array([np.linalg.eigvalsh(S)[:2].sum() for S in moments])
    total = errors.mean(axis=0)
    gap = np.abs(errors[0] - errors[1])
    # The group that unrestricted PCA serves worse.
    first = np.linalg.svd(X)[2][0]
    signed = errors[1] - errors[0]
    pca = [np.trace(S) - first @ S @ first for S in moments]
    signed = signed if pca[1] > pca[0] else -signed
    root = np.sqrt(errors)
    spread = np.sqrt(0.5 / np.sqrt(45))
    up = (root + spread) ** 2
    down = np.maximum(root - spread, 0) ** 2
    robust = [1.2 * up[a] - 0.2 * down[b] for a, b in ((0, 1), (1, 0))]
    expected = {
        "total_error": total,
        "minimax_loss": (errors - best[:, None]).max(axis=0),
        "minimax_error": errors.max(axis=0),
        Disparity(0.3): 0.3 * total + 0.7 * signed,
        ErrorGap(0.7): total + 0.7 * gap,
        RobustErrorGap(0.7, 0.5): np.max(robust, axis=0),
    }[criterion].min()
    spacing = 1e-3 * np.trace(moments[0] + moments[1])
    assert expected - spacing <= model.solution_.objective <= expected + 1e-9 * abs(expected)


def test_covariance_parity_re_derived():
    model = fit(ROWS, 2, CovarianceParity(n_directions=3), criterion="total_error")
    means, covariances = means_of(ROWS.X, ROWS.labels), covariances_of(ROWS.X, ROWS.labels)
    Q = np.linalg.svd((means[0] - means[1])[None])[2][1:].T
    values, vectors = np.linalg.eigh(Q.T @ (covariances[0] - covariances[1]) @ Q)
    Q = Q @ vectors[:, np.argsort(abs(values))[:3]]
    centered = ROWS.X - ROWS.X.mean(axis=0)
    _, axes = np.linalg.eigh(Q.T @ centered.T @ centered @ Q)
    assert projector_distance(model.components_, (Q @ axes[:, 1:]).T) <= 1e-8
    norms = [
        np.linalg.norm(np.subtract(*covariances_of(fair.transform(ROWS.X), ROWS.labels)), 2)
        for fair in (fit(ROWS, criterion="total_error"), model)
    ]
    assert norms[1] <= np.sort(abs(values))[2] + 1e-9
    assert norms[1] < norms[0]


@pytest.mark.parametrize("criterion", ["minimax_loss", "minimax_error", ErrorGap(0.7)], ids=str)
def test_covariance_parity_by_directions_takes_every_criterion(criterion):
    model = fit(ROWS, 2, CovarianceParity(), criterion=criterion)
    explicit = fit(ROWS, 2, CovarianceParity(n_directions=4), criterion=criterion)  # 0.85 * 5
    assert model.components_.tobytes() == explicit.components_.tobytes()
    assert model.solution_.status == "optimal"
    d_of_all = fit(ROWS, 5, CovarianceParity(), criterion=criterion)  # at least d
    assert d_of_all.components_.shape == (5, 6)


def test_incompatible_options_are_refused():
    for restriction, settings, rows, words in (
        (MeanParity(), {"d": 6}, ROWS, "at most 5"),
        (MeanParity(), {"d": 5, "criterion": "total_error"}, FOUR, "at most 4"),
        (MeanParity(0.1), {"criterion": "minimax_loss"}, ROWS, r"MeanParity\(tolerance=0\)"),
        (MeanParity(0.1), {"criterion": "total_error"}, THREE, "3 groups"),
        (CovarianceParity(), {"criterion": "total_error"}, THREE, r"MeanParity\(\)"),
        (CovarianceParity(6), {"criterion": "total_error"}, ROWS, "2 .n_components. to 5"),
        (CovarianceParity(1), {"criterion": "total_error"}, ROWS, "2 .n_components. to 5"),
        (CovarianceParity(tolerance=1.0), {}, ROWS, "n_directions"),
        (
            MeanParity(0.1),
            {"criterion": "total_error", "allow_extra": True},
            ROWS,
            "allow_extra=True",
        ),
    ):
        with pytest.raises(IncompatibleParameters, match=words):
            fit(rows, restriction=restriction, **settings)


@pytest.mark.parametrize(
    ("restriction", "arguments", "kind", "words"),
    [
        (
            CovarianceParity,
            {"n_directions": 2, "tolerance": 0.1},
            IncompatibleParameters,
            "n_directions=.* and tolerance=",
        ),
        (CovarianceParity, {"n_directions": 0.85}, InvalidType, "Pass an integer"),
        (MeanParity, {"tolerance": -1}, InvalidParameter, "tolerance is -1"),
        (CovarianceParity, {"tolerance": -1}, InvalidParameter, "tolerance is -1"),
        (MeanParity, {"attributes": "each"}, InvalidParameter, "attributes is 'each'"),
        (
            MeanParity,
            {"tolerance": 0.1, "attributes": "marginal"},
            IncompatibleParameters,
            r"attributes='marginal'.*tolerance=0",
        ),
    ],
)
def test_restrictions_that_cannot_be(restriction, arguments, kind, words):
    with pytest.raises(kind, match=words):
        restriction(**arguments)


def test_errors_that_cannot_be_equal_within_a_restriction_name_it():
    rows = random_rows(75, n=120, p=4)
    rows.X[rows.labels == "a"] *= 9
    with pytest.raises(
        IncompatibleParameters, match=r"the restriction allows.*drop the restriction"
    ):
        fit(rows, 2, criterion="equal_error")


def test_a_failing_restriction_leaves_the_earlier_fit():
    model = fit(ROWS, 3)
    before = dict(vars(model))
    model.n_components = 6
    with pytest.raises(IncompatibleParameters):
        model.fit(ROWS.X, sensitive_features=ROWS.labels)
    assert {**vars(model), "n_components": 3} == before


def test_groups_of_equal_means_lose_no_direction():
    centered = ROWS.X.copy()
    for label in "ab":
        centered[ROWS.labels == label] -= centered[ROWS.labels == label].mean(axis=0)
    model = FairPCA(6, restriction=MeanParity()).fit(centered, sensitive_features=ROWS.labels)
    np.testing.assert_allclose(model.group_errors_, 0, atol=1e-9)


def test_a_feature_of_another_size_does_not_hide_a_difference():
    """Currency and rates: both mean differences count, though one is 1e-8 of the other."""
    X = np.hstack([THREE.X[:, :4] * [1e6, 1e-2, 1e-2, 1e-2], THREE.X[:, 4:]])
    model = FairPCA(4, criterion="total_error", restriction=MeanParity())
    model.fit(X, sensitive_features=THREE.labels)
    means = means_of(X, THREE.labels)
    shift = np.abs((means - means[0]) @ model.components_.T)
    assert (shift <= 1e-10 * np.linalg.norm(means - means[0], axis=1).max()).all()
    with pytest.raises(IncompatibleParameters, match="removes 2 of"):
        FairPCA(5, restriction=MeanParity()).fit(X, sensitive_features=THREE.labels)


def test_an_audit_names_the_restriction():
    result = audit(fit(ROWS, criterion="total_error"), ROWS.X, ROWS.labels, folds=None)
    names = [model_audit.name for model_audit in result.models]
    assert names == ["total error with MeanParity(tolerance=0.0)", "PCA"]
    assert not result.models[0].is_pca
    assert result.models[0].baseline == "PCA"


@parametrize_diagonal(
    name=["default_credit:group__sex", "wine_quality:group__colour"],
    criterion=["minimax_loss", "error_gap"],
)
def test_real_data(name, criterion):
    rows = load(name)
    moments = GroupMoments.from_rows(rows.X, rows.groups)
    for restriction in (MeanParity(), CovarianceParity(n_directions=5)):
        model = FairPCA(3, criterion=criterion, restriction=restriction, scale=True)
        model.fit_moments(moments)
        means = means_of(model.transform(rows.X), rows.groups)
        assert np.abs(means[0] - means[1]).max() <= 1e-10
        assert model.solution_.status == "optimal"


def test_the_protected_group_is_the_one_that_pca_of_all_directions_serves_worse():
    """On these rows PCA within the restriction serves the other group worse."""
    rows = random_rows(4, n=80, p=5, offset=2.0)
    pca = FairPCA(2, criterion="total_error").fit(rows.X, sensitive_features=rows.labels)
    within = fit(rows, criterion="total_error")
    assert pca.disparity_ < 0 < within.disparity_
    default, explicit = (fit(rows, criterion=Disparity(0.5, group)) for group in (None, "a"))
    assert default.components_.tobytes() == explicit.components_.tobytes()


@pytest.mark.parametrize("allow_extra", [False, True])
@pytest.mark.parametrize("criterion", ["minimax_loss", "minimax_error"])
def test_three_groups_with_every_way_of_answering(criterion, allow_extra):
    model = fit(THREE, criterion=criterion, allow_extra=allow_extra)
    Z = model.transform(THREE.X)
    assert np.ptp(means_of(Z, THREE.labels), axis=0).max() <= 1e-10
    worst = {"minimax_loss": model.group_losses_, "minimax_error": model.group_errors_}
    assert model.solution_.objective == pytest.approx(worst[criterion].max(), rel=1e-9)
    rank_d = fit(THREE, criterion=criterion).solution_
    assert model.solution_.objective <= rank_d.objective * (1 + 1e-9)
    assert model.solution_.lower_bound == pytest.approx(rank_d.lower_bound, rel=1e-6)


MARGINAL = MeanParity(attributes="marginal")


def table(seed, n=200, p=9, categories=(2, 3)):
    """Rows whose means depend on several attributes, which depend on each other."""
    rng = np.random.default_rng(seed)
    first = rng.integers(categories[0], size=n)
    others = [(first + rng.integers(count, size=n)) % count for count in categories[1:]]
    attributes = np.column_stack([first, *others])
    shifts = sum(rng.standard_normal((9, p))[column] for column in attributes.T)
    return 3 + shifts + rng.standard_normal((n, p)) * np.linspace(1, 3, p), attributes


def reference_total_parity(X, attributes, d, weights=None):
    """Return the largest pooled variance of d directions uncorrelated with each indicator."""
    weights = np.ones(len(X)) / len(X) if weights is None else weights / weights.sum()
    Z = np.hstack([column[:, None] == np.unique(column) for column in attributes.T]).astype(float)
    X = X - weights @ X
    left, sizes, _ = np.linalg.svd(X.T @ (weights[:, None] * (Z - weights @ Z)))
    free = left[:, int((sizes > 1e-10 * sizes[0]).sum()) :]
    S = X.T @ (weights[:, None] * X)
    return np.linalg.eigvalsh(free.T @ S @ free)[-d:].sum(), np.trace(S), free


@parametrize_diagonal(
    weighted=[False, True], categories=[(2, 2), (2, 3), (3, 4), (2, 2, 2)], seed=range(3)
)
def test_the_optimum_of_all_directions_without_covariance(seed, categories, weighted):
    X, attributes = table(seed, categories=categories)
    weights = np.random.default_rng(seed).uniform(0.5, 2, len(X)) if weighted else None
    model = FairPCA(2, criterion="total_error", restriction=MARGINAL)
    model.fit(X, sensitive_features=attributes, sample_weight=weights)
    captured, total, _ = reference_total_parity(X, attributes, 2, weights)
    assert model.solution_.status == "optimal"
    assert model.solution_.objective == pytest.approx(total - captured, rel=1e-10)
    Z = model.transform(X)
    for column in attributes.T:
        means = GroupMoments.from_rows(Z, column, weights).means
        assert np.ptp(means, axis=0).max() <= 1e-10
    assert verify(model, X, attributes, sample_weight=weights).holds


@pytest.mark.parametrize("criterion", ["minimax_loss", "minimax_error", "error_gap"])
def test_any_criterion_in_the_same_directions(criterion):
    X, attributes = table(5, n=400)
    model = FairPCA(2, criterion=criterion, restriction=MARGINAL)
    model.fit(X, sensitive_features=attributes)
    *_, free = reference_total_parity(X, attributes, 2)
    outside = model.components_ - model.components_ @ free @ free.T
    assert np.abs(outside).max() <= 1e-10
    intersections = FairPCA(2, criterion=criterion, restriction=MeanParity())
    intersections.fit(X, sensitive_features=attributes)
    # Fewer directions are forbidden, so no criterion is worse.
    assert model.solution_.lower_bound <= intersections.solution_.objective * (1 + 1e-9)
    assert model.solution_.status == "optimal"


def test_it_takes_fewer_directions_than_intersections():
    X, attributes = table(6, n=600, p=8, categories=(3, 3))
    model = FairPCA(4, criterion="total_error", restriction=MARGINAL)
    assert model.fit(X, sensitive_features=attributes).n_components_ == 4  # 8 - 2 - 2
    with pytest.raises(IncompatibleParameters, match=r"at most 4.*removes 4 of"):
        model.set_params(n_components=5).fit(X, sensitive_features=attributes)
    with pytest.raises(IncompatibleParameters, match="removes 8 of"):
        FairPCA(4, restriction=MeanParity()).fit(X, sensitive_features=attributes)


def test_marginal_parity_of_a_single_attribute_is_mean_parity():
    X, attributes = table(7)
    fits = [
        FairPCA(2, restriction=restriction).fit(X, sensitive_features=attributes[:, 1])
        for restriction in (MARGINAL, MeanParity())
    ]
    np.testing.assert_allclose(fits[0].components_, fits[1].components_, atol=1e-9)


def test_a_large_common_offset_costs_no_digits():
    X, attributes = table(8)
    near, far = (
        FairPCA(2, criterion="total_error", restriction=MARGINAL).fit(
            X + offset, sensitive_features=attributes
        )
        for offset in (0.0, 1e6)
    )
    assert far.solution_.objective == pytest.approx(near.solution_.objective, rel=1e-8)


def test_rows_fewer_than_their_features():
    X, attributes = table(9, n=120, p=600)
    restricted = FairPCA(3, criterion="total_error", restriction=MARGINAL)
    thin = restricted.fit(X, sensitive_features=attributes)
    captured, total, _ = reference_total_parity(X, attributes, 3)
    assert type(thin.moments_).__name__ == "WideMoments"
    assert thin.solution_.objective == pytest.approx(total - captured, rel=1e-9)


def test_attributes_are_named():
    with pytest.raises(TypeError):
        MeanParity(0.0, "marginal")


@pytest.mark.slow
def test_adult_by_sex_and_race():
    pandas = pytest.importorskip("pandas")
    frame = pandas.read_parquet(data_path("adult_train.parquet"))
    X = frame[[name for name in frame.columns if "__" not in name]].to_numpy(dtype=np.float64)
    moments = GroupMoments.from_rows(X[:, X.std(axis=0) > 0], frame[["group__sex", "group__race"]])
    assert moments.n_features == 81
    for attributes, share in (("intersections", 0.1683), ("marginal", 0.1791)):
        parity = MeanParity(attributes=attributes)
        model = FairPCA(10, criterion="total_error", restriction=parity, scale=True)
        model.fit_moments(moments)
        assert model.solution_.status == "optimal"
        assert model.explained_variance_ratio_.sum() == pytest.approx(share, abs=5e-5)
