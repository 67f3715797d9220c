"""Audit pages that several tests look at: two groups, and twelve whose names are hostile."""

import json
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest

from fairspan import write_report
from fairspan.report.page.rendering import page_of
from shared_results import made_once

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
def two_groups():
    """Facts and page; PCA loses the smaller group."""
    rng = np.random.default_rng(3)
    many = rng.normal(size=(240, 6)) * [5, 3, 2, 1, 1, 0.5]
    few = rng.normal(size=(80, 6)) * [1, 1, 2, 4, 1, 0.5]
    X, labels = np.vstack([many, few]), ["towns"] * 240 + ["hills"] * 80
    return made_once("two groups", lambda: _made(X, labels, n_components=2))


@cache
def twelve_groups():
    """Facts and page; groups and features have hostile names.

    The groups share most of their directions, so that all answers are proven soon, which every fit
    without a part of the rows asks again.
    """
    rng = np.random.default_rng(4)
    shared = np.diag([4, 3, 2.5, 2, 1.5, 1, 0.7, 0.5])
    X, labels = [], []
    for i, name in enumerate(HOSTILE):
        n = 20 + 5 * i
        X.append(rng.normal(size=(n, 8)) @ (shared + 0.4 * rng.normal(size=(8, 8))))
        labels += [name] * n
    settings = {"n_components": 3, "names": HOSTILE[:8], "criteria": CRITERIA}
    return made_once("twelve groups", lambda: _made(np.vstack(X), labels, **settings))


@cache
def hostile_pair():
    """Those of two groups under other names, which every step of the slider tells."""
    text = json.dumps(two_groups()[0])
    for plain, hostile in (("towns", "</script><b>bold</b>"), ("hills", '"><img src=x>{{7*7}}')):
        text = text.replace(plain, json.dumps(hostile)[1:-1])
    facts = json.loads(text)
    return facts, page_of(facts)


def _made(X, labels, *, n_components, names=None, criteria=None):
    import pandas as pd

    frame = pd.DataFrame(X, columns=names or [f"feature {i}" for i in range(X.shape[1])])
    with TemporaryDirectory() as folder:
        path = Path(folder) / "page.html"
        facts = write_report(
            path, frame, labels, n_components=n_components, criteria=criteria, name="<i>rows</i>"
        )
        return facts, path.read_text(encoding="utf-8")


# The page of twelve groups takes as long to make as two hundred tests.
PAGES = pytest.mark.parametrize(
    "made", [two_groups, pytest.param(twelve_groups, marks=pytest.mark.long)]
)
