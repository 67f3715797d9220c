"""Sentences on who gains and who pays under a fair model."""

from collections.abc import Sequence

from fairspan.auditing.group_effects import GroupEffect
from fairspan.auditing.group_names import ascii_share, quote_group
from fairspan.auditing.intervals import Estimate
from fairspan.formatting.names import join_truncated


def describe_shown_effects(effects: Sequence[GroupEffect], threshold: float) -> str:
    """Describe effects beyond chance: those who gain, then those who pay, the largest first.

    `threshold` is the materiality threshold, to which no figure is rounded.
    """
    in_order = sorted(
        effects, key=lambda effect: (effect.change.value > 0, -abs(effect.change.value))
    )
    return describe_changes(
        [quote_group(effect.group) for effect in in_order],
        [effect.change for effect in in_order],
        threshold,
    )


def describe_changes(names: Sequence[str], changes: Sequence[Estimate], threshold: float) -> str:
    """Describe changes of groups, such as "'a' keeps 2.0 points more (1.5 to 2.5)".

    Points are percentage points of the variance kept.

    Parameters
    ----------
    names : sequence of str
    changes : sequence of Estimate
        Changes in error as shares of the group's variance, whose intervals exclude zero.
    threshold : float
        Materiality threshold, likewise, to which no figure is rounded.
    """
    return join_truncated(
        [
            f"{name} keeps {_points(change, threshold)}"
            for name, change in zip(names, changes, strict=True)
        ]
    )


def explain_heavy_tails(change: Estimate, threshold: float) -> str:
    """Explain why an interval below the threshold does not rule out a material cost."""
    low, high = (ascii_share(limit or 0.0, threshold) for limit in (change.low, change.high))
    return (
        "as a few of its rows have far larger errors than the others, so that the interval of its "
        f"cost, {low.removesuffix(' %')} to {high}, may be too short"
    )


def _points(change: Estimate, threshold: float) -> str:
    """Return "2.0 points more (1.5 to 2.5)", with the smaller size of the limits first."""
    direction = "more" if change.value < 0 else "less"
    size = format_points(change.value, threshold)
    return f"{size} points {direction}{_format_limits(change, threshold)}"


def _format_limits(change: Estimate, threshold: float) -> str:
    """Return " (1.5 to 2.5)" for a shown change, the smaller size first; empty if unknown."""
    if change.low is None or change.high is None:
        return ""
    in_order = sorted([change.low, change.high], key=abs)
    return f" ({' to '.join(format_points(limit, threshold) for limit in in_order)})"


def format_points(share: float, threshold: float | None = None) -> str:
    """Format the size of a change in a share as percentage points without a unit.

    Examples
    --------
    >>> format_points(-0.0312), format_points(0.0002)
    ('3.1', 'less than 0.1')
    """
    return ascii_share(min(abs(share), 1.0), threshold).removesuffix(" %")
