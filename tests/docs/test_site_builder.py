"""What builds the documentation: formulas, links, pictures, and the check of the built pages."""

import re
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from docutils import nodes

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "docs" / "_extensions"))
from gallery import SECTIONS, in_sections  # noqa: E402
from mathml import _mathml  # noqa: E402
from picture import blocks_above, figure_of, last_value  # noqa: E402
from repository_links import on_the_site  # noqa: E402
from self_contained import alike, faults  # noqa: E402

PAGES = sorted((ROOT / "docs").rglob("*.md"))
# $$ and $ outside of code.
_CODE = re.compile(r"^(```|~~~).*?^\1|`[^`\n]*`", re.S | re.M)
_FORMULA = re.compile(r"\$\$(.+?)\$\$|(?<![\\$])\$([^$\n]+?)\$", re.S)


def formulas(page):
    text = _CODE.sub("", page.read_text(encoding="utf-8"))
    return [block or inline for block, inline in _FORMULA.findall(text)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_formula_of_a_page_is_mathml(page):
    for formula in formulas(page):
        made = _mathml(nodes.math("", formula), as_block=False)
        assert ElementTree.fromstring(made.replace("&ApplyFunction;", "")).tag.endswith("math")


def test_formulas_are_found():
    assert sum(len(formulas(page)) for page in PAGES) > 100


def test_names_of_code_in_formulas_are_text():
    made = _mathml(nodes.math("", r"t = \texttt{trade\_off}"), as_block=False)
    assert "<mtext>trade_off</mtext>" in made


def test_a_function_without_a_bracket_is_set_apart():
    assert "mspace" in _mathml(nodes.math("", r"\operatorname{tr} S"), as_block=False)
    assert "mspace" not in _mathml(nodes.math("", r"\operatorname{tr}(S)"), as_block=False)


def test_a_formula_that_is_none_is_shown_as_it_is_written():
    assert _mathml(nodes.math("", r"\nonsense"), as_block=False) == r"<code>\nonsense</code>"


@pytest.mark.parametrize(
    ("docname", "link", "expected"),
    [
        ("scale", "[a](../examples/federated.py)", "[a](gallery/federated.rst)"),
        ("guide/x", "[a](../../examples/federated.py)", "[a](../gallery/federated.rst)"),
        ("guide/x", "[a](../../benchmarks/RESULTS.md#peak)", "[a](../results.md#peak)"),
        ("guide/x", "[a](../scale.md#part)", "[a](../scale.md#part)"),
        ("scale", "[the tests](../tests/problems.py)", "the tests (`tests/problems.py`)"),
        ("scale", "[a](findings.md)", "[a](findings.md)"),
    ],
)
def test_links_out_of_the_documentation_lead_to_pages_of_the_site(docname, link, expected):
    assert on_the_site(link, docname) == expected


def test_a_plot_is_the_value_of_its_last_line():
    assert last_value("a = 1\nprint(a)\na + 1", "page") == 2


@pytest.mark.parametrize("code", ["a = 1", "", "for a in (1,):\n    a"])
def test_a_plot_must_end_with_an_expression(code):
    with pytest.raises(ValueError, match="expression"):
        last_value(code, "page")


def test_a_plot_that_warns_fails():
    with pytest.raises(UserWarning, match="beware"):
        last_value("import warnings\nwarnings.warn('beware')\n1", "page")


def test_a_plot_must_be_a_display_or_a_figure():
    with pytest.raises(ValueError, match="not int"):
        figure_of(1)


def test_a_plot_can_go_on_from_the_blocks_above_it():
    page = (
        "```python\na = 1\n```\n\n```text\nno\n```\n\n```{plot}\na\n```\n\n```python\nb = 2\n```\n"
    )
    assert blocks_above(page, 9).strip() == "a = 1"


@pytest.mark.parametrize(
    ("html", "fault"),
    [
        ('<script src="https://cdn.example/x.js"></script>', "from outside"),
        ('<link rel="stylesheet" href="//fonts.example/x.css">', "from outside"),
        ('<img src="a.png" srcset="https://img.example/a.png 2x">', "from outside"),
        ('<img src="absent.png">', "not there"),
        ('<a href="absent.html#part">', "not there"),
        ('<a href="https://example.org">a link in text</a>', None),
        ('<link rel="canonical" href="https://example.org">', None),
        ('<a href="page.html#part"><img src="data:image/png;base64,xyz">', None),
    ],
)
def test_what_pages_load_from_outside_and_dead_links_are_found(tmp_path, html, fault):
    (tmp_path / "a.png").touch()
    (tmp_path / "page.html").write_text(html)
    found = list(faults(tmp_path))
    assert len(found) == (fault is not None)
    assert all(fault in each for each in found)


def test_styles_that_load_from_outside_are_found(tmp_path):
    (tmp_path / "site.css").write_text("a { background: url('https://example.org/a.png') }")
    assert len(list(faults(tmp_path))) == 1


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (("api/audit.html", "api/Audit.html"), ["api/audit.html and api/Audit.html"]),
        (("api/audit.html", "API/audits.html", "audit.html"), []),
    ],
)
def test_addresses_that_differ_by_case_alone_are_found(names, found):
    assert list(alike(names)) == [f"{each} differ by case alone" for each in found]


def test_the_gallery_has_a_heading_above_the_first_page_of_each_section():
    raw = ".. raw:: html\n\n    "
    pages = [page for pages in SECTIONS.values() for page in pages]
    thumbnails = [
        f'{raw}<div class="sphx-glr-thumbcontainer" x>\n\n  :doc:`/gallery/{page}`\n\n'
        for page in pages
    ]
    head = f'Gallery\n=======\n\nWords.\n\n{raw}<div class="sphx-glr-thumbnails">\n\n.. open\n\n'
    made = in_sections("".join([head, *thumbnails, f"{raw}</div>\n"]))
    assert re.findall(r"^(.+)\n---", made, re.M) == list(SECTIONS)
    assert re.findall(r":doc:`/gallery/(\w+)`", made) == pages
    assert made.count('<div class="sphx-glr-thumbnails">') == len(SECTIONS) == made.count("</div>")
