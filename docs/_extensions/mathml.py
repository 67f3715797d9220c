"""Formulas as MathML, which browsers draw themselves: nothing is loaded from anywhere."""

import re
from typing import Any

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.math import get_node_equation_number

_logger = logging.getLogger(__name__)


def _mathml(node: nodes.Element, as_block: bool) -> str:
    try:
        return _spaced(tex2mathml(_names(node.astext().strip()), as_block=as_block))
    except MathError as error:
        _logger.warning("formula %r: %s", node.astext(), error, location=node)
        return f"<code>{nodes.unescape(node.astext())}</code>"


def _names(formula: str) -> str:
    r"""Names in code, \texttt{trade\_off}, which docutils does not know, as text."""
    return re.sub(r"\\texttt(\{.*?\})", lambda m: r"\text" + m[1].replace(r"\_", "_"), formula)


def _spaced(mathml: str) -> str:
    """Insert a thin space between a function's name and its argument if no bracket follows."""
    return re.sub(
        r"(<mo>&ApplyFunction;</mo>)(?!\s*<mo[^>]*>[(\[|])", r'\1<mspace width="0.17em"/>', mathml
    )


def _inline(translator: Any, node: nodes.math) -> None:
    translator.body.append(_mathml(node, as_block=False))
    raise nodes.SkipNode


def _block(translator: Any, node: nodes.math_block) -> None:
    translator.body.append(translator.starttag(node, "div", CLASS="math formula"))
    translator.body.append(_mathml(node, as_block=True))
    if node["number"]:
        number = get_node_equation_number(translator, node)
        translator.body.append(f'<span class="eqno">({number})')
        translator.add_permalink_ref(node, "Link to this equation")
        translator.body.append("</span>")
    translator.body.append("</div>")
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the renderer."""
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
