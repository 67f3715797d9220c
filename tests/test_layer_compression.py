"""Low-rank layers: no matrix of the rank is better, and the factors do what the figures say."""

import numpy as np
import pytest
from scipy.optimize import minimize

from fairspan import FairPCA, GroupMoments, MinimaxError, compress_layer
from fairspan.errors import IncompatibleParameters, InvalidInput, InvalidParameter, InvalidType


def draw_layer(seed=0, m=5, p=6, groups="ab"):
    """Draw weights, and inputs of groups that vary along other directions."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(300, p)) + 2
    labels = np.array(list(groups))[rng.integers(len(groups), size=300)]
    for label in groups:
        X[labels == label] *= np.exp(rng.normal(size=p))
    return rng.normal(size=(m, p)), X, labels, GroupMoments.from_rows(X, labels)


@pytest.mark.parametrize("center", ["global", "none"])
def test_figures_are_the_mean_squared_changes_of_the_outputs(center):
    weight, X, labels, moments = draw_layer()
    bias = np.arange(5.0)
    layer = compress_layer(weight, moments, 2, bias=bias, center=center)
    change = layer.apply(X) - (X @ weight.T + bias)
    for label, error in zip(moments.labels, layer.output_errors, strict=True):
        assert (change[labels == label] ** 2).sum(axis=1).mean() == pytest.approx(error, rel=1e-10)
    assert np.linalg.matrix_rank(layer.weight) == 2
    assert layer.n_parameters == 2 * (5 + 6)
    np.testing.assert_allclose(layer.second.T @ layer.second, np.eye(2), atol=1e-12)
    if center == "global":
        np.testing.assert_allclose(change.mean(axis=0), 0, atol=1e-12)
    else:
        np.testing.assert_array_equal(layer.bias, bias)


def test_total_error_is_activation_aware_singular_value_decomposition():
    weight, _, _, moments = draw_layer()
    layer = compress_layer(weight, moments, 2, "total_error")
    pooled = np.tensordot(moments.proportions, moments.second_moments("global"), 1)
    root = np.linalg.cholesky(pooled)
    U, values, Vt = np.linalg.svd(weight @ root)
    theirs = U[:, :2] * values[:2] @ Vt[:2] @ np.linalg.inv(root)
    np.testing.assert_allclose(layer.weight, theirs, atol=1e-9)
    assert layer.certificate.objective == pytest.approx((values[2:] ** 2).sum(), rel=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_no_descent_over_all_matrices_of_the_rank_is_better(seed):
    weight, _, _, moments = draw_layer(seed, m=3, p=4)
    layer = compress_layer(weight, moments, 1)
    S = moments.second_moments("global")

    def largest_error(parameters):
        change = weight - np.outer(parameters[:3], parameters[3:])
        return max(np.trace(change @ matrix @ change.T) for matrix in S)

    rng = np.random.default_rng(seed)
    smallest = min(
        minimize(
            largest_error, rng.normal(size=7), method="Nelder-Mead", options={"maxiter": 4_000}
        ).fun
        for _ in range(8)
    )
    assert layer.certificate.status == "optimal"
    assert layer.certificate.objective <= smallest + 1e-9
    assert layer.certificate.objective == pytest.approx(smallest, rel=0.02)


def test_a_layer_of_full_rank_changes_nothing():
    weight, X, _, moments = draw_layer(m=3)
    layer = compress_layer(weight, moments, 3)
    np.testing.assert_allclose(layer.apply(X), X @ weight.T, atol=1e-10)


def test_relative_errors_and_many_groups():
    weight, _, _, moments = draw_layer(groups="abcd")
    relative = compress_layer(weight, moments, 2, MinimaxError(relative=True))
    largest = (relative.output_errors / relative.output_variances).max()
    assert relative.certificate.objective == pytest.approx(largest, rel=1e-12)
    plain = compress_layer(weight, moments, 2)
    assert (plain.output_errors / plain.output_variances).max() >= largest - 1e-12


def test_tensors_of_other_packages_are_read():
    class Tensor:
        """The interface of a tensor of PyTorch."""

        def __init__(self, values):
            self.values = values

        def detach(self):
            return self

        def cpu(self):
            return self.values

    weight, _, _, moments = draw_layer()
    ours = compress_layer(weight, moments, 2)
    theirs = compress_layer(Tensor(weight.astype(np.float32)), moments, 2)
    np.testing.assert_allclose(theirs.weight, ours.weight, atol=1e-5)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"weight": np.ones((6, 5))}, InvalidInput, "Transpose"),
        ({"weight": np.ones(6)}, InvalidInput, "shape"),
        ({"weight": np.full((5, 6), np.nan)}, InvalidInput, "not finite"),
        ({"weight": "text"}, InvalidInput, "cannot be read"),
        ({"rank": 6}, InvalidParameter, "rank is 6.*5"),
        ({"rank": 0.5}, InvalidParameter, "0.5"),
        ({"bias": np.ones(4)}, InvalidInput, "bias has 4"),
        ({"criterion": "error_gap"}, IncompatibleParameters, "'minimax_error'"),
        ({"center": "group"}, IncompatibleParameters, "one bias"),
        ({"moments": np.eye(6)}, InvalidType, "GroupMoments"),
    ],
)
def test_bad_input_is_refused(change, error, message):
    weight, _, _, moments = draw_layer()
    with pytest.raises(error, match=message):
        compress_layer(**({"weight": weight, "moments": moments, "rank": 2} | change))


def test_the_certificate_is_that_of_pca_of_the_outputs():
    weight, X, labels, moments = draw_layer()
    layer = compress_layer(weight, moments, 2, "minimax_loss")
    outputs = FairPCA(2).fit(X @ weight.T, sensitive_features=labels)
    assert layer.certificate.objective == pytest.approx(outputs.solution_.objective, rel=1e-9)


def test_outputs_that_are_differences_of_large_numbers_are_unresolved():
    rng = np.random.default_rng(0)
    X = 1e6 * rng.normal(size=(400, 1)) + rng.normal(size=(400, 4))
    weight = np.diff(np.eye(4), axis=0)
    layer = compress_layer(weight, GroupMoments.from_rows(X, np.arange(400) % 2), 1)
    assert layer.certificate.status == "unresolved"
    assert "differences of large numbers" in layer.certificate.message


def test_complex_weights_are_refused():
    *_, moments = draw_layer()
    with pytest.raises(InvalidInput, match="complex"):
        compress_layer(np.ones((5, 6)) + 1j, moments, 2)
