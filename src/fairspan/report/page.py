"""Rendering of a report as a self-contained HTML page."""

import json
import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from fairspan.auditing.decision_notes import negative_loss_note
from fairspan.auditing.group_names import format_group
from fairspan.auditing.intervals import share_of
from fairspan.formatting.export import to_json_value
from fairspan.formatting.names import describe_tied, display_name, format_parameters, readable_name
from fairspan.formatting.numbers import (
    format_count,
    format_integer,
    format_level,
    format_number,
    format_relative,
    format_share,
)
from fairspan.formatting.table import Table, name_to_html
from fairspan.report import figures
from fairspan.report.report import Report
from fairspan.report.sentence_context import sentence_context, split_findings
from fairspan.report.shares import shares_of_variances
from fairspan.report.slider_data import SliderStep
from fairspan.report.svg_figures import PageFigure, SvgPosition, draw_figure
from fairspan.report.tables.all_tables import report_tables
from fairspan.report.tables.slider_tables import LOADING_DECIMALS, step_texts
from fairspan.report.tables.table_columns import tied_maxima
from fairspan.report.tables.user_model_tables import user_model_table
from fairspan.rows.labels import printable

_TEMPLATES = Path(__file__).parent / "template"
# Characters that could close a script element or open a comment.
_JSON_ESCAPES = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})
# Parts omitted from the JSON download: displays, slider data, data shown in tables, and changes,
# which are also in the groups of the models.
_EXCLUDED_FROM_DOWNLOAD = (
    "slider",
    "displays",
    "by_dimension",
    "changes",
    "feature_errors",
    "verification",
)
# Significant digits of the JSON download: with nine it has half the size of the full precision.
_DOWNLOAD_DIGITS = 9
_NBSP = "\u00a0"
_CODE_OR_TAG_OR_SPACE = re.compile(
    r"(?P<markup><(?P<name>style|script|pre|code)\b.*?</(?P=name)>|<[^>]*>)|(?<=\d) (?=%)", re.S
)
# An option of the command line, such as --clusters.
_OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
# Number of features listed on the page: more names would be most of its size.
_MAX_LISTED_FEATURES = 1000


def render_page(report: Report) -> str:
    """Render a report as HTML.

    Returns
    -------
    str
        HTML without external resources that works without JavaScript; the output is deterministic.
    """
    return render_template("page.html", _page_context(report))


def render_template(name: str, context: Mapping[str, object]) -> str:
    """Render a template of a page with its variables."""
    return keep_percent_signs(_jinja_environment().get_template(name).render(context))


def keep_percent_signs(html: str) -> str:
    """Replace the space between a number and its percent sign, so that no line ends between them.

    Only text is changed, not attributes, style sheets, scripts or code.

    Examples
    --------
    >>> keep_percent_signs("<p title='1 %'>1 %</p><pre>1 %</pre>").replace(_NBSP, "~")
    "<p title='1 %'>1~%</p><pre>1 %</pre>"
    """
    return _CODE_OR_TAG_OR_SPACE.sub(lambda match: match["markup"] or _NBSP, html)


def _page_context(report: Report) -> dict[str, object]:
    """Return the variables of page.html, the template of the page.

    With two groups, the slider runs along the frontier, and the figure of dimensions is shown in
    addition; otherwise the slider runs over the dimensions. Figures that do not apply are None,
    such as the comparison of losses with PCA if PCA is the main model.
    """
    style = read_template("page.css")
    script = read_template("page.js")
    dimensions_figure = figures.dimensions_figure(report)
    slider_figure = dimensions_figure
    other_dimensions_figure = None
    if report.curves.frontier is not None:
        slider_figure = figures.frontier_figure(report)
        other_dimensions_figure = dimensions_figure
    losses_figure = None if report.main.is_pca else figures.losses_figure(report)
    expected_figure = figures.summary_figure(report) if report.has_estimates else None
    repair_figure = figures.repair_figure(report) if report.has_estimates else None
    main_findings, other_findings = split_findings(report)
    return {
        "report": report,
        "title": report.shorten_names(printable(report.provenance.title)),
        "main": report.main.name,
        "has_estimates": report.has_estimates,
        "sentence": lambda name: render_sentence(name, report),
        "shorten_names": report.shorten_names,
        "tables": report_tables(report),
        "negative_loss_note": negative_loss_note(report.audit.models),
        "listed_features": report.feature_names[:_MAX_LISTED_FEATURES],
        "user_model_tables": _user_model_tables(report),
        "pca_figure": figures.pca_errors_figure(report),
        "losses_figure": losses_figure,
        "expected_figure": expected_figure,
        "repair_figure": repair_figure,
        "correlation_figure": figures.correlation_figure(report),
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


def options_as_code(text: str) -> Markup:
    """Format the options of the command line in a text as code, which no line ends within.

    Examples
    --------
    >>> options_as_code("Name it (--clusters COL).")
    Markup('Name it (<code>--clusters</code> COL).')
    """
    return Markup(_OPTION.sub(r"<code>\g<0></code>", str(escape(text))))


def read_template(name: str) -> str:
    """Return the text of a style sheet or script of the pages."""
    return (_TEMPLATES / name).read_text(encoding="utf-8").strip()


def _user_model_tables(report: Report) -> list[Table]:
    if report.user_models is None:
        return []
    audit = report.user_models.audit
    return [user_model_table(model, audit.findings) for model in audit.models]


def _display_figures(report: Report) -> list[PageFigure]:
    page_figures = []
    for i, (name, display) in enumerate(report.displays):
        title = readable_name(name)
        page_figures.append(draw_figure(display, f"x{i}", f"{title}.", title, keep_title=True))
    return page_figures


def _download_json(report: Report) -> Markup:
    """Return the JSON that the page offers for download, with very long names shortened."""
    included = {
        key: value for key, value in report.to_dict().items() if key not in _EXCLUDED_FROM_DOWNLOAD
    }
    text = json_for_script(to_json_value(included, _DOWNLOAD_DIGITS))

    def escape_name(name: str) -> str:
        return json_for_script(name)[1:-1]  # without the quotation marks

    return Markup(report.shorten_names(str(text), escape_name))


def render_sentence(name: str, report: Report) -> Markup:
    """Render the sentence that a macro of sentences.html makes from the results.

    Parameters
    ----------
    name : str
        Name of the macro, which takes no arguments and uses the variables of `sentence_context`.
    report : Report

    Returns
    -------
    Markup
        HTML in one line.
    """
    template = _jinja_environment().get_template("sentences.html")
    sentences = template.make_module(sentence_context(report))
    return Markup(re.sub("[ \n]+", " ", getattr(sentences, name)()).strip())


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
            f"script-src '{_policy_hash(script)}'",
            f"style-src-elem '{_policy_hash(style)}'",
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


def _policy_hash(text: str) -> str:
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
    environment.filters["with_options"] = options_as_code
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
            "announcement": _announcement(step, report),
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


def _announcement(step: SliderStep, report: Report) -> str:
    """Return the text that screen readers announce when the slider reaches a step.

    It gives the error of each of two groups; with more groups, the largest loss and its groups.
    Both are in per cent of the variance of the group. It also names the model.
    """
    names = report.group_names
    total = f"total error {format_share(share_of(step.total_error, report.pca.total_variance))}"
    losses = shares_of_variances(step.losses, report.pca).tolist()
    subject = f"{step.label}, on your rows"
    if report.curves.frontier is None:
        subject = f"{report.main.name} with {subject}"
    if len(names) == 2:
        shares = shares_of_variances(step.errors, report.pca).tolist()
        errors = [
            f"{name} {format_share(share)}" for name, share in zip(names, shares, strict=True)
        ]
        return f"{subject}: error of {', of '.join(errors)}; {total}."
    if max(losses) == 0:
        return f"{subject}: no group has a loss; {total}."
    tied = describe_tied(names, tied_maxima(losses))
    return f"{subject}: largest loss {format_share(max(losses))}, of {tied}; {total}."
