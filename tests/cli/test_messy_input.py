"""Messy tables and command lines: read, or refused in one message."""

import contextlib
import gzip
import io
import os
from functools import cache

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from corruption import ODD_VALUES, accept_or_refuse, corrupted_bytes
from fairspan import FairPCA, FairSubspace, GroupMoments, cli, verify

N = 60
RNG = np.random.default_rng(12)
CLEAN = pd.DataFrame(
    {
        "age": RNG.integers(18, 80, N),
        "height": RNG.normal(170, 9, N).round(2),
        "weight": RNG.normal(70, 12, N).round(2),
        "sex": RNG.choice(["f", "m"], N),
    }
)
FEATURES = ["age", "height", "weight"]
HEADER = "age,height,weight,sex"
LINES = CLEAN.to_csv(index=False).splitlines()[1:]


def text(lines=LINES, header=HEADER, end="\n", last="\n"):
    return end.join([header, *lines]) + last


def with_column(name, values, place=None):
    frame = CLEAN.copy()
    frame.insert(len(frame.columns) if place is None else place, name, values)
    return frame.to_csv(index=False)


def alter(column, row, value):
    frame = CLEAN.astype({column: object})
    frame.loc[row, column] = value
    return frame.to_csv(index=False)


def pca_error(frame):
    """The error of PCA with one component: all eigenvalues of the covariance but the largest."""
    return np.linalg.eigvalsh(np.cov(frame.to_numpy(float).T, ddof=0))[:-1].sum()


FEATURE_TABLE = CLEAN[FEATURES]
TABLE_WITHOUT_ROW_3 = FEATURE_TABLE.drop(index=3)
POINT = CLEAN[["height", "weight"]].astype(str)
COMMAS = CLEAN.assign(**{name: POINT[name].str.replace(".", ",") for name in POINT})
MIXED = CLEAN.assign(height=POINT["height"].str.replace(".", ","))
UMLAUTS = CLEAN.assign(sex=CLEAN["sex"].map({"f": "Frau", "m": "Männer"}))
DAY = pd.Timestamp("2024-02-29")
JOB = np.where(np.arange(N) % 3, "clerk", "smith")
ENCODED = CLEAN[FEATURES].assign(clerk=(JOB == "clerk") * 1.0, smith=(JOB == "smith") * 1.0)

# Content of a CSV file, options, and what should be read.
READ = {
    "as it should be": (text(), [], FEATURE_TABLE),
    "byte order mark": ("\ufeff" + text(), [], FEATURE_TABLE),
    "carriage returns, line feeds": (text(end="\r\n"), [], FEATURE_TABLE),
    "carriage returns alone": (text(end="\r"), [], FEATURE_TABLE),
    "no last line break": (text(last=""), [], FEATURE_TABLE),
    "blank lines last": (text(last="\n\n\n"), [], FEATURE_TABLE),
    "blank lines between": (text([*LINES[:9], "", *LINES[9:]]), [], FEATURE_TABLE),
    "semicolons": (text().replace(",", ";"), [], FEATURE_TABLE),
    "tabs": (text().replace(",", "\t"), [], FEATURE_TABLE),
    "bars": (text().replace(",", "|"), [], FEATURE_TABLE),
    "colons, named": (text().replace(",", ":"), ["--delimiter", ":"], FEATURE_TABLE),
    "decimal commas": (COMMAS.to_csv(index=False, sep=";"), ["--decimal", ","], FEATURE_TABLE),
    "everything quoted": (CLEAN.to_csv(index=False, quoting=1), [], FEATURE_TABLE),
    "line breaks in quotes": (
        with_column("note", ['one\ntwo, "three"'] * N),
        ["--numeric-only"],
        FEATURE_TABLE,
    ),
    "a delimiter in a quoted name": (
        text(header='"age, in years",height,weight,sex'),
        [],
        FEATURE_TABLE,
    ),
    "comments on top": (
        "# from the survey\n# of 2024\n" + text(),
        ["--comment", "#"],
        FEATURE_TABLE,
    ),
    "comments between": (
        text([*LINES[:9], "#a,b", *LINES[9:]]),
        ["--comment", "#"],
        FEATURE_TABLE,
    ),
    "latin-1": (
        UMLAUTS.to_csv(index=False).encode("latin-1"),
        ["--encoding", "latin-1"],
        FEATURE_TABLE,
    ),
    "utf-16": (text().encode("utf-16"), ["--encoding", "utf-16"], FEATURE_TABLE),
    "utf-32": (text().encode("utf-32"), ["--encoding", "utf-32"], FEATURE_TABLE),
    "groups that are no ASCII": (UMLAUTS.to_csv(index=False), [], FEATURE_TABLE),
    "other columns first": (CLEAN[["sex", *FEATURES]].to_csv(index=False), [], FEATURE_TABLE),
    "an index without a name": (CLEAN.to_csv(), [], FEATURE_TABLE),
    "identifiers, left out": (
        with_column("id", [f"{i:05d}" for i in range(N)]),
        ["--exclude", "id"],
        FEATURE_TABLE,
    ),
    "text, left out": (with_column("note", "hello"), ["--numeric-only"], FEATURE_TABLE),
    "text, excluded by name": (with_column("note", "hello"), ["--exclude", "note"], FEATURE_TABLE),
    "dates, left out": (with_column("when", DAY), ["--numeric-only"], FEATURE_TABLE),
    "categories": (with_column("job", JOB), ["--one-hot"], ENCODED),
    "truth values": (
        with_column("old", CLEAN["age"] > 50),
        [],
        FEATURE_TABLE.assign(old=(CLEAN["age"] > 50) * 1.0),
    ),
    "a constant column": (
        with_column("one", 1),
        [],
        FEATURE_TABLE.assign(one=1.0),
    ),
    "empty cell, dropped": (alter("height", 3, ""), ["--on-missing", "drop"], TABLE_WITHOUT_ROW_3),
    "NA, dropped": (alter("height", 3, "NA"), ["--on-missing", "drop"], TABLE_WITHOUT_ROW_3),
    "null, dropped": (alter("height", 3, "null"), ["--on-missing", "drop"], TABLE_WITHOUT_ROW_3),
    "nan, dropped": (alter("height", 3, "nan"), ["--on-missing", "drop"], TABLE_WITHOUT_ROW_3),
    "N/A, dropped": (alter("height", 3, "N/A"), ["--on-missing", "drop"], TABLE_WITHOUT_ROW_3),
    "missing group, dropped": (alter("sex", 3, ""), ["--on-missing", "drop"], TABLE_WITHOUT_ROW_3),
    "exponents": (
        CLEAN.assign(height=[f"{h:.4e}" for h in CLEAN["height"]]).to_csv(index=False),
        [],
        FEATURE_TABLE,
    ),
    "fractions of nothing": (
        CLEAN.assign(age=[f"{a}.0" for a in CLEAN["age"]]).to_csv(index=False),
        [],
        FEATURE_TABLE,
    ),
    "a column of nothing, excluded": (
        with_column("empty", ""),
        ["--exclude", "empty"],
        FEATURE_TABLE,
    ),
    "numbers of groups": (
        CLEAN.assign(sex=CLEAN["sex"].map({"f": 1, "m": 2})).to_csv(index=False),
        [],
        FEATURE_TABLE,
    ),
}

# Content of a CSV file, options, and words that the error has to have.
REFUSED = {
    "nothing at all": ("", [], ["is empty", "header line"]),
    "blanks alone": ("\n \n", [], ["is empty"]),
    "a header alone": (HEADER + "\n", [], ["rows"]),
    "one row": (text(LINES[:1]), [], ["group"]),
    "two equal names": (
        text(header="age,age,weight,sex"),
        [],
        ["several columns named 'age'"],
    ),
    "a row too long": (
        text([*LINES, "1,2,3,f,5"]),
        [],
        ["a row with 5 cells in line 62", "header with 4"],
    ),
    "a row too short": (text([*LINES, "1,2"]), [], ["a row with 2 cells", "header with 4"]),
    "text among the numbers": (
        alter("height", 3, "tall"),
        [],
        ["'height'", "'tall' in line 5", "--one-hot", "--numeric-only"],
    ),
    "decimal commas, not named": (
        COMMAS.to_csv(index=False, sep=";"),
        [],
        ["'height'", "in line 2", "Add --decimal ,"],
    ),
    "decimal commas beside text": (
        COMMAS.assign(job=JOB)[["job", *COMMAS]].to_csv(index=False, sep=";"),
        [],
        ["'height'", "in line 2", "Add --decimal ,"],
    ),
    "decimal commas, left out": (
        COMMAS.to_csv(index=False, sep=";"),
        ["--numeric-only"],
        ["numbers with separators", "'height'", "--decimal ,", "--exclude"],
    ),
    "decimal commas, encoded": (
        COMMAS.to_csv(index=False, sep=";"),
        ["--one-hot"],
        ["numbers with separators", "--decimal ,"],
    ),
    "thousands between commas": (
        alter("height", 3, "1,170"),
        [],
        ["'1,170' in line 5", "Add --thousands ,"],
    ),
    "thousands, left out": (
        alter("height", 3, "1,170"),
        ["--numeric-only"],
        ["'1,170' in line 5", "Add --thousands ,", "--exclude"],
    ),
    "thousands, encoded": (
        alter("height", 3, "1,170"),
        ["--one-hot"],
        ["'1,170' in line 5", "Add --thousands ,"],
    ),
    "decimal commas between commas": (
        alter("height", 3, "170,5"),
        [],
        ["'170,5' in line 5", "the same decimal point"],
    ),
    "two decimal marks": (
        MIXED.to_csv(index=False, sep=";"),
        ["--decimal", ","],
        ["'weight'", "the same decimal point"],
    ),
    "thousands separated": (alter("height", 3, "1,170.5"), [], ["'1,170.5'", "thousands"]),
    "per cent": (alter("height", 3, "17%"), [], ["'17%'", "percent sign"]),
    "question marks": (
        alter("height", 3, "?"),
        [],
        ["'?' in line 5", "--na-values '?'", "--on-missing"],
    ),
    "a dash for nothing": (
        alter("height", 3, "-"),
        [],
        ["'-' in line 5", "--na-values - and", "--on-missing"],
    ),
    "hexadecimal": (alter("age", 3, "0xff"), ["--exclude", "height"], ["'age'"]),
    "an empty cell": (alter("height", 3, ""), [], ["NaN", "line 5", "'height'", "--on-missing"]),
    "a missing group": (alter("sex", 3, ""), [], ["group label in line 5", "--on-missing drop"]),
    "infinity": (alter("height", 3, "inf"), [], ["infinity", "line 5", "'height'"]),
    "beyond double precision": (alter("height", 3, "1e400"), [], ["infinity", "'height'"]),
    "one group": (CLEAN.assign(sex="f").to_csv(index=False), [], ["one group", "ordinary PCA"]),
    "no such group": (text(), ["--group", "gender"], ["'gender'", "columns are"]),
    "a name nearly right": (text(), ["--weight", "weightt"], ["closest match is 'weight'"]),
    "dates": (with_column("when", DAY), [], ["'when'", "date", "--numeric-only"]),
    "dates, encoded": (with_column("when", DAY), ["--one-hot"], ["'when'", "--numeric-only"]),
    "names, encoded": (
        "id,x,sex\n" + "".join(f"n{i},{i % 7},{'fm'[i % 2]}\n" for i in range(1500)),
        ["--one-hot"],
        ["'id'", "1,000 distinct texts", "--exclude"],
    ),
    "few names, encoded": (
        with_column("id", [f"n{i}" for i in range(N)]),
        ["--one-hot"],
        ["'id'", f"{N} distinct texts in {N} rows", "--exclude"],
    ),
    "infinity, although dropping rows": (
        alter("height", 3, "inf").replace("\n", "\n,,,f\n", 1),
        ["--on-missing", "drop"],
        ["infinity", "line 6", "Replace infinity"],
    ),
    "text alone": (CLEAN[["sex"]].assign(job=JOB).to_csv(index=False), ["--numeric-only"], ["num"]),
    "groups alone": (CLEAN[["sex"]].to_csv(index=False), [], ["No feature columns are left"]),
    "latin-1, not named": (
        UMLAUTS.to_csv(index=False).encode("latin-1"),
        [],
        ["not encoded as utf-8", "line ", "0xe4", "--encoding latin-1"],
    ),
    "utf-16, not named": (text().encode("utf-16"), [], ["not encoded as utf-8", "utf-16"]),
    "an unknown encoding": (text(), ["--encoding", "utf-9"], ["'utf-9'", "latin-1"]),
    "comments, not named": ("# 2024\n" + text(), [], ["--comment"]),
    "another delimiter": (text(), ["--delimiter", ";"], ["'sex'"]),
    "a column of nothing": (with_column("empty", ""), [], ["'empty'", "NaN"]),
    "two ways for text": (
        text(),
        ["--one-hot", "--numeric-only"],
        ["--one-hot and --numeric-only cannot be combined"],
    ),
    "zero bytes": (text().replace("f", "f\0", 1), ["--group", "age"], ["'sex'"]),
}


def write_file(folder, content, name="rows.csv"):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def arguments(path, options):
    group = [] if "--group" in options else ["--group", "sex"]
    return ["audit", path, *group, "-d", "1", "--folds", "none", *options]


def assert_pca_error(facts, frame):
    """The error of PCA is that of these rows; the mean squared distance to the best line."""
    actual = facts["models"][0]["observed_total_error"]
    assert actual == pytest.approx(pca_error(frame), rel=1e-9)


@pytest.mark.parametrize(("content", "options", "expected"), READ.values(), ids=READ)
@pytest.mark.filterwarnings("ignore::fairspan.errors.FairspanWarning")
def test_messy_tables_are_read(run, tmp_path, content, options, expected):
    facts = run(*arguments(write_file(tmp_path, content), options), "--json").facts
    assert_pca_error(facts, expected)


@pytest.mark.parametrize(
    ("content", "options", "words"),
    REFUSED.values(),
    ids=REFUSED,
)
def test_invalid_arguments_are_refused(assert_refused, tmp_path, content, options, words):
    assert_refused(*arguments(write_file(tmp_path, content), options), expected_text=words)


@pytest.mark.parametrize("name", ["rows.csv.gz", "rows.txt.gz", "rows.tsv.gz"])
def test_compressed_files_are_read(run, tmp_path, name):
    content = text().replace(",", "\t") if "tsv" in name else text()
    path = write_file(tmp_path, gzip.compress(content.encode()), name)
    assert_pca_error(run(*arguments(path, []), "--json").facts, FEATURE_TABLE)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("rows.csv.gz", text().encode(), ["cannot be read"]),
        ("rows.ods", b"PK\x03\x04" + bytes(50), ["unknown format", "CSV"]),
        ("rows", text().encode(), ["unknown format", "suffix"]),
        ("rows.parquet", text().encode(), ["cannot be read"]),
        ("rows.json", b"[]", ["unknown format"]),
        ("rows.csv", None, ["is a Parquet file", "suffix .parquet"]),
        ("rows.tsv", b"ARROW1" + bytes(50) + b"ARROW1", ["is an Arrow file", "suffix .arrow"]),
    ],
)
def test_files_of_other_kinds_are_refused(assert_refused, tmp_path, name, content, words):
    content = CLEAN.to_parquet() if content is None else content
    assert_refused(*arguments(write_file(tmp_path, content, name), []), expected_text=words)


def test_a_link_to_a_file_is_the_file(run, tmp_path):
    (tmp_path / "link.csv").symlink_to(write_file(tmp_path, text()))
    assert_pca_error(run(*arguments(tmp_path / "link.csv", []), "--json").facts, FEATURE_TABLE)


def test_a_dangling_link_is_refused(assert_refused, tmp_path):
    (tmp_path / "link.csv").symlink_to(tmp_path / "nowhere.csv")
    assert "does not exist" in assert_refused(*arguments(tmp_path / "link.csv", []))


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such permissions")
@pytest.mark.skipif(hasattr(os, "geteuid") and os.geteuid() == 0, reason="root reads every file")
def test_an_unreadable_file_is_refused(assert_refused, tmp_path):
    path = write_file(tmp_path, text())
    path.chmod(0)
    assert "cannot be read" in assert_refused(*arguments(path, []))


@pytest.mark.long
def test_a_hundred_thousand_columns_are_refused(assert_refused, tmp_path):
    names = ",".join(f"x{i}" for i in range(100_000))
    lines = [",".join(["1"] * 100_000) + f",{group}" for group in "fmfm"]
    path = write_file(tmp_path, "\n".join([f"{names},sex", *lines]) + "\n")
    assert_refused(*arguments(path, ["--max-memory", "2GB"]), expected_text=["100,000", "features"])


FRAME = pd.DataFrame(np.random.default_rng(0).standard_normal((40, 4)), columns=list("wxyz"))
FRAME["g"] = ["a", "b"] * 20
COMMANDS = ["audit", "fit", "moments", "merge", "transform", "verify"]
DATA = ["rows.csv", "old.moments", "fair.model"]
# These options write to any path, or start processes.
NOT_TRIED = {"-o", "--jobs"}
PLAUSIBLE = ["g", "w", "1", "2", "0.9", "minimax_loss", "error_gap", "penalty=0.5", "w*"]
PLAUSIBLE += [",", ";", "latin-1", "utf-16", "#", "drop", "ignore", "mean_parity", "none", "1e-6"]
PLAUSIBLE += ["trade_off=NaN", "penalty=[1,2]", "protected=b", '{"a":1}', "radius=1e400"]
ODD_TEXTS = [str(value).replace("\0", "") for value in ODD_VALUES]
PARAMETERS = {
    "robust_error_gap": b"penalty=0.5\nradius.a=0.1\nradius.b=0.2",
    "error_gap": b"penalty=2e-3",
    "disparity": b"trade_off=0.3\nprotected=b",
}


@cache
def moments():
    return GroupMoments.from_rows(FRAME, "g")


@cache
def fit_subspace():
    return FairPCA(2).fit_moments(moments()).subspace_


@pytest.fixture
def folder(tmp_path, monkeypatch):
    inside = tmp_path / "inside"
    inside.mkdir()
    monkeypatch.chdir(inside)
    FRAME.to_csv("rows.csv", index=False)
    fit_subspace().save("fair.model")
    moments().save("old.moments")
    yield inside
    assert list(tmp_path.iterdir()) == [inside]


def run(words):
    """Return the status and all output, which has no traceback."""
    output = io.StringIO()
    with (
        contextlib.redirect_stdout(output),
        contextlib.redirect_stderr(output),
        accept_or_refuse(),
    ):
        status = cli.run(words)
    assert "Traceback" not in output.getvalue(), words
    return status, output.getvalue()


@st.composite
def command_lines(draw):
    name = draw(st.sampled_from(COMMANDS))
    data = draw(st.sampled_from(DATA))
    words = [name, *({"transform": ["fair.model"], "verify": ["fair.model"]}.get(name, [])), data]
    if name == "merge":
        words.append("old.moments")
    if name not in ("audit", "verify"):
        words += ["-o", "out.csv" if name == "transform" else "out"]
    if data == "rows.csv" and name not in ("merge", "transform"):
        words += ["--group", "g"]
    options = [
        parameter for parameter in cli.fairspan.commands[name].params if parameter.opts[0][0] == "-"
    ]
    for option in draw(st.lists(st.sampled_from(options), max_size=2)):
        assume(not NOT_TRIED.intersection(option.opts))
        words.append(option.opts[0])
        if not option.is_flag:
            words.append(draw(st.sampled_from(PLAUSIBLE) | st.sampled_from(ODD_TEXTS)))
    return words


@pytest.mark.slow
@given(words=command_lines())
def test_a_command_line_is_answered_or_refused(folder, words):
    status, output = run(words)
    assert status in ((0, 1, 2) if words[0] == "verify" else (0, 2)), (words, output)
    assert {path.name for path in folder.iterdir()} <= {*DATA, "out", "out.csv"}


@pytest.mark.slow
@given(data=st.data(), criterion=st.sampled_from(sorted(PARAMETERS)))
def test_parameters_are_refused_or_give_a_certificate_that_holds(folder, data, criterion):
    text = data.draw(st.just(PARAMETERS[criterion]) | corrupted_bytes(PARAMETERS[criterion]))
    lines = text.decode(errors="surrogateescape").splitlines()
    parameters = [word for line in lines for word in ("--param", line)]
    command = ["fit", "old.moments", "--force", "-d", "2", "-o", "out", "--criterion", criterion]
    status, output = run([*command, *parameters])
    assert status in (0, 2), (parameters, output)
    if status == 0:
        model = FairSubspace.load(folder / "out")
        assert verify(model, moments()).holds


def test_lines_above_the_header_are_skipped_and_their_number_is_advised(run, tmp_path):
    path = write_file(tmp_path, "People of the town\n\n" + text())
    refusal = run(*arguments(path, []), status=2, out=None, err="--skip-rows 2")
    assert "header of 1 cell" in refusal.err
    assert_pca_error(run(*arguments(path, ["--skip-rows", 2]), "--json").facts, FEATURE_TABLE)


def test_excel_files_are_read(run, tmp_path):
    pytest.importorskip("openpyxl")
    path = tmp_path / "rows.xlsx"
    CLEAN.to_excel(path, index=False, startrow=2)
    assert_pca_error(run(*arguments(path, ["--skip-rows", 2]), "--json").facts, FEATURE_TABLE)
