"""The audit page: its facts as one self-contained HTML file."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from fairspan.drawing.picture import Display
from fairspan.formatting import numbers
from fairspan.formatting.names import called, parts, settings, spoken
from fairspan.formatting.numbers import count
from fairspan.report.page import figures, tables
from fairspan.report.page.inline_figures import Drawn, draw
from fairspan.report.page.lookups import (
    ALIKE,
    Facts,
    findings_about_the_answer,
    harmed_by_dimension,
    has_estimates,
    main_of,
    most_lost,
    plain_of,
    sharing_largest,
    with_short_names,
    worst_expected,
)
from fairspan.report.page.slider import slider_of

_TEMPLATES = Path(__file__).parent / "template"
# In JSON inside a script element these could end it, or begin a comment.
_ESCAPED = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"}
# Pictures, what the slider has in its own data, and what the tables of the page have.
_NOT_DOWNLOADED = ("steps", "displays", "by_dimension", "verification")
_SENTENCES = (
    *("byline", "summary", "answers", "data", "measured", "pca", "disparity", "criteria"),
    *("walk", "components", "findings", "proof", "made"),
)
_ON_NEW_ROWS = (
    *("pca_on_new_rows", "criteria_on_new_rows", "answers_on_new_rows", "walk_on_new_rows"),
    *("states", "not_estimated", "certainty"),
)


def page_of(facts: Facts, displays: Sequence[tuple[str, Display]] = ()) -> str:
    """Make the audit page of some facts.

    Parameters
    ----------
    facts : mapping
        As `facts_of` makes them.
    displays : sequence of (name, Display)
        Pictures that were requested beside those of every page.

    Returns
    -------
    str
        HTML that loads nothing else and works without its script; the same facts give
        the same text.
    """
    facts = with_short_names(facts)
    environment = _environment()
    style, script = (
        (_TEMPLATES / name).read_text(encoding="utf-8").strip() for name in ("page.css", "page.js")
    )
    along_frontier = facts["steps"]["walk"] == "frontier"
    by_dimension = figures.of_dimensions(facts, with_marks=not along_frontier)
    walked = figures.of_frontier(facts) if along_frontier else by_dimension
    walk = slider_of(facts, walked.places)
    estimated, main = has_estimates(facts), main_of(facts)
    about_answer, about_others = findings_about_the_answer(facts)
    return environment.get_template("page.html").render(
        facts=facts,
        said={name: said(name, facts) for name in _sentences_of(facts)},
        estimated=estimated,
        tables=tables.of_facts(facts, [step["label"] for step in walk["data"]["steps"]]),
        plain_figure=figures.of_plain(facts),
        losses_figure=None if main["is_plain_pca"] else figures.of_losses(facts),
        expected_figure=_expected_figure(facts) if estimated else None,
        walk_figure=walked,
        dimension_figure=by_dimension if along_frontier else None,
        displays=[
            draw(each, f"x{i}", f"{spoken(name)}.", spoken(name), keeps_title=True)
            for i, (name, each) in enumerate(displays)
        ],
        given_models=list(map(tables.of_given_model, (facts["given"] or {}).get("models", ()))),
        walk=walk,
        downloads=_rounded({key: facts[key] for key in facts if key not in _NOT_DOWNLOADED}),
        findings=about_answer,
        other_findings=about_others,
        main=spoken(main["name"]),
        style=style,
        script=script,
        policy=policy_of(style, script, has_displays=bool(displays)),
    )


def said(name: str, facts: Facts) -> Markup:
    """A sentence of the page, by its name in sentences.html."""
    plain, main = plain_of(facts), main_of(facts)
    both = zip(plain["groups"], main["groups"], strict=True)
    largest = [max(losses) for losses in facts["by_dimension"]["plain"]["losses"]]
    is_expected = name in (*_ON_NEW_ROWS, "verdict")
    sentences = (
        _environment()
        .get_template("on_new_rows.html" if is_expected else "sentences.html")
        .make_module(
            {
                "facts": facts,
                "plain": plain,
                "main": main,
                "main_name": spoken(main["name"]),
                "worst": most_lost(plain),
                "whose": worst_expected(facts, plain),
                "dimensions": count(facts["settings"]["n_components"], "dimension"),
                "rises": [
                    (before, after)
                    for before, after in both
                    if after["excess_loss"] > before["excess_loss"] * (1 + ALIKE)
                ],
                "sharing": sharing_largest([group["excess_loss"] for group in main["groups"]]),
                "largest": largest,
                "hardest": largest.index(max(largest)),
                "harmed_at": harmed_by_dimension(facts),
                "about_answer": findings_about_the_answer(facts)[0],
            }
        )
    )
    return Markup(re.sub("[ \n]+", " ", getattr(sentences, name)()).strip())


def _sentences_of(facts: Facts) -> tuple[str, ...]:
    """Those that the facts have figures for."""
    verdict = () if facts["verdict"] is None else ("verdict", "certainty", "not_estimated")
    found = (*_SENTENCES, *verdict, *(_ON_NEW_ROWS if has_estimates(facts) else ()))
    return tuple(dict.fromkeys(found))


def _rounded(value: Any) -> Any:
    """Facts with figures of nine digits, which take half the room."""
    if isinstance(value, float):
        return float(f"{value:.9g}")
    if isinstance(value, Mapping):
        return {key: _rounded(each) for key, each in value.items()}
    return [_rounded(each) for each in value] if isinstance(value, list) else value


def _expected_figure(facts: Facts) -> Drawn:
    """Expected losses under PCA, and beside them those under the main criterion."""
    plain, main = plain_of(facts), main_of(facts)
    has_both = not main["is_plain_pca"] and main["why_no_estimates"] is None
    return figures.of_expected(facts, [plain, main] if has_both else [plain], "e")


def policy_of(style: str, script: str, *, has_displays: bool = False) -> str:
    """A content-security policy that allows this style sheet and this script, and nothing else.

    Attributes of style are allowed: the figures have them, and the names of groups cannot make one.
    Displays that were requested may hold images, such as a map of colours, inside the page itself.

    Examples
    --------
    >>> policy_of("", "").split("; ")[0]
    "default-src 'none'"
    """
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src '{_hash(script)}'",
            f"style-src-elem '{_hash(style)}'",
            "style-src-attr 'unsafe-inline'",
            *(["img-src data:"] if has_displays else []),
            "base-uri 'none'",
            "form-action 'none'",
        )
    )


def json_for_script(value: Any) -> Markup:
    r"""JSON that can stand inside a script element.

    Examples
    --------
    >>> print(json_for_script({"name": "</script>"}))
    {"name":"\u003c/script\u003e"}
    """
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    for char, escape in _ESCAPED.items():
        text = text.replace(char, escape)
    return Markup(text)


def _hash(text: str) -> str:
    return "sha256-" + b64encode(sha256(text.encode()).digest()).decode()


# Kept, as every sentence of a page is a macro of one file that takes long to compile.
@cache
def _environment() -> Environment:
    environment = Environment(
        autoescape=True,
        loader=FileSystemLoader(_TEMPLATES),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"called": called, "parts": parts, "spoken": spoken}
    environment.filters |= {"counted": count, "json": json_for_script, "settings": settings}
    for name in ("number", "share", "change", "relative", "whole", "loading", "percent"):
        environment.filters[name] = getattr(numbers, name)
    return environment
