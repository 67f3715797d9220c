"""Merging files of moments on the command line."""

import numpy as np
import pandas as pd
import pytest

import fairspan as fs
from by_hand import assert_moments, moments_by_hand, projector_distance
from cli.conftest import COLUMNS, made_rows
from fairspan.moments.group_means import Intake

SITES = ["north", "south", "west"]


@pytest.fixture
def frame():
    return made_rows(2, 900)


@pytest.fixture
def sites(run, frame, tmp_path):
    """The moments of three sites; the third has no row of group m."""
    parts = [frame[:200], frame[200:650], frame[650:][frame[650:]["sex"] == "f"]]
    for name, part in zip(SITES, parts, strict=True):
        part[[*COLUMNS, "sex"]].to_csv(tmp_path / f"{name}.csv", index=False)
        command = ("moments", tmp_path / f"{name}.csv", "--group", "sex")
        assert run(*command, "-o", tmp_path / name).status == 0
    return [tmp_path / name for name in SITES], pd.concat(parts)


def test_sites_that_exchange_moments_alone_fit_what_the_pooled_rows_give(run, sites, tmp_path):
    files, pooled = sites
    pooled[[*COLUMNS, "sex"]].to_csv(tmp_path / "pooled.csv", index=False)
    run(
        "merge",
        *files,
        "-o",
        tmp_path / "all",
        status=0,
        err=None,
        out=f"Merged 3 files into {tmp_path / 'all'}",
    )
    assert_moments(
        fs.GroupMoments.load(tmp_path / "all"), moments_by_hand(pooled[COLUMNS], pooled["sex"])
    )
    run("fit", tmp_path / "all", "-d", 2, "-o", tmp_path / "federated")
    run("fit", tmp_path / "pooled.csv", "--group", "sex", "-d", 2, "-o", tmp_path / "central")
    bases = [fs.FairSubspace.load(tmp_path / name).components for name in ("federated", "central")]
    assert projector_distance(*bases) <= 1e-7


def test_one_file_stays_what_it_is(run, sites, tmp_path):
    (file, *_), _ = sites
    assert run("merge", file, "-o", tmp_path / "copy").status == 0
    assert (tmp_path / "copy").read_bytes() == file.read_bytes()


def test_a_file_that_is_given_twice_is_counted_twice_and_said_so(run, sites, tmp_path):
    (file, *_), _ = sites
    run("merge", file, file, "-o", tmp_path / "double", err="more than once")
    once, twice = (fs.GroupMoments.load(path) for path in (file, tmp_path / "double"))
    np.testing.assert_array_equal(twice.counts, 2 * once.counts)


def test_dropped_rows_add_up(run, tmp_path):
    for name, n_dropped in (("a", 2), ("b", 3)):
        moments = fs.GroupMoments.from_rows(np.eye(3), list("xxy"))
        object.__setattr__(moments, "intake", Intake(n_dropped))
        moments.save(tmp_path / name)
    run(
        "merge",
        tmp_path / "a",
        tmp_path / "b",
        "-o",
        tmp_path / "c",
        out="6 rows, 3 features; 5 rows with missing values left out",
    )


def saved(path, columns, labels):
    X = np.random.default_rng(3).normal(size=(len(labels), len(columns)))
    moments = fs.GroupMoments.from_rows(pd.DataFrame(X, columns=columns), labels)
    moments.save(path)
    return path


@pytest.mark.parametrize(
    ("columns", "labels", "words"),
    [
        (["x", "z", "w"], ["a", "b"], ["'y' missing", "'w' besides"]),
        (["x"], ["a", "b"], ["'y', 'z' missing"]),
        (["x", "y", "z"], [1, 2], ["of different types", "text against whole number"]),
        (
            ["x", "y", "z"],
            [("a", 1), ("b", 2)],
            ["text against 2 attributes (text, whole number)", "('a', 1)"],
        ),
    ],
    ids=["missing and extra", "missing", "type", "attributes"],
)
def test_what_does_not_fit_is_listed_and_the_file_named(refused, tmp_path, columns, labels, words):
    a = saved(tmp_path / "a", ["x", "y", "z"], ["a", "b"])
    same = saved(tmp_path / "same", ["x", "y", "z"], ["b", "c"])
    other = saved(tmp_path / "other", columns, labels)
    message = refused("merge", a, same, other, "-o", "{out}")
    assert message.startswith(f"fairspan: error: {other}: ")
    assert all(word in message for word in words), message


def rows_of(n, seed, names, labels):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.normal(size=(n, 3)), columns=list("xyz"))[list(names)]
    return frame, rng.choice(labels, n).tolist()


def test_features_are_matched_by_name(run, tmp_path):
    first, other = rows_of(30, 0, "xyz", ["a", "b"]), rows_of(40, 1, "zxy", ["a", "b"])
    for name, (frame, labels) in (("a", first), ("b", other)):
        fs.GroupMoments.from_rows(frame, labels).save(tmp_path / name)
    run("merge", tmp_path / "a", tmp_path / "b", "-o", tmp_path / "both")
    merged = fs.GroupMoments.load(tmp_path / "both")
    frame = pd.concat([first[0], other[0][list("xyz")]])
    expected = fs.GroupMoments.from_rows(frame, first[1] + other[1])
    assert merged.feature_names == tuple("xyz")
    np.testing.assert_allclose(merged.means, expected.means, atol=1e-12)
    np.testing.assert_allclose(merged.scatters, expected.scatters, atol=1e-10)


def test_labels_of_several_types_are_joined_as_text(run, refused, tmp_path):
    first, other = rows_of(30, 0, "xyz", [1, 2]), rows_of(40, 1, "xyz", ["1", "2"])
    for name, (frame, labels) in (("a", first), ("b", other)):
        fs.GroupMoments.from_rows(frame, labels).save(tmp_path / name)
    files = (tmp_path / "a", tmp_path / "b")
    assert "--labels-as text" in refused("merge", *files, "-o", "{out}")
    run("merge", *files, "-o", tmp_path / "both", "--labels-as", "text")
    merged = fs.GroupMoments.load(tmp_path / "both")
    labels = [*map(str, first[1]), *other[1]]
    expected = fs.GroupMoments.from_rows(pd.concat([first[0], other[0]]), labels)
    assert merged.labels == expected.labels == ["1", "2"]
    np.testing.assert_array_equal(merged.counts, expected.counts)
    np.testing.assert_allclose(merged.scatters, expected.scatters, atol=1e-10)


def test_labels_that_are_nearly_equal_stay_separate_and_are_named(run, tmp_path):
    for name, labels in (("a", ["female", "male"]), ("b", ["female", "Male "])):
        fs.GroupMoments.from_rows(np.eye(2), labels).save(tmp_path / name)
    run(
        "merge",
        tmp_path / "a",
        tmp_path / "b",
        "-o",
        tmp_path / "both",
        err="differ only by case or blanks: 'Male ' and 'male'",
    )
    assert fs.GroupMoments.load(tmp_path / "both").labels == ["Male ", "female", "male"]


def test_classes_of_y_stay_where_labels_become_text(run, tmp_path):
    frame, labels = rows_of(60, 0, "xyz", [1, 2])
    y = np.arange(60) % 2 == 0
    fs.GroupMoments.from_rows(frame, labels, labels=y).save(tmp_path / "a")
    run("merge", tmp_path / "a", "-o", tmp_path / "b", "--labels-as", "text")
    merged = fs.GroupMoments.load(tmp_path / "b")
    expected = fs.GroupMoments.from_rows(frame, [*map(str, labels)], labels=[*map(str, y)])
    assert merged.by_label.labels == expected.by_label.labels
    np.testing.assert_allclose(merged.by_label.scatters, expected.by_label.scatters, atol=1e-10)
