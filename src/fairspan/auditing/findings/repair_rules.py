"""FS301 to FS303: a fair model compared with its baseline PCA."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from fairspan.auditing.findings.finding import Finding
from fairspan.auditing.findings.finding_catalog import make_finding
from fairspan.auditing.group_names import ascii_share, quote_group
from fairspan.auditing.results import GroupResult, ModelResult, labels_of
from fairspan.formatting.messages import counted
from fairspan.formatting.names import join_truncated

# Smallest drop in the share of variance kept that is reported: one percentage point.
_MIN_VARIANCE_LOST = 0.01


def repair_findings(models: Sequence[ModelResult]) -> Iterator[Finding]:
    """Apply the rules that compare fair models with their baseline."""
    yield from incomparable_units(models)
    yield from effect_of_repair(models)
    yield from cost_of_repair(models)


def incomparable_units(models: Sequence[ModelResult]) -> Iterator[Finding]:
    """FS301: models with different centers, or of which only some scale the features."""
    if len({(model.center, model.is_scaled) for model in models}) > 1:
        units = "; ".join(
            f"{model.name}: {model.center}{', scaled' if model.is_scaled else ''}"
            for model in models
        )
        yield make_finding(
            "FS301",
            {"units": units},
        )


class _Change(NamedTuple):
    """A share under the baseline PCA and under a fair model."""

    before: float
    after: float

    @property
    def falls(self) -> bool:
        """Whether the share decreases in the figures that are printed."""
        return self.after < self.before and not self.is_printed_alike

    @property
    def rises(self) -> bool:
        """Whether the share increases in the figures that are printed."""
        return self.after > self.before and not self.is_printed_alike

    @property
    def is_printed_alike(self) -> bool:
        """Whether both shares are printed with the same digits."""
        return ascii_share(self.before) == ascii_share(self.after)


def effect_of_repair(models: Sequence[ModelResult]) -> Iterator[Finding]:
    """FS302: largest loss and total error of a fair model compared with its baseline PCA.

    None if the loss under PCA is negligible, so that there is nothing to repair.
    """
    for model, pca in _pairs_with_pca(models):
        scope = _comparison_scope(model, pca)
        loss_before = _largest_loss_share(pca, scope)
        if loss_before == 0:
            continue
        loss = _Change(loss_before, _largest_loss_share(model, scope))
        error = _Change(
            _total_error(pca, scope) / pca.total_variance,
            _total_error(model, scope) / model.total_variance,
        )
        yield make_finding(
            "FS302",
            {
                "baseline": pca.name,
                "scope": scope,
                "loss_before": ascii_share(loss.before),
                "loss_after": ascii_share(loss.after),
                "total_error": _describe_total_error(error),
            },
            case=_case_of_changes(loss, error),
            model=model.name,
        )


def _case_of_changes(loss: _Change, error: _Change) -> str | None:
    """Return the case of FS302 by what its figures leave to decide.

    `loss` is the change of the largest loss, and `error` that of the error over all rows.

    Examples
    --------
    >>> _case_of_changes(_Change(0.08, 0.02), _Change(0.479, 0.474))
    'nothing to weigh'
    >>> _case_of_changes(_Change(0.08, 0.02), _Change(0.474, 0.479))
    """
    if loss.falls:
        return None if error.rises else "nothing to weigh"
    return "only error falls" if error.falls else "no benefit"


def _describe_total_error(error: _Change) -> str:
    """Describe the errors over all rows under PCA and a fair model, as shares of the variance."""
    before = ascii_share(error.before)
    if error.is_printed_alike:
        return f"the error over all rows stays at {before} of the variance"
    return f"the error over all rows from {before} to {ascii_share(error.after)} of the variance"


def cost_of_repair(models: Sequence[ModelResult]) -> Iterator[Finding]:
    """FS303: groups that keep clearly less variance than under the baseline PCA.

    One finding per fair model, with the groups by decreasing cost: the share of variance kept
    before the repair, under PCA, minus that after it, under the fair model.
    """
    for model, pca in _pairs_with_pca(models):
        scope = _comparison_scope(model, pca)
        costs = []
        for before, after in zip(pca.groups, model.groups, strict=True):
            cost = _variance_cost(before, after, scope)
            if cost.before - cost.after > _MIN_VARIANCE_LOST:
                costs.append(cost)
        if not costs:
            continue
        costs.sort(key=lambda cost: cost.before - cost.after, reverse=True)
        descriptions = [
            f"{quote_group(cost.group.group)} ({_row_count_prefix(cost.group.n_rows)}"
            f"{ascii_share(cost.group.proportion)} of all rows: {ascii_share(cost.after)} "
            f"instead of {ascii_share(cost.before)})"
            for cost in costs
        ]
        n_rows = sum(cost.group.n_rows for cost in costs)
        total_share = sum(cost.group.proportion for cost in costs)
        yield make_finding(
            "FS303",
            {
                "baseline": pca.name,
                "costs": join_truncated(descriptions),
                "scope": scope,
                "total": f"{_row_count_prefix(n_rows)}{ascii_share(total_share)}",
            },
            case="several groups" if len(costs) > 1 else None,
            model=model.name,
            groups=labels_of([cost.group for cost in costs]),
        )


def _pairs_with_pca(models: Sequence[ModelResult]) -> list[tuple[ModelResult, ModelResult]]:
    """Pairs of a fair model and its baseline PCA, for audits of several groups."""
    by_name = {model.name: model for model in models}
    pairs = [(model, by_name.get(model.baseline or "")) for model in models]
    return [(model, pca) for model, pca in pairs if pca is not None and len(pca.groups) > 1]


def _largest_loss_share(model: ModelResult, scope: str) -> float:
    """Return the largest loss of a group as a share of its variance, on "new rows" or "these"."""
    if scope == "new rows":
        return max(model.loss_shares().values())
    return max(group.observed_loss_share for group in model.groups)


def _total_error(model: ModelResult, scope: str) -> float:
    """Return the error over all rows, on "new rows" or "these rows"."""
    return model.expected_total_error if scope == "new rows" else model.observed_total_error


def _comparison_scope(model: ModelResult, pca: ModelResult) -> str:
    """Return "new rows" if both models have estimates for every group, else "these rows"."""
    groups = (*model.groups, *pca.groups)
    if all(group.is_estimated for group in groups):
        return "new rows"
    return "these rows"


class _VarianceCost(NamedTuple):
    """Shares of variance kept of a group before and after a repair."""

    group: GroupResult
    before: float
    after: float


def _variance_cost(before: GroupResult, after: GroupResult, scope: str) -> _VarianceCost:
    """Shares of variance kept of a group under the baseline PCA and a fair model.

    On new rows both shares are equal unless the error rises significantly, so that no cost is
    reported that may be chance. With scope "these rows", or for a group without variance, they are
    the observed shares.

    Parameters
    ----------
    before, after : GroupResult
        Results of the group under the baseline PCA and under the fair model.
    scope : {"new rows", "these rows"}
    """
    variance = after.observed_total_variance
    if scope != "new rows" or variance <= 0:
        return _VarianceCost(after, before.observed_variance_kept, after.observed_variance_kept)
    kept_before = max(1 - before.expected_error.value / variance, 0.0)
    kept_after = max(1 - after.expected_error.value / variance, 0.0)
    rises = (after.expected_change.low or 0.0) > 0
    if not rises:
        return _VarianceCost(after, kept_before, kept_before)
    return _VarianceCost(after, kept_before, kept_after)


def _row_count_prefix(n_rows: int) -> str:
    """Row count followed by a comma, or an empty string if it is unknown."""
    if not n_rows:
        return ""
    return f"{counted(n_rows, 'row')}, "
