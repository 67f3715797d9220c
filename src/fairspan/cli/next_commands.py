"""The command that follows from the verdict of an audit."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fairspan.auditing.verdict import VerdictKind
from fairspan.cli.option_values import ModelOptions
from fairspan.cli.reporting import shell_command

if TYPE_CHECKING:
    from fairspan.auditing.audit_result import Audit

# Options of `audit` that the next command does not repeat.
_FLAGS_NOT_REPEATED = {"--repair", "--json"}
_DIMENSION_OPTIONS = ("-d", "--dimensions")
# Verdicts on a repair after which the page, which compares all criteria, is worth reading.
_KINDS_TO_COMPARE: tuple[VerdictKind, ...] = (
    "harm, repair at a cost",
    "harm, repair at a possible cost",
    "harm, repair not shown to help",
    "harm, repair makes it worse",
    "harm, repair shifts it",
)


def next_command(
    arguments: Sequence[str], audit: "Audit", model_options: ModelOptions
) -> str | None:
    """Return the line that names the next command, or None if there is none.

    An audit of PCA that shows harm is repeated with the default repair. A repair that helps is
    saved as a model; of others, the page compares all criteria.

    Parameters
    ----------
    arguments : sequence of str
        Arguments of this command, beginning with "audit".
    audit : Audit
    model_options : ModelOptions
    """
    # Saved models and held-out rows are not options of the other commands, or mean something else.
    if not audit.verdicts or model_options.models or model_options.test_path is not None:
        return None
    if not arguments or arguments[0] != "audit":
        return None
    kind = audit.verdict.kind
    repeated = [word for word in arguments[1:] if word not in _FLAGS_NOT_REPEATED]
    for option in ("--fail-on", "--format"):
        repeated = _without_option(repeated, option)
    if not model_options.repair:
        if kind != "harm, no repair tried":
            return None
        return f"Next: {shell_command(['fairspan', 'audit', *repeated, '--repair'])}"
    # A share of variance would give another criterion another number of dimensions.
    dimension = ["-d", str(audit.models[0].n_components)]
    repeated = [*_without_dimension(repeated), *dimension]
    if kind == "harm, repair helps":
        return f"Next: {shell_command(['fairspan', 'fit', *repeated, '-o', 'fair.model'])}"
    if kind in _KINDS_TO_COMPARE:
        return f"Next: {shell_command(['fairspan', 'report', *repeated, '-o', 'report.html'])}"
    return None


def _without_dimension(words: Sequence[str]) -> list[str]:
    """Return the words without `-d N`, in any of its forms.

    Examples
    --------
    >>> _without_dimension(["a.csv", "-d", "2", "--group", "sex", "--dimensions=3", "-d0.9"])
    ['a.csv', '--group', 'sex']
    """
    kept = []
    is_value = False
    for word in words:
        is_option = word in _DIMENSION_OPTIONS
        has_value = word.startswith("--dimensions=") or _is_short_with_value(word)
        if not (is_option or is_value or has_value):
            kept.append(word)
        is_value = is_option
    return kept


def _without_option(words: Sequence[str], option: str) -> list[str]:
    """Return the words without a long option and its values.

    Examples
    --------
    >>> _without_option(["a.csv", "--fail-on", "harm", "--fail-on=FS101", "-d2"], "--fail-on")
    ['a.csv', '-d2']
    """
    kept = []
    is_value = False
    for word in words:
        is_option = word == option
        if not (is_option or is_value or word.startswith(f"{option}=")):
            kept.append(word)
        is_value = is_option
    return kept


def _is_short_with_value(word: str) -> bool:
    """Whether a word is "-d" with its value, such as "-d2" or "-d=0.9"."""
    return word.startswith("-d") and word[2:].lstrip("=")[:1].isdecimal()
