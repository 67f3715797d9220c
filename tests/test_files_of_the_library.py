"""No two files of the library import each other."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import fairspan

ROOT = Path(fairspan.__file__).parent


@pytest.mark.slow
def test_no_files_import_each_other():
    assert [" <-> ".join(circle) for circle in _find_cycles(_imports(ROOT))] == []


def test_circles_are_found(tmp_path):
    (tmp_path / "low.py").write_text("def f():\n    from fairspan.middle import g\n")
    (tmp_path / "middle.py").write_text("from fairspan import high\n")
    (tmp_path / "high.py").write_text("from fairspan.low import f\n")
    (tmp_path / "typed.py").write_text(
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from fairspan import named\n"
    )
    (tmp_path / "named.py").write_text("import fairspan.typed\n")
    assert _find_cycles(_imports(tmp_path)) == [
        ["fairspan.high", "fairspan.low", "fairspan.middle"],
        ["fairspan.named", "fairspan.typed"],
    ]


def _imports(root: Path) -> dict[str, set[str]]:
    """Return the modules that each module imports, by full name."""
    trees = {_name(path, root): path for path in sorted(root.rglob("*.py"))}
    graph = {}
    for name, path in trees.items():
        package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        names = _imported(ast.parse(path.read_text()), package)
        graph[name] = {max(_library_modules(module, trees), default="") for module in names} - {
            "",
            name,
        }
    return graph


def _name(path: Path, root: Path) -> str:
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(("fairspan", *(part for part in parts if part != "__init__")))


def _library_modules(imported: str, modules: dict[str, Path]) -> list[str]:
    """Return the module and its packages that are files of the library."""
    parts = imported.split(".")
    every = [".".join(parts[:end]) for end in range(2, len(parts) + 1)]
    return [name for name in every if name in modules]


def _imported(tree: ast.Module, package: str) -> set[str]:
    """Return the names that a module imports, also inside functions and for type checkers alone."""
    names = set()
    for node in _statements(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        if isinstance(node, ast.ImportFrom):
            start = package.split(".")[: len(package.split(".")) + 1 - node.level]
            parts = [*(start if node.level else []), *([node.module] if node.module else [])]
            names |= {f"{'.'.join(parts)}.{alias.name}" for alias in node.names}
    return names


def _statements(block: ast.AST) -> Iterator[ast.AST]:
    """Yield the statements inside a module or statement; expressions have no imports."""
    for name in ("body", "orelse", "finalbody", "handlers", "cases"):
        for statement in getattr(block, name, ()):
            yield statement
            yield from _statements(statement)


def _find_cycles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Return cycles: sets of modules that import each other, directly or not."""
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
