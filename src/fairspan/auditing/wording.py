"""How findings name groups, shares and changes."""

from collections.abc import Sequence

from fairspan.auditing.results import GroupAudit, ModelAudit
from fairspan.rows.groups import Label, printable, spelled

# Groups that one sentence names.
_MOST_NAMED = 12
# Below these a figure of one, or of two, decimals would be shown as none.
_TINY_SHARE, _TINY_CHANGE = 5e-4, 5e-5
# Changes up to this size are rounding.
_ROUNDING = 1e-9


def labels(groups: Sequence[GroupAudit]) -> tuple[Label, ...]:
    """Of each group its label."""
    return tuple(group.group for group in groups)


def names(groups: Sequence[GroupAudit]) -> str:
    """The groups' names in a row."""
    return first_of([quoted(group.group) for group in groups])


def quoted(label: Label) -> str:
    """A group's name in quotes."""
    return f"'{printable(spelled(label))}'"


def dimensions(model: ModelAudit) -> str:
    """How many the model keeps."""
    return f"{model.n_components} dimension{'s' if model.n_components > 1 else ''}"


def counts(groups: Sequence[GroupAudit]) -> str:
    """The groups' numbers of rows in a row."""
    return first_of([str(group.n) for group in groups])


def share(value: float) -> str:
    """A share as a percentage; of a tiny one, what it is less than.

    Examples
    --------
    >>> share(0.0177), share(2 / 30000)
    ('1.8%', 'less than 0.1%')
    """
    return f"{value:.1%}" if value >= _TINY_SHARE else "less than 0.1%"


def change(value: float) -> str:
    """A relative change; of a tiny one, what it is less than.

    Examples
    --------
    >>> change(0.0016), change(2e-6), change(1e-12)
    ('+0.16%', 'less than 0.01% more', '+0.00%')
    """
    if not _ROUNDING < abs(value) < _TINY_CHANGE:
        return f"{value:+.2%}"
    return f"less than 0.01% {'more' if value > 0 else 'less'}"


def first_of(texts: Sequence[str]) -> str:
    """Texts in a row, without those beyond a dozen; `Finding.groups` has all of them."""
    more = len(texts) - _MOST_NAMED
    return ", ".join(texts[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def interval(end: float | None) -> str:
    """One end of an interval."""
    return "none" if end is None else f"{end:.4g}"
