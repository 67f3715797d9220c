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

from fairspan.auditing.results import Finding, format_group
from fairspan.formatting.export import to_json_value
from fairspan.formatting.table import name_to_html
from fairspan.formatting.text import (
    describe_tied,
    display_name,
    format_change,
    format_count,
    format_integer,
    format_level,
    format_number,
    format_parameters,
    format_relative,
    format_share,
    readable_name,
)
from fairspan.report import figures, tables
from fairspan.report.curves import SliderStep
from fairspan.report.figures import SvgPosition, draw_figure
from fairspan.report.program import to_dict
from fairspan.report.report import Report
from fairspan.report.tables import TIE_TOL, most_affected_group, tied_maxima
from fairspan.rows.groups import printable
from fairspan.version import __version__

_TEMPLATES = Path(__file__).parent / "template"
# In JSON inside a script element these could end it, or begin a comment.
_JSON_ESCAPES = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})
# Pictures, what the slider has in its own data, and what the tables of the page have.
_EXCLUDED_FROM_DOWNLOAD = ("steps", "displays", "by_dimension", "feature_errors", "verification")


def render_page(report: Report) -> str:
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
    by_dimension = figures.dimensions_figure(report)
    along_frontier = report.curves.frontier is not None
    slider_figure = figures.frontier_figure(report) if along_frontier else by_dimension
    main_findings, other_findings = split_findings(report)
    # Figures of nine digits take half the room.
    downloads = to_json_value(
        {k: v for k, v in report.to_dict().items() if k not in _EXCLUDED_FROM_DOWNLOAD}, 9
    )
    given = report.user_models.audit if report.user_models else None
    return (
        _jinja_environment()
        .get_template("page.html")
        .render(
            report=report,
            title=report.shorten_names(printable(report.provenance.title)),
            said=lambda name: render_sentence(name, report),
            short=report.shorten_names,
            estimated=report.has_estimates,
            tables=tables.report_tables(report),
            plain_figure=figures.pca_errors_figure(report),
            losses_figure=None if report.main.is_pca else figures.losses_figure(report),
            expected_figure=figures.expected_losses_figure(report)
            if report.has_estimates
            else None,
            walk_figure=slider_figure,
            dimension_figure=by_dimension if along_frontier else None,
            displays=[
                draw_figure(
                    each, f"x{i}", f"{readable_name(name)}.", readable_name(name), keep_title=True
                )
                for i, (name, each) in enumerate(report.displays)
            ],
            given_models=[tables.user_model_table(each, given.findings) for each in given.models]
            if given
            else [],
            walk=slider_data(report, slider_figure.mark_positions),
            downloads=Markup(
                report.shorten_names(
                    str(json_for_script(downloads)), lambda name: json_for_script(name)[1:-1]
                )
            ),
            findings=main_findings,
            other_findings=other_findings,
            main=report.main.name,
            made=to_dict(report.provenance),
            style=style,
            script=script,
            policy=content_security_policy(style, script, has_displays=bool(report.displays)),
        )
    )


def split_findings(report: Report) -> tuple[list[Finding], list[Finding]]:
    """Findings about the rows, ordinary PCA and the main answer; and those about other criteria."""
    wanted, findings = {None, report.pca.name, report.main.name}, report.audit.findings
    return [each for each in findings if each.model in wanted], [
        each for each in findings if each.model not in wanted
    ]


def render_sentence(name: str, report: Report) -> Markup:
    """A sentence of the page, by its name in sentences.html."""
    plain_pca, main = report.pca, report.main
    largest = [float(each.pca_losses.max()) for each in report.curves.dimensions]
    rises = [
        (before, after)
        for before, after in zip(plain_pca.groups, main.groups, strict=True)
        if after.observed_loss > before.observed_loss * (1 + TIE_TOL)
    ]
    losses = [group.observed_loss for group in plain_pca.groups]
    sentences = (
        _jinja_environment()
        .get_template("sentences.html")
        .make_module(
            {
                "report": report,
                "plain": plain_pca,
                "main": main,
                "certificate": report.main_fit.certificate,
                "has_bound": isfinite(report.main_fit.certificate.lower_bound),
                "change": report.relative_error_change(main),
                "version": __version__,
                "worst": plain_pca.groups[tied_maxima(losses)[0]],
                "whose": most_affected_group(plain_pca),
                "dimensions": format_count(plain_pca.n_components, "dimension"),
                "rises": rises,
                "sharing": tied_maxima([group.observed_loss for group in main.groups]),
                "largest": largest,
                "hardest": largest.index(max(largest)),
                "harmed_at": harm_by_dimension(report),
                "about_answer": split_findings(report)[0],
            }
        )
    )
    return Markup(re.sub("[ \n]+", " ", getattr(sentences, name)()).strip())


def harm_by_dimension(report: Report) -> list[tuple[int, Any, float]]:
    """Where PCA harms a group on new rows: d, and whom it costs most, with the expected loss."""
    found = []
    for each in report.curves.dimensions:
        harmed = [
            (figures.expected_loss.value, g)
            for g, figures in enumerate(each.pca_estimates)
            if figures.state == "harmed"
        ]
        if harmed:
            loss, g = max(harmed)
            found.append((each.n_components, report.curves.groups[g], loss))
    return found


def content_security_policy(style: str, script: str, *, has_displays: bool = False) -> str:
    """A content-security policy that allows this style sheet and this script, and nothing else.

    Attributes of style are allowed: the figures have them, and the names of groups cannot make one.
    Displays that were requested may hold images, such as a map of colours, inside the page itself.

    Examples
    --------
    >>> content_security_policy("", "").split("; ")[0]
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
    return Markup(text.translate(_JSON_ESCAPES))


def _hash(text: str) -> str:
    return "sha256-" + b64encode(sha256(text.encode()).digest()).decode()


# Kept, as every sentence of a page is a macro of one file that takes long to compile.
@cache
def _jinja_environment() -> Environment:
    environment = Environment(
        autoescape=True,
        loader=FileSystemLoader(_TEMPLATES),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    format_filters = (
        display_name,
        format_change,
        format_number,
        format_level,
        format_relative,
        format_parameters,
        format_share,
        format_integer,
    )
    environment.filters |= {each.__name__: each for each in format_filters}
    environment.filters |= {"counted": format_count, "json": json_for_script}
    environment.filters["shown"] = lambda label: display_name(format_group(label))
    environment.filters["breakable"] = lambda name: Markup(name_to_html(name))
    return environment


def slider_data(report: Report, mark_positions: Sequence[Sequence[SvgPosition]]) -> dict[str, Any]:
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
    curves, names = report.curves, report.group_names
    shortcuts = {} if curves.pca_step is None else {"plain": curves.pca_step}
    shown = [
        {
            "label": step.label,
            "said": _announcement(step, names),
            "texts": texts,
            "marks": marks,
            # Adding zero leaves no minus zero.
            "loadings": (step.loadings.round(tables.LOADING_DECIMALS) + 0.0).tolist(),
        }
        for step, texts, marks in zip(
            curves.steps, tables.step_texts(report), mark_positions, strict=True
        )
    ]
    return {
        "data": {
            "start": curves.main_step,
            "jumps": {**shortcuts, "main": curves.main_step},
            "steps": shown,
        },
        "first": shown[curves.main_step],
        "ends": [f"better for {name}" for name in names]
        if curves.frontier
        else ["fewer dimensions", "more dimensions"],
    }


def _announcement(step: SliderStep, names: Sequence[str]) -> str:
    """What is read out: two groups' errors, of more the largest loss."""
    total, losses = f"error over all rows {format_number(step.total_error)}", step.losses.tolist()
    if len(names) == 2:
        told = (
            f"{name} {format_number(error)}" for name, error in zip(names, step.errors, strict=True)
        )
        return f"{step.label}: error of {', of '.join(told)}; {total}."
    if max(losses) == 0:
        return f"{step.label}: no group loses anything; {total}."
    whose = describe_tied(names, tied_maxima(losses))
    return f"{step.label}: largest loss {format_number(max(losses))}, of {whose}; {total}."
