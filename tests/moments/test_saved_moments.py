import json

import numpy as np
import pandas as pd
import pytest

from by_hand import assert_moments, moments_by_hand, random_rows
from fairspan import FairSubspace, GroupMoments
from fairspan.errors import CorruptFile
from fairspan.storage import write_archive

LABELS = {
    "text": ["ß", "", "a b"],
    "whole": [-3, 2**40, 7],
    "huge whole": [2**70, -1, 0],
    "real": [0.1, 1e300, -2.0],
    "truth": [True, False],
    "crossed": [("a", 1, True), ("a", 2, True), ("b", 1, False)],
}


@pytest.fixture
def saved(tmp_path):
    rows = random_rows(5)
    moments = GroupMoments.from_rows(rows.X, rows.labels, rows.weights)
    moments.save(tmp_path / "out")
    return moments, tmp_path / "out"


@pytest.mark.parametrize("kind", LABELS)
def test_labels_keep_value_and_type(tmp_path, kind):
    labels = LABELS[kind] * 4
    X = np.random.default_rng(0).standard_normal((len(labels), 3))
    GroupMoments.from_rows(X, labels).save(tmp_path / "out")
    loaded = GroupMoments.load(tmp_path / "out")
    assert_moments(loaded, moments_by_hand(X, labels))
    assert loaded.labels == sorted(LABELS[kind])
    assert [repr(label) for label in loaded.labels] == list(map(repr, sorted(LABELS[kind])))


def test_every_number_is_the_same_bit_for_bit(saved):
    moments, path = saved
    loaded = GroupMoments.load(path)
    for name in ("groups", "counts", "weights", "means", "scatters"):
        one, other = getattr(loaded, name), getattr(moments, name)
        assert one.dtype == other.dtype
        assert one.tobytes() == other.tobytes()
    assert loaded.feature_names is None


def test_feature_names_are_kept(tmp_path):
    frame = pd.DataFrame({"größe": [1.0, 2.0], "b": [0.0, 1.0]})
    GroupMoments.from_rows(frame, [1, 2]).save(tmp_path / "out")
    assert GroupMoments.load(tmp_path / "out").feature_names == ("größe", "b")


def test_loaded_moments_merge_with_others(saved):
    moments, path = saved
    assert_moments(GroupMoments.load(path) + moments, moments + moments, rtol=0)


def test_saving_twice_gives_the_same_bytes_under_exactly_the_name_given(saved):
    moments, path = saved
    moments.save(str(path.with_name("again.moments")))
    assert path.read_bytes() == path.with_name("again.moments").read_bytes()
    assert sorted(each.name for each in path.parent.iterdir()) == ["again.moments", "out"]


def test_loading_never_unpickles(saved, monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("pickle was used")

    for name in ("pickle.load", "pickle.loads", "pickle.dump", "pickle.dumps"):
        monkeypatch.setattr(name, refuse)
    moments, path = saved
    moments.save(path)
    GroupMoments.load(path)


def test_a_file_cut_anywhere_is_refused(saved):
    _, path = saved
    whole = path.read_bytes()
    for length in range(0, len(whole), 11):
        path.write_bytes(whole[:length])
        with pytest.raises(CorruptFile):
            GroupMoments.load(path)


def test_a_subspace_is_no_moments(tmp_path):
    FairSubspace(np.eye(2), np.zeros(2)).save(tmp_path / "out")
    with pytest.raises(CorruptFile, match=r"'fairspan\.subspace'.*'fairspan\.moments'"):
        GroupMoments.load(tmp_path / "out")


SOUND = {"groups": ["a", "b"], "feature_names": ["x", "y", "z"]}
SOUND |= {"n_dropped": 0}
ARRAYS = {
    "counts": np.array([2, 3]),
    "weights": np.array([2.0, 3.0]),
    "means": np.zeros((2, 3)),
    "triangles": np.zeros((2, 6)),
}
INCONSISTENT = {
    "groups missing": ({"feature_names": None, "n_dropped": 0}, {}),
    "dropped less than nothing": (SOUND | {"n_dropped": -1}, {}),
    "dropped rows as text": (SOUND | {"n_dropped": "x"}, {}),
    "no groups": (SOUND | {"groups": []}, {}),
    "groups are no list": (SOUND | {"groups": 3}, {}),
    "too many groups": (SOUND | {"groups": ["a", "b", "c"]}, {}),
    "a group twice": (SOUND | {"groups": ["a", "a"]}, {}),
    "groups in another order": (SOUND | {"groups": ["b", "a"]}, {}),
    "groups of two types": (SOUND | {"groups": ["a", 1]}, {}),
    "a group without name": (SOUND | {"groups": [None, "a"]}, {}),
    "too few names": (SOUND | {"feature_names": ["x"]}, {}),
    "counts too long": (SOUND, {"counts": np.ones(3)}),
    "means of one dimension": (SOUND, {"means": np.zeros(3)}),
    "triangles too short": (SOUND, {"triangles": np.zeros((2, 5))}),
    "triangles of fewer groups": (SOUND, {"triangles": np.zeros((1, 6))}),
    "NaN": (SOUND, {"triangles": np.full((2, 6), np.nan)}),
    "no weight": (SOUND, {"weights": np.zeros(2)}),
    "text for numbers": (SOUND, {"means": np.full((2, 3), "x")}),
}


@pytest.mark.parametrize("case", INCONSISTENT)
def test_moments_that_contradict_themselves_are_refused(tmp_path, case):
    header, arrays = INCONSISTENT[case]
    write_archive(tmp_path / "out", "moments", header, ARRAYS | arrays)
    with pytest.raises(CorruptFile, match=r"does not hold consistent moments|cannot be read"):
        GroupMoments.load(tmp_path / "out")


def test_the_sound_file_that_these_vary_is_read(tmp_path):
    write_archive(tmp_path / "out", "moments", SOUND, ARRAYS)
    assert GroupMoments.load(tmp_path / "out").labels == ["a", "b"]


def test_the_header_is_plain_json(saved):
    _, path = saved
    with np.load(path, allow_pickle=False) as archive:
        header = json.loads(archive["header"].tobytes())
    assert header["groups"] == ["a", "b"]
    assert header["format"] == "fairspan.moments"
