"""Rendering of a report as a self-contained HTML page."""

import json
import re
from base64 import b64encode
from collections.abc import Sequence
from functools import cache
from hashlib import sha256
from math import isfinite
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from fairspan.auditing.estimates import State
from fairspan.auditing.findings.finding import Finding
from fairspan.auditing.group_names import format_group
from fairspan.auditing.verdict import VerdictKind
from fairspan.formatting.export import to_json_value
from fairspan.formatting.names import describe_tied, display_name, format_parameters, readable_name
from fairspan.formatting.numbers import (
    format_change,
    format_count,
    format_integer,
    format_level,
    format_number,
    format_relative,
    format_share,
)
from fairspan.formatting.table import Table, name_to_html
from fairspan.linalg.rounding import LOOSE_TOL
from fairspan.report import figures
from fairspan.report.figures import PageFigure, SvgPosition, draw_figure
from fairspan.report.report import Report
from fairspan.report.slider_data import SliderStep
from fairspan.report.tables.all_tables import report_tables
from fairspan.report.tables.slider_tables import LOADING_DECIMALS, step_texts
from fairspan.report.tables.table_columns import INCONCLUSIVE, most_affected_group, tied_maxima
from fairspan.report.tables.user_model_tables import user_model_table
from fairspan.rows.labels import Label, printable
from fairspan.version import __version__

_TEMPLATES = Path(__file__).parent / "template"
# Characters that could close a script element or open a comment.
_JSON_ESCAPES = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})
# Parts omitted from the JSON download: displays, slider data, and data shown in tables.
_EXCLUDED_FROM_DOWNLOAD = ("slider", "displays", "by_dimension", "feature_errors", "verification")
# Significant digits of the JSON download: with nine it has half the size of the full precision.
_DOWNLOAD_DIGITS = 9
_HARMLESS_STATE: State = "no material harm"
# The verdicts that sentences.html counts.
_VERDICT_KINDS: dict[str, VerdictKind] = {
    "helps": "harm, repair helps",
    "at_a_cost": "harm, repair at a cost",
    "shifts": "harm, repair shifts it",
    "harms": "no material harm, repair harms",
}


def render_page(report: Report) -> str:
    """Render a report as HTML.

    Returns
    -------
    str
        HTML without external resources that works without JavaScript; the output is deterministic.
    """
    template = _jinja_environment().get_template("page.html")
    return template.render(_page_context(report))


def _page_context(report: Report) -> dict[str, object]:
    """Return the variables of page.html, the template of the page.

    With two groups, the slider runs along the frontier, and the figure of dimensions is shown in
    addition; otherwise the slider runs over the dimensions. Figures that do not apply are None,
    such as the comparison of losses with PCA if PCA is the main model.
    """
    style = _read_template("page.css")
    script = _read_template("page.js")
    dimensions_figure = figures.dimensions_figure(report)
    slider_figure = dimensions_figure
    other_dimensions_figure = None
    if report.curves.frontier is not None:
        slider_figure = figures.frontier_figure(report)
        other_dimensions_figure = dimensions_figure
    losses_figure = None if report.main.is_pca else figures.losses_figure(report)
    expected_figure = figures.expected_losses_figure(report) if report.has_estimates else None
    main_findings, other_findings = split_findings(report)
    return {
        "report": report,
        "title": report.shorten_names(printable(report.provenance.title)),
        "main": report.main.name,
        "has_estimates": report.has_estimates,
        "sentence": lambda name: render_sentence(name, report),
        "shorten_names": report.shorten_names,
        "tables": report_tables(report),
        "user_model_tables": _user_model_tables(report),
        "pca_figure": figures.pca_errors_figure(report),
        "losses_figure": losses_figure,
        "expected_figure": expected_figure,
        "slider_figure": slider_figure,
        "dimensions_figure": other_dimensions_figure,
        "displays": _display_figures(report),
        "slider": slider_data(report, slider_figure.mark_positions),
        "downloads": _download_json(report),
        "findings": main_findings,
        "other_findings": other_findings,
        "verification": report.verification,
        "provenance": report.provenance.to_dict(),
        "style": style,
        "script": script,
        "policy": content_security_policy(style, script, has_displays=bool(report.displays)),
    }


def _read_template(name: str) -> str:
    return (_TEMPLATES / name).read_text(encoding="utf-8").strip()


def _user_model_tables(report: Report) -> list[Table]:
    if report.user_models is None:
        return []
    audit = report.user_models.audit
    return [user_model_table(model, audit.findings) for model in audit.models]


def _display_figures(report: Report) -> list[PageFigure]:
    drawn = []
    for i, (name, display) in enumerate(report.displays):
        title = readable_name(name)
        drawn.append(draw_figure(display, f"x{i}", f"{title}.", title, keep_title=True))
    return drawn


def _download_json(report: Report) -> Markup:
    """Return the JSON that the page offers for download, with very long names shortened."""
    included = {
        key: value for key, value in report.to_dict().items() if key not in _EXCLUDED_FROM_DOWNLOAD
    }
    text = json_for_script(to_json_value(included, _DOWNLOAD_DIGITS))

    def escape_name(name: str) -> str:
        return json_for_script(name)[1:-1]  # without the quotation marks

    return Markup(report.shorten_names(str(text), escape_name))


def split_findings(report: Report) -> tuple[list[Finding], list[Finding]]:
    """Split the findings into those about the rows, ordinary PCA and the main model, and others."""
    main_models = {None, report.pca.name, report.main.name}
    main_findings = []
    other_findings = []
    for finding in report.audit.findings:
        if finding.model in main_models:
            main_findings.append(finding)
        else:
            other_findings.append(finding)
    return main_findings, other_findings


def render_sentence(name: str, report: Report) -> Markup:
    """Render the sentence that a macro of sentences.html makes from the results.

    Losses are observed ones, unless a variable is about estimates for new rows. "Tied" values are
    equal up to the tolerance of a fit.

    Parameters
    ----------
    name : str
        Name of the macro, which takes no arguments and uses the variables given here.
    report : Report

    Returns
    -------
    Markup
        HTML in one line.
    """
    pca = report.pca
    main = report.main
    certificate = report.main_fit.certificate
    pca_losses = [group.observed_loss for group in pca.groups]
    main_losses = [group.observed_loss for group in main.groups]
    # By number of dimensions.
    largest_pca_losses = [float(result.pca_losses.max()) for result in report.curves.dimensions]
    # Results under PCA and under the main model, of groups whose loss increases.
    increased_losses = [
        (before, after)
        for before, after in zip(pca.groups, main.groups, strict=True)
        if after.observed_loss > before.observed_loss * (1 + LOOSE_TOL)
    ]
    main_findings, _ = split_findings(report)  # without those on other models
    context = {
        "report": report,
        "pca": pca,
        "main": main,
        "certificate": certificate,
        "has_bound": isfinite(certificate.lower_bound),
        "error_change": report.relative_error_change(main),
        "version": __version__,
        "worst_group": pca.groups[tied_maxima(pca_losses)[0]],
        "highlighted_group": most_affected_group(pca),
        "dimensions": format_count(pca.n_components, "dimension"),
        "increased_losses": increased_losses,
        "tied_largest": tied_maxima(main_losses),
        "largest_pca_losses": largest_pca_losses,
        "worst_dimension_index": largest_pca_losses.index(max(largest_pca_losses)),
        "harm_by_dimension": harm_by_dimension(report),
        "main_findings": main_findings,
        "inconclusive_state": INCONCLUSIVE,
        "harmless_state": _HARMLESS_STATE,
        "verdict_kinds": _VERDICT_KINDS,
    }
    sentences = _jinja_environment().get_template("sentences.html").make_module(context)
    return Markup(re.sub("[ \n]+", " ", getattr(sentences, name)()).strip())


def harm_by_dimension(report: Report) -> list[tuple[int, Label, float]]:
    """Return the dimensions at which PCA harms a group on new rows.

    Each is a tuple of the dimension, the harmed group with the largest expected loss, and that
    loss.
    """
    harmful = []
    for dimension in report.curves.dimensions:
        losses = [
            (estimates.expected_loss.value, g)
            for g, estimates in enumerate(dimension.pca_estimates)
            if estimates.state == "harmed"
        ]
        if losses:
            loss, g = max(losses)
            harmful.append((dimension.n_components, report.curves.groups[g], loss))
    return harmful


def content_security_policy(style: str, script: str, *, has_displays: bool = False) -> str:
    """Return a content security policy that allows only this style sheet and script.

    Style attributes are allowed because figures use them; group names cannot inject any. Requested
    displays may embed images, such as color maps, as data URLs.

    Examples
    --------
    >>> content_security_policy("", "").split("; ")[0]
    "default-src 'none'"
    """
    image_sources = []
    if has_displays:
        image_sources = ["img-src data:"]
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src '{_hash(script)}'",
            f"style-src-elem '{_hash(style)}'",
            "style-src-attr 'unsafe-inline'",
            *image_sources,
            "base-uri 'none'",
            "form-action 'none'",
        )
    )


def json_for_script(value: object) -> Markup:
    r"""Serialize to JSON that is safe inside a script element.

    Examples
    --------
    >>> print(json_for_script({"name": "</script>"}))
    {"name":"\u003c/script\u003e"}
    """
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return Markup(text.translate(_JSON_ESCAPES))


def _hash(text: str) -> str:
    return "sha256-" + b64encode(sha256(text.encode()).digest()).decode()


# Cached: compiling sentences.html is slow.
@cache
def _jinja_environment() -> Environment:
    """Return the environment of the templates, with filters that format numbers and names."""
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
        format_count,
        format_integer,
        format_level,
        format_number,
        format_parameters,
        format_relative,
        format_share,
    )
    environment.filters |= {function.__name__: function for function in format_filters}
    environment.filters["json"] = json_for_script
    environment.filters["group_name"] = lambda label: display_name(format_group(label))
    environment.filters["with_breaks"] = lambda name: Markup(name_to_html(name))
    return environment


def slider_data(
    report: Report, mark_positions: Sequence[Sequence[SvgPosition]]
) -> dict[str, object]:
    """Build the data of the slider.

    Parameters
    ----------
    report : Report
    mark_positions : sequence of sequences of positions
        Positions, (x, y) in SVG units, of the marks in the slider's figure at each step.

    Returns
    -------
    dict
        `data` contains all steps for the script, with the initial step and those of the buttons;
        `first` is the initial step, that of the main model, and `ends` the labels of the slider's
        ends.
    """
    curves = report.curves
    names = report.group_names
    shortcuts = {"main": curves.main_step}
    if curves.pca_step is not None:
        shortcuts["pca"] = curves.pca_step
    ends = ["fewer dimensions", "more dimensions"]
    if curves.frontier is not None:
        ends = [f"smaller error for {name}" for name in names]
    steps = [
        {
            "label": step.label,
            "announcement": _announcement(step, names),
            "texts": texts.in_order(),
            "marks": marks,
            # Adding zero turns -0.0 into 0.0.
            "loadings": (step.loadings.round(LOADING_DECIMALS) + 0.0).tolist(),
        }
        for step, texts, marks in zip(curves.steps, step_texts(report), mark_positions, strict=True)
    ]
    return {
        "data": {"start": curves.main_step, "shortcuts": shortcuts, "steps": steps},
        "first": steps[curves.main_step],
        "ends": ends,
    }


def _announcement(step: SliderStep, names: Sequence[str]) -> str:
    """Return the text that screen readers announce when the slider reaches a step.

    It gives the error of each of two groups; with more groups, the largest loss and its groups.
    """
    total = f"total error {format_number(step.total_error)}"
    losses = step.losses.tolist()
    if len(names) == 2:
        errors = [
            f"{name} {format_number(error)}" for name, error in zip(names, step.errors, strict=True)
        ]
        return f"{step.label}: error of {', of '.join(errors)}; {total}."
    if max(losses) == 0:
        return f"{step.label}: no group has a loss; {total}."
    tied = describe_tied(names, tied_maxima(losses))
    return f"{step.label}: largest loss {format_number(max(losses))}, of {tied}; {total}."
