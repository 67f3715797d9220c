"""Which pages of the gallery can be built here, and how strictly their code runs."""

import os
import re
import sys
import warnings
from pathlib import Path
from typing import Any

_TABLE = re.compile(r"datasets\.load\(\s*\"(\w+)\"")
_FACES = re.compile(r"datasets\.load_faces\(")

# The filters of warnings as they were before a page.
_filters: list[Any] = []


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


def as_strict_as_tests(gallery_conf: dict[str, Any], page: str, when: str) -> None:
    """Make a warning in a page an error; after it, what other programs warn of is theirs again."""
    import matplotlib as mpl
    from cycler import cycler

    from fairspan.drawing.palette import BLUE, GREEN, ORANGE, PURPLE, STYLE, VERMILION

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
