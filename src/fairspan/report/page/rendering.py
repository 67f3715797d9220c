"""The audit page: its facts as one self-contained HTML file."""

from __future__ import annotations

import json
from base64 import b64encode
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairspan.errors import MissingDependency
from fairspan.formatting.names import called, parts
from fairspan.report.page.lookups import Facts

if TYPE_CHECKING:
    from jinja2 import Environment

_TEMPLATES = Path(__file__).parent / "template"
# In JSON inside a script element these could end it, or begin a comment.
_ESCAPED = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"}


def page_of(facts: Facts) -> str:
    """Make the audit page of some facts.

    Parameters
    ----------
    facts : mapping
        As `facts_of` makes them.

    Returns
    -------
    str
        HTML that asks for nothing outside itself and works without its script; the same facts give
        the same text.

    Raises
    ------
    MissingDependency
        jinja2 or matplotlib is not installed.
    """
    environment = _environment()
    # They need jinja2's markupsafe.
    from fairspan.report.page.content import content_of
    from fairspan.report.page.short_names import with_short_names

    style, script = (_source(name) for name in ("page.css", "page.js"))
    return environment.get_template("page.html").render(
        **content_of(with_short_names(facts)),
        style=style,
        script=script,
        policy=policy_of(style, script),
    )


def policy_of(style: str, script: str) -> str:
    """A content-security policy that allows this style sheet and this script, and nothing else.

    Attributes of style are allowed: the figures have them, and the names of groups cannot make one.

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
            "base-uri 'none'",
            "form-action 'none'",
        )
    )


def json_for_script(value: Any) -> str:
    r"""JSON that can stand inside a script element.

    Examples
    --------
    >>> json_for_script({"name": "</script>"})
    '{"name":"\\u003c/script\\u003e"}'
    """
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    for char, escape in _ESCAPED.items():
        text = text.replace(char, escape)
    return text


def _source(name: str) -> str:
    return (_TEMPLATES / name).read_text(encoding="utf-8").strip()


def _hash(text: str) -> str:
    return "sha256-" + b64encode(sha256(text.encode()).digest()).decode()


def _environment() -> Environment:
    try:
        from jinja2 import Environment, FileSystemLoader, StrictUndefined
        from markupsafe import Markup
    except ImportError as error:
        raise MissingDependency.for_extra("jinja2", "report", "The audit page") from error
    environment = Environment(
        autoescape=True,
        loader=FileSystemLoader(_TEMPLATES),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"called": called, "parts": parts}
    environment.filters["json"] = lambda value: Markup(json_for_script(value))
    return environment
