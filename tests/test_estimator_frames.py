"""Data frames in and out, and groups named as columns of the table."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone

from by_hand import random_rows
from fairspan import FairPCA, MeanParity
from fairspan.errors import InvalidInput

ROWS = random_rows(51, n=40, p=3)
FEATURES = dict(zip("xyz", ROWS.X.T, strict=True))
SEX = ROWS.labels.tolist()
AGE = (np.arange(40) % 2).tolist()
KINDS = pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame, pa.table])


@pytest.fixture(scope="module")
def plain():
    return FairPCA(2).fit(ROWS.X, sensitive_features=SEX)


def with_groups(kind, **replaced):
    return kind({"sex": SEX, **FEATURES, "age": AGE} | replaced)


@KINDS
def test_a_frame_gives_the_fit_of_its_array(kind, plain):
    model = FairPCA(2).fit(kind(FEATURES), sensitive_features=SEX)
    assert model.components_.tobytes() == plain.components_.tobytes()
    assert model.feature_names_in_.tolist() == ["x", "y", "z"]
    assert model.n_features_in_ == 3
    assert model.subspace_.feature_names == ("x", "y", "z")
    np.testing.assert_array_equal(model.transform(kind(FEATURES)), plain.transform(ROWS.X))
    np.testing.assert_array_equal(model.score_samples(kind(FEATURES)), plain.score_samples(ROWS.X))


@KINDS
def test_named_group_columns_are_taken_out_at_fit_and_ignored_later(kind, plain):
    frame = kind({"sex": SEX, **FEATURES})
    model = FairPCA(2).fit(frame, sensitive_features="sex")
    assert model.components_.tobytes() == plain.components_.tobytes()
    assert model.feature_names_in_.tolist() == ["x", "y", "z"]
    assert model.n_features_in_ == 3
    expected = plain.transform(ROWS.X)
    other_labels = ["never seen", None] * 20
    for table in (frame, kind(FEATURES), kind({"sex": other_labels, **FEATURES})):
        np.testing.assert_array_equal(model.transform(table), expected)
        assert model.score(table) == plain.score(ROWS.X)
    coordinates = FairPCA(2).fit_transform(frame, sensitive_features="sex")
    np.testing.assert_array_equal(coordinates, expected)


@KINDS
@pytest.mark.parametrize("names", [["sex", "age"], ("sex", "age")])
def test_several_named_columns_make_intersections(kind, names):
    model = FairPCA(1, criterion="total_error")
    model.fit(with_groups(kind), sensitive_features=names)
    assert model.groups_.tolist() == [("a", 0), ("a", 1), ("b", 0), ("b", 1)]
    assert model.feature_names_in_.tolist() == ["x", "y", "z"]
    beside = FairPCA(1, criterion="total_error").fit(
        kind(FEATURES), sensitive_features=list(zip(SEX, AGE, strict=True))
    )
    np.testing.assert_array_equal(model.group_errors_, beside.group_errors_)
    np.testing.assert_array_equal(
        model.transform(with_groups(kind)), beside.transform(kind(FEATURES))
    )


@KINDS
def test_a_column_that_is_not_named_is_a_feature(kind):
    model = FairPCA(2).fit(with_groups(kind), sensitive_features="sex")
    assert model.feature_names_in_.tolist() == ["x", "y", "z", "age"]
    with pytest.raises(InvalidInput, match="hold no numbers but String: 'sex'"):
        FairPCA(2).fit(with_groups(kind), sensitive_features="age")


def test_pieces_with_a_named_column_are_the_whole(plain):
    frame = with_groups(pd.DataFrame).drop(columns="age")
    model = FairPCA(2)
    for start in (0, 10, 25):
        stop = {0: 10, 10: 25, 25: 40}[start]
        model.partial_fit(frame[start:stop], sensitive_features="sex")
    np.testing.assert_allclose(model.group_errors_, plain.group_errors_, rtol=1e-9)
    np.testing.assert_allclose(model.transform(frame), plain.transform(ROWS.X), atol=1e-7)


def test_fitting_again_without_the_column_forgets_it():
    frame = pd.DataFrame(FEATURES).assign(g=AGE)
    model = FairPCA(2).fit(frame, sensitive_features="g")
    model.fit(frame, sensitive_features=SEX)
    assert model.feature_names_in_.tolist() == ["x", "y", "z", "g"]
    assert model.transform(frame).shape == (40, 2)


def test_pandas_in_gives_pandas_out():
    frame = pd.DataFrame(FEATURES, index=range(100, 140))
    model = FairPCA(2).set_output(transform="pandas").fit(frame, sensitive_features=SEX)
    coordinates = model.transform(frame)
    assert isinstance(coordinates, pd.DataFrame)
    assert coordinates.columns.tolist() == ["fairpca0", "fairpca1"]
    assert coordinates.index.tolist() == list(range(100, 140))
    assert model.get_feature_names_out().tolist() == ["fairpca0", "fairpca1"]
    plain_coordinates = clone(model).set_output(transform="default")
    expected = plain_coordinates.fit(frame, sensitive_features=SEX).transform(frame)
    np.testing.assert_array_equal(coordinates.to_numpy(), expected)
    np.testing.assert_allclose(
        model.inverse_transform(coordinates), model.inverse_transform(expected)
    )


def test_polars_in_gives_polars_out():
    model = FairPCA(2).set_output(transform="polars")
    coordinates = model.fit_transform(pl.DataFrame(FEATURES), sensitive_features=SEX)
    assert isinstance(coordinates, pl.DataFrame)
    assert coordinates.columns == ["fairpca0", "fairpca1"]


def test_columns_in_another_order_are_refused_as_scikit_learn_does():
    model = FairPCA(2).fit(pd.DataFrame(FEATURES), sensitive_features=SEX)
    with pytest.raises(ValueError, match="must be in the same order"):
        model.transform(pd.DataFrame(FEATURES)[["z", "y", "x"]])
    with pytest.raises(ValueError, match="unseen at fit time"):
        model.transform(pd.DataFrame(FEATURES).assign(sex=SEX))
    # The subspace alone matches by name.
    reordered = model.subspace_.transform(pd.DataFrame(FEATURES)[["z", "y", "x"]])
    np.testing.assert_array_equal(reordered, model.transform(pd.DataFrame(FEATURES)))


def test_other_widths_are_refused_as_scikit_learn_does(plain):
    for method in (plain.transform, plain.score_samples, plain.score):
        with pytest.raises(ValueError, match="2 features, but FairPCA is expecting 3 features"):
            method(ROWS.X[:, :2])
    with pytest.raises(InvalidInput, match="3 coordinates"):
        plain.inverse_transform(ROWS.X)


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([[1.0, np.nan, 2.0]], r"NaN, first in row 1 \(index 0\), column 2 \(index 1\)"),
        (np.array([[1.0, np.inf, 2.0]], dtype=np.float32), "infinity, first in row 1 "),
        (np.ma.masked_equal([[1.0, 2.0, 3.0]], 2.0), "masked"),
        (ROWS.X[0], "1 dimension"),
        ([["a", "b", "c"]], "text"),
    ],
)
def test_unusable_rows_are_refused_at_transform_too(plain, rows, words):
    for method in (plain.transform, plain.score_samples):
        with pytest.raises(InvalidInput, match=words):
            method(rows)


def test_missing_cells_of_a_frame_are_refused_at_transform_too():
    model = FairPCA(2).fit(pd.DataFrame(FEATURES), sensitive_features=SEX)
    with pytest.raises(InvalidInput, match=r"NaN, first in row 2 \(index 1\), column 'y'"):
        model.transform(pd.DataFrame(FEATURES).mask(lambda frame: frame == frame["y"][1]))


def test_a_named_column_of_classes_is_ignored_later_too():
    numbers = pd.DataFrame(FEATURES)
    frame = numbers.assign(sex=SEX, hired=AGE)
    model = FairPCA(1, criterion="total_error", restriction=MeanParity(given_labels="all"))
    expected = clone(model).fit(numbers, AGE, sensitive_features=SEX).transform(numbers)
    model.fit(frame, "hired", sensitive_features="sex")
    for table in (frame, numbers, frame.assign(hired="unknown")):
        np.testing.assert_allclose(model.transform(table), expected, atol=1e-9)
