"""The data folder of reproductions, benchmarks and the gallery."""

import json

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import real_data
from fairspan.errors import InvalidInput, InvalidParameter
from reproduction.data import balanced_rows, load, load_faces, resized


@pytest.fixture
def folder(tmp_path):
    """A set of four rows and six faces."""
    columns = {
        "height": [1.0, 2.0, 3.0, 4.0],
        "group__sex": ["f", "m", "f", "m"],
        "weight": [5, 6, 7, 8],
        "group__age": ["old", "old", "young", "young"],
        "label__sick": [0, 1, 1, 0],
        "drop__id": [1, 2, 3, 4],
        "meta__note": ["", "x", "", "y"],
    }
    parquet.write_table(pa.table(columns), tmp_path / "small.parquet")
    pixels = np.arange(6 * 4 * 3, dtype=np.uint8).reshape(6, 4, 3)
    male = np.array([1, 0, 1, 0, 1, 1], dtype=np.uint8)
    np.savez(tmp_path / "lfw.npz", pixels=pixels, thirds=pixels % 3, male=male)
    return tmp_path


def test_columns_are_taken_by_the_prefix_of_their_names(folder, monkeypatch):
    monkeypatch.setenv("FAIRSPAN_DATA", str(folder))
    data = load("small")
    assert data.feature_names == ("height", "weight")
    np.testing.assert_array_equal(data.X, [[1, 5], [2, 6], [3, 7], [4, 8]])
    assert data.sensitive_features.tolist() == ["f", "m", "f", "m"]
    assert data.labels.tolist() == [0, 1, 1, 0]


def test_groups_are_crossed_and_features_left_out(folder):
    data = load("small", folder, ["sex", "age"], leave_out=["height"])
    assert data.sensitive_features.tolist()[1] == ["m", "old"]
    assert (data.feature_names, data.X.tolist()) == (("weight",), [[5], [6], [7], [8]])


def test_what_is_not_there_is_named(folder):
    with pytest.raises(InvalidInput, match=r"no file .*large\.parquet.* FAIRSPAN_DATA"):
        load("large", folder)
    with pytest.raises(InvalidParameter, match="'sex', 'age'"):
        load("small", folder, group="race")


def test_faces_are_grey_values_between_zero_and_one(folder):
    faces = load_faces(folder)
    assert faces.X.shape == (6, 12)
    assert faces.X[0, 5] == pytest.approx((5 + (5 % 3) / 3) / 255)
    assert faces.sensitive_features.tolist() == ["male", "female", "male", "female", "male", "male"]
    assert len(set(faces.feature_names)) == 12
    assert faces.feature_names[3 + 1] == "row1_column1"


def test_a_balanced_sample_has_as_many_of_each_and_hangs_on_the_seed():
    groups = np.array(["a", "b", "a", "b", "b", "b", "c", "c"])
    drawn = [balanced_rows(groups, 2, seed) for seed in (0, 0, 1, 2, 3)]
    for each in drawn:
        assert sorted(groups[each]) == ["a", "a", "b", "b", "c", "c"]
        assert len(set(each)) == 6
    np.testing.assert_array_equal(drawn[0], drawn[1])
    assert any((each != drawn[0]).any() for each in drawn[2:])


def test_resizing_averages_over_areas():
    rng = np.random.default_rng(3)
    images = rng.random((2, 49, 36))
    # Every pixel split into 24 x 24 equal parts, of which blocks of 49 x 36 are averaged.
    fine = images.repeat(24, axis=1).repeat(24, axis=2)
    expected = fine.reshape(2, 24, 49, 24, 36).mean(axis=(2, 4))
    np.testing.assert_allclose(resized(images, (24, 24)), expected, rtol=1e-12)
    np.testing.assert_allclose(resized(images, (49, 36)), images, rtol=1e-12)


def test_the_real_faces_and_credit_are_those_that_their_source_describes():
    facts = json.loads(real_data.path_of("manifest.json").read_text())
    faces = load_faces(real_data.FOLDER, n_per_gender=2000, shape=(24, 24))
    assert faces.X.shape == (4000, 576)
    mean = load_faces(real_data.FOLDER).X.mean()
    assert mean == pytest.approx(facts["lfw"]["pixel_mean_over_all_div255"], rel=1e-12)
    credit = load("default_credit", real_data.FOLDER, group="education3")
    assert credit.X.shape == (30000, 22)
    sizes = dict(zip(*np.unique(credit.sensitive_features, return_counts=True), strict=True))
    assert sizes == {"university_or_above": 24629, "high_school": 4917, "other": 454}
    stated = [each["mean"] for each in facts["default_credit"]["features"]]
    np.testing.assert_allclose(credit.X.mean(axis=0), stated, rtol=1e-12)
