"""Moments as a table in a notebook."""

from typing import TYPE_CHECKING

from fairspan.formatting.html_table import Row, first_and_last, html_table
from fairspan.moments.groups import printable, spelled

if TYPE_CHECKING:
    from fairspan.moments.of_rows import Moments

_HEADINGS = ("group", "rows", "weight", "share", "variance")
_MOST_GROUPS = 20


def moments_html(moments: "Moments") -> str:
    """Rows, weight and variance of each group; the variance is about the group's own mean."""
    rows: list[Row] = [
        (
            printable(spelled(label)),
            f"{count:,}",
            f"{weight:,.10g}",
            f"{share:.1%}",
            f"{variance:.4g}",
        )
        for label, count, weight, share, variance in zip(
            moments.labels,
            moments.counts.tolist(),
            moments.weights.tolist(),
            moments.proportions.tolist(),
            moments.variances.sum(axis=1).tolist(),
            strict=True,
        )
    ]
    n_rows, p = int(moments.counts.sum()), moments.n_features
    caption = f"{n_rows:,} row{'s' if n_rows > 1 else ''}, {p:,} feature{'s' if p > 1 else ''}"
    intake = f"; {moments.intake}" if str(moments.intake) else ""
    return html_table(
        caption + intake,
        _HEADINGS,
        [("", first_and_last(rows, _MOST_GROUPS, "groups"))],
        ["variance: of all features together, about the mean of the group"],
    )
