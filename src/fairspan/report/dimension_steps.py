"""Steps of inconclusive verdicts that depend on the numbers of dimensions a report has tried."""

from dataclasses import replace

from fairspan.auditing.advice import Step
from fairspan.auditing.audit_result import Audit
from fairspan.auditing.verdict import Verdict
from fairspan.formatting.names import join_all, join_alternatives
from fairspan.formatting.numbers import format_level, to_ascii
from fairspan.report.report import Report
from fairspan.report.sentence_context import estimated_reductions, harmless_dimensions

# Warnings whose remedy is what the verdict says itself: more rows or another number of dimensions.
_CODES_ABOUT_SIZE = ("FS101", "FS102", "FS103", "FS108")
_MAX_LISTED_DIMENSIONS = 8
_CONSIDERED = "each number considered separately"


def with_dimension_steps(report: Report) -> Audit:
    """Return the audit of a report, whose verdicts send no reader to dimensions tried in vain.

    An audit of one number of dimensions can only propose another one. A report knows at which of
    them a material loss under PCA is ruled out for every group.
    """
    if not report.curves.has_estimates:
        return report.audit
    verdicts = [_with_tried_dimensions(verdict, report) for verdict in report.audit.verdicts]
    return replace(report.audit, verdicts=tuple(verdicts))


def _with_tried_dimensions(verdict: Verdict, report: Report) -> Verdict:
    """Return the verdict with steps that name dimensions, or say that none of them helps."""
    advice = verdict.advice
    if advice.suggests_more_dimensions and _harms_at_all_larger_dimensions(report):
        return replace(verdict, advice=advice.without_more_dimensions())
    proposal = advice.dimension_step
    if proposal is None:
        return verdict
    steps = dimension_steps(
        proposal, harmless_dimensions(report), _codes_to_follow(report), report.audit.materiality
    )
    return replace(verdict, advice=advice.with_dimension_steps(steps))


def _harms_at_all_larger_dimensions(report: Report) -> bool:
    """Whether larger numbers of dimensions were tried, and PCA is shown to do harm at each."""
    states = [
        {estimates.state for estimates in dimension.pca_estimates}
        for dimension in estimated_reductions(report)
        if dimension.n_components > report.pca.n_components
    ]
    return bool(states) and all("harmed" in each for each in states)


def dimension_steps(
    proposal: Step, harmless: list[int], codes: list[str], materiality: float
) -> list[Step]:
    """Return the steps in place of the one that proposes another number of dimensions.

    Parameters
    ----------
    proposal : Step
        Step of an inconclusive verdict.
    harmless : list of int
        Numbers of dimensions at which a material loss under PCA is ruled out for every group.
    codes : list of str
        Codes of warnings about the rows that the reader can follow.
    materiality : float
    """
    threshold = to_ascii(format_level(materiality))
    action = proposal.same_dimension_action
    if harmless:
        numbers = join_alternatives([str(d) for d in harmless], _MAX_LISTED_DIMENSIONS)
        noun = "dimension" if harmless == [1] else "dimensions"
        text = (
            f"Use {numbers} {noun}, where a loss above {threshold} under PCA is ruled out for "
            f"every group ({_CONSIDERED}). Otherwise {action[0].lower()}{action[1:]}, and "
            "audit again."
        )
        return [Step(text)]
    reason = (
        "at none of the evaluated numbers of dimensions that reduce the data is a loss above "
        f"{threshold} ruled out for every group"
    )
    if not codes:
        return [Step(f"{action}, and audit again: {reason}.")]
    noun = "warning" if len(codes) == 1 else "warnings"
    return [
        Step(f"Follow the {noun} {join_all(codes)}, and audit again: {reason}."),
        Step(f"{action}.", is_conditional=True),
    ]


def _codes_to_follow(report: Report) -> list[str]:
    """Return the codes of warnings about the rows, but for those about size, each once."""
    codes = [
        finding.code
        for finding in report.audit.findings
        if finding.severity == "warning"
        and finding.model is None
        and finding.code not in _CODES_ABOUT_SIZE
    ]
    return list(dict.fromkeys(codes))
