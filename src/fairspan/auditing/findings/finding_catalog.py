"""Catalog of findings: title, severity, message, remedy and caveat of every code.

A rule (in the file of its subject, such as :mod:`fairspan.auditing.findings.label_rules`) decides
whether there is a finding, and passes the figures for the fields in braces of the message. The
message and the remedy are written here and nowhere else. docs/findings.md explains each code.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from fairspan.auditing.findings.finding import Finding, NamedRow, Setting
from fairspan.rows.labels import Label

# A field in braces of a message or remedy, such as {groups}.
_FIELD = re.compile(r"\{\w+\}")


@dataclass(frozen=True)
class FindingEntry:
    """Entry of the catalog: the parts of a finding that do not depend on the data.

    Attributes
    ----------
    title : str
        Meaning of the code in a few words.
    about : {"rows", "data", "a model", "models"}
        Subject of the finding: groups of rows, features and labels, one model, or several.
    severity : {"info", "warning"}
    message : str
        Observation with fields in braces. The field {remedy} at its end stands for the remedy;
        messages of findings that need no action leave it out.
    remedy : str
        Recommended action. Fields in braces belong to one finding and are filled only in its
        message; {setting} is the setting to change, in parentheses.
    further_remedy : str
        Sentences that follow the remedy where there is more room than in a message.
    caveat : str
        Reason to qualify a verdict; empty if there is none.
    may_be_harmless : bool
        Whether the observation may be harmless, so that the verdict "no material harm" stands with
        the caveat.
    assumption : str
        Assumption of intervals that the observation calls into question, as a clause.
    other_messages : dict of str to str
        Messages for other cases of the same observation, by name of the case.
    other_remedies : dict of str to str
        Remedies of those cases whose remedy differs.
    """

    title: str
    about: Literal["rows", "data", "a model", "models"]
    severity: Literal["info", "warning"]
    message: str
    remedy: str
    further_remedy: str = ""
    caveat: str = ""
    may_be_harmless: bool = False
    assumption: str = ""
    other_messages: Mapping[str, str] = field(default_factory=dict)
    other_remedies: Mapping[str, str] = field(default_factory=dict)

    def remedy_in(self, case: str | None) -> str:
        """Remedy in one of the other cases, by its name, or in the usual case (None)."""
        return self.remedy if case is None else self.other_remedies.get(case, self.remedy)

    def message_in(self, case: str | None) -> str:
        """Message in one of the other cases, by its name, or in the usual case (None).

        A case of which only the remedy differs has the usual message.
        """
        if case is None or (case in self.other_remedies and case not in self.other_messages):
            return self.message
        return self.other_messages[case]

    def recommendation_in(self, case: str | None) -> str:
        """Remedy in a case without the fields of a single finding, and the further remedy."""
        remedy = _FIELD.sub("", self.remedy_in(case))
        return f"{remedy} {self.further_remedy}".rstrip()


ENTRIES = {
    "FS101": FindingEntry(
        title="too few rows for so many dimensions",
        about="rows",
        severity="warning",
        message="{groups}: too few rows ({counts}) for {dimensions}. Chance makes the best error "
        "too small and the excess loss too large, so do not interpret this loss as harm. {remedy}",
        remedy="Use fewer dimensions, or collect more rows{rows_needed}.",
        further_remedy="You can also merge the group with another, or choose a criterion of errors "
        '("minimax_error", "error_gap") instead of losses.',
    ),
    "FS102": FindingEntry(
        title="a group of one row",
        about="rows",
        severity="warning",
        message="{groups}: only one row, so no interval can be computed. {remedy}",
        remedy="Collect more rows.",
        further_remedy="Otherwise exclude the group, and report that.",
    ),
    "FS103": FindingEntry(
        title="a group below 5 % of the rows",
        about="rows",
        severity="warning",
        message="{groups}: less than 5 % of the rows ({shares}), so ordinary PCA gives them little "
        "weight. {remedy}",
        remedy="Check that these groups are sampled as intended.",
        further_remedy="Fair criteria do not need large groups, but few rows give wide intervals.",
    ),
    "FS104": FindingEntry(
        title="a group without variance",
        about="rows",
        severity="warning",
        message="{groups}: no variance, so the share of variance kept is undefined. {remedy}",
        remedy="Check these rows.",
        further_remedy="Often the group's data are missing or were imputed.",
    ),
    "FS105": FindingEntry(
        title="one group only",
        about="rows",
        severity="warning",
        message="All rows belong to one group ({group}), so there is nothing to compare. {remedy}",
        remedy="Check the group column.",
        further_remedy="A filter, a join or a misspelled name may have removed the other groups.",
    ),
    "FS106": FindingEntry(
        title="no intervals",
        about="rows",
        severity="info",
        message="There are no intervals: a single set of moments carries no information on the "
        "variability of errors. {remedy}",
        remedy="Pass the rows, or a list of moments of separate blocks.",
    ),
    "FS107": FindingEntry(
        title="fitted to a group that the rows lack",
        about="a model",
        severity="warning",
        message="{model} was fitted to groups that do not occur in these rows: {groups}. The audit "
        "does not cover them.",
        remedy="Audit rows from all groups, or check the spelling of the labels.",
    ),
    "FS108": FindingEntry(
        title="a group's best subspace is poorly determined",
        about="rows",
        severity="warning",
        message="{groups}: the error of the group's best subspace is larger on held-out rows than "
        "on its training rows, by {optimism} of its error, so the group's loss is known only "
        "roughly. {remedy}",
        remedy="Collect more rows, or use fewer dimensions.",
        further_remedy="You can also merge the group with another.",
        other_messages={
            "not identified": "{groups}: the error of the group's best subspace is larger on "
            "held-out rows than on its training rows, by {optimism} of its error, and which "
            "components suit the group best is not known, so its loss is known only roughly. With "
            "this number of dimensions, more rows may not help. {remedy}",
        },
        other_remedies={
            "not identified": "If another number of dimensions does not help either, report that "
            "the loss is not known.",
        },
    ),
    "FS109": FindingEntry(
        title="a few rows have far larger errors",
        about="rows",
        severity="warning",
        message="{groups}: under {models}, {dominance}{rows}, so intervals may miss the true value "
        "far more often than their level suggests. {remedy}",
        remedy="Inspect the rows with the largest errors; if their values are right, cap the "
        "columns in which they are extreme{columns}{logarithms}{and_categories} (how-to guide: "
        "Outliers and heavy tails).",
        further_remedy="Logarithms help only in columns that vary by factors and have no negative "
        "values.",
        other_remedies={
            "categories": "Inspect the rows with the largest errors; merge rare "
            "categories{categories} with others, exclude them, or do not scale.",
        },
        caveat="a few rows have far larger errors than the others",
        assumption="the few rows with the largest errors are typical of new data",
    ),
    "FS110": FindingEntry(
        title="no estimates for new rows",
        about="a model",
        severity="warning",
        message="{model}: there are no estimates for new rows, because {reason}. {remedy}",
        remedy="Audit held-out rows, or use fewer features, of which the moments by fold fit into "
        "memory.",
        other_remedies={
            "refit failed": "Audit held-out rows, or choose a criterion that can be fitted to "
            "every part of the rows.",
        },
    ),
    "FS111": FindingEntry(
        title="rows that count for far fewer",
        about="rows",
        severity="info",
        message="{groups}: because of weights or clusters, {counts} rows may count for as few as "
        "{effective} independent rows of equal weight. {remedy}",
        remedy="Judge by this number whether a group has enough rows.",
        further_remedy="Intervals allow for it.",
    ),
    "FS201": FindingEntry(
        title="the difference in error may be due to chance",
        about="a model",
        severity="info",
        message="{model}: the interval of the difference in error between {first} and {second} on "
        "{scope} ({interval} of the variance of all rows) contains zero, so neither group is shown "
        "to have the larger error.",
        remedy="The limits of the interval show which differences remain possible. More rows make "
        "it narrower.",
    ),
    "FS202": FindingEntry(
        title="one group has a larger error than another",
        about="a model",
        severity="warning",
        message="{model}: on {scope}, the error of {worse} is larger than that of {better} by "
        "{difference} of the variance of all rows ({interval}).{order_of_shares}",
        remedy="Report the difference, and decide whether equal errors are worth a loss.",
    ),
    "FS203": FindingEntry(
        title="fitted to the audited rows",
        about="a model",
        severity="info",
        message="{models} {were} fitted to these rows{inference}, so estimates for new rows come "
        "from refits: each leaves out one part of the rows and is evaluated on it (cross-fitting). "
        "Intervals of errors{changes}, and upper limits of losses, allow for how far the fit to "
        "all rows differs from refits.",
        other_messages={
            "no estimates": "{models} {were} fitted to these rows{inference}. The intervals are "
            "for this fixed projection; errors on new rows may be larger. {remedy}",
        },
        remedy="No action is needed if you report the estimates for new rows. Otherwise audit "
        "held-out rows.",
        other_remedies={"no estimates": "Audit held-out rows."},
    ),
    "FS204": FindingEntry(
        title="not proven",
        about="a model",
        severity="warning",
        message="{model} is not proven ({status}).",
        other_messages={
            "nested": "{model}: its components are nested: each was chosen with the previous ones "
            "fixed. {dimensions} chosen jointly may be better by at most {gap}.",
            "unresolved": "{model}: double precision cannot resolve how close it is to the optimum "
            "(unresolved).",
            "unresolved for a reason": "{model}: double precision cannot resolve how close it is "
            "to the optimum (unresolved): {reason}.",
            "large column": "{model}: double precision cannot resolve how close it is to the "
            "optimum (unresolved): {reason}. Rescale it{or_use_settings}.",
        },
        remedy='Check whether the gap matters for your purpose. If the status is "open gap", use '
        "the default solver and tolerance, or with more than two groups allow_extra=True. If it is "
        '"unresolved", rescale the column that the message names.',
    ),
    "FS205": FindingEntry(
        title="the group with the largest loss",
        about="a model",
        severity="info",
        message="{model}: {groups} {have} the largest loss on {scope}. {their_error_is} {loss} of "
        "the variance above the smallest error that {dimensions} can achieve for {each_group} "
        "alone; for {smallest_group} the loss is {smallest_loss}.",
        remedy="Compare with a model fitted with a fair criterion.",
        other_remedies={
            "compared": "The verdict says whether a fair model lowers this loss, and who pays.",
        },
    ),
    "FS206": FindingEntry(
        title="all variance is kept",
        about="a model",
        severity="info",
        message="{model}: {dimensions} keep all variance of every group up to rounding error, so "
        "no group has a loss. {remedy}",
        other_messages={
            "one dimension": "{model}: {dimensions} keeps all variance of every group up to "
            "rounding error, so no group has a loss.",
        },
        remedy="Use fewer dimensions{setting} for a meaningful comparison.",
    ),
    "FS207": FindingEntry(
        title="a loss below zero",
        about="a model",
        severity="warning",
        message="{model}: the interval of the expected loss of {groups} is below zero, although "
        "losses are nonnegative. Either this is chance, or the rows were used to fit the model, so "
        "no claim is made. {remedy}",
        remedy="Audit held-out rows.",
        further_remedy="Or pass the fitted model instead of its components, so that it can be "
        "refitted for cross-fitting.",
    ),
    "FS208": FindingEntry(
        title="refits change a group's error",
        about="a model",
        severity="warning",
        message="{model}, {groups}: refits without one fold of the rows change {their_error} more "
        "than sampling does; treat the figure as approximate. {remedy}",
        remedy="Change the number of dimensions or the scaling, or inspect outliers.",
        further_remedy="Choose a number of dimensions after which the next eigenvalue is clearly "
        "smaller.",
        caveat="refits change the error of a group more than sampling does",
    ),
    "FS209": FindingEntry(
        title="what a refit to these rows could attain",
        about="a model",
        severity="info",
        message="{model}: {refit_bound}",
        other_messages={
            "small group": "{model}: {refit_bound} Part of this may be due to chance: {group}, the "
            "group with the largest loss, has only {rows}.",
        },
        remedy="Keep the model if no refit is needed. Otherwise refit it, and compare both models "
        "on rows that neither was fitted to.",
    ),
    "FS210": FindingEntry(
        title="errors changed since the fit",
        about="a model",
        severity="warning",
        message="{model}: since the fit, the error of {changes}. The intervals allow for errors "
        "that are larger on any new rows than on those of the fit.",
        remedy="Find out what changed in the rows of these groups. Refit the model if FS209 says "
        "that it may help.",
    ),
    "FS211": FindingEntry(
        title="how far from the best linear decoder",
        about="a model",
        severity="info",
        message="{model}: {group} has the largest error, {error} of its variance. No linear "
        "decoder of {numbers} with its offset has a largest error below {bound}, so this model is "
        "at most {excess} above the best.",
        remedy="If it is far above the bound, compare it with a fair PCA of as many dimensions, "
        'criterion="minimax_error".',
    ),
    "FS301": FindingEntry(
        title="different units or centers",
        about="models",
        severity="warning",
        message="The models measure errors about different centers or in different units "
        "({units}). {remedy}",
        remedy="Compare each with its own best error, not with each other.",
        further_remedy="You can also refit the models with the same settings.",
    ),
    "FS302": FindingEntry(
        title="what fair PCA changes and costs",
        about="models",
        severity="info",
        message="{model} versus {baseline} on {scope}: the largest loss of a group changes from "
        "{loss_before} to {loss_after} of its variance, and {total_error}.",
        remedy="Decide whether the smaller largest loss justifies the larger error over all rows.",
        other_remedies={
            "nothing to weigh": "By these figures, the largest loss is smaller and the error over "
            "all rows is not larger, so there is nothing to weigh. The verdict says which groups "
            "are shown to gain or to pay.",
            "no benefit": "Neither figure is smaller than under PCA, so they give no reason to "
            "use this model.",
            "only error falls": "Decide whether the smaller error over all rows justifies the "
            "larger largest loss.",
        },
    ),
    "FS303": FindingEntry(
        title="which groups lose by fair PCA",
        about="models",
        severity="info",
        message="{model} keeps less variance than {baseline} for {costs} on {scope}.",
        other_messages={
            "several groups": "{model} keeps less variance than {baseline} for {costs} on "
            "{scope}. In total: {total} of all rows.",
        },
        remedy="Decide whether this cost is acceptable for these groups. A criterion weighted by "
        "rows, or more dimensions, lowers their losses.",
    ),
    "FS401": FindingEntry(
        title="a feature encodes the group",
        about="data",
        severity="warning",
        message="{features} {encode} the group: (nearly) constant within groups and different "
        "between them. Such a feature can mask or reverse the effect of a projection on the "
        "groups. {remedy}",
        remedy="Exclude every such feature{setting}.",
    ),
    "FS402": FindingEntry(
        title="a row number or an identifier",
        about="data",
        severity="warning",
        message="{features}: strictly monotone in row order, which is typical of row numbers, "
        "identifiers, times, or the sort column. {remedy}",
        other_messages={
            "named": "{features}: all values differ, and the name suggests an identifier. {remedy}",
        },
        remedy="Exclude every feature that may be an identifier{setting}, unless it is a "
        "measurement.",
        caveat="a feature may be an identifier",
    ),
    "FS403": FindingEntry(
        title="one feature holds most of the variance",
        about="data",
        severity="warning",
        message="{shares}, and {models} {do} not scale, so all other features together have less "
        "influence. {remedy}",
        remedy="Standardize the features{setting}, or rescale the feature.",
        caveat="one unscaled feature accounts for most of the variance",
    ),
    "FS404": FindingEntry(
        title="components of rare indicators",
        about="data",
        severity="warning",
        message="{components}: dominated by rare indicators (0/1 columns with one value in less "
        "than 1 % of the rows): {features}. Standardizing gives them the same weight as any other "
        "feature. {remedy}",
        remedy="Merge rare categories, exclude them{setting}, or do not scale.",
    ),
    "FS405": FindingEntry(
        title="labels that differ by case or blanks, or have spaces around them",
        about="data",
        severity="warning",
        message="Labels that differ only in case, whitespace or Unicode normal form: {labels}. "
        "They are treated as different groups. {remedy}",
        other_messages={
            "padded": "Labels surrounded by spaces: {labels}. Other tables may have the same group "
            "without the spaces, which is then treated as another. {remedy}",
        },
        remedy="Use one spelling per group in the group column, without surrounding spaces.",
    ),
    "FS406": FindingEntry(
        title="many groups of few rows",
        about="data",
        severity="warning",
        message="{n_groups} groups, {n_small} of them with fewer than {small_rows} rows, too few "
        "for reliable figures. {remedy}",
        remedy="Check that the group column is not an identifier; cross fewer attributes, merge "
        "groups, or put numbers such as ages into bins{setting}.",
    ),
    "FS407": FindingEntry(
        title="missing values, uneven or many",
        about="data",
        severity="warning",
        message="Values are missing or mean-imputed in many rows, or unevenly across groups: "
        "{features}. The results then describe a different population than the table. {remedy}",
        other_messages={
            "completed": "Values are missing or mean-imputed in many rows, or unevenly across "
            "groups: {features}. The results then rest on imputed values. {remedy}",
        },
        remedy="Compare the rows with and without these values.",
        further_remedy="Exclude the features, or use the observed cells of incomplete rows "
        '(on_missing="em"), and report which.',
    ),
    "FS408": FindingEntry(
        title="much of a group is dropped or imputed",
        about="data",
        severity="warning",
        message="More than 30 % of the rows are dropped or mean-imputed for {groups}."
        "{lost_groups}{costliest_features} {remedy}",
        remedy="Exclude the features that cause most rows to be dropped{setting}, collect their "
        "values, or state which population the results describe.",
        caveat="a large part of a group is dropped or imputed",
    ),
    "FS409": FindingEntry(
        title="rows that repeat, found by a column",
        about="data",
        severity="warning",
        message="Rows with the same value of {column} ({n_values} values) have far more similar "
        "errors than other rows (intraclass correlation {correlation}). If they are clusters, such "
        "as rows of one person or place, the intervals are far too short. {remedy}",
        remedy="Name the column that identifies the clusters{setting}.",
        caveat="rows appear to be repeated measurements",
        assumption="rows are independent",
    ),
    "FS410": FindingEntry(
        title="rows that are alike, found by their order",
        about="data",
        severity="warning",
        message="Neighboring rows are more alike than chance explains{duplicates}. If the table is "
        "not just sorted but neighboring rows form clusters (rows of one person, consecutive "
        "times), the intervals are too short. {remedy}",
        other_messages={
            "duplicates": "{duplicates} in every feature. If the table was assembled from "
            "overlapping parts or rows were sampled with replacement, the intervals are too short. "
            "{remedy}",
        },
        remedy="Check whether neighboring rows belong to one person or follow each other in time. "
        "If so, name the column that identifies these clusters{setting} and audit again.",
        further_remedy="If the table is merely sorted, no action is needed.",
        other_remedies={
            "duplicates": "Check whether duplicate rows are different persons. If not, drop "
            "them, or name the column that identifies the clusters{setting}.",
        },
        caveat="rows appear to be dependent, or the table is sorted",
        assumption="rows are independent",
        may_be_harmless=True,
    ),
    "FS411": FindingEntry(
        title="missing cells are imputed from observed ones",
        about="data",
        severity="info",
        message="Missing cells of {groups} are replaced by their expectation given the observed "
        "cells of the row. This is valid if cells are missing at random given what is observed; "
        "whether a value is missing because of the value itself cannot be seen from the table."
        "{pooled_groups}{groups_with_few_pairs}",
        remedy="Find out how values came to be missing, and for whom. Compare with the complete "
        'rows only (on_missing="drop").',
    ),
    "FS412": FindingEntry(
        title="codes for missing values, such as -99 and 999",
        about="data",
        severity="warning",
        message="Codes for missing values? {scope}{columns}. They are treated as numbers, and may "
        "dominate errors and verdicts. {remedy}",
        remedy="Find out what the values mean. If they are codes, name them{replacement}.",
        further_remedy="Then choose what to do with these rows (on_missing).",
    ),
    "FS413": FindingEntry(
        title="placeholders for missing values as groups",
        about="data",
        severity="warning",
        message="{suspicion}, the group of these rows is unknown. {remedy}",
        remedy="Drop the rows of an unknown group{setting}.",
        further_remedy="Or give the group a name that says who is in it.",
    ),
    "FS414": FindingEntry(
        title="rows that are alike, found by their distances",
        about="data",
        severity="warning",
        message="{groups}: each row has a few near neighbors, far closer than all other rows of "
        "the group (between them, distances grow {jump} times as fast as farther out). If they "
        "form clusters (rows of one person), the intervals are too short. {remedy}",
        remedy="Name the column that identifies the clusters{setting}.",
        further_remedy="If no rows belong together, but to many small kinds, no action is needed.",
        caveat="rows appear to form clusters",
        assumption="rows are independent",
        may_be_harmless=True,
    ),
}
"""Entries by code. The meaning of a code never changes, and no code is used again."""


def make_finding(
    code: str,
    figures: Mapping[str, str],
    *,
    case: str | None = None,
    model: str | None = None,
    groups: Sequence[Label] = (),
    columns: Sequence[str] = (),
    settings: Sequence[Setting] = (),
    rows: Sequence[NamedRow] = (),
    result: str = "",
) -> Finding:
    """Create a finding from its entry in the catalog and the figures of its message.

    Parameters
    ----------
    code : str
        Code of the entry in `ENTRIES`.
    figures : dict of str to str
        Texts for the fields in braces of the message and the remedy. The fields {model} and
        {setting} are filled from the parameters below, and {remedy} from the entry.
    case : str, optional
        Name of one of the other messages of the entry, instead of its message.
    model, groups, columns, settings, rows
        Subject of the finding; see :class:`~fairspan.auditing.findings.finding.Finding`.
    result : str, optional
        Sentence that follows the remedy, about what other models of the same audit attain.
    """
    entry = ENTRIES[code]
    template = entry.message_in(case)
    values = {"model": model, "setting": _setting_in_parentheses(settings), **figures}
    remedy = entry.remedy_in(case).format_map(values)
    return Finding(
        code=code,
        severity=entry.severity,
        message=template.format_map({**values, "remedy": remedy}),
        model=model,
        groups=tuple(groups),
        columns=tuple(columns),
        remedy=f"{entry.recommendation_in(case)} {result}".rstrip(),
        stated_remedy=remedy if "{remedy}" in template else "",
        further_remedy=entry.further_remedy,
        caveat=entry.caveat,
        may_be_harmless=entry.may_be_harmless,
        assumption=entry.assumption,
        settings=tuple(settings),
        rows=tuple(rows),
    )


def _setting_in_parentheses(settings: Sequence[Setting]) -> str:
    """Return " (scale=True)" for the phrase of the first setting; empty if there is no setting."""
    if not settings:
        return ""
    phrase = settings[0].phrase
    if phrase.startswith("("):
        return f" {phrase}"
    return f" ({phrase})"
