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
    groups = by_label[larger], by_label[smaller]
    are_estimated = not is_observed and all(group.is_estimated for group in groups)
    shares = [_error_share(group, is_expected=are_estimated) for group in groups]
    texts = [ascii_share(share) for share in shares]
    # NaN, without variance, is not smaller.
    if texts[0] == texts[1] or not shares[0] < shares[1]:
        return ""
    ratio = groups[0].observed_total_variance / groups[1].observed_total_variance
    return (
        f" As a share of its own variance, the error of {quote_group(larger)} is smaller, "
        f"{texts[0].removesuffix(' %')} against {texts[1]}, as its variance is {ratio:.1f} times "
        f"that of {quote_group(smaller)}."
    )


def _error_share(group: GroupResult, *, is_expected: bool) -> float:
    """Return the error of a group as a share of its variance."""
    if is_expected:
        return group.expected_error_share.value
    return 1.0 - group.observed_variance_kept
