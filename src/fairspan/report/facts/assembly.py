"""The facts of a report: one plain dictionary, which the page shows and JSON can hold."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from fairspan.auditing.audit import Audit
from fairspan.auditing.models import Audited
from fairspan.auditing.results import group_name
from fairspan.errors import InvalidInput
from fairspan.estimator.fit import dimension_keeping
from fairspan.formatting.results import plain
from fairspan.formatting.text import percent
from fairspan.linalg.resources import memory_error_hint, threads_of
from fairspan.moments.group_moments import GroupMoments
from fairspan.moments.of_rows import FoldMoments
from fairspan.problem.problem import check_n_components, used_parameters
from fairspan.report.facts.answers import (
    Answers,
    ReportSettings,
    answers_of,
    audit_of,
    findings_facts,
    given_facts,
    models_facts,
    verdicts_facts,
)
from fairspan.report.facts.verifying import Origin, provenance_facts, verification_facts
from fairspan.report.facts.walks import (
    along_dimensions,
    along_found,
    along_frontier,
    dimensions_facts,
    expected_by_dimension,
    spread_along,
    steps_facts,
)
from fairspan.rows.groups import printable
from fairspan.rows.protocol import Rows
from fairspan.trade_off import frontier_to_look_at

FORMAT = 1
# Of float64's sixteen digits the last four are left to rounding.
_DIGITS = 12
SHARE_KEPT = 0.9
# Matrices of more features, one for each group, are too large to compare so many answers.
_MOST_FEATURES = 1000
# Corners of the region in a picture.
_MOST_CORNERS = 120


@memory_error_hint()
def facts_of(
    moments: GroupMoments,
    rows: Rows | None,
    asked: ReportSettings,
    origin: Origin,
    *,
    models: Sequence[Audited] = (),
    test: Rows | None = None,
    max_memory: int | None = None,
) -> dict[str, Any]:
    """Everything there is to say about some rows.

    Parameters
    ----------
    moments : GroupMoments
        Of the rows.
    rows : RowSource, PartedRows or None
        The rows again, read twice for estimates and intervals; None for none.
    asked : ReportSettings
    origin : Origin
    models : sequence of Audited
        Models of the user.
    test : RowSource, PartedRows or None
        Held-out rows that judge these models; None for the rows of the report.
    max_memory : int, optional
        Bytes that moments by fold may take, where that was set.

    Returns
    -------
    dict
        Of str, int, float, bool, None, lists and dictionaries.

    Raises
    ------
    Incompatible, InvalidInput, InvalidParameter, UnknownGroup
        One group only, too many features, or no answer of the main criterion.
    """
    check_size(moments.n_features, asked)
    if moments.n_groups < 2:
        raise InvalidInput(
            f"All rows are of one group ({moments.labels[0]!r})",
            "Allowed: two groups or more",
            "Check the group column, or use ordinary PCA",
        )
    wanted = SHARE_KEPT if asked.n_components is None else asked.n_components
    with threads_of(None):
        d = dimension_keeping(
            moments, wanted, asked.criterion, center=asked.center, scale=asked.scale
        )
        answers = answers_of(moments, asked, d)
    audit, folds = audit_of(answers, rows, moments, asked.estimates, max_memory)
    settings = {
        "n_components": d,
        "chosen_by": "asked"
        if isinstance(asked.n_components, int)
        else f"the fewest that keep {percent(wanted)} of every group's variance",
        "center": asked.center,
        "standardize": bool(asked.scale),
        "criterion": asked.criterion.name,
        "parameters": used_parameters(
            answers.main.certificate.criterion, answers.main.certificate.groups
        ),
    }
    # Hundreds of small eigenproblems: where cores are shared, threads would wait for each other.
    with threads_of(None):
        curves = _curves(moments, answers, audit, asked, folds)
    facts: dict[str, Any] = plain(
        {
            "format": FORMAT,
            "title": printable(origin.title),
            "data": _data_facts(moments, audit, origin.name),
            "settings": settings,
            **verdicts_facts(answers, audit),
            "models": models_facts(answers, audit),
            "unavailable": [{"name": name, "why": why} for name, why in answers.without],
            **curves,
            "given": given_facts(models, rows, test, moments, asked.estimates, max_memory),
            "displays": [],
            "findings": findings_facts(answers, audit),
            "verification": verification_facts(answers.main, origin),
            "made": provenance_facts(origin, settings),
        },
        _DIGITS,
    )
    return facts


def check_size(n_features: int, asked: ReportSettings) -> None:
    """Make sure that these are not too many features, nor too few for d.

    Raises
    ------
    InvalidInput, InvalidParameter
    """
    if n_features > _MOST_FEATURES:
        raise InvalidInput(
            f"A report received {n_features} features",
            f"Allowed: {_MOST_FEATURES} at most, as dozens of answers are compared",
            "Choose features, or use FairPCA and audit, which take any number",
        )
    if asked.n_components is not None:
        check_n_components(asked.n_components, n_features, or_share=True)


def _data_facts(moments: GroupMoments, audit: Audit, name: str) -> dict[str, Any]:
    groups = audit.models[0].groups
    return {
        "name": printable(name),
        "n_rows": audit.rows.n,
        "n_features": moments.n_features,
        "n_dropped": audit.rows.n_dropped,
        "has_intervals": audit.rows.has_intervals,
        "feature_names": _feature_names(moments),
        "weighted": not np.array_equal(moments.weights, moments.counts),
        "groups": [
            {
                "group": group_name(each.group),
                "n": each.n,
                "proportion": each.proportion,
                "total_variance_here": each.total_variance_here,
            }
            for each in groups
        ],
    }


def _feature_names(moments: GroupMoments) -> list[str]:
    names = moments.feature_names or [f"feature {i}" for i in range(moments.n_features)]
    return [printable(name) for name in names]


def _curves(
    moments: GroupMoments,
    answers: Answers,
    audit: Audit,
    asked: ReportSettings,
    folds: FoldMoments | None,
) -> dict[str, Any]:
    """Curves by dimension, the frontier of two groups, and a walk along one of them."""
    rounding, n_components = audit.models[0].rounding, audit.models[0].n_components
    found = along_dimensions(answers)
    plain_errors = np.array([each.error_here.value for each in audit.models[0].groups])
    groups = [group_name(label) for label in moments.labels]
    frontier: dict[str, Any] | None = None
    if moments.n_groups == 2:
        curve = frontier_to_look_at(moments, n_components, asked.center, scale=asked.scale)
        walk, region = along_frontier(curve, answers, plain_errors, groups), curve.region()
        frontier = {
            # All of them: the height is that of their polygon.
            "errors_here": curve.errors.tolist(),
            "region": region[spread_along(region, _MOST_CORNERS)].tolist(),
            "plain": plain_errors.tolist(),
            "answers": {each.name: each.certificate.errors.tolist() for each in answers.others},
            "largest_height": curve.largest_height,
        }
    else:
        walk = along_found(found, n_components)
    scale = answers.main.subspace.scale
    scaled = moments if scale is None else moments.divided_by(scale)
    second = scaled.second_moments(asked.center)
    return {
        "by_dimension": {
            **dimensions_facts(found, answers.main.name, rounding),
            "expected": expected_by_dimension(found, audit, folds),
        },
        "frontier": frontier,
        "steps": steps_facts(walk, scaled, second, _feature_names(moments), rounding),
    }
