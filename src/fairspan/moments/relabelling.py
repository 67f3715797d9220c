"""Groups by other labels, as moments of several sites need them."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from fairspan.moments.group_moments import GroupMoments
from fairspan.moments.group_statistics import joined
from fairspan.rows.groups import Label


def relabelled(moments: GroupMoments, change: Callable[[Any], Any]) -> GroupMoments:
    """The same moments with every attribute of every label changed; groups of one label are joined.

    Parameters
    ----------
    moments : GroupMoments
    change : callable
        The new value of an attribute, such as a name for a number.

    Examples
    --------
    >>> moments = GroupMoments.from_rows([[0.0], [1.0], [2.0], [4.0]], [1, 1, 2, 3])
    >>> relabelled(moments, lambda label: "one" if label == 1 else "other").counts
    array([2, 2])
    """
    statistics = moments.statistics
    groups = joined(
        replace(group, label=_changed(group.label, change)) for group in statistics.groups
    )
    return GroupMoments.of(replace(statistics, groups=groups))


def _changed(label: Label, change: Callable[[Any], Any]) -> Label:
    changed: Label = (
        tuple(change(each) for each in label) if isinstance(label, tuple) else change(label)
    )
    return changed


def as_text(value: Any) -> str:
    """A value of a label as text: a whole number without a fraction.

    Examples
    --------
    >>> as_text(1), as_text(1.0), as_text("1"), as_text(True)
    ('1', '1', '1', 'True')
    """
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value)


def nearly_equal(labels: Iterable[Label]) -> list[tuple[Label, ...]]:
    """Labels that differ by case and blanks alone, together.

    Examples
    --------
    >>> nearly_equal(["female", "Female ", "male"])
    [('Female ', 'female')]
    """
    alike: dict[str, list[Label]] = {}
    for label in labels:
        values = label if isinstance(label, tuple) else (label,)
        key = "\0".join("".join(str(each).casefold().split()) for each in values)
        alike.setdefault(key, []).append(label)
    return [tuple(sorted(each)) for each in alike.values() if len(each) > 1]
