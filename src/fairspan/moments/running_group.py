"""How many groups rows may have, and the running mean and scatter of each, block by block.

An identifier makes no groups, and would need a matrix for each row; so the number of groups and the
memory of their matrices are limited.
"""

import numbers
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg import blas

from fairspan.errors import InvalidInput, InvalidParameter, InvalidType
from fairspan.linalg.machine import check_memory
from fairspan.moments.group_statistics import OneGroup
from fairspan.rows.groups import Label, LabelCoder, listed, side_by_side
from fairspan.rows.protocol import KnownRows, PartedRows, RowBlock, Rows
from fairspan.typing import FloatArray, IndexArray

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


class RunningGroup:
    """Moments of one group so far, with the mean kept relative to its first row.

    Subtracting that row takes a large common offset out of all sums, and makes those of a column
    that is constant in the group exactly zero.
    """

    def __init__(self, n_features: int) -> None:
        self.pilot = np.zeros(n_features)
        self.count = 0
        self.weight = 0.0
        self.mean = np.zeros(n_features)
        # Fortran order lets the BLAS update the lower triangle in place.
        self.scatter = np.zeros((n_features, n_features), order="F")

    def absorb(self, rows: FloatArray, weights: FloatArray | None) -> None:
        """Add a block of rows, which is overwritten; all weights are positive."""
        if self.count == 0:
            self.pilot = rows[0].copy()
        rows -= self.pilot
        weight = float(len(rows) if weights is None else weights.sum())
        mean = rows.mean(axis=0) if weights is None else (weights / weight) @ rows
        rows -= mean
        if weights is not None:
            rows *= np.sqrt(weights)[:, None]
        delta = mean - self.mean
        total = self.weight + weight
        # Chan's term between the two means is one more row of the same symmetric product.
        for part in (rows, (np.sqrt(self.weight * (weight / total)) * delta)[None, :]):
            self.scatter = blas.dsyrk(1.0, part.T, beta=1.0, c=self.scatter, lower=1, overwrite_c=1)
        self.mean += (weight / total) * delta
        self.weight = total
        self.count += len(rows)

    def finished(self, label: Label) -> OneGroup:
        """The group's moments."""
        with np.errstate(over="ignore"):
            mean = self.pilot + self.mean
        return OneGroup(label, self.count, self.weight, mean, mirrored(self.scatter))


class RunningMoments:
    """Moments of all groups so far.

    Rows wait while they have too many groups, so that no matrix is made of what may be an
    identifier. They take less room than the matrices of their groups would, as a rule.

    Parameters
    ----------
    n_features : int
    limit : GroupLimit
    n_folds : int
        Rows of a group are kept apart by their fold.

    Attributes
    ----------
    n_dropped : int
        Rows left out so far since something is missing in them.
    """

    def __init__(self, n_features: int, limit: GroupLimit, n_folds: int) -> None:
        self.n_dropped = 0
        self._n_features = n_features
        self._limit = limit
        self._n_folds = n_folds
        self._coder = LabelCoder()
        self._counts: Counter[int] = Counter()
        # A group's rows in fold f of K have the code K g + f.
        self._groups: dict[int, RunningGroup] = {}
        # Code, rows and weights of groups.
        self._waiting: list[tuple[int, FloatArray, FloatArray | None]] = []
        self._n_waiting = 0

    def absorb(self, block: RowBlock, folds: IndexArray | None = None) -> None:
        """Add a block of rows, whose folds are all the first unless they are given."""
        values, weights = block.values, block.weights
        self.n_dropped += block.n_dropped
        if block.labels is None:
            raise InvalidInput(
                "The rows carry no group labels", "Allowed: a label for each row", "Name a group"
            )
        codes = self._coder.encode(block.labels, block.first_row)
        if folds is not None:
            codes = codes * self._n_folds + folds
        if weights is not None and not weights.all():
            present = weights > 0
            values, weights, codes = values[present], weights[present], codes[present]
        order, places = side_by_side(codes)
        rows = np.take(values, order, axis=0)  # a copy, which may be written to
        weights = None if weights is None else weights[order]
        for code, own in places:
            self._counts[code // self._n_folds] += own.stop - own.start
            self._waiting.append((code, rows[own], None if weights is None else weights[own]))
        self._n_waiting += rows.size
        n_groups, n_rows = len(self._counts), self._counts.total()
        self._limit.check_waiting(n_groups, n_rows, self._n_waiting)
        if not self._limit.waits(n_groups, n_rows):
            self._end_waiting()

    def _end_waiting(self) -> None:
        self._limit.check_memory(len(self._counts), self._n_features)
        with np.errstate(over="ignore", invalid="ignore"):  # found when the groups are put together
            for code, rows, weights in self._waiting:
                if code not in self._groups:
                    self._groups[code] = RunningGroup(self._n_features)
                self._groups[code].absorb(rows, weights)
        self._waiting.clear()
        self._n_waiting = 0

    def finished(self) -> list[list[OneGroup]]:
        """The moments of each group that has rows in a fold, for all folds.

        Raises
        ------
        InvalidInput
            Too many groups.
        """
        self._limit.check(len(self._counts), self._counts.total(), self._n_features)
        self._end_waiting()
        labels = self._coder.labels
        parts: list[list[OneGroup]] = [[] for _ in range(self._n_folds)]
        for code, group in self._groups.items():
            of_group, fold = divmod(code, self._n_folds)
            parts[fold].append(group.finished(labels[of_group]))
        return parts


def mirrored(lower: FloatArray) -> FloatArray:
    """The whole matrix of a lower triangle.

    Parameters
    ----------
    lower : (p, p) array
        In Fortran's order, as BLAS leaves it; what is above the diagonal is overwritten.

    Returns
    -------
    (p, p) array
        In C's order, in the same memory: new memory takes longer than the whole of it.

    Examples
    --------
    >>> import numpy as np
    >>> mirrored(np.array([[1.0, 9.0], [2.0, 3.0]], order="F"))
    array([[1., 2.],
           [2., 3.]])
    """
    whole = lower.T
    for row in range(1, len(whole)):
        whole[row, :row] = whole[:row, row]
    return whole
