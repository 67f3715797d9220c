"""Which columns of a table are features, groups and weights, and how its batches become blocks.

A column of text becomes an indicator (1 or 0) for each of its categories, named "column=category".
A model keeps the names of its features, which is all that is needed to encode other rows alike.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cached_property
from itertools import chain, groupby
from typing import Any, Self, cast

from fairspan.errors import InvalidInput, InvalidParameter, InvalidType
from fairspan.registry import check_choice
from fairspan.rows.arrays import SingleGroup
from fairspan.rows.groups import format_list
from fairspan.rows.label_matching import KnownLabels
from fairspan.rows.protocol import (
    KEEPING_MISSING,
    ON_MISSING,
    BaseRows,
    OnMissing,
    RowMap,
    Rows,
    SourceAdapter,
    aggregate,
)
from fairspan.rows.validation import check_columns
from fairspan.rows.weights import WeightScale, WeightTally

# A column of more different texts is a name or an identifier.
MAX_CATEGORIES = 1000


def is_text_type(kind: Any) -> bool:
    """Whether a pyarrow type holds text."""
    from pyarrow import types

    if types.is_dictionary(kind):
        kind = kind.value_type
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def is_number(kind: Any) -> bool:
    """Whether a pyarrow type holds whole or real numbers, or nothing at all."""
    from pyarrow import types

    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_null(kind))


def label_type(kind: Any) -> type | None:
    """Return the Python type of labels in a column of a pyarrow type; None for no labels."""
    from pyarrow import types

    if is_text_type(kind):
        return str
    if types.is_dictionary(kind):
        kind = kind.value_type
    checks = {bool: types.is_boolean, int: types.is_integer, float: types.is_floating}
    return next((each for each, is_one in checks.items() if is_one(kind)), None)


def infer_categories(names: Sequence[str], columns: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The columns, and their categories, that features of these names are made of.

    Examples
    --------
    >>> infer_categories(["age", "job=clerk", "job=smith"], ["age", "job"])
    {'job': ('clerk', 'smith')}
    """
    longest_first = sorted(map(str, columns), key=len, reverse=True)
    found: dict[str, tuple[str, ...]] = {}
    known = set(columns)
    for name in [name for name in names if name not in known]:
        column = next((each for each in longest_first if name.startswith(f"{each}=")), None)
        if column is not None:
            found[column] = (*found.get(column, ()), name.removeprefix(f"{column}="))
    return found


@dataclass(frozen=True)
class ColumnSelection:
    """Columns of a table by what they are for.

    Attributes
    ----------
    available : tuple of str
        All columns of the table; unnamed ones have numbers.
    vector_lengths : mapping of column to int
        Columns that hold vectors of fixed length.
    features : tuple of str
        Columns that are features, in this order.
    groups : tuple of str
        Columns that make the groups; none if groups are not needed.
    weight : str or None
        Column of sample weights.
    on_missing : {"error", "drop", "em", "em-drop-empty"}
        What to do with rows in which a feature or the group is missing.
    everyone : Everyone or None
        In place of group columns, the label of all rows.
    categories : mapping of column to tuple of str
        Columns of text, and the categories that have an indicator each.
    ignore_unseen : bool
        Whether a text that is no known category is 0 in all indicators; otherwise it is an error.
    extra_columns : tuple of str
        Columns that blocks hold as they are.
    bins : mapping of column to tuple of float
        Group columns of numbers, and the edges at which these are cut into groups.
    unknown : mapping of column to str
        Group columns, and the label of rows in which theirs is missing.
    known_labels : KnownLabels
        Labels of a fit, to which those of the rows are matched.
    weight_scale : WeightScale
        Unit of the weights of rows that are read in parts.
    """

    available: tuple[Any, ...]
    vector_lengths: Mapping[str, int]
    features: tuple[Any, ...]
    group_columns: tuple[str, ...] = ()
    weight_column: str | None = None
    on_missing: OnMissing = "error"
    single_group: SingleGroup | None = None
    categories: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    ignore_unseen: bool = False
    extra_columns: tuple[str, ...] = ()
    bins: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    missing_labels: Mapping[str, str] = field(default_factory=dict)
    known_labels: KnownLabels = field(default_factory=KnownLabels)
    weight_scale: WeightScale = field(default_factory=WeightScale, repr=False, compare=False)

    @classmethod
    def from_patterns(
        cls,
        available: Sequence[str],
        vector_lengths: Mapping[str, int],
        groups: Sequence[str] = (),
        features: Sequence[str] = (),
        exclude: Sequence[str] = (),
        *,
        weight: str | None = None,
        on_missing: OnMissing = "error",
        everyone: SingleGroup | None = None,
        default_exclude: Sequence[str] = (),
    ) -> "ColumnSelection":
        """Choose columns by name and pattern.

        Parameters
        ----------
        available : sequence of str
        vector_lengths : mapping of str to int
        groups : sequence of str
            Group columns; several make their intersections.
        features, exclude : sequences of str
            Patterns such as "PAY_*". Without `features`, all columns are taken but the groups, the
            weight and those in `default_exclude`.
        weight : str, optional
        on_missing : {"error", "drop", "em", "em-drop-empty"}
        everyone : Everyone, optional
        default_exclude : sequence of str
            Columns that are features only if a pattern takes them.

        Raises
        ------
        InvalidInput
            A column or pattern that the table does not have, a column that is both group and
            weight, or no feature left.
        """
        check_choice("on_missing", on_missing, ON_MISSING)
        reserved = (*groups, *([] if weight is None else [weight]))
        check_columns(reserved, available)
        if weight in groups:
            raise InvalidInput(
                f"The column {weight!r} is named as a group and as the weight",
                "Allowed: a column of weights beside those of groups",
                "Name another column, or leave the weight out",
            )
        for pattern in (*features, *exclude):
            if not any(fnmatchcase(name, pattern) for name in available):
                raise InvalidInput(
                    f"The pattern {pattern!r} matches no column",
                    f"The columns are {format_list(available)}",
                    "Correct the pattern; * matches any text",
                )
        chosen = tuple(
            name
            for name in available
            if name not in reserved
            and (
                any(fnmatchcase(name, f) for f in features)
                if features
                else name not in default_exclude
            )
            and not any(fnmatchcase(name, e) for e in exclude)
        )
        if not chosen:
            raise InvalidInput(
                "No column is left as a feature",
                f"The columns are {format_list(available)}",
                "Loosen the patterns of features and exclude",
            )
        groups = tuple(dict.fromkeys(groups))
        return cls(tuple(available), vector_lengths, chosen, groups, weight, on_missing, everyone)

    @cached_property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the features, each entry of a vector and each category with its own."""
        return tuple(chain(*self._feature_names_by_column(self.features).values()))

    @property
    def required_columns(self) -> tuple[str, ...]:
        """All columns that are read; a model may take as a feature what groups the rows."""
        return tuple(dict.fromkeys((*self.features, *self.reserved_columns, *self.extra_columns)))

    @property
    def reserved_columns(self) -> tuple[str, ...]:
        """Columns of groups and weights."""
        return (*self.group_columns, *([] if self.weight_column is None else [self.weight_column]))

    @property
    def text_columns(self) -> tuple[str, ...]:
        """Columns that are read as text where a file has no types."""
        numeric = {*self.features, *self.bins}.difference(self.categories)
        texts = dict.fromkeys((*self.group_columns, *self.extra_columns, *self.categories))
        return tuple(name for name in texts if name not in numeric)

    def select_features(self, names: tuple[str, ...]) -> "ColumnSelection":
        """The same with these features, in this order.

        Raises
        ------
        InvalidInput
            A feature that no column holds, or only some of those in a column.
        """
        # A model's indicators, where the table has the categories themselves.
        encoded = replace(self, categories=infer_categories(names, self.available))
        features = encoded._feature_names_by_column(self.available)
        homes = {name: column for column, own in features.items() for name in own}
        missing = [name for name in names if name not in homes]
        stems = [name.partition("=")[0] for name in missing]
        # A single column may be what several indicators are made of.
        told = (
            stem if stems.count(stem) > 1 else name
            for stem, name in zip(stems, missing, strict=True)
        )
        check_columns(list(dict.fromkeys(told)), self.available, names)
        check_columns(missing, list(homes), names)
        chosen: list[str] = []
        for column, group in groupby(names, homes.__getitem__):
            requested, own = tuple(group), features[column]
            if requested != own:
                raise InvalidInput(
                    f"The column {column!r} makes the features {format_list(own)}, but "
                    f"{format_list(requested)} are requested",
                    "Allowed: all features of a column, in this order",
                    "Name all of them, or pass the column that the model was fitted on",
                )
            chosen.append(column)
        return replace(encoded, features=tuple(chosen))

    def _feature_names_by_column(self, columns: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """Names of the features in each of these columns."""
        lengths, categories = self.vector_lengths, self.categories
        return {
            column: tuple(f"{column}={each}" for each in categories[column])
            if column in categories
            else tuple(f"{column}[{index}]" for index in range(lengths[column]))
            if column in lengths
            else (column,)
            for column in columns
        }


class ColumnRows(BaseRows):
    """What frozen dataclasses of rows in named columns have in common.

    Attributes
    ----------
    chosen : ColumnSelection
    """

    selection: ColumnSelection

    @property
    def label_types(self) -> tuple[type | None, ...]:
        """Python types of the labels in each group column; None where that is not known."""
        return tuple(None for _ in self.selection.group_columns)

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Names of the features; None where they are no text (pandas numbers unnamed columns)."""
        names = self.selection.feature_names
        return names if isinstance(names[0], str) else None

    @property
    def n_features(self) -> int:
        """p, the number of features."""
        return len(self.selection.feature_names)

    @property
    def group_columns(self) -> tuple[Any, ...]:
        """Names of the columns that make the groups."""
        return self.selection.group_columns

    @property
    def reserved_columns(self) -> tuple[str, ...]:
        """Names of the columns of groups and weights."""
        return self.selection.reserved_columns

    @property
    def keeps_missing(self) -> bool:
        """Whether rows keep cells that are missing, as NaN."""
        return self.selection.on_missing in KEEPING_MISSING

    def select_features(self, names: tuple[str, ...]) -> Self:
        """The same rows with these features, in this order.

        Raises
        ------
        InvalidInput
            A column is missing.
        """
        return replace(self, selection=self.selection.select_features(names))  # type: ignore[type-var]


class RowsInParts(ColumnRows):
    """What frozen dataclasses of rows in named columns that are read in parts have in common."""

    @property
    def weight_exponent(self) -> int:
        """Binary exponent of the unit of the weights, as far as it is known."""
        return self.selection.weight_scale.exponent

    def with_raw_weights(self) -> "RowsInParts":
        """Return the same rows, whose weights are as they are stored."""
        chosen = replace(self.selection, weight_scale=WeightScale(is_raw=True))
        return replace(self, selection=chosen)  # type: ignore[type-var]

    def find_weight_scale(self) -> None:
        """Read all weights, to choose the unit of weights out of range."""
        rows = cast(Rows, self.with_raw_weights())
        self.selection.weight_scale.set_by(aggregate(rows, WeightTally()))


def column_name_arguments(sensitive_features: Any, sample_weight: Any, what: str) -> dict[str, Any]:
    """Group columns and weight column of a table that is read in batches, for `ColumnSelection.of`.

    Parameters
    ----------
    sensitive_features : str, list of str, or Everyone
    sample_weight : str or None
    what : str
        What the table is called in messages.

    Raises
    ------
    InvalidParameter
        They are no names.
    """
    names = [sensitive_features] if isinstance(sensitive_features, str) else sensitive_features
    is_everyone = isinstance(sensitive_features, SingleGroup)
    is_names = isinstance(names, list | tuple) and all(isinstance(name, str) for name in names)
    if not (is_names or is_everyone) or not isinstance(sample_weight, str | None):
        raise InvalidParameter(
            f"X is {what}, but its groups or weights are no names of columns",
            "Allowed: the names of columns of X",
            "Write labels and weights into columns of X, and pass their names",
        )
    return {"everyone" if is_everyone else "groups": names, "weight": sample_weight}


class StreamAdapter(SourceAdapter):
    """What files, streams and Spark's data frames have in common: rows that can only be read."""

    def map_rows(self, X: Any, row_map: RowMap) -> Any:
        """Rows are too many, or have no order, to be given numbers each, which have nowhere to go.

        Raises
        ------
        InvalidType
        """
        raise InvalidType(
            f"X is of type {type(X).__name__}, whose rows can only be read, group by group",
            "Allowed: arrays, data frames and Dask collections, and Spark's data frames to reduce",
            "Read the rows into one of these, reduce a file with the command: fairspan transform "
            "MODEL DATA -o OUT, or let audit(model, X, ...) compare groups",
        )
