"""One finding of an audit, and what to do about it; docs/findings.md says more of each code."""

from dataclasses import dataclass
from typing import Literal

from fairspan.rows.groups import Label

Severity = Literal["info", "warning"]

_REMEDIES = {
    "FS101": "Use fewer dimensions, collect more rows, join the group with another one, or choose "
    'a criterion of errors ("minimax_error", "error_gap") in place of losses.',
    "FS102": "Collect more rows, or leave the group out and say so.",
    "FS103": "Check that the group is sampled as intended. A fair criterion does not need a "
    "large group, but few rows mean wide intervals.",
    "FS104": "Look at these rows. Often a column with the group's data is missing or was filled "
    "in.",
    "FS105": "Check the group column: a filter, a join or a misspelled name may have "
    "removed the others.",
    "FS106": "Pass the rows, or moments of separate blocks of them.",
    "FS107": "Audit rows that hold all groups, or check how the labels are spelled.",
    "FS108": "Collect more rows of the group, join it with another one, or use fewer dimensions.",
    "FS109": "Look at the rows with the largest values. Logarithms or caps of columns with long "
    "tails make the intervals trustworthy.",
    "FS110": "Audit rows that were held out, or choose fewer features so that moments by fold fit "
    "into memory.",
    "FS201": "The ends of the interval show which differences remain possible. With more rows it "
    "is narrower.",
    "FS202": 'Decide whether you want equal errors; if so, use "error_gap" or "equal_error". If '
    "that only raises the smaller error, report the difference instead.",
    "FS203": "Nothing, if you report the estimates for new rows; otherwise audit rows that were "
    "held out.",
    "FS204": "Look at the gap: it may be far below what matters to you. If it is open, use the "
    "default solver and tolerance, or with more than two groups allow_extra=True. If it is "
    "unresolved, divide the column of very large numbers by its unit, or use scale=True or "
    'center="global".',
    "FS205": "Compare with what a fair criterion reaches.",
    "FS206": "Use fewer dimensions for a comparison.",
    "FS301": "Compare each model with its own best error, or fit them with the same settings.",
    "FS302": "Decide whether the smaller loss justifies the larger error over all rows.",
    "FS303": "Decide whether this cost is acceptable for these groups. A criterion that weighs "
    "all rows, or more "
    "dimensions, lowers their losses.",
    "FS401": "Leave the feature out: drop the column, or --exclude.",
    "FS402": "Leave the feature out (drop the column, or --exclude), unless it measures something.",
    "FS403": "Use scale=True (--standardize), or divide the feature by its unit.",
    "FS404": "Join rare categories into one, leave them out (--exclude), or do not scale.",
    "FS405": "Spell the labels alike in the group column.",
    "FS406": "Cross fewer attributes, or join groups; check that the group column is no "
    "identifier.",
}


@dataclass(frozen=True)
class Finding:
    """One thing the reader should know.

    Attributes
    ----------
    code : str
        Stable: a code never changes its meaning.
    severity : {"info", "warning"}
    message : str
        What was seen and, for a warning, what to do.
    model : str or None
        The model that it is about; None where it is about the rows.
    groups : tuple of labels
    columns : tuple of str
        Features that it is about; x0, x1, ... where these have no names.
    """

    code: str
    severity: Severity
    message: str
    model: str | None = None
    groups: tuple[Label, ...] = ()
    columns: tuple[str, ...] = ()

    @property
    def remedy(self) -> str:
        """What to do about it."""
        return _REMEDIES[self.code]

    def __str__(self) -> str:
        return f"{self.code} {self.message}"
