"""Made-up rows of several groups, and the facts of a report of them without a page."""

import numpy as np

from fairspan.moments.group_moments import accumulate
from fairspan.report.facts.answers import ReportSettings
from fairspan.report.facts.assembly import facts_of
from fairspan.report.facts.verifying import Origin
from fairspan.rows.registry import rows_of

ORIGIN = Origin("rows", "a report", None, "a command", "pass")


def made_rows(k, p, n=40, seed=0):
    """Rows of k groups that vary in different directions, and their labels."""
    rng = np.random.default_rng(seed)
    blocks = [rng.normal(size=(n + 5 * g, p)) @ rng.normal(size=(p, p)) for g in range(k)]
    labels = np.repeat([f"group {g:02}" for g in range(k)], [len(block) for block in blocks])
    return np.vstack(blocks) + rng.normal(size=p), labels


def facts_by(
    X,
    labels,
    n_components=None,
    *,
    criterion="minimax_loss",
    criteria=None,
    center="global",
    scale=False,
    weights=None,
    origin=ORIGIN,
):
    rows = rows_of(X, labels, weights)
    asked = ReportSettings.of(criterion, criteria, n_components, center, scale)
    return facts_of(accumulate(rows), rows, asked, origin)


def model_of(facts, name):
    return next(model for model in facts["models"] if model["name"] == name)


def column(model, key):
    return np.array([group[key] for group in model["groups"]])
