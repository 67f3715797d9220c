"""An audit as Markdown, for a model card or an issue."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from fairspan.formatting.markdown import code_span, escape_markdown, table_to_markdown
from fairspan.formatting.messages import counted
from fairspan.formatting.numbers import format_level, format_share, to_ascii
from fairspan.version import __version__

if TYPE_CHECKING:
    from fairspan.auditing.findings.finding import Finding
    from fairspan.auditing.results import ModelResult
    from fairspan.auditing.verdict import Verdict
    from fairspan.formatting.table import Table


def verdict_paragraphs(titled_verdicts: "Sequence[tuple[str, Verdict]]") -> list[str]:
    """Return a paragraph for each verdict, its kind in bold; `titled_verdicts` have titles."""
    paragraphs = []
    for title, verdict in titled_verdicts:
        kind, _, evidence = str(verdict).partition(". ")
        heading = escape_markdown(f"{title}: {kind}.")
        paragraphs.append(f"**{heading}** {escape_markdown(evidence)}")
    return paragraphs


def findings_section(findings: "Sequence[Finding]") -> str:
    """Return the findings as a list under a heading; codes of warnings are bold."""
    if not findings:
        return ""
    lines = ["### Findings", ""]
    for finding in findings:
        code = f"**{finding.code}**" if finding.severity == "warning" else finding.code
        lines.append(f"- {code} {escape_markdown(finding.message)}")
    return "\n".join(lines)


def tables_section(tables: "Sequence[Table]") -> str:
    """Return the tables under a heading."""
    return "\n\n".join(["### Results by group", *map(table_to_markdown, tables)])


def provenance_section(
    models: "Sequence[ModelResult]",
    rows_text: str,
    level: float,
    materiality: float,
    origin: Mapping[str, str],
) -> str:
    """Return what was audited, and how, as a list under a heading.

    Parameters
    ----------
    models : sequence of ModelResult
    rows_text : str
        Description of the audited rows.
    level, materiality : float
        Confidence level of the intervals; materiality threshold.
    origin : mapping of str to str
        Further entries: their names, and values that are shown as code.
    """
    entries = [f"- Rows: {escape_markdown(rows_text)}"]
    entries += [f"- Model {escape_markdown(_describe_model(model))}" for model in models]
    entries.append(
        f"- Intervals: {to_ascii(format_level(level))}; materiality: "
        f"{to_ascii(format_share(materiality))} of a group's variance"
    )
    entries += [f"- {escape_markdown(name)}: {code_span(text)}" for name, text in origin.items()]
    entries.append(f"- fairspan {__version__}")
    return "\n".join(["### Provenance", "", *entries])


def _describe_model(model: "ModelResult") -> str:
    """Describe the settings of a model, its certificate, and its relation to the rows."""
    scaling = "standardized features" if model.is_scaled else "unscaled features"
    relation = "fitted to these rows" if model.in_sample else "fitted to other rows"
    parts = [counted(model.n_components, "component"), f"center {model.center}", scaling, relation]
    if model.status_text is not None:
        certificate = f"certificate {model.status_text}"
        if model.gap is not None:
            # Rounding may make an objective smaller than its lower bound.
            certificate += f" (gap {max(model.gap, 0.0):.1e})"
        parts.append(certificate)
    return f"{model.name}: {', '.join(parts)}"


def join_sections(sections: Sequence[str]) -> str:
    """Join the sections that are not empty, with a line break at the end."""
    return "\n\n".join(section for section in sections if section) + "\n"
