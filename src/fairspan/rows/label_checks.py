"""Checks of group labels: placeholders of missing values, stray spaces and near-duplicates."""

import unicodedata
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from fairspan.formatting.text import join_truncated
from fairspan.rows.groups import Label, format_label
from fairspan.rows.protocol import DEFAULT_MAX_GROUPS

# Texts that programs write for a missing value, in lower case. Words that may be an answer, such as
# "unknown", "other" or "missing", are not among them.
PLACEHOLDERS = frozenset(
    {
        "",
        *("?", "??", "???", "-", "--", "---", ".", "..", "*", "_", "/", "\\"),
        *("nan", "-nan", "nat", "none", "null", "nil", "na", "n/a", "n.a.", "<na>", "n/d"),
        *("#n/a", "#na", "#null!", "#div/0!", "#value!", "#ref!", "#name?", "#num!"),
    }
)


# More groups than that of fewer rows on average are most likely numbers or identifiers: a group of
# 20 rows tells its variance to about a third.
_SEVERAL_GROUPS = 30
_FEW_ROWS = 20


@dataclass(frozen=True)
class PlaceholderLabels:
    """Groups whose label, or a part of it, is a placeholder of a missing value.

    Attributes
    ----------
    labels : tuple of labels
        The groups, in the order in which they were given.
    rows_by_text : dict of str to int or None
        Number of rows with each placeholder; None where the rows were not counted.
    """

    labels: tuple[Label, ...]
    rows_by_text: dict[str, int | None]

    @property
    def described(self) -> str:
        """The placeholders with their numbers of rows, for a message."""
        return join_truncated([_described(text, n) for text, n in self.rows_by_text.items()])

    @property
    def suspicion(self) -> str:
        """What is wrong with the placeholders, for a message."""
        if len(self.rows_by_text) == 1:
            return (
                f"{self.described} counts as a group, but looks like a placeholder of a missing "
                "value. If it is one"
            )
        return (
            f"{self.described} count as groups, but look like placeholders of a missing value. "
            "If they are"
        )

    @property
    def for_pandas(self) -> str:
        """The placeholders as a Python list, for an example of code."""
        return repr(list(self.rows_by_text))

    @property
    def for_shell(self) -> str:
        """The placeholders as one quoted argument of a command, separated by commas."""
        return shell_quoted(",".join(self.rows_by_text))


def is_placeholder(value: Any) -> bool:
    """Return whether a label, or one attribute of it, is a placeholder of a missing value.

    Examples
    --------
    >>> is_placeholder(" ? "), is_placeholder("None"), is_placeholder("unknown"), is_placeholder(0)
    (True, True, False, False)
    """
    return isinstance(value, str) and bare(value) in PLACEHOLDERS


def placeholder_labels(labels: Sequence[Label], counts: Sequence[int]) -> PlaceholderLabels | None:
    """Return the groups that are named by a placeholder; None if there are none.

    Parameters
    ----------
    labels : sequence of k labels
        Every attribute of an intersection is checked.
    counts : sequence of k int
        Rows of each group; 0 where that is not known.

    Examples
    --------
    >>> found = placeholder_labels(["?", "m", "w"], [3, 5, 4])
    >>> found.labels, found.described
    (('?',), "'?' (3 rows)")
    """
    found = []
    rows_by_text: dict[str, int | None] = {}
    for label, n in zip(labels, counts, strict=True):
        texts = {part for part in attributes_of(label) if is_placeholder(part)}
        if not texts:
            continue
        found.append(label)
        for text in sorted(map(str, texts)):
            before = rows_by_text.get(text) or 0
            rows_by_text[text] = before + n if n else None
    return PlaceholderLabels(tuple(found), rows_by_text) if found else None


def similar_labels(labels: Sequence[Label]) -> list[tuple[Label, ...]]:
    """Return the groups of labels that differ only by case, blanks or Unicode normal form.

    Parameters
    ----------
    labels : sequence of labels
        Attributes of an intersection are compared one by one.

    Examples
    --------
    >>> similar_labels(["a", "a ", "b"]), similar_labels(["a", "b"])
    ([('a', 'a ')], [])
    """
    alike: dict[Label, list[Label]] = defaultdict(list)
    for label in labels:
        alike[_normalized(label)].append(label)
    return [tuple(spellings) for spellings in alike.values() if len(spellings) > 1]


def padded_labels(labels: Sequence[Label]) -> list[Label]:
    """Return the labels that begin or end with white space, blank ones excepted.

    Examples
    --------
    >>> padded_labels([" a", "b", "c d", " "])
    [' a']
    """
    return [label for label in labels if any(map(_is_padded, attributes_of(label)))]


def are_numbers(labels: Sequence[Label]) -> bool:
    """Return whether labels, or all values of one attribute, are numbers or their texts.

    Truth values are not.

    Examples
    --------
    >>> are_numbers(["23", "24"]), are_numbers([("f", 23), ("m", 24)]), are_numbers(["a", "1"])
    (True, True, False)
    """
    columns = zip(*map(attributes_of, labels), strict=True)
    return any(all(map(_is_number, column)) for column in columns)


def many_groups_warning(labels: Sequence[Label], counts: Sequence[int]) -> str | None:
    """Return a warning about many groups of few rows, or None; none where they were allowed.

    Parameters
    ----------
    labels : sequence of k labels
    counts : sequence of k int
        Rows of each group; 0 where that is not known, and then there is no warning.
    """
    k, n_rows = len(labels), sum(counts)
    if k > DEFAULT_MAX_GROUPS:  # which somebody has allowed
        return None
    if k <= _SEVERAL_GROUPS or not all(counts) or n_rows >= _FEW_ROWS * k:
        return None
    remedy = "Check that the group column is no identifier; cross fewer attributes, or join groups"
    if are_numbers(labels):
        remedy = "Put numbers such as ages into bins first, for example with pandas.cut"
    return (
        f"There are {k} groups of {n_rows / k:.1f} rows on average, too few to say anything about "
        f"each. {remedy}. If so many are intended, set max_groups={k}."
    )


def label_warnings(
    labels: Sequence[Label], counts: Sequence[int], known: Collection[Label] = ()
) -> list[str]:
    """Return warnings about suspect labels for a caller in Python; none for ordinary labels.

    Parameters
    ----------
    labels : sequence of k labels
    counts : sequence of k int
        Rows of each group; 0 where that is not known.
    known : collection of labels
        Groups of rows that came before, about which the caller has been warned.

    Examples
    --------
    >>> label_warnings(["m", "w"], [5, 4])
    []
    """
    if all(type(label) is int for label in labels):
        return []
    messages = []
    placeholders = placeholder_labels(labels, counts)
    if placeholders is not None and not set(placeholders.labels) <= set(known):
        messages.append(
            f"{placeholders.suspicion}, leave these rows out: with pandas, pass "
            f"labels.mask(labels.isin({placeholders.for_pandas})) as sensitive_features to "
            'FairPCA(on_missing="drop").'
        )
    pairs = [each for each in similar_labels(labels) if not set(each) <= set(known)]
    if pairs:
        messages.append(
            f"Labels that differ only by case, blanks or Unicode normal form count as different "
            f"groups: {listed_pairs(pairs)}. If they mean the same, spell them alike, with pandas "
            'for example labels.str.strip().str.lower().str.normalize("NFKC").'
        )
    return messages


def listed_pairs(pairs: Iterable[Sequence[Label]]) -> str:
    r"""Return spellings of the same label for a message; those that look alike are escaped.

    Examples
    --------
    >>> listed_pairs([("a", "a ")]), listed_pairs([("\u00e9", "e\u0301")])
    ("'a' and 'a '", "'\\xe9' and 'e\\u0301'")
    """
    return join_truncated([" and ".join(_told_apart(spellings)) for spellings in pairs])


def quoted(label: Label) -> str:
    r"""Return a label in quotes, in which what cannot be printed or seen is escaped.

    Examples
    --------
    >>> quoted("a "), quoted(("f", 3)), quoted("a" + chr(10))
    ("'a '", "'f / 3'", "'a\\n'")
    """
    return repr(format_label(label))


def shell_quoted(text: str) -> str:
    """Return a text in single quotes, as a POSIX shell reads it."""
    inner = text.replace("'", "'\"'\"'")
    return f"'{inner}'"


def attributes_of(label: Label) -> tuple[Any, ...]:
    """Return the attributes of a label; of a plain one, itself alone.

    Examples
    --------
    >>> attributes_of("a"), attributes_of(("a", 1))
    (('a',), ('a', 1))
    """
    return label if isinstance(label, tuple) else (label,)


def bare(text: str) -> str:
    """Return a text in one case and normal form, without blanks and unprintable characters.

    Examples
    --------
    >>> bare("Fe male" + chr(9))
    'female'
    """
    if text.isascii() and text.isalnum():
        return text.lower()
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return "".join(char for char in folded if char.isprintable() and not char.isspace())


def _normalized(label: Label) -> Label:
    parts = tuple(bare(part) if isinstance(part, str) else part for part in attributes_of(label))
    return parts if isinstance(label, tuple) else parts[0]


def _is_number(value: Any) -> bool:
    if not isinstance(value, str):
        return not isinstance(value, bool)
    try:
        float(value)
    except ValueError:
        return False
    return True


def _is_padded(part: Any) -> bool:
    return isinstance(part, str) and part != part.strip() != ""


def _told_apart(spellings: Sequence[Label]) -> list[str]:
    shown = [quoted(label) for label in spellings]
    normal_forms = {unicodedata.normalize("NFC", text) for text in shown}
    return (
        shown
        if len(normal_forms) == len(shown)
        else [ascii(format_label(each)) for each in spellings]
    )


def _described(text: str, n_rows: int | None) -> str:
    if n_rows is None:
        return quoted(text)
    return f"{quoted(text)} ({n_rows:,} row{'s' * (n_rows != 1)})"
