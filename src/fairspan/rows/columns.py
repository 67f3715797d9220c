"""Selection of the feature, group and weight columns of a table.

Text columns are one-hot encoded as indicators named "column=category". A model stores its feature
names, from which other rows are encoded the same way.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cached_property
from itertools import chain, groupby
from typing import Any, Self, cast

from fairspan.errors import InvalidInput, InvalidParameter, InvalidType
from fairspan.parameters import check_choice
from fairspan.rows.adapters import RowMap, SourceAdapter
from fairspan.rows.aggregation import Rows, aggregate
from fairspan.rows.blocks import KEEPING_MISSING, ON_MISSING, OnMissing
from fairspan.rows.label_matching import KnownLabels
from fairspan.rows.label_resolution import SingleGroup
from fairspan.rows.labels import format_list
from fairspan.rows.protocol import BaseRows
from fairspan.rows.validation import check_columns
from fairspan.rows.weights import WeightAggregator, WeightScale

# A column with more distinct texts is treated as a name or an identifier.
MAX_CATEGORIES = 1000


def is_text_type(dtype: Any) -> bool:
    """Return whether a pyarrow type is text, possibly dictionary-encoded."""
    from pyarrow import types

    if types.is_dictionary(dtype):
        dtype = dtype.value_type
    return bool(
        types.is_string(dtype) or types.is_large_string(dtype) or types.is_string_view(dtype)
    )


def is_numeric_type(dtype: Any) -> bool:
    """Return whether a pyarrow type is integer, floating or null."""
    from pyarrow import types

    return bool(types.is_integer(dtype) or types.is_floating(dtype) or types.is_null(dtype))


def python_label_type(dtype: Any) -> type | None:
    """Return the Python type of labels in a column of a pyarrow type; None if it has no labels."""
    from pyarrow import types

    if is_text_type(dtype):
        return str
    if types.is_dictionary(dtype):
        dtype = dtype.value_type
    if types.is_boolean(dtype):
        return bool
    if types.is_integer(dtype):
        return int
    return float if types.is_floating(dtype) else None


def infer_categories(names: Sequence[str], columns: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Infer the categorical columns and their categories from one-hot feature names.

    Names of columns, and names that begin with no column and "=", are not one-hot features.

    Examples
    --------
    >>> infer_categories(["age", "job=clerk", "job=smith"], ["age", "job"])
    {'job': ('clerk', 'smith')}
    """
    # A column name may contain "=": of several columns that fit a feature, the longest is meant.
    longest_first = sorted(map(str, columns), key=len, reverse=True)
    categories: dict[str, tuple[str, ...]] = {}
    known = set(columns)
    for name in names:
        if name in known:
            continue
        column = next((column for column in longest_first if name.startswith(f"{column}=")), None)
        if column is not None:
            category = name.removeprefix(f"{column}=")
            categories[column] = (*categories.get(column, ()), category)
    return categories


@dataclass(frozen=True)
class ColumnSelection:
    """Columns of a table by role.

    Attributes
    ----------
    available : tuple of str
        All columns of the table; unnamed ones are numbered.
    vector_lengths : mapping of column to int
        Length of the vectors in each vector column.
    features : tuple of str
        Feature columns, in order.
    group_columns : tuple of str
        Group columns; empty if no groups are needed.
    weight_column : str or None
        Column of sample weights.
    on_missing : {"error", "drop", "em", "em-drop-empty"}
        How to treat rows in which a feature or the group is missing.
    single_group : SingleGroup or None
        Single group of all rows, in place of group columns.
    categories : mapping of column to tuple of str
        Text columns and their one-hot encoded categories.
    ignore_unseen : bool
        Whether unseen categories are encoded as all zeros instead of raising.
    extra_columns : tuple of str
        Columns that are passed through to blocks unchanged.
    bins : mapping of column to tuple of float
        Bin edges of numeric group columns.
    missing_labels : mapping of column to str
        Label used for missing values, by group column.
    known_labels : KnownLabels
        Labels of a fit, to which those of the rows are matched.
    weight_scale : WeightScale
        Unit of the weights of partitioned rows.
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
        group_columns: Sequence[str] = (),
        features: Sequence[str] = (),
        exclude: Sequence[str] = (),
        *,
        weight_column: str | None = None,
        on_missing: OnMissing = "error",
        single_group: SingleGroup | None = None,
        default_exclude: Sequence[str] = (),
    ) -> "ColumnSelection":
        """Select columns by name and pattern.

        Parameters
        ----------
        available : sequence of str
            All columns of the table.
        vector_lengths : mapping of str to int
            Length of the vectors in each vector column.
        group_columns : sequence of str
            Group columns; several are crossed.
        features, exclude : sequences of str
            Patterns such as "PAY_*". By default, all columns except the groups, the weight and
            `default_exclude`.
        weight_column : str, optional
            Column of sample weights.
        on_missing : {"error", "drop", "em", "em-drop-empty"}
            How to treat rows in which a feature or the group is missing.
        single_group : SingleGroup, optional
            Single group of all rows, in place of group columns.
        default_exclude : sequence of str
            Columns that are features only if a pattern matches them.

        Raises
        ------
        InvalidInput
            Unknown column, unmatched pattern, a column used as both group and weight, or no
            features left.
        """
        check_choice("on_missing", on_missing, ON_MISSING)
        reserved = _join_names(group_columns, weight_column)
        check_columns(reserved, available)
        if weight_column in group_columns:
            raise InvalidInput(
                f"Column {weight_column!r} is used as both group and weight",
                "Allowed: different columns for groups and weights",
                "Pass another column, or omit the weight",
            )
        for pattern in (*features, *exclude):
            if not any(fnmatchcase(name, pattern) for name in available):
                raise InvalidInput(
                    f"The pattern {pattern!r} matches no column",
                    f"The columns are {format_list(available)}",
                    "Correct the pattern; * matches any text",
                )
        excluded = {*reserved, *(name for name in available if _matches(name, exclude))}
        if not features:
            excluded.update(default_exclude)
        selected = tuple(
            name
            for name in available
            if name not in excluded and (not features or _matches(name, features))
        )
        if not selected:
            raise InvalidInput(
                "No feature columns are left",
                f"The columns are {format_list(available)}",
                "Relax the patterns of features and exclude",
            )
        return cls(
            tuple(available),
            vector_lengths,
            selected,
            tuple(dict.fromkeys(group_columns)),
            weight_column,
            on_missing,
            single_group,
        )

    @cached_property
    def feature_names(self) -> tuple[str, ...]:
        """Feature names, one per vector entry and per category."""
        return tuple(chain(*self._feature_names_by_column(self.features).values()))

    @property
    def required_columns(self) -> tuple[str, ...]:
        """All columns to read; a group column may also be a feature."""
        return tuple(dict.fromkeys((*self.features, *self.reserved_columns, *self.extra_columns)))

    @property
    def reserved_columns(self) -> tuple[str, ...]:
        """Group and weight columns."""
        return _join_names(self.group_columns, self.weight_column)

    @property
    def text_columns(self) -> tuple[str, ...]:
        """Columns to read as text from files without types (CSV).

        A group column that is also a numeric feature, or binned, is read as numbers.
        """
        numeric = {*self.features, *self.bins}.difference(self.categories)
        texts = dict.fromkeys((*self.group_columns, *self.extra_columns, *self.categories))
        return tuple(name for name in texts if name not in numeric)

    def select_features(self, names: tuple[str, ...]) -> "ColumnSelection":
        """Return the selection with these features, in this order.

        Raises
        ------
        InvalidInput
            A feature that no column provides, or only some of the features of a column.
        """
        # One-hot features of a model, if the table has the categorical columns.
        encoded = replace(self, categories=infer_categories(names, self.available))
        names_by_column = encoded._feature_names_by_column(self.available)
        column_of = {
            name: column for column, features in names_by_column.items() for name in features
        }
        self._check_features(names, column_of)
        selected_columns: list[str] = []
        for column, run in groupby(names, column_of.__getitem__):
            requested_names = tuple(run)
            all_of_column = names_by_column[column]
            if requested_names != all_of_column:
                raise InvalidInput(
                    f"Column {column!r} provides the features {format_list(all_of_column)}, but "
                    f"{format_list(requested_names)} were requested",
                    "Allowed: all features of a column, in this order",
                    "Request all of them, or pass the column that the model was fitted on",
                )
            selected_columns.append(column)
        return replace(encoded, features=tuple(selected_columns))

    def _check_features(self, names: Sequence[str], column_of: Mapping[str, str]) -> None:
        """Check that each of the features `names` is provided by a column.

        `column_of` has the column of each feature that the table provides.
        """
        missing = [name for name in names if name not in column_of]
        prefixes = [name.partition("=")[0] for name in missing]
        # Report a missing categorical column once, not each indicator such as job=clerk.
        missing_columns = [
            prefix if prefixes.count(prefix) > 1 else name
            for prefix, name in zip(prefixes, missing, strict=True)
        ]
        check_columns(list(dict.fromkeys(missing_columns)), self.available, names)
        # The columns exist, but provide other features, such as shorter vectors.
        check_columns(missing, list(column_of), names)

    def _feature_names_by_column(self, columns: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """Return feature names by column."""
        return {column: self._feature_names_of(column) for column in columns}

    def _feature_names_of(self, column: str) -> tuple[str, ...]:
        if column in self.categories:
            return tuple(f"{column}={category}" for category in self.categories[column])
        if column in self.vector_lengths:
            return tuple(f"{column}[{index}]" for index in range(self.vector_lengths[column]))
        return (column,)


def _join_names(group_columns: Sequence[str], weight_column: str | None) -> tuple[str, ...]:
    if weight_column is None:
        return tuple(group_columns)
    return (*group_columns, weight_column)


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


class ColumnRows(BaseRows):
    """Mixin for rows in named columns, which are frozen dataclasses.

    Attributes
    ----------
    selection : ColumnSelection
    """

    selection: ColumnSelection

    @property
    def label_types(self) -> tuple[type | None, ...]:
        """Python type of the labels in each group column; None if unknown."""
        return tuple(None for _ in self.selection.group_columns)

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Feature names; None if they are not text (pandas numbers unnamed columns)."""
        names = self.selection.feature_names
        return names if isinstance(names[0], str) else None

    @property
    def n_features(self) -> int:
        """Number of features, p."""
        return len(self.selection.feature_names)

    @property
    def group_columns(self) -> tuple[Any, ...]:
        """Names of the group columns."""
        return self.selection.group_columns

    @property
    def reserved_columns(self) -> tuple[str, ...]:
        """Names of the group and weight columns."""
        return self.selection.reserved_columns

    @property
    def keeps_missing(self) -> bool:
        """Whether missing cells are kept, as NaN."""
        return self.selection.on_missing in KEEPING_MISSING

    def select_features(self, names: tuple[str, ...]) -> Self:
        """Return the same rows with these features, in this order.

        Raises
        ------
        InvalidInput
            A column is missing.
        """
        return replace(self, selection=self.selection.select_features(names))  # type: ignore[type-var]


class PartitionedColumnRows(ColumnRows):
    """Mixin for rows in named columns that are read in partitions or batches."""

    @property
    def weight_exponent(self) -> int:
        """Binary exponent of the unit of the weights, as far as known."""
        return self.selection.weight_scale.exponent

    def with_raw_weights(self) -> "PartitionedColumnRows":
        """Return the same rows with unscaled weights."""
        selection = replace(self.selection, weight_scale=WeightScale(is_raw=True))
        return replace(self, selection=selection)  # type: ignore[type-var]

    def find_weight_scale(self) -> None:
        """Read all weights to choose a unit that brings them into range.

        The unit is set in the `weight_scale` of the selection, which all partitions share.
        """
        rows = cast(Rows, self.with_raw_weights())
        self.selection.weight_scale.set_from(aggregate(rows, WeightAggregator()))


def column_name_arguments(
    sensitive_features: Any, sample_weight: Any, table: str
) -> dict[str, Any]:
    """Check that groups and weights are column names, for a table that is read in batches.

    Parameters
    ----------
    sensitive_features : str, list of str, or SingleGroup
        Group column(s), or a single group of all rows.
    sample_weight : str or None
        Weight column.
    table : str
        Name of the table in messages.

    Returns
    -------
    dict
        Arguments of :meth:`ColumnSelection.from_patterns`.

    Raises
    ------
    InvalidParameter
        Groups or weights are not column names.
    """
    is_valid_weight = sample_weight is None or isinstance(sample_weight, str)
    if isinstance(sensitive_features, SingleGroup) and is_valid_weight:
        return {"single_group": sensitive_features, "weight_column": sample_weight}
    names = [sensitive_features] if isinstance(sensitive_features, str) else sensitive_features
    are_names = isinstance(names, list | tuple) and all(isinstance(name, str) for name in names)
    if not are_names or not is_valid_weight:
        raise InvalidParameter(
            f"X is {table}, but its groups or weights are not column names",
            "Allowed: the names of columns of X",
            "Add labels and weights to X as columns, and pass their names",
        )
    return {"group_columns": names, "weight_column": sample_weight}


class StreamAdapter(SourceAdapter):
    """Adapter for files, streams and Spark data frames, whose rows can only be read."""

    def map_rows(self, X: Any, row_map: RowMap) -> Any:
        """Refuse: there is no place to write results row by row.

        Raises
        ------
        InvalidType
        """
        raise InvalidType(
            f"X is of type {type(X).__name__}, whose rows can only be aggregated by group",
            "Allowed: arrays, data frames and Dask collections, and, for transform, Spark data "
            "frames",
            "Load the rows into one of these, transform a file with the command: fairspan "
            "transform MODEL DATA -o OUT, or compare groups with audit(model, X, ...)",
        )
