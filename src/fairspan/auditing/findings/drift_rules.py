"""FS209 and FS210: models that were fitted to other rows than the audited ones."""

import math
from collections.abc import Iterator, Sequence

from fairspan.auditing.findings.finding import Finding
from fairspan.auditing.findings.finding_catalog import make_finding
from fairspan.auditing.findings.reliability_rules import MIN_ROWS_PER_DIMENSION
from fairspan.auditing.group_names import ascii_share, quote_group
from fairspan.auditing.refit_bound import RefitBound
from fairspan.auditing.results import GroupResult, ModelResult, labels_of
from fairspan.formatting.names import join_truncated
from fairspan.formatting.numbers import (
    format_ascii_number,
    format_count,
    share_decimals,
    share_with_interval,
    to_ascii,
)

# Maximum kurtosis of the rows' squared residuals at which a decrease of the error is reported. For
# normal rows it is about 3 + 12 / m with m equal directions left out: 9 with two. In simulations
# with heavy tails, samples of 500 rows that gave false decreases had 12 to 50.
_MAX_KURTOSIS_OF_DECREASE = 9.5


def drift_since_fit(models: Sequence[ModelResult]) -> Iterator[Finding]:
    """FS209, FS210: models that were fitted to other rows than the audited ones.

    FS209 says by how much a refit to the audited rows could lower the criterion at most, which is
    the refit bound; FS210, which groups' errors changed significantly since the fit. Reports on
    fair models only, if there are any.

    If a refit may help, FS209 warns that part of the gain may be due to chance if the group with
    the largest loss is small: its loss is overestimated on few rows.
    """
    with_bound = [model for model in models if model.refit_bound is not None]
    fair_models = [model for model in with_bound if not model.is_pca]
    for model in fair_models or with_bound:
        assert model.refit_bound is not None
        figures = {"refit_bound": _describe_refit_bound(model.refit_bound)}
        case = None
        largest_group = max(model.groups, key=lambda group: group.observed_loss)
        min_rows = MIN_ROWS_PER_DIMENSION * (model.n_components + 1)
        if model.refit_bound.refit_may_help and largest_group.n_rows < min_rows:
            count = to_ascii(format_count(largest_group.n_rows, "row"))
            figures |= {"group": quote_group(largest_group.group), "rows": count}
            case = "small group"
        yield make_finding("FS209", figures, case=case, model=model.name)
        drifted = [group for group in model.groups if _has_drifted(group)]
        if drifted:
            yield make_finding(
                "FS210",
                {"changes": join_truncated([*map(_describe_drift, drifted)])},
                model=model.name,
                groups=labels_of(drifted),
            )


def _has_drifted(group: GroupResult) -> bool:
    """Whether the error has changed significantly since the fit, beyond rounding error.

    Errors of heavy tails seem to have become smaller wherever the few rows that dominated the error
    at the fit have no counterpart, so a decrease needs errors that are known to have light tails.
    """
    drift = group.drift
    if drift.low is None or drift.high is None or abs(drift.value) <= group.observed_rounding:
        return False
    has_light_tails = 0 < group.observed_kurtosis <= _MAX_KURTOSIS_OF_DECREASE
    return drift.low > 0 or (drift.high < 0 and has_light_tails)


def _describe_drift(group: GroupResult) -> str:
    """Describe a significant change in error since the fit, as a share of the group's variance."""
    drift = group.drift.relative_to(group.observed_total_variance)
    verb = "has risen"
    if drift.value < 0:
        verb = "has fallen"
        drift = -drift
    decimals = share_decimals([(drift.low, drift.high)])
    share, interval = share_with_interval(drift.value, drift.low, drift.high, decimals)
    change = f"{share} of its variance (interval {interval})"
    return f"{quote_group(group.group)} {verb} by {to_ascii(change)}"


def _describe_refit_bound(bound: RefitBound) -> str:
    """Describe the refit bound in a sentence: objective, lower bound, and whether a refit may help.

    The gap is the objective minus the lower bound. If the model's mean accounts for more than half
    of it, the objective with the mean of these rows is given as well.
    """
    value = "infinite"
    if math.isfinite(bound.objective):
        value = format_ascii_number(bound.objective)
    text = f"on the audited rows, {bound.criterion} is {value}"
    if bound.refit_may_help is None:
        no_bound = f"there is no bound for a refit to these rows: {bound.no_bound_reason}."
        if math.isnan(bound.objective):
            return no_bound
        return f"{text}; {no_bound}"
    # Without a gap, the objective is itself a lower bound.
    limit = "that"
    if bound.gap:
        limit = format_ascii_number(bound.lower_bound)
    text += f", and by its certificate no refit to them falls below {limit}"
    if 0 < bound.gap < math.inf:
        gap = f"{format_ascii_number(bound.gap)} ({ascii_share(bound.relative_gap)})"
        text += f": the optimum is at most {gap} lower"
        if bound.expected_gap > 0:
            expected = format_ascii_number(bound.expected_gap)
            text += f", of which {expected} is expected by chance"
    if bound.constraint_violation > 0:
        violation = format_ascii_number(bound.constraint_violation)
        text += f"; the errors differ by {violation} more than the criterion allows"
    if not bound.refit_may_help:
        # The restriction was enforced on other rows and may be violated on these.
        if bound.is_restricted:
            return f"{text}. No refit is needed, but this does not check its restriction here."
        return f"{text}. No refit is needed."
    recentered = bound.recentered_objective
    if bound.objective - recentered > bound.gap / 2 > 0:
        text += "; recentered at the mean of these rows, the same components give "
        text += format_ascii_number(recentered)
    return f"{text}. A refit may help."
