"""The page: its report as one self-contained HTML file, with the texts of its slider."""

import json
import re
from base64 import b64encode
from collections.abc import Sequence
from functools import cache
from hashlib import sha256
from math import isfinite
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from fairspan.auditing.results import Finding, group_name
from fairspan.formatting.results import plain
from fairspan.formatting.table import name_in_html
from fairspan.formatting.text import (
    called,
    change,
    count,
    number,
    percent,
    relative,
    settings,
    share,
    sharers,
    spoken,
    whole,
)
from fairspan.report import figures, tables
from fairspan.report.curves import Step
from fairspan.report.figures import Place, draw
from fairspan.report.program import provenance
from fairspan.report.report import Report
from fairspan.report.tables import ALIKE, harmed_most, sharing_largest
from fairspan.rows.groups import printable
from fairspan.version import __version__

_TEMPLATES = Path(__file__).parent / "template"
# In JSON inside a script element these could end it, or begin a comment.
_ESCAPED = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})
# Pictures, what the slider has in its own data, and what the tables of the page have.
_NOT_DOWNLOADED = ("steps", "displays", "by_dimension", "by_feature", "verification")


def page_of(report: Report) -> str:
    """Make the page of a report.

    Returns
    -------
    str
        HTML that loads nothing else and works without its script; the same report gives the same
        text.
    """
    style, script = (
        (_TEMPLATES / name).read_text(encoding="utf-8").strip() for name in ("page.css", "page.js")
    )
    by_dimension = figures.of_dimensions(report)
    along_frontier = report.curves.frontier is not None
    walked = figures.of_frontier(report) if along_frontier else by_dimension
    about_answer, about_others = findings_about_the_answer(report)
    # Figures of nine digits take half the room.
    downloads = plain({k: v for k, v in report.to_dict().items() if k not in _NOT_DOWNLOADED}, 9)
    given = report.given.audit if report.given else None
    return (
        _environment()
        .get_template("page.html")
        .render(
            report=report,
            title=report.in_short(printable(report.origin.title)),
            said=lambda name: said(name, report),
            short=report.in_short,
            estimated=report.has_estimates,
            tables=tables.of_report(report),
            plain_figure=figures.of_plain(report),
            losses_figure=None if report.main.is_plain_pca else figures.of_losses(report),
            expected_figure=figures.of_expected(report) if report.has_estimates else None,
            walk_figure=walked,
            dimension_figure=by_dimension if along_frontier else None,
            displays=[
                draw(each, f"x{i}", f"{spoken(name)}.", spoken(name), keeps_title=True)
                for i, (name, each) in enumerate(report.displays)
            ],
            given_models=[tables.of_given_model(each, given.findings) for each in given.models]
            if given
            else [],
            walk=slider_of(report, walked.places),
            downloads=Markup(
                report.in_short(
                    str(json_for_script(downloads)), lambda name: json_for_script(name)[1:-1]
                )
            ),
            findings=about_answer,
            other_findings=about_others,
            main=report.main.name,
            made=provenance(report.origin),
            style=style,
            script=script,
            policy=policy_of(style, script, has_displays=bool(report.displays)),
        )
    )


def findings_about_the_answer(report: Report) -> tuple[list[Finding], list[Finding]]:
    """Findings about the rows, ordinary PCA and the main answer; and those about other criteria."""
    wanted, findings = {None, report.plain.name, report.main.name}, report.audit.findings
    return [each for each in findings if each.model in wanted], [
        each for each in findings if each.model not in wanted
    ]


def said(name: str, report: Report) -> Markup:
    """A sentence of the page, by its name in sentences.html."""
    plain_pca, main = report.plain, report.main
    largest = [float(each.plain_losses.max()) for each in report.curves.dimensions]
    rises = [
        (before, after)
        for before, after in zip(plain_pca.groups, main.groups, strict=True)
        if after.loss_here > before.loss_here * (1 + ALIKE)
    ]
    losses = [group.loss_here for group in plain_pca.groups]
    sentences = (
        _environment()
        .get_template("sentences.html")
        .make_module(
            {
                "report": report,
                "plain": plain_pca,
                "main": main,
                "certificate": report.fit.certificate,
                "has_bound": isfinite(report.fit.certificate.lower_bound),
                "change": report.total_change(main),
                "version": __version__,
                "worst": plain_pca.groups[sharing_largest(losses)[0]],
                "whose": harmed_most(plain_pca),
                "dimensions": count(plain_pca.n_components, "dimension"),
                "rises": rises,
                "sharing": sharing_largest([group.loss_here for group in main.groups]),
                "largest": largest,
                "hardest": largest.index(max(largest)),
                "harmed_at": harmed_by_dimension(report),
                "about_answer": findings_about_the_answer(report)[0],
            }
        )
    )
    return Markup(re.sub("[ \n]+", " ", getattr(sentences, name)()).strip())


def harmed_by_dimension(report: Report) -> list[tuple[int, Any, float]]:
    """Where PCA harms a group on new rows: d, and whom it costs most, with the expected loss."""
    found = []
    for each in report.curves.dimensions:
        harmed = [
            (figures.expected_loss.value, g)
            for g, figures in enumerate(each.expected)
            if figures.state == "harmed"
        ]
        if harmed:
            loss, g = max(harmed)
            found.append((each.n_components, report.curves.groups[g], loss))
    return found


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
    spellings = (called, change, number, percent, relative, settings, share, whole)
    environment.filters |= {each.__name__: each for each in spellings}
    environment.filters |= {"counted": count, "json": json_for_script}
    environment.filters["shown"] = lambda label: called(group_name(label))
    environment.filters["breakable"] = lambda name: Markup(name_in_html(name))
    return environment


def slider_of(report: Report, places: Sequence[Sequence[Place]]) -> dict[str, Any]:
    """Make the texts of every step.

    Parameters
    ----------
    report : Report
    places : sequence of sequences of places
        Of the marks at each step.

    Returns
    -------
    dict
        `data` holds all steps, for the page's script, `first` the step that is shown first, and
        `ends` says what lies at each end of the slider.
    """
    curves, names = report.curves, report.names
    jumps = {} if curves.plain is None else {"plain": curves.plain}
    shown = [
        {
            "label": step.label,
            "said": _said(step, names),
            "texts": texts,
            "marks": marks,
            # Adding zero leaves no minus zero.
            "loadings": (step.loadings.round(tables.DECIMALS) + 0.0).tolist(),
        }
        for step, texts, marks in zip(curves.steps, tables.texts_of(report), places, strict=True)
    ]
    return {
        "data": {"start": curves.start, "jumps": {**jumps, "main": curves.start}, "steps": shown},
        "first": shown[curves.start],
        "ends": [f"better for {name}" for name in names]
        if curves.frontier
        else ["fewer dimensions", "more dimensions"],
    }


def _said(step: Step, names: Sequence[str]) -> str:
    """What is read out: two groups' errors, of more the largest loss."""
    total, losses = f"error over all rows {number(step.total_error)}", step.losses.tolist()
    if len(names) == 2:
        told = (f"{name} {number(error)}" for name, error in zip(names, step.errors, strict=True))
        return f"{step.label}: error of {', of '.join(told)}; {total}."
    if max(losses) == 0:
        return f"{step.label}: no group loses anything; {total}."
    whose = sharers(names, sharing_largest(losses))
    return f"{step.label}: largest loss {number(max(losses))}, of {whose}; {total}."
