"""Figures of an audit by flat names, for experiment trackers."""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence

from fairspan.auditing.findings.finding import Finding
from fairspan.auditing.intervals import Estimate
from fairspan.auditing.results import ModelResult, select_models
from fairspan.errors import InvalidInput
from fairspan.rows.labels import Label, format_label, format_list

# Trackers such as MLflow accept letters, digits and these characters in the part of a name between
# slashes.
_NOT_ALLOWED = re.compile(r"[^\w.\- ]")


def logged_model(models: Sequence[ModelResult], name: str | None) -> ModelResult:
    """Return the model of a name; by default the only one, or the only one compared with PCA.

    Raises
    ------
    InvalidParameter
        There is no model of this name.
    InvalidInput
        There are several, none of which was named.
    """
    names = None if name is None else [name]
    selected = select_models(models, names, "model")
    if len(selected) > 1:
        raise InvalidInput(
            f"The audit has several models: {format_list([model.name for model in selected])}",
            "Allowed: the metrics of one model, as a tracker has one run for each",
            "Name the model, as in metrics(model=...)",
        )
    return selected[0]


def flat_metrics(model: ModelResult, findings: Sequence[Finding]) -> dict[str, float]:
    """Return the figures of a model by name; those that are unknown are left out."""
    metrics: dict[str, float] = {}
    # Not "n_rows": a tracker that stores metrics as files cannot have n_rows and n_rows/G.
    metrics["total_rows"] = sum(group.n_rows for group in model.groups)
    if model.has_estimates:
        states = Counter(model.states)
        metrics["n_harmed"] = states["harmed"]
        metrics["n_inconclusive"] = states["inconclusive"]
        metrics["largest_loss"] = max(model.loss_shares().values())
    metrics["observed_disparity"] = model.observed_disparity.value
    metrics["expected_disparity"] = model.expected_disparity.value
    if model.refit_bound is not None and model.refit_bound.refit_may_help is not None:
        metrics["refit_gap"] = model.refit_bound.relative_gap
        metrics["refit_may_help"] = model.refit_bound.refit_may_help
    if model.rank_bound is not None:
        metrics["rank_bound"] = model.rank_bound.bound
        metrics["rank_excess"] = model.rank_bound.excess
    names = names_for_trackers([group.group for group in model.groups])
    for group in model.groups:
        name = names[group.group]
        variance = group.observed_total_variance
        metrics[f"n_rows/{name}"] = group.n_rows
        metrics[f"observed_loss/{name}"] = group.observed_loss_share
        estimates = {
            "loss": group.expected_loss,
            "error": group.expected_error,
            "change": group.expected_change,
            "drift": group.drift,
            "observed_error": group.observed_error,
        }
        for figure, estimate in estimates.items():
            metrics |= _named_shares(figure, name, estimate, variance)
    relevant = [finding.code for finding in findings if finding.model in (None, model.name)]
    metrics |= {f"findings/{code}": n for code, n in sorted(Counter(relevant).items())}
    return {name: float(value) for name, value in metrics.items() if math.isfinite(value)}


def _named_shares(figure: str, group: str, estimate: Estimate, variance: float) -> dict[str, float]:
    """Return an estimate and its limits as shares of the group's variance, those that are known."""
    if variance <= 0:
        return {}
    shares = estimate.relative_to(variance)
    metrics = {f"{figure}/{group}": shares.value}
    if shares.low is not None:
        metrics[f"{figure}_low/{group}"] = shares.low
    if shares.high is not None:
        metrics[f"{figure}_high/{group}"] = shares.high
    return metrics


def names_for_trackers(labels: Sequence[Label]) -> Mapping[Label, str]:
    """Return a name for each label that trackers accept; equal names get a number.

    Examples
    --------
    >>> names_for_trackers([("f", "old"), "30+", "30?", ""])
    {('f', 'old'): 'f _ old', '30+': '30_', '30?': '30_-2', '': '_'}
    """
    names: dict[Label, str] = {}
    taken: set[str] = set()
    for label in labels:
        name = _NOT_ALLOWED.sub("_", format_label(label)).strip()
        # A tracker may take a name as a path, in which these mean something else.
        if name in ("", ".", ".."):
            name = "_"
        unique = name
        number = 2
        while unique in taken:
            unique = f"{name}-{number}"
            number += 1
        taken.add(unique)
        names[label] = unique
    return names
