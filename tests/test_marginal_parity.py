"""Mean parity of several attributes, each on its own, held against covariances by hand."""

import numpy as np
import pytest

from fairspan import FairPCA, FairSubspace, GroupMoments, MeanParity, verify
from fairspan.errors import Incompatible, InvalidParameter
from real_data import path_of

MARGINAL = MeanParity(attributes="marginal")


def table(seed, n=200, p=9, categories=(2, 3)):
    """Rows whose means depend on several attributes, which depend on each other."""
    rng = np.random.default_rng(seed)
    first = rng.integers(categories[0], size=n)
    others = [(first + rng.integers(count, size=n)) % count for count in categories[1:]]
    attributes = np.column_stack([first, *others])
    shifts = sum(rng.standard_normal((9, p))[column] for column in attributes.T)
    return 3 + shifts + rng.standard_normal((n, p)) * np.linspace(1, 3, p), attributes


def indicators(attributes):
    return np.hstack([column[:, None] == np.unique(column) for column in attributes.T]).astype(
        float
    )


def by_hand(X, attributes, d, weights=None):
    """The most pooled variance of d directions without covariance with any indicator."""
    weights = np.ones(len(X)) / len(X) if weights is None else weights / weights.sum()
    X, Z = X - weights @ X, indicators(attributes)
    left, sizes, _ = np.linalg.svd(X.T @ (weights[:, None] * (Z - weights @ Z)))
    free = left[:, int((sizes > 1e-10 * sizes[0]).sum()) :]
    S = X.T @ (weights[:, None] * X)
    return np.linalg.eigvalsh(free.T @ S @ free)[-d:].sum(), np.trace(S), free


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("categories", [(2, 2), (2, 3), (3, 4), (2, 2, 2)])
@pytest.mark.parametrize("seed", range(3))
def test_the_optimum_of_all_directions_without_covariance(seed, categories, weighted):
    X, attributes = table(seed, categories=categories)
    weights = np.random.default_rng(seed).uniform(0.5, 2, len(X)) if weighted else None
    model = FairPCA(2, criterion="total_error", restriction=MARGINAL)
    model.fit(X, sensitive_features=attributes, sample_weight=weights)
    kept, total, _ = by_hand(X, attributes, 2, weights)
    assert model.solution_.status == "optimal"
    assert model.solution_.objective == pytest.approx(total - kept, rel=1e-10)
    Z = model.transform(X)
    for column in attributes.T:
        means = [
            np.average(Z[column == each], axis=0, weights=None if weights is None else weights[own])
            for each in np.unique(column)
            for own in [column == each]
        ]
        assert np.ptp(means, axis=0).max() <= 1e-10
    assert verify(model, X, attributes, sample_weight=weights).holds


@pytest.mark.parametrize("criterion", ["minimax_loss", "minimax_error", "error_gap"])
def test_any_criterion_in_the_same_directions(criterion):
    X, attributes = table(5, n=400)
    model = FairPCA(2, criterion=criterion, restriction=MARGINAL)
    model.fit(X, sensitive_features=attributes)
    *_, free = by_hand(X, attributes, 2)
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
    with pytest.raises(Incompatible, match=r"at most 4.*along 4 direction"):
        model.set_params(n_components=5).fit(X, sensitive_features=attributes)
    with pytest.raises(Incompatible, match="along 8 direction"):
        FairPCA(4, restriction=MeanParity()).fit(X, sensitive_features=attributes)


def test_of_a_single_attribute_it_is_mean_parity():
    X, attributes = table(7)
    fits = [
        FairPCA(2, restriction=each).fit(X, sensitive_features=attributes[:, 1])
        for each in (MARGINAL, MeanParity())
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
    kept, total, _ = by_hand(X, attributes, 3)
    assert type(thin.moments_).__name__ == "ThinMoments"
    assert thin.solution_.objective == pytest.approx(total - kept, rel=1e-9)


def test_moments_alone_are_enough_and_the_model_is_saved(tmp_path):
    X, attributes = table(10)
    parts = [GroupMoments.from_rows(X[i::2], attributes[i::2]) for i in (0, 1)]
    model = FairPCA(2, restriction=MARGINAL).fit_moments(parts[0] + parts[1])
    model.subspace_.save(tmp_path / "out")
    loaded = FairSubspace.load(tmp_path / "out")
    assert loaded.provenance.restriction == "MeanParity(tolerance=0.0, attributes='marginal')"
    assert verify(loaded, X, attributes).holds
    assert not verify(loaded, X, np.roll(attributes, 7, axis=0)).holds


def test_what_is_refused():
    with pytest.raises(InvalidParameter, match="attributes is 'each'"):
        MeanParity(attributes="each")
    with pytest.raises(Incompatible, match="other parameters at their defaults"):
        MeanParity(0.1, attributes="marginal")
    with pytest.raises(TypeError):
        MeanParity(0.0, "marginal")


def test_adult_by_sex_and_race():
    pandas = pytest.importorskip("pandas")
    frame = pandas.read_parquet(path_of("adult_train.parquet"))
    X = frame[[name for name in frame.columns if "__" not in name]].to_numpy(dtype=np.float64)
    moments = GroupMoments.from_rows(X[:, X.std(axis=0) > 0], frame[["group__sex", "group__race"]])
    assert moments.n_features == 81
    for attributes, share in (("intersections", 0.1683), ("marginal", 0.1791)):
        parity = MeanParity(attributes=attributes)
        model = FairPCA(10, criterion="total_error", restriction=parity, scale=True)
        model.fit_moments(moments)
        assert model.solution_.status == "optimal"
        assert model.explained_variance_ratio_.sum() == pytest.approx(share, abs=5e-5)
