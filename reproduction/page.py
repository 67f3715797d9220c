"""docs/reproduced.md: the results in results/, ours next to the printed ones.

``python -m reproduction.page`` writes the page again from the results; with names of experiments it
runs these first and keeps what they give: ``python -m reproduction.page --effort full vu-table1``.
"""

import datetime
import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click

from reproduction.command import _data_folder, reproduce_experiment
from reproduction.registry import EXPERIMENTS, experiment_of
from reproduction.writing import format_cell

HERE = Path(__file__).parent
RESULTS = HERE / "results"
PAGE = HERE.parent / "docs" / "reproduced.md"
_EFFORTS = {
    "quick": "a part",
    "normal": "everything, with the shortcuts in the notes",
    "full": "everything that the paper did",
}
_HEAD = """# The papers, reproduced

This page compares tables and figures of the sources with our results, and explains differences
where a cause is known. Each row of the first table is a run whose result is stored in the
repository, in `reproduction/results`. In a clone, `./run reproduce NAME` computes it again, and
`--full` does everything that the paper did; `python -m reproduction.page NAME` stores the result
and writes this page. [From the papers to the call](from-the-papers.md) names the call for each
definition and figure, and explains [words of the sources](from-the-papers.md#words-of-the-sources)
such as RFPCA, ARE and ABDiff.

"""


def format_page(results: Sequence[dict[str, Any]]) -> str:
    """Return the page, from the stored results in the order of the experiments."""
    lines = ["| result | source | run | date |", "|--|--|--|--|"]
    for result in results:
        link = f"[{result['title']}](#{result['name']})"
        effort = _EFFORTS[result["effort"]]
        lines.append(f"| {link} | {result['source']} | {effort} | {result['date']} |")
    sections = []
    first_results: dict[str, dict[str, Any]] = {}
    for result in results:
        sections.append(_section(result, first_results))
        for note in result["notes"]:
            first_results.setdefault(note, result)
    return _HEAD + "\n".join(lines) + "\n\n" + "\n".join(sections)


def _section(result: dict[str, Any], first_results: Mapping[str, dict[str, Any]]) -> str:
    """Return the section of a result, with a link in place of the notes of earlier sections.

    Parameters
    ----------
    result : dict
    first_results : mapping of str to dict
        Earlier result that has a note, by note.
    """
    head = [f"({result['name']})=", f"## {result['title']}", ""]
    head += [f"{result['source']}; `./run reproduce {result['name']}`.", ""]
    new_notes = [note for note in result["notes"] if note not in first_results]
    earlier = [first_results[note] for note in result["notes"] if note in first_results]
    # Pages have a space before a per-cent sign, and a terminal none.
    items = [re.sub(r"(\d)%", r"\1 %", note) for note in new_notes]
    # Each earlier section once, in the order of the page.
    links = dict.fromkeys(f"[{first['title']}](#{first['name']})" for first in earlier)
    if links:
        items.append(f"Other notes are those of {' and '.join(links)}.")
    head += [*(f"- {item}" for item in items), ""] if items else []
    rows = [[format_cell(cell).replace("|", "\\|") for cell in row] for row in result["rows"]]
    table = ["| " + " | ".join(cells) + " |" for cells in ([*result["columns"]], *rows)]
    table.insert(1, "|" + "--|" * len(result["columns"]))
    return "\n".join([*head, *table, ""])


def stored_results() -> list[dict[str, Any]]:
    """Return the stored results."""
    paths = [RESULTS / f"{name}.json" for name in EXPERIMENTS]
    return [json.loads(path.read_text(encoding="utf-8")) for path in paths if path.exists()]


def store_result(name: str, effort: str, data: Path | None) -> None:
    """Run an experiment and keep its result."""
    experiment = experiment_of(name)
    with TemporaryDirectory() as folder:
        result, *_ = reproduce_experiment(
            experiment, _data_folder(experiment, data), effort, Path(folder)
        )
    facts = {
        "name": name,
        "title": result.title,
        "source": experiment.source,
        "effort": effort,
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "columns": result.columns,
        "notes": result.notes,
    }
    # A row on each line, so that changes can be read.
    rows = ",\n".join(f"  {json.dumps(row)}" for row in result.rows)
    text = json.dumps(facts, indent=1)[:-2] + f',\n "rows": [\n{rows}\n ]\n}}\n'
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.json").write_text(text, encoding="utf-8")


@click.command()
@click.argument("names", nargs=-1)
@click.option("--effort", type=click.Choice(list(_EFFORTS)), default="normal")
@click.option("--data", type=click.Path(file_okay=False, path_type=Path), envvar="FAIRSPAN_DATA")
def write_page(names: tuple[str, ...], effort: str, data: Path | None) -> None:
    """Run the experiments NAMES, keep their results, and write docs/reproduced.md."""
    for name in names:
        store_result(name, effort, data)
    PAGE.write_text(format_page(stored_results()), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(write_page())
