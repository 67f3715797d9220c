"""Missing and mean-imputed values by group and feature: summary and table."""

from collections.abc import Sequence

import numpy as np

from fairspan.auditing.audited_rows import MissingFeature, MissingValues
from fairspan.auditing.first_rows import FirstRowsSummary
from fairspan.auditing.group_names import format_group
from fairspan.formatting.numbers import format_count, format_integer, to_ascii
from fairspan.formatting.table import Cell, Column, Table, name_column, share_column
from fairspan.moments.compute import Moments
from fairspan.rows.labels import Label
from fairspan.rows.missing import MissingCounts

# Difference between groups in shares of missing values that counts as uneven.
MIN_SHARE_DIFFERENCE = 0.1
# Maximum number of features in the table.
_MAX_FEATURES_SHOWN = 4


def summarize_missing_values(
    cells: MissingCounts | None,
    first_rows: FirstRowsSummary | None,
    moments: Moments,
    names: Sequence[str],
) -> MissingValues | None:
    """Summarize missing and mean-imputed values by group and feature.

    None if no cell was counted as missing and no feature seems mean-imputed.

    Parameters
    ----------
    cells : MissingCounts or None
        Counts of missing cells; None if no row was dropped and none has missing cells.
    first_rows : FirstRowsSummary or None
    moments : Moments
        Moments of the rows that were kept.
    names : sequence of p str
    """
    groups: tuple[Label, ...] = tuple(moments.labels) if cells is None else cells.groups
    features = []
    if cells is not None:
        shares = cells.n_missing / np.maximum(cells.n_rows, 1)[:, None]
        features = [
            MissingFeature(
                names[j],
                is_mean_imputed=False,
                shares=tuple(shares[:, j].tolist()),
                n_sole_cause=int(cells.n_dropped_by_feature[j]),
            )
            for j in np.flatnonzero(cells.n_missing.any(axis=0)).tolist()
        ]
    # A few values equal the mean by chance, so only large shares count as mean imputation.
    if first_rows is not None:
        shares_by_label = dict(zip(moments.labels, first_rows.share_at_mean, strict=True))
        # For groups of which every row was dropped.
        no_shares = np.zeros(len(names))
        at_mean = np.array([shares_by_label.get(label, no_shares) for label in groups])
        features += [
            MissingFeature(names[j], is_mean_imputed=True, shares=tuple(at_mean[:, j].tolist()))
            for j in np.flatnonzero((at_mean > MIN_SHARE_DIFFERENCE).any(axis=0)).tolist()
        ]
    features.sort(key=lambda feature: -max(feature.shares))
    if cells is not None:
        return MissingValues(
            groups,
            n_rows=tuple(cells.n_rows.tolist()),
            n_dropped=tuple(cells.n_dropped.tolist()),
            n_without_group=cells.n_without_group,
            features=tuple(features),
        )
    if not features:
        return None
    n_rows = tuple(moments.counts.tolist())
    n_dropped = (0,) * len(groups)
    return MissingValues(groups, n_rows, n_dropped, n_without_group=0, features=tuple(features))


def missing_values_table(missing: MissingValues) -> Table:
    """Table of dropped rows and shares of missing values by group, for at most four features."""
    listed_features = missing.features[:_MAX_FEATURES_SHOWN]
    title = "Shares of missing values in each group."
    if missing.costliest_text:
        title += f" {missing.costliest_text}"
    n_more = len(missing.features) - len(listed_features)
    if n_more:
        title += f" {to_ascii(format_count(n_more, 'more feature'))} with missing values."
    if missing.n_without_group:
        n_rows = to_ascii(format_count(missing.n_without_group, "row"))
        title += f" Dropped because the group is missing: {n_rows}."
    columns = [
        name_column("group", [format_group(group) for group in missing.groups]),
        Column("rows", [Cell(format_integer(n_rows), n_rows) for n_rows in missing.n_rows]),
        share_column("dropped", missing.dropped_shares),
    ]
    for feature in listed_features:
        heading = f"{feature.name}, mean-imputed" if feature.is_mean_imputed else feature.name
        columns.append(share_column(heading, feature.shares))
    return Table(title, tuple(columns))
