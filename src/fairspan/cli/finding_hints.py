"""Options and commands in place of the Python that findings and verdicts advise.

Findings name settings as arguments in Python, and verdicts name classes. The command line names its
own options and commands in their place.
"""

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fairspan.auditing.findings.finding import Finding, Setting
from fairspan.auditing.verdict import Verdict
from fairspan.auditing.verdict_sentences import FIT_FAIR_MODEL

if TYPE_CHECKING:
    from fairspan.auditing.audit_result import Audit
    from fairspan.report.report import Report

# Maximum number of columns in a hint.
_MAX_COLUMNS_SHOWN = 4


def with_command_hints(audit: "Audit") -> "Audit":
    """Return the audit with findings and verdicts that name options of the command line."""
    return replace(
        audit,
        findings=tuple(map(with_command_hint, audit.findings)),
        verdicts=tuple(map(_verdict_in_command_terms, audit.verdicts)),
    )


def with_command_hints_in_report(report: "Report") -> "Report":
    """Return the report with findings that name options, also those on the user's models."""
    user_models = report.user_models
    if user_models is not None:
        user_models = replace(user_models, audit=with_command_hints(user_models.audit))
    return replace(report, audit=with_command_hints(report.audit), user_models=user_models)


def with_command_hint(finding: Finding) -> Finding:
    """Return the finding with options in place of the arguments that its texts name.

    Examples
    --------
    >>> advice = [Setting("clusters", "clusters='person'", "person")]
    >>> message = "Pass clusters='person'."
    >>> with_command_hint(Finding("FS409", "warning", message, settings=advice)).message
    'Pass --clusters person.'
    """
    message = finding.message
    stated_remedy = finding.stated_remedy
    for setting in finding.settings:
        option = _option_of(setting)
        # The phrase that is replaced includes its parentheses, if the message names the setting in
        # parentheses only.
        if setting.phrase.startswith("("):
            option = f"({option})"
        message = message.replace(setting.phrase, option)
        stated_remedy = stated_remedy.replace(setting.phrase, option)
    return replace(
        finding,
        message=message,
        stated_remedy=stated_remedy,
        remedy=in_command_terms(finding.remedy),
        further_remedy=in_command_terms(finding.further_remedy),
    )


def _verdict_in_command_terms(verdict: Verdict) -> Verdict:
    """Return the verdict with steps that name commands and options."""
    return replace(verdict, advice=verdict.advice.map_text(in_command_terms))


def in_command_terms(text: str) -> str:
    """Return a text about arguments with the options of the command line in their place.

    Examples
    --------
    >>> in_command_terms("Use scale=True, or rescale the column.")
    'Use --standardize, or rescale the column.'
    """
    for argument, option in _OPTIONS_OF_ARGUMENTS.items():
        text = text.replace(argument, option)
    return text


def _option_of(setting: Setting) -> str:
    """Return the option for a setting, with the proposed value if there is one."""
    return _FORMATTERS[setting.name](setting.value)


def _clusters_option(column: str | None) -> str:
    return "--clusters COL" if column is None else f"--clusters {shlex.quote(column)}"


def _codes_options(codes: Mapping[str, Sequence[float]]) -> str:
    """Return options that make codes of columns missing, for at most four columns."""
    options = []
    for column, values in list(codes.items())[:_MAX_COLUMNS_SHOWN]:
        texts = ",".join(f"{value:.15g}" for value in values)
        options.append(f"--na-values {shlex.quote(f'{column}={texts}')}")
    return f"{' '.join(options)} with --on-missing drop or em"


def _missing_group_options(labels: Sequence[str]) -> str:
    """Return options that drop the rows with labels that stand for a missing value."""
    return f"--na-values {shlex.quote(','.join(labels))} with --missing-group drop"


# Options for the arguments that remedies, steps and statuses name; longer phrases come first.
_OPTIONS_OF_ARGUMENTS = {
    FIT_FAIR_MODEL: "fairspan audit --repair fits one and audits both, and fairspan fit saves it",
    "allow_extra=True": "--allow-extra",
    'center="global"': "--center global",
    "scale=True": "--standardize",
    'on_missing="drop"': "--on-missing drop",
    'on_missing="em"': "--on-missing em",
    "(on_missing)": "(--on-missing)",
    "(clusters)": "(--clusters COL)",
    "(tol)": "(--tol)",
}
# Functions that format the option for a setting, from its proposed value or None.
_FORMATTERS: dict[str, Callable[[Any], str]] = {
    "bins": lambda _: "--bin COLUMN=EDGES",
    "center": lambda center: f"--center {center}",
    "clusters": _clusters_option,
    "exclude": lambda _: "--exclude COL",
    "missing_group": _missing_group_options,
    "n_components": lambda _: "-d N",
    "na_values": _codes_options,
    "scale": lambda _: "--standardize",
}
