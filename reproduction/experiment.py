"""The interface of an experiment, its setting and its result."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from reproduction.store import Store

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# What stands in a table; None where there is nothing to say.
Cell = str | int | float | bool | None


class Effort(StrEnum):
    """Amount of computation: under two minutes, under thirty, or all that the paper did."""

    QUICK = "quick"
    NORMAL = "normal"
    FULL = "full"


@dataclass(frozen=True, eq=False)
class Result:
    """A table with its notes and, where there is one, its figure.

    Attributes
    ----------
    title : str
    columns : tuple of str
    rows : list of tuple
        One value for each column: text, numbers, or None where there is nothing to say.
    notes : tuple of str
        What a reader should know, above all why a figure differs from the printed one.
    draw : callable or None
        Draws on an empty matplotlib Figure; it may set the figure's size.
    """

    title: str
    columns: tuple[str, ...]
    rows: list[tuple[Cell, ...]]
    notes: tuple[str, ...] = ()
    draw: "Callable[[Figure], None] | None" = None

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(f"{len(self.columns)} columns, but a row of {len(row)}: {row}")


# Called with the step, the number of finished steps, and the number of all steps.
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Setting:
    """Data, effort and seed of a run, with its progress and stored steps.

    Attributes
    ----------
    data : Path
        Folder with the data files; not looked at by experiments without files.
    effort : Effort
    seed : int
        Of everything random.
    progress : callable
        ``progress(step, n_done, total)``, to be called before each step.
    store : Store
        Keeps each step's value, so that an interrupted run goes on where it stopped.
    """

    data: Path
    effort: Effort
    seed: int
    progress: Progress
    store: Store


class Experiment(Protocol):
    """A table or figure of a paper."""

    @property
    def name(self) -> str:
        """Name on the command line."""

    @property
    def title(self) -> str:
        """Title of one line."""

    @property
    def source(self) -> str:
        """Paper, and its table or figure."""

    @property
    def files(self) -> tuple[str, ...]:
        """Names of the data files; stored steps of files with other contents are not used."""

    def run(self, setting: Setting) -> Result:
        """Compute it."""
