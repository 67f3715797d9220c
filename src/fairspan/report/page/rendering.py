"""The audit page: its facts as one self-contained HTML file, with the texts of its slider."""

import json
import re
from base64 import b64encode
from collections.abc import Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from fairspan.extending import Display
from fairspan.formatting.results import plain
from fairspan.formatting.table import name_in_html
from fairspan.formatting.text import (
    called,
    change,
    count,
    decimals_of,
    loading,
    number,
    percent,
    relative,
    settings,
    share,
    sharers,
    spoken,
    whole,
)
from fairspan.report.page import figures, tables
from fairspan.report.page.figures import Place, draw
from fairspan.report.page.tables import (
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

_TEMPLATES = Path(__file__).parent / "template"
# In JSON inside a script element these could end it, or begin a comment.
_ESCAPED = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})
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
# Decimals of loadings.
_DECIMALS = 2


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
        expected_figure=figures.of_expected(facts) if estimated else None,
        walk_figure=walked,
        dimension_figure=by_dimension if along_frontier else None,
        displays=[
            draw(each, f"x{i}", f"{spoken(name)}.", spoken(name), keeps_title=True)
            for i, (name, each) in enumerate(displays)
        ],
        given_models=list(map(tables.of_given_model, (facts["given"] or {}).get("models", ()))),
        walk=walk,
        # Figures of nine digits take half the room.
        downloads=plain({key: facts[key] for key in facts if key not in _NOT_DOWNLOADED}, 9),
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
    largest = [max(losses) for losses in facts["by_dimension"]["plain"]["losses_here"]]
    sentences = (
        _environment()
        .get_template(
            "on_new_rows.html" if name in (*_ON_NEW_ROWS, "verdict") else "sentences.html"
        )
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
                    if after["loss_here"] > before["loss_here"] * (1 + ALIKE)
                ],
                "sharing": sharing_largest([group["loss_here"] for group in main["groups"]]),
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
    return tuple(
        dict.fromkeys((*_SENTENCES, *verdict, *(_ON_NEW_ROWS if has_estimates(facts) else ())))
    )


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
    return Markup(text.translate(_ESCAPED))


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
    spellings = (
        *(called, change, loading, number, percent),
        *(relative, settings, share, spoken, whole),
    )
    environment.filters |= {each.__name__: each for each in spellings}
    environment.filters |= {"counted": count, "json": json_for_script}
    environment.filters["breakable"] = lambda name: Markup(name_in_html(name))
    return environment


def slider_of(facts: Facts, places: Sequence[Sequence[Place]]) -> dict[str, Any]:
    """Make the texts of every step.

    Parameters
    ----------
    facts : mapping
    places : sequence of sequences of places
        Of the marks at each step.

    Returns
    -------
    dict
        `data` holds all steps, for the page's script, `first` the step that is shown first, and
        `ends` says what lies at each end of the slider. The texts of a step are error, excess loss
        and share kept of each group, the error over all rows, and the variance of each of the
        `n_components` at most that are shown.
    """
    steps, start = facts["steps"], facts["steps"]["start"]
    names = [called(group["group"]) for group in facts["data"]["groups"]]
    jumps = {"main": start} if steps["plain"] is None else {"plain": steps["plain"], "main": start}
    shown = [
        {
            "label": label,
            "said": _said(label, point, names),
            "texts": own,
            "marks": marks,
            # Adding zero leaves no minus zero.
            "loadings": [
                [round(each, _DECIMALS) + 0.0 for each in component]
                for component in point["components"]
            ],
        }
        for label, point, own, marks in zip(
            _labels(facts), steps["points"], _texts(steps["points"]), places, strict=True
        )
    ]
    return {
        "data": {"start": start, "jumps": jumps, "steps": shown},
        "first": shown[start],
        "n_components": max(len(point["components"]) for point in steps["points"]),
        "ends": [f"better for {name}" for name in names]
        if facts["frontier"]
        else ["fewer dimensions", "more dimensions"],
    }


def _texts(points: Sequence[Facts]) -> list[list[str]]:
    """Of each step its figures, each kind with the same decimals at all steps."""
    decimals = {
        what: decimals_of(each for point in points for each in point[what])
        for what in ("errors_here", "losses_here", "variances_here")
    }
    of_total = decimals_of(point["total_error_here"] for point in points)
    return [
        [
            *(
                text
                for error, loss, kept in zip(
                    point["errors_here"], point["losses_here"], point["kept_here"], strict=True
                )
                for text in (
                    number(error, decimals["errors_here"]),
                    number(loss, decimals["losses_here"]),
                    share(kept),
                )
            ),
            number(point["total_error_here"], of_total),
            *(number(each, decimals["variances_here"]) for each in point["variances_here"]),
        ]
        for point in points
    ]


def _said(label: str, point: Facts, names: Sequence[str]) -> str:
    """What is read out: two groups' errors, of more the largest loss."""
    total = f"error over all rows {number(point['total_error_here'])}"
    losses = point["losses_here"]
    if len(names) == 2:
        told = (
            f"{name} {number(error)}"
            for name, error in zip(names, point["errors_here"], strict=True)
        )
        return f"{label}: error of {', of '.join(told)}; {total}."
    if max(losses) == 0:
        return f"{label}: no group loses anything; {total}."
    whose = sharers(names, sharing_largest(losses))
    return f"{label}: largest loss {number(max(losses))}, of {whose}; {total}."


def _labels(facts: Facts) -> list[str]:
    """As the facts have them, criteria as running text has them."""
    steps, name = facts["steps"], main_of(facts)["name"]
    labels = [point["label"] for point in steps["points"]]
    labels[steps["start"]] = labels[steps["start"]].replace(name, spoken(name))
    return labels
