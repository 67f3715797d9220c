"""The experiments themselves, quick, on the real data, and the data as they are read."""

import json
import math

import numpy as np
import pytest

import real_data
from fairspan.errors import InvalidInput, InvalidParameter
from reproduction.data import balanced_rows, load, load_faces, resized
from reproduction.experiment import Effort, Setting
from reproduction.notes_example import NOTES_EXAMPLE
from reproduction.samadi import ERRORS, LOSSES
from reproduction.store import Store
from reproduction.tantipongpipat import TANTIPONGPIPAT

CREDIT = ["default_credit"]


def table(result):
    return [dict(zip(result.columns, row, strict=True)) for row in result.rows]


@pytest.fixture(scope="module")
def notes():
    return NOTES_EXAMPLE.run(Setting(None, Effort.NORMAL, 0, lambda *_: None, Store()))


def test_the_toy_of_the_notes(notes):
    rows = table(notes)
    ours = {(row["step"][2:], row["quantity"]): row["ours"] for row in rows}
    expected = {
        ("ordinary PCA", "error of A"): 0,
        ("ordinary PCA", "error of B"): 14 / 3,
        ("sign flip", "t"): 86 / 101,
        ("equal error", "error of A"): ours["equal error", "error of B"],
    }
    assert {key: ours[key] for key in expected} == pytest.approx(expected, abs=1e-9)
    assert max(abs(row["relative difference"]) for row in rows) <= 1e-3


def test_the_disparity_of_the_toy_flips_once(notes):
    sweep = [row["ours"] for row in table(notes) if row["quantity"].startswith("disparity at")]
    assert sweep == sorted(sweep)
    assert [sweep[0], sweep[-1]] == pytest.approx([-29 / 3, 14 / 3])


def test_errors_of_pca_on_credit_are_the_expected_ones(quick):
    result = quick(ERRORS, CREDIT)
    rows = table(result)
    assert [(row["d"], row["group"]) for row in rows] == [
        (d, group) for d in range(1, 22) for group in ("higher", "lower")
    ]
    for row in rows:
        assert row["PCA error"] == pytest.approx(row["expected"], abs=5.01e-5)
        assert row["over 10 %"] == ""
    assert any("of higher at d = 1-6, 15-20" in note for note in result.notes)


def test_fair_losses_on_credit_are_equal_certified_and_below_the_worst_of_pca(quick):
    rows = table(quick(LOSSES, CREDIT))
    for higher, lower in zip(rows[::2], rows[1::2], strict=True):
        assert higher["fair PCA loss"] == pytest.approx(lower["fair PCA loss"], abs=1e-8)
        assert 0 <= lower["fair PCA loss"] <= max(higher["PCA loss"], lower["PCA loss"])
        assert lower["status"] == "optimal"
        assert 0 <= lower["gap"] <= 1e-7
    for d in (1, 8):
        assert rows[2 * d - 1]["fair PCA loss"] == pytest.approx(dual_optimum(d), abs=1e-7)


def dual_optimum(d):
    """The fair loss on credit from its rows by numpy alone: the maximum of the concave dual."""
    import scipy.optimize

    rows = real_data.load("default_credit:group__education")
    X = np.delete(rows.z_scored(ddof=1), rows.feature_names.index("PAY_AMT6"), axis=1)
    second = [np.cov(X[rows.groups == group].T, ddof=0) for group in ("higher", "lower")]

    def top(matrix):
        return np.linalg.eigvalsh(matrix)[-d:].sum()

    def minus_dual(t):
        a, b = second
        return top(t * a + (1 - t) * b) - t * top(a) - (1 - t) * top(b)

    return -scipy.optimize.minimize_scalar(minus_dual, bounds=(0, 1), options={"xatol": 1e-9}).fun


@pytest.mark.slow
def test_relaxations_of_three_to_six_groups(quick):
    rows = table(quick(TANTIPONGPIPAT))
    assert [(row["k"], row["d"]) for row in rows] == [
        (k, d) for k in range(3, 7) for d in (1, 3, 10)
    ]
    for row in rows:
        assert row["relaxation"] == pytest.approx(row["expected"], abs=6e-7)
        assert row["d"] <= row["reduced"] <= row["at most"]
        assert row["at most"] == row["d"] + math.floor(math.sqrt(2 * row["k"] + 0.25) - 1.5)
        assert row["reduced"] <= row["rank"]
        # No subspace is better than the relaxation; on these data some are as good.
        assert row["exactly d"] >= row["relaxation"] - 1e-9
        assert row["status"] == "optimal"


@pytest.mark.slow
@pytest.mark.parametrize(
    "experiment",
    [ERRORS, LOSSES, pytest.param(TANTIPONGPIPAT, marks=pytest.mark.slow)],
    ids=lambda e: e.name,
)
def test_figures_are_drawn(experiment, quick):
    pytest.importorskip("matplotlib")
    from matplotlib.figure import Figure

    figure = Figure()
    quick(experiment, experiment.files if experiment is TANTIPONGPIPAT else CREDIT).draw(figure)
    for axes in figure.axes:
        assert axes.get_xlabel()
        assert axes.get_legend() is not None


@pytest.fixture
def folder(tmp_path):
    """A set of four rows and six faces."""
    import pyarrow as pa
    from pyarrow import parquet

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
    assert data.y.tolist() == [0, 1, 1, 0]


def test_groups_are_crossed_and_features_left_out(folder):
    data = load("small", folder, ["sex", "age"], leave_out=["height"])
    assert data.sensitive_features.tolist()[1] == ["m", "old"]
    assert (data.feature_names, data.X.tolist()) == (("weight",), [[5], [6], [7], [8]])


@pytest.mark.parametrize(
    ("name", "group", "kind", "expected_text"),
    [
        ("large", None, InvalidInput, r"no file .*large\.parquet.* FAIRSPAN_DATA"),
        ("small", "race", InvalidParameter, "'sex', 'age'"),
    ],
)
def test_missing_files_are_named(folder, name, group, kind, expected_text):
    with pytest.raises(kind, match=expected_text):
        load(name, folder, group=group)


def test_faces_are_gray_values_between_zero_and_one(folder):
    faces = load_faces(folder)
    assert faces.X.shape == (6, 12)
    assert faces.X[0, 5] == pytest.approx((5 + (5 % 3) / 3) / 255)
    assert faces.sensitive_features.tolist() == ["male", "female", "male", "female", "male", "male"]
    assert len(set(faces.feature_names)) == 12
    assert faces.feature_names[3 + 1] == "row1_column1"


def test_a_balanced_sample_has_as_many_of_each_and_hangs_on_the_seed():
    groups = np.array(["a", "b", "a", "b", "b", "b", "c", "c"])
    samples = [balanced_rows(groups, 2, seed) for seed in (0, 0, 1, 2, 3)]
    for sample in samples:
        assert sorted(groups[sample]) == ["a", "a", "b", "b", "c", "c"]
        assert len(set(sample)) == 6
    np.testing.assert_array_equal(samples[0], samples[1])
    assert any((sample != samples[0]).any() for sample in samples[2:])


def test_resizing_averages_over_areas():
    rng = np.random.default_rng(3)
    images = rng.random((2, 49, 36))
    # Every pixel split into 24 x 24 equal parts, of which blocks of 49 x 36 are averaged.
    fine = images.repeat(24, axis=1).repeat(24, axis=2)
    expected = fine.reshape(2, 24, 49, 24, 36).mean(axis=(2, 4))
    np.testing.assert_allclose(resized(images, (24, 24)), expected, rtol=1e-12)
    np.testing.assert_allclose(resized(images, (49, 36)), images, rtol=1e-12)


@pytest.mark.slow
def test_the_real_faces_are_those_that_their_source_describes():
    facts = json.loads(real_data.data_path("manifest.json").read_text())
    faces = load_faces(real_data.FOLDER, n_per_gender=2000, shape=(24, 24))
    assert faces.X.shape == (4000, 576)
    mean = load_faces(real_data.FOLDER).X.mean()
    assert mean == pytest.approx(facts["lfw"]["pixel_mean_over_all_div255"], rel=1e-12)


def test_the_real_credit_is_that_which_its_source_describes():
    facts = json.loads(real_data.data_path("manifest.json").read_text())
    credit = load("default_credit", real_data.FOLDER, group="education3")
    assert credit.X.shape == (30000, 22)
    sizes = dict(zip(*np.unique(credit.sensitive_features, return_counts=True), strict=True))
    assert sizes == {"university_or_above": 24629, "high_school": 4917, "other": 454}
    means = [feature["mean"] for feature in facts["default_credit"]["features"]]
    np.testing.assert_allclose(credit.X.mean(axis=0), means, rtol=1e-12)
