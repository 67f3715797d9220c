"""Reference values of moments, errors and projectors, from raw rows with numpy alone."""

import tracemalloc
from contextlib import contextmanager
from dataclasses import asdict, dataclass

import numpy as np
import numpy.typing as npt

from certificate_claims import claim_values
from fairspan import GroupMoments

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Rows:
    X: FloatArray
    labels: npt.NDArray[np.str_]
    weights: FloatArray


def random_rows(seed, n=60, p=5, groups=("a", "b"), offset=3.0):
    """Draw correlated rows; each group has rows, with another mean and covariance."""
    rng = np.random.default_rng(seed)
    labels = np.array(groups)[rng.permutation(np.arange(n) % len(groups))]
    X = np.empty((n, p))
    for group in groups:
        mixing = rng.standard_normal((p, p)) * rng.uniform(0.3, 3, p)
        in_group = labels == group
        X[in_group] = rng.standard_normal(
            (in_group.sum(), p)
        ) @ mixing + offset * rng.standard_normal(p)
    return Rows(X, labels, rng.uniform(0.2, 3, n))


def thin_rows(seed=0, n=300, p=12, share=0.05, groups=("a", "b", "c"), filled=()):
    """Draw correlated rows with few nonzero cells, except in some dense columns."""
    rng = np.random.default_rng(seed)
    rows = random_rows(seed, n, p, groups, offset=1.0)
    nonzero = rng.random((n, p)) < share
    nonzero[:, list(filled)] = True
    return np.where(nonzero, rows.X, 0.0), rows.labels, rows.weights


def generate_group_rows(k=2, p=6, n=30, seed=0):
    """Draw rows of k groups away from the origin, with different covariances, and labels."""
    rng = np.random.default_rng(seed)
    blocks = [rng.normal(size=(n + 3 * g, p)) @ rng.normal(size=(p, p)) for g in range(k)]
    labels = np.repeat(list("abcd")[:k], [len(block) for block in blocks])
    return np.vstack(blocks) + rng.normal(size=p), labels


def reference_moments(X, labels, weights=None, dtype=np.float64):
    """Return each label's rows, weight, mean and scatter, straight from the definitions."""
    X = np.asarray(X, dtype=dtype)
    labels = list(labels)
    weights = np.ones(len(X)) if weights is None else np.asarray(weights, dtype=np.float64)
    result = {}
    for label in sorted(set(labels)):
        in_group = np.array([row_label == label for row_label in labels]) & (weights > 0)
        if in_group.any():
            mean = np.average(X[in_group], axis=0, weights=weights[in_group])
            centered = X[in_group] - mean
            scatter = (centered * weights[in_group][:, None]).T @ centered
            result[label] = (int(in_group.sum()), weights[in_group].sum(), mean, scatter)
    return result


def assert_moments(moments, expected, rtol=1e-9):
    """Compare with `reference_moments`, or with other moments, in norm."""
    if isinstance(expected, GroupMoments):
        columns = (expected.counts, expected.weights, expected.means, expected.scatters)
        expected = dict(zip(expected.labels, zip(*columns, strict=True), strict=True))
    assert moments.labels == list(expected)
    for i, (count, weight, mean, scatter) in enumerate(expected.values()):
        assert moments.counts[i] == count
        np.testing.assert_allclose(moments.weights[i], weight, rtol=rtol)
        assert relative_error(moments.means[i], mean) <= rtol
        # The scatter of equal rows is zero up to the rounding of their mean.
        rounding = weight * (1e-14 * np.linalg.norm(mean)) ** 2
        error = np.linalg.norm(moments.scatters[i] - scatter)
        assert error <= rtol * np.linalg.norm(scatter) + rounding


def relative_error(actual, expected):
    """Return the relative error in norm, or the absolute one where zero is expected."""
    return np.linalg.norm(actual - expected) / (np.linalg.norm(expected) or 1.0)


def projector_distance(one, other):
    """Return the spectral norm of the difference of the projectors of two bases, given as rows."""
    return np.linalg.norm(projector(one) - projector(other), ord=2)


def projector(components):
    return components.T @ components


def reference_errors(X, labels, components, center, weights=None):
    """Return each group's weighted mean of squared distances to the reconstruction.

    center is a (p,) point, or None for each group's own mean.
    """
    weights = np.ones(len(X)) if weights is None else weights
    errors = []
    for label in sorted(set(labels)):
        in_group = labels == label
        point = (
            np.average(X[in_group], axis=0, weights=weights[in_group]) if center is None else center
        )
        residual = (X[in_group] - point) @ (np.eye(X.shape[1]) - projector(components))
        errors.append(np.average((residual**2).sum(axis=1), weights=weights[in_group]))
    return np.array(errors)


def assert_same_certificate(one, other):
    """Assert that two certificates agree in the value and type of every field."""
    np.testing.assert_equal(asdict(one), asdict(other))
    assert (one.criterion, one.restriction) == (other.criterion, other.restriction)
    assert type(one.proof) is type(other.proof)
    for mine, theirs in zip(claim_values(one).values(), claim_values(other).values(), strict=True):
        assert type(mine) is type(theirs)


@contextmanager
def trace_peak_memory():
    """Yield a function that returns the peak of traced memory so far, in bytes."""
    tracemalloc.start()
    try:
        yield lambda: tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
