"""Files of the library: how many a fit enters, and that no two import each other."""

import ast
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import numpy as np
import pytest
import scipy.sparse

import fairspan
from fairspan import FairPCA
from fairspan.cli import run
from fairspan.registry import check_flag
from sweeps import mostly_long

ROOT = Path(fairspan.__file__).parent
MOST_OF_TWO_GROUPS, MOST, MOST_OF_A_REPORT = 25, 30, 75


def table(n_rows: int, n_features: int) -> np.ndarray:
    """Rows whose features differ more and more in size."""
    return np.random.default_rng(0).standard_normal((n_rows, n_features)) / np.arange(
        1, n_features + 1
    )


def sparse_rows() -> scipy.sparse.csr_array:
    return scipy.sparse.csr_array(scipy.sparse.random(300, 2000, 0.02, random_state=0))


FITS = {
    "two groups": (table(3000, 22), 2, MOST_OF_TWO_GROUPS),
    "six groups": (table(3000, 22), 6, MOST),
    "more features than rows": (table(60, 700), 2, MOST),
    "sparse rows": (sparse_rows(), 2, MOST),
    "many features": (table(2000, 600), 2, MOST),
}


@pytest.mark.parametrize("case", FITS)
def test_a_fit_enters_few_files(case):
    rows, n_groups, most = FITS[case]
    groups = np.arange(rows.shape[0]) % n_groups
    files = entered(lambda: FairPCA(2).fit(rows, sensitive_features=groups))
    assert len(files) <= most, files


@pytest.mark.parametrize("n_groups", mostly_long([2, 5], 2))
def test_a_report_enters_few_files(n_groups, tmp_path, capsys):
    source, page = tmp_path / "rows.csv", tmp_path / "page.html"
    lines = [
        f"g{i % n_groups},{x:.3f},{y:.3f},{z:.3f}" for i, (x, y, z) in enumerate(table(200, 3))
    ]
    source.write_text("\n".join(["group,x,y,z", *lines]), encoding="utf-8")
    command = ["report", str(source), "--group", "group", "-d", "1", "-o", str(page)]
    files = entered(lambda: run(command))
    assert page.exists()
    assert len(files) <= MOST_OF_A_REPORT, files


def test_entered_files_are_counted():
    assert entered(lambda: check_flag("scale", True)) == ["registry.py"]
    assert entered(lambda: None) == []


def entered(call: Callable[[], object]) -> list[str]:
    """The files of the library with a function that a call enters, beside what imports run."""
    call()  # What is imported on the way is not run again.
    files: set[str] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        files.add(frame.f_code.co_filename)  # of calls alone, as lines are not asked for

    before = sys.gettrace()
    sys.settrace(note)
    try:
        call()
    finally:
        sys.settrace(before)
    own = (Path(name) for name in files if name.startswith(str(ROOT)))
    return sorted(path.relative_to(ROOT).as_posix() for path in own)


def test_no_files_import_each_other():
    assert [" <-> ".join(circle) for circle in _circles(_imports(ROOT))] == []


def test_circles_are_found(tmp_path):
    (tmp_path / "low.py").write_text("def f():\n    from fairspan.middle import g\n")
    (tmp_path / "middle.py").write_text("from fairspan import high\n")
    (tmp_path / "high.py").write_text("from fairspan.low import f\n")
    (tmp_path / "typed.py").write_text(
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from fairspan import named\n"
    )
    (tmp_path / "named.py").write_text("import fairspan.typed\n")
    assert _circles(_imports(tmp_path)) == [
        ["fairspan.high", "fairspan.low", "fairspan.middle"],
        ["fairspan.named", "fairspan.typed"],
    ]


def _imports(root: Path) -> dict[str, set[str]]:
    """The modules that each module imports, by full name."""
    trees = {_name(path, root): path for path in sorted(root.rglob("*.py"))}
    graph = {}
    for name, path in trees.items():
        package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        found = _imported(ast.parse(path.read_text()), package)
        graph[name] = {max(_known(each, trees), default="") for each in found} - {"", name}
    return graph


def _name(path: Path, root: Path) -> str:
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(("fairspan", *(part for part in parts if part != "__init__")))


def _known(imported: str, modules: dict[str, Path]) -> list[str]:
    """The module itself and its packages, as far as they are files of the library."""
    parts = imported.split(".")
    every = [".".join(parts[:end]) for end in range(2, len(parts) + 1)]
    return [name for name in every if name in modules]


def _imported(node: ast.AST, package: str) -> set[str]:
    """What a piece of code imports, also inside functions and for type checkers alone."""
    if isinstance(node, ast.Import):
        return {alias.name for alias in node.names}
    if isinstance(node, ast.ImportFrom):
        start = package.split(".")[: len(package.split(".")) + 1 - node.level]
        module = ".".join([*(start if node.level else []), *([node.module] if node.module else [])])
        return {f"{module}.{alias.name}" for alias in node.names}
    return {name for each in ast.iter_child_nodes(node) for name in _imported(each, package)}


def _circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Sets of modules, each of which imports all others of its set, directly or not."""
    reached = {name: _reached(graph, name) for name in graph}
    together = {
        tuple(sorted(other for other in reached[name] if name in reached[other]))
        for name in graph
        if name in reached[name]
    }
    return sorted(map(list, together))


def _reached(graph: dict[str, set[str]], start: str) -> set[str]:
    reached: set[str] = set()
    waiting = [start]
    while waiting:
        for name in graph[waiting.pop()] - reached:
            reached.add(name)
            waiting.append(name)
    return reached
