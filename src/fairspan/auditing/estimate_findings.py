"""Findings about estimates for new rows: which are missing, and which to read with care."""

from collections.abc import Callable, Iterator, Sequence

from fairspan.auditing.expected_losses import UNSTABLE, are_heavy
from fairspan.auditing.finding import Finding
from fairspan.auditing.results import AuditedRows, GroupAudit, ModelAudit, labels, names
from fairspan.formatting.names import first_of
from fairspan.formatting.numbers import in_ascii, share


def _unstable(models: Sequence[ModelAudit], rows: AuditedRows) -> Iterator[Finding]:
    """FS108: groups whose own best subspace is poorly known."""
    found = _groups(
        models, lambda each: each.expected is not None and each.expected.instability > UNSTABLE
    )
    if found:
        shares = [each.expected.instability for each in found if each.expected is not None]
        beyond = first_of([in_ascii(share(each)) for each in shares])
        yield Finding(
            "FS108",
            "warning",
            f"{names(found)}: the best subspace of the group has a larger error on rows that were "
            f"left out than on the rows of its fit, by {beyond} of its error. The loss of the "
            "group is therefore known only roughly; collect more rows, or use fewer dimensions.",
            groups=labels(found),
        )


def _heavy_tails(models: Sequence[ModelAudit], rows: AuditedRows) -> Iterator[Finding]:
    """FS109: errors that a few rows decide."""
    found = _groups(models, lambda each: are_heavy(each.kurtosis, each.n))
    if found:
        yield Finding(
            "FS109",
            "warning",
            f"{names(found)}: a few rows dominate the error, so intervals may miss the true value "
            "far more often than their level says. Look at the rows with the largest values; take "
            "logarithms of columns with long tails, or cap them.",
            groups=labels(found),
        )


def _missing(models: Sequence[ModelAudit], rows: AuditedRows) -> Iterator[Finding]:
    """FS110: models without estimates for new rows."""
    for model in models:
        if model.why_no_estimates is not None:
            yield Finding(
                "FS110",
                "warning",
                f"{model.name}: there are no estimates for new rows, because "
                f"{model.why_no_estimates}. Audit held-out rows, or use fewer features.",
                model.name,
            )


def _groups(
    models: Sequence[ModelAudit], applies: Callable[[GroupAudit], bool]
) -> list[GroupAudit]:
    """Groups to which something applies under any model, each once."""
    found: dict[object, GroupAudit] = {}
    for model in models:
        for group in model.groups:
            if applies(group):
                found.setdefault(group.group, group)
    return list(found.values())


ABOUT_ESTIMATES = (_missing, _unstable, _heavy_tails)
