"""How results are written: JSON, the certificate in words, losses by number of dimensions."""

import json
import math
import re
import sys
from typing import TYPE_CHECKING, Any

from fairspan.auditing.results import group_name
from fairspan.cli.terminal import JSON_VERSION, paint_on
from fairspan.formatting.names import settings, spoken
from fairspan.formatting.numbers import count, decimals_of, figure, in_ascii, interval, percent
from fairspan.formatting.results import plain
from fairspan.formatting.terminal_text import Role, aligned, cut_names, width_of, wrapped
from fairspan.problem.problem import used_parameters
from fairspan.rows.groups import printable

if TYPE_CHECKING:
    from fairspan.auditing.audit_result import Audit
    from fairspan.auditing.results import GroupAudit
    from fairspan.estimator.fit import Fit

# Letters of a group's name.
_LONGEST_NAME = 24
_BY_DIMENSION = (
    "Loss expected on new rows under PCA, by number of dimensions d. States hold for all groups at "
    "once, at one d; an interval is that of one group at one d."
)


def in_json(facts: dict[str, Any]) -> str:
    """Facts as JSON, in ASCII for any terminal; figures that do not exist are null."""
    return json.dumps({"version": JSON_VERSION, **plain(facts)}, indent=2, allow_nan=False)


def certificate_facts(fit: "Fit") -> dict[str, Any]:
    """The certificate of a fit as plain values, with what was minimised."""
    from fairspan.report.facts.models import certificate_facts as facts_of

    made = fit.subspace.provenance
    return {
        "criterion": fit.problem.criterion.name,
        "parameters": used_parameters(fit.problem),
        "restriction": None if made is None else made.restriction,
        "n_components": fit.problem.n_components,
        "nested": _nested_facts(fit),
        **facts_of(fit),
    }


def _nested_facts(fit: "Fit") -> list[dict[str, Any]] | None:
    """Of nested components, the first 1, 2, .. of them and each step; None of others."""
    made = fit.subspace.provenance
    if made is None or not made.steps:
        return None
    return [
        {
            "n_components": d,
            "objective": claimed.together.objective,
            "lower_bound": claimed.together.lower_bound,
            "step": {
                "objective": step.objective,
                "lower_bound": step.lower_bound,
                "gap": step.gap,
                "status": str(step.status),
            },
        }
        for d, (claimed, step) in enumerate(
            zip(made.steps, fit.solution.steps, strict=True), start=1
        )
    ]


def audit_in_words(result: "Audit") -> str:
    """An audit as standard output shows it: as wide as that is, and in its colours."""
    return result.in_words(width_of(sys.stdout), paint_on(sys.stdout))


def certificate_in_words(fit: "Fit") -> str:
    """The certificate as a paragraph as wide as standard output, and in its colours."""
    solution, d = fit.solution, fit.problem.n_components
    values = printable(settings(used_parameters(fit.problem)))
    criterion, made = spoken(fit.problem.criterion.name), fit.subspace.provenance
    if solution.steps:
        criterion = f"nested {criterion}"
    if made is not None and made.restriction is not None:
        criterion += f" with {printable(made.restriction)}"
    steps = in_ascii(count(solution.n_eigenproblems, "eigenproblem"))
    among = " with equal errors" if fit.problem.criterion.wants_equal_errors else ""
    subspace = f"subspace of {in_ascii(count(d, 'dimension'))}{among}"
    sentences = [
        f"Certificate: {criterion}{values and f' ({values})'} is {solution.objective:.6g};"
    ]
    if math.isfinite(solution.lower_bound):
        sentences += [
            f"no {subspace} is below {solution.lower_bound:.6g} (gap {solution.gap:.1e}, {steps}).",
            f"Status: {solution.status}: {solution.message}.",
        ]
        if solution.status == "unresolved":
            resolved = (
                f"Double precision resolves {solution.resolution:.1e}, which is more than the "
                f"tolerance of {solution.tolerance:.1e}."
            )
            sentences.insert(-1, resolved)
    else:
        sentences += [
            f"no bound is known ({steps}). Status: {solution.status}:",
            f"a better {subspace} may exist, and by how much is not known.",
        ]
    if solution.violation > solution.tolerance:
        sentences.append(
            f"The groups' errors are meant to be equal, but differ by {solution.violation:.1e}."
        )
    if solution.theorem_3_2 is False:
        sentences.append(
            "The condition of Theorem 3.2 of Vu et al. (2022) does not hold: their equation (6) "
            "may fall short of the worst case. Here the worst case itself was minimised."
        )
    return _with_coloured_status(
        "\n".join(wrapped(" ".join(sentences), width_of(sys.stdout))), solution.status
    )


def _with_coloured_status(text: str, status: str) -> str:
    """The text with the word or words of the status, over whose parts a line may end, coloured."""
    paint = paint_on(sys.stdout)
    role: Role = "proven" if status == "optimal" else "unproven"
    words = r"\s+".join(status.split())
    return re.sub(
        rf"(?<=Status:)(\s+)({words})",
        lambda found: found[1] + re.sub(r"\S+", lambda word: paint(word[0], role), found[2]),
        text,
    )


def facts_by_dimension(result: "Audit") -> dict[str, Any]:
    """One record for each number of dimensions and group, with level and material loss."""
    return {
        "level": result.level,
        "material": result.material,
        "by_dimension": [{**record, "model": "PCA"} for record in result.records()],
    }


def table_by_dimension(result: "Audit") -> str:
    """One line for each number of dimensions and group."""
    names = [group_name(group.group) for group in result.models[0].groups]
    names = cut_names(names, _LONGEST_NAME) or names
    decimals = decimals_of(
        abs(group.expected.loss.value)
        for model in result.models
        for group in model.groups
        if group.expected is not None
    )
    headings = ("d", "group", "loss", f"{percent(result.level)} interval", "state")
    lines = [
        (str(model.n_components) if i == 0 else "", names[i], *_cells(group, decimals))
        for model in result.models
        for i, group in enumerate(model.groups)
    ]
    # The group and the state are words.
    return "\n".join(
        [*wrapped(_BY_DIMENSION, width_of(sys.stdout)), "", *aligned([headings, *lines], (1, 4))]
    )


def _cells(group: "GroupAudit", decimals: int | None) -> tuple[str, str, str]:
    if group.expected is None:
        return "-", "-", group.state
    loss = group.expected.loss
    ends = in_ascii(interval(loss.low, loss.high, decimals))
    return figure(loss.value, decimals), ends, group.state
