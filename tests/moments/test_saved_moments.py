import numpy as np
import pandas as pd
import pytest

from by_hand import assert_moments, moments_by_hand, random_rows
from fairspan import GroupMoments

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
