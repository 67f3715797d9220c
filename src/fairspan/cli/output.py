"""How results are written: JSON, and the certificate in words."""

import json
import math
from typing import Any

import click

from fairspan.fitting import Fit


def echo_json(facts: dict[str, Any]) -> None:
    """Print facts as JSON, in ASCII for any terminal; figures that do not exist are null."""
    click.echo(json.dumps(_without_nan(facts), indent=2, allow_nan=False))


def certificate_facts(fit: Fit) -> dict[str, Any]:
    """The certificate of a fit as plain values."""
    solution = fit.solution
    return {
        "criterion": fit.problem.criterion.name,
        "n_components": fit.problem.n_components,
        "objective": solution.objective,
        "lower_bound": solution.lower_bound,
        "gap": solution.gap,
        "status": str(solution.status),
        "weights": solution.weights.tolist(),
        "n_eigenproblems": solution.n_eigenproblems,
        "solver": solution.solver,
        "total_variance": fit.problem.total_variance,
    }


def certificate_line(fit: Fit) -> str:
    """The certificate in words."""
    solution, criterion = fit.solution, fit.problem.criterion.name
    return (
        f"Certificate: {criterion} is {solution.objective:.6g}; no subspace of "
        f"{fit.problem.n_components} dimensions is below\n{solution.lower_bound:.6g} "
        f"(gap {solution.gap:.1e}, {solution.n_eigenproblems} eigenproblems). "
        f"Status: {solution.status}:\n{solution.status.message}."
    )


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nan(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
