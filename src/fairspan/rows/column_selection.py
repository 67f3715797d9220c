"""Selection of the feature, group and weight columns of a table.

Text columns are one-hot encoded as indicators named "column=category". A model stores its feature
names, from which other rows are encoded the same way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cached_property
from itertools import chain, groupby
from typing import TYPE_CHECKING, Self, cast

from fairspan.errors import InvalidInput, InvalidParameter, InvalidType
from fairspan.parameters import check_choice
from fairspan.rows.aggregation import Rows, aggregate
from fairspan.rows.blocks import ON_MISSING, DropRule, OnMissing, keeps_missing
from fairspan.rows.label_matching import KnownLabels
from fairspan.rows.label_resolution import SingleGroup
from fairspan.rows.labels import format_list
from fairspan.rows.metadata import RowMetadata
from fairspan.rows.protocol import BaseRows
from fairspan.rows.row_adapters import RowMap, SourceAdapter
from fairspan.rows.row_validation import check_columns
from fairspan.rows.weights import WeightAggregator, WeightScale
from fairspan.typing import ColumnName, LabelsLike, TableLike

if TYPE_CHECKING:
    import pyarrow as pa

# A column with more distinct texts is treated as a name or an identifier.
MAX_CATEGORIES = 1000


def is_text_type(dtype: pa.DataType) -> bool:
    """Return whether a pyarrow type is text, possibly dictionary-encoded."""
    from pyarrow import types

    if types.is_dictionary(dtype):
        dtype = dtype.value_type
    return bool(
        types.is_string(dtype) or types.is_large_string(dtype) or types.is_string_view(dtype)
    )


def is_numeric_type(dtype: pa.DataType) -> bool:
    """Return whether a pyarrow type is integer, floating or null."""
    from pyarrow import types

    return bool(types.is_integer(dtype) or types.is_floating(dtype) or types.is_null(dtype))


def python_label_type(dtype: pa.DataType) -> type | None:
    """Return the Python type of labels in a column of a pyarrow type; None for others (dates)."""
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
class ColumnRoles:
    """Columns of a table that are not features.

    Attributes
    ----------
    groups : tuple of str
        Group columns, which are crossed; empty if no groups are needed.
    classes : str or None
        Column of classes (y).
    clusters : str or None
        Column of clusters.
    weights : str or None
        Column of sample weights.
    single_group : SingleGroup or None
        Single group of all rows, in place of group columns.
    """

    groups: tuple[str, ...] = ()
    classes: str | None = None
    clusters: str | None = None
    weights: str | None = None
    single_group: SingleGroup | None = None

    @property
    def label_columns(self) -> tuple[str, ...]:
        """Columns of labels: of groups, then of classes and clusters if there are any."""
        return tuple(
            name for name in (*self.groups, self.classes, self.clusters) if name is not None
        )

    @property
    def names(self) -> tuple[str, ...]:
        """All of these columns."""
        if self.weights is None:
            return self.label_columns
        return (*self.label_columns, self.weights)


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
    roles : ColumnRoles
        Columns of groups, classes, clusters and weights.
    on_missing : {"error", "drop", "drop without group", "em", "em-drop-empty"}
        How to treat rows in which a feature or the group is missing: raise, drop them, or
        keep missing features as NaN, for a fit by the EM algorithm ("em", "em-drop-empty").
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

    available: tuple[str, ...]
    vector_lengths: Mapping[str, int]
    features: tuple[str, ...]
    roles: ColumnRoles = field(default_factory=ColumnRoles)
    on_missing: DropRule = "error"
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
        roles: ColumnRoles,
        features: Sequence[str] = (),
        exclude: Sequence[str] = (),
        *,
        on_missing: OnMissing = "error",
        default_exclude: Sequence[str] = (),
    ) -> ColumnSelection:
        """Select columns by name and pattern.

        Parameters
        ----------
        available : sequence of str
            All columns of the table.
        vector_lengths : mapping of str to int
            Length of the vectors in each vector column.
        roles : ColumnRoles
            Columns of groups, classes, clusters and weights, which are not features by default.
        features, exclude : sequences of str
            Patterns such as "PAY_*". By default, all columns without a role, except
            `default_exclude`.
        on_missing : {"error", "drop", "em", "em-drop-empty"}
            How to treat rows in which a feature or the group is missing: raise, drop them, or
            keep missing features as NaN, for a fit by the EM algorithm ("em", "em-drop-empty").
        default_exclude : sequence of str
            Columns that are features only if a pattern matches them.

        Raises
        ------
        InvalidInput
            Unknown column, unmatched pattern, a column used as both group and weight, or no
            features left.
        """
        check_choice("on_missing", on_missing, ON_MISSING)
        roles = replace(roles, groups=tuple(dict.fromkeys(roles.groups)))
        check_columns(roles.names, available)
        if roles.weights in roles.groups:
            raise InvalidInput(
                f"Column {roles.weights!r} is used as both group and weight",
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
        excluded = {*roles.names, *(name for name in available if _matches(name, exclude))}
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
        return cls(tuple(available), vector_lengths, selected, roles, on_missing)

    @cached_property
    def feature_names(self) -> tuple[str, ...]:
        """Feature names, one per vector entry and per category."""
        return tuple(chain(*self._feature_names_by_column(self.features).values()))

    @property
    def required_columns(self) -> tuple[str, ...]:
        """All columns to read; a group column may also be a feature."""
        return tuple(dict.fromkeys((*self.features, *self.roles.names, *self.extra_columns)))

    @property
    def text_columns(self) -> tuple[str, ...]:
        """Columns to read as text from files without types (CSV).

        A column of labels that is also a numeric feature, or binned, is read as numbers.
        """
        numeric = {*self.features, *self.bins}.difference(self.categories)
        texts = dict.fromkeys((*self.roles.label_columns, *self.extra_columns, *self.categories))
        return tuple(name for name in texts if name not in numeric)

    def select_features(self, names: tuple[str, ...]) -> ColumnSelection:
        """Return the selection with these features, in this order.

        Raises
        ------
        InvalidInput
            A feature that no column provides, or only some of the features of a column.
        """
        # One-hot features of a model, if the table has the categorical columns.
        encoded = replace(self, categories=infer_categories(names, self.available))
        # A column of vectors, or of categories, provides several features.
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


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


class ColumnRows(BaseRows):
    """Mixin for rows in named columns, which are frozen dataclasses.

    Attributes
    ----------
    selection : ColumnSelection
    """

    selection: ColumnSelection

    def label_type(self, column: str) -> type | None:
        """Return the Python type of the labels in a column; None if unknown."""
        return None

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
    def group_columns(self) -> tuple[ColumnName, ...]:
        """Names of the group columns."""
        return self.selection.roles.groups

    @property
    def reserved_columns(self) -> tuple[str, ...]:
        """Names of the columns of groups, classes, clusters and weights."""
        return self.selection.roles.names

    @property
    def has_classes(self) -> bool:
        """Whether each row has a class (y)."""
        return self.selection.roles.classes is not None

    @property
    def has_clusters(self) -> bool:
        """Whether each row has a cluster."""
        return self.selection.roles.clusters is not None

    @property
    def keeps_missing(self) -> bool:
        """Whether missing cells are kept, as NaN."""
        return keeps_missing(self.selection.on_missing)

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

    def with_raw_weights(self) -> PartitionedColumnRows:
        """Return the same rows with unscaled weights."""
        selection = replace(self.selection, weight_scale=WeightScale(is_raw=True))
        return replace(self, selection=selection)  # type: ignore[type-var]

    def find_weight_scale(self) -> None:
        """Read all weights to choose a unit that brings them into range.

        The unit is set in the `weight_scale` of the selection, which all partitions share.
        """
        rows = cast(Rows, self.with_raw_weights())
        self.selection.weight_scale.set_from(aggregate(rows, WeightAggregator()))


def column_roles(metadata: RowMetadata, table: str) -> ColumnRoles:
    """Return the columns of groups, classes, clusters and weights of a table read in batches.

    Parameters
    ----------
    metadata : RowMetadata
    table : str
        Name of the table in messages.

    Raises
    ------
    InvalidParameter
        Groups or weights are not column names.
    InvalidInput
        Classes or clusters are not column names.
    """
    groups = metadata.groups
    weights = metadata.weights
    group_columns = _names_of_columns(groups)
    has_groups = group_columns is not None or isinstance(groups, SingleGroup)
    if not has_groups or not (weights is None or isinstance(weights, str)):
        raise InvalidParameter(
            f"X is {table}, but its groups or weights are not column names",
            "Allowed: the names of columns of X",
            "Add labels and weights to X as columns, and pass their names",
        )
    classes, clusters = class_and_cluster_columns(metadata)
    if isinstance(groups, SingleGroup):
        # Rows without group labels are read for their moments alone, which depend on neither
        # classes nor clusters. Those were only checked.
        return ColumnRoles(single_group=groups, weights=weights)
    return ColumnRoles(group_columns or (), classes, clusters, weights)


def _names_of_columns(groups: LabelsLike) -> tuple[str, ...] | None:
    """Return the names of columns if groups are given by a name, or a list of names; else None."""
    if isinstance(groups, str):
        return (groups,)
    if not isinstance(groups, list | tuple):
        return None
    return tuple(groups) if all(isinstance(name, str) for name in groups) else None


def class_and_cluster_columns(metadata: RowMetadata) -> tuple[str | None, str | None]:
    """Return the columns of classes and clusters of rows that are not in memory.

    Either is None if the rows have none.

    Raises
    ------
    InvalidInput
    """
    return _optional_column("y", metadata.classes), _optional_column("clusters", metadata.clusters)


def _optional_column(argument: str, column: LabelsLike) -> str | None:
    """Return the name of a column, or None if there is none; raises InvalidInput for values."""
    if column is None or isinstance(column, str):
        return column
    raise InvalidInput(
        f"{argument} contains values, but the rows are not in memory",
        "Allowed for such rows: a column name",
        f"Pass the column name of {argument}",
    )


class StreamAdapter(SourceAdapter):
    """Adapter for files, streams and Spark data frames, whose rows can only be read."""

    def map_rows(self, X: TableLike, row_map: RowMap) -> TableLike:
        """Refuse: there is no place to write results row by row.

        Raises
        ------
        InvalidType
        """
        raise InvalidType(
            f"X is of type {type(X).__name__}, whose rows can only be aggregated by group",
            "Allowed: arrays, data frames and Dask collections, and, for transform, Spark data "
            "frames",
            "Load the rows into one of these, transform a file on the command line "
            "(fairspan transform), or compare groups with audit(model, X, ...)",
        )
