"""Structure of the code: calls of a fit, an audit and a command, passes over a file, and sizes."""

import ast
import io
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType

import numpy as np
from sklearn.decomposition import PCA

import fairspan
from benchmarks.effort import Effort, SkippedError
from benchmarks.isolation import run_in_process
from benchmarks.measurement import format_table
from benchmarks.report import SectionContent
from fairspan.cli import run as run_command
from fairspan.typing import FloatArray, IndexArray

_N_ROWS = 400
_N_FEATURES = 8
# Rows of the CSV file whose passes are counted, so that reading it exceeds every fixed cost.
_FILE_ROWS = 40_000
_LIMIT_SECONDS = 120.0
_MAX_LINES = 60
_MAX_PARAMETERS = 8
_MAX_METHODS = 25
_MAX_FIELDS = 12

_SOURCE = Path(fairspan.__file__).parent


@dataclass(frozen=True)
class CallCount:
    """Python calls of functions of one package.

    Attributes
    ----------
    n_functions : int
        Number of different functions, without lambdas and comprehensions.
    n_calls : int
    """

    n_functions: int
    n_calls: int


def count_calls(package: str, function: Callable[[], object]) -> CallCount:
    """Count the calls of a package's functions while a function runs."""
    calls: Counter[tuple[str, int]] = Counter()

    def count(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event != "call" or f"/{package}/" not in code.co_filename:
            return
        if not code.co_name.startswith("<"):
            calls[code.co_filename, code.co_firstlineno] += 1

    sys.setprofile(count)
    try:
        function()
    finally:
        sys.setprofile(None)
    return CallCount(len(calls), calls.total())


def measure(effort: Effort) -> SectionContent:
    """Count calls, passes over a file, constants, and functions and classes above a size."""
    rows, labels = _make_rows(_N_ROWS)
    model = fairspan.FairPCA(2)
    runs: dict[str, tuple[str, Callable[[], object]]] = {
        "fit": ("fairspan", lambda: model.fit(rows, sensitive_features=labels)),
        "PCA of scikit-learn": ("sklearn", lambda: PCA(2).fit(rows)),
        "transform": ("fairspan", lambda: model.transform(rows)),
        "audit": ("fairspan", lambda: fairspan.audit(model, rows, labels)),
    }
    lines = []
    for name, (package, run) in runs.items():
        run()  # imports and caches
        count = count_calls(package, run)
        lines.append([name, str(count.n_functions), str(count.n_calls)])
    with TemporaryDirectory() as folder:
        path = Path(folder) / "rows.csv"
        _write_rows(path, _N_ROWS)
        command = ["audit", str(path), "--group", "group", "-d", "2"]
        _run_quietly(command)
        count = count_calls("fairspan", lambda: _run_quietly(command))
        lines.append(["fairspan audit", str(count.n_functions), str(count.n_calls)])
    calls = format_table(["of 400 x 8 numbers, two groups", "functions", "calls"], lines)
    passes = format_table(["command on a CSV file", "passes over the file"], _passes_of_commands())
    sizes = format_table(["in src", "number"], sizes_of_source(_SOURCE))
    return SectionContent("\n\n".join([calls, passes, sizes]))


def _make_rows(n_rows: int) -> tuple[FloatArray, IndexArray]:
    """Return rows of two groups that differ, and their labels, 0 or 1."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(n_rows, _N_FEATURES))
    labels = np.arange(n_rows) % 2
    rows[labels == 1] *= np.arange(1, _N_FEATURES + 1)
    return rows, labels


def _write_rows(path: Path, n_rows: int) -> None:
    rows, labels = _make_rows(n_rows)
    header = ",".join([*(f"x{j}" for j in range(_N_FEATURES)), "group"])
    names = np.where(labels == 1, "b", "a")
    lines = [
        ",".join([*map(repr, row), name]) for row, name in zip(rows.tolist(), names, strict=True)
    ]
    path.write_text("\n".join([header, *lines, ""]))


def _run_quietly(arguments: Sequence[str]) -> None:
    output = io.StringIO()
    with redirect_stdout(output), redirect_stderr(output):
        status = run_command(list(arguments))
    if status != 0:
        raise SkippedError(f"exit status {status}: {output.getvalue()}")


def _passes_of_commands() -> list[list[str]]:
    """Count how many times each command reads the bytes of its file."""
    lines = []
    with TemporaryDirectory() as folder:
        small = Path(folder) / "small.csv"
        large = Path(folder) / "large.csv"
        _write_rows(small, _FILE_ROWS)
        _write_rows(large, 2 * _FILE_ROWS)
        options = ["--group", "group", "-d", "2"]
        output = str(Path(folder) / "out")
        commands = {
            "fit": [*options, "-o", f"{output}.fair"],
            "audit": options,
            "report": [*options, "-o", f"{output}.html"],
        }
        for name, extra in commands.items():
            try:
                n_read = [
                    run_in_process(_LIMIT_SECONDS, bytes_read, [name, str(path), *extra])
                    for path in (small, large)
                ]
            except (SkippedError, FileNotFoundError) as error:
                lines.append([name, f"not counted: {error}"])
                continue
            # The difference of two files leaves out what the command reads besides its file.
            n_passes = (n_read[1] - n_read[0]) / (large.stat().st_size - small.stat().st_size)
            lines.append([name, f"{n_passes:.1f}"])
    return lines


def bytes_read(arguments: Sequence[str]) -> int:
    """Return the bytes that a command reads from files in this process, as Linux counts them."""
    before = _bytes_read_so_far()
    _run_quietly(arguments)
    return _bytes_read_so_far() - before


def _bytes_read_so_far() -> int:
    counters = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(counters["rchar"])


def sizes_of_source(folder: Path) -> list[list[str]]:
    """Count constants, functions, ... in the modules of a folder; return the lines of a table."""
    counts: Counter[str] = Counter()
    for path in sorted(folder.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        counts.update(_kinds_of_module(tree))
        for node in ast.walk(tree):
            counts.update(_kinds_of_node(node))
    return [[kind, str(counts[kind])] for kind in _KINDS]


_CONSTANTS = "numeric constants of modules"
_ANY = "`Any`"
_ISINSTANCE = "`isinstance`"
_FUNCTIONS = "functions"
_LONG_FUNCTIONS = f"functions of more than {_MAX_LINES} lines without the docstring"
_WIDE_FUNCTIONS = f"functions of more than {_MAX_PARAMETERS} parameters"
_LARGE_CLASSES = f"classes of more than {_MAX_METHODS} methods"
_WIDE_RECORDS = f"classes of more than {_MAX_FIELDS} fields"
_KINDS = (
    _CONSTANTS,
    _ANY,
    _ISINSTANCE,
    _FUNCTIONS,
    _LONG_FUNCTIONS,
    _WIDE_FUNCTIONS,
    _LARGE_CLASSES,
    _WIDE_RECORDS,
)


def _kinds_of_module(tree: ast.Module) -> Iterator[str]:
    """Yield one kind for each numeric constant of a module."""
    for statement in tree.body:
        if isinstance(statement, ast.Assign | ast.AnnAssign) and _is_numeric(statement.value):
            yield _CONSTANTS


def _is_numeric(value: ast.expr | None) -> bool:
    """Return whether an expression consists of numbers and operators alone."""
    if isinstance(value, ast.Constant):
        return isinstance(value.value, int | float) and not isinstance(value.value, bool)
    if isinstance(value, ast.UnaryOp):
        return _is_numeric(value.operand)
    if isinstance(value, ast.BinOp):
        return _is_numeric(value.left) and _is_numeric(value.right)
    return False


def _kinds_of_node(node: ast.AST) -> Iterator[str]:
    """Yield the kinds to which one node belongs."""
    match node:
        case ast.Name(id="Any"):
            yield _ANY
        case ast.Call(func=ast.Name(id="isinstance")):
            yield _ISINSTANCE
        case ast.FunctionDef():
            yield _FUNCTIONS
            if _n_lines(node) > _MAX_LINES:
                yield _LONG_FUNCTIONS
            if _n_parameters(node) > _MAX_PARAMETERS:
                yield _WIDE_FUNCTIONS
        case ast.ClassDef():
            if sum(isinstance(item, ast.FunctionDef) for item in node.body) > _MAX_METHODS:
                yield _LARGE_CLASSES
            if sum(isinstance(item, ast.AnnAssign) for item in node.body) > _MAX_FIELDS:
                yield _WIDE_RECORDS


def _n_lines(function: ast.FunctionDef) -> int:
    """Return the number of lines of a function without its docstring."""
    n_lines = (function.end_lineno or 0) - function.lineno + 1
    if ast.get_docstring(function) is None:
        return n_lines
    docstring = function.body[0]
    return n_lines - ((docstring.end_lineno or 0) - docstring.lineno + 1)


def _n_parameters(function: ast.FunctionDef) -> int:
    """Return the number of parameters of a function without `self` or `cls`."""
    arguments = function.args
    parameters = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
    names = [parameter.arg for parameter in parameters]
    return len(names) - (names[:1] in (["self"], ["cls"]))
