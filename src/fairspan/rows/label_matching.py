"""Match group labels of new rows to those of a fit if they are equal as text, such as 1 and "1".

A CSV file contains only text, so the labels 1 and 2 of a fit in Python are "1" and "2" in the file
of the same rows. Labels are compared attribute by attribute, and only if all values of an attribute
have one type in the rows and another one in the fit. Numbers and booleans of different types match
if they are equal, such as 1, 1.0 and True.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, cast

from fairspan.errors import InvalidInput
from fairspan.formatting.names import join_truncated
from fairspan.rows.blocks import RowBlock
from fairspan.rows.coded_labels import CodedLabels
from fairspan.rows.labels import (
    Label,
    attributes_of,
    describe_label_type,
    format_list,
    is_missing_label,
    label_type,
    plural_type_name,
    to_python_label,
)
from fairspan.typing import RawLabel


class FittedLabels(Protocol):
    """Certificate of a fit, as far as it names labels."""

    @property
    def groups(self) -> Sequence[Label]:
        """Labels of the groups."""

    @property
    def restriction(self) -> object:
        """Restriction on the subspace, which may name classes; or None."""


@dataclass(frozen=True)
class KnownLabels:
    """Labels of a fit, to which labels of other rows are matched.

    Attributes
    ----------
    values : tuple of tuples
        Values of each attribute of the groups.
    classes : tuple
        Classes of y; empty if unknown.
    """

    values: tuple[tuple[Label, ...], ...] = ()
    classes: tuple[Label, ...] = ()

    @classmethod
    def from_groups(cls, groups: Sequence[Label], classes: Sequence[Label] = ()) -> "KnownLabels":
        """Collect the values of the groups of a fit, and of its classes of y, if known.

        Examples
        --------
        >>> KnownLabels.from_groups([("f", 1), ("m", 2)]).values
        (('f', 'm'), (1, 2))
        """
        columns = zip(*map(attributes_of, groups), strict=True)
        return cls(tuple(tuple(dict.fromkeys(column)) for column in columns), tuple(classes))

    @classmethod
    def from_certificate(cls, certificate: "FittedLabels") -> "KnownLabels":
        """Collect the groups in a certificate, and the classes that its restriction names."""
        classes: object = getattr(certificate.restriction, "within_classes", None)
        if not isinstance(classes, tuple):
            return cls.from_groups(certificate.groups)
        return cls.from_groups(certificate.groups, classes)

    def of_pairs(self) -> "KnownLabels":
        """Return the labels of pairs of group and class, whose last attribute is the class."""
        return KnownLabels((*self.values, self.classes)) if self.classes else self

    def match(self, labels: CodedLabels) -> CodedLabels:
        """Replace labels by those of the fit that are equal as text.

        Other labels are converted to the type of the fit. An attribute is left unchanged if none of
        its labels is one of the fit, or if one of them cannot be converted or matches several.

        Examples
        --------
        >>> labels_at_fit = KnownLabels.from_groups([1, 2])
        >>> labels_at_fit.match(CodedLabels.from_labels(["2", "1", "3"])).to_list()
        [2, 1, 3]
        >>> labels_at_fit.match(CodedLabels.from_labels(["2", "1", "c"])).to_list()
        ['2', '1', 'c']
        """
        replacements = self.replacements(labels)
        if not any(replacements):
            return labels
        matched = [self._replace(label, replacements) for label in labels.categories]
        if len({(label_type(label), label) for label in matched}) < len(matched):
            return labels  # two labels would become one
        return labels.with_categories(matched)

    def match_classes(self, classes: CodedLabels) -> CodedLabels:
        """Replace classes by those of the fit that are equal as text."""
        return KnownLabels((self.classes,)).match(classes) if self.classes else classes

    def match_block(self, block: RowBlock) -> RowBlock:
        """Match the groups and classes of a block of rows."""
        dropped_rows = block.dropped_rows
        if dropped_rows is not None:
            dropped_rows = dropped_rows._replace(groups=self.match(dropped_rows.groups))
        return replace(
            block,
            groups=None if block.groups is None else self.match(block.groups),
            classes=None if block.classes is None else self.match_classes(block.classes),
            dropped_rows=dropped_rows,
        )

    def replacements(self, labels: CodedLabels) -> list[dict[Label, Label]]:
        """Return the values to replace in each attribute of the labels.

        Returns
        -------
        list of dict
            For each entry of `values`, a dict from a value in the rows to the value that replaces
            it: the equal one of the fit, or its conversion to the type of the fit if no value is
            equal. Empty for an attribute whose types agree, or that cannot be matched.

        Examples
        --------
        >>> labels_at_fit = KnownLabels.from_groups([("f", 1), ("m", 2)])
        >>> labels_at_fit.replacements(CodedLabels.from_labels([("f", "1"), ("m", "3")]))
        [{}, {'1': 1, '3': 3}]
        """
        rows = [attributes_of(to_python_label(label)) for label in labels.present]
        by_attribute = []
        for position, known in enumerate(self.values):
            # Labels may have fewer attributes than those of the fit, if the rows are others.
            values = [row[position] for row in rows if len(row) > position]
            by_attribute.append(_find_replacements(values, known))
        return by_attribute

    def describe_matches(self, labels: CodedLabels) -> str | None:
        """Return a notice about labels that match although their types differ, or None.

        Examples
        --------
        >>> labels_at_fit = KnownLabels.from_groups([1, 2])
        >>> labels_at_fit.describe_matches(CodedLabels.from_labels(["1", "2"]))
        "Group labels of these rows match those of the model: '1' is 1, '2' is 2."
        """
        pairs = [
            f"{value!r} is {replacement!r}"
            for replacements in self.replacements(labels)
            for value, replacement in replacements.items()
        ]
        if not pairs:
            return None
        return f"Group labels of these rows match those of the model: {join_truncated(pairs)}."

    def describe_type_differences(
        self, types: Sequence[type | None], class_type: type | None = None
    ) -> str | None:
        """Return a notice about attributes whose type differs between rows and fit, or None.

        Parameters
        ----------
        types : sequence of type or None
            Type of each attribute of the groups of the rows; None if unknown.
        class_type : type, optional
            Type of the classes of the rows, if known.
        """
        # `values` has the labels of the fit by attribute, of which the rows may have fewer.
        compared = list(zip(types, self.values, strict=False))
        if self.classes:
            compared.append((class_type, self.classes))
        differences = []
        for row_type, known in compared:
            fit_type = type(known[0])  # of all: a fit refuses labels of several types
            if row_type is not None and row_type is not fit_type:
                differences.append(
                    f"{plural_type_name(row_type)} in these rows and {plural_type_name(fit_type)} "
                    "in the model"
                )
        if not differences:
            return None
        return (
            f"Group labels are {join_truncated(differences)}. Labels match if they are equal as "
            "text, such as '1' and 1."
        )

    def _replace(self, label: RawLabel, replacements: Sequence[Mapping[Label, Label]]) -> Label:
        """Return a label with the attributes replaced that have a replacement."""
        values: list[Label] = list(attributes_of(to_python_label(label)))
        for position, new_values in enumerate(replacements[: len(values)]):
            if not is_missing_label(values[position]):
                values[position] = new_values.get(values[position], values[position])
        return cast("Label", tuple(values)) if isinstance(label, tuple) else values[0]


def remedy_for(label: Label, labels: Sequence[Label], otherwise: str) -> str:
    """Return the remedy for a label that is not among some labels.

    Parameters
    ----------
    label : label
    labels : sequence of labels
    otherwise : str
        Remedy if the label equals none of them as text.

    Examples
    --------
    >>> remedy_for("1", [1, 2], "Name one of them"), remedy_for("3", [1, 2], "Name one of them")
    ("Write 1 in place of '1': labels have types", 'Name one of them')
    """
    matched = KnownLabels.from_groups(labels).match(CodedLabels.from_labels([label])).to_list()[0]
    if matched == label or matched not in labels:
        return otherwise
    return f"Write {matched!r} in place of {label!r}: labels have types"


def check_types(row_labels: Sequence[Label], fitted: Sequence[Label]) -> None:
    """Check that labels of rows can be compared with those of a fit.

    Raises
    ------
    InvalidInput
        The labels differ, and so do their types, so the groups may or may not be the same.
    """
    if list(row_labels) == list(fitted) or not row_labels or not fitted:
        return
    if label_type(row_labels[0]) == label_type(fitted[0]):
        return
    raise InvalidInput(
        f"The rows have the groups {format_list(row_labels)} ({describe_label_type(row_labels)}), "
        f"but the model was fitted on {format_list(fitted)} ({describe_label_type(fitted)})",
        "Allowed: labels of the type of the fit, or labels that are each equal as text to one "
        "label of the fit",
        "Convert the group column to the type of the fit",
    )


def _find_replacements(values: Sequence[Label], known: Sequence[Label]) -> dict[Label, Label]:
    """Return the replacement of each value of one attribute.

    Empty if nothing is to be replaced: the values and the known ones agree in type, or either have
    several types; a value cannot be converted, or matches several known ones; or no value matches a
    known one, so that nothing suggests that they mean the same.
    """
    types = {type(value) for value in values if not is_missing_label(value)}
    known_types = set(map(type, known))
    if len(types) != 1 or len(known_types) != 1 or types == known_types:
        return {}
    (known_type,) = known_types
    known_by_text: dict[str, list[Label]] = {}
    for known_value in known:
        for text in _spellings(known_value):
            known_by_text.setdefault(text, []).append(known_value)
    replacements: dict[Label, Label] = {}
    for value in dict.fromkeys(values):
        if is_missing_label(value):
            continue
        matching = {match for text in _spellings(value) for match in known_by_text.get(text, [])}
        if not isinstance(value, str) and known_type is not str:
            # Equal numbers and booleans may be written differently, such as 1.0 and True.
            matching |= {known_value for known_value in known if known_value == value}
        if len(matching) > 1:
            return {}
        replacement = matching.pop() if matching else _convert(value, known_type)
        if replacement is None:
            return {}
        replacements[value] = replacement
    return replacements if set(replacements.values()) & set(known) else {}


def _convert(value: Label, target_type: type) -> Label | None:
    """Convert a value to another type; None if that is not possible without writing it differently.

    A number and a text are written alike if a program may write the text for the number, such as
    "1" or "1.0" for 1.
    """
    # A class with several attributes is a tuple, and would have to be converted one by one.
    if isinstance(value, tuple):
        return None
    if target_type is str:
        return str(value)
    if target_type is bool:
        return {"true": True, "false": False}.get(str(value).lower())
    try:
        number = target_type(float(value))
    except (ValueError, OverflowError):
        return None
    if not math.isfinite(number):
        return None
    # The conversion may have changed the value: int(2.5) is 2, and no program writes "2.5" for it.
    return number if set(_spellings(number)) & set(_spellings(value)) else None


def _spellings(value: Label) -> Iterator[str]:
    """Yield the texts that programs write for a value."""
    text = str(value)
    yield text
    if isinstance(value, bool):
        yield from (text.lower(), text.upper())
    elif isinstance(value, int):  # pandas stores a column of integers with missing cells as floats
        yield f"{value}.0"
    elif isinstance(value, float) and value.is_integer():
        yield str(int(value))
