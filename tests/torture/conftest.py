"""Number of examples: few by default, all with FAIRSPAN_TORTURE=1 (./run long --torture).

Even the few are slow, so all tests here have the markers `long` and `sweep`.
"""

from pathlib import Path

import pytest

from case_selection import ALL_CASES

HERE = Path(__file__).parent


def pytest_ignore_collect(config):
    """Import nothing of this folder where long tests are deselected."""
    return True if "not long" in config.option.markexpr else None


def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.long)
            item.add_marker(pytest.mark.sweep)


@pytest.fixture
def choose_count():
    """Return a function for the number of examples: `few` for ./run long, `many` with --torture."""
    return lambda few, many: many if ALL_CASES else few


def pytest_terminal_summary(terminalreporter):
    if not ALL_CASES:
        return
    records = [
        value
        for reports in terminalreporter.stats.values()
        for report in reports
        if getattr(report, "when", None) == "call"
        for name, value in report.user_properties
        if name == "torture"
    ]
    if not records:
        return
    terminalreporter.section("examples tried")
    for facts in sorted(records, key=lambda record: record["name"]):
        outcomes = ", ".join(f"{count} {name}" for name, count in sorted(facts["outcomes"].items()))
        terminalreporter.write_line(f"{facts['name']}: {facts['examples']}: {outcomes}")
    total = sum(facts["examples"] for facts in records)
    wrong = sum(facts["outcomes"].get("wrong", 0) for facts in records)
    terminalreporter.write_line(f"{total} examples in all, {wrong} of them wrong")
    worst: dict[str, float] = {}
    for facts in records:
        for judge, amount in facts["worst"].items():
            worst[judge] = max(worst.get(judge, 0.0), amount)
    for judge, amount in sorted(worst.items()):
        terminalreporter.write_line(f"worst disagreement with {judge}: {amount:.1e}")
