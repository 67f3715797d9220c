"""The directive `plot`: Python code, and the picture that it draws when the pages are built.

The code runs as a cell of a notebook does: its last expression is the picture, an object with a
`figure_` (a display) or a matplotlib figure. `:alt:` says in words what is to be seen. The code is
shown above the picture unless `:hide-code:` is given. With `:continues:` the blocks of Python
above it run first.
"""

import ast
import contextlib
import hashlib
import io
import os
import re
import tempfile
import warnings
from pathlib import Path
from typing import Any, ClassVar

import matplotlib as mpl

mpl.use("Agg")

from docutils import nodes
from docutils.parsers.rst import directives
from matplotlib import pyplot
from matplotlib.figure import Figure
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

# The same picture is the same file, byte for byte.
_STYLE = {"svg.hashsalt": "fairspan", "savefig.bbox": "tight", "savefig.facecolor": "white"}
_BLOCK = re.compile(r"^```python\n(.*?)^```", re.S | re.M)


def blocks_above(page: str, line: int) -> str:
    """Return the Python code blocks of a page above a line."""
    return "\n".join(_BLOCK.findall("\n".join(page.splitlines()[: line - 1])))


def last_value(code: str, name: str) -> Any:
    """Run code with warnings as errors; the value of its last expression."""
    tree = ast.parse(code, name)
    if not tree.body or not isinstance(tree.body[-1], ast.Expr):
        raise ValueError("the last line of a plot must be the picture: an expression")
    last = ast.Expression(tree.body.pop().value)
    namespace: dict[str, Any] = {"__name__": "plot"}
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("error")
        exec(compile(tree, name, "exec"), namespace)
        return eval(compile(last, name, "eval"), namespace)


def figure_of(value: Any) -> Figure:
    """Return the matplotlib figure of a plot's last value."""
    figure = getattr(value, "figure_", value)
    if not isinstance(figure, Figure):
        raise ValueError(f"a plot must end with a display or a figure, not {type(value).__name__}")
    return figure


class Plot(SphinxDirective):
    """Draw a picture, and show it with what it says in words."""

    has_content = True
    option_spec: ClassVar[dict[str, Any]] = {
        "alt": directives.unchanged_required,
        "hide-code": directives.flag,
        "caption": directives.unchanged,
        "continues": directives.flag,
    }

    def run(self) -> list[nodes.Node]:
        """Return the code, unless it is hidden, and the picture."""
        if "alt" not in self.options:
            raise self.error("a plot needs :alt:, what is to be seen in words")
        code = "\n".join(self.content)
        try:
            path = self._drawn(code)
        except Exception as error:
            raise self.error(f"this plot fails: {type(error).__name__}: {error}") from error
        uri = "/" + os.path.relpath(path, self.env.srcdir).replace(os.sep, "/")
        figure = nodes.figure("", nodes.image(uri=uri, alt=self.options["alt"]), classes=["plot"])
        if "caption" in self.options:
            words, _ = self.state.inline_text(self.options["caption"], self.lineno)
            figure += nodes.caption("", "", *words)
        shown = [] if "hide-code" in self.options else [nodes.literal_block(code, code)]
        for block in shown:
            block["language"] = "python"
        return [*shown, figure]

    def _drawn(self, code: str) -> Path:
        folder = Path(self.env.doctreedir).parent / "plots"
        folder.mkdir(parents=True, exist_ok=True)
        name = (
            f"{self.env.docname.replace('/', '-')}-{hashlib.sha256(code.encode()).hexdigest()[:8]}"
        )
        path = folder / f"{name}.svg"
        above = ""
        if "continues" in self.options:
            page = Path(self.env.doc2path(self.env.docname)).read_text(encoding="utf-8")
            above = blocks_above(page, self.lineno)
        # What a page writes, it writes elsewhere.
        with tempfile.TemporaryDirectory() as elsewhere, contextlib.chdir(elsewhere):
            figure = figure_of(last_value(f"{above}\n{code}", self.env.docname))
        with mpl.rc_context(_STYLE):
            figure.savefig(path, metadata={"Date": None, "Creator": None})
        pyplot.close("all")
        return path


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("plot", Plot)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
