"""Out-of-fold figures of a classifier, against scikit-learn's own cross-validation."""

import numpy as np
import pytest
from scipy.stats import binomtest, norm, t
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import PredefinedSplit, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import fairspan as fs
from fairspan.auditing.downstream import (
    N_FOLDS,
    LabelledRows,
    _change_of,
    _folds,
    _over_folds,
    _share_of,
    downstream,
    labelled_rows,
)
from fairspan.auditing.models import plain_pca
from fairspan.errors import InvalidInput
from fairspan.estimator.fitting import fit_subspace
from fairspan.rows.beside import rows_beside

RNG = np.random.default_rng(4)
N = 300
GROUPS = np.array(["a", "b", "c"])[RNG.integers(0, 3, N)]
X = RNG.standard_normal((N, 5)) * np.where(GROUPS[:, None] == "a", [4, 2, 1, 1, 1], [1, 1, 1, 2, 3])
Y = np.array(["no", "yes"])[(X[:, 0] + X[:, 4] + RNG.standard_normal(N) > 0).astype(int)]


def opened(X=X, groups=GROUPS, y=Y):
    return labelled_rows(rows_beside(X, groups, {"labels": y}), len(X))


def test_accuracy_and_parity_are_those_of_scikit_learns_cross_validation():
    rows = opened()
    found = downstream(rows, {"PCA": lambda m: plain_pca(m, 2, "global", scale=False)})
    model = make_pipeline(PCA(2, svd_solver="full"), StandardScaler(), LogisticRegression())
    predicted = cross_val_predict(model, X, Y, cv=PredefinedSplit(_folds(rows)))
    outcome = found.outcomes[0]
    for each in outcome.groups:
        own = each.group == GROUPS
        assert (each.n, each.change) == (own.sum(), None)
        assert each.accuracy.value == pytest.approx((predicted == Y)[own].mean())
    told = fs.metrics.statistical_parity(predicted, GROUPS)
    assert outcome.parity.value == pytest.approx(told.largest)
    assert found.classes == ("no", "yes")


def test_every_group_and_class_is_in_every_fold():
    rows = opened()
    folds = _folds(rows)
    for group in range(3):
        for each in range(2):
            sizes = np.bincount(folds[(rows.groups == group) & (rows.classes == each)])
            assert sizes.max() - sizes.min() <= 1


def test_hiding_a_group_lowers_leakage_and_changes_are_paired():
    # The group is told by its mean along the direction of most variance.
    shifted = X + (GROUPS == "a")[:, None] * [6.0, 0, 0, 0, 0]
    hide = fs.MeanParity()
    found = downstream(
        opened(shifted),
        {
            "PCA": lambda m: plain_pca(m, 2, "global", scale=False),
            "hidden": lambda m: fit_subspace(m, 2, restriction=hide).subspace,
        },
    )
    before, after = found.outcomes
    assert after.leakage.high < before.leakage.low
    for old, new in zip(before.groups, after.groups, strict=True):
        assert new.change.value == pytest.approx(new.accuracy.value - old.accuracy.value)
        assert new.change.low < new.change.value < new.change.high


def test_the_same_representation_changes_nothing_and_is_not_certain():
    both = {name: lambda m: plain_pca(m, 2, "global", scale=False) for name in ("PCA", "again")}
    for group in downstream(opened(), both).outcomes[1].groups:
        assert group.change.value == 0
        assert group.change.low < 0 < group.change.high


@pytest.mark.parametrize("right", [0, 7, 40])
def test_shares_have_wilsons_interval(right):
    found = _share_of(np.arange(40.0) < right, 0.95)
    expected = binomtest(right, 40).proportion_ci(0.95, method="wilson")
    assert found.value == right / 40
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=1e-9)


def test_intervals_of_changes_cover():
    """Of paired shares with a true change of -0.1, at 95 %."""
    rng = np.random.default_rng(0)
    drawn = rng.choice([-1.0, 0.0, 1.0], p=[0.2, 0.7, 0.1], size=(2000, 60))
    ends = [_change_of(each, 1, 0.95) for each in drawn]
    share = np.mean([each.low <= -0.1 <= each.high for each in ends])
    assert 0.935 <= share <= 0.975


def test_attributes_are_crossed_and_many_rows_are_drawn(monkeypatch):
    monkeypatch.setattr("fairspan.auditing.downstream.MOST_ROWS", 200)
    site = np.array(["x", "y"])[np.arange(N) % 2]
    rows = labelled_rows(rows_beside(X, np.column_stack([GROUPS, site]), {"labels": Y}), N)
    assert isinstance(rows, LabelledRows)
    assert (len(rows.values), rows.sampled_from) == (200, N)
    assert rows.group_labels[0] == ("a", "x")
    found = downstream(rows, {"PCA": lambda m: plain_pca(m, 2, "global", scale=False)})
    assert sum(group.n for group in found.outcomes[0].groups) == 200


@pytest.mark.parametrize(
    ("y", "said"),
    [
        (X[:, 0], "300 different values"),
        (["same"] * N, "1 different values"),
        (np.arange(N) < 3, "too few rows"),
    ],
)
def test_labels_that_are_no_classes_are_refused(y, said):
    with pytest.raises(InvalidInput, match=said):
        opened(y=y)


def test_a_change_has_the_interval_of_agresti_and_min():
    compared = np.array([1.0] * 9 + [-1.0] * 4 + [0.0] * 37)
    n, better, worse = 52, 9.5, 4.5  # half a row more in each of four outcomes
    middle, z = (better - worse) / n, norm.ppf(0.975)
    half = z * np.sqrt(better + worse - (better - worse) ** 2 / n) / n
    found = _change_of(compared, 1, 0.95)
    assert found.value == pytest.approx(0.1)
    assert (found.low, found.high) == pytest.approx((middle - half, middle + half))


def test_the_fewest_rows_of_a_group_are_two_a_fold():
    groups = np.where(np.arange(N) < 2 * N_FOLDS, "few", "many")
    assert opened(groups=groups).group_labels[0] == "few"
    assert len(opened(y=groups).class_labels) == 2
    groups[0] = "many"
    with pytest.raises(InvalidInput, match="too few rows"):
        opened(groups=groups)


def test_folds_that_share_their_training_rows_have_the_interval_of_nadeau_and_bengio():
    leaked = np.array([0.1, 0.2, 0.4, 0.3, 0.25])
    half = t.ppf(0.975, 4) * leaked.std(ddof=1) * np.sqrt(1 / 5 + 1 / 4)
    found = _over_folds(leaked, 0.95)
    assert found.value == pytest.approx(0.25)
    assert (found.low, found.high) == pytest.approx((0.25 - half, 0.25 + half))
