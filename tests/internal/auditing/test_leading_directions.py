"""Leading eigenvectors outside a fold, from those of all rows."""

import numpy as np
import pytest

import fairspan as fs
from fairspan.auditing.leading_directions import LeadingDirections, find_leading_directions
from fairspan.moments import second_moments as second_moments_module
from fairspan.moments.second_moments import DenseSecondMoments

P = 520


def make_rows(n=2_000, decay=0.8, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, P)) * np.arange(1.0, P + 1) ** -decay


def moments_of(rows):
    return DenseSecondMoments((rows.T @ rows / len(rows))[None])


def find(moments, d, start=None):
    return find_leading_directions(moments, np.ones(1), d, start)


@pytest.mark.parametrize("decay", [0.0, 0.3, 0.8])
def test_directions_outside_a_fold_are_those_of_its_rows(decay):
    rows = make_rows(decay=decay)
    other_rows = rows[200:]
    start = find(moments_of(rows), 6).start_for(6, growth=2_000 / 1_800)
    directions = find(moments_of(other_rows), 6, start)
    values, vectors = np.linalg.eigh(other_rows.T @ other_rows / len(other_rows))
    np.testing.assert_allclose(directions.variances[:6], values[::-1][:6], rtol=1e-9)
    overlap = np.linalg.svd(directions.vectors[:, :6].T @ vectors[:, :-7:-1], compute_uv=False)
    assert overlap.min() > 1 - 1e-8


def test_a_start_is_refused_where_another_direction_may_lead_without_the_fold():
    vectors = np.eye(P)[:, :4]
    # Without a tenth of the weight, no variance exceeds 10 / 9 of that in all rows.
    separated = LeadingDirections(vectors, np.array([9.0, 7.0, 5.0, 4.0]))
    assert separated.start_for(3, growth=10 / 9) is vectors
    close = LeadingDirections(vectors, np.array([9.0, 7.0, 5.0, 4.6]))
    assert close.start_for(3, growth=10 / 9) is None
    # Without most of the weight, nearly any direction may.
    assert separated.start_for(3, growth=3.0) is None
    # All directions are wanted: none is left to tell what varies beyond them.
    assert separated.start_for(4, growth=10 / 9) is None


@pytest.mark.slow
@pytest.mark.counts
def test_an_audit_of_many_features_takes_few_products(monkeypatch):
    rng = np.random.default_rng(3)
    X = make_rows(3_000)
    groups = np.array(["a", "b"])[rng.integers(0, 2, len(X))]
    X[groups == "a", :40] *= rng.uniform(0.7, 1.4, 40)
    n_columns = []
    product = second_moments_module._symmetric_product

    def count_product(matrix, block):
        n_columns.append(block.shape[1])
        return product(matrix, block)

    monkeypatch.setattr(second_moments_module, "_symmetric_product", count_product)
    model = fs.FairPCA(5).fit(X, sensitive_features=groups)
    of_fit = sum(n_columns)
    n_columns.clear()
    fs.audit(model, X, groups, folds=5)
    # Best subspaces of two groups, the fair fit and ordinary PCA, on all rows and in five folds.
    # Without starts from all rows it takes 11.8 times as many as the fit.
    assert sum(n_columns) < 11.2 * of_fit
