"""Sufficient statistics of groups of rows: how those of two parts merge, and how they are stored.

Of each scatter only the lower triangle is stored, as it is symmetric.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fairspan.errors import InvalidInput
from fairspan.formatting.numbers import position
from fairspan.linalg.sum_bounds import may_be_scatter
from fairspan.rows.groups import (
    Label,
    kind_in_words,
    label_kind,
    listed,
    plain_labels,
    without_last_attribute,
)
from fairspan.storage import (
    MOMENTS,
    Contents,
    NotAllowed,
    archive_bytes,
    archive_of_bytes,
    read_archive,
)
from fairspan.typing import FloatArray

# Fourth powers of these numbers, and sums of them, stay within double precision.
_SMALLEST, _LARGEST = 1e-75, 1e75
# The largest number of a column is hardly more than so many times their root mean square.
_ABOVE_MEAN_SQUARE = 4.0


@dataclass(frozen=True)
class Intake:
    """Rows that moments do not hold although they were read.

    Attributes
    ----------
    n_dropped : int
        Rows left out since a feature or the group is missing in them.
    """

    n_dropped: int = 0

    def __add__(self, other: "Intake") -> "Intake":
        return Intake(self.n_dropped + other.n_dropped)

    def __str__(self) -> str:
        if not self.n_dropped:
            return ""
        rows = "row" if self.n_dropped == 1 else "rows"
        return f"{self.n_dropped:,} {rows} with missing values left out"


EVERY_ROW = Intake()


@dataclass(frozen=True, eq=False)
class OneGroup:
    """Number of rows, weight, mean and centred scatter of a single group."""

    label: Label
    count: int
    weight: float
    mean: FloatArray
    scatter: FloatArray


@dataclass(frozen=True, eq=False)
class GroupStatistics:
    """What one pass over rows yields: the moments of each group, in the order of the labels.

    Attributes
    ----------
    groups : sequence of OneGroup
        In any order when made; sorted by label afterwards. There may be none.
    n_features : int
    feature_names : tuple of str or None
    intake : Intake
    has_labels : bool
        Whether the last attribute of each label is the class that a row has in y.

    Raises
    ------
    InvalidInput
        Numbers or weights so large that second moments overflow.
    """

    groups: Sequence[OneGroup]
    n_features: int
    feature_names: tuple[str, ...] | None = None
    intake: Intake = EVERY_ROW
    has_labels: bool = False

    def __post_init__(self) -> None:
        in_order = tuple(sorted(self.groups, key=lambda group: group.label))
        object.__setattr__(self, "groups", in_order)
        if not np.isfinite(sum(group.weight for group in in_order)):
            raise InvalidInput(
                "The weights of the rows overflow float64 together",
                "Allowed: weights with a finite sum",
                "Divide all of them by a constant",
            )
        for group in in_order:
            with np.errstate(over="ignore", invalid="ignore"):
                variances = np.diag(group.scatter) / group.weight
            # A column may be tiny in a part of the rows.
            check_sizes(group.mean, variances, self.feature_names, in_part=True)

    @property
    def labels(self) -> list[Label]:
        """Label of each group."""
        return [group.label for group in self.groups]

    @property
    def n_rows(self) -> int:
        """Number of rows of all groups."""
        return sum(group.count for group in self.groups)

    def __add__(self, other: "GroupStatistics") -> "GroupStatistics":
        check_mergeable(self, other)
        return replace(
            self,
            groups=joined([*self.groups, *other.groups]),
            intake=self.intake + other.intake,
        )

    def in_order_of(self, names: tuple[str, ...] | None) -> "GroupStatistics":
        """The same moments with the features in this order, if they are the same ones."""
        own = self.feature_names
        if own is None or names is None or own == names or sorted(own) != sorted(names):
            return self
        places = [own.index(name) for name in names]
        groups = [
            replace(group, mean=group.mean[places], scatter=group.scatter[np.ix_(places, places)])
            for group in self.groups
        ]
        return replace(self, groups=groups, feature_names=names)

    def without_labels(self) -> "GroupStatistics":
        """The moments of each group, whatever class its rows have in y."""
        return replace(
            self,
            groups=joined(
                replace(pair, label=without_last_attribute(pair.label)) for pair in self.groups
            ),
            has_labels=False,
        )


def joined(groups: Iterable[OneGroup]) -> list[OneGroup]:
    """The moments of each group, of which several parts may be given."""
    parts: dict[Label, list[OneGroup]] = {}
    for group in groups:
        parts.setdefault(group.label, []).append(group)
    return [_merged(of_group) for of_group in parts.values()]


def _merged(parts: Sequence[OneGroup]) -> OneGroup:
    """Chan, Golub and LeVeque (1979): the moments of all parts of a group together."""
    first = parts[0]
    if len(parts) == 1:
        return first
    weights = np.array([part.weight for part in parts])
    weight = float(weights.sum())
    with np.errstate(over="ignore", invalid="ignore"):  # found by check_sizes
        # About the mean of the first part, so that nothing cancels. The quotient of weights first:
        # tiny or huge ones would leave float64's range.
        offsets = np.array([part.mean - first.mean for part in parts])
        offset = (weights / weight) @ offsets
        between = (offsets - offset) * np.sqrt(weights)[:, None]
        scatter = between.T @ between
        for part in parts:
            scatter += part.scatter
        mean = first.mean + offset
    return OneGroup(first.label, sum(part.count for part in parts), weight, mean, scatter)


def check_sizes(
    means: FloatArray,
    variances: FloatArray,
    names: Sequence[str] | None,
    *,
    in_part: bool = False,
) -> None:
    """Make sure that each feature is zero, or that its numbers lie between 1e-75 and 1e75.

    Parameters
    ----------
    means, variances : (p,) or (k, p) arrays
        Of each feature; in each group.
    names : sequence of str, or None
        Of the features.
    in_part : bool
        Whether there may be other rows, with larger numbers.

    Raises
    ------
    InvalidInput
        Names the first feature that does not.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        sizes = np.atleast_2d(np.hypot(means, np.sqrt(variances))).max(axis=0)
        small = (sizes > 0) & (sizes < _SMALLEST / _ABOVE_MEAN_SQUARE)
        # NaN compares as false.
        wrong = ~(sizes <= _LARGEST / _ABOVE_MEAN_SQUARE) | (small & (not in_part))
    if wrong.any():
        first = int(np.argmax(wrong))
        name = position("column", first) if names is None else f"column {names[first]!r}"
        size = (
            f"of about {sizes[first]:.0e} (root mean square)"
            if np.isfinite(sizes[first])
            else "whose squares overflow float64"
        )
        raise InvalidInput(
            f"X has numbers {size} in {name}",
            f"Allowed: zero, and numbers from {_SMALLEST:.0e} to {_LARGEST:.0e} with a root mean "
            f"square of at most {_LARGEST / _ABOVE_MEAN_SQUARE:.1e}, whose fourth powers double "
            "precision can hold",
            "Divide the column by a constant, or change its unit",
        )


def check_mergeable(a: GroupStatistics, b: GroupStatistics) -> None:
    """Make sure that moments have the same features in the same order, and labels of one type.

    Raises
    ------
    InvalidInput
        Lists what differs: features that are missing in `b`, that it has besides, or the first in
        another place; the types or the number of attributes of the labels.
    """
    differences = []
    if a.n_features != b.n_features or a.feature_names != b.feature_names:
        details = ""
        if a.feature_names is not None and b.feature_names is not None:
            details = f" ({', '.join(_of_names(a.feature_names, b.feature_names))})"
        differences.append(f"The features differ: {_described(a)} against {_described(b)}{details}")
    if a.has_labels != b.has_labels:
        differences.append("One of them knows the class that each row has in y, the other does not")
    elif a.groups and b.groups and {*map(label_kind, a.labels)} != {*map(label_kind, b.labels)}:
        differences.append(
            f"The groups are of different types: {listed(a.labels)} against {listed(b.labels)} "
            f"({kind_in_words(a.labels)} against {kind_in_words(b.labels)})"
        )
    if differences:
        raise InvalidInput(
            "; ".join(differences),
            "Allowed: moments of the same features, with labels of one type",
            "Read both parts with the same columns; fairspan merge --labels-as text joins labels",
        )


def _of_names(before: Sequence[str], names: Sequence[str]) -> Iterator[str]:
    missing = [name for name in before if name not in names]
    extra = [name for name in names if name not in before]
    if missing:
        yield f"{listed(missing)} missing"
    if extra:
        yield f"{listed(extra)} besides"
    if not missing and not extra:
        first, expected = next(pair for pair in zip(names, before, strict=True) if len({*pair}) > 1)
        yield f"in another order, first {first!r} where {expected!r} was"


def _described(moments: GroupStatistics) -> str:
    if moments.feature_names is None:
        return f"{moments.n_features} without names"
    return f"{moments.n_features} named {listed(moments.feature_names)}"


def packed(moments: GroupStatistics) -> Contents:
    """Header and arrays of moments, as archives hold them."""
    groups, names = moments.groups, moments.feature_names
    header = {
        "groups": moments.labels,
        "feature_names": None if names is None else list(names),
        "n_dropped": moments.intake.n_dropped,
    }
    if moments.has_labels:
        header["n_label_columns"] = 1
    shape = (len(groups), moments.n_features)
    lower = np.tri(moments.n_features, dtype=bool)
    return header, {
        "counts": np.array([group.count for group in groups], dtype=np.int64),
        "weights": np.array([group.weight for group in groups], dtype=np.float64),
        "means": np.array([group.mean for group in groups], dtype=np.float64).reshape(shape),
        "triangles": np.array([group.scatter[lower] for group in groups]).reshape(
            len(groups), np.count_nonzero(lower)
        ),
    }


def unpacked(contents: Contents, name: str) -> GroupStatistics:
    """The moments again.

    Parameters
    ----------
    contents : header and arrays
        As the schema allows them.
    name : str
        What they come from, for messages.

    Raises
    ------
    CorruptFile
        A scatter that no rows have, or numbers whose squares overflow.
    """
    header, arrays = contents
    names, p = header["feature_names"], arrays["means"].shape[1]
    has_labels = header.get("n_label_columns", 0) == 1
    groups = []
    try:
        for index, label in enumerate(plain_labels(header["groups"])):
            if has_labels and not (isinstance(label, tuple) and len(label) > 1):
                raise NotAllowed(f"groups[{index}]", "has no class of y", "a group and a class")
            count, weight = int(arrays["counts"][index]), float(arrays["weights"][index])
            mean, scatter = arrays["means"][index], _square(arrays["triangles"][index], p)
            if not may_be_scatter(scatter, mean, weight):
                raise NotAllowed(
                    f"triangles[{index}]",
                    "is not positive semidefinite",
                    "the scatter of some rows",
                )
            groups.append(OneGroup(label, count, weight, mean, scatter))
        return GroupStatistics(
            groups,
            p,
            None if names is None else tuple(names),
            Intake(header["n_dropped"]),
            has_labels,
        )
    except ValueError as error:
        raise MOMENTS.refusal(name, error) from error


def statistics_of_file(path: str | os.PathLike[str]) -> GroupStatistics:
    """Read saved moments, of which a part of some rows may have none; errors as of `unpacked`."""
    return unpacked(read_archive(path, MOMENTS), str(path))


def to_bytes(moments: GroupStatistics) -> bytes:
    """An archive in memory."""
    return archive_bytes(MOMENTS.kind, *packed(moments))


def from_bytes(contents: bytes) -> GroupStatistics:
    """Read what :func:`to_bytes` gave; raises CorruptFile as :func:`unpacked` does."""
    return unpacked(archive_of_bytes(contents, MOMENTS), "The archive that was received")


def _square(triangle: FloatArray, n_features: int) -> FloatArray:
    square = np.zeros((n_features, n_features))
    square[np.tri(n_features, dtype=bool)] = triangle
    return square + np.tril(square, -1).T
