"""Conditions on which an audit fails a check of a pipeline or test."""

from collections.abc import Sequence
from dataclasses import dataclass

from fairspan.auditing.findings.finding import Finding
from fairspan.auditing.findings.finding_catalog import ENTRIES
from fairspan.auditing.group_names import ascii_share, quote_groups
from fairspan.auditing.results import (
    ModelResult,
    harmed_groups,
    labels_of,
    unresolved_groups,
)
from fairspan.auditing.verdict import Verdict
from fairspan.auditing.verdict_sentences import describe_harm
from fairspan.errors import InvalidInput, InvalidParameter, InvalidType, closest_match
from fairspan.rows.labels import Label

CONDITIONS = ("harm", "drift", "inconclusive")
"""Conditions that have a name; the others are codes of findings."""

_DRIFT_CODE = "FS210"


@dataclass(frozen=True)
class CheckFailure:
    """A condition of a check that applies to an audit.

    Attributes
    ----------
    condition : str
        "harm", "drift", "inconclusive", or the code of a finding.
    message : str
        Evidence, in a sentence or more.
    model : str or None
        Model concerned; None if the failure is about the rows.
    groups : tuple of labels
        Groups concerned; empty if none is singled out.
    """

    condition: str
    message: str
    model: str | None = None
    groups: tuple[Label, ...] = ()

    def __str__(self) -> str:
        return f"{self.condition}: {self.message}"


@dataclass(frozen=True)
class Gate:
    """Results of an audit as far as conditions depend on them.

    Attributes
    ----------
    models : tuple of ModelResult
        Models that the check is about.
    other_models : tuple of ModelResult
        Models that they are compared with.
    findings : tuple of Finding
    verdicts : tuple of Verdict
    materiality : float
        Materiality threshold, as a share of a group's variance.
    """

    models: tuple[ModelResult, ...]
    other_models: tuple[ModelResult, ...]
    findings: tuple[Finding, ...]
    verdicts: tuple[Verdict, ...]
    materiality: float

    def failures(self, conditions: Sequence[str]) -> tuple[CheckFailure, ...]:
        """Return the failures by condition, in the order of the conditions.

        Raises
        ------
        InvalidInput
            The audit cannot tell whether a condition applies: it has no estimates for new rows, or
            no model was fitted to other rows.
        """
        failures: list[CheckFailure] = []
        for condition in conditions:
            if condition == "harm":
                self._require_estimates(condition)
                failures += self._harm()
            elif condition == "inconclusive":
                self._require_estimates(condition)
                failures += self._inconclusive()
            elif condition == "drift":
                self._require_drift()
                failures += self._findings(_DRIFT_CODE, condition)
            else:
                failures += self._findings(condition, condition)
        return tuple(failures)

    def _require_estimates(self, condition: str) -> None:
        """Raise an error if nothing is known of new rows, so that no loss could ever be shown."""
        if not self.verdicts:
            raise InvalidInput(
                f"The audit was checked for {condition!r}, but has no estimates for new rows",
                "Allowed: audits of rows with folds, or of several blocks of moments",
                "Use folds (10 by default)",
            )

    def _require_drift(self) -> None:
        """Raise an error if no model could have drifted, so that the check would always pass."""
        if all(model.refit_bound is None for model in (*self.models, *self.other_models)):
            raise InvalidInput(
                "The audit was checked for 'drift', but no model with a certificate was fitted to "
                "other rows than the audited ones",
                "Allowed: audits of a saved FairPCA on rows that it was not fitted to",
                "Audit the saved model on the new rows alone",
            )

    def _harm(self) -> list[CheckFailure]:
        failures = []
        for model in self.models:
            harmed = harmed_groups(model)
            if harmed:
                message = describe_harm(model, harmed, self.materiality)
                failures.append(CheckFailure("harm", message, model.name, labels_of(harmed)))
        return failures

    def _inconclusive(self) -> list[CheckFailure]:
        """Return the models that are not shown to harm a group, and not shown not to."""
        failures = []
        for model in self.models:
            if harmed_groups(model):
                continue
            unresolved = unresolved_groups(model, self.materiality)
            verdict = self._inconclusive_verdict(model)
            if unresolved:
                message = (
                    f"Under {model.name}, a loss above {ascii_share(self.materiality)} of the "
                    f"variance is not ruled out for {quote_groups(unresolved)}."
                )
            elif verdict is not None:
                message = verdict.summary
            else:
                continue
            failures.append(
                CheckFailure("inconclusive", message, model.name, labels_of(unresolved))
            )
        return failures

    def _inconclusive_verdict(self, model: ModelResult) -> Verdict | None:
        """Return the first inconclusive verdict on a model, or on one compared with it."""
        all_models = (*self.models, *self.other_models)
        compared = {other.name for other in all_models if other.baseline == model.name}
        for verdict in self.verdicts:
            if verdict.kind == "inconclusive" and verdict.model in {model.name, *compared}:
                return verdict
        return None

    def _findings(self, code: str, condition: str) -> list[CheckFailure]:
        return [
            CheckFailure(condition, finding.message, finding.model, finding.groups)
            for finding in self.findings
            if finding.code == code
        ]


def parse_conditions(
    fail_on: object,
    name: str = "fail_on",
    *,
    conditions: Sequence[str] = CONDITIONS,
    has_findings: bool = True,
) -> tuple[str, ...]:
    """Return the conditions of a check, each once.

    Parameters
    ----------
    fail_on : str or sequence of str
        Conditions; a text may hold several, separated by commas.
    name : str
        Name of the argument or option in messages.
    conditions : sequence of str
        Allowed conditions that have a name.
    has_findings : bool
        Whether codes of findings are allowed as well.

    Raises
    ------
    InvalidType
        Neither a text nor texts.
    InvalidParameter
        There is no condition, or an unknown one.

    Examples
    --------
    >>> parse_conditions("harm, FS101"), parse_conditions(["drift"])
    (('harm', 'FS101'), ('drift',))
    """
    allowed = f"Allowed: {', '.join(map(repr, conditions))}"
    allowed_names = [*conditions]
    remedy = "Choose one of these"
    if has_findings:
        allowed = f"{allowed}, and codes of findings such as 'FS101'"
        allowed_names += ENTRIES
        remedy = f"{remedy}; the page on findings explains every code"
    texts = [fail_on] if isinstance(fail_on, str) else fail_on
    if not isinstance(texts, list | tuple | set | frozenset) or not all(
        isinstance(text, str) for text in texts
    ):
        raise InvalidType(f"{name} is {fail_on!r}", allowed, "Pass such a text, or a list of them")
    words = [word.strip() for text in texts for word in text.split(",")]
    requested = tuple(dict.fromkeys(word for word in words if word))
    if not requested:
        raise InvalidParameter(f"{name} names no condition", allowed, "Name at least one")
    for condition in requested:
        if condition not in allowed_names:
            suggestion = closest_match(condition, allowed_names)
            if suggestion is not None:
                remedy = f"Use {suggestion!r}"
            raise InvalidParameter(
                f"{name} names the unknown condition {condition!r}", allowed, remedy
            )
    return requested
