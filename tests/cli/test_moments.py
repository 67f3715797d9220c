"""Making moments on the command line: what is written, printed and refused."""

import re

import numpy as np
import pyarrow.parquet as pq
import pytest

import fairspan as fs
from by_hand import assert_moments, moments_by_hand
from cli.conftest import COLUMNS, made_rows, write_folder
from fairspan.formatting.text import terminal_width


@pytest.fixture
def frame():
    return made_rows(1, 600)


@pytest.fixture
def folder(frame, tmp_path):
    write_folder(tmp_path / "rows", frame, 3, 70)
    return tmp_path / "rows"


def loaded(path):
    return fs.GroupMoments.load(path)


@pytest.mark.parametrize("jobs", [[], pytest.param(["--jobs", 2], marks=pytest.mark.long)], ids=str)
def test_the_moments_are_those_of_the_rows(run, folder, frame, tmp_path, jobs):
    out = tmp_path / "m.moments"
    facts = run(
        "moments", folder, "--group", "sex", "--exclude", "age", "--weight", "w", "-o", out,
        *jobs, "--json",
    ).facts  # fmt: skip
    expected = moments_by_hand(frame[COLUMNS], frame["sex"], frame["w"])
    assert_moments(loaded(out), expected)
    assert (facts["feature_names"], (facts["n_rows"], facts["n_dropped"])) == (COLUMNS, (600, 0))
    assert facts["groups_left_out"] == 0
    for group, (label, (count, weight, *_)) in zip(facts["groups"], expected.items(), strict=True):
        assert (group["group"], group["n"]) == (label, count)
        np.testing.assert_allclose(group["weight"], weight)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.moments", "rows"]


def test_what_is_printed(run, folder, frame, tmp_path):
    result = run(
        "moments",
        folder,
        "--group",
        "sex",
        "--group",
        "age",
        "-o",
        tmp_path / "m.moments",
        status=0,
        err=None,
    )
    lines = result.out.splitlines()
    assert lines[0].startswith("600 rows, 4 features; ")
    assert lines[2].split() == ["group", "rows", "weight", "share", "variance"]
    n = frame.groupby(["sex", "age"]).size()["f", 20]
    assert lines[3].split()[:-1] == ["f", "/", "20", *[str(n)] * 2, f"{n / 600:.1%}"]
    assert lines[-1] == f"Saved to {tmp_path / 'm.moments'}"


def test_one_row(run, frame, tmp_path):
    frame[["x", "sex"]][:1].to_parquet(tmp_path / "rows.parquet")
    result = run(
        "moments", tmp_path / "rows.parquet", "--group", "sex", "-o", tmp_path / "m.moments"
    )
    assert result.out.startswith("1 row, 1 feature; ")
    assert "can be recovered" in result.err


def test_small_groups_are_left_out_and_counted_but_not_named(run, frame, tmp_path):
    frame["sex"] = ["rare"] * 3 + ["odd"] + ["f", "m"] * 298
    frame.to_parquet(tmp_path / "rows.parquet")
    arguments = (
        "moments",
        tmp_path / "rows.parquet",
        "--group",
        "sex",
        "-o",
        tmp_path / "m.moments",
    )
    whole = run(*arguments)
    assert whole.err.splitlines() == [
        "fairspan: warning: Groups of 1 or 2 rows ('odd'): their rows can be recovered from these "
        "moments; use --min-group-size to leave such groups out."
    ]
    assert "odd" in whole.out
    large = run(
        *arguments,
        "--min-group-size",
        5,
        status=0,
        err=None,
        out="Left out: 2 groups of fewer than 5 rows",
    )
    assert "odd" not in large.out + large.err
    assert "rare" not in large.out + large.err
    assert loaded(tmp_path / "m.moments").labels == ["f", "m"]
    assert b"rare" not in (tmp_path / "m.moments").read_bytes()
    facts = run(*arguments, "--min-group-size", 2, "--json").facts
    assert facts["groups_left_out"] == 1


def test_a_minimum_that_no_group_reaches_leaves_no_groups_behind(run, folder, frame, tmp_path):
    arguments = ("moments", folder, "--group", "sex", "-o", tmp_path / "m.moments")
    run(*arguments, "--min-group-size", 1000, status=2, err="No group has 1000 rows")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["rows"]
    assert run(*arguments, "--min-group-size", 100).status == 0
    columns = [*COLUMNS, "age", "w"]
    assert_moments(loaded(tmp_path / "m.moments"), moments_by_hand(frame[columns], frame["sex"]))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.moments", "rows"]


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
def test_groups_with_long_names_fit_a_terminal_and_differ(run, table, features, tmp_path, names):
    frame = table[features].assign(g=np.resize(names, len(table)), w=1e12 / 7)
    frame.to_csv(tmp_path / "n.csv", index=False)
    result = run(
        "moments", tmp_path / "n.csv", "--group", "g", "--weight", "w", "-o", tmp_path / "m.moments"
    )
    shown = result.out.split("\n\n")[1].splitlines()[:-1]
    assert max(map(terminal_width, shown)) <= 80
    rows = [line.strip() for line in shown[1:]]
    assert len(set(rows)) >= 3
    assert sum(f" {80e12 / 7:,.10g} " in line for line in rows) == 3


@pytest.fixture
def command(folder, tmp_path):
    return [
        "moments",
        folder,
        "--group",
        "sex",
        "--features",
        "[xyz]",
        "-o",
        tmp_path / "m.moments",
    ]


@pytest.mark.parametrize("jobs", [[], pytest.param(["--jobs", 2], marks=pytest.mark.long)], ids=str)
def test_nan_is_named_by_file_row_group_and_column(run, frame, tmp_path, jobs):
    frame.loc[200 + 9 * 20 + 3, "y"] = np.nan
    write_folder(tmp_path / "rows", frame, 3, 20)
    command = ["moments", tmp_path / "rows", "--group", "sex", "--features", "[xyz]", *jobs]
    result = run(*command, "-o", tmp_path / "m.moments", status=2, out=None)
    where = f"{tmp_path / 'rows' / '01.parquet'}, row group 9"
    assert f"{where}: X contains NaN, first in row 4 (index 3), column 'y'" in result.err
    assert not (tmp_path / "m.moments").exists()
    result = run(
        *command,
        "-o",
        tmp_path / "n.moments",
        "--on-missing",
        "drop",
        out="599 rows, 3 features; 1 row with missing values left out",
    )
    kept = frame["y"].notna()
    expected = moments_by_hand(frame[COLUMNS][kept], frame["sex"][kept])
    assert_moments(fs.GroupMoments.load(tmp_path / "n.moments"), expected)


def test_a_damaged_page_in_the_middle_of_a_file(run, command, folder, tmp_path):
    path = folder / "01.parquet"
    content = bytearray(path.read_bytes())
    middle = pq.ParquetFile(path).metadata.row_group(1).column(1).data_page_offset
    content[middle : middle + 200] = b"\xff" * 200
    path.write_bytes(content)
    result = run(*command, status=2, out=None)
    assert re.search(rf"{re.escape(str(path))}.* cannot be read", result.err)
    assert not (tmp_path / "m.moments").exists()


def assert_same_figures(ours, expected):
    for model, other in zip(ours["models"], expected["models"], strict=True):
        for group, same in zip(model["groups"], other["groups"], strict=True):
            for name in ("error_here", "error_here_low", "error_here_high"):
                np.testing.assert_allclose(group[name], same[name], rtol=1e-9)
            assert (group["group"], group["n"]) == (same["group"], same["n"])
    assert ours["rows"] == expected["rows"]


@pytest.mark.long
@pytest.mark.parametrize("command", ["fit", "audit"])
def test_two_processes_give_the_same_figures(run, folder, tmp_path, command):
    out = ["-o", tmp_path / "model"] if command == "fit" else []
    arguments = (command, folder, "--group", "sex", "--weight", "w", "-d", 2, *out, "--json")
    assert_same_figures(run(*arguments, "--jobs", 2).facts, run(*arguments).facts)


def test_weights_are_those_of_the_column(run, folder, frame):
    facts = run("audit", folder, "--group", "sex", "--weight", "w", "-d", 2, "--json").facts
    expected = moments_by_hand(frame[[*COLUMNS, "age"]], frame["sex"], frame["w"])
    total = sum(weight for _, weight, *_ in expected.values())
    for group in facts["models"][0]["groups"]:
        np.testing.assert_allclose(group["proportion"], expected[group["group"]][1] / total)
