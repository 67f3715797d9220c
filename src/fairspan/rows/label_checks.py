"""Checks of group labels: placeholders of missing values, stray spaces and near-duplicates."""

import unicodedata
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from fairspan.formatting.names import join_truncated
from fairspan.rows.group_limit import DEFAULT_MAX_GROUPS
from fairspan.rows.labels import Label, Scalar, attributes_of, format_label, quoted_group
from fairspan.typing import RawLabel

# Texts that programs write for a missing value, in lower case. Words that may be a valid answer,
# such as "unknown", "other" or "missing", are excluded.
_LABEL_PLACEHOLDERS = frozenset(
    {
        "",
        *("?", "??", "???", "-", "--", "---", ".", "..", "*", "_", "/", "\\"),
        *("nan", "-nan", "nat", "none", "null", "nil", "na", "n/a", "n.a.", "<na>", "n/d"),
        *("#n/a", "#na", "#null!", "#div/0!", "#value!", "#ref!", "#name?", "#num!"),
    }
)

# ASCII characters that `normalize_text` removes: blanks, and the unprintable ones.
_ASCII_TO_REMOVE = dict.fromkeys([*range(33), 127])

# More than this many groups with fewer than 20 rows on average are most likely numbers or
# identifiers: 20 rows determine the variance of a group to about a third.
_MAX_SMALL_GROUPS = 30
_MIN_MEAN_ROWS = 20


@dataclass(frozen=True)
class PlaceholderLabels:
    """Groups whose label, or an attribute of it, is a placeholder for a missing value.

    Attributes
    ----------
    labels : tuple of labels
        Labels of the groups, in their original order.
    rows_by_text : dict of str to int or None
        Number of rows with each placeholder; None if the rows were not counted.
    """

    labels: tuple[Label, ...]
    rows_by_text: dict[str, int | None]

    @property
    def description(self) -> str:
        """Placeholders with their numbers of rows, for a message."""
        return join_truncated([_describe(text, n) for text, n in self.rows_by_text.items()])

    @property
    def suspicion(self) -> str:
        """First sentence of a message about the placeholders, and the condition of its remedy."""
        if len(self.rows_by_text) == 1:
            return (
                f"{self.description} counts as a group, but looks like a placeholder of a missing "
                "value. If it is one"
            )
        return (
            f"{self.description} count as groups, but look like placeholders of a missing value. "
            "If they are"
        )

    @property
    def for_pandas(self) -> str:
        """Placeholders as a Python list, for example code."""
        return repr(list(self.rows_by_text))


def is_placeholder(value: RawLabel) -> bool:
    """Return whether a label, or one attribute of it, is a placeholder for a missing value.

    Examples
    --------
    >>> is_placeholder(" ? "), is_placeholder("None"), is_placeholder("unknown"), is_placeholder(0)
    (True, True, False, False)
    """
    return isinstance(value, str) and normalize_text(value) in _LABEL_PLACEHOLDERS


def placeholder_labels(labels: Sequence[Label], counts: Sequence[int]) -> PlaceholderLabels | None:
    """Return the groups whose label contains a placeholder; None if there are none.

    Placeholders are texts that stand for a missing value, such as "?" or "nan".

    Parameters
    ----------
    labels : sequence of k labels
        Every attribute of an intersection is checked.
    counts : sequence of k int
        Rows of each group; 0 if unknown.

    Examples
    --------
    >>> placeholders = placeholder_labels(["?", "m", "w"], [3, 5, 4])
    >>> placeholders.labels, placeholders.description
    (('?',), "'?' (3 rows)")
    >>> placeholder_labels([("f", "?"), ("m", "?")], [0, 5]).description  # one of them unknown
    "'?'"
    """
    suspect = []
    rows_by_text: dict[str, int | None] = {}
    for label, n in zip(labels, counts, strict=True):
        texts = {value for value in attributes_of(label) if is_placeholder(value)}
        if not texts:
            continue
        suspect.append(label)
        # Sum over the groups with the same placeholder; None if the number of one is unknown.
        for text in sorted(map(str, texts)):
            n_so_far = rows_by_text.get(text, 0)
            rows_by_text[text] = None if n_so_far is None or not n else n_so_far + n
    return PlaceholderLabels(tuple(suspect), rows_by_text) if suspect else None


def similar_labels(labels: Sequence[Label]) -> list[tuple[Label, ...]]:
    """Return the sets of labels that differ only by case, blanks or Unicode normal form.

    Parameters
    ----------
    labels : sequence of labels
        Attributes of an intersection are compared one by one.

    Examples
    --------
    >>> similar_labels(["a", "a ", "b"]), similar_labels(["a", "b"])
    ([('a', 'a ')], [])
    """
    spellings_by_form: dict[Label, list[Label]] = defaultdict(list)
    for label in labels:
        spellings_by_form[_normalize(label)].append(label)
    return [tuple(spellings) for spellings in spellings_by_form.values() if len(spellings) > 1]


def padded_labels(labels: Sequence[Label]) -> list[Label]:
    """Return the labels that begin or end with white space, except blank ones.

    Examples
    --------
    >>> padded_labels([" a", "b", "c d", " "])
    [' a']
    """
    return [label for label in labels if any(map(_is_padded, attributes_of(label)))]


def are_numbers(labels: Sequence[Label]) -> bool:
    """Return whether labels, or all values of one attribute, are numbers or numeric texts.

    Booleans are not numbers.

    Examples
    --------
    >>> are_numbers(["23", "24"]), are_numbers([("f", 23), ("m", 24)]), are_numbers(["a", "1"])
    (True, True, False)
    """
    columns = zip(*map(attributes_of, labels), strict=True)
    return any(all(map(_is_number, column)) for column in columns)


def many_groups_warning(labels: Sequence[Label], counts: Sequence[int]) -> str | None:
    """Return a warning about many small groups; None if there are few, or if they were allowed.

    Parameters
    ----------
    labels : sequence of k labels
    counts : sequence of k int
        Rows of each group; 0 if unknown, and then there is no warning.
    """
    k = len(labels)
    n_rows = sum(counts)
    if k > DEFAULT_MAX_GROUPS:  # allowed explicitly
        return None
    if k <= _MAX_SMALL_GROUPS or not all(counts) or n_rows >= _MIN_MEAN_ROWS * k:
        return None
    if are_numbers(labels):
        remedy = "Bin numbers such as ages first, for example with pandas.cut"
    else:
        remedy = (
            "Check that the group column is not an identifier; cross fewer attributes, or merge "
            "groups"
        )
    return (
        f"There are {k} groups of {n_rows / k:.1f} rows on average, too few for a statement about "
        f"each. {remedy}. If this number is intended, set max_groups={k}."
    )


def label_warnings(
    labels: Sequence[Label], counts: Sequence[int], known: Collection[Label] = ()
) -> list[str]:
    """Return warnings about suspect labels for a caller in Python; none for ordinary labels.

    Parameters
    ----------
    labels : sequence of k labels
    counts : sequence of k int
        Rows of each group; 0 if unknown.
    known : collection of labels
        Groups of earlier rows, about which the caller has been warned.

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
            f"{placeholders.suspicion}, drop these rows: with pandas, pass "
            f"labels.mask(labels.isin({placeholders.for_pandas})) as sensitive_features to "
            'FairPCA(on_missing="drop").'
        )
    similar = [
        spellings for spellings in similar_labels(labels) if not set(spellings) <= set(known)
    ]
    if similar:
        messages.append(
            "Labels that differ only by case, blanks or Unicode normal form count as different "
            f"groups: {format_spellings(similar)}. If they mean the same, unify them, for example "
            'with pandas: labels.str.strip().str.lower().str.normalize("NFKC").'
        )
    return messages


def format_spellings(similar: Iterable[Sequence[Label]]) -> str:
    r"""Format spellings of the same label for a message; those that look the same are escaped.

    Examples
    --------
    >>> format_spellings([("a", "a ")]), format_spellings([("\u00e9", "e\u0301")])
    ("'a' and 'a '", "'\\xe9' and 'e\\u0301'")
    """
    return join_truncated([" and ".join(_distinguish(spellings)) for spellings in similar])


def normalize_text(text: str) -> str:
    """Normalize case and Unicode form, and remove blanks and unprintable characters.

    Examples
    --------
    >>> normalize_text("Fe male" + chr(9))
    'female'
    """
    if text.isascii():
        return text.lower().translate(_ASCII_TO_REMOVE)
    # Normalized twice, since case folding may undo the normal form.
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return "".join(char for char in folded if char.isprintable() and not char.isspace())


def _normalize(label: Label) -> Label:
    attributes = tuple(
        normalize_text(value) if isinstance(value, str) else value for value in attributes_of(label)
    )
    return attributes if isinstance(label, tuple) else attributes[0]


def _is_number(value: Scalar) -> bool:
    """Return whether a value is a number, or a text that is one; booleans are not."""
    if not isinstance(value, str):
        return not isinstance(value, bool)
    try:
        float(value)
    except ValueError:
        return False
    return True


def _is_padded(value: Scalar) -> bool:
    """Return whether a value is a text that begins or ends with white space, and is not blank."""
    return isinstance(value, str) and value != value.strip() != ""


def _distinguish(spellings: Sequence[Label]) -> list[str]:
    """Return spellings in quotes, escaped if some of them look the same."""
    texts = [quoted_group(label) for label in spellings]
    normal_forms = {unicodedata.normalize("NFC", text) for text in texts}
    if len(normal_forms) == len(texts):
        return texts
    return [ascii(format_label(label)) for label in spellings]


def _describe(text: str, n_rows: int | None) -> str:
    if n_rows is None:
        return quoted_group(text)
    return f"{quoted_group(text)} ({n_rows:,} row{'s' * (n_rows != 1)})"
