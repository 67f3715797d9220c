"""Links that lead out of docs/, as they must on a page that is read in the repository.

On the site, the examples are the gallery's pages and the measured results a page of their own; any
other file of the repository is named, not linked.
"""

import re

from sphinx.application import Sphinx

# [words](../path#part), with as many ../ as lead out of docs/
_LINK = re.compile(r"\[([^\]]*)\]\(((?:\.\./)+)([^)#]+)(#[^)]*)?\)")


def on_the_site(text: str, docname: str) -> str:
    """Rewrite a page's links to files of the repository so that they work on the site."""
    depth = docname.count("/")

    def replaced(link: re.Match[str]) -> str:
        words, up, path, part = link.groups()
        if up.count("../") <= depth:
            return link[0]
        to_docs = "../" * depth
        if path.startswith("examples/"):
            page = path.removeprefix("examples/").removesuffix(".py")
            return f"[{words}]({to_docs}gallery/{page or 'index'}.rst)"
        if path == "benchmarks/RESULTS.md":
            return f"[{words}]({to_docs}results.md{part or ''})"
        return f"`{path}`" if words == path else f"{words} (`{path}`)"

    return _LINK.sub(replaced, text)


def _read(app: Sphinx, docname: str, source: list[str]) -> None:
    if app.env.doc2path(docname).suffix == ".md":
        source[0] = on_the_site(source[0], docname)


def setup(app: Sphinx) -> dict[str, bool]:
    """Listen to pages being read."""
    app.connect("source-read", _read)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
