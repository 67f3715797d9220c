"""One statement does one thing, and a docstring summary is an imperative or a noun phrase."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = sorted((ROOT / "src").rglob("*.py"))
# Words that begin a relative clause or a bare genitive, which no summary is.
_NO_SUMMARY = re.compile(r"(What|Of|By|That|With)\b")


def packed_assignments(tree):
    """Return the lines of assignments of several values at once, swaps among them."""
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Tuple)
        and isinstance(node.value, ast.Tuple)
    ]


def chained_assignments(tree):
    """Return the lines of assignments of one value to several names."""
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and len(node.targets) > 1
    ]


def nested_conditionals(tree):
    """Return the lines of conditional expressions that contain another."""
    conditionals = [node for node in ast.walk(tree) if isinstance(node, ast.IfExp)]
    return [
        node.lineno
        for node in conditionals
        if any(isinstance(part, ast.IfExp) for part in ast.walk(node) if part is not node)
    ]


def bad_summaries(tree):
    """Return the lines of definitions whose docstring summary is neither of both."""
    kinds = ast.FunctionDef | ast.ClassDef | ast.Module
    return [
        getattr(node, "lineno", 1)
        for node in ast.walk(tree)
        if isinstance(node, kinds) and _NO_SUMMARY.match(ast.get_docstring(node) or "")
    ]


RULES = {
    rule.__name__: rule
    for rule in (packed_assignments, chained_assignments, nested_conditionals, bad_summaries)
}


@pytest.mark.parametrize("rule", RULES)
def test_no_statement_and_no_summary_breaks_the_rule(rule):
    violations = {
        str(path.relative_to(ROOT)): lines
        for path in SOURCE
        if (lines := RULES[rule](ast.parse(path.read_text("utf-8"))))
    }
    assert not violations


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ("packed_assignments", "a, b = f(x), g(y)"),
        ("packed_assignments", "a, b = b, a"),
        ("chained_assignments", "a = b = 0"),
        ("nested_conditionals", "a = (b if c else d) if e else f"),
        ("bad_summaries", 'def f():\n    """What it costs."""'),
    ],
)
def test_a_breach_is_found(rule, text):
    assert RULES[rule](ast.parse(text))
    assert not RULES[rule](ast.parse("a, b = f(x)"))
