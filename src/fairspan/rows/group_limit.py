"""How many groups rows may have, and how much memory their matrices may take.

An identifier makes no groups, and would need a matrix for each row.
"""

import numbers
from dataclasses import dataclass, replace
from typing import Any

from fairspan.errors import InvalidInput, InvalidParameter, InvalidType
from fairspan.linalg.resources import check_memory
from fairspan.rows.groups import listed
from fairspan.rows.protocol import KnownRows, PartedRows, Rows

# So many groups are never refused, however few the rows are.
MANY_GROUPS = 100
# More groups than that need at least so many rows each, on average.
FEWEST_ROWS_EACH = 3
# Numbers (1 GB) that matrices of one part of the rows may take although its groups look too many:
# the other parts may hold rows enough, where rows are sorted by group or files are small.
_ROOM_OF_A_PART = 2**27
# What a group takes beside its matrix, in numbers.
_BESIDE_THE_MATRIX = 2**10
# Numbers (128 MB) of rows that may wait until enough rows have come for their groups.
_MOST_WAITING = 2**24


@dataclass(frozen=True)
class GroupLimit:
    """How many groups some rows may have.

    Without `max_groups`, more than `MANY_GROUPS` groups that are also more than a third of the rows
    are refused. Rows count, not weights.

    Attributes
    ----------
    max_groups : int or None
        So many are allowed whatever the number of rows, and no more.
    n_known : int
        Groups that a fitted model knows: so many are groups, however few the rows are.
    columns : tuple of names
        Columns that make the groups, for messages; none where they have no names.
    in_parts : bool
        Whether these are some of the rows, and more may come.
    max_memory : int or None
        Bytes that matrices may take while they are made; None: what the machine has.

    Raises
    ------
    InvalidType, InvalidParameter
        max_groups or max_memory is no whole number, or below 1.

    Examples
    --------
    >>> limit = GroupLimit()
    >>> limit.doubts(101, 302), limit.doubts(101, 303), limit.doubts(100, 100)
    (True, False, False)
    """

    max_groups: int | None = None
    n_known: int = 0
    columns: tuple[Any, ...] = ()
    in_parts: bool = False
    max_memory: int | None = None

    def __post_init__(self) -> None:
        settings: dict[str, Any] = {"max_groups": self.max_groups, "max_memory": self.max_memory}
        allowed = "Allowed: a whole number of at least 1, or None"
        for name, value in settings.items():
            if value is None:
                continue
            if not isinstance(value, numbers.Integral) or isinstance(value, bool):
                raise InvalidType(f"{name} is {value!r}", allowed, "Pass a whole number")
            if value < 1:
                raise InvalidParameter(f"{name} is {value!r}", allowed, "Choose a larger number")

    def over(self, rows: Rows) -> "GroupLimit":
        """The same for these rows: it knows the names of their columns, and whether they are cut.

        A pass over several parts sees only some of the rows at a time.
        """
        known = rows if isinstance(rows, KnownRows) else KnownRows()
        return replace(
            self,
            columns=known.group_columns,
            in_parts=self.in_parts or (isinstance(rows, PartedRows) and known.n_parts != 1),
        )

    def doubts(self, n_groups: int, n_rows: int) -> bool:
        """Whether these would be refused, if no more rows came."""
        if self.max_groups is not None:
            return n_groups > self.max_groups
        return n_groups > max(MANY_GROUPS, self.n_known) and FEWEST_ROWS_EACH * n_groups > n_rows

    def waits(self, n_groups: int, n_rows: int) -> bool:
        """Whether to wait for more rows before a matrix is made of each group.

        Also with few groups, as the next rows may bring many.
        """
        many = self.max_groups is None and n_groups > self.n_known
        return many and FEWEST_ROWS_EACH * n_groups > n_rows

    def check(self, n_groups: int, n_rows: int, n_features: int) -> None:
        """Make sure that rows, or a part of them, have no more groups than allowed.

        A part is refused only where more rows cannot help, or its matrices would be large.

        Raises
        ------
        InvalidInput
        """
        is_large = n_groups * (n_features**2 + _BESIDE_THE_MATRIX) > _ROOM_OF_A_PART
        is_last = self.max_groups is not None or not self.in_parts or is_large
        if is_last and self.doubts(n_groups, n_rows):
            raise self._refusal(n_groups, n_rows, so_far=self.in_parts)

    def check_memory(self, n_groups: int, n_features: int) -> None:
        """Make sure that the matrices of so many groups fit into memory; raises InvalidInput."""
        check_memory(n_groups, n_features, self.max_memory)

    def check_waiting(self, n_groups: int, n_rows: int, n_waiting: int) -> None:
        """Make sure that rows may wait for more rows of their groups.

        Parameters
        ----------
        n_groups, n_rows : int
            So far.
        n_waiting : int
            Numbers in the rows that wait.

        Raises
        ------
        InvalidInput
        """
        is_last = self.max_groups is not None or n_waiting > _MOST_WAITING
        if is_last and self.doubts(n_groups, n_rows):
            raise self._refusal(n_groups, n_rows, so_far=True)

    def _refusal(self, n_groups: int, n_rows: int, *, so_far: bool) -> InvalidInput:
        several = min(len(self.columns), 2)
        named = listed(self.columns)
        subject = ("There are", f"The column {named} has", f"The columns {named} make")[several]
        counted = f"{subject} {n_groups} groups among {n_rows} rows{' so far' if so_far else ''}"
        if self.max_groups is not None:
            return InvalidInput(
                f"{counted}, and max_groups is {self.max_groups}",
                f"Allowed: at most {self.max_groups} groups",
                "Choose a larger max_groups (--max-groups), or pass another column as "
                "sensitive_features (--group)",
            )
        looks = ("the labels look", "its values look", "their values look")[several]
        allow = "N" if so_far else n_groups
        return InvalidInput(
            f"{counted}, so {looks} like an identifier or a continuous number rather than groups",
            f"Allowed: up to {MANY_GROUPS} groups, or at most a third as many groups as rows",
            "Pass another column as sensitive_features (--group), put numbers into bins, or allow "
            f"that many groups with max_groups={allow} (--max-groups {allow})",
        )


USUAL_LIMIT = GroupLimit()
"""Where nobody has chosen another."""
