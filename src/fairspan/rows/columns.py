"""Which columns of a table are features, groups and weights, and how its batches become blocks.

A column of text becomes an indicator (1 or 0) for each of its categories, named "column=category".
A model keeps the names of its features, which is all that is needed to encode other rows alike.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from itertools import chain
from typing import Any, Self

import numpy as np

from fairspan.errors import InvalidInput, InvalidParameter, InvalidType
from fairspan.registry import check_choice
from fairspan.rows.arrays import Everyone, check_apart, labels_of_table, weights_of_table
from fairspan.rows.checks import (
    check_columns,
    collapsed,
    features_of,
    numbers_of_table,
    side_by_side,
)
from fairspan.rows.groups import listed
from fairspan.rows.protocol import (
    ON_MISSING,
    KnownRows,
    OnMissing,
    Projection,
    RowBlock,
    RowOpener,
    block_rows,
    row_block,
)
from fairspan.typing import AnyArray, FloatArray

# A column of more different texts is a name or an identifier.
MOST_CATEGORIES = 1000


def is_text(kind: Any) -> bool:
    """Whether a pyarrow type holds text."""
    from pyarrow import types

    if types.is_dictionary(kind):
        kind = kind.value_type
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def categories_in(
    names: Sequence[str], columns: Sequence[str]
) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """The columns, and their categories, that features of these names are made of.

    Examples
    --------
    >>> categories_in(["age", "job=clerk", "job=smith"], ["age", "job"])
    (('job', ('clerk', 'smith')),)
    """
    longest_first = sorted(columns, key=len, reverse=True)
    found: dict[str, list[str]] = {}
    for name in names:
        column = next((each for each in longest_first if name.startswith(f"{each}=")), None)
        if column is not None and name not in columns:
            found.setdefault(column, []).append(name.removeprefix(f"{column}="))
    return tuple((column, tuple(categories)) for column, categories in found.items())


# Blocks whose columns are decoded at once.
BLOCKS_AT_A_TIME = 8


@dataclass(frozen=True)
class ChosenColumns:
    """Columns of a table by what they are for.

    Attributes
    ----------
    available : tuple of str
        All columns of the table.
    vector_lengths : tuple of (column, length)
        Columns that hold vectors of fixed length.
    features : tuple of str
        Columns that are features, in this order.
    groups : tuple of str
        Columns that make the groups; none if groups are not needed.
    weight : str or None
        Column of sample weights.
    on_missing : {"error", "drop"}
        What to do with rows in which a feature or the group is missing.
    everyone : str or None
        The label of all rows, in place of group columns.
    categories : tuple of (column, tuple of str)
        Columns of text, and the categories that have an indicator each.
    ignores_unseen : bool
        Whether a text that is no known category is 0 in all indicators; otherwise it is an error.
    beside : tuple of str
        Columns that blocks hold as they are.
    """

    available: tuple[str, ...]
    vector_lengths: tuple[tuple[str, int], ...]
    features: tuple[str, ...]
    groups: tuple[str, ...] = ()
    weight: str | None = None
    on_missing: OnMissing = "error"
    everyone: str | None = None
    categories: tuple[tuple[str, tuple[str, ...]], ...] = ()
    ignores_unseen: bool = False
    beside: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        available: Sequence[str],
        vector_lengths: Mapping[str, int],
        groups: Sequence[str] = (),
        features: Sequence[str] = (),
        exclude: Sequence[str] = (),
        *,
        weight: str | None = None,
        on_missing: OnMissing = "error",
        everyone: str | None = None,
        no_features: Sequence[str] = (),
    ) -> "ChosenColumns":
        """Choose columns by name and pattern.

        Parameters
        ----------
        available : sequence of str
        vector_lengths : mapping of str to int
        groups : sequence of str
            Group columns; several make their intersections.
        features, exclude : sequences of str
            Patterns such as "PAY_*". Without `features`, all columns are taken but the groups, the
            weight and those in `no_features`.
        weight : str, optional
        on_missing : {"error", "drop"}
        everyone : str, optional
        no_features : sequence of str
            Columns that are features only if a pattern takes them.

        Raises
        ------
        InvalidInput
            A column or pattern that the table does not have, or no feature left.
        """
        check_choice("on_missing", on_missing, ON_MISSING)
        aside = (*groups, *([] if weight is None else [weight]))
        check_columns(aside, available)
        check_apart(groups, weight)
        chosen = [
            name
            for name in available
            if name not in aside
            and (
                any(fnmatchcase(name, f) for f in features) if features else name not in no_features
            )
        ]
        for pattern in (*features, *exclude):
            if not any(fnmatchcase(name, pattern) for name in available):
                raise InvalidInput(
                    f"The pattern {pattern!r} matches no column",
                    f"The columns are {listed(available)}",
                    "Correct the pattern; * matches any text",
                )
        left = [name for name in chosen if not any(fnmatchcase(name, e) for e in exclude)]
        if not left:
            raise InvalidInput(
                "No column is left as a feature",
                f"The columns are {listed(available)}",
                "Loosen the patterns of features and exclude",
            )
        return cls(
            tuple(available),
            tuple(vector_lengths.items()),
            tuple(left),
            tuple(dict.fromkeys(groups)),
            weight,
            on_missing,
            everyone,
        )

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the features, each entry of a vector and each category with its own."""
        return tuple(chain(*self._features_of(self.features).values()))

    @property
    def read(self) -> tuple[str, ...]:
        """All columns that are read; a model may take as a feature what groups the rows."""
        return tuple(dict.fromkeys((*self.features, *self.reserved, *self.beside)))

    @property
    def reserved(self) -> tuple[str, ...]:
        """Columns of groups and weights."""
        return (*self.groups, *([] if self.weight is None else [self.weight]))

    @property
    def labels(self) -> tuple[str, ...]:
        """Columns that are read as text where a file has no types."""
        encoded = dict(self.categories)
        numeric = set(self.features).difference(encoded)
        texts = dict.fromkeys((*self.groups, *self.beside, *encoded))
        return tuple(name for name in texts if name not in numeric)

    def selected(self, names: tuple[str, ...]) -> "ChosenColumns":
        """The same with these features, in this order.

        Raises
        ------
        InvalidInput
            A column is missing.
        """
        # A model's indicators, where the table has the categories themselves.
        encoded = replace(self, categories=categories_in(names, self.available))
        features = encoded._features_of(self.available)
        known = set(chain(*features.values()))
        missing = [name for name in names if name not in known]
        stems = [name.partition("=")[0] for name in missing]
        # A single column may be what several indicators are made of.
        told = (
            stem if stems.count(stem) > 1 else name
            for stem, name in zip(stems, missing, strict=True)
        )
        check_columns(list(dict.fromkeys(told)), self.available)
        return replace(encoded, features=collapsed(names, features))

    def _features_of(self, columns: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """Names of the features in each of these columns."""
        features = features_of(columns, dict(self.vector_lengths))
        return features | {
            column: tuple(f"{column}={each}" for each in categories)
            for column, categories in self.categories
            if column in features
        }

    def blocks(self, batch: Any, first_row: int) -> Iterator[RowBlock]:
        """The blocks of a pyarrow RecordBatch, whose first row has this number."""
        import pyarrow as pa

        names = self.feature_names
        size = block_rows(len(names))
        # Columns are decoded a few blocks at a time, which spreads their overhead.
        for place in range(0, batch.num_rows, BLOCKS_AT_A_TIME * size):
            table = pa.Table.from_batches([batch.slice(place, BLOCKS_AT_A_TIME * size)])
            columns = self.decoded(table)
            labels = (
                Everyone(self.everyone).of_rows(len(table))
                if self.everyone is not None
                else labels_of_table(table, self.groups)
                if self.groups
                else None
            )
            weights = None if self.weight is None else weights_of_table(table, self.weight)
            for start in range(0, len(table), size):
                stop = min(start + size, len(table))
                yield row_block(
                    first_row + place + start,
                    side_by_side(columns, start, stop),
                    None if labels is None else labels[start:stop],
                    None if weights is None else weights[start:stop],
                    names,
                    self.on_missing,
                    table.select(self.beside).slice(start, stop - start) if self.beside else None,
                )

    def decoded(self, table: Any) -> list[AnyArray]:
        """Every feature column of a pyarrow Table as numbers, or as an array of several features.

        A column of which nothing is known is of numbers: others may lie beside it in a file.
        """
        import pyarrow as pa

        encoded = dict(self.categories)
        for place, name in enumerate(table.column_names):
            if pa.types.is_null(table.schema.types[place]):
                table = table.set_column(place, name, pa.nulls(len(table), pa.float64()))
        numeric = [name for name in self.features if name not in encoded]
        columns = dict(zip(numeric, numbers_of_table(table.select(numeric)), strict=True))
        columns |= {name: self._encoded(name, table[name]) for name in encoded}
        return [columns[name] for name in self.features]

    def _encoded(self, column: str, cells: Any) -> FloatArray:
        """Indicators of a column as an (r, number of categories) array; NaN for missing cells.

        Parameters
        ----------
        column : str
        cells : pyarrow.ChunkedArray
            Of text.

        Raises
        ------
        InvalidInput
            A text that is no known category, where these are not ignored.
        """
        import pyarrow as pa
        from pyarrow import compute

        known = dict(self.categories)[column]
        texts = cells.cast("string")  # there are several types of text
        codes = compute.index_in(texts, value_set=pa.array(known, pa.string()))
        missing = texts.is_null().to_numpy()
        found = compute.fill_null(codes, -1).to_numpy()
        unseen = np.flatnonzero((found < 0) & ~missing)
        if len(unseen) and not self.ignores_unseen:
            raise InvalidInput(
                f"The column {column!r} has the category {texts[int(unseen[0])].as_py()!r}",
                f"Allowed: the categories that the model was fitted on: {listed(known)}",
                "Fit again; audit, report and transform take other categories for none of these "
                "with --unseen ignore",
            )
        matrix = np.zeros((len(found), len(known)))
        rows = np.flatnonzero(found >= 0)
        matrix[rows, found[rows]] = 1.0
        matrix[missing] = np.nan
        return matrix


class RowsByColumns(KnownRows):
    """What frozen dataclasses of rows that are read by the names of columns have in common.

    Attributes
    ----------
    chosen : ChosenColumns
    """

    chosen: ChosenColumns

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the features."""
        return self.chosen.feature_names

    @property
    def n_features(self) -> int:
        """p, the number of features."""
        return len(self.feature_names)

    @property
    def group_columns(self) -> tuple[str, ...]:
        """Names of the columns that make the groups."""
        return self.chosen.groups

    @property
    def reserved_columns(self) -> tuple[str, ...]:
        """Names of the columns of groups and weights."""
        return self.chosen.reserved

    def selected(self, names: tuple[str, ...]) -> Self:
        """The same rows with these features, in this order.

        Raises
        ------
        InvalidInput
            A column is missing.
        """
        return replace(self, chosen=self.chosen.selected(names))  # type: ignore[type-var]


def vector_lengths_of(schema: Any) -> dict[str, int]:
    """Length of the vectors of each column of a pyarrow Schema that holds vectors."""
    sizes = {field.name: getattr(field.type, "list_size", None) for field in schema}
    return {name: size for name, size in sizes.items() if size is not None}


def named_columns_only(sensitive_features: Any, sample_weight: Any, what: str) -> dict[str, Any]:
    """Group columns and weight column of a table that is read in batches, for `ChosenColumns.of`.

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
    if isinstance(sensitive_features, Everyone) and isinstance(sample_weight, str | None):
        return {"everyone": sensitive_features.label, "weight": sample_weight}
    names = [sensitive_features] if isinstance(sensitive_features, str) else sensitive_features
    is_names = isinstance(names, list | tuple) and all(isinstance(name, str) for name in names)
    if not is_names or not isinstance(sample_weight, str | None):
        raise InvalidParameter(
            f"X is {what}, but its groups or weights are no names of columns",
            "Allowed: the names of columns of X",
            "Write labels and weights into columns of X, and pass their names",
        )
    return {"groups": tuple(names), "weight": sample_weight}


class ReadInBatches(RowOpener):
    """What files, streams and Spark's data frames have in common: rows that can only be read."""

    def transformed(self, X: Any, projection: Projection) -> Any:
        """Reduced rows have nowhere to go.

        Raises
        ------
        InvalidType
        """
        raise InvalidType(
            f"X is of type {type(X).__name__}, which reduced rows cannot be written into",
            "Allowed: arrays, data frames, and Dask and Spark collections",
            "Reduce a file with the command: fairspan transform MODEL DATA -o OUT",
        )

    def scored(self, X: Any, score: object) -> Any:
        """Rows are too many, or have no order, to be given a number each.

        Raises
        ------
        InvalidType
        """
        raise InvalidType(
            f"X is of type {type(X).__name__}, whose rows are read group by group only",
            "Allowed: arrays, data frames and Dask collections",
            "Read the rows into one of these, or let audit(model, X, ...) compare groups",
        )
