"""Making and merging files of moments on the command line: what is written, printed and refused."""

import re

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import fairspan as fs
from cli.conftest import COLUMNS, make_rows, terminal_width, write_folder
from numpy_reference import assert_moments, projector_distance, reference_moments

BY_SEX = ("--group", "sex")
JOBS = pytest.mark.parametrize(
    "jobs", [[], pytest.param(["--jobs", 2], marks=pytest.mark.long)], ids=str
)
load = fs.GroupMoments.load


@pytest.fixture
def frame():
    return make_rows(1, 600)


@pytest.fixture
def folder(frame, tmp_path):
    return write_folder(tmp_path / "rows", frame, 3, 70)


@pytest.fixture
def out(tmp_path):
    return tmp_path / "m.moments"


@JOBS
def test_the_moments_are_those_of_the_rows(run, folder, frame, tmp_path, out, jobs):
    words = (*BY_SEX, "--exclude", "age", "--weight", "w", "-o", out, *jobs, "--json")
    facts = run("moments", folder, *words).facts
    expected = reference_moments(frame[COLUMNS], frame["sex"], frame["w"])
    assert_moments(load(out), expected)
    counts = {name: facts[name] for name in ("n_rows", "n_dropped", "n_groups_dropped")}
    assert counts == {"n_rows": 600, "n_dropped": 0, "n_groups_dropped": 0}
    assert facts["feature_names"] == COLUMNS
    assert [tuple(group.values()) for group in facts["groups"]] == [
        (label, n, pytest.approx(weight)) for label, (n, weight, *_) in expected.items()
    ]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.moments", "rows"]


def test_the_groups_and_totals_are_printed(run, folder, frame, out):
    outcome = run("moments", folder, *BY_SEX, "--group", "age", "-o", out, status=0, err=None)
    first, _, head, line, *_, last = outcome.out.splitlines()
    n = frame.groupby(["sex", "age"]).size()["f", 20]
    assert first.startswith("600 rows, 4 features; ")
    assert head.split() == ["group", "rows", "weight", "share", "variance"]
    assert line.split()[:-1] == ["f", "/", "20", *[str(n)] * 2, f"{100 * n / 600:.1f}", "%"]
    assert last == f"Saved to {out}"


def test_moments_of_one_row_are_saved_with_a_warning(run, frame, tmp_path, out):
    path = tmp_path / "rows.parquet"
    frame[["x", "sex"]][:1].to_parquet(path)
    result = run("moments", path, *BY_SEX, "-o", out, err="can be recovered")
    assert result.out.startswith("1 row, 1 feature; ")


def test_small_groups_are_dropped_and_counted_but_not_named(run, frame, tmp_path, out):
    frame["sex"] = ["rare"] * 3 + ["odd"] + ["f", "m"] * 298
    frame.to_parquet(tmp_path / "rows.parquet")
    words = ("moments", tmp_path / "rows.parquet", *BY_SEX, "-o", out)
    (warning,) = run(*words, out="odd").err.splitlines()
    assert re.search("warning: .*1 or 2 rows \\('odd'\\).*--min-group-size", warning)
    message = ["2 groups", "fewer than 5 rows"]
    large = run(*words, "--min-group-size", 5, status=0, err=None, out=message)
    assert not re.search("odd|rare", large.out)
    assert (load(out).labels, b"rare" in out.read_bytes()) == (["f", "m"], False)
    assert run(*words, "--min-group-size", 2, "--json").facts["n_groups_dropped"] == 1


def test_a_minimum_that_no_group_reaches_leaves_no_groups_behind(run, folder, frame, out):
    words = ("moments", folder, *BY_SEX, "-o", out, "--min-group-size")
    run(*words, 1000, status=2, err="No group has 1,000 rows")
    assert [path.name for path in out.parent.iterdir()] == ["rows"]
    run(*words, 100, status=0)
    columns = [*COLUMNS, "age", "w"]
    assert_moments(load(out), reference_moments(frame[columns], frame["sex"]))
    assert sorted(path.name for path in out.parent.iterdir()) == ["m.moments", "rows"]


@pytest.mark.parametrize(
    "names",
    [
        [f"{'a long name of a group, ' * 3}{end}" for end in ("one", "two", "three")],
        [f"{'x' * 50}{end}{'y' * 50}" for end in (1, 2, 3)],
        ["東京都世田谷区の住民の皆さん" * 3 + end for end in "abc"],
        ["short", "e\u0301" * 60, "o"],
    ],
    ids=["end", "middle", "wide", "marks"],
)
def test_groups_with_long_names_fit_a_terminal_and_differ(
    run, table, features, tmp_path, out, names
):
    frame = table[features].assign(g=np.resize(names, len(table)), w=1e12 / 7)
    frame.to_csv(tmp_path / "n.csv", index=False)
    outcome = run("moments", tmp_path / "n.csv", "--group", "g", "--weight", "w", "-o", out)
    lines = outcome.out.split("\n\n")[1].splitlines()[:-1]
    assert max(map(terminal_width, lines)) <= 80
    assert len({line.strip() for line in lines[1:]}) >= 3
    assert sum(f" {80e12 / 7:,.10g} " in line for line in lines) == 3


@JOBS
def test_nan_is_named_by_file_row_group_and_column(run, frame, tmp_path, out, jobs):
    frame.loc[200 + 9 * 20 + 3, "y"] = np.nan
    folder = write_folder(tmp_path / "rows", frame, 3, 20)
    words = ("moments", folder, *BY_SEX, "--features", "[xyz]", *jobs, "-o", out)
    place = f"{folder / '01.parquet'}, row group 9"
    message = f"{place}: X contains NaN, first in row 4 (index 3), column 'y'"
    run(*words, status=2, out=None, err=message)
    assert not out.exists()
    run(*words, "--on-missing", "drop", out=["599 rows, 3 features; 1 row ", "dropped"])
    complete_rows = frame[frame["y"].notna()]
    assert_moments(load(out), reference_moments(complete_rows[COLUMNS], complete_rows["sex"]))


def test_a_damaged_page_in_the_middle_of_a_file_is_reported(run, folder, out):
    path = folder / "01.parquet"
    content = bytearray(path.read_bytes())
    middle = pq.ParquetFile(path).metadata.row_group(1).column(1).data_page_offset
    content[middle : middle + 200] = b"\xff" * 200
    path.write_bytes(content)
    words = ("moments", folder, *BY_SEX, "--features", "[xyz]", "-o", out)
    result = run(*words, status=2, out=None)
    assert re.search(rf"{re.escape(str(path))}.* cannot be read", result.err)
    assert not out.exists()


def test_weights_are_those_of_the_column(run, folder, frame):
    arguments = ("audit", folder, *BY_SEX, "--weight", "w", "-d", 2, "--folds", "none", "--json")
    facts = run(*arguments).facts
    weights = frame.groupby("sex")["w"].sum()
    proportions = {group["group"]: group["proportion"] for group in facts["models"][0]["groups"]}
    assert proportions == pytest.approx((weights / weights.sum()).to_dict())


SITES = ["north", "south", "west"]


@pytest.fixture
def sites(run, tmp_path):
    """The moments of three sites; the third has no row of group m. And the rows of all."""
    frame = make_rows(2, 900)[[*COLUMNS, "sex"]]
    parts = [frame[:200], frame[200:650], frame[650:][frame[650:]["sex"] == "f"]]
    for name, part in zip(SITES, parts, strict=True):
        part.to_csv(tmp_path / f"{name}.csv", index=False)
        run("moments", tmp_path / f"{name}.csv", *BY_SEX, "-o", tmp_path / name, status=0)
    return [tmp_path / name for name in SITES], pd.concat(parts)


def test_sites_that_exchange_moments_alone_fit_what_the_pooled_rows_give(run, sites, tmp_path):
    files, pooled = sites
    out = tmp_path / "all"
    rows = tmp_path / "pooled.csv"
    pooled.to_csv(rows, index=False)
    run("merge", *files, "-o", out, status=0, err=None, out=f"Merged 3 files into {out}")
    assert_moments(load(out), reference_moments(pooled[COLUMNS], pooled["sex"]))
    quick = ("-d", 2, "--folds", "none")
    run("fit", out, *quick, "-o", tmp_path / "federated")
    run("fit", rows, *BY_SEX, *quick, "-o", tmp_path / "central")
    bases = [fs.FairSubspace.load(tmp_path / name).components for name in ("federated", "central")]
    assert projector_distance(*bases) <= 1e-7


def test_one_file_stays_what_it_is_and_is_counted_as_often_as_it_is_given(run, sites, tmp_path):
    (file, *_), _ = sites
    run("merge", file, "-o", tmp_path / "copy", status=0)
    assert (tmp_path / "copy").read_bytes() == file.read_bytes()
    run("merge", file, file, "-o", tmp_path / "double", err="more than once")
    np.testing.assert_array_equal(load(tmp_path / "double").counts, 2 * load(file).counts)


def test_dropped_rows_add_up(run, tmp_path):
    files = [tmp_path / "a", tmp_path / "b"]
    for path, n_dropped in zip(files, (2, 3), strict=True):
        moments = fs.GroupMoments.from_rows(np.eye(3), list("xxy"))
        object.__setattr__(moments, "n_dropped", n_dropped)
        moments.save(path)
    run("merge", *files, "-o", tmp_path / "c", out=["6 rows, 3 features; 5 rows ", "dropped"])


def save_file(path, n, seed, columns, labels, classes=None):
    """Random rows whose moments are in a file, and their labels."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(n, len(columns))), columns=list(columns))
    row_labels = [labels[i] for i in rng.permutation(np.resize(np.arange(len(labels)), n))]
    fs.GroupMoments.from_rows(X, row_labels, y=classes).save(path)
    return X, row_labels


@pytest.mark.parametrize(
    ("columns", "labels", "words"),
    [
        ("xzw", ["a", "b"], ["'y' missing", "'w' additional"]),
        ("x", ["a", "b"], ["'y', 'z' missing"]),
        ("xyz", [1, 2], ["of different types", "text against integer", "--label-type text"]),
        ("xyz", [("a", 1), ("b", 2)], ["text against 2 attributes (text, integer", "('a', 1)"]),
    ],
    ids=["missing and extra", "missing", "type", "attributes"],
)
def test_moments_that_differ_are_listed_with_their_file(
    assert_refused, tmp_path, columns, labels, words
):
    files = [tmp_path / "a", tmp_path / "same", tmp_path / "other"]
    save_file(files[0], 2, 0, "xyz", ["a", "b"])
    save_file(files[1], 2, 1, "xyz", ["b", "c"])
    save_file(files[2], 2, 2, columns, labels)
    assert_refused(
        "merge", *files, "-o", "{out}", expected_text=[f"fairspan: error: {files[2]}: ", *words]
    )


@pytest.mark.parametrize(
    ("names", "labels", "options"),
    [("zxy", ["1", "2"], []), ("xyz", [1, 2], ["--label-type", "text"])],
    ids=["features by name", "labels as text"],
)
def test_rows_of_two_files_are_those_of_one(run, tmp_path, names, labels, options):
    files = (tmp_path / "a", tmp_path / "b")
    out = tmp_path / "both"
    first, first_labels = save_file(files[0], 30, 0, "xyz", ["1", "2"])
    other, other_labels = save_file(files[1], 40, 1, names, labels)
    run("merge", *files, "-o", out, *options, status=0)
    rows = pd.concat([first, other[list("xyz")]])
    expected = fs.GroupMoments.from_rows(rows, [*first_labels, *map(str, other_labels)])
    actual = load(out)
    assert (actual.feature_names, actual.labels) == (tuple("xyz"), ["1", "2"])
    np.testing.assert_array_equal(actual.counts, expected.counts)
    np.testing.assert_allclose(actual.means, expected.means, atol=1e-12)
    np.testing.assert_allclose(actual.scatters, expected.scatters, atol=1e-10)


def test_labels_that_are_nearly_equal_stay_separate_and_are_named(run, tmp_path):
    files = (tmp_path / "a", tmp_path / "b")
    out = tmp_path / "both"
    for path, labels in zip(files, (["female", "male"], ["female", "Male "]), strict=True):
        fs.GroupMoments.from_rows(np.eye(2), labels).save(path)
    run(
        "merge",
        *files,
        "-o",
        out,
        err="Unicode normal form: 'Male ' and 'male'",
    )
    assert load(out).labels == ["Male ", "female", "male"]


def test_classes_of_y_stay_where_labels_become_text(run, tmp_path):
    y = np.arange(60) % 2 == 0
    X, labels = save_file(tmp_path / "a", 60, 0, "xyz", [1, 2], y)
    run("merge", tmp_path / "a", "-o", tmp_path / "b", "--label-type", "text")
    actual = load(tmp_path / "b").by_class
    expected = fs.GroupMoments.from_rows(X, [*map(str, labels)], y=[*map(str, y)]).by_class
    assert actual.labels == expected.labels
    np.testing.assert_allclose(actual.scatters, expected.scatters, atol=1e-10)
