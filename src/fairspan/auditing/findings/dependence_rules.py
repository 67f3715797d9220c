"""FS402, FS409, FS410 and FS414: identifiers, clusters and duplicates among the first rows."""

from collections.abc import Iterator, Sequence

import numpy as np

from fairspan.auditing.findings.finding import Finding, Setting
from fairspan.auditing.findings.finding_catalog import make_finding
from fairspan.auditing.first_rows import MIN_Z, CandidateClusters, FirstRowsSummary
from fairspan.auditing.group_names import quote_group
from fairspan.auditing.nearest_neighbors import MIN_NEIGHBOR_JUMP
from fairspan.formatting.names import join_truncated
from fairspan.formatting.numbers import noun_form, verb_form
from fairspan.rows.labels import Label
from fairspan.typing import FloatArray

# Share of duplicate rows beyond which rows are dependent.
_MAX_DUPLICATE_SHARE = 0.1


def dependent_rows(first_rows: FirstRowsSummary, labels: Sequence[Label]) -> Iterator[Finding]:
    """FS402, FS409, FS410, FS414: identifiers, clusters, duplicates and dependence of rows.

    FS410 names the correlation of neighboring rows only if no column explains it as clusters, and
    duplicates alone only if they are more than 10 % of the rows. FS414 names groups whose nearest
    neighbors are far closer than others only if neither column nor order explains it. The settings
    of both have no value, since the caller has to choose the cluster column.

    Parameters
    ----------
    first_rows : FirstRowsSummary
    labels : sequence of k labels
        Labels of the groups.
    """
    if first_rows.identifier_features:
        yield _identifier_features(first_rows.identifier_features)
    for candidate in first_rows.candidate_clusters:
        yield _cluster_column(candidate)
    largest_z = float(np.max(first_rows.autocorrelation_z))
    if not first_rows.candidate_clusters and largest_z > MIN_Z:
        yield _alike_neighbors(first_rows)
    elif first_rows.n_duplicates > _MAX_DUPLICATE_SHARE * first_rows.n_rows:
        yield _duplicate_rows(first_rows)
    elif not first_rows.candidate_clusters:
        yield from _clusters_by_distance(first_rows.neighbor_jumps, labels)


def _identifier_features(features: tuple[str, ...]) -> Finding:
    """FS402: features whose names and values are those of identifiers."""
    noun = noun_form(len(features), "feature", "features")
    names = join_truncated([quote_group(name) for name in features])
    return make_finding(
        "FS402",
        {"features": f"{noun} {names}"},
        case="named",
        columns=features,
        settings=[Setting("exclude", "drop the column")],
    )


def _cluster_column(candidate: CandidateClusters) -> Finding:
    """FS409: a column whose values may identify clusters."""
    name = candidate.column
    return make_finding(
        "FS409",
        {
            "column": quote_group(name),
            "n_values": f"{candidate.n_values:,}",
            "correlation": f"{candidate.intraclass_correlation:.2f}",
        },
        columns=(name,),
        settings=[Setting("clusters", f"clusters={name!r}", name)],
    )


def _alike_neighbors(first_rows: FirstRowsSummary) -> Finding:
    """FS410: rows next to each other in the table that are more alike than chance explains."""
    clause = ""
    if first_rows.n_duplicates:
        clause = f", and {_describe_duplicates(first_rows)}"
    return make_finding(
        "FS410", {"duplicates": clause}, settings=[Setting("clusters", "(clusters)")]
    )


def _duplicate_rows(first_rows: FirstRowsSummary) -> Finding:
    """FS410: many rows that equal an earlier row."""
    duplicates = _describe_duplicates(first_rows)
    return make_finding(
        "FS410",
        {"duplicates": f"{duplicates[0].upper()}{duplicates[1:]}"},
        case="duplicates",
        settings=[Setting("clusters", "(clusters)")],
    )


def _describe_duplicates(first_rows: FirstRowsSummary) -> str:
    """Return a clause such as "of the first 500 rows, 120 duplicate an earlier one"."""
    verb = verb_form(first_rows.n_duplicates, "duplicates", "duplicate")
    return (
        f"of the first {first_rows.n_rows:,} rows, {first_rows.n_duplicates:,} {verb} an earlier "
        "one"
    )


def _clusters_by_distance(jumps: FloatArray, labels: Sequence[Label]) -> Iterator[Finding]:
    """FS414: groups whose nearest neighbors are far closer than other rows.

    `jumps` are those of :func:`~fairspan.auditing.nearest_neighbors.neighbor_jump` by group.
    """
    # NaN, if too little is known of a group, is not above the limit.
    groups = [labels[i] for i in np.flatnonzero(jumps > MIN_NEIGHBOR_JUMP).tolist()]
    if groups:
        yield make_finding(
            "FS414",
            {
                "groups": join_truncated([quote_group(label) for label in groups]),
                "jump": f"{np.nanmax(jumps):.1f}",
            },
            groups=groups,
            settings=[Setting("clusters", "(clusters)")],
        )
