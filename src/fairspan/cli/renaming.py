"""Labels of groups as several sites are to call them."""

import csv
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fairspan.errors import InvalidInput
from fairspan.moments.group_moments import GroupMoments
from fairspan.moments.relabelling import as_text, relabelled
from fairspan.rows.groups import listed


@dataclass(frozen=True)
class Renaming:
    """New names of labels.

    Attributes
    ----------
    names : mapping of str to str
        Labels as text, and what they are called instead.
    is_text : bool
        Whether labels become text in any case, so that 1 and "1" are one.
    used : set of str
        Labels that were found.
    path : Path or None
        Where the names are from.
    """

    names: Mapping[str, str] = field(default_factory=dict)
    is_text: bool = False
    used: set[str] = field(default_factory=set)
    path: Path | None = None

    @classmethod
    def read(cls, path: Path | None, is_text: bool) -> "Renaming":
        """The names in a CSV file with the columns "from" and "to".

        Raises
        ------
        InvalidInput
            Other columns, no rows, or a label twice.
        """
        if path is None:
            return cls(is_text=is_text)
        try:
            with path.open(encoding="utf-8-sig", newline="") as file:
                rows = list(csv.reader(file, strict=True))
        except (OSError, UnicodeError, csv.Error) as error:
            raise _refusal(path, f"cannot be read ({error})") from error
        if not rows or rows[0] != ["from", "to"]:
            raise _refusal(path, f"has the header {rows[0] if rows else []}")
        pairs = [row for row in rows[1:] if row]
        if any(len(row) != 2 for row in pairs):
            raise _refusal(path, "has a row without two cells")
        names = dict(pairs)
        if not names or len(names) < len(pairs):
            twice = [old for old, _ in pairs if sum(old == each for each, _ in pairs) > 1]
            raise _refusal(path, f"has {twice[0]!r} twice" if twice else "has no rows")
        return cls(names, is_text, path=path)

    def of(self, moments: GroupMoments) -> GroupMoments:
        """Moments whose groups have the new names; groups of one name are joined."""
        if not self.names and not self.is_text:
            return moments
        return relabelled(moments, self._called)

    def check_used(self) -> None:
        """Raise InvalidInput if a name was given to a label that no moments have."""
        if unused := sorted(set(self.names) - self.used):
            assert self.path is not None
            raise _refusal(self.path, f"names {listed(unused)}, which is no label of any file")

    def _called(self, value: Any) -> Any:
        text = as_text(value)
        if text in self.names:
            self.used.add(text)
            return self.names[text]
        return text if self.is_text else value


def _refusal(path: Path, what: str) -> InvalidInput:
    return InvalidInput(
        f"{path} {what}",
        'Allowed: a CSV file with the columns "from" and "to": a label, and its new name',
        "Correct the file",
    )
