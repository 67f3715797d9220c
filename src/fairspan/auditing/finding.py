"""One finding of an audit."""

from dataclasses import dataclass
from typing import Literal

from fairspan.rows.groups import Label

Severity = Literal["info", "warning"]


@dataclass(frozen=True)
class Finding:
    """One thing the reader should know.

    Attributes
    ----------
    code : str
        Stable: a code never changes its meaning.
    severity : {"info", "warning"}
    message : str
        What was seen and, for a warning, what to do.
    model : str or None
        The model that it is about; None where it is about the rows.
    groups : tuple of labels
    columns : tuple of str
        Features that it is about; x0, x1, ... where these have no names.
    """

    code: str
    severity: Severity
    message: str
    model: str | None = None
    groups: tuple[Label, ...] = ()
    columns: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.code} {self.message}"
