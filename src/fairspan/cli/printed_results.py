"""Formatting of results as text and JSON."""

import json
import math
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from fairspan.auditing.group_names import format_group, quote_group
from fairspan.auditing.intervals import none_if_nan
from fairspan.certificates.status import shown_status
from fairspan.cli.command_terminal import JSON_VERSION, painter_for
from fairspan.cli.finding_hints import in_command_terms
from fairspan.formatting.export import to_json_value
from fairspan.formatting.names import format_parameters, readable_name
from fairspan.formatting.numbers import format_count, format_level, to_ascii
from fairspan.formatting.table import (
    Cell,
    Column,
    Table,
    name_column,
    number_column,
    share_estimate_column,
)
from fairspan.formatting.terminal import TextRole, output_width, shorten_names, wrap_text
from fairspan.formatting.units import Unit, unit_phrase
from fairspan.problem.part_parameters import reported_parameters
from fairspan.rows.labels import printable

if TYPE_CHECKING:
    from fairspan.auditing.audit_result import Audit
    from fairspan.auditing.results import GroupResult
    from fairspan.certificates.certificate import Certificate

# Maximum width of a group name.
_MAX_NAME_WIDTH = 24
_BY_DIMENSION_CAPTION = (
    "Loss expected on new rows under PCA, {unit}, by number of dimensions d. States and intervals "
    "hold for all groups and all d at once."
)


def to_json(results: Mapping[str, object]) -> str:
    """Serialize results to ASCII JSON; unavailable values are null."""
    return json.dumps(
        {"version": JSON_VERSION, **to_json_value(results)}, indent=2, allow_nan=False
    )


def audit_text(result: "Audit", unit: Unit = "share") -> str:
    """Format an audit for standard output, with its width and colors."""
    return result.to_text(output_width(sys.stdout), painter_for(sys.stdout), unit)


def certificate_text(certificate: "Certificate") -> str:
    """Format a certificate for standard output, with its width and colors.

    The first sentence gives the objective, the lower bound on it for any subspace that satisfies
    the constraints, and the gap; the second gives the status.
    """
    width = output_width(sys.stdout)
    status_word = shown_status(certificate.status_text)
    # The status starts a line, so it is never broken across lines and can be colored.
    role: TextRole = "proven" if certificate.status == "optimal" else "unproven"
    colored_status = painter_for(sys.stdout)(status_word, role)
    first, *others = wrap_text(_status_sentences(certificate, status_word), width)
    first = first.replace(status_word, colored_status, 1)
    return "\n".join([*wrap_text(_bound_sentences(certificate), width), first, *others])


def _describe_criterion(certificate: "Certificate") -> str:
    """Return the criterion of a fit with its restriction and parameters."""
    text = readable_name(certificate.criterion.name)
    if certificate.steps:  # one per component of a nested fit
        text = f"nested {text}"
    if certificate.restriction_text is not None:
        text += f" with {printable(certificate.restriction_text)}"
    parameters = printable(
        format_parameters(reported_parameters(certificate.criterion, certificate.groups))
    )
    if parameters:
        text += f" ({parameters})"
    return text


def _bound_sentences(certificate: "Certificate") -> str:
    """Return sentences on the objective, its lower bound and the gap between both."""
    work = to_ascii(format_count(certificate.n_eigenproblems, "eigenproblem"))
    criterion = _describe_criterion(certificate)
    sentence = f"Certificate: {criterion} is {certificate.objective:.6g}; "
    if not math.isfinite(certificate.lower_bound):
        return f"{sentence}no bound is known ({work})."
    dimensions = to_ascii(format_count(certificate.n_components, "dimension"))
    sentence += (
        f"no subspace of {dimensions}{certificate.criterion.constraint_text} is below "
        f"{certificate.lower_bound:.6g} (gap {certificate.gap:.1e}, {work})."
    )
    if certificate.status == "unresolved":
        sentence += (
            f" The resolution of double precision, {certificate.resolution:.1e}, exceeds the "
            f"tolerance of {certificate.absolute_tol:.1e}."
        )
    return sentence


def _status_sentences(certificate: "Certificate", status_word: str) -> str:
    """Return sentences on the status of a fit, and on conditions that it does not satisfy."""
    text = f"Status: {status_word}: {in_command_terms(certificate.message)}."
    if certificate.constraint_violation > certificate.absolute_tol:
        excess = f"{certificate.constraint_violation:.1e} more than the criterion allows"
        text += f" The groups' errors differ by {excess}."
    if certificate.theorem_3_2_holds is False:
        text += (
            " The condition of Theorem 3.2 of Vu et al. (2022) does not hold, so their equation "
            "(6) may underestimate the worst case. The worst case itself was minimized here."
        )
    return text


def by_dimension_record(result: "Audit") -> dict[str, object]:
    """Return the audit by dimension as a dictionary, with one record per dimension and group."""
    return {
        "level": result.level,
        "materiality": result.materiality,
        "by_dimension": [{**record, "model": "PCA"} for record in result.to_records()],
    }


def by_dimension_text(result: "Audit", unit: Unit = "share") -> str:
    """Format the audit by dimension, one line per dimension and group.

    The models of the audit are PCA with increasing dimensions. Notes below the table say why states
    are inconclusive, and at how many dimensions.
    """
    names = [format_group(group.group) for group in result.models[0].groups]
    names = shorten_names(names, _MAX_NAME_WIDTH) or names  # in full if they would not differ
    groups = [group for model in result.models for group in model.groups]
    # Show d only in the first line of each dimension.
    dimensions = [Cell("")] * len(groups)
    for i, model in enumerate(result.models):
        dimensions[i * len(names)] = Cell(str(model.n_components))
    table = Table(
        _BY_DIMENSION_CAPTION.format(unit=unit_phrase(unit)),
        (
            Column("d", dimensions),
            name_column("group", names * len(result.models)),
            _loss_column(groups, result.level, result.materiality, unit),
            name_column("state", [group.state for group in groups]),
        ),
    )
    reason_counts = Counter(
        (group.group, group.state_reason) for model in result.models for group in model.groups
    )
    notes = [
        f"Inconclusive for {quote_group(label)} at {to_ascii(format_count(n, 'number'))} of "
        f"dimensions: {reason}."
        for (label, reason), n in reason_counts.items()
        if reason
    ]
    if not notes:
        return table_text(table)
    lines = [line for note in notes for line in wrap_text(note, output_width(sys.stdout))]
    return "\n".join([table_text(table), "", *lines])


def _loss_column(
    groups: "Sequence[GroupResult]", level: float, materiality: float, unit: Unit
) -> Column:
    """Return the column of expected losses of an audit by dimension."""
    detail_heading = f"{format_level(level)} interval"
    losses = [group.expected_loss for group in groups]
    if unit == "share":
        losses = [group.expected_loss_share for group in groups]
    values = [none_if_nan(loss.value) for loss in losses]
    intervals = [(loss.low, loss.high) for loss in losses]
    if unit == "share":
        return share_estimate_column(
            "loss", values, intervals, detail_heading=detail_heading, threshold=materiality
        )
    return number_column("loss", values, intervals=intervals, detail_heading=detail_heading)


def print_results(results: dict[str, object], text: str, *, as_json: bool) -> None:
    """Print results as JSON, or the text."""
    if as_json:
        text = to_json(results)
    click.echo(text)


def transform_text(facts: dict[str, Any]) -> str:
    """Summarize what transform wrote, from the dictionary that `transform_file` returns."""
    n_copied = len(facts["columns"]) - facts["n_components"]
    components = format_count(facts["n_components"], "component")
    text = f"{format_count(facts['n_rows'], 'row')} with {components}"
    if n_copied:
        text += f" and {format_count(n_copied, 'copied column')}"
    if facts["n_dropped"]:
        text += f" (dropped {format_count(facts['n_dropped'], 'row')} with missing features)"
    return f"Wrote {to_ascii(text)} to {facts['output']}"


def table_text(table: Table) -> str:
    """Format a table with the width of standard output."""
    return table.to_text(output_width(sys.stdout))
