"""Running commands and reading what they print, and small tables to run them on."""

import json
import subprocess
import sys
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest

from fairspan import cli

# Commands to be spoilt in one place; words in braces stand for paths.
FIT = ("fit", "{data}", "--group", "age", "-d", "2", "-o", "{out}")
AUDIT = ("audit", "{data}", "--group", "age")
MOMENTS = ("moments", "{data}", "--group", "age", "-o", "{out}")
REPORT = ("report", "{data}", "--group", "age", "-d", "2", "-o", "{out}")
TRANSFORM = ("transform", "{model}", "{data}", "-o", "{out}")

# A program that runs a command whose files may not grow beyond so many bytes.
LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), int(sys.argv[1])))
from fairspan.cli import main
main(sys.argv[2:])
"""


@contextmanager
def limited_files(n_bytes: int) -> Iterator[None]:
    """Limit the size in bytes of files that this process writes, as on a full disk."""
    import resource  # which only POSIX has

    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def replace_value(command: Sequence[str], **parts: object) -> tuple[Any, ...]:
    """The command with other values in the places of some of its words."""
    return tuple(parts.get(word.strip("{}"), word) for word in command)


# The JSON Schema that ships with the command line.
SCHEMA: dict[str, Any] = json.loads((files("fairspan.cli") / "schema.json").read_text("utf-8"))


@cache
def validator(name: str) -> Any:
    """A JSON Schema validator of one of the definitions."""
    import jsonschema

    schema = {"$ref": f"#/$defs/{name}", "$defs": SCHEMA["$defs"]}
    return jsonschema.Draft202012Validator(schema)


# Keys whose values the schema lists; of other values it knows the type alone.
LISTED = {"center", "code", "kind", "severity", "state", "status"}
_conforming: set[Any] = set()


def structure(value: Any, key: str | None = None) -> Any:
    """Return the parts of a value that the schema checks: keys, types, bounds and listed words.

    A quarter of the time of commands would be spent on validating what looks the same.
    """
    if isinstance(value, dict):
        return tuple((name, structure(item, name)) for name, item in value.items())
    if isinstance(value, list):
        return frozenset(structure(item, key) for item in value)
    if isinstance(value, int | float):
        return type(value), value < 0, value > 1
    return (key, value) if key in LISTED else type(value)


def check_printed(arguments: Sequence[str], status: int, out: str) -> None:
    """Validate the JSON output of a command by the schema of its results, or of errors."""
    # Of verify, 1 says that a certificate does not hold.
    if "--json" in arguments and status in (0, 1, 2, 3) and (status != 1 or out):
        suffix = "_by_dimension" if "--by-dimension" in arguments else ""
        if "--targets" in arguments:
            suffix = "_two_tables"
        name = "error" if status == 2 else f"{arguments[0]}{suffix}"
        record = json.loads(out)
        if (shape := (name, structure(record))) not in _conforming:
            validator(name).validate(record)
            _conforming.add(shape)


class Outcome(NamedTuple):
    status: int
    out: str
    err: str

    @property
    def facts(self) -> dict[str, Any]:
        assert self.status == 0, self.err
        return json.loads(self.out, parse_constant=pytest.fail)  # NaN and Infinity are no JSON

    def check(
        self, status: int | None, out: str | list[str] | None, err: str | list[str] | None
    ) -> "Outcome":
        """Check status and streams: each contains the expected words, or is empty for None."""
        assert status in (None, self.status), self
        for expected, text in ((out, self.out), (err, self.err)):
            words = [expected] if isinstance(expected, str) else expected or []
            assert all(word in text for word in words), self
            assert expected is not None or text == "", self
        return self


Run = Callable[..., Outcome]


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Run:
    """Run a command in this process, and check its output against expected words."""

    def run_with(
        *arguments: object, status: int | None = None, out: Any = "", err: Any = ""
    ) -> Outcome:
        capfd.readouterr()
        words = [str(argument) for argument in arguments]
        outcome = Outcome(cli.run(words), *capfd.readouterr())
        check_printed(words, outcome.status, outcome.out)
        return outcome.check(status, out, err)

    return run_with


@pytest.fixture
def installed(tmp_path: Path) -> Run:
    """Run the installed command, or a Python program with code=, in a new process."""

    def run_with(
        *arguments: object,
        code: str | None = None,
        status: int | None = None,
        out: Any = "",
        err: Any = "",
        **keywords: Any,
    ) -> Outcome:
        program = [sys.executable, "-c", code]
        if code is None:
            program = [str(Path(sys.executable).with_name("fairspan"))]
        completed = subprocess.run(
            [*program, *map(str, arguments)],
            capture_output=True,
            cwd=tmp_path,
            **{"encoding": "utf-8", "timeout": 60, **keywords},
        )
        if keywords.get("encoding", "utf-8") is not None:
            check_printed(
                [str(argument) for argument in arguments], completed.returncode, completed.stdout
            )
        return Outcome(completed.returncode, completed.stdout, completed.stderr).check(
            status, out, err
        )

    return run_with


def terminal_width(line: str) -> int:
    """Return the columns that a line takes: two for wide characters, none for marks."""
    characters = [
        character for character in line if unicodedata.category(character) not in ("Mn", "Me", "Cf")
    ]
    return sum(
        2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in characters
    )


FEATURES = ["pay_1", "pay_2", "limit", "height", "weight"]


@cache
def _table() -> pd.DataFrame:
    rng = np.random.default_rng(7)
    n = 240
    is_old = rng.random(n) < 0.35
    spread = np.where(is_old[:, None], [0.5, 3.0, 1.0, 2.0, 0.3], [3.0, 1.0, 2.0, 0.5, 0.4])
    X = rng.normal(size=(n, 5)) * spread + is_old[:, None] * [1.0, 0.0, -2.0, 0.5, 0.0]
    frame = pd.DataFrame(X, columns=FEATURES)
    frame["limit"] = (10 * frame["limit"]).round().astype(int)
    frame.insert(2, "age", np.where(is_old, "old", "young"))
    frame["sex"] = rng.choice(["f", "m"], n)
    return frame


def make_table() -> pd.DataFrame:
    """Two groups of different spread and mean: 5 features, an integer column among them."""
    return _table().copy()


@cache
def _csv_of_table() -> str:
    return _table().drop(columns="sex").to_csv(index=False)


@pytest.fixture
def table() -> pd.DataFrame:
    return make_table()


@pytest.fixture
def features() -> list[str]:
    return list(FEATURES)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """The table without its second group column, as CSV."""
    path = tmp_path / "data.csv"
    path.write_text(_csv_of_table())
    return path


@pytest.fixture(scope="session")
def model_content(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    data, path = (tmp_path_factory.mktemp("fitted") / name for name in ("t.parquet", "m"))
    make_table().to_parquet(data)
    arguments = ["--group", "age", "--exclude", "sex", "-d", "2", "--folds", "none"]
    assert cli.run(["fit", str(data), *arguments, "-o", str(path)]) == 0
    return path.read_bytes()


@pytest.fixture
def model(model_content: bytes, tmp_path: Path) -> Path:
    """A model of two dimensions, fitted on the table."""
    path = tmp_path / "fair.model"
    path.write_bytes(model_content)
    return path


@pytest.fixture
def assert_refused(run: Run, data: Path, model: Path, tmp_path: Path) -> Callable[..., str]:
    """Run a command and check that it fails as it should; return its message.

    The status is 2, one message has the words of `expected_text`, standard output is empty, and no
    file has changed, even if the output exists already.
    """
    (tmp_path / "results").mkdir()

    def assert_refused_with(
        *command: object,
        expected_text: str | Sequence[str] = (),
        out: str | None = None,
        **places: object,
    ) -> str:
        # Results that are no table are not named as one.
        usual = {"transform": "out.csv", "report": "out.html"}.get(str(command[0]), "out")
        path = tmp_path / "results" / (usual if out is None else out)
        places = {"data": data, "model": model, "out": path, **places}
        words = [str(word).format(**places) for word in command]
        message = get_refusal(words)
        assert all(
            part in message
            for part in ([expected_text] if isinstance(expected_text, str) else expected_text)
        ), message
        if str(path) in words and path.parent.is_dir():
            path.write_bytes(b"an earlier result")
            options = ["--force"] if command[0] == "fit" else []
            assert get_refusal([*words, *options]) == message
            path.unlink()
        return message

    def get_refusal(words: list[str]) -> str:
        original_contents = contents(tmp_path)
        result = run(*words)
        assert result.status == 2, result
        assert contents(tmp_path) == original_contents
        *usage, message = result.err.splitlines()
        if "--json" in words:
            error = json.loads(result.out)["error"]
            assert error["exit_status"] == 2
            assert error["message"] in message.replace("\\n", "\n")
        else:
            assert result.out == ""
        kind, hints = ("Error: ", 3) if usage else ("fairspan: error: ", 0)
        assert message.startswith(kind)
        assert len(usage) == hints, result.err
        return message

    return assert_refused_with


def contents(folder: Path) -> dict[Path, bytes | bool]:
    return {path: path.is_file() and path.read_bytes() for path in sorted(folder.rglob("*"))}


COLUMNS = ["x", "y", "z"]


def make_rows(seed: int, n: int) -> pd.DataFrame:
    """Rows with two group columns and weights; small whole numbers in the labels."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.normal(size=(n, 3)) * [1, 3, 0.1] + [100, 0, 5], columns=COLUMNS)
    groups = {"sex": rng.choice(["f", "m"], n), "age": rng.choice([20, 40], n)}
    return frame.assign(**groups, w=rng.uniform(0.5, 2, n))


def write_folder(folder: Path, frame: pd.DataFrame, n_files: int, row_group_size: int) -> Path:
    """Write consecutive rows as Parquet files of many row groups."""
    folder.mkdir()
    for number, rows in enumerate(np.array_split(np.arange(len(frame)), n_files)):
        frame.iloc[rows].to_parquet(
            folder / f"{number:02}.parquet", row_group_size=row_group_size, index=False
        )
    return folder
