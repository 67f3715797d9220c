"""Facts of the user's models, audited on the rows of the page or on held-out ones."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from fairspan.auditing.audit import audit_moments, audit_rows
from fairspan.auditing.expected_losses import USUAL, Expectations
from fairspan.auditing.models import Audited, audited_pca, models_of
from fairspan.auditing.results import ModelAudit
from fairspan.formatting.names import spoken
from fairspan.moments.group_moments import GroupMoments
from fairspan.problem.problem import check_n_components
from fairspan.report.facts.models import group_facts, verdict_facts
from fairspan.rows.groups import printable
from fairspan.rows.protocol import Rows
from fairspan.subspace import FairSubspace


def read_models(models: Any, moments: GroupMoments) -> list[Audited]:
    """Models by their names, and ordinary PCA of the rows of the page beside each fair one."""
    audited = models_of(models, moments.n_features)
    names = {each.name for each in audited}
    added: dict[tuple[int, str, bool], Audited] = {}
    compared = []
    for each in audited:
        made = each.subspace.provenance
        if each.baseline is None and not each.is_plain_pca and made is not None:
            d, center = each.subspace.dimension, each.subspace.center
            kind = (d, center, each.subspace.scale is not None)
            if kind not in added:
                check_n_components(d, moments.n_features)
                name = f"PCA of {each.name}" if "PCA" in names else "PCA"
                names.add(name)
                added[kind] = audited_pca(moments, d, center, scale=kind[2], name=name)
            each = replace(each, baseline=added[kind].name)
        compared.append(each)
    return [*compared, *added.values()]


def given_facts(
    audited: Sequence[Audited],
    rows: Rows | None,
    test: Rows | None,
    moments: GroupMoments,
    estimates: Expectations = USUAL,
    max_memory: int | None = None,
) -> dict[str, Any] | None:
    """What the models do to each group; None without models.

    Parameters
    ----------
    audited : sequence of Audited
    rows, test : RowSource, PartedRows or None
        Those of the page, None for moments alone; and held-out ones that judge the models in place
        of them.
    moments : GroupMoments
        Of the rows of the page.
    estimates : Expectations
    max_memory : int, optional
    """
    if not audited:
        return None
    if test is not None:
        audit = audit_rows(audited, test, options=replace(estimates, max_memory=max_memory))
    elif rows is not None:
        has_labels = moments.by_label is not None
        options = replace(estimates, has_labels=has_labels, max_memory=max_memory)
        audit = audit_rows(audited, rows, moments, options=options)
    else:
        audit = audit_moments(audited, [moments])
    by_name = {each.name: each for each in audited}
    return {
        "held_out": test is not None,
        "n_rows": audit.rows.n,
        "models": [_model_facts(by_name[model.name], model) for model in audit.models],
        "verdicts": [verdict_facts(each, printable(each.model)) for each in audit.verdicts],
    }


def _model_facts(each: Audited, model: ModelAudit) -> dict[str, Any]:
    made = each.subspace.provenance
    return {
        "name": printable(model.name),
        "n_components": model.n_components,
        "center": model.center,
        "standardized": model.scaled,
        "is_plain_pca": model.is_plain_pca,
        "fitted_here": model.fitted_here,
        "kind": _kind_of(each),
        "criterion": None if made is None else made.criterion,
        "restriction": None if made is None else made.restriction,
        "status": model.status,
        "gap": model.gap,
        "why_no_estimates": model.why_no_estimates,
        "total_error": model.total_error,
        "groups": [
            {**group_facts(group, model), "n": group.n, "total_variance": group.total_variance}
            for group in model.groups
        ],
    }


def _kind_of(each: Audited) -> str:
    """What a model is, in words."""
    if each.by_rows is not None:
        return "no projection: errors of the rows"
    subspace: FairSubspace = each.subspace
    kinds = {"oblique": subspace.is_oblique, "soft": subspace.is_soft, "nested": subspace.is_nested}
    told = [kind for kind, is_so in kinds.items() if is_so]
    made = subspace.provenance
    if made is not None and not each.is_plain_pca:
        told.append(spoken(made.criterion))
    if made is not None and made.restriction is not None:
        told.append(f"with {made.restriction}")
    return ", ".join(told) or "projection"
