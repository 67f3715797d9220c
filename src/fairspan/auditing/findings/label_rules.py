"""FS405, FS406 and FS413: the labels of groups."""

from collections.abc import Iterator, Sequence

from fairspan.auditing.findings.finding import Finding, Setting
from fairspan.auditing.findings.finding_catalog import make_finding
from fairspan.auditing.group_names import quote_group
from fairspan.formatting.names import join_truncated
from fairspan.moments.compute import Moments
from fairspan.rows.label_checks import (
    are_numbers,
    format_spellings,
    padded_labels,
    placeholder_labels,
    similar_labels,
)
from fairspan.rows.labels import Label

# Number of groups above which an identifier is suspected.
_MANY_GROUPS = 20
# Number of rows below which a group is small.
_SMALL_GROUP_ROWS = 100


def label_findings(moments: Moments) -> Iterator[Finding]:
    """Apply the rules about the labels of groups."""
    yield from _label_spelling(moments.labels)
    yield from _many_small_groups(moments)
    yield from _placeholder_labels(moments)


def _label_spelling(labels: Sequence[Label]) -> Iterator[Finding]:
    """FS405: labels that differ only in case, whitespace or normal form, or are padded.

    Padded labels are reported only if no two labels are similar.
    """
    pairs = similar_labels(labels)
    if pairs:
        yield make_finding(
            "FS405",
            {"labels": format_spellings(pairs)},
            groups=tuple(label for spellings in pairs for label in spellings),
        )
        return
    padded = padded_labels(labels)
    if padded:
        yield make_finding(
            "FS405",
            {"labels": join_truncated([quote_group(label) for label in padded])},
            case="padded",
            groups=tuple(padded),
        )


def _many_small_groups(moments: Moments) -> Iterator[Finding]:
    """FS406: more than 20 groups, at least half of them small."""
    n_groups = moments.n_groups
    # Counts are zero if they are unknown.
    is_small = (moments.counts > 0) & (moments.counts < _SMALL_GROUP_ROWS)
    n_small = int(is_small.sum())
    if n_groups > _MANY_GROUPS and 2 * n_small >= n_groups:
        settings: list[Setting] = []
        if are_numbers(moments.labels):
            settings = [Setting("bins", "pandas.cut")]
        yield make_finding(
            "FS406",
            {
                "n_groups": f"{n_groups:,}",
                "n_small": f"{n_small:,}",
                "small_rows": str(_SMALL_GROUP_ROWS),
            },
            settings=settings,
        )


def _placeholder_labels(moments: Moments) -> Iterator[Finding]:
    """FS413: groups named by a text that usually marks a missing value."""
    placeholders = placeholder_labels(moments.labels, moments.counts.tolist())
    if placeholders is not None:
        # Code that makes these labels missing, so that their rows are dropped.
        advice = (
            f"with pandas, labels.mask(labels.isin({placeholders.for_pandas})) and "
            'on_missing="drop"'
        )
        yield make_finding(
            "FS413",
            {"suspicion": placeholders.suspicion},
            groups=placeholders.labels,
            settings=[Setting("missing_group", advice, tuple(placeholders.rows_by_text))],
        )
