"""Whatever is wrong with the input: status 2, one message, no output and nothing left behind."""

import os

import numpy as np
import pandas as pd
import pytest

import fairspan as fs

FIT = ("fit", "{data}", "--group", "age", "-d", "2", "-o", "{out}")
AUDIT = ("audit", "{data}", "--group", "age")
TRANSFORM = ("transform", "{model}", "{data}", "-o", "{out}")


def replacing(command, **parts):
    """The command with other values in the places of some of its words."""
    return tuple(parts.get(word.strip("{}"), word) for word in command)


@pytest.fixture
def refused(run, data, model, tmp_path):
    """Run a command and check that it fails as it should; return its message."""
    (tmp_path / "results").mkdir()

    def refused_with(*command, out="out.csv", **places):
        out = tmp_path / "results" / out
        places = {"data": data, "model": model, "out": out, **places}
        words = [str(word).format(**places) for word in command]
        message = refusal(words)
        if str(out) in words and out.parent.is_dir():
            out.write_bytes(b"an earlier result")
            assert refusal(words) == message
            out.unlink()
        return message

    def refusal(words):
        before = contents(tmp_path)
        result = run(*words)
        assert result.status == 2, result
        assert result.out == ""
        assert contents(tmp_path) == before
        *usage, message = result.err.splitlines()
        kind, hints = ("Error: ", 3) if usage else ("fairspan: error: ", 0)
        assert message.startswith(kind)
        assert len(usage) == hints, result.err
        return message

    return refused_with


def contents(folder):
    return {path: path.is_file() and path.read_bytes() for path in sorted(folder.rglob("*"))}


BOTH = pytest.mark.parametrize("command", [AUDIT, FIT], ids=["audit", "fit"])


@BOTH
@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--features", "PAY*"], ["'PAY*' matches no column", "'pay_1'", "Correct the pattern"]),
        (["--exclude", "zzz"], ["'zzz' matches no column"]),
        (["--exclude", "*"], ["No column is left", "Loosen the patterns"]),
        (["-d", "0"], ["'-d'", "0 is not in the range"]),
        (["-d", "6"], ["n_components is 6", "from 1 to the number of features, 5"]),
        (["-d", "two"], ["'-d'", "'two' is not a valid integer"]),
        (["--center", "median"], ["'median' is not one of 'global', 'group', 'none'"]),
        (["--group", "agee"], ["no column 'agee'", "the closest is 'age'"]),
        (["--group", "town"], ["no column 'town'", "Its columns are 'pay_1'"]),
        (["--nonsense"], ["No such option", "--nonsense"]),
    ],
)
def test_options(refused, command, options, words):
    message = refused(*command, *options)
    assert all(word in message for word in words), message


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--criterion", "fairest"], ["'fairest' is not one of 'minimax_loss'"]),
        (["--param", "penalty=1"], ["'minimax_loss'", "'penalty'", "has no parameters"]),
        (["--param", "penalty"], ["'penalty' is not of the form KEY=NUMBER"]),
        (["--param", "penalty=much"], ["'penalty=much' is not of the form KEY=NUMBER"]),
    ],
)
def test_options_of_fit(refused, options, words):
    message = refused(*FIT, *options)
    assert all(word in message for word in words), message


@BOTH
def test_no_group(refused, command):
    assert "Name the group column with --group" in refused(
        *replacing(command, **{"--group": "--exclude"})
    )


@BOTH
@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"height": "tall"}, ["no numbers", "'height'", "--exclude"]),
        ({"height": pd.Timestamp("2020-01-01")}, ["no numbers", "'height'"]),
        ({"height": np.nan}, ["NaN, first in row 0", "'height'"]),
        ({"height": None}, ["'height'"]),
        ({"age": "old"}, ["of one group ('old')", "two groups or more"]),
        ({"age": pd.Timestamp("2020-01-01")}, ["The group label in row 0"]),
    ],
)
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_whole_columns(refused, table, features, tmp_path, command, changed, words, ending):
    frame = table[[*features, "age"]].assign(**changed)
    path = tmp_path / f"bad.{ending}"
    frame.to_csv(path, index=False) if ending == "csv" else frame.to_parquet(path)
    message = refused(*command, data=path)
    assert all(word in message for word in words), message


@BOTH
@pytest.mark.parametrize(
    ("column", "cell", "words"),
    [
        ("height", np.nan, ["NaN, first in row 200", "'height'", "Drop or fill"]),
        ("height", np.inf, ["infinity, first in row 200", "'height'"]),
        ("height", -np.inf, ["infinity, first in row 200", "'height'"]),
        ("age", None, ["group label in row 200 is missing", "Drop these rows"]),
    ],
)
@pytest.mark.parametrize("ending", ["csv", "parquet", "feather"])
def test_single_cells(refused, table, features, tmp_path, command, column, cell, words, ending):
    frame = table[[*features, "age"]].copy()
    frame.loc[200, column] = cell
    path = tmp_path / f"bad.{ending}"
    if ending == "csv":
        frame.to_csv(path, index=False)
    else:
        getattr(frame, f"to_{ending}")(path)
    message = refused(*command, data=path)
    assert all(word in message for word in words), message


HEADER = "pay_1,pay_2,age,limit,height,weight\n"
ROW = "1,2,old,3,4,5\n"
FILES = [
    ("empty.csv", b"", ["empty.csv is empty", "header line"]),
    ("blank.csv", b"\n\n", ["blank.csv is empty"]),
    ("header.csv", HEADER.encode(), ["rows"]),
    ("unfinished.csv", HEADER.strip().encode(), ["unfinished.csv cannot be read"]),
    ("short.csv", (HEADER + ROW + "1,2,old\n").encode(), ["Expected 6 columns, got 3"]),
    ("long.csv", (HEADER + ROW + ROW[:-1] + ",6\n").encode(), ["Expected 6 columns, got 7"]),
    ("twice.csv", (HEADER.replace("weight", "pay_1") + ROW).encode(), ["several", "'pay_1'"]),
    ("utf16.csv", (HEADER + ROW).encode("utf-16"), ["utf16.csv cannot be read"]),
    ("not.csv.gz", HEADER.encode(), ["not.csv.gz cannot be read"]),
    ("empty.parquet", b"", ["empty.parquet cannot be read"]),
    ("not.parquet", HEADER.encode(), ["not.parquet cannot be read"]),
    ("not.feather", HEADER.encode(), ["not.feather cannot be read"]),
    ("unknown.sav", b"$FL2@(#) SPSS", ["unknown.sav is of an unknown kind", ".parquet"]),
    ("sheet.xlsx", b"PK\x03\x04" + bytes(60), ["sheet.xlsx"]),
]


@pytest.mark.parametrize("command", [AUDIT, FIT, TRANSFORM], ids=["audit", "fit", "transform"])
@pytest.mark.parametrize(("name", "content", "words"), FILES, ids=[name for name, *_ in FILES])
def test_files(refused, tmp_path, command, name, content, words):
    path = tmp_path / name
    path.write_bytes(content)
    message = refused(*command, data=path)
    assert all(word in message for word in words), message


@pytest.mark.parametrize("command", [AUDIT, TRANSFORM], ids=["audit", "transform"])
@pytest.mark.parametrize("ending", ["parquet", "feather", "csv.gz"])
@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.999])
def test_truncated_files(refused, table, features, tmp_path, command, ending, share):
    path = tmp_path / f"cut.{ending}"
    frame = table[[*features, "age"]]
    frame.to_csv(path) if ending == "csv.gz" else getattr(frame, f"to_{ending}")(path)
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])
    assert f"{path} cannot be read" in refused(*command, data=path)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 0.999])
def test_truncated_models_and_moments(refused, table, features, model, tmp_path, share):
    cut = tmp_path / "cut"
    content = model.read_bytes()
    cut.write_bytes(content[: int(share * len(content))])
    assert "cut cannot be read as a fairspan file" in refused(*TRANSFORM, model=cut)
    assert "cut cannot be read" in refused(*AUDIT, "--model", cut)
    fs.GroupMoments.from_rows(table[features], table["age"]).save(cut)
    cut.write_bytes(cut.read_bytes()[: int(share * cut.stat().st_size)])
    assert "cut" in refused(*(AUDIT if share == 0 else AUDIT[:2]), data=cut)


def test_files_of_another_kind(refused, table, features, data, model, tmp_path):
    moments = tmp_path / "some.moments"
    fs.GroupMoments.from_rows(table[features], table["age"]).save(moments)
    kinds = ("'fairspan.moments'", "'fairspan.subspace'")
    for message in (
        refused(*TRANSFORM, model=moments),
        refused("audit", model),
        refused(*AUDIT, data=model),
        refused(*AUDIT, "--model", moments),
    ):
        assert all(kind in message for kind in kinds), message
    assert "cannot be read as a fairspan file" in refused(*TRANSFORM, model=data)
    assert "cannot be read as a fairspan file" in refused(*AUDIT, "--model", data)


@pytest.mark.parametrize("option", ["--group", "--features", "--exclude"])
def test_options_that_moments_cannot_take(refused, table, features, tmp_path, option):
    moments = tmp_path / "some.moments"
    fs.GroupMoments.from_rows(table[features], table["age"]).save(moments)
    assert f"leave out {'--group, --features'}" in refused("audit", moments, option, "pay_1")


def test_moments_of_other_features_than_the_model(refused, table, features, tmp_path):
    moments = tmp_path / "some.moments"
    fs.GroupMoments.from_rows(table[features[::-1]], table["age"]).save(moments)
    message = refused("audit", moments, "--model", "{model}")
    assert "The moments are of the features 'weight', 'height'" in message


def test_moments_of_one_group(refused, table, features, tmp_path):
    moments = tmp_path / "some.moments"
    fs.GroupMoments.from_rows(table[features], ["all"] * 240).save(moments)
    assert "of one group ('all')" in refused("audit", moments)


def test_models_of_different_features_side_by_side(refused, run, data, tmp_path):
    for name, column in (("a", "height"), ("b", "weight")):
        run("fit", data, "--group", "age", "--exclude", column, "-d", 2, "-o", tmp_path / name)
    message = refused(*AUDIT, "--model", tmp_path / "a", "--model", tmp_path / "b")
    assert "different features" in message


def test_a_group_that_the_model_never_saw(refused, table, tmp_path):
    table.loc[7, "age"] = "unborn"
    table.to_csv(tmp_path / "new.csv", index=False)
    message = refused(*AUDIT, "--model", "{model}", data=tmp_path / "new.csv")
    assert all(word in message for word in ["'unborn'", "'old', 'young'", "misspelt"]), message


@pytest.mark.parametrize("criterion", ["minimax_loss", "minimax_error"])
def test_minimax_of_three_groups(refused, table, features, tmp_path, criterion):
    path = tmp_path / "three.csv"
    table[features].assign(age=[1, 2, 3] * 80).to_csv(path, index=False)
    message = refused(*FIT, "--criterion", criterion, data=path)
    assert "total_error" in message


def test_parquet_parts_that_do_not_belong_together(refused, table, features, tmp_path):
    parts = tmp_path / "parts"
    parts.mkdir()
    assert "holds no .parquet file" in refused(*AUDIT, data=parts)
    table[[*features, "age"]].to_parquet(parts / "1.parquet")
    table[features].to_parquet(parts / "2.parquet")
    assert "2.parquet has other columns than" in refused(*AUDIT, data=parts)
    (parts / "2.parquet").write_bytes((parts / "1.parquet").read_bytes()[:-9])
    assert f"{parts / '2.parquet'} cannot be read" in refused(*AUDIT, data=parts)


@pytest.mark.parametrize("command", [FIT, TRANSFORM], ids=["fit", "transform"])
def test_output_places(refused, model, data, tmp_path, command):
    assert "There is no folder" in refused(*command, out="missing/out.csv")
    assert "is also an input" in refused(*replacing(command, out="{data}"))
    (tmp_path / "link.csv").symlink_to(data)
    assert "is also an input" in refused(*replacing(command, out=tmp_path / "link.csv"))
    assert "is a directory" in refused(*replacing(command, out=tmp_path))
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe.csv")  # as /dev/null, which must not become a file
        assert "is not an ordinary file" in refused(*replacing(command, out=tmp_path / "pipe.csv"))


@pytest.mark.parametrize("command", [FIT, TRANSFORM], ids=["fit", "transform"])
def test_the_folder_that_is_read_is_no_place_for_output(refused, table, tmp_path, command):
    parts = tmp_path / "parts"
    (parts / "deeper").mkdir(parents=True)
    table.drop(columns="sex").to_parquet(parts / "1.parquet")
    for name in ("1.parquet", "2.parquet", "deeper/2.parquet"):
        assert "is also an input" in refused(*replacing(command, out=parts / name), data=parts)


def test_outputs_of_transform(refused):
    assert "is also an input" in refused(*replacing(TRANSFORM, out="{model}"))
    message = refused(*TRANSFORM, out="out.xlsx")
    assert all(word in message for word in ["'.xlsx'", ".csv, .parquet", "endings"]), message
    assert "both write to standard output" in refused(*replacing(TRANSFORM, out="-"), "--json")


def test_a_model_is_not_printed(refused):
    assert "name a file with -o" in refused(*replacing(FIT, out="-"))


@pytest.mark.parametrize("command", [AUDIT, FIT, TRANSFORM], ids=["audit", "fit", "transform"])
def test_missing_files(refused, tmp_path, command):
    assert "does not exist" in refused(*command, data=tmp_path / "nothing.csv")
    assert "does not exist" in refused("transform", "nothing", "{data}", "-o", "{out}")


@pytest.mark.parametrize("out", ["{out}", "-"])
def test_columns_that_transform_misses(refused, data, table, tmp_path, out):
    table.drop(columns="height").to_csv(tmp_path / "few.csv", index=False)
    message = refused(*replacing(TRANSFORM, out=out), data=tmp_path / "few.csv")
    assert "no column 'height'" in message


@pytest.mark.parametrize("out", ["{out}", "-"])
def test_a_bad_first_row_in_transform(refused, table, tmp_path, out):
    table.loc[3, "height"] = np.nan
    table.to_csv(tmp_path / "bad.csv", index=False)
    message = refused(*replacing(TRANSFORM, out=out), data=tmp_path / "bad.csv")
    assert "NaN, first in row 3, column 'height'" in message


@pytest.mark.parametrize("out", ["out.csv", "out.parquet", "out.arrow"])
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_bad_last_row_in_transform_takes_the_output_back(
    refused, features, tmp_path, ending, out
):
    n = 70_001  # several batches of CSV, several blocks of Parquet
    frame = pd.DataFrame(np.full((n, 5), 1.25), columns=features)
    frame.loc[n - 1, "height"] = np.nan
    path = tmp_path / f"late.{ending}"
    frame.to_csv(path, index=False) if ending == "csv" else frame.to_parquet(path)
    message = refused(*TRANSFORM, data=path, out=out)
    assert "NaN, first in row 70000, column 'height'" in message
