"""Match group labels of new rows to those of a fit where they are equal as text, such as 1 and "1".

A CSV file holds text only, so the labels 1 and 2 of a fit in Python are "1" and "2" in the file of
the same rows. Labels are compared attribute by attribute, and only if all values of an attribute
have one type in the rows and another one in the fit. Numbers and truth values of different types
match where they are equal, as 1, 1.0 and True are.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fairspan.errors import InvalidInput
from fairspan.formatting.text import join_truncated
from fairspan.rows.groups import (
    CodedLabels,
    Label,
    describe_label_type,
    format_list,
    is_missing_label,
    label_type,
    to_python_label,
    type_in_words,
)
from fairspan.rows.label_checks import attributes_of
from fairspan.rows.protocol import RowBlock


@dataclass(frozen=True)
class KnownLabels:
    """The labels of a fit, to which labels of other rows are matched.

    Attributes
    ----------
    values : tuple of tuples
        The values of each attribute of the groups, and after them the classes of y, if known.
    """

    values: tuple[tuple[Any, ...], ...] = ()

    @classmethod
    def of(cls, groups: Sequence[Label], classes: Sequence[Label] = ()) -> "KnownLabels":
        """Collect the values of the groups of a fit, and of the classes of y that it knows.

        Examples
        --------
        >>> KnownLabels.of([("f", 1), ("m", 2)]).values
        (('f', 'm'), (1, 2))
        """
        values = [
            tuple(dict.fromkeys(column)) for column in zip(*map(attributes_of, groups), strict=True)
        ]
        if classes:
            values.append(tuple(classes))
        return cls(tuple(values))

    @classmethod
    def of_certificate(cls, certificate: Any, *, has_classes: bool = False) -> "KnownLabels":
        """Collect the labels that a certificate names.

        Parameters
        ----------
        certificate : Certificate
        has_classes : bool
            Whether labels of rows end with the class of the row in y, for restrictions that hold in
            chosen classes.
        """
        classes = getattr(certificate.restriction, "within_classes", None) if has_classes else None
        return cls.of(certificate.groups, classes if isinstance(classes, tuple) else ())

    def match(self, labels: CodedLabels) -> CodedLabels:
        """Return the labels with those of the fit in place of those that are equal as text.

        Further labels that are spelled as values of the type of the fit become such values. Where
        no label of an attribute is one of the fit, or one cannot be read so or may be several of
        them, all stay as they are.

        Examples
        --------
        >>> KnownLabels.of([1, 2]).match(CodedLabels.of(["2", "1", "3"])).to_list()
        [2, 1, 3]
        >>> KnownLabels.of([1, 2]).match(CodedLabels.of(["2", "1", "c"])).to_list()
        ['2', '1', 'c']
        """
        replacements = self.replacements(labels)
        if not any(replacements):
            return labels
        matched = [self._replaced(label, replacements) for label in labels.categories]
        if len({(label_type(label), label) for label in matched}) < len(matched):
            return labels  # two labels would become one
        return labels.with_distinct(matched)

    def match_block(self, block: RowBlock) -> RowBlock:
        """Return a block of rows whose labels are matched."""
        dropped = block.dropped_rows
        return replace(
            block,
            group_labels=None if block.group_labels is None else self.match(block.group_labels),
            dropped_rows=None if dropped is None else (self.match(dropped[0]), dropped[1]),
        )

    def replacements(self, labels: CodedLabels) -> list[dict[Any, Any]]:
        """Return, for each attribute, what its values become; nothing where their types agree."""
        rows = [attributes_of(to_python_label(label)) for label in labels.present]
        found = []
        for position, known in enumerate(self.values):
            parts = [row[position] for row in rows if len(row) > position]
            found.append(_replacements(parts, known))
        return found

    def notice(self, labels: CodedLabels) -> str | None:
        """Return a notice of the labels that are matched although their types differ, or None.

        Examples
        --------
        >>> KnownLabels.of([1, 2]).notice(CodedLabels.of(["1", "2"]))
        "Group labels of these rows match those of the model: '1' is 1, '2' is 2."
        """
        pairs = [
            f"{value!r} is {known!r}"
            for replaced in self.replacements(labels)
            for value, known in replaced.items()
        ]
        if not pairs:
            return None
        return f"Group labels of these rows match those of the model: {join_truncated(pairs)}."

    def notice_of_types(self, types: Sequence[type | None]) -> str | None:
        """Return a notice of attributes whose type in the rows is not that of the fit, or None.

        Parameters
        ----------
        types : sequence of type or None
            Of each attribute of the rows; None where it is not known.
        """
        differing = [
            f"{type_in_words(found)} in these rows and {type_in_words(type(known[0]))} in the model"
            for found, known in zip(types, self.values, strict=False)
            if found is not None and found is not type(known[0])
        ]
        if not differing:
            return None
        return (
            f"Group labels are {join_truncated(differing)}. Labels match where they are equal as text, "
            "such as '1' and 1."
        )

    def _replaced(self, label: Any, replacements: Sequence[Mapping[Any, Any]]) -> Any:
        parts = list(attributes_of(to_python_label(label)))
        for position, replaced in enumerate(replacements[: len(parts)]):
            if not is_missing_label(parts[position]):
                parts[position] = replaced.get(parts[position], parts[position])
        return tuple(parts) if isinstance(label, tuple) else parts[0]


def remedy_for(label: Label, labels: Sequence[Label], otherwise: str) -> str:
    """Return what to do about a label that is none of some labels.

    Parameters
    ----------
    label : label
    labels : sequence of labels
    otherwise : str
        The remedy where the label equals none of them as text.

    Examples
    --------
    >>> remedy_for("1", [1, 2], "Name one of them"), remedy_for("3", [1, 2], "Name one of them")
    ("Write 1 in place of '1': labels have types", 'Name one of them')
    """
    matched = KnownLabels.of(labels).match(CodedLabels.from_labels([label])).to_list()[0]
    if matched == label or matched not in labels:
        return otherwise
    return f"Write {matched!r} in place of {label!r}: labels have types"


def check_types(found: Sequence[Label], known: Sequence[Label]) -> None:
    """Make sure that labels of rows can be compared with those of a fit.

    Raises
    ------
    InvalidInput
        The labels differ, and so do their types: whether the groups are the same is not known.
    """
    if list(found) == list(known) or not found or not known:
        return
    if label_type(found[0]) == label_type(known[0]):
        return
    raise InvalidInput(
        f"The rows have the groups {format_list(found)} ({describe_label_type(found)}), and the model was "
        f"fitted on {format_list(known)} ({describe_label_type(known)})",
        "Allowed: labels of the type of the fit, or labels that are each equal as text to one "
        "label of the fit",
        "Convert the group column to the type of the fit, so that its labels are spelled alike",
    )


def _replacements(values: Sequence[Any], known: Sequence[Any]) -> dict[Any, Any]:
    """Return what values of another type become; nothing if one of them cannot be matched."""
    types = {type(value) for value in values if not is_missing_label(value)}
    known_types = set(map(type, known))
    if len(types) != 1 or len(known_types) != 1 or types == known_types:
        return {}
    by_text: dict[str, list[Any]] = {}
    for value in known:
        for text in _texts(value):
            by_text.setdefault(text, []).append(value)
    found: dict[Any, Any] = {}
    for value in dict.fromkeys(values):
        if is_missing_label(value):
            continue
        matching = {each for text in _texts(value) for each in by_text.get(text, [])}
        if not isinstance(value, str) and str not in known_types:
            matching |= {each for each in known if each == value}
        if len(matching) > 1:
            return {}
        replacement = matching.pop() if matching else _converted(value, *known_types)
        if replacement is None:
            return {}
        found[value] = replacement
    return found if set(found.values()) & set(known) else {}


def _converted(value: Any, wanted: type) -> Any:
    """Return a value of another type that is spelled alike; None if there is none."""
    if wanted is str:
        return str(value)
    if wanted is bool:
        return {"true": True, "false": False}.get(str(value).lower())
    try:
        number = wanted(float(value))
    except (ValueError, OverflowError):
        return None
    if not math.isfinite(number):
        return None
    return number if set(_texts(number)) & set(_texts(value)) else None


def _texts(value: Any) -> Iterator[str]:
    """Iterate over the ways in which programs write a value as text."""
    text = str(value)
    yield text
    if isinstance(value, bool):
        yield from (text.lower(), text.upper())
    elif isinstance(value, int):  # pandas makes floats of whole numbers beside missing cells
        yield f"{value}.0"
    elif isinstance(value, float) and value.is_integer():
        yield str(int(value))
