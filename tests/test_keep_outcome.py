"""Mean parity that keeps the relation of the features with the label."""

from dataclasses import replace

import numpy as np
import pytest

import fairspan as fs
from fairspan import FairPCA, FairSubspace, GroupMoments, MeanParity
from fairspan.errors import IncompatibleParameters, InvalidInput, InvalidParameter

KEEP = MeanParity(keep_outcome=True)


def draw_rows(seed=0, n_classes=2, groups="ab", p=7):
    """Rows whose labels depend on a direction of little variance, and on the group."""
    rng = np.random.default_rng(seed)
    n = 400
    labels = np.array(list(groups))[rng.integers(len(groups), size=n)]
    X = rng.normal(size=(n, p)) * np.linspace(3, 0.5, p)
    y = rng.integers(n_classes, size=n)
    for number in range(n_classes):
        X[y == number] += rng.normal(size=p) * 0.4
    for label in groups:
        X[labels == label] += rng.normal(size=p) * 0.7
        X[labels == label] *= np.exp(0.4 * rng.normal(size=p))
    return X, labels, y


def forbidden_and_required(X, groups, y):
    """Return orthonormal bases of the mean differences, and of the outcome's directions."""
    means = np.array([X[groups == label].mean(axis=0) for label in sorted(set(groups))])
    N = np.linalg.qr((means[1:] - means[0]).T)[0]
    covariances = np.array(
        [X.T @ ((y == label) - (y == label).mean()) / len(X) for label in set(y)]
    )
    rest = (np.eye(X.shape[1]) - N @ N.T) @ covariances.T
    U, lengths, _ = np.linalg.svd(rest)
    return N, U[:, : (lengths > 1e-10 * lengths[0]).sum()]


def second_moments(X, groups):
    return GroupMoments.from_rows(X, groups).second_moments("global")


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("groups", ["ab", "abc"])
def test_total_error_is_pca_of_the_directions_that_are_left(n_classes, groups):
    X, labels, y = draw_rows(n_classes=n_classes, groups=groups)
    N, U = forbidden_and_required(X, labels, y)
    assert U.shape[1] == n_classes - 1
    d = 3
    model = FairPCA(d, criterion="total_error", restriction=KEEP)
    model.fit(X, y, sensitive_features=labels)
    pooled = np.cov(X.T, ddof=0)
    Q = np.linalg.qr(np.hstack([N, U]), mode="complete")[0][:, N.shape[1] + U.shape[1] :]
    captured = (
        np.trace(U.T @ pooled @ U)
        + np.sort(np.linalg.eigvalsh(Q.T @ pooled @ Q))[::-1][: d - U.shape[1]].sum()
    )
    assert model.solution_.status == "optimal"
    assert model.solution_.objective == pytest.approx(np.trace(pooled) - captured, rel=1e-9)
    assert model.solution_.n_components == model.n_components_ == d
    assert (np.diff(model.explained_variance_) <= 1e-12).all()


@pytest.mark.parametrize("criterion", ["total_error", "minimax_loss", "minimax_error", "error_gap"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_means_agree_and_the_covariance_with_the_label_is_whole(criterion, n_classes):
    X, labels, y = draw_rows(1, n_classes)
    model = FairPCA(3, criterion=criterion, restriction=KEEP)
    model.fit(X, y, sensitive_features=labels)
    Z = model.transform(X)
    assert np.abs(Z[labels == "a"].mean(axis=0) - Z[labels == "b"].mean(axis=0)).max() <= 1e-10
    N, _ = forbidden_and_required(X, labels, y)
    for label in range(n_classes):
        indicator = (y == label) - (y == label).mean()
        total_covariance = (np.eye(7) - N @ N.T) @ X.T @ indicator / len(X)
        assert np.linalg.norm(Z.T @ indicator / len(X)) == pytest.approx(
            np.linalg.norm(total_covariance), rel=1e-9
        )
    assert fs.verify(model, X, labels, y=y).holds
    # Without the requirement less of it is kept.
    plain = FairPCA(3, criterion=criterion, restriction=MeanParity())
    Z = plain.fit(X, sensitive_features=labels).transform(X)
    assert np.linalg.norm(Z.T @ indicator / len(X)) < np.linalg.norm(total_covariance) * (1 - 1e-6)
    assert model.solution_.objective >= plain.solution_.objective - 1e-9


@pytest.mark.parametrize("seed", range(3))
def test_the_largest_error_of_two_groups_is_the_best_bound_of_all_mixtures(seed):
    X, labels, y = draw_rows(seed)
    model = FairPCA(3, criterion="minimax_error", restriction=KEEP)
    model.fit(X, y, sensitive_features=labels)
    N, U = forbidden_and_required(X, labels, y)
    Q = np.linalg.qr(np.hstack([N, U]), mode="complete")[0][:, 2:]
    S = second_moments(X, labels)

    def bound(share):
        mixture = share * S[0] + (1 - share) * S[1]
        smallest_sum = np.sort(np.linalg.eigvalsh(Q.T @ mixture @ Q))[: Q.shape[1] - 2].sum()
        return smallest_sum + np.trace(N.T @ mixture @ N)

    best = max(bound(share) for share in np.linspace(0, 1, 2_001))
    assert model.solution_.objective == pytest.approx(best, rel=1e-4)
    assert model.solution_.objective >= best - 1e-9
    # No random subspace that contains the direction is better.
    rng = np.random.default_rng(seed)
    for _ in range(200):
        V = np.hstack([U, Q @ np.linalg.qr(rng.normal(size=(Q.shape[1], 2)))[0]])
        errors = [np.trace(matrix) - np.trace(V.T @ matrix @ V) for matrix in S]
        assert max(errors) >= model.solution_.objective - 1e-9


@pytest.mark.slow
def test_models_are_saved_merged_audited_and_forgeries_found(tmp_path):
    X, labels, y = draw_rows(2, n_classes=3, groups="abc")
    model = FairPCA(4, restriction=KEEP).fit(X, y, sensitive_features=labels)
    path = tmp_path / "kept.model"
    model.subspace_.save(path)
    subspace = FairSubspace.load(path)
    assert subspace.certificate.restriction == KEEP
    assert fs.verify(subspace, X, labels, y=y).holds
    halves = [
        GroupMoments.from_rows(X[part], labels[part], y=y[part])
        for part in (slice(0, 150), slice(150, None))
    ]
    merged_model = FairPCA(4, restriction=KEEP).fit_moments(halves[0] + halves[1])
    assert merged_model.solution_.objective == pytest.approx(model.solution_.objective, rel=1e-9)
    # A subspace that is allowed without the requirement does not contain the directions.
    plain = FairPCA(4, restriction=MeanParity()).fit(X, sensitive_features=labels)
    forgery = replace(
        subspace,
        components=plain.components_,
        certificate=replace(
            subspace.certificate, components=plain.components_, figures=plain.solution_.figures
        ),
    )
    result = fs.verify(forgery, X, labels, y=y)
    assert not result.holds
    assert "allowed directions" in str(result)
    assert not fs.verify(subspace, X, labels, y=np.roll(y, 1)).holds
    audit = fs.audit(model, X, labels, y=y)
    assert all(group.expected_error.has_interval for group in audit.models[0].groups)


def test_marginal_attributes_and_shares_of_variance():
    X, labels, y = draw_rows(3)
    attributes = np.column_stack([labels, np.arange(len(X)) % 3])
    marginal = MeanParity(attributes="marginal", keep_outcome=True)
    model = FairPCA(3, criterion="total_error", restriction=marginal)
    model.fit(X, y, sensitive_features=attributes)
    Z = model.transform(X)
    for column in attributes.T:
        means = [Z[column == label].mean(axis=0) for label in set(column)]
        assert np.ptp(means, axis=0).max() <= 1e-10
    enough = FairPCA(0.5, criterion="total_error", restriction=KEEP)
    enough.fit(X, y, sensitive_features=labels)
    assert enough.group_explained_variance_ratio_.sum(axis=1).min() >= 0.5


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"n_components": 1}, IncompatibleParameters, "at least 2"),
        ({"criterion": "nash_welfare"}, IncompatibleParameters, "'minimax_error'"),
        ({"criterion": "least_variance"}, IncompatibleParameters, "'minimax_error'"),
        ({"nested": True}, IncompatibleParameters, "nested"),
    ],
)
def test_unsupported_settings_are_refused(settings, error, message):
    X, labels, y = draw_rows()
    with pytest.raises(error, match=message):
        FairPCA(**({"n_components": 3, "restriction": KEEP} | settings)).fit(
            X, y, sensitive_features=labels
        )


def test_labels_are_needed_and_have_to_add_something():
    X, labels, _ = draw_rows()
    with pytest.raises(InvalidInput, match="y is missing"):
        FairPCA(3, restriction=KEEP).fit(X, sensitive_features=labels)
    with pytest.raises(InvalidInput, match="y is missing"):
        FairPCA(3, restriction=KEEP).fit_moments(GroupMoments.from_rows(X, labels))
    with pytest.raises(IncompatibleParameters, match="no direction in which"):
        FairPCA(3, restriction=KEEP).fit(X, labels, sensitive_features=labels)
    with pytest.raises(IncompatibleParameters, match="oblique"):
        MeanParity(oblique=True, keep_outcome=True)
    with pytest.raises(InvalidParameter, match="keep_outcome"):
        MeanParity(keep_outcome="yes")


def test_more_of_the_label_is_predicted_than_with_plain_parity():
    """Compare the scores of a linear classifier on other rows."""
    from sklearn.linear_model import LogisticRegression

    X, labels, y = draw_rows(4)
    half = np.arange(len(X)) < 200
    scores = []
    for restriction in (MeanParity(), KEEP):
        model = FairPCA(2, criterion="total_error", restriction=restriction)
        Z = model.fit(X[half], y[half], sensitive_features=labels[half]).transform(X)
        scores.append(LogisticRegression().fit(Z[half], y[half]).score(Z[~half], y[~half]))
    assert scores[1] > scores[0]
