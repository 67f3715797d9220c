"""Small faults of the source: find them, draw some, and plant those in a copy."""

import ast
import copy
import hashlib
import shutil
from collections import Counter, defaultdict
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2] / "src"
MIN_PER_ROOM = 4
# Rooms whose constants place things on a page and change no result.
LAYOUT_ROOMS = {"displays", "report"}
_OPERATORS = {
    ast.Lt: ("bound", ast.LtE), ast.LtE: ("bound", ast.Lt),
    ast.Gt: ("bound", ast.GtE), ast.GtE: ("bound", ast.Gt),
    ast.Eq: ("comparison", ast.NotEq), ast.NotEq: ("comparison", ast.Eq),
    ast.Is: ("comparison", ast.IsNot), ast.IsNot: ("comparison", ast.Is),
    ast.In: ("comparison", ast.NotIn), ast.NotIn: ("comparison", ast.In),  # codespell:ignore notin
    ast.Add: ("operator", ast.Sub), ast.Sub: ("operator", ast.Add),
    ast.Mult: ("operator", ast.Div), ast.Div: ("operator", ast.Mult),
    ast.And: ("and/or", ast.Or), ast.Or: ("and/or", ast.And),
}  # fmt: skip
# The first two arguments may be swapped without effect, or are of types that make it an error.
_NOT_SWAPPED = {
    "allclose", "array_equal", "cast", "getattr", "hasattr", "hypot", "isinstance", "issubclass",
    "logical_and", "logical_or", "max", "maximum", "min", "minimum", "setattr",
}  # fmt: skip
_FUNCTION = ast.FunctionDef | ast.AsyncFunctionDef


def make_fault(node):
    """Return the kind of a fault, the field of the node or None, and what replaces it; or None."""
    one = ast.Constant(1)
    match node:
        case ast.Compare(left, [op], operands):
            kind, other = _OPERATORS[type(op)]
            return kind, None, ast.Compare(left, [other()], operands)
        case ast.BinOp(left, op, right) if type(op) in _OPERATORS and not _has_text(node):
            kind, other = _OPERATORS[type(op)]
            return kind, None, ast.BinOp(left, other(), right)
        case ast.BoolOp(op, operands):
            kind, other = _OPERATORS[type(op)]
            return kind, None, ast.BoolOp(other(), operands)
        case ast.Constant(bool(value)):
            return "flag", None, ast.Constant(not value)
        case ast.Constant(int(value)):
            return "constant", None, ast.Constant(value + 1)
        case ast.Constant(float(value)):
            return "constant", None, ast.Constant(2 * value if value else 1.0)
        case ast.If(test) | ast.While(test) | ast.IfExp(test):
            return "branch", "test", ast.UnaryOp(ast.Not(), test)
        case ast.Slice(upper=ast.expr() as upper):
            return "off by one", "upper", ast.BinOp(upper, ast.Add(), one)
        case ast.Call(ast.Name("range") as name, [*first, last]):
            shorter = [*first, ast.BinOp(last, ast.Sub(), one)]
            return "off by one", None, ast.Call(name, shorter, [])
        case ast.Call(ast.Name(name) | ast.Attribute(_, name), [first, second, *rest]):
            if name not in _NOT_SWAPPED and not isinstance(first, ast.Starred):
                return "swap", None, ast.Call(node.func, [second, first, *rest], node.keywords)
        case ast.Raise():
            return "check", None, ast.Pass()
        case ast.Expr(ast.Call()):
            return "call", None, ast.Pass()
    return None


def _has_text(node):
    constants = [part.value for part in ast.walk(node) if isinstance(part, ast.Constant)]
    return any(isinstance(constant, str) for constant in constants)


def _nodes_without_faults(tree):
    """Yield the nodes without faults: types, messages, decorators, and code that never runs."""
    for node in ast.walk(tree):
        match node:
            case ast.JoinedStr() | ast.pattern():
                yield node
            case ast.Call(ast.Name("warn")) | ast.Subscript(ast.Name("Literal" | "Annotated")):
                yield node
            case ast.If(ast.Name("TYPE_CHECKING")) | ast.FunctionDef("__repr__" | "__str__"):
                yield node
        for field in ("annotation", "returns", "exc"):
            yield getattr(node, field, None)
        for decorator in getattr(node, "decorator_list", []):
            yield (
                node
                if isinstance(decorator, ast.Name) and decorator.id == "overload"
                else decorator
            )


class Planter(ast.NodeTransformer):
    """Find the faults of a file, and plant some of them in its `tree`.

    A fault planted at ``a < b`` reads ``(a <= b if reach("1f0c9a2e") else a < b)``. It is named
    after its function, kind and text, and keeps the name where code moves.
    """

    def __init__(self, path, planted=()):
        self.file = path.relative_to(SOURCE).as_posix()
        self.faults = []
        self._planted = {fault["fault"] for fault in planted}
        self._at_import = [fault for fault in planted if fault["at_import"]]
        self._scope = []  # the names of the classes and functions around a node
        self._functions = []  # the functions around a node; none where it is evaluated at import
        self._defined = ""  # the name that a statement at import defines
        self._texts = Counter()
        tree = ast.parse(path.read_text())
        self._left_out = {id(node) for node in _nodes_without_faults(tree)}
        self.n_statements = sum(isinstance(node, ast.stmt) for node in ast.walk(tree))
        self.tree = self.visit(tree)

    def visit(self, node):
        if id(node) in self._left_out:
            return node
        if not self._functions and isinstance(node, ast.stmt):
            target = getattr(node, "targets", [getattr(node, "target", None)])[0]
            self._defined = getattr(node, "name", getattr(target, "id", ""))
        fault = copy.deepcopy(make_fault(node))
        name = self._note(node, *fault) if fault else None
        node = super().visit(node)
        if name not in self._planted:
            return node
        _, field, replacement = fault
        if isinstance(replacement, ast.Pass):
            return ast.If(_switch(name), [replacement], [node])
        if field is None:
            return ast.IfExp(_switch(name), replacement, node)
        setattr(node, field, ast.IfExp(_switch(name), replacement, getattr(node, field)))
        return node

    def visit_arguments(self, node):
        if not (self._functions and self._functions[-1].args is node):
            return self.generic_visit(node)
        # Defaults are evaluated where the function is defined.
        function = self._functions.pop()
        self.generic_visit(node)
        self._functions.append(function)
        return node

    def visit_ClassDef(self, node):
        self._scope.append(node.name)
        self.generic_visit(node)
        self._scope.pop()
        return node

    def visit_FunctionDef(self, node):
        mentioned = {getattr(part, "id", getattr(part, "attr", "")) for part in ast.walk(node)}
        self._functions.append(node)
        self.visit_ClassDef(node)
        self._functions.pop()
        for fault in self._at_import:
            # What is evaluated at import reaches the functions that mention it.
            if fault["at_import"] in {node.name, *mentioned}:
                has_docstring = ast.get_docstring(node) is not None
                node.body.insert(has_docstring, ast.Expr(_switch(fault["fault"])))
        return node

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815

    def _note(self, node, kind, field, replacement):
        """Record a fault, and return its name."""
        before = ast.unparse(getattr(node, field) if field else node)
        function = ".".join(self._scope) or self._defined
        self._texts[function, kind, before] += 1
        key = f"{function}|{kind}|{before}|{self._texts[function, kind, before]}"
        room = self.file.split("/")[1]
        fault = {
            "fault": hashlib.sha1(key.encode()).hexdigest()[:8],
            "room": "top" if room.endswith(".py") else room,
            "file": self.file,
            "line": node.lineno,
            "function": function,
            "kind": kind,
            "before": before,
            "after": ast.unparse(replacement),
            "at_import": "" if self._functions else self._defined,
            "layout": room in LAYOUT_ROOMS and kind == "constant",
        }
        self.faults.append(fault)
        return fault["fault"]


def _switch(name):
    return ast.Call(ast.Name("_reach"), [ast.Constant(name)], [])


def find():
    """Return the faults of the source whose names are unique, and the statements by room."""
    n_statements = Counter()
    faults = []
    for path in sorted(SOURCE.rglob("*.py")):
        planter = Planter(path)
        faults += planter.faults
        if planter.faults:
            n_statements[planter.faults[0]["room"]] += planter.n_statements
    names = Counter(fault["fault"] for fault in faults)
    return [fault for fault in faults if names[fault["fault"]] == 1], n_statements


def draw(faults, n_statements, seed, n):
    """Return n faults: of each room in proportion to its statements, of each kind in turn.

    Faults are ordered by a hash of their names, so most stay drawn where code moves.
    """
    shares = {room: n * count / n_statements.total() for room, count in n_statements.items()}
    counts = {room: max(MIN_PER_ROOM, round(share)) for room, share in shares.items()}
    while (excess := sum(counts.values()) - n) != 0:
        step = -1 if excess > 0 else 1
        adjustable = [room for room in counts if counts[room] + step >= MIN_PER_ROOM]
        counts[max(adjustable, key=lambda room: step * (shares[room] - counts[room]))] += step
    orders = {fault["fault"]: _order(seed, fault["fault"]) for fault in faults}
    turns = defaultdict(list)
    n_of_kind = Counter()
    for fault in sorted(faults, key=lambda fault: orders[fault["fault"]]):
        room, kind = fault["room"], fault["kind"]
        n_of_kind[room, kind] += 1
        turns[room].append((n_of_kind[room, kind], orders[fault["fault"]], fault))
    return [fault for room in sorted(turns) for *_, fault in sorted(turns[room])[: counts[room]]]


def _order(seed, name):
    return hashlib.sha1(f"{seed} {name}".encode()).hexdigest()


def plant(selection, copy):
    """Write a copy of the source with all chosen faults planted, each behind its switch."""
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(SOURCE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(Path(__file__).with_name("switch.py"), copy / "_fault_switch.py")
    at_import = [fault for fault in selection if fault["at_import"]]
    for path in sorted(SOURCE.rglob("*.py")):
        file = path.relative_to(SOURCE).as_posix()
        planted = [fault for fault in selection if fault["file"] == file]
        tree = Planter(path, [*planted, *at_import]).tree
        # After the docstring and imports from __future__.
        first = sum(
            isinstance(getattr(statement, "value", None), ast.Constant)
            or getattr(statement, "module", None) == "__future__"
            for statement in tree.body[:2]
        )
        tree.body.insert(first, ast.parse("from _fault_switch import reach as _reach").body[0])
        (copy / file).write_text(ast.unparse(ast.fix_missing_locations(tree)))
