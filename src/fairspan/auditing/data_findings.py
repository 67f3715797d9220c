"""Findings about the rows of a table: what is missing, and whether rows belong together.

Beside counts of missing values, a bounded number of the first rows is read, which show what moments
do not: rows alike, and values filled in. So the time it takes does not grow with the table.
"""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from fairspan.auditing.codes import ColumnCodes, codes_in
from fairspan.auditing.cross_fitting import Benchmark, points_of
from fairspan.auditing.findings import seen
from fairspan.auditing.models import Audited
from fairspan.auditing.results import (
    Finding,
    MissingColumn,
    MissingValues,
    group_name,
    quoted,
)
from fairspan.formatting.table import Cell, Column, Table, names_column, shares_column
from fairspan.formatting.text import count, first_of, in_ascii, share, whole
from fairspan.moments.group_moments import GroupMoments
from fairspan.moments.incomplete import Completion
from fairspan.moments.of_rows import Moments
from fairspan.rows.arrays import ArrayRows, labels_of_columns
from fairspan.rows.files.file_rows import FileRows
from fairspan.rows.frames import FrameRows
from fairspan.rows.groups import CodedLabels, Label, is_missing, plain_labels
from fairspan.rows.missing import MissingCells
from fairspan.rows.protocol import Rows, RowSource
from fairspan.typing import AnyArray, FloatArray, IndexArray

# Shares of a group's rows that are told apart, and from which most of what is said of it is of
# other rows than those of the table.
_DIFFERS, _MUCH = 0.1, 0.3
# Standard errors beyond which alikeness is not chance, and a share of copies that is none.
_SURELY, _MANY_COPIES = 4.0, 0.1
# Features that the table shows.
_MOST_SHOWN = 4
# Rows, and numbers in them (4 MB), that are looked at; so many rows in any case.
_MOST_ROWS, _MOST_NUMBERS, _ANY_CASE = 20_000, 2**19, 1000
# With fewer rows of a group, or values of a column, chance decides.
_FEWEST_ROWS, _FEWEST_VALUES, _FEWEST_KINDS = 20, 20, 5
# A glance shows whether a column has values enough to tell rows apart.
_GLANCE, _MOST_OF_A_VALUE = 500, 0.2
# The intraclass correlation from which rows of one value belong together.
_ALIKE = 0.2
# A value this close to a column's mean, in its standard deviations, is the mean.
_SAME = 1e-6
# Words of a column's name that say it is an identifier: patient_id, PatientID, id.
_IDENTIFIER = re.compile(r"(^|[^A-Za-z])(?i:id|uid|uuid|identifier)([^A-Za-z]|$)|[a-z]I[Dd]$")
# An odd number whose multiples spread over all 64 bits (Steele, Lea and Flood 2014).
_STEP = np.uint64(0x9E3779B97F4A7C15)
_KEYS = ("int", "uint", "str", "large_string", "categorical", "dictionary", "enum")


@dataclass(frozen=True, eq=False)
class FirstRows:
    """What some rows show of the table that they begin.

    Attributes
    ----------
    n : int
        How many rows there were.
    neighbours : (k,) array
        Of each group, how alike neighbouring rows are: near the standard normal distribution where
        rows are independent.
    n_copies : int
        Rows that equal an earlier one in every feature; 0 where every feature has so few values
        that rows may be equal by chance.
    clusters : tuple of (str, int, float)
        Columns of which rows of one value are alike: how many values there are, and the
        intraclass correlation of the rows' errors.
    at_mean : (k, p) array
        Share of each group's rows in which a feature is its mean over all rows, as it is where
        missing values were filled in.
    identifiers : tuple of str
        Features that are named like an identifier, whose values all differ and are in no order.
    codes : mapping of str to ColumnCodes
        Features with values that look like codes for missing ones.
    """

    n: int
    neighbours: FloatArray
    n_copies: int
    clusters: tuple[tuple[str, int, float], ...]
    at_mean: FloatArray
    identifiers: tuple[str, ...]
    codes: Mapping[str, ColumnCodes]


def look_at_first_rows(
    audited: Sequence[Audited], rows: Rows, moments: Moments, n_beside: int, *, by_cluster: bool
) -> FirstRows | None:
    """Look at the first rows of a table; None where rows are read elsewhere.

    Parameters
    ----------
    audited : sequence of Audited
        The errors are those of the first.
    rows : RowSource or PartedRows
    moments : GroupMoments, SparseMoments or ThinMoments
        Of all rows.
    n_beside : int
        How many of the last columns of the labels do not make the groups.
    by_cluster : bool
        Whether it is known which rows belong together: then columns are not looked for.
    """
    if not isinstance(rows, RowSource):
        return None
    columns = () if by_cluster else _columns_of_keys(rows)
    blocks, n_rows = [], 0
    for block in (_with_extra(rows, columns) if columns else rows).blocks():
        blocks.append(block)
        n_rows += len(block.values)
        if n_rows >= min(_MOST_ROWS, max(_MOST_NUMBERS // rows.n_features, _ANY_CASE)):
            break
    if not n_rows:
        return None
    values = np.vstack([block.values for block in blocks])
    if moments.normal is not None:
        values = moments.normal.completed(values).filled(values)
    names = moments.feature_names
    codes_by_name = {
        f"x{found.column}" if names is None else names[found.column]: found
        for found in codes_in(values)
    }
    codes = np.concatenate([_codes(block.labels, moments.labels, n_beside) for block in blocks])
    keys = _keys(columns, [block.extra_columns for block in blocks])
    if isinstance(rows, ArrayRows) and not by_cluster:
        begun = np.flatnonzero((values[:_FEWEST_ROWS] % 1 == 0).all(axis=0))
        whole = begun[(values[:, begun] % 1 == 0).all(axis=0)]
        keys = {f"x{j}": np.unique(values[:, j], return_inverse=True)[1] for j in whole.tolist()}
    groups = [np.flatnonzero(codes == group) for group in range(moments.n_groups)]
    deviations = moments.standard_deviations
    low, high = moments.mean - _SAME * deviations, moments.mean + _SAME * deviations
    is_mean = (values > low) & (values < high)  # of a constant column none
    return FirstRows(
        n_rows,
        np.array(
            [_neighbours(values[own], g, audited[0], moments) for g, own in enumerate(groups)]
        ),
        n_rows - len(np.unique(_hashes(values))) if _is_measured(values[:_GLANCE]) else 0,
        tuple(_alike(keys, values, groups, audited[0], moments)),
        np.array([is_mean[own].sum(axis=0) / max(len(own), 1) for own in groups]),
        tuple(
            name
            for j, name in enumerate(moments.feature_names or ())
            if _IDENTIFIER.search(name) and _is_shuffled(values[:, j])
        ),
        codes_by_name,
    )


def _is_shuffled(values: FloatArray) -> bool:
    """Whether all of several values differ, and are neither rising nor falling."""
    steps = np.diff(values)
    differ = len(values) >= _FEWEST_ROWS and len(np.unique(values)) == len(values)
    return differ and bool(steps.min() < 0 < steps.max())


def _columns_of_keys(rows: Rows) -> tuple[str, ...]:
    """Columns of text and whole numbers, of which no indicators were made."""
    if not isinstance(rows, FileRows | FrameRows):
        return ()
    schema = rows.schema if isinstance(rows, FileRows) else rows.frame.schema
    kinds = (
        dict(zip(schema.names, schema.types, strict=True))
        if hasattr(schema, "types")
        else dict(schema)
    )
    aside = {*rows.chosen.reserved, *rows.chosen.categories, ""}
    return tuple(
        name
        for name, kind in kinds.items()
        if name not in aside and str(kind).lower().startswith(_KEYS) and isinstance(name, str)
    )


def _with_extra(rows: Any, columns: tuple[str, ...]) -> RowSource:
    """The same rows, which bring these columns along."""
    return cast(RowSource, replace(rows, chosen=replace(rows.chosen, extra_columns=columns)))


def _codes(labels: CodedLabels | None, known: Sequence[Label], n_beside: int) -> IndexArray:
    """Position of each row's group; -1 for a group of which no row counts."""
    assert labels is not None
    for _ in range(n_beside):
        labels = labels.without_last_attribute()
    places = {label: place for place, label in enumerate(known)}
    found = [places.get(label, -1) for label in plain_labels(labels.distinct)]
    return np.array(found, dtype=np.intp)[labels.codes]


def _keys(columns: Sequence[str], tables: Sequence[Any]) -> dict[str, IndexArray]:
    """Position of each row's value among those of a column in sorted order; -1 where missing."""
    found = {}
    for name in columns:
        if len(set(labels_of_columns(tables[0][:_GLANCE], [name]).distinct)) < _FEWEST_KINDS:
            continue
        parts = [labels_of_columns(table, [name]) for table in tables]
        known = {label for part in parts for label in part.distinct if not is_missing(label)}
        places = {label: place for place, label in enumerate(sorted(known))}
        found[name] = np.concatenate(
            [
                np.array([places.get(each, -1) for each in part.distinct], dtype=np.intp)[
                    part.codes
                ]
                for part in parts
            ]
        )
    return found


def _alike(
    keys: Mapping[str, IndexArray],
    values: FloatArray,
    groups: Sequence[IndexArray],
    model: Audited,
    moments: Moments,
) -> Iterator[tuple[str, int, float]]:
    """Columns of which rows of one value have errors that are far more alike than chance."""
    if model.by_rows is not None or not keys:
        return
    subspace = model.subspace
    benchmark = Benchmark(points_of(subspace, moments), subspace.scale)
    ranks = np.zeros(len(values))
    for group, own in enumerate(groups):
        errors = subspace.projector.squared_residuals(benchmark.centred(values[own], group))
        # Within the group: rows are not alike for being of one group. And a few large errors do
        # not decide.
        ranks[own] = (np.argsort(np.argsort(errors)) + 0.5) / max(len(own), 1)
    for name, codes in keys.items():
        known = codes >= 0
        found = _intraclass_correlation(codes[known], ranks[known])
        if found is not None and found > _ALIKE:
            yield name, len(np.unique(codes[known])), found


def _intraclass_correlation(codes: IndexArray, values: FloatArray) -> float | None:
    """That of values with the same code, where it is beyond chance; None where it is not.

    The variance between codes is estimated by the differences between neighbouring ones (von
    Neumann et al. 1941), so that values which follow a number smoothly do not count.
    """
    counts = np.bincount(codes)
    sums, counts = np.bincount(codes, values)[counts > 0], counts[counts > 0]
    m, n = len(counts), len(codes)
    # A value that many rows share is a category.
    if m < _FEWEST_VALUES or 2 * m > n or counts.max() > _MOST_OF_A_VALUE * n:
        return None
    total = np.bincount(codes, values**2).sum()
    within = (total - (sums**2 / counts).sum()) / (n - m)
    weights = 1 / (1 / counts[1:] + 1 / counts[:-1])
    squares = np.diff(sums / counts) ** 2 * weights
    if squares.mean() <= within * (1 + _SURELY * np.sqrt(3 / m)):
        return None
    between = (squares.mean() - within) / (2 * weights.mean())
    return float(between / (between + within))


def _neighbours(values: FloatArray, group: int, model: Audited, moments: Moments) -> float:
    """How alike neighbouring rows of a group are, in standard errors; 0 where that is not known.

    With x the rows about their mean, S their second moment and rho = sum x_i' x_(i+1) / sum x_i'x_i
    it is (rho + 1/n) sqrt(n) tr S / sqrt(tr S^2).
    """
    n = len(values)
    if n < _FEWEST_ROWS or not isinstance(moments, GroupMoments):
        return 0.0
    unit = np.ones(values.shape[1]) if model.subspace.scale is None else model.subspace.scale
    rows = (values - values.mean(axis=0)) / unit
    second = moments.scatters[group] / np.outer(unit, unit)
    size, spread = float(np.einsum("ij,ij->", rows, rows)), float(np.linalg.norm(second))
    if size == 0 or spread == 0:
        return 0.0
    rho = float(np.einsum("ij,ij->", rows[1:], rows[:-1])) / size
    return float((rho + 1 / n) * np.sqrt(n) * np.trace(second) / spread)


def _is_measured(values: FloatArray) -> bool:
    """Whether a feature has as many values as half of the rows, or more."""
    n_values = (np.diff(np.sort(values, axis=0), axis=0) != 0).sum(axis=0) + 1
    return bool((2 * n_values >= len(values)).any())


def _hashes(values: FloatArray) -> AnyArray:
    """A whole number of each row, the same for rows that are equal."""
    bits = np.ascontiguousarray(values + 0.0).view(np.uint64)  # without the sign of zeros
    found = np.zeros(len(values), dtype=np.uint64)
    with np.errstate(over="ignore"):
        for column in bits.T:
            found = (found ^ column) * _STEP
            found ^= found >> np.uint64(29)
    return found


def table_of_missing(missing: MissingValues) -> Table:
    """Rows that were left out of each group, and shares of missing values."""
    shown = missing.columns[:_MOST_SHOWN]
    n_more = len(missing.columns) - len(shown)
    more = f" {count(n_more, 'feature')} more with missing values." if n_more else ""
    without = f" Left out without a group: {count(missing.n_unlabelled, 'row')}."
    costly = f" {missing.most_costly}" if missing.most_costly else ""
    return Table(
        f"Missing values, as shares of each group's rows.{costly}{in_ascii(more)}"
        f"{in_ascii(without) if missing.n_unlabelled else ''}".strip(),
        (
            names_column("group", [group_name(group) for group in missing.groups]),
            Column("rows", [Cell(whole(n), n) for n in missing.rows]),
            shares_column("left out", missing.dropped_shares),
            *(
                shares_column(f"{each.name}{', filled in' if each.is_filled else ''}", each.shares)
                for each in shown
            ),
        ),
    )


def missing_values(
    cells: MissingCells | None, first: FirstRows | None, moments: Moments, names: Sequence[str]
) -> MissingValues | None:
    """What is missing, or was filled in; None where nothing was.

    Parameters
    ----------
    cells : MissingCells or None
        None where no row was left out.
    first : FirstRows or None
    moments : Moments
        Of the rows that were not left out.
    names : sequence of p str
    """
    groups: tuple[Label, ...] = tuple(moments.labels) if cells is None else cells.groups
    columns = []
    if cells is not None:
        shares = cells.cells / np.maximum(cells.rows, 1)[:, None]
        columns = [
            MissingColumn(names[j], False, tuple(shares[:, j].tolist()), int(cells.alone[j]))
            for j in np.flatnonzero(cells.cells.any(axis=0)).tolist()
        ]
    if first is not None:
        place = {label: position for position, label in enumerate(moments.labels)}
        at_mean = np.array(
            [
                first.at_mean[place[group]] if group in place else np.zeros(len(names))
                for group in groups
            ]
        )
        columns += [
            MissingColumn(names[j], True, tuple(at_mean[:, j].tolist()))
            for j in np.flatnonzero((at_mean > _DIFFERS).any(axis=0)).tolist()
        ]
    if cells is None and not columns:
        return None
    columns.sort(key=lambda each: -max(each.shares))
    rows = moments.counts if cells is None else cells.rows
    dropped = np.zeros_like(rows) if cells is None else cells.dropped
    return MissingValues(
        groups,
        tuple(rows.tolist()),
        tuple(dropped.tolist()),
        0 if cells is None else cells.n_unlabelled,
        tuple(columns),
    )


def find_in_rows(
    missing: MissingValues | None, first: FirstRows | None, moments: Moments
) -> Iterator[Finding]:
    """Apply every rule about what is missing, and about rows that depend on each other."""
    if missing is not None:
        yield from _uneven(missing, is_completed=moments.normal is not None)
        yield from _much(missing)
    if isinstance(moments, GroupMoments) and moments.completion is not None:
        yield from _expected(moments, moments.completion)
    if first is not None:
        yield from _of_first_rows(first)
        yield from _codes_for_missing_values(
            first,
            has_names=moments.feature_names is not None,
            are_all_rows=first.n >= moments.counts.sum(),
        )


def _codes_for_missing_values(
    first: FirstRows, *, has_names: bool, are_all_rows: bool
) -> Iterator[Finding]:
    """FS412: values far from the rest that repeat, such as -99, and zeros that are a spike."""
    if not first.codes:
        return
    described = [
        _described_codes(quoted(name) if has_names else name, found)
        for name, found in first.codes.items()
    ]
    of_first = "" if are_all_rows else f"Of the first {first.n:,} rows, "
    remedy = _remedy_in_python(first.codes, has_names=has_names)
    if has_names:
        options = [_option_for_codes(name, found) for name, found in first.codes.items()]
        on_command_line = " ".join(options[:_MOST_SHOWN])
        remedy = f"{on_command_line} with --on-missing drop or em; {remedy}"
    yield seen(
        "FS412",
        f"Codes for missing values? {of_first}{first_of(described)}. They count as numbers here, "
        f"and may decide errors and verdicts. If they are codes, name them ({remedy} with "
        'on_missing="drop" or "em").',
        columns=tuple(first.codes),
    )


def _described_codes(name: str, found: ColumnCodes) -> str:
    """Return what a column holds, for a message."""
    codes = [
        f"{code:.15g} ({in_ascii(count(n, 'row'))})"
        for code, n in zip(found.codes, found.counts, strict=True)
    ]
    return (
        f"{name} holds {' and '.join(codes)} far from its other values "
        f"({found.low:.6g} to {found.high:.6g})"
    )


def _option_for_codes(name: str, found: ColumnCodes) -> str:
    """Return the option of the command line that makes codes of a column missing."""
    codes = ",".join(f"{code:.15g}" for code in found.codes)
    return f"--na-values {shlex.quote(f'{name}={codes}')}"


def _remedy_in_python(codes: Mapping[str, ColumnCodes], *, has_names: bool) -> str:
    """Return code that makes codes missing: of a pandas frame, or of an array without names."""
    shown = list(codes.items())[:_MOST_SHOWN]
    lists = [f"[{', '.join(f'{code:.15g}' for code in found.codes)}]" for _, found in shown]
    if has_names:
        by_name = [f"{name!r}: {own}" for (name, _), own in zip(shown, lists, strict=True)]
        return f"with pandas X.replace({{{', '.join(by_name)}}}, np.nan)"
    steps = [
        f"X[np.isin(X[:, {found.column}], {own}), {found.column}] = np.nan"
        for (_, found), own in zip(shown, lists, strict=True)
    ]
    # An array of whole numbers takes no NaN.
    return f"in Python X = np.array(X, dtype=float); {'; '.join(steps)}"


def _expected(moments: GroupMoments, how: Completion) -> Iterator[Finding]:
    """FS411: figures rest on what observed cells let expect of missing ones."""
    columns = (moments.whole or moments).n_features  # attributes are completed as well
    shares = how.cells / np.maximum(moments.counts * columns, 1)
    if not how.cells.any():
        return
    labels = moments.labels
    told = [f"{quoted(labels[i])} ({in_ascii(share(shares[i]))})" for i in np.flatnonzero(shares)]
    drawn = [
        f"{quoted(labels[i])} (weight {how.pool_weights[i]:.2f})"
        for i in np.flatnonzero(how.pool_weights)
    ]
    pooled = (
        f" Too few rows have pairs of features observed together in {first_of(drawn)}: "
        "correlations there are partly those of all groups."
        if drawn
        else ""
    )
    yield seen(
        "FS411",
        f"Missing cells of {first_of(told)} count as what the other cells of their rows let "
        "expect. That is right if cells are missing at random given what is observed. Whether a "
        f"value is missing because of the value itself, no table shows.{pooled}",
        groups=[labels[i] for i in np.flatnonzero(shares).tolist()],
    )


def _uneven(missing: MissingValues, *, is_completed: bool) -> Iterator[Finding]:
    """FS407: features that are missing in some groups more than in others, or in many rows."""
    found = [
        each
        for each in missing.columns
        if max(each.shares) - min(each.shares) > _DIFFERS or max(each.shares) > _MUCH
    ]
    if found:
        told = [
            f"{quoted(each.name)} ({_of_groups(missing.groups, each.shares)}"
            f"{', which hold exactly its mean' if each.is_filled else ''})"
            for each in found
        ]
        rests = (
            "What is found then rests on what the other cells of these rows let expect."
            if is_completed
            else "What is found is then of other rows than those of the table."
        )
        yield seen(
            "FS407",
            f"Values are missing, or were filled in, in many rows, or in some groups more than in "
            f"others: {first_of(told)}. {rests} Compare the rows with and without these values.",
            columns=tuple(each.name for each in found),
        )


def _of_groups(groups: Sequence[Label], shares: Sequence[float]) -> str:
    """The smallest and the largest of some shares, and whose they are."""
    low, high = int(np.argmin(shares)), int(np.argmax(shares))
    most = f"{in_ascii(share(shares[high]))} of {quoted(groups[high])}"
    return (
        most if low == high else f"{in_ascii(share(shares[low]))} of {quoted(groups[low])}, {most}"
    )


def _much(missing: MissingValues) -> Iterator[Finding]:
    """FS408: groups of which much is left out, or of which a feature is mostly filled in."""
    largest = np.array([each.shares for each in missing.columns if each.is_filled])
    filled = largest.max(axis=0) if len(largest) else np.zeros(len(missing.groups))
    shares = np.maximum(filled, missing.dropped_shares)
    found = np.flatnonzero(shares > _MUCH).tolist()
    if not found:
        return
    told = [f"{quoted(missing.groups[i])} ({in_ascii(share(shares[i]))})" for i in found]
    sentences = [f"More than 30 % of the rows are left out, or filled in, of {first_of(told)}."]
    lost = [quoted(missing.groups[i]) for i in found if missing.dropped[i] == missing.rows[i]]
    if lost:
        them = "it" if len(lost) == 1 else "them"
        sentences.append(f"No row of {first_of(lost)} is left, so nothing is said of {them}.")
    if missing.most_costly:
        sentences.append(missing.most_costly)
    sentences.append("Leave such features out (--exclude), or say what the figures are of.")
    yield seen("FS408", " ".join(sentences), groups=[missing.groups[i] for i in found])


def _of_first_rows(first: FirstRows) -> Iterator[Finding]:
    """FS402, FS409, FS410: what columns, their names or the order of rows say of the rows."""
    if first.identifiers:
        listed = first_of([quoted(name) for name in first.identifiers])
        yield seen(
            "FS402",
            f"{'feature' if len(first.identifiers) == 1 else 'features'} {listed}: all values "
            "differ, and the name is that of an identifier. Leave it out, unless it measures "
            "something about each row (drop the column; --exclude).",
            columns=first.identifiers,
        )
    for name, n_values, alike in first.clusters:
        yield seen(
            "FS409",
            f"Rows of one value of {quoted(name)} ({n_values:,} values) have errors that are far "
            f"more alike than those of others (intraclass correlation {alike:.2f}). If they belong "
            f"together, such as those of one person or place, intervals are far too short: name "
            f"the column, clusters={name!r} (--clusters {name}).",
            columns=(name,),
        )
    largest = float(np.max(first.neighbours))
    equal = "equals" if first.n_copies == 1 else "equal"
    copies = f"{in_ascii(count(first.n_copies, 'row'))} of {first.n:,} {equal} an earlier one"
    if not first.clusters and largest > _SURELY:
        yield seen(
            "FS410",
            f"Neighbouring rows are alike ({largest:.0f} standard errors)"
            f"{f', and {copies}' if first.n_copies else ''}. Is the table sorted, or do "
            "neighbouring rows belong together, such as those of one person or of consecutive "
            "times? Then intervals are too short without clusters= (--clusters).",
        )
    elif first.n_copies > _MANY_COPIES * first.n:
        yield seen(
            "FS410",
            f"{copies[0].upper()}{copies[1:]} in every feature. Is the table put together from "
            "parts that overlap, or were rows drawn with replacement? Then intervals are too short "
            "without clusters= (--clusters).",
        )
