"""FS402, FS409 and FS410: identifiers, clusters and duplicates among the first rows."""

from collections.abc import Iterator

import numpy as np

from fairspan.auditing.findings.catalog import Finding, Setting, make_finding
from fairspan.auditing.first_rows import MIN_Z, FirstRowsSummary
from fairspan.auditing.group_names import quote_group
from fairspan.formatting.names import join_truncated
from fairspan.formatting.numbers import format_count, noun_form, to_ascii, verb_form

# Share of duplicate rows beyond which rows are dependent.
_MAX_DUPLICATE_SHARE = 0.1


def dependent_rows(first_rows: FirstRowsSummary) -> Iterator[Finding]:
    """FS402, FS409, FS410: identifiers, candidate clusters, duplicates and autocorrelation.

    FS410 names the correlation of neighboring rows only if no column explains it as clusters, and
    duplicates alone only if they are more than 10 % of the rows.
    """
    if first_rows.identifier_features:
        noun = noun_form(len(first_rows.identifier_features), "feature", "features")
        names = join_truncated([quote_group(name) for name in first_rows.identifier_features])
        yield make_finding(
            "FS402",
            f"{noun} {names}: all values differ, and the name suggests an identifier. Exclude it "
            "(drop the column), unless it is a measurement.",
            columns=first_rows.identifier_features,
            settings=[Setting("exclude", "drop the column")],
        )
    for name, n_values, correlation in first_rows.candidate_clusters:
        yield make_finding(
            "FS409",
            f"Rows with the same value of {quote_group(name)} ({n_values:,} values) have far more "
            f"similar errors than other rows (intraclass correlation {correlation:.2f}). If they "
            "are clusters, such as rows of one person or place, the intervals are far too short: "
            f"pass clusters={name!r}.",
            columns=(name,),
            settings=[Setting("clusters", f"clusters={name!r}", name)],
        )
    largest_z = float(np.max(first_rows.autocorrelation_z))
    verb = verb_form(first_rows.n_duplicates, "duplicates", "duplicate")
    n_duplicates = to_ascii(format_count(first_rows.n_duplicates, "row"))
    duplicates = f"{n_duplicates} of {first_rows.n_rows:,} {verb} an earlier row"
    if not first_rows.candidate_clusters and largest_z > MIN_Z:
        message = f"Neighboring rows are correlated (z = {largest_z:.0f})"
        if first_rows.n_duplicates:
            message += f", and {duplicates}"
        yield make_finding(
            "FS410",
            f"{message}. If the table is not just sorted but neighboring rows form clusters (rows "
            "of one person, consecutive times), the intervals are too short: pass the column of "
            "the clusters (clusters).",
            settings=[Setting("clusters", "(clusters)")],
        )
    elif first_rows.n_duplicates > _MAX_DUPLICATE_SHARE * first_rows.n_rows:
        yield make_finding(
            "FS410",
            f"{duplicates[0].upper()}{duplicates[1:]} in every feature. If the table was assembled "
            "from overlapping parts or rows were sampled with replacement, the intervals are too "
            "short: pass the column of the clusters (clusters).",
            settings=[Setting("clusters", "(clusters)")],
        )
