"""Limit on the number of groups.

An identifier used as the group column would need a matrix per row, so the number of groups and the
memory for their matrices are limited.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace

from fairspan.errors import Cause, InvalidInput
from fairspan.formatting.messages import counted
from fairspan.linalg.memory import check_memory
from fairspan.parameters import check_integer
from fairspan.rows.aggregation import Rows, as_partitioned
from fairspan.rows.labels import Label, format_list, without_last_attribute
from fairspan.rows.protocol import row_metadata
from fairspan.typing import ColumnName

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
    group_columns: tuple[ColumnName, ...] = ()
    is_partial: bool = False
    max_memory: int | None = None

    def __post_init__(self) -> None:
        for name in ("max_groups", "max_memory"):
            value = getattr(self, name)
            if value is not None:
                check_integer(name, value)

    def for_rows(self, rows: Rows) -> "GroupLimit":
        """Return the limit with the group columns and partitioning of these rows."""
        info = row_metadata(rows)
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

    def check_pairs(
        self, pairs: Collection[Label], n_rows: int, *, is_partial: bool = False
    ) -> None:
        """Check the numbers of classes and of groups among pairs of a group and a class.

        Parameters
        ----------
        pairs : collection of labels, all different
            Labels of groups whose last attribute is the class in y, so each is a tuple.
        n_rows, is_partial
            As for :meth:`check`.

        Raises
        ------
        InvalidInput
            More than `DEFAULT_MAX_GROUPS` classes, or more groups than allowed.
        """
        # `isinstance` is for the type checker, which does not know that these are tuples.
        classes = {pair[-1] for pair in pairs if isinstance(pair, tuple)}
        if len(classes) > DEFAULT_MAX_GROUPS:
            rows = self._count_rows(n_rows, is_partial=is_partial)
            raise InvalidInput(
                f"y has {len(classes)} classes among {rows}, "
                "which looks like an identifier or a continuous variable",
                f"Allowed: up to {DEFAULT_MAX_GROUPS} classes",
                "Pass class labels, or bin continuous values",
            )
        self.check(set(map(without_last_attribute, pairs)), n_rows, is_partial=is_partial)

    def check(self, labels: Collection[Label], n_rows: int, *, is_partial: bool = False) -> None:
        """Check that there are no more groups than allowed.

        Parameters
        ----------
        labels : collection of labels, all different
        n_rows : int
            Number of rows with these labels.
        is_partial : bool
            Whether more rows may follow these.

        Raises
        ------
        InvalidInput
        """
        if len(labels) > self.allowed:
            rows = self._count_rows(n_rows, is_partial=is_partial)
            # The limit to pass instead, for the remedy. "N" stands for a number that is unknown:
            # rows that follow, or other partitions, may have more groups.
            suggested = "N" if is_partial or self.is_partial else len(labels)
            raise self._too_many_groups_error(f"{len(labels)} groups among {rows}", suggested)

    def _count_rows(self, n_rows: int, *, is_partial: bool) -> str:
        """Return a number of rows in words; `is_partial` says that more rows may follow."""
        return f"{n_rows} rows so far" if is_partial or self.is_partial else f"{n_rows} rows"

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
