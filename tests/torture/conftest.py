"""How many examples are tried: few by default, all with FAIRSPAN_TORTURE=1 (./run long --torture).

Also the few take long.
"""

from pathlib import Path

import pytest

from case_selection import ALL_CASES

HERE = Path(__file__).parent


def pytest_ignore_collect(config):
    """Import nothing of this folder where long tests are deselected: all of these are long."""
    return True if "not long" in config.option.markexpr else None


def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.long)
            item.add_marker(pytest.mark.sweep)


@pytest.fixture
def how_many():
    """Of two numbers of examples, the first for ./run long, the second for ./run long --torture."""
    return lambda few, many: many if ALL_CASES else few


def pytest_terminal_summary(terminalreporter):
    if not ALL_CASES:
        return
    found = [
        value
        for reports in terminalreporter.stats.values()
        for report in reports
        if getattr(report, "when", None) == "call"
        for name, value in report.user_properties
        if name == "torture"
    ]
    if not found:
        return
    terminalreporter.section("examples tried")
    for facts in sorted(found, key=lambda each: each["name"]):
        outcomes = ", ".join(f"{count} {name}" for name, count in sorted(facts["outcomes"].items()))
        terminalreporter.write_line(f"{facts['name']}: {facts['examples']}: {outcomes}")
    total = sum(facts["examples"] for facts in found)
    wrong = sum(facts["outcomes"].get("wrong", 0) for facts in found)
    terminalreporter.write_line(f"{total} examples in all, {wrong} of them wrong")
    worst: dict[str, float] = {}
    for facts in found:
        for judge, amount in facts["worst"].items():
            worst[judge] = max(worst.get(judge, 0.0), amount)
    for judge, amount in sorted(worst.items()):
        terminalreporter.write_line(f"worst disagreement with {judge}: {amount:.1e}")
