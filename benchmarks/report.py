"""The file of results: one section a benchmark, each with its date, machine and plots."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.results import machine
from fairspan.storage.atomic import open_atomic

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RESULTS = Path(__file__).with_name("RESULTS.md")
_PLOTS = "plots"
_HEAD = """# Measured results

Made by `./run bench`, which anybody can repeat; `./run bench --only NAME` measures one section.
Times are medians of runs taken in turns in one process, so ratios can be trusted where seconds
cannot: they are of the machine that a section names, with all its cores unless it says otherwise.
"""


@dataclass(frozen=True)
class Measured:
    """What a benchmark found.

    Attributes
    ----------
    text : str
        Markdown.
    packages : tuple of str
        Whose versions matter.
    figures : mapping of str to callable
        Name of a plot to what draws it.
    """

    text: str
    packages: tuple[str, ...] = ("fairspan", "numpy", "scipy", "scikit-learn")
    figures: Mapping[str, Callable[["Figure"], None]] = field(default_factory=dict)


def section_of(measured: Measured, note: str = "") -> str:
    """The body of a section: date, machine, a note if any, text, and where its plots are."""
    head = " ".join([f"{date.today()}. {machine(measured.packages)}.", note]).strip()
    plots = [f"![{name}]({_PLOTS}/{name}.png)" for name in measured.figures]
    # The style of per cent that all pages have.
    text = re.sub(r"(?<=\d)%", " %", measured.text.strip())
    return "\n\n".join([head, text, *plots])


def sections_in(path: Path) -> dict[str, str]:
    """Bodies of the sections of a file of results by their titles; none if there is no file."""
    if not path.exists():
        return {}
    _, *parts = re.split(r"^## (.+)\n", path.read_text(encoding="utf-8"), flags=re.M)
    return {
        title.strip(): body.strip() for title, body in zip(parts[::2], parts[1::2], strict=True)
    }


def write_sections(sections: Mapping[str, str], path: Path) -> None:
    """Write the file of results; it appears only when it is complete."""
    bodies = [f"## {title}\n\n{body.strip()}\n" for title, body in sections.items()]
    path.parent.mkdir(parents=True, exist_ok=True)
    with open_atomic(path) as file:
        file.write("\n".join([_HEAD, *bodies]).encode())


def write_figures(measured: Measured, results: Path) -> None:
    """Draw the plots into the folder beside the file of results."""
    if not measured.figures:
        return
    from matplotlib.figure import Figure  # machines for the GPU part alone may do without

    folder = results.parent / _PLOTS
    for name, draw in measured.figures.items():
        folder.mkdir(parents=True, exist_ok=True)
        figure = Figure(figsize=(7, 4.2), layout="constrained")
        draw(figure)
        with open_atomic(folder / f"{name}.png") as file:
            figure.savefig(file, format="png", dpi=130, metadata={"Software": None})
