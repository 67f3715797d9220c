"""Synthetic rows of several groups, the facts of their report, and parts of these facts."""

from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from unittest.mock import patch

import numpy as np

import fairspan as fs


def generate_rows(k, p, n=40, seed=0):
    """Return rows of k groups that vary in different directions, and their labels."""
    rng = np.random.default_rng(seed)
    blocks = [rng.normal(size=(n + 5 * g, p)) @ rng.normal(size=(p, p)) for g in range(k)]
    labels = np.repeat([f"group {g:02}" for g in range(k)], [len(block) for block in blocks])
    return np.vstack(blocks) + rng.normal(size=p), labels


def report_facts(X, labels, n_components=None, *, folds=None, **settings):
    """Return the facts of a report whose page is not drawn, without estimates for new rows."""
    with TemporaryDirectory() as folder, patch("fairspan.report.page.render_page", lambda _: ""):
        return fs.write_report(
            Path(folder) / "page.html",
            X,
            labels,
            n_components=n_components,
            folds=folds,
            **settings,
        )


def draw_nothing(display, element_prefix, caption, alt_text, marks=None, **_):
    """Return an empty figure: drawing takes ten times as long as the text of a page."""
    from markupsafe import Markup, escape

    svg = Markup(f'<svg role="img" aria-label="{escape(alt_text)}"></svg>')
    points = () if marks is None else marks.points
    return SimpleNamespace(
        mark_name="",
        svg=svg,
        phone_svg=None,
        caption=caption,
        mark_positions=[[] for _ in points],
        fits_half_width=True,
    )


def model_facts(facts, name):
    return next(model for model in facts["models"] if model["name"] == name)


def group_column(model, key):
    return np.array([group[key] for group in model["groups"]], dtype=float)


def group_names(facts):
    return [group["group"] for group in facts["models"][0]["groups"]]


def certificate_facts(facts, name=None):
    name = facts["main_model"] if name is None else name
    return next(
        certificate for certificate in facts["certificates"] if certificate["model"] == name
    )


def dimension_curve(facts, model, key):
    """Return a figure as an array (n_dimensions, n_groups)."""
    records = [record for record in facts["by_dimension"] if record["model"] == model]
    return np.array([record[key] for record in records]).reshape(-1, len(group_names(facts)))


def report_dimensions(facts):
    return list(dict.fromkeys(record["n_components"] for record in facts["by_dimension"]))
