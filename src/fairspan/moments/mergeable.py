"""Whether two sets of moments are of the same columns, and how they differ where they are not."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from fairspan.errors import InvalidInput
from fairspan.rows.groups import kind_in_words, listed, same_kind

if TYPE_CHECKING:
    from fairspan.moments.group_moments import GroupMoments


def check_mergeable(a: "GroupMoments", b: "GroupMoments") -> None:
    """Make sure that moments have the same features in the same order, and labels of one type.

    Raises
    ------
    InvalidInput
        Lists what differs: features that are missing in `b`, that it has besides, or the first in
        another place; the types or the number of attributes of the labels.
    """
    differences = [*_of_features(a, b), *_of_labels(a, b)]
    if differences:
        raise InvalidInput(
            "; ".join(differences),
            "Allowed are moments of the same features in the same order, with labels of one type",
            "Read both parts with the same columns in the same order",
        )


def _of_features(a: "GroupMoments", b: "GroupMoments") -> Iterator[str]:
    if a.n_features == b.n_features and a.feature_names == b.feature_names:
        return
    details = ""
    if a.feature_names is not None and b.feature_names is not None:
        details = f" ({', '.join(_of_names(a.feature_names, b.feature_names))})"
    yield f"The features differ: {_described(a)} against {_described(b)}{details}"


def _of_names(before: Sequence[str], names: Sequence[str]) -> Iterator[str]:
    missing = [name for name in before if name not in names]
    extra = [name for name in names if name not in before]
    if missing:
        yield f"{listed(missing)} missing"
    if extra:
        yield f"{listed(extra)} besides"
    if not missing and not extra:
        place = next(
            i for i, pair in enumerate(zip(before, names, strict=True)) if len({*pair}) > 1
        )
        yield f"in another order, first {names[place]!r} where {before[place]!r} was"


def _of_labels(a: "GroupMoments", b: "GroupMoments") -> Iterator[str]:
    if a.n_groups and b.n_groups and not same_kind(a.labels, b.labels):
        yield (
            f"The groups are of different types: {listed(a.labels)} against {listed(b.labels)} "
            f"({kind_in_words(a.labels)} against {kind_in_words(b.labels)})"
        )


def _described(moments: "GroupMoments") -> str:
    if moments.feature_names is None:
        return f"{moments.n_features} without names"
    return f"{moments.n_features} named {listed(moments.feature_names)}"
