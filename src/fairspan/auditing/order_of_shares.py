"""Sentence on errors whose order in squared units differs from that of their shares."""

from fairspan.auditing.group_names import ascii_share, quote_group
from fairspan.auditing.results import GroupResult, ModelResult
from fairspan.rows.labels import Label


def describe_order_of_shares(
    model: ModelResult, larger: Label, smaller: Label, *, is_observed: bool = False
) -> str:
    """Say so if the larger of two errors is the smaller share of the variance of its group.

    Begins with a space; empty if both orders agree. Shares are those of the errors on new rows if
    both groups have estimates, and otherwise, or if `is_observed`, those of the observed errors.

    Parameters
    ----------
    model : ModelResult
    larger, smaller : label
        Groups with the larger and the smaller error, in squared units.
    """
    by_label = {group.group: group for group in model.groups}
    larger_group = by_label[larger]
    smaller_group = by_label[smaller]
    are_estimated = larger_group.is_estimated and smaller_group.is_estimated
    is_expected = are_estimated and not is_observed
    share_of_larger = _error_share(larger_group, is_expected=is_expected)
    share_of_smaller = _error_share(smaller_group, is_expected=is_expected)
    text_of_larger = ascii_share(share_of_larger)
    text_of_smaller = ascii_share(share_of_smaller)
    # NaN, without variance, is not smaller.
    if text_of_larger == text_of_smaller or not share_of_larger < share_of_smaller:
        return ""
    ratio = larger_group.observed_total_variance / smaller_group.observed_total_variance
    return (
        f" As a share of its own variance, the error of {quote_group(larger)} is smaller, "
        f"{text_of_larger.removesuffix(' %')} against {text_of_smaller}, as its variance is "
        f"{ratio:.1f} times that of {quote_group(smaller)}."
    )


def _error_share(group: GroupResult, *, is_expected: bool) -> float:
    """Return the error of a group as a share of its variance."""
    if is_expected:
        return group.expected_error_share.value
    return 1.0 - group.observed_variance_kept
