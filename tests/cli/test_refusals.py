"""Refusals: status 2, one message that names the fault and a remedy, and no file changed."""

import contextlib
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import fairspan as fs
from case_selection import parametrize_diagonal
from cli.conftest import AUDIT, FEATURES, FIT, LIMITED, MOMENTS, REPORT, TRANSFORM, replace_value
from fairspan import cli
from fairspan.errors import InvalidParameter

ALONE = ("audit", "{data}")
GROUP = ("--group", "age")
VERIFY = ("verify", "{model}", "{data}", *GROUP)
HIDING = ("fit", "{people_csv}", "--group", "sex", "--criterion", "total_error", "-d", "1")
HIDING += ("-o", "{out}", "--exclude", "age", "--restriction", "mean_parity")
SOLVER = "--solver-param"
HIDE = "--restriction-param"


def save_moments(features=FEATURES, groups=None):
    return lambda table, path: fs.GroupMoments.from_rows(
        table[features], table["age"] if groups is None else groups
    ).save(path)


def csv(change):
    return lambda table, path: change(table[[*FEATURES, "age"]]).to_csv(path, index=False)


# Files that a word in braces stands for, made where a command names them.
MAKERS = {
    "moments": save_moments(),
    "backwards": save_moments(FEATURES[::-1]),
    "one_group": save_moments(groups=["all"] * 240),
    "text": lambda table, path: path.write_text("do not lose this"),
    "three_csv": csv(lambda table: table.assign(age=[1, 2, 3] * 80)),
    "one_csv": csv(lambda table: table.assign(age="old")),
    "many_csv": csv(lambda table: table.assign(age=range(240))),
    "unborn_csv": csv(lambda table: table.assign(age=["unborn", *table["age"][1:]])),
    "few_csv": csv(lambda table: table.drop(columns="height")),
    "gap_csv": csv(lambda table: table.assign(height=table["height"].where(table.index != 3))),
    "words_csv": csv(lambda table: table.assign(height="tall")),
    "taken_csv": csv(lambda table: table.assign(fairpca0=1)),
    "loud_csv": csv(
        lambda table: table.assign(
            **table[FEATURES].mul(np.where(table["age"] == "old", 100, 0.01), axis=0)
        )
    ),
    "people_csv": csv(
        lambda table: table.assign(
            sex=np.arange(240) % 2, hired=np.where(np.arange(240) % 3, "yes", "no")
        )
    ),
}
REFUSED = [
    # Columns
    ((*AUDIT, "--features", "PAY*"), ["'PAY*' matches no column", "'pay_1'", "Correct"]),
    ((*AUDIT, "--exclude", "zzz"), ["'zzz' matches no column"]),
    ((*AUDIT, "--exclude", "*"), ["No feature columns are left", "Relax the patterns"]),
    ((*AUDIT, "--group", "agee"), ["no column 'agee'", "closest match is 'age'"]),
    ((*AUDIT, "--group", "AGE"), ["no column 'AGE'", "closest match is 'age'"]),
    ((*AUDIT, "--group", "town"), ["no column 'town'", "Its columns are 'pay_1'"]),
    ((*AUDIT, *GROUP), ["'age' is given twice"]),
    (ALONE, ["Give the group column with --group"]),
    ((*AUDIT, "--clusters", "who"), ["no column 'who'"]),
    ((*MOMENTS, "--y", "nobody"), ["nobody"]),
    ((*REPORT, "--exclude", "nothing*"), ["nothing"]),
    ((*MOMENTS, "--weight", "age"), ["column"]),
    ((*AUDIT, "--weight", "height_"), ["no column 'height_'"]),
    # Numbers and names
    ((*MOMENTS, "--jobs", "0"), ["x>=1"]),
    ((*FIT, "--on-missing", "mean"), ["'mean' is not one", "'error', 'drop'"]),
    *(
        ((*ALONE, *GROUP, "-d", value), ["is not a number of dimensions", "such as 0.9"])
        for value in ("0", "1.5", "-1", "two", "0.0", "1.0", "nan", "")
    ),
    ((*FIT, "-d", "6"), ["n_components is 6", "from 1 to ", "features, 5"]),
    ((*AUDIT, "--center", "median"), ["'median' is not one", "'global', 'group', 'none'"]),
    ((*AUDIT, "--nonsense"), ["No such option", "--nonsense"]),
    ((*AUDIT, "--max-groups", "0"), ["--max-groups"]),
    ((*AUDIT, "--max-memory", "100B"), ["--max-memory SIZE", "eigendecomposition"]),
    ((*AUDIT, "--max-memory", "0"), ["'0' is not a size", "such as 500MB or 8GB"]),
    ((*AUDIT, "--max-memory", "-1GB"), ["'-1GB' is not a size"]),
    ((*AUDIT, "--max-memory", "1 PB"), ["'1 PB' is not a size"]),
    ((*AUDIT, "--folds", "1"), ["'--folds'", "'1' is not a number of folds", "none for figures"]),
    ((*AUDIT, "--folds", "many"), ["'--folds'", "'many' is not a number of folds"]),
    ((*AUDIT, "-d", "2", "--folds", "3"), ["folds is 3", "5 folds or more"]),
    ((*AUDIT, "--level", "0.5"), ["'--level'", "0.5 is not in "]),
    ((*AUDIT, "--materiality", "1"), ["'--materiality'", "1.0 is not in "]),
    ((*FIT, "--tol", "1"), ["0<=x<1"]),
    ((*FIT, "--criterion", "fairest"), ["'fairest' is not one", "'minimax_loss'"]),
    ((*FIT, "--criterion", "minimax_los"), ["Did you mean 'minimax_loss'?"]),
    ((*FIT, "--solver", "dual-newton"), ["Did you mean 'dual_newton'?"]),
    ((*FIT, "--solver", "guess"), ["'guess' is not one", "'auto', 'boundary'"]),
    ((*FIT, "--solver", "riemannian"), ["'riemannian'", "Use solver='auto'"]),
    ((*FIT, SOLVER, "max_iter=1"), ["'auto'", "'max_iter'", "no parameters"]),
    ((*FIT, "--solver", "multiplicative", SOLVER, "size=1"), ["'size'", "step_size, max_iter"]),
    ((*REPORT, "--criterion", "disparity", "--param", "trade_off=2"), ["trade_off is 2"]),
    # Parameters that name groups
    (
        (*FIT, "--criterion", "disparity", "--param", "protected=elder"),
        ["protected", "group 'elder'", "'old', 'young'"],
    ),
    (
        (*FIT, "--criterion", "robust_error_gap", "--param", "radius.elder=1"),
        ["radius", "group 'elder'", "'old', 'young'"],
    ),
    (
        (*FIT, "--criterion", "robust_error_gap", "--param", "radius.old=1"),
        ["radius is given", "'old'"],
    ),
    # Restrictions
    ((*FIT, HIDE, "oblique=yes"), ["Give the restriction with --restriction"]),
    ((*FIT, "--restriction", "mean"), ["'mean_parity'"]),
    ((*HIDING, HIDE, "oblique"), ["KEY=VALUE"]),
    ((*HIDING, HIDE, "oblique=7"), ["oblique is 7"]),
    ((*HIDING, HIDE, "size=7"), ["'size'"]),
    ((*HIDING, HIDE, "tolerance=1", HIDE, "tolerance=1"), ["twice"]),
    ((*HIDING, HIDE, "within_classes=all", "--exclude", "hired"), ["--y COL"]),
    ((*HIDING, HIDE, "within_classes=2", "--y", "hired"), ["within_classes", "occur in y"]),
    # What does not go together
    ((*AUDIT, "--clusters", "limit", "--folds", "none"), ["--clusters requires estimates"]),
    ((*FIT, "--clusters", "limit", "--folds", "none"), ["--clusters", "--folds none"]),
    ((*AUDIT, "--by-dimension", "--folds", "none"), ["--by-dimension requires estimates"]),
    ((*AUDIT, "--by-dimension", "-d", "2"), ["--by-dimension", " -d."]),
    (
        (*AUDIT, "--by-dimension", "--model", "{model}"),
        ["--by-dimension", "--model"],
    ),
    (("audit", "{moments}", "--by-dimension"), ["--by-dimension received saved moments"]),
    (("audit", "{moments}", "--clusters", "limit"), ["--clusters requires rows"]),
    (("audit", "{moments}", *GROUP), ["omit --group, --features"]),
    (("audit", "{moments}", "--exclude", "limit"), ["omit --group, --features"]),
    (("audit", "{moments}", "--max-groups", "5"), ["omit --max-groups"]),
    ((*REPORT, "--test", "{data}"), ["--model"]),
    *(
        (("transform", "{model}", "--as", "sql", *words), [f"reads no rows; omit {words[0]}"])
        for words in (("--keep", "limit"), ("--on-missing", "drop"), ("--decimal", ","))
    ),
    *(
        (
            ("transform", "{model}", *options, "--as", "sql"),
            ["--as sql", options[0].replace("{data}", "DATA")],
        )
        for options in (["{data}"], ["-o", "{out}"], ["--json"])
    ),
    (("transform", "{model}", "--as", "sql", "--one-hot"), ["column=category"]),
    (("transform", "{model}", "{data}"), ["Give DATA and the output path -o"]),
    ((*TRANSFORM, "--one-hot"), ["--one-hot requires --as sql"]),
    # Groups
    ((*AUDIT[:1], "{one_group}"), ["to one group ('all')"]),
    (replace_value(REPORT, data="{one_csv}"), ["one group"]),
    *(
        (replace_value(command, data="{many_csv}"), ["'age' has 240 groups", "--max-groups"])
        for command in (AUDIT, FIT, REPORT, MOMENTS)
    ),
    ((*replace_value(AUDIT, data="{many_csv}"), "--max-groups", "199"), ["max_groups is 199"]),
    (
        (*replace_value(FIT, data="{three_csv}"), "--criterion", "disparity"),
        ["3 groups", "signed gap", "'error_gap'"],
    ),
    (
        (*replace_value(FIT, data="{loud_csv}"), "--criterion", "equal_error"),
        ["smallest achievable gap", "error_gap"],
    ),
    # Models, and rows that do not fit them
    (
        (*replace_value(AUDIT, data="{unborn_csv}"), "--model", "{model}"),
        ["'unborn'", "'old', 'young'", "misspelled"],
    ),
    (("audit", "{backwards}", "--model", "{model}"), ["The rows have 5 features ('weight', 'hei"]),
    (replace_value(TRANSFORM, data="{few_csv}"), ["no column 'height'"]),
    (replace_value(VERIFY, data="{few_csv}"), ["no column 'height'"]),
    (replace_value(TRANSFORM, data="{gap_csv}"), ["NaN, first in line 5, column 'height'"]),
    (replace_value(VERIFY, data="{gap_csv}"), ["NaN"]),
    (
        replace_value(TRANSFORM, data="{words_csv}"),
        ["'height' holds text", "in line 2. Allowed"],
    ),
    ((*TRANSFORM, "--keep", "nobody"), ["no column 'nobody'"]),
    ((*TRANSFORM, "--keep", "age", "--keep", "age"), ["given twice"]),
    (
        (*replace_value(TRANSFORM, data="{taken_csv}"), "--keep-all"),
        ["'fairpca0' would appear twice"],
    ),
    ((*VERIFY[:3], "--group", "no such"), ["no column 'no such'"]),
    # Files of another kind, and of none
    (replace_value(TRANSFORM, model="{data}", data="{model}"), ["the model comes first"]),
    (replace_value(TRANSFORM, model="{moments}"), ["'fairspan.moments'", "'fairspan.subspace'"]),
    (("audit", "{model}"), ["'fairspan.moments'", "'fairspan.subspace'"]),
    (replace_value(AUDIT, data="{model}"), ["'fairspan.moments'", "'fairspan.subspace'"]),
    ((*AUDIT, "--model", "{moments}"), ["'fairspan.moments'", "'fairspan.subspace'"]),
    (replace_value(TRANSFORM, model="{text}"), ["cannot be read as a fairspan file"]),
    ((*AUDIT, "--model", "{data}"), ["cannot be read as a fairspan file"]),
    (replace_value(VERIFY, model="{text}"), ["cannot be read as a fairspan file"]),
    (replace_value(AUDIT, data="nothing.csv"), ["does not exist"]),
    (replace_value(TRANSFORM, model="nothing"), ["does not exist"]),
    (replace_value(MOMENTS, data="{moments}"), ["already contains moments", "fairspan merge"]),
    (("merge", "{moments}", "{model}", "-o", "{out}"), ["is of kind 'fairspan.subspace'"]),
    (("merge", "{moments}", "{text}", "-o", "{out}"), ["text cannot be read"]),
    (("merge", "{moments}", "nothing", "-o", "{out}"), ["does not exist"]),
    (("merge", "-o", "{out}"), ["Missing argument"]),
    # Outputs
    (("merge", "{moments}", "-o", "{moments}"), ["is also an input"]),
    (("merge", "{moments}", "-o", "-"), ["no text to print"]),
    (replace_value(MOMENTS, out="-"), ["no text to print"]),
    (replace_value(FIT, out="-"), ["name a file with -o"]),
    (replace_value(FIT, out="{text}"), ["is not a model"]),
    ((*replace_value(TRANSFORM, out="-"), "--json"), ["standard output"]),
    (replace_value(TRANSFORM, out="{model}"), ["is also an input"]),
    (
        (
            "report",
            "{data}",
            *GROUP,
            "--model",
            "{model}",
            "--test",
            "{three_csv}",
            "-o",
            "{three_csv}",
        ),
        ["is also an input"],
    ),
]


@pytest.mark.parametrize(("command", "expected_text"), REFUSED, ids=lambda key: " ".join(key)[:60])
def test_invalid_commands_are_refused(assert_refused, table, tmp_path, command, expected_text):
    paths = {name: tmp_path / name.replace("_csv", ".csv") for name in MAKERS}
    for name, make in MAKERS.items():
        if f"{{{name}}}" in command:
            make(table, paths[name])
    assert_refused(*command, **paths, expected_text=expected_text)


@pytest.mark.parametrize(
    ("command", "out", "expected_text"),
    [
        (FIT, "m.csv", ["suffix of a table", "a model is not one", "another suffix"]),
        (FIT, "m.pkl", ["suffix of a pickle"]),
        (FIT, "missing/m", ["does not exist. Allowed: an existing folder"]),
        (MOMENTS, "m.json", ["a JSON document", "moments are not one"]),
        (REPORT, "page.pdf", ["a PDF document", "a page is not one", "ends in .html"]),
        (TRANSFORM, "out.xlsx", ["'.xlsx'", ".csv, .parquet", "suffixes"]),
        (TRANSFORM, "missing/out.csv", ["does not exist. Allowed: an existing folder"]),
        (
            (*REPORT, "--exclude", "no_such_column"),
            "none/page.html",
            ["does not exist. Allowed: an existing folder"],
        ),
    ],
)
def test_a_place_for_results_is_refused(assert_refused, command, out, expected_text):
    assert_refused(*command, out=out, expected_text=expected_text)


@pytest.mark.parametrize(
    ("column", "cell", "expected_text"),
    [
        (
            "height",
            np.nan,
            ["NaN, first in {row}", "'height'", "Drop rows with NaN"],
        ),
        ("height", np.inf, ["infinity, first in {row}", "'height'"]),
        ("age", None, ["group label in {row} is missing", "Drop these rows"]),
    ],
)
@pytest.mark.parametrize("ending", ["csv", "parquet", "feather"])
def test_a_cell_is_refused_with_its_row_and_column(
    assert_refused, table, tmp_path, column, cell, expected_text, ending
):
    frame = table[[*FEATURES, "age"]].copy()
    path = tmp_path / f"bad.{ending}"
    frame.loc[200, column] = cell
    getattr(frame, f"to_{ending}")(path, **({"index": False} if ending == "csv" else {}))
    row = "line 202" if ending == "csv" else "row 201 (index 200)"
    assert_refused(
        *AUDIT, data=path, expected_text=[text.format(row=row) for text in expected_text]
    )


@pytest.mark.parametrize(
    ("option", "near"),
    [("--job", "--jobs"), ("--exclud", "--exclude"), ("--onehot", "--one-hot"), ("--bogus", None)],
)
def test_an_option_that_is_nearly_right_is_named(assert_refused, option, near):
    message = assert_refused(*AUDIT, option, "1")
    assert set(re.findall(r"--[\w-]+", message)) == {option, near} - {None}


def test_models_of_different_features_are_refused(assert_refused, run, data, tmp_path):
    for name, column in (("a", "height"), ("b", "weight")):
        arguments = ("--exclude", column, "-d", 2, "--folds", "none")
        run("fit", data, "--group", "age", *arguments, "-o", tmp_path / name)
    assert_refused(
        *AUDIT,
        "--model",
        tmp_path / "a",
        "--model",
        tmp_path / "b",
        expected_text="different features",
    )


@pytest.mark.parametrize("size", ["1.5 gb", "300MB", "500000KB", "1TB"])
def test_memory_that_is_enough(run, data, size):
    words = ("audit", data, *GROUP, "-d", 2, "--folds", "none")
    assert run(*words, "--max-memory", size).status == 0


def test_as_many_groups_as_are_allowed(run, table, tmp_path):
    table.assign(age=range(240)).to_csv(tmp_path / "many.csv", index=False)
    words = ("moments", tmp_path / "many.csv", *GROUP, "--exclude", "sex", "--max-groups", 240)
    assert len(run(*words, "-o", tmp_path / "m", "--json").facts["groups"]) == 240


ALL = pytest.mark.parametrize("command", [AUDIT, FIT, TRANSFORM], ids=["audit", "fit", "transform"])
WRITING = pytest.mark.parametrize("command", [FIT, TRANSFORM], ids=["fit", "transform"])
HEADER = "pay_1,pay_2,age,limit,height,weight\n"
ROW = "1,2,old,3,4,5\n"
FILES = [
    ("empty.csv", b"", ["empty.csv is empty", "header line"]),
    ("blank.csv", b"\n\n", ["blank.csv is empty"]),
    ("header.csv", HEADER.encode(), ["rows"]),
    ("unfinished.csv", HEADER.strip().encode(), ["unfinished.csv cannot be read"]),
    (
        "short.csv",
        (HEADER + ROW + "1,2,old\n").encode(),
        ["3 cells in line 3, but a header with 6"],
    ),
    (
        "long.csv",
        (HEADER + ROW + ROW[:-1] + ",6\n").encode(),
        ["7 cells in line 3, but a header with 6"],
    ),
    ("twice.csv", (HEADER.replace("weight", "pay_1") + ROW).encode(), ["several", "'pay_1'"]),
    ("utf16.csv", (HEADER + ROW).encode("utf-16"), ["not encoded as utf-8", "utf-16"]),
    ("not.csv.gz", HEADER.encode(), ["not.csv.gz cannot be read"]),
    ("empty.parquet", b"", ["empty.parquet cannot be read"]),
    ("not.parquet", HEADER.encode(), ["not.parquet cannot be read"]),
    ("not.feather", HEADER.encode(), ["not.feather cannot be read"]),
    ("unknown.sav", b"$FL2@(#) SPSS", ["unknown.sav", "unknown format", ".parquet"]),
    ("sheet.xlsx", b"PK\x03\x04" + bytes(60), ["sheet.xlsx"]),
]


@ALL
@pytest.mark.parametrize(("name", "content", "words"), FILES, ids=[name for name, *_ in FILES])
def test_malformed_files_are_refused(assert_refused, tmp_path, command, name, content, words):
    path = tmp_path / name
    path.write_bytes(content)
    assert_refused(*command, data=path, expected_text=words)


@ALL
def test_a_name_that_is_not_utf8_is_refused(assert_refused, table, tmp_path, command):
    path = tmp_path / os.fsdecode(b"r\xff.parquet")
    try:
        table.to_parquet(tmp_path / "rows.parquet")
        (tmp_path / "rows.parquet").rename(path)
    except (OSError, UnicodeError):
        pytest.skip("refused by the file system")
    assert "r\\udcff.parquet' is not valid UTF-8" in assert_refused(*command, data=path)


@ALL
def test_a_name_that_a_terminal_would_obey(assert_refused, tmp_path, command):
    try:
        (tmp_path / "a\x1b[31m\nb.parquet").touch()
    except OSError:
        pytest.skip("refused by the file system")
    assert_refused(
        *command,
        data=tmp_path / "a\x1b[31m\nb.parquet",
        expected_text="a?[31m?b.parquet cannot be read",
    )


@parametrize_diagonal(
    command=[AUDIT, TRANSFORM],
    ending=["parquet", "feather", "csv.gz"],
    share=[0.1, 0.5, 0.9, 0.999],
)
def test_truncated_files_are_refused(
    assert_refused, table, features, tmp_path, command, ending, share
):
    path = tmp_path / f"cut.{ending}"
    frame = table[[*features, "age"]]
    frame.to_csv(path) if ending == "csv.gz" else getattr(frame, f"to_{ending}")(path)
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])
    assert f"{path} cannot be read" in assert_refused(*command, data=path)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 0.999])
def test_truncated_models_and_moments_are_refused(
    assert_refused, table, features, model, tmp_path, share
):
    cut = tmp_path / "cut"
    content = model.read_bytes()
    cut.write_bytes(content[: int(share * len(content))])
    assert "cut cannot be read" in assert_refused(*TRANSFORM, model=cut)
    assert "cut cannot be read" in assert_refused(*AUDIT, "--model", cut)
    fs.GroupMoments.from_rows(table[features], table["age"]).save(cut)
    cut.write_bytes(cut.read_bytes()[: int(share * cut.stat().st_size)])
    assert "cut" in assert_refused(*(AUDIT if share == 0 else AUDIT[:2]), data=cut)


def test_parquet_parts_of_different_columns_are_refused(assert_refused, table, features, tmp_path):
    parts = tmp_path / "parts"
    parts.mkdir()
    assert "contains no data files" in assert_refused(*AUDIT, data=parts)
    table[[*features, "age"]].to_parquet(parts / "1.parquet")
    table[features].to_parquet(parts / "2.parquet")
    assert "2.parquet has other columns" in assert_refused(*AUDIT, data=parts)
    (parts / "2.parquet").write_bytes((parts / "1.parquet").read_bytes()[:-9])
    assert f"{parts / '2.parquet'} cannot be read" in assert_refused(*AUDIT, data=parts)


@pytest.mark.skipif(sys.platform == "win32", reason="of POSIX systems")
@pytest.mark.parametrize("kind", ["zero", "pipe", "linked pipe"])
def test_devices_and_pipes_behind_links_are_refused_at_once(assert_refused, data, tmp_path, kind):
    trap = tmp_path / "trap.csv"
    if kind == "zero":
        trap.symlink_to("/dev/zero")
    else:
        os.mkfifo(tmp_path / "pipe.csv")
        trap = tmp_path / "pipe.csv"
    if kind == "linked pipe":
        trap = tmp_path / "trap.csv"
        trap.symlink_to(tmp_path / "pipe.csv")
    for command in (FIT, AUDIT, TRANSFORM):
        assert "a pipe or a device" in assert_refused(*command, data=trap)
    assert "a pipe or a device" in assert_refused(*TRANSFORM, model=trap)
    assert "a pipe or a device" in assert_refused(*AUDIT, "--model", trap)


FULL = Path("/dev/full")


@WRITING
def test_invalid_output_places_are_refused(assert_refused, model, data, tmp_path, command):
    assert "does not exist. Allowed: an existing folder" in assert_refused(
        *command, out="missing/out.csv"
    )
    assert "is also an input" in assert_refused(*replace_value(command, out="{data}"))
    (tmp_path / "link.csv").symlink_to(data)
    assert "is also an input" in assert_refused(*replace_value(command, out=tmp_path / "link.csv"))
    assert "is a directory" in assert_refused(*replace_value(command, out=tmp_path))
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe.csv")  # as /dev/null, which must not become a file
        assert "is not a regular file" in assert_refused(
            *replace_value(command, out=tmp_path / "pipe.csv")
        )


@WRITING
def test_the_folder_that_is_read_is_no_place_for_output(assert_refused, table, tmp_path, command):
    parts = tmp_path / "parts"
    (parts / "deeper").mkdir(parents=True)
    table.drop(columns="sex").to_parquet(parts / "1.parquet")
    for name in ("1.parquet", "2.parquet", "deeper/2.parquet"):
        assert "is also an input" in assert_refused(
            *replace_value(command, out=parts / name), data=parts
        )


def test_results_in_python_are_named_as_what_they_are(tmp_path, model):
    subspace = fs.FairSubspace.load(model)
    X = np.random.default_rng(0).normal(size=(40, 3))
    groups = ["a", "b"] * 20
    moments = fs.GroupMoments.from_rows(X, groups)
    for name, save in (
        ("m.csv", subspace.save),
        ("m.json", moments.save),
        ("o.csv", subspace.to_onnx),
        ("m.pdf", lambda path: fs.write_report(path, X, groups)),
    ):
        with pytest.raises(InvalidParameter, match=f"{name} has the suffix of"):
            save(tmp_path / name)
        assert not (tmp_path / name).exists()


@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX pipes")
@pytest.mark.parametrize(
    ("command", "status"),
    [
        (("--help",), 0),
        pytest.param(("audit", "{data}", "--group", "no", "--json"), 2, marks=pytest.mark.slow),
        pytest.param(AUDIT, 0, marks=pytest.mark.slow),
        pytest.param(("demo", "-o", "{page}"), 0, marks=pytest.mark.long),
    ],
)
def test_a_reader_who_leaves_is_no_failure(data, model, tmp_path, command, status):
    paths = {"data": data, "model": model, "page": tmp_path / "page.html"}
    words = [str(word) for word in replace_value(command, **paths)]
    program = [Path(sys.executable).with_name("fairspan"), *words]
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as unread:
        completed = subprocess.run(
            program, stdout=unread, stderr=subprocess.PIPE, text=True, timeout=60
        )
    assert completed.returncode == status, completed.stderr
    assert "Traceback" not in completed.stderr
    assert "Broken pipe" not in completed.stderr
    assert paths["page"].exists() == ("{page}" in command)


@pytest.mark.skipif(not FULL.exists(), reason="needs a device that is full")
def test_a_full_standard_output_is_reported(data, capfd):
    full = FULL.open("w", encoding="utf-8")
    with contextlib.redirect_stdout(full):
        status = cli.run([str(word) for word in replace_value(AUDIT, data=data)])
    with contextlib.suppress(OSError):  # what was not written
        full.close()
    assert status == 2
    assert "No space left on device" in capfd.readouterr().err.splitlines()[-1]


@pytest.mark.long
@pytest.mark.skipif(sys.platform == "win32", reason="needs limits on files")
@pytest.mark.parametrize(
    ("command", "name"),
    [(FIT, "out.model"), *((TRANSFORM, f"out.{kind}") for kind in ("csv", "parquet", "feather"))],
)
def test_a_full_disk_is_reported_and_leaves_no_file(
    installed, data, model, tmp_path, command, name
):
    out = tmp_path / name
    words = replace_value(command, data=data, model=model, out=out)
    original_files = sorted(tmp_path.iterdir())
    installed(
        10,
        *words,
        code=LIMITED,
        status=2,
        out=None,
        err=[f"{out} cannot be written", "Free disk space"],
    )
    assert sorted(tmp_path.iterdir()) == original_files
