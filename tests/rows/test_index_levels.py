"""Named levels of a pandas index as groups, clusters, classes and weights."""

import numpy as np
import pandas as pd
import pytest

import fairspan as fs
from fairspan.errors import InvalidInput


@pytest.fixture
def frame():
    rng = np.random.default_rng(0)
    groups = rng.choice(["f", "m"], 300)
    index = pd.MultiIndex.from_arrays([groups, np.arange(300) // 3], names=["sex", "person"])
    return pd.DataFrame(rng.normal(size=(300, 3)) * [3, 1, 2], columns=["x", "y", "z"], index=index)


def test_a_level_is_the_group_and_no_feature(frame):
    fair = fs.FairPCA(2).fit(frame, sensitive_features="sex")
    from_column = fs.FairPCA(2).fit(frame.reset_index("sex"), sensitive_features="sex")
    np.testing.assert_array_equal(fair.components_, from_column.components_)
    assert fair.feature_names_in_.tolist() == ["x", "y", "z"]
    np.testing.assert_array_equal(fair.transform(frame), from_column.transform(frame))


def test_levels_and_columns_cross(frame):
    old = frame.assign(old=frame["x"] > 0)
    fair = fs.FairPCA(1).fit(old, sensitive_features=["sex", "old"])
    assert sorted(fair.groups_) == [("f", False), ("f", True), ("m", False), ("m", True)]
    assert fair.n_features_in_ == 3


def test_levels_are_clusters_of_an_audit(frame):
    fair = fs.FairPCA(2).fit(frame, sensitive_features="sex")
    by_level = fs.audit(fair, frame, "sex", clusters="person")
    columns = frame.reset_index()
    by_column = fs.audit(fair, columns, "sex", clusters="person")
    assert by_level.rows.has_clusters
    assert by_level.frame().equals(by_column.frame())


def test_a_column_comes_before_a_level_of_its_name(frame):
    both = frame.assign(sex=np.where(frame["x"] > 0, "a", "b"))
    fair = fs.FairPCA(1).fit(both, sensitive_features="sex")
    assert fair.groups_.tolist() == ["a", "b"]


def test_unknown_names_are_refused_as_before(frame):
    with pytest.raises(InvalidInput, match="race"):
        fs.FairPCA(1).fit(frame, sensitive_features="race")
