"""Facts of what a classifier makes of the rows, reduced by PCA and by the fair answers."""

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

from fairspan.auditing.downstream import (
    N_FOLDS,
    Downstream,
    Outcome,
    Refit,
    downstream,
    labelled_rows,
)
from fairspan.auditing.intervals import Estimate
from fairspan.auditing.models import Audited, plain_pca
from fairspan.auditing.results import group_name
from fairspan.errors import FairspanError
from fairspan.estimator.fitting import fit_subspace
from fairspan.estimator.refitting import fit_again
from fairspan.moments.group_moments import GroupMoments
from fairspan.report.facts.answers import PCA, Answers, ReportSettings
from fairspan.rows.protocol import Rows
from fairspan.subspace import FairSubspace


def downstream_facts(
    rows: Rows | None,
    moments: GroupMoments,
    answers: Answers,
    asked: ReportSettings,
    given: Sequence[Audited],
    level: float,
) -> dict[str, Any] | None:
    """Accuracy by group, parity of predictions, and leakage; None where no classes are known.

    Parameters
    ----------
    rows : RowSource, PartedRows or None
        With their classes behind their groups.
    moments : GroupMoments
        Of the same rows.
    answers : Answers
    asked : ReportSettings
    given : sequence of Audited
        Models of the user; those whose settings are known are fitted again.
    level : float
        Level of the intervals.
    """
    if rows is None or moments.by_label is None:
        return None
    try:
        known = labelled_rows(rows, int(moments.counts.sum()))
        return _facts(downstream(known, _refits(answers, asked, given), level))
    except FairspanError as error:
        return {"why": str(error.args[0]), "outcomes": []}


def _refits(answers: Answers, asked: ReportSettings, given: Sequence[Audited]) -> dict[str, Refit]:
    d = answers.plain.fit.subspace.dimension

    def plain(moments: GroupMoments) -> FairSubspace:
        return plain_pca(moments, d, asked.center, scale=asked.scale)

    def main(moments: GroupMoments) -> FairSubspace:
        return fit_subspace(
            moments, d, criterion=asked.criterion, center=asked.center, scale=asked.scale
        ).subspace

    refits: dict[str, Refit] = {PCA: plain}
    if not answers.plain.is_main:
        refits[answers.main.name] = main
    for each in given:
        made = each.subspace.provenance
        if made is not None and not each.is_plain_pca:
            is_scaled = each.subspace.scale is not None
            refits[each.name] = partial(fit_again, each.subspace, scale=is_scaled)
    return refits


def _facts(found: Downstream) -> dict[str, Any]:
    return {
        "why": None,
        "n_rows": found.n_rows,
        "sampled_from": found.sampled_from,
        "n_folds": N_FOLDS,
        "classes": [group_name(label) for label in found.classes],
        "level": found.level,
        "outcomes": [_outcome(each) for each in found.outcomes],
    }


def _outcome(outcome: Outcome) -> dict[str, Any]:
    return {
        "name": outcome.name,
        "parity": asdict(outcome.parity),
        "leakage": asdict(outcome.leakage),
        "groups": [
            {
                "group": group_name(each.group),
                "n": each.n,
                "accuracy": asdict(each.accuracy),
                "change": None if each.change is None else _ends(each.change),
            }
            for each in outcome.groups
        ],
    }


def _ends(estimate: Estimate) -> dict[str, Any]:
    return {**asdict(estimate), "is_shown": not estimate.contains_zero}
