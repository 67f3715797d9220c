"""How results are written: JSON, the certificate in words, losses by number of dimensions."""

import json
import math
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any

from fairspan.auditing.results import group_name, quoted
from fairspan.cli.terminal import JSON_VERSION, paint_on
from fairspan.formatting.results import plain
from fairspan.formatting.table import Cell, Column, Table, estimates_column, names_column
from fairspan.formatting.text import (
    Role,
    count,
    cut_names,
    in_ascii,
    percent,
    settings,
    spoken,
    width_of,
    wrapped,
)
from fairspan.problem.problem import used_parameters
from fairspan.rows.groups import printable

if TYPE_CHECKING:
    from fairspan.auditing.audit import Audit
    from fairspan.certificates.certificate import Certificate

# Letters of a group's name.
_LONGEST_NAME = 24
_BY_DIMENSION = (
    "Loss expected on new rows under PCA, by number of dimensions d. States and intervals hold for "
    "all groups at once, at one d."
)


def in_json(facts: dict[str, Any]) -> str:
    """Facts as JSON, in ASCII for any terminal; figures that do not exist are null."""
    return json.dumps({"version": JSON_VERSION, **plain(facts)}, indent=2, allow_nan=False)


def audit_in_words(result: "Audit") -> str:
    """An audit as standard output shows it: as wide as that is, and in its colours."""
    return result.in_words(width_of(sys.stdout), paint_on(sys.stdout))


def certificate_in_words(solution: "Certificate") -> str:
    """The certificate as a paragraph as wide as standard output, and in its colours."""
    values = printable(settings(used_parameters(solution.criterion, solution.groups)))
    criterion = "nested " * bool(solution.steps) + spoken(solution.criterion.name)
    if solution.restricted_by is not None:
        criterion += f" with {printable(solution.restricted_by)}"
    steps = in_ascii(count(solution.n_eigenproblems, "eigenproblem"))
    said = f"Certificate: {criterion}{values and f' ({values})'} is {solution.objective:.6g}; "
    status = f"Status: {solution.called}: {solution.message}."
    if math.isfinite(solution.lower_bound):
        subspace = f"subspace of {in_ascii(count(solution.n_components, 'dimension'))}"
        said += f"no {subspace}{solution.criterion.condition} is below {solution.lower_bound:.6g} "
        said += f"(gap {solution.gap:.1e}, {steps})."
        if solution.status == "unresolved":
            said += (
                f" Double precision resolves {solution.resolution:.1e}, which is more than the "
                f"tolerance of {solution.tolerance:.1e}."
            )
    else:
        said += f"no bound is known ({steps})."
    if solution.violation > solution.tolerance:
        more = f"{solution.violation:.1e} more than the criterion allows"
        status += f" The groups' errors differ by {more}."
    if solution.theorem_3_2 is False:
        status += (
            " The condition of Theorem 3.2 of Vu et al. (2022) does not hold: their equation (6) "
            "may fall short of the worst case. Here the worst case itself was minimised."
        )
    # The status begins a line, so no line ends within it.
    role: Role = "proven" if solution.status == "optimal" else "unproven"
    coloured = paint_on(sys.stdout)(solution.called, role)
    first, *others = wrapped(status, width_of(sys.stdout))
    first = first.replace(solution.called, coloured, 1)
    return "\n".join([*wrapped(said, width_of(sys.stdout)), first, *others])


def facts_by_dimension(result: "Audit") -> dict[str, Any]:
    """One record for each number of dimensions and group, with level and material loss."""
    return {
        "level": result.level,
        "material": result.material,
        "by_dimension": [{**record, "model": "PCA"} for record in result.records()],
    }


def words_by_dimension(result: "Audit") -> str:
    """One line for each number of dimensions and group."""
    names = [group_name(group.group) for group in result.models[0].groups]
    names = cut_names(names, _LONGEST_NAME) or names
    records = result.records()
    # Of each number of dimensions the first line says which it is.
    dimensions = [
        Cell("" if i % len(names) else str(each["n_components"])) for i, each in enumerate(records)
    ]
    table = Table(
        _BY_DIMENSION,
        (
            Column("d", dimensions),
            names_column("group", names * len(result.models)),
            estimates_column(
                "loss", records, "expected_loss", below=f"{percent(result.level)} interval"
            ),
            names_column("state", [each["state"] for each in records]),
        ),
    )
    reasons = Counter(
        (group.group, group.why_unknown) for model in result.models for group in model.groups
    )
    told = [
        f"Cannot tell of {quoted(label)} at {in_ascii(count(n, 'number'))} of dimensions: {why}."
        for (label, why), n in reasons.items()
        if why
    ]
    lines = [line for each in told for line in wrapped(each, width_of(sys.stdout))]
    return "\n".join([as_text(table), *[""][: len(told)], *lines])


def transformed_in_words(facts: dict[str, Any]) -> str:
    """How many rows were written, of what, how many were left out, and where they are."""
    n_kept = len(facts["columns"]) - facts["n_components"]
    words = f"{count(facts['n_rows'], 'row')} of {count(facts['n_components'], 'component')}"
    words += f" beside {count(n_kept, 'column')}" * bool(n_kept)
    left_out = f" (without {count(facts['n_dropped'], 'row')} in which a feature is missing)"
    words += left_out * bool(facts["n_dropped"])
    return f"Wrote {in_ascii(words)} to {facts['output']}"


def as_text(table: Table) -> str:
    """A table as wide as standard output."""
    return table.to_text(width_of(sys.stdout))
