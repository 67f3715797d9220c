"""Figures as they were on 24 November 2026, so that a change of the code that moves them is seen.

They prove nothing of themselves: other tests compare with conic solvers, brute force and printed
values. Where a change is meant to move figures, run this file once with FAIRSPAN_WRITE_GOLDEN=1,
look at the difference, and say in CHANGELOG.md under "Numerical results changed" why they moved.

Objectives and bounds are compared to 1e-9, projectors to 1e-6. Where the same problem in rotated
coordinates, or solved to a smaller tolerance, had another answer already, the file notes by how
much ("spread"), and ten times that is allowed.
"""

import json
import os
import warnings
from functools import cache
from pathlib import Path

import pytest

import golden_cases
from case_selection import mark_most_long
from real_data import MORE_GROUPS, TWO_GROUPS

FILE = Path(__file__).with_name("golden_figures.json")
WRITES = bool(os.environ.get("FAIRSPAN_WRITE_GOLDEN"))
OF_A_FIT = ("objective", "lower_bound", "projector")


@cache
def known():
    return json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}


def expected_of(kind, name, figures, others=None):
    """What the file says; it is written first where that was asked for."""
    if WRITES:
        for key, found in (others or {}).items():
            note_spread(figures[key], found)
        known().setdefault(kind, {})[name] = figures
        lines = (
            f"{json.dumps(each)}: {{\n" + ",\n".join(
                f" {json.dumps(case)}: {json.dumps(value, sort_keys=True)}"
                for case, value in sorted(cases.items())
            ) + "\n}"
            for each, cases in sorted(known().items())
        )  # fmt: skip
        FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    return known()[kind][name]


def note_spread(figures, other):
    if "refused" in figures or "refused" in other or "objective" not in figures:
        return
    spread = {}
    for what, noise in zip(OF_A_FIT, (1e-11, 1e-11, 1e-8), strict=True):
        moved = abs(figures[what] - other[what])
        if moved > noise * max(1.0, abs(figures[what])):
            spread[what] = float(f"{moved:.1g}")
    if spread:
        figures["spread"] = spread


def assert_same_fits(found, expected):
    assert sorted(found) == sorted(expected)
    for key, before in expected.items():
        now = found[key]
        if "refused" in before or key == "moments":
            assert_same(now, before, key, 1e-9)
            continue
        assert now.get("status") == before["status"], (key, now)
        spread = before.get("spread", {})
        # A bound may lie anywhere within the tolerance, of nested components in each step.
        for what, exact in zip(OF_A_FIT, (1e-9, 5e-9, 1e-6), strict=True):
            allowed = exact * max(abs(before[what]), 1e-3) + 10 * spread.get(what, 0.0)
            assert abs(now[what] - before[what]) <= allowed, (key, what, now[what], before[what])
        assert now["resolution"] == pytest.approx(before["resolution"], rel=1.0, abs=1e-15), key


def assert_same(found, expected, where, exact):
    """Every value that was there is there still; what is new is not looked at."""
    if isinstance(expected, dict):
        for key, value in expected.items():
            if key == "n_eigenproblems":  # how it was found, and not what
                continue
            assert key in found, f"{where}: {key} is missing"
            assert_same(found[key], value, f"{where}, {key}", exact)
    elif isinstance(expected, list):
        assert len(found) == len(expected), where
        for i, (now, value) in enumerate(zip(found, expected, strict=True)):
            assert_same(now, value, f"{where}, {i}", exact)
    elif isinstance(expected, float) and expected == expected:
        assert found == pytest.approx(expected, rel=exact, abs=exact), where
    elif expected == expected:
        assert found == expected, where


@pytest.fixture(autouse=True)
def _advice_is_not_the_subject():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.mark.parametrize("name", mark_most_long(golden_cases.bank_names(), 16))
def test_problems_of_the_bank(name):
    figures = golden_cases.bank_figures(name)
    others = golden_cases.bank_figures(name, rotation=True) if WRITES else None
    assert_same_fits(figures, expected_of("bank", name, figures, others))


@pytest.mark.parametrize("name", mark_most_long((*TWO_GROUPS, *MORE_GROUPS), 6))
def test_real_data(name):
    figures = golden_cases.real_figures(name)
    others = golden_cases.real_figures(name, tol=1e-11) if WRITES else None
    assert_same_fits(figures, expected_of("real data", name, figures, others))


@pytest.mark.long
@pytest.mark.parametrize("name", ["wide", "sparse"])
def test_more_features_than_rows_and_sparse_rows(name):
    figures = golden_cases.wide_figures(name)
    others = golden_cases.wide_figures(name, tol=1e-11) if WRITES else None
    assert_same_fits(figures, expected_of("wide and sparse", name, figures, others))


@pytest.mark.parametrize("name", mark_most_long(golden_cases.AUDITED, 4))
def test_frames_of_audits(name):
    figures = golden_cases.audit_figures(name)
    assert_same(figures, expected_of("audits", name, figures), name, 1e-7)


@pytest.mark.long
@pytest.mark.parametrize("name", ["made", "german_credit:group__age_lt40"])
def test_facts_of_reports(name):
    figures = golden_cases.report_figures(name)
    assert_same(figures, expected_of("reports", name, figures), name, 1e-6)


@pytest.mark.long
def test_printed_results():
    for name, figures in golden_cases.print_results():
        assert_same(figures, expected_of("printed", name, figures), name, 1e-6)
