"""Audit pages of two groups, and of twelve groups with hostile names."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from fairspan.report.page import render_page
from internal.report.report_objects import ORIGIN, make_report
from session_cache import compute_once

HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "{{7*7}}",
    "</script><b>bold</b>",
    "\u202eright to left\u200f",
    "$\\frac{",
    "W" * 60,
    "a\nb",
    "",
    "&amp; _x_ &lt;",
    "{% raise %}'--><svg onload=alert(1)>",
    "\u4e2d\u6587" * 10,
)
# As tables print them.
SHOWN = tuple("".join(c if c.isprintable() else "?" for c in name) for name in HOSTILE)
# Of twelve groups; the last has no answer for them.
CRITERIA = ("minimax_error", "nash_welfare", "disparity")


@cache
def report_of_two_groups():
    """Report in which PCA loses the smaller group."""
    rng = np.random.default_rng(3)
    large_group = rng.normal(size=(240, 6)) * [5, 3, 2, 1, 1, 0.5]
    small_group = rng.normal(size=(80, 6)) * [1, 1, 2, 4, 1, 0.5]
    X = np.vstack([large_group, small_group])
    labels = ["towns"] * 240 + ["hills"] * 80
    settings = {"n_components": 2, "compare": ("minimax_error", "disparity", "equal_error")}
    return compute_once("report of two groups", lambda: _make_report(X, labels, **settings))


@cache
def two_groups():
    """Report of two groups, and its page."""
    report = report_of_two_groups()
    return report, compute_once("page of two groups", lambda: render_page(report))


@cache
def twelve_groups():
    """Report and page; groups and features have hostile names.

    The groups share most of their directions, so that all answers are proven soon, which every fit
    without a part of the rows asks again.
    """
    rng = np.random.default_rng(4)
    shared = np.diag([4, 3, 2.5, 2, 1.5, 1, 0.7, 0.5])
    X = []
    labels = []
    for i, name in enumerate(HOSTILE):
        n = 20 + 5 * i
        X.append(rng.normal(size=(n, 8)) @ (shared + 0.4 * rng.normal(size=(8, 8))))
        labels += [name] * n
    settings = {"n_components": 3, "names": HOSTILE[:8], "compare": CRITERIA}
    return compute_once("twelve groups", lambda: _make_page(np.vstack(X), labels, **settings))


@cache
def hostile_pair():
    """Return page and report of two groups with hostile names."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(120, 4)) * [3, 2, 1, 1]
    return _make_page(
        X, ["</script><b>bold</b>"] * 80 + ['"><img src=x>{{7*7}}'] * 40, n_components=2
    )


def _make_page(X, labels, **settings):
    report = _make_report(X, labels, **settings)
    return report, render_page(report)


def _make_report(X, labels, *, n_components, names=None, compare=None):
    import pandas as pd

    frame = pd.DataFrame(X, columns=names or [f"feature {i}" for i in range(X.shape[1])])
    origin = replace(ORIGIN, name="<i>rows</i>", title="What PCA does to <i>rows</i>")
    return make_report(frame, labels, n_components, compare=compare, origin=origin)


# The page of twelve groups takes as long to make as two hundred tests.
PAGES = pytest.mark.parametrize(
    "make_page", [two_groups, pytest.param(twelve_groups, marks=pytest.mark.long)]
)
