import numpy as np
import pytest
from sklearn.decomposition import PCA

from fairspan import FairPCA, GroupMoments, audit, metrics
from fairspan.errors import InvalidInput

RNG = np.random.default_rng(1)
X = RNG.standard_normal((120, 6)) * [4, 3, 2, 1, 1, 1] + 10
GROUPS = np.array(["a", "b", "b"] * 40)
MODEL = PCA(2).fit(X)


def by_group(function):
    return {label: function(X[label == GROUPS]) for label in ("a", "b")}


def squared_residuals(rows):
    return ((rows - MODEL.inverse_transform(MODEL.transform(rows))) ** 2).sum(axis=1)


def test_reconstruction_error_is_the_mean_squared_residual():
    expected = by_group(lambda rows: squared_residuals(rows).mean())
    assert metrics.reconstruction_error(MODEL, X, GROUPS) == pytest.approx(expected)


def test_excess_loss_is_measured_against_each_groups_own_pca():
    def loss(rows):
        spectrum = np.linalg.svd(rows - MODEL.mean_, compute_uv=False) ** 2 / len(rows)
        return squared_residuals(rows).mean() - spectrum[2:].sum()

    assert metrics.excess_loss(MODEL, X, GROUPS) == pytest.approx(by_group(loss))


def test_captured_variance_ratio():
    def ratio(rows):
        return 1 - squared_residuals(rows).sum() / ((rows - MODEL.mean_) ** 2).sum()

    assert metrics.captured_variance_ratio(MODEL, X, GROUPS) == pytest.approx(by_group(ratio))


def test_disparity_is_second_minus_first_and_widest_of_three():
    errors = metrics.reconstruction_error(MODEL, X, GROUPS)
    assert metrics.disparity(MODEL, X, GROUPS) == pytest.approx(errors["b"] - errors["a"])
    three = np.array(list("abc") * 40)
    values = metrics.reconstruction_error(MODEL, X, three).values()
    assert metrics.disparity(MODEL, X, three) == pytest.approx(max(values) - min(values))


def test_weights_equal_repeated_rows():
    weights = RNG.integers(1, 4, 120)
    weighted = metrics.reconstruction_error(MODEL, X, GROUPS, sample_weight=weights)
    repeated = metrics.reconstruction_error(
        MODEL, X.repeat(weights, axis=0), GROUPS.repeat(weights)
    )
    assert weighted == pytest.approx(repeated)


def test_agrees_with_the_estimator():
    fair = FairPCA(2).fit(X, sensitive_features=GROUPS)
    assert list(metrics.excess_loss(fair, X, GROUPS).values()) == pytest.approx(
        fair.group_losses_.tolist()
    )


def test_features_in_another_order_are_refused():
    import pandas as pd

    frame = pd.DataFrame(X, columns=list("uvwxyz"))
    fair = FairPCA(2).fit(frame, sensitive_features=GROUPS)
    turned = GroupMoments.from_rows(frame[list("zyxwvu")], GROUPS)
    with pytest.raises(InvalidInput, match=r"'z', 'y'.*in this order"):
        audit(fair, moments=turned)
