"""The pages of the gallery in their sections, and how strictly their code runs."""

import ast
import re
import warnings
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

# The gallery's sections, and the pages of each in order.
SECTIONS = {
    "What PCA does to groups": (
        "plot_pca_costs_one_group_more",
        "plot_repair_is_cheap",
        "plot_digits",
        "plot_six_groups_and_the_bound",
        "plot_intersections",
    ),
    "What each criterion does": (
        "plot_every_criterion_on_one_curve",
        "plot_equal_losses_are_not_equal_errors",
        "plot_gap_against_penalty",
        "plot_disparity_overshoots",
        "plot_robust_radius",
        "plot_share_for_every_group",
    ),
    "What new rows show": (
        "plot_permuted_labels",
        "plot_audit_held_out_rows",
        "plot_slices",
        "plot_watch_a_model",
    ),
    "Hiding a group": (
        "plot_hiding_is_not_serving",
        "plot_nonlinear_hiding",
        "plot_uncorrelated_with_age",
    ),
    "Why the answers are optimal": (
        "plot_verify_a_certificate",
        "plot_no_extra_dimension",
        "plot_bound_for_nmf",
    ),
    "After the projection, and around it": (
        "plot_biplot",
        "plot_regression_on_fair_components",
        "plot_missing_cells",
        "federated",
        "plot_ucb1_regret",
    ),
}
ORDER = tuple(page for pages in SECTIONS.values() for page in pages)
_THUMBNAIL = r'\.\. raw:: html\n\n    <div class="sphx-glr-thumbcontainer'
_CLOSED, _OPENED = (
    f".. raw:: html\n\n    {tag}\n\n" for tag in ("</div>", '<div class="sphx-glr-thumbnails">')
)

# The filters of warnings as they were before a page.
_filters: list[Any] = []


class InOrder:
    """Where a page stands in the gallery."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def __call__(self, name: str) -> int:
        """Its place."""
        return ORDER.index(name.removesuffix(".py"))


def in_sections(index: str) -> str:
    """Insert into the gallery's contents a heading above the first thumbnail of each section."""
    head, *thumbnails = re.split(f"(?=^{_THUMBNAIL})", index, flags=re.M)
    parts = [head[: head.rindex(_OPENED.rstrip())]]
    titles = {page: title for title, pages in SECTIONS.items() for page in pages}
    current = ""
    for thumbnail in thumbnails:
        title = titles[re.findall(r":doc:`/gallery/(\w+)`", thumbnail)[0]]
        if title != current:
            parts += [_CLOSED if current else "", f"{title}\n{'-' * len(title)}\n\n", _OPENED]
            current = title
        parts.append(thumbnail)
    return "".join(parts)


def pictures(block: Any, block_vars: dict[str, Any], gallery_conf: dict[str, Any]) -> str:
    """Scrape the figures of a block, with the page's claim as their alternative text."""
    from sphinx_gallery.scrapers import matplotlib_scraper

    claim = ast.get_docstring(ast.parse(Path(block_vars["src_file"]).read_text(encoding="utf-8")))
    title = (claim or "").splitlines()[0]
    drawn = matplotlib_scraper(block, block_vars, gallery_conf)
    return re.sub(r":alt: .*", lambda _: f":alt: {title}", drawn)


def as_strict_as_tests(gallery_conf: dict[str, Any], page: str, when: str) -> None:
    """Make a warning in a page an error; after it, what other programs warn of is theirs again."""
    import matplotlib as mpl
    from cycler import cycler

    from fairspan.displays.style import BLUE, GREEN, ORANGE, PURPLE, STYLE, VERMILION

    if when == "after":
        warnings.filters[:] = _filters
        return
    _filters[:] = warnings.filters
    warnings.simplefilter("error")
    # A page shows its pictures at the end, for those who run it at a screen; here there is none.
    warnings.filterwarnings("ignore", message="FigureCanvasAgg is non-interactive")
    colors = cycler(color=[BLUE, VERMILION, GREEN, PURPLE, ORANGE])
    sizes = {"figure.figsize": (7.0, 4.2), "figure.dpi": 100, "savefig.dpi": 100}
    mpl.rcParams.update({**STYLE, **sizes, "axes.prop_cycle": colors})


def _write_sections(app: Sphinx) -> None:
    index = Path(app.srcdir) / "gallery" / "index.rst"
    index.write_text(in_sections(index.read_text(encoding="utf-8")), encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    """Divide the contents into sections once sphinx-gallery has written them."""
    app.connect("builder-inited", _write_sections, priority=600)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
