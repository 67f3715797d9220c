"""Facts of each model: what it does to every group, and the certificate of its optimality."""

from typing import Any

from fairspan.auditing.audit_result import Audit
from fairspan.auditing.intervals import Estimate
from fairspan.auditing.results import GroupAudit, ModelAudit, group_name
from fairspan.estimator.fit import Fit
from fairspan.problem.criteria import declares
from fairspan.problem.parameters import used_parameters
from fairspan.report.facts.answers import Answer, Answers
from fairspan.report.facts.expected import expected_facts
from fairspan.rows.groups import printable

_OF_ANOTHER_PACKAGE = "The package of this criterion describes what it minimises."


def models_facts(answers: Answers, audit: Audit) -> list[dict[str, Any]]:
    """One dictionary for each model, ordinary PCA first."""
    plain = audit.models[0]
    return [
        _model_facts(answer, model, plain)
        for answer, model in zip(answers, audit.models, strict=True)
    ]


def findings_facts(answers: Answers, audit: Audit) -> list[dict[str, Any]]:
    """What there is to know, each with what to do."""
    names = {model.name: each.name for each, model in zip(answers, audit.models, strict=True)}
    return [
        {
            "code": each.code,
            "severity": each.severity,
            "message": each.message,
            "model": None if each.model is None else names[each.model],
            "groups": [group_name(label) for label in each.groups],
            "columns": [printable(name) for name in each.columns],
            "remedy": each.remedy,
        }
        for each in audit.findings
    ]


def certificate_facts(fit: Fit) -> dict[str, Any]:
    """The certificate of a fit as plain values; a bound that is not known is not finite."""
    solution, problem = fit.solution, fit.problem
    return {
        "objective": solution.objective,
        "lower_bound": solution.lower_bound,
        "gap": solution.gap,
        "relative_gap": solution.relative_gap,
        "tolerance": solution.tolerance,
        "resolution": solution.resolution,
        "status": str(solution.status),
        "reason": solution.reason,
        "message": solution.message,
        "solver": solution.solver,
        "eigen": solution.eigen,
        "n_eigenproblems": solution.n_eigenproblems,
        "weights": solution.weights.tolist(),
        "violation": solution.violation,
        "theorem_3_2": solution.theorem_3_2,
        "wants_equal_errors": declares(problem.criterion, "wants_equal_errors"),
        "bounds_largest_loss": declares(problem.criterion, "is_largest_loss"),
        "total_variance": problem.total_variance,
    }


def _model_facts(answer: Answer, model: ModelAudit, plain: ModelAudit) -> dict[str, Any]:
    change = None
    if plain.total_error > plain.rounding:
        change = model.total_error / plain.total_error - 1
    low, high = model.pair
    return {
        "name": answer.name,
        "criterion": answer.criterion.name,
        "parameters": used_parameters(answer.fit.problem),
        "asks": getattr(answer.criterion, "sentence", _OF_ANOTHER_PACKAGE),
        "is_main": answer.is_main,
        "is_plain_pca": model.is_plain_pca,
        "n_components": model.n_components,
        "groups": [group_facts(group, model) for group in model.groups],
        "total_error": _without_rounding(model.total_error, model),
        "total_change": change,
        "largest_loss": _without_rounding(model.largest_loss, model),
        "disparity": _disparity_facts(model.disparity, model),
        "pair": [group_name(low), group_name(high)],
        "why_no_estimates": model.why_no_estimates,
        "certificate": certificate_facts(answer.fit),
    }


def group_facts(group: GroupAudit, model: ModelAudit) -> dict[str, Any]:
    """What a model does to one group; figures that are only rounding are zero."""
    return {
        "group": group_name(group.group),
        "error": _without_rounding(group.error.value, model),
        "error_low": _without_rounding(group.error.low, model),
        "error_high": _without_rounding(group.error.high, model),
        "best_error": _without_rounding(group.best_error, model),
        "excess_loss": _without_rounding(group.excess_loss, model),
        "variance_kept": group.variance_kept,
        **expected_facts(group, model),
    }


def _without_rounding(value: float | None, model: ModelAudit) -> float | None:
    """Zero for a value that is only rounding."""
    return 0.0 if value is not None and abs(value) <= model.rounding else value


def _disparity_facts(estimate: Estimate, model: ModelAudit) -> dict[str, Any]:
    ends = {"value": estimate.value, "low": estimate.low, "high": estimate.high}
    return {name: _without_rounding(value, model) for name, value in ends.items()}
