"""How a report was made: versions, what came in, and what was asked. No date, no user, no host."""

import platform
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from fairspan.version import __version__

_PACKAGES = ("numpy", "scipy", "scikit-learn")


@dataclass(frozen=True)
class Origin:
    """Where the rows of a report come from, and how it was asked for.

    Attributes
    ----------
    name : str
        What the rows are called.
    title : str
        Of the report.
    input_sha256 : str or None
        Of the file, the folder or the numbers that were read; None where they lie elsewhere.
    command : str
        What makes the report again.
    moments : str
        The line of Python that makes the moments of the same rows.
    """

    name: str
    title: str
    input_sha256: str | None
    command: str
    moments: str


def made_facts(origin: Origin, settings: dict[str, Any]) -> dict[str, Any]:
    """What is needed to make the report again."""
    return {
        "fairspan": __version__,
        "python": platform.python_version(),
        **{name: version(name) for name in _PACKAGES},
        "input_sha256": origin.input_sha256,
        "parameters": settings,
        "command": origin.command,
    }


def title_of(name: str) -> str:
    """The title of a report that was given none."""
    return f"What PCA does to each group of {name}"
