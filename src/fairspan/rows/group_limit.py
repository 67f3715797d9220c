"""Limit on the number of groups.

An identifier used as the group column would need a matrix per row, so the number of groups and the
memory for their matrices are limited.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

from fairspan.errors import Cause, InvalidInput
from fairspan.formatting.messages import counted
from fairspan.linalg.memory import check_memory
from fairspan.parameters import check_integer
from fairspan.rows.aggregation import Rows, as_partitioned
from fairspan.rows.labels import Label, format_list, without_last_attribute
from fairspan.rows.protocol import BaseRows

# More groups than this raise an error unless allowed explicitly or known to the model.
DEFAULT_MAX_GROUPS = 100


@dataclass(frozen=True)
class GroupLimit:
    """Limit on the number of groups.

    More groups suggest an identifier or a continuous variable, and a matrix for each would be slow.

    Attributes
    ----------
    max_groups : int or None
        Maximum number of groups; `DEFAULT_MAX_GROUPS` by default.
    n_fitted_groups : int
        Number of groups of a fitted model; the default limit is at least this.
    group_columns : tuple of names
        Names of the group columns for messages; empty if unnamed.
    is_partial : bool
        Whether a pass sees only part of the rows at a time.
    has_y : bool
        Whether the last attribute of each label is the class in y; at most `DEFAULT_MAX_GROUPS`
        classes are allowed.
    max_memory : int or None
        Peak memory for the matrices in bytes; by default what the machine has.

    Raises
    ------
    InvalidType, InvalidParameter
        max_groups or max_memory is not an integer, or below 1.

    Examples
    --------
    >>> GroupLimit().allowed, GroupLimit(7).allowed, GroupLimit(n_fitted_groups=120).allowed
    (100, 7, 120)
    """

    max_groups: int | None = None
    n_fitted_groups: int = 0
    group_columns: tuple[Any, ...] = ()
    is_partial: bool = False
    has_y: bool = False
    max_memory: int | None = None

    def __post_init__(self) -> None:
        for name in ("max_groups", "max_memory"):
            value = getattr(self, name)
            if value is not None:
                check_integer(name, value)

    def for_rows(self, rows: Rows) -> "GroupLimit":
        """Return the limit with the group columns and partitioning of these rows."""
        info = rows if isinstance(rows, BaseRows) else BaseRows()
        # A pass over partitions checks the groups of those read so far.
        is_partitioned = info.n_partitions != 1 and as_partitioned(rows) is not None
        is_partial = self.is_partial or is_partitioned
        return replace(self, group_columns=info.group_columns, is_partial=is_partial)

    @property
    def allowed(self) -> int:
        """Maximum number of groups."""
        if self.max_groups is not None:
            return self.max_groups
        return max(DEFAULT_MAX_GROUPS, self.n_fitted_groups)

    def check(self, labels: Collection[Label], n_rows: int, *, so_far: bool = False) -> None:
        """Check that there are no more groups than allowed.

        Parameters
        ----------
        labels : collection of labels, all different
        n_rows : int
            Number of rows with these labels.
        so_far : bool
            Whether more rows may follow.

        Raises
        ------
        InvalidInput
        """
        so_far |= self.is_partial
        rows = f"{n_rows} rows so far" if so_far else f"{n_rows} rows"
        if self.has_y:
            classes = {label[-1] for label in labels if isinstance(label, tuple)}
            if len(classes) > DEFAULT_MAX_GROUPS:
                raise InvalidInput(
                    f"y has {len(classes)} classes among {rows}, which looks like an identifier or "
                    "a continuous variable",
                    f"Allowed: up to {DEFAULT_MAX_GROUPS} classes",
                    "Pass class labels, or bin continuous values",
                )
            labels = set(map(without_last_attribute, labels))
        if len(labels) > self.allowed:
            suggested = "N" if so_far else len(labels)
            raise self._too_many_groups_error(f"{len(labels)} groups among {rows}", suggested)

    def _too_many_groups_error(self, groups: str, suggested: int | str) -> InvalidInput:
        """Build the error for too many groups.

        Parameters
        ----------
        groups : str
            Number of groups and of rows, in words.
        suggested : int or str
            Limit with which the same rows would be accepted; "N" if more rows may follow, which may
            have more groups.
        """
        if not self.group_columns:
            problem = f"There are {groups}"
            appearance = "the labels look"
        elif len(self.group_columns) == 1:
            problem = f"Column {format_list(self.group_columns)} has {groups}"
            appearance = "its values look"
        else:
            problem = f"Columns {format_list(self.group_columns)} define {groups}"
            appearance = "their values look"
        if self.max_groups is not None:
            return InvalidInput(
                f"{problem}, and max_groups is {self.max_groups}",
                f"Allowed: at most {counted(self.max_groups, 'group')}",
                "Pass another column as sensitive_features",
                cause=Cause.OVER_MAX_GROUPS,
                n_groups=suggested,
            )
        return InvalidInput(
            f"{problem}, so {appearance} like an identifier or a continuous variable rather than "
            "groups",
            f"Allowed: up to {counted(self.allowed, 'group')}",
            "Pass another column as sensitive_features, or bin continuous values (pandas.cut)",
            cause=Cause.MANY_GROUPS,
            n_groups=suggested,
        )

    def check_memory(self, n_groups: int, n_features: int) -> None:
        """Check that the matrices of this many groups fit into memory; raises InvalidInput."""
        check_memory(n_groups, n_features, self.max_memory)


DEFAULT_GROUP_LIMIT = GroupLimit()
"""Default limit."""
