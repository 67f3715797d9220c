"""Parts of the rows of a plane add up to all of them."""

import pickle

import numpy as np

from fairspan import FairPCA
from fairspan.displays.plane_sample import PlaneSampleAggregator
from fairspan.rows.opening import open_group_rows
from numpy_reference import random_rows


def test_parts_add_up_to_the_total():
    rows = random_rows(0, n=90, p=4, groups=("a", "b", "c"))
    X = rows.X
    groups = rows.labels
    model = FairPCA(3, scale=True).fit(X, sensitive_features=groups)
    fold = PlaneSampleAggregator(model.subspace_, ("a", "b", "c"), 1000, 0)
    of_all_rows = fold.aggregate(open_group_rows(X, groups, rows.weights))
    first = fold.aggregate(open_group_rows(X[:50], groups[:50], rows.weights[:50]))
    second = fold.aggregate(open_group_rows(X[50:], groups[50:], rows.weights[50:]))
    of_parts = fold.merge(pickle.loads(pickle.dumps(first)), second)
    for name in ("n_rows", "moment_sums", "group_codes", "points"):
        np.testing.assert_allclose(getattr(of_parts, name), getattr(of_all_rows, name), atol=1e-9)
    Z = model.transform(X)[:, :2]
    in_group = groups == "b"
    expected = np.cov(Z[in_group].T, ddof=0, aweights=rows.weights[in_group])
    np.testing.assert_allclose(of_all_rows.group_moments()[2][1], expected, atol=1e-12)
