"""Which pages of the gallery can be built here, and how strictly their code runs."""

import ast
import os
import re
import sys
import warnings
from pathlib import Path
from typing import Any

_TABLE = re.compile(r"datasets\.load\(\s*\"(\w+)\"")
_FACES = re.compile(r"datasets\.load_faces\(")

# What goes wrong, what can be done, what it costs, why it is proven, and what else there is.
ORDER = (
    "plot_pca_costs_one_group_more",
    "plot_repair_is_cheap",
    "plot_faces",
    "plot_every_criterion_on_one_curve",
    "plot_equal_losses_are_not_equal_errors",
    "plot_gap_against_penalty",
    "plot_disparity_overshoots",
    "plot_six_groups_and_the_bound",
    "plot_intersections",
    "plot_share_for_every_group",
    "plot_hiding_is_not_serving",
    "plot_nonlinear_hiding",
    "plot_permuted_labels",
    "plot_audit_held_out_rows",
    "plot_robust_radius",
    "plot_regression_on_fair_components",
    "plot_verify_a_certificate",
    "plot_no_extra_dimension",
    "federated",
    "plot_ucb1_regret",
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


def files_needed(code: str) -> list[str]:
    """The files of the data folder that a page reads."""
    faces = ["lfw.npz"] if _FACES.search(code) else []
    return faces + [f"{name}.parquet" for name in _TABLE.findall(code)]


def absent_files(names: list[str], page: str = "a picture") -> list[str]:
    """Those that the data folder does not hold: what needs them is left out, loudly.

    With FAIRSPAN_REQUIRE_DATA, as in CI, an absent file ends the build.
    """
    folder = Path(os.environ["FAIRSPAN_DATA"])
    absent = [name for name in names if not (folder / name).exists()]
    if absent:
        reason = f"{page} needs {', '.join(absent)}, which {folder} does not hold"
        if os.environ.get("FAIRSPAN_REQUIRE_DATA"):
            raise SystemExit(f"{reason} (set FAIRSPAN_DATA)")
        print(f"############ {reason}: LEFT OUT (set FAIRSPAN_DATA) ############", file=sys.stderr)
    return absent


def pages_without_data(examples: Path) -> str:
    """A pattern of the pages whose data are absent."""
    left_out = []
    for page in sorted(examples.glob("*.py")):
        if absent_files(files_needed(page.read_text(encoding="utf-8")), page.name):
            left_out.append(re.escape(page.name))
    return "|".join([*left_out, r"__init__\.py"])


def pictures(block: Any, block_vars: dict[str, Any], gallery_conf: dict[str, Any]) -> str:
    """What a block draws; in words it says what the page claims."""
    from sphinx_gallery.scrapers import matplotlib_scraper

    claim = ast.get_docstring(ast.parse(Path(block_vars["src_file"]).read_text(encoding="utf-8")))
    title = (claim or "").splitlines()[0]
    drawn = matplotlib_scraper(block, block_vars, gallery_conf)
    return re.sub(r":alt: .*", lambda _: f":alt: {title}", drawn)


def as_strict_as_tests(gallery_conf: dict[str, Any], page: str, when: str) -> None:
    """Make a warning in a page an error; after it, what other programs warn of is theirs again."""
    import matplotlib as mpl
    from cycler import cycler

    from fairspan.drawing.labels import BLUE, GREEN, ORANGE, PURPLE, STYLE, VERMILION

    if when == "after":
        warnings.filters[:] = _filters
        return
    _filters[:] = warnings.filters
    warnings.simplefilter("error")
    # A page shows its pictures at the end, for those who run it at a screen; here there is none.
    warnings.filterwarnings("ignore", message="FigureCanvasAgg is non-interactive")
    colours = cycler(color=[BLUE, VERMILION, GREEN, PURPLE, ORANGE])
    sizes = {"figure.figsize": (7.0, 4.2), "figure.dpi": 100, "savefig.dpi": 100}
    mpl.rcParams.update({**STYLE, **sizes, "axes.prop_cycle": colours})
