"""Soft projections: more than d components that together keep d dimensions."""

import numpy as np
import pytest

from fairspan import BoundarySearch, FairPCA, FairSubspace, MeanParity, audit, metrics
from fairspan.errors import CorruptFile, InvalidInput
from fairspan.extending import certify
from numpy_reference import random_rows

ROWS = random_rows(97, n=60, p=5)
U = np.linalg.qr(np.random.default_rng(3).standard_normal((5, 5)))[0]
LB = np.array([1.0, 0.7, 0.3])
BASIS = U[:, :3] * np.sqrt(LB)
# Rows sqrt(lambda_j) u_j with lambda_j = 1 - sqrt(1 - lb_j), as Samadi et al. say.
COMPONENTS = (U[:, :3] * np.sqrt(1 - np.sqrt(1 - LB))).T
SOFT = FairSubspace(COMPONENTS, ROWS.X.mean(axis=0))
P_STAR = COMPONENTS.T @ COMPONENTS


X = ROWS.X - ROWS.X.mean(axis=0)
PARTS = [X[ROWS.labels == label] for label in "ab"]
# Mean squared distance of each group's rows to (I - P*) of them, and tr S - <S, P>.
ERRORS = np.array([((part - part @ P_STAR) ** 2).sum(axis=1).mean() for part in PARTS])


def test_the_error_of_rows_is_that_of_their_moments():
    residual_map = np.eye(5) - (U[:, :3] * LB) @ U[:, :3].T
    by_moments = [np.vdot(part.T @ part / len(part), residual_map) for part in PARTS]
    np.testing.assert_allclose(ERRORS, by_moments)


def test_transform_and_back_is_the_soft_projection():
    assert (SOFT.n_components, SOFT.dimension, SOFT.is_soft) == (3, 2, True)
    np.testing.assert_allclose(SOFT.projector.basis, BASIS, atol=1e-12)
    Z = SOFT.transform(ROWS.X)
    np.testing.assert_allclose(Z, X @ COMPONENTS.T, atol=1e-12)
    back = SOFT.inverse_transform(Z)
    np.testing.assert_allclose(back - ROWS.X.mean(axis=0), X @ P_STAR, atol=1e-12)
    assert repr(SOFT) == "<FairSubspace of 2 in 5 features, soft in 3 coordinates>"


def test_metrics_and_audit_judge_what_it_reconstructs():
    errors = metrics.reconstruction_error(SOFT, ROWS.X, ROWS.labels)
    np.testing.assert_allclose(list(errors.values()), ERRORS)
    best = [(np.linalg.svd(part, compute_uv=False)[2:] ** 2).sum() / 30 for part in PARTS]
    losses = metrics.excess_loss(SOFT, ROWS.X, ROWS.labels)
    np.testing.assert_allclose(list(losses.values()), np.maximum(ERRORS - best, 0))
    model_audit = audit({"soft": SOFT}, ROWS.X, ROWS.labels).models[0]
    assert model_audit.n_components == 2
    np.testing.assert_allclose([group.observed_error.value for group in model_audit.groups], ERRORS)
    assert all(
        group.observed_error.low < group.observed_error.value < group.observed_error.high
        for group in model_audit.groups
    )


JUNK = {
    "no whole dimension": COMPONENTS * [[1], [1], [0.5]],
    "longer than one": COMPONENTS * 1.1,
    "not at right angles": np.vstack([COMPONENTS[:2], COMPONENTS[2:] + 0.1 * COMPONENTS[:1]]),
    "NaN": COMPONENTS * np.nan,
    "nothing": COMPONENTS * 0,
    "more rows than features": np.vstack([COMPONENTS] * 2),
}


@pytest.mark.parametrize("case", JUNK)
def test_other_components_are_still_refused(tmp_path, case):
    junk = FairSubspace(JUNK[case], np.zeros(5))
    with pytest.raises(InvalidInput):
        FairSubspace.from_model(junk)
    junk.save(tmp_path / "out")
    with pytest.raises(CorruptFile, match="consistent subspace"):
        FairSubspace.load(tmp_path / "out")


def test_a_bare_array_is_no_soft_projection():
    with pytest.raises(InvalidInput, match="not orthonormal"):
        FairSubspace.from_model(COMPONENTS)


def soft_fit(monkeypatch, basis, **settings):
    """Fit with a solver that returns this soft projection."""

    def solve(self, problem, tol, random_state=None):
        assert problem.allow_extra
        assert random_state == 5
        return certify(
            problem,
            basis,
            problem.proportions,
            tol=tol,
            n_eigenproblems=1,
            trace=[],
            solver="by hand",
        )

    monkeypatch.setattr(BoundarySearch, "solve", solve)
    model = FairPCA(2, allow_extra=True, random_state=5, **settings)
    return model.fit(ROWS.X, sensitive_features=ROWS.labels)


def test_the_estimator_carries_it(monkeypatch):
    model = soft_fit(monkeypatch, BASIS, criterion="minimax_error")
    assert model.components_.shape == (3, 5)
    assert model.n_components_ == 3
    assert model.transform(ROWS.X).shape == (60, 3)
    assert len(model.get_feature_names_out()) == 3
    np.testing.assert_allclose(model.group_errors_, ERRORS)
    traces = [(part**2).sum() / 30 for part in PARTS]
    ratios = model.group_explained_variance_ratio_.sum(axis=1)
    np.testing.assert_allclose(ratios, 1 - ERRORS / traces)
    total = model.explained_variance_ratio_.sum()
    assert total == pytest.approx(1 - ERRORS.sum() / sum(traces))
    assert model.solution_.objective == pytest.approx(model.group_errors_.max())
    back = model.inverse_transform(model.transform(ROWS.X)) - ROWS.X.mean(axis=0)
    np.testing.assert_allclose(back, X @ P_STAR, atol=1e-10)


def test_an_audit_adds_pca_of_the_same_dimension(monkeypatch):
    model = soft_fit(monkeypatch, BASIS, criterion="minimax_error")
    monkeypatch.undo()
    soft, pca = audit(model, ROWS.X, ROWS.labels).models
    assert (soft.n_components, pca.n_components) == (2, 2)
    assert soft.in_sample
    np.testing.assert_allclose(
        [group.observed_loss for group in soft.groups], model.group_losses_, atol=1e-9
    )


def test_soft_projections_are_mapped_back_from_a_restriction(monkeypatch):
    restricted = np.linalg.qr(np.random.default_rng(4).standard_normal((4, 4)))[0]
    basis = restricted[:, :3] * np.sqrt(LB)
    model = soft_fit(monkeypatch, basis, restriction=MeanParity())
    Z = model.transform(ROWS.X)
    gap = Z[ROWS.labels == "a"].mean(axis=0) - Z[ROWS.labels == "b"].mean(axis=0)
    assert np.abs(gap).max() <= 1e-10
    assert model.subspace_.dimension == 2
    scores = model.score_samples(ROWS.X)
    by_group = [-scores[ROWS.labels == label].mean() for label in "ab"]
    np.testing.assert_allclose(model.group_errors_, by_group)
