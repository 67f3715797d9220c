"""RESULTS.md: one section for each benchmark, with its date, machine and plots."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.measurement import describe_machine
from fairspan.storage.atomic import open_atomic

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RESULTS = Path(__file__).with_name("RESULTS.md")
_PLOTS = "plots"
_HEAD = """# Measured results

Written by `./run bench`, which anybody can repeat; `./run bench --only NAME` measures one section.
Times are medians of runs taken in turns in one process, so ratios can be trusted where seconds
cannot: they are of the machine that a section names, with all its cores unless it says otherwise.
"""


@dataclass(frozen=True)
class SectionContent:
    """Content of one section of the results.

    Attributes
    ----------
    text : str
        Markdown.
    packages : tuple of str
        Packages whose versions the section states.
    figures : mapping of str to callable
        Name of each plot to the function that draws it into a figure.
    """

    text: str
    packages: tuple[str, ...] = ("fairspan", "numpy", "scipy", "scikit-learn")
    figures: Mapping[str, Callable[["Figure"], None]] = field(default_factory=dict)


def format_section(content: SectionContent, note: str = "") -> str:
    """Return the body of a section: date, machine, the note if any, text, and links to plots."""
    head = " ".join([f"{date.today()}. {describe_machine(content.packages)}.", note]).strip()
    plots = [f"![{name}]({_PLOTS}/{name}.png)" for name in content.figures]
    # The pages write per cent with a space.
    text = re.sub(r"(?<=\d)%", " %", content.text.strip())
    return "\n\n".join([head, text, *plots])


def read_sections(path: Path) -> dict[str, str]:
    """Return the body of each section of a results file by its title; empty without a file."""
    if not path.exists():
        return {}
    _, *parts = re.split(r"^## (.+)\n", path.read_text(encoding="utf-8"), flags=re.M)
    return {
        title.strip(): body.strip() for title, body in zip(parts[::2], parts[1::2], strict=True)
    }


def write_sections(sections: Mapping[str, str], path: Path) -> None:
    """Replace the results file in one step, so that it is never incomplete."""
    bodies = [f"## {title}\n\n{body.strip()}\n" for title, body in sections.items()]
    path.parent.mkdir(parents=True, exist_ok=True)
    with open_atomic(path) as file:
        file.write("\n".join([_HEAD, *bodies]).encode())


def write_figures(content: SectionContent, results: Path) -> None:
    """Draw the plots of a section into the folder `plots` next to the results file."""
    if not content.figures:
        return
    from matplotlib.figure import Figure  # optional where only the benchmark of GPUs runs

    folder = results.parent / _PLOTS
    for name, draw in content.figures.items():
        folder.mkdir(parents=True, exist_ok=True)
        figure = Figure(figsize=(7, 4.2), layout="constrained")
        draw(figure)
        with open_atomic(folder / f"{name}.png") as file:
            figure.savefig(file, format="png", dpi=130, metadata={"Software": None})
