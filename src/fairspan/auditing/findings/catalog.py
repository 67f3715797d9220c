"""Severity, remedy and caveat of every finding, by its code."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, NamedTuple

from fairspan.rows.labels import Label


class Setting(NamedTuple):
    """A setting of the caller that the advice of a finding is about.

    Messages name settings as arguments in Python; the command line puts its own options there.

    Attributes
    ----------
    name : str
        Such as "clusters" or "exclude".
    phrase : str
        Part of the message that names the setting in Python, such as "scale=True".
    value : object
        Proposed value, such as the name of a column; None if the caller has to choose it.
    """

    name: str
    phrase: str
    value: Any = None


@dataclass(frozen=True)
class Finding:
    """A note or warning about the data or a model.

    Attributes
    ----------
    code : str
        Stable code; its meaning never changes.
    severity : {"info", "warning"}
    message : str
        Observation and, for warnings, what to do.
    model : str or None
        Model concerned; None if the finding is about the rows.
    groups : tuple of labels
    columns : tuple of str
        Features concerned; x0, x1, ... if they have no names.
    remedy : str
        Recommended action in more detail.
    caveat : str
        Reason to qualify a verdict; empty if there is none.
    may_be_harmless : bool
        Whether the observation may be harmless, so that "no material harm" stands with the caveat.
    settings : tuple of Setting
        Settings that the message advises to change.
    """

    code: str
    severity: Literal["info", "warning"]
    message: str
    model: str | None = None
    groups: tuple[Label, ...] = ()
    columns: tuple[str, ...] = ()
    remedy: str = ""
    caveat: str = ""
    may_be_harmless: bool = False
    settings: tuple[Setting, ...] = ()

    @property
    def qualifies_verdict(self) -> bool:
        """Whether verdicts about the same model and groups must carry the caveat."""
        return bool(self.caveat)

    def to_dict(self) -> dict[str, Any]:
        """Return the finding as values for JSON, without its settings, which the message names."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        del values["settings"]
        return {**values, "qualifies_verdict": self.qualifies_verdict}

    def __str__(self) -> str:
        return f"{self.code} {self.message}"


class FindingRule(NamedTuple):
    """Severity, remedy and caveat of a finding.

    A rule with a caveat qualifies the verdict; if the observation may be harmless, the verdict "no
    material harm" stands with the caveat. See docs/findings.md.
    """

    severity: Literal["info", "warning"]
    remedy: str
    caveat: str = ""
    may_be_harmless: bool = False


RULES = {
    "FS101": FindingRule(
        "warning",
        "Use fewer dimensions, collect more rows, merge the group with another, or choose a "
        'criterion of errors ("minimax_error", "error_gap") instead of losses.',
    ),
    "FS102": FindingRule("warning", "Collect more rows, or exclude the group and report that."),
    "FS103": FindingRule(
        "warning",
        "Check that the group is sampled as intended. Fair criteria do not need large groups, but "
        "few rows give wide intervals.",
    ),
    "FS104": FindingRule(
        "warning", "Inspect these rows. Often the group's data are missing or were imputed."
    ),
    "FS105": FindingRule(
        "warning",
        "Check the group column: a filter, a join or a misspelled name may have removed the other "
        "groups.",
    ),
    "FS106": FindingRule("info", "Pass the rows, or separate moments of several blocks of rows."),
    "FS107": FindingRule(
        "warning", "Audit rows from all groups, or check the spelling of the labels."
    ),
    "FS108": FindingRule(
        "warning",
        "Collect more rows of the group, merge it with another, or use fewer dimensions.",
    ),
    "FS109": FindingRule(
        "warning",
        "Inspect the rows with the largest values. Taking logarithms of heavy-tailed columns or "
        "capping them makes the intervals reliable.",
        "a few rows dominate the error of a group",
    ),
    "FS110": FindingRule(
        "warning",
        "Audit held-out rows, or use fewer features so that the moments by fold fit into memory.",
    ),
    "FS201": FindingRule(
        "info",
        "The limits of the interval show which differences remain possible. More rows make it "
        "narrower.",
    ),
    "FS202": FindingRule(
        "warning",
        'Decide whether equal errors are desirable. If so, use "error_gap" or "equal_error"; if '
        "that only raises the smaller error, report the difference instead.",
    ),
    "FS203": FindingRule(
        "info",
        "No action if you report the estimates for new rows; otherwise audit held-out rows.",
    ),
    "FS204": FindingRule(
        "warning",
        'Check whether the gap matters for your purpose. If the status is "open gap", use the '
        "default solver and tolerance, or with more than two groups allow_extra=True. If it is "
        '"unresolved", rescale the column of very large numbers, or use scale=True or '
        'center="global".',
    ),
    "FS205": FindingRule("info", "Compare with a model fitted with a fair criterion."),
    "FS206": FindingRule("info", "Use fewer dimensions for a meaningful comparison."),
    "FS207": FindingRule(
        "warning",
        "Audit rows that were not used to fit the model, or pass the fitted model instead of its "
        "components, so that it can be refitted for cross-fitting.",
    ),
    "FS208": FindingRule(
        "warning",
        "Change the number of dimensions so that the next eigenvalue is clearly smaller, change "
        "the scaling, or inspect outliers.",
        "the projection itself is unstable",
    ),
    "FS209": FindingRule(
        "info",
        "Keep the model if no refit is needed. Otherwise refit it, and compare both models on rows "
        "that neither was fitted to.",
    ),
    "FS210": FindingRule(
        "warning",
        "Find out what changed in the rows of these groups. Refit the model if FS209 says that it "
        "may help.",
    ),
    "FS301": FindingRule(
        "warning",
        "Compare each model with its own best error, or refit them with the same settings.",
    ),
    "FS302": FindingRule(
        "info", "Decide whether the smaller loss justifies the larger error over all rows."
    ),
    "FS303": FindingRule(
        "info",
        "Decide whether this cost is acceptable for these groups. A criterion weighted by rows, or "
        "more dimensions, lowers their losses.",
    ),
    "FS401": FindingRule("warning", "Exclude the feature."),
    "FS402": FindingRule(
        "warning",
        "Exclude the feature, unless it is a measurement.",
        "a feature may be an identifier",
    ),
    "FS403": FindingRule(
        "warning",
        "Standardize the features, or rescale the feature.",
        "one unscaled feature accounts for nearly all of the variance",
    ),
    "FS404": FindingRule("warning", "Merge rare categories, exclude them, or do not scale."),
    "FS405": FindingRule(
        "warning", "Use one spelling per group in the group column, without surrounding spaces."
    ),
    "FS406": FindingRule(
        "warning",
        "Cross fewer attributes or merge groups; put numbers such as ages into bins; check "
        "that the group column is not an identifier.",
    ),
    "FS407": FindingRule(
        "warning",
        "Compare the rows with and without these values. Exclude the features, or use the observed "
        'cells of incomplete rows (on_missing="em"), and report which.',
    ),
    "FS408": FindingRule(
        "warning",
        "Exclude the features that cause most rows to be dropped, or collect their values.",
        "a large part of a group is dropped or imputed",
    ),
    "FS409": FindingRule(
        "warning",
        "Name the column that identifies the clusters.",
        "rows appear to be repeated measurements",
    ),
    "FS410": FindingRule(
        "warning",
        "Name the column that identifies the clusters. If the table is merely sorted, no action is "
        "needed.",
        "rows appear to be dependent, or the table is sorted",
        may_be_harmless=True,
    ),
    "FS411": FindingRule(
        "info",
        "Find out how values came to be missing, and for whom. Compare with the complete rows only "
        '(on_missing="drop").',
    ),
    "FS412": FindingRule(
        "warning",
        "Find out what the values mean. If they are codes for missing values, name them "
        "(FileRows.open(..., na_values=...), X.replace in pandas), and choose what to do with "
        "these rows (on_missing).",
    ),
    "FS413": FindingRule(
        "warning",
        "Treat the labels as missing and drop their rows (None in their place and "
        'on_missing="drop"), or give the group a name that says who is in it.',
    ),
}


def make_finding(
    code: str,
    message: str,
    model: str | None = None,
    groups: Sequence[Label] = (),
    columns: tuple[str, ...] = (),
    settings: Sequence[Setting] = (),
) -> Finding:
    """Create a finding with the severity, remedy and caveat of its code in `RULES`.

    See :class:`Finding` for the parameters.
    """
    rule = RULES[code]
    return Finding(
        code=code,
        severity=rule.severity,
        message=message,
        model=model,
        groups=tuple(groups),
        columns=columns,
        remedy=rule.remedy,
        caveat=rule.caveat,
        may_be_harmless=rule.may_be_harmless,
        settings=tuple(settings),
    )
