"""Mutants of one file: what is changed, where, and the text with that change."""

import ast
import copy
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

_COMPARISONS = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_OPERATORS = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}


@dataclass(frozen=True)
class Mutant:
    """One change of one file.

    Attributes
    ----------
    path : str
        Of the file, below src.
    line : int
        Where the change begins.
    inside : str
        The function that it is in, or what stands for the module.
    around : range
        The lines of that function, or of the file.
    before, after : str
        The lines that are changed, without and with the change.
    text : str
        The whole file with the change.
    earlier : int
        How many mutants of the file that come before it read the same, but are elsewhere.
    """

    path: str
    line: int
    inside: str
    around: range
    before: str
    after: str
    text: str
    earlier: int = 0

    @property
    def key(self) -> str:
        """What it is called in the list of equivalent mutants."""
        which = f"  [{self.earlier + 1}]" if self.earlier else ""
        return f"{self.path}:{self.inside}: {self.before} => {self.after}{which}"


def mutants_of(path: str, text: str) -> list[Mutant]:
    """Every mutant of a file, in the order of its lines."""
    lines = text.encode().splitlines(keepends=True)
    found = []
    for place in _places(ast.parse(text), _Place("module", range(1, len(lines) + 1))):
        node = place.node
        changed_lines = b"".join(lines[node.lineno - 1 : node.end_lineno])
        start = node.col_offset
        stop = len(changed_lines) - len(lines[node.end_lineno - 1]) + node.end_col_offset
        for changed in _changes(node):
            after = ast.unparse(ast.fix_missing_locations(changed))
            # In brackets, an expression keeps its place among its neighbours.
            new = f"({after})" if isinstance(node, ast.expr) else after
            new_lines = changed_lines[:start] + new.encode() + changed_lines[stop:]
            mutated = [*lines[: node.lineno - 1], new_lines, *lines[node.end_lineno :]]
            found.append(
                Mutant(
                    path,
                    node.lineno,
                    place.inside,
                    place.around,
                    " ".join(changed_lines.decode().split()),
                    " ".join(new_lines.decode().split()),
                    b"".join(mutated).decode(),
                )
            )
    same: Counter[str] = Counter()
    numbered = []
    for mutant in filter(_compiles, found):
        numbered.append(replace(mutant, earlier=same[mutant.key]))
        same[mutant.key] += 1
    return numbered


@dataclass(frozen=True)
class _Place:
    """A node that may be changed, and the function that it is in."""

    inside: str
    around: range
    node: Any = None


def _places(node: ast.AST, place: _Place) -> Iterator[_Place]:
    """Nodes that may be changed. Types, decorators, messages and assertions are left alone."""
    if isinstance(node, ast.Assert | ast.Raise | ast.JoinedStr | ast.Import | ast.ImportFrom):
        return
    # Of zip, which asserts that lengths are the same.
    if isinstance(node, ast.keyword) and node.arg == "strict":
        return
    if isinstance(node, ast.expr | ast.stmt):
        yield replace(place, node=node)
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        inside = node.name if place.inside == "module" else f"{place.inside}.{node.name}"
        place = _Place(inside, range(node.lineno, node.end_lineno + 1))
    left_alone = {"annotation", "returns", "decorator_list", "type_params", "bases"}
    for name, value in ast.iter_fields(node):
        if name in left_alone:
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _places(child, place)


def _changes(node: ast.AST) -> Iterator[ast.AST]:
    """The same node with one change each."""
    changed = copy.deepcopy(node)
    if isinstance(changed, ast.Compare) and type(changed.ops[0]) in _COMPARISONS:
        changed.ops[0] = _COMPARISONS[type(changed.ops[0])]()
        yield changed
    elif isinstance(changed, ast.BinOp | ast.BoolOp | ast.AugAssign):
        if type(changed.op) in _OPERATORS:
            changed.op = _OPERATORS[type(changed.op)]()
            yield changed
    elif isinstance(changed, ast.UnaryOp) and isinstance(changed.op, ast.Not | ast.USub):
        yield changed.operand
    elif isinstance(changed, ast.IfExp):
        changed.body, changed.orelse = changed.orelse, changed.body
        yield changed
    elif isinstance(changed, ast.Constant):
        yield from _other_constants(changed)
    elif isinstance(changed, ast.Expr) and isinstance(changed.value, ast.Call):
        yield ast.Pass()


def _other_constants(node: ast.Constant) -> Iterator[ast.AST]:
    value = node.value
    if isinstance(value, bool):
        yield ast.Constant(not value)
    elif isinstance(value, int):
        yield ast.Constant(value + 1)
    elif isinstance(value, float):
        yield ast.Constant(2 * value if value else 1.0)


def _compiles(mutant: Mutant) -> bool:
    try:
        compile(mutant.text, "a mutant", "exec")
    except (SyntaxError, ValueError):
        return False
    return True
