"""FS101 to FS106 and FS108 to FS110: groups and models without reliable estimates."""

from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import chain

from fairspan.auditing.audited_rows import AuditedRows
from fairspan.auditing.cross_fit_run import MAX_OPTIMISM
from fairspan.auditing.findings.finding import Finding, NamedRow
from fairspan.auditing.findings.finding_catalog import make_finding
from fairspan.auditing.group_names import ascii_share, count_needed, quote_group, quote_groups
from fairspan.auditing.intervals import is_heavy_tailed, none_if_nan
from fairspan.auditing.largest_rows import LargestRow
from fairspan.auditing.results import GroupResult, ModelResult, harmed_groups, labels_of
from fairspan.formatting.names import join_truncated
from fairspan.formatting.numbers import format_count, to_ascii
from fairspan.rows.labels import Label

# Share of the rows below which a group has little weight in ordinary PCA.
_SMALL_GROUP_SHARE = 0.05
# Rows per dimension (of d + 1) below which chance makes up 5 % or more of a group's best error.
MIN_ROWS_PER_DIMENSION = 20
# Share of one row in the error of its group from which a few rows are said to dominate it.
_DOMINANT_SHARE = 0.1
# Integers below this are written with all digits.
_MAX_PLAIN_NUMBER = 1e15


def reliability_findings(models: Sequence[ModelResult], rows: AuditedRows) -> Iterator[Finding]:
    """Apply the rules about groups and models without reliable estimates."""
    yield from degenerate_groups(models, rows)
    yield from no_intervals(rows)
    yield from missing_estimates(models)
    yield from unstable_best_subspaces(models)
    yield from heavy_tails(models)
    yield from few_effective_rows(models)


def degenerate_groups(models: Sequence[ModelResult], rows: AuditedRows) -> Iterator[Finding]:
    """FS101 to FS105: groups too small or degenerate for reliable figures.

    Rows and variances are those under the first model, except that FS101 considers all models.
    """
    groups = models[0].groups
    if len(groups) == 1:
        yield make_finding(
            "FS105",
            {"group": quote_group(groups[0].group)},
            groups=labels_of(groups),
        )
    yield from _too_small_groups(models, rows)
    singletons = [group for group in groups if group.n_rows == 1]
    if singletons:
        yield make_finding(
            "FS102",
            {"groups": quote_groups(singletons)},
            groups=labels_of(singletons),
        )
    minorities = [group for group in groups if group.proportion < _SMALL_GROUP_SHARE]
    if minorities:
        shares = join_truncated([ascii_share(group.proportion) for group in minorities])
        yield make_finding(
            "FS103",
            {"groups": quote_groups(minorities), "shares": shares},
            groups=labels_of(minorities),
        )
    without_variance = [
        group for group in groups if group.n_rows > 1 and group.observed_total_variance == 0
    ]
    if without_variance:
        yield make_finding(
            "FS104",
            {"groups": quote_groups(without_variance)},
            groups=labels_of(without_variance),
        )


def _too_small_groups(models: Sequence[ModelResult], rows: AuditedRows) -> Iterator[Finding]:
    """FS101: groups with few rows for the largest dimension of a model, unless shown as harmed."""
    # Models that keep all dimensions have no loss, whatever the number of rows.
    dimensions = [model.n_components for model in models if model.n_components < rows.n_features]
    if not dimensions:
        return
    d = max(dimensions)
    # Significant harm already accounts for chance.
    harmed_labels = {group.group for model in models for group in harmed_groups(model)}
    open_groups = [group for group in models[0].groups if group.group not in harmed_labels]
    min_rows = MIN_ROWS_PER_DIMENSION * (d + 1)
    too_small = [group for group in open_groups if 1 < group.n_rows < min_rows]
    if too_small:
        counts = join_truncated([str(group.n_rows) for group in too_small])
        yield make_finding(
            "FS101",
            {
                "groups": quote_groups(too_small),
                "counts": counts,
                "dimensions": to_ascii(format_count(d, "dimension")),
                "rows_needed": _describe_rows_needed(too_small),
            },
            groups=labels_of(too_small),
        )


def _describe_rows_needed(groups: Sequence[GroupResult]) -> str:
    """Return a parenthesis with the rows that would suffice for each group; empty if unknown."""
    needed = [count_needed(group) for group in groups if group.n_rows_needed]
    if not needed:
        return ""
    return f" (about {join_truncated(needed)} would suffice)"


def no_intervals(rows: AuditedRows) -> Iterator[Finding]:
    """FS106: a single set of moments."""
    if not rows.has_intervals:
        yield make_finding("FS106", figures={})


def missing_estimates(models: Sequence[ModelResult]) -> Iterator[Finding]:
    """FS110: models without estimates for new rows."""
    for model in models:
        if model.no_estimates_reason is not None:
            yield make_finding(
                "FS110",
                {"reason": model.no_estimates_reason},
                case="refit failed" if model.has_failed_refit else None,
                model=model.name,
            )


def unstable_best_subspaces(models: Sequence[ModelResult]) -> Iterator[Finding]:
    """FS108: groups whose best subspace under any model has an optimism above 10 %."""
    groups = _groups_where(models, lambda group: group.relative_optimism > MAX_OPTIMISM)
    unidentified = [group for group in groups if _is_not_identified(group)]
    others = [group for group in groups if not _is_not_identified(group)]
    for affected, case in ((others, None), (unidentified, "not identified")):
        if affected:
            optimism = join_truncated([ascii_share(group.relative_optimism) for group in affected])
            yield make_finding(
                "FS108",
                {"groups": quote_groups(affected), "optimism": optimism},
                case=case,
                groups=labels_of(affected),
            )


def _is_not_identified(group: GroupResult) -> bool:
    """Whether the verdict says that more rows may not help, as its best subspace is not unique."""
    return group.state == "inconclusive" and group.is_identified is False


def heavy_tails(models: Sequence[ModelResult]) -> Iterator[Finding]:
    """FS109: groups whose squared residuals under any model have too large a kurtosis."""
    affected_models = [model for model in models if any(map(_has_heavy_tails, model.groups))]
    if not affected_models:
        return
    groups = _groups_where(affected_models, _has_heavy_tails)
    largest_rows = [group.largest_row for group in groups if group.largest_row]
    features = {row.feature for row in largest_rows if row.feature is not None}
    # Logarithms of columns of zeros and ones change nothing.
    categories = {row.feature for row in largest_rows if row.feature and row.value in (0.0, 1.0)}
    columns = features - categories
    columns_text = f": {join_truncated(sorted(columns))}" if columns else ""
    categories_text = _in_parentheses(categories)
    merge_text = f"; merge rare categories{categories_text}" if categories else ""
    yield make_finding(
        "FS109",
        {
            "groups": quote_groups(groups),
            "models": join_truncated([model.name for model in affected_models]),
            "dominance": _describe_dominance(groups),
            "rows": _describe_largest_rows(groups),
            "logarithms": _suggest_logarithms(largest_rows, columns),
            "columns": columns_text,
            "categories": categories_text,
            "and_categories": merge_text,
        },
        case="categories" if categories and not columns else None,
        groups=labels_of(groups),
        columns=sorted(features),
        rows=[_named_row(group.group, group.largest_row) for group in groups if group.largest_row],
    )


def _describe_dominance(groups: Sequence[GroupResult]) -> str:
    """Say that a few rows dominate the error, or have large errors if the largest share is small.

    Shares that are unknown may be large.
    """
    shares = [group.largest_row.error_share if group.largest_row else 1.0 for group in groups]
    if max(shares) >= _DOMINANT_SHARE:
        return "a few rows dominate the error"
    return "the errors of a few rows are far larger than those of the others"


def _suggest_logarithms(rows: Sequence[LargestRow], columns: Collection[str]) -> str:
    """Suggest logarithms of those columns in which they shorten the tail; empty if there are none.

    The least value of a column is unknown, so what zeros and negative values require is said.
    """
    suitable = {row.feature for row in rows if row.feature in columns and row.varies_by_factors}
    if not suitable:
        return ""
    object_text = f"the logarithms of {join_truncated(sorted(map(str, suitable)))}"
    if suitable == set(columns):
        object_text = "their logarithms"
    return f"; or take {object_text} if no value is negative, log(1 + x) if there are zeros"


def _in_parentheses(names: Collection[str]) -> str:
    """Return " (a, b)" for names in order; empty if there are none."""
    return f" ({join_truncated(sorted(names))})" if names else ""


def _named_row(group: Label, row: LargestRow) -> NamedRow:
    """Return the row with the largest error of a group as a record."""
    return NamedRow(group, row.name, row.feature, none_if_nan(row.value), row.error_share)


def _describe_largest_rows(groups: Sequence[GroupResult]) -> str:
    """Return a parenthesis with the largest row of each group; empty if none is known."""
    descriptions = [
        f"{_describe_row(group.largest_row)} of the error of {quote_group(group.group)}"
        for group in groups
        if group.largest_row
    ]
    if not descriptions:
        return ""
    return f" ({join_truncated(descriptions)})"


def _describe_row(row: LargestRow) -> str:
    """Return the name of a row, its largest value and its share in an error."""
    parts = [row.name or "one row"]
    if row.feature is not None:
        is_category = "=" in row.feature and row.value == 1
        parts.append(row.feature if is_category else f"{row.feature} = {_format_value(row.value)}")
    return f"{', '.join(parts)}: {ascii_share(row.error_share)}"


def _format_value(value: float) -> str:
    """Format a value of the table in ASCII characters.

    Examples
    --------
    >>> _format_value(1e9), _format_value(-99999.0), _format_value(0.25), _format_value(2e-7)
    ('1,000,000,000', '-99,999', '0.25', '2e-7')
    """
    if value.is_integer() and abs(value) < _MAX_PLAIN_NUMBER:
        return f"{value:,.0f}"
    mantissa, _, exponent = f"{value:,.6g}".partition("e")
    return f"{mantissa}e{int(exponent)}" if exponent else mantissa


def few_effective_rows(models: Sequence[ModelResult]) -> Iterator[Finding]:
    """FS111: groups of which the effective number of rows is below a third of their number."""
    groups = _groups_where(models, lambda group: group.has_few_effective_rows)
    if groups:
        yield make_finding(
            "FS111",
            {
                "groups": quote_groups(groups),
                "counts": join_truncated([f"{group.n_rows:,}" for group in groups]),
                "effective": join_truncated([f"{group.n_effective:,.0f}" for group in groups]),
            },
            groups=labels_of(groups),
        )


def _has_heavy_tails(group: GroupResult) -> bool:
    return is_heavy_tailed(group.observed_kurtosis, group.n_rows)


def _groups_where(
    models: Sequence[ModelResult], predicate: Callable[[GroupResult], bool]
) -> list[GroupResult]:
    """Return the groups that satisfy the predicate under any model, without duplicates."""
    group_by_label: dict[object, GroupResult] = {}
    for group in chain.from_iterable(model.groups for model in models):
        if predicate(group):
            group_by_label.setdefault(group.group, group)
    return list(group_by_label.values())
