"""What stands in each section of the audit page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fairspan.formatting.names import settings, spoken
from fairspan.formatting.numbers import count, whole
from fairspan.report.page import figures, sentences, tables
from fairspan.report.page.lookups import Facts, findings_about_the_answer, main_of
from fairspan.report.page.slider import slider_of
from fairspan.report.page.table import Table

_CENTERS = {
    "global": "about the mean of all rows",
    "group": "about each group's own mean",
    "none": "about the origin",
}


def content_of(facts: Facts) -> dict[str, Any]:
    """Leads, tables, figures and the walk, by the names that the template uses."""
    about_answer, about_others = findings_about_the_answer(facts)
    along_frontier = facts["steps"]["walk"] == "frontier"
    by_dimension = figures.of_dimensions(facts, with_marks=not along_frontier)
    walked = figures.of_frontier(facts) if along_frontier else by_dimension
    walk = slider_of(facts, walked.places)
    return {
        "facts": facts,
        "byline": _byline(facts),
        "leads": {
            name: getattr(sentences, name)(facts)
            for name in (
                "summary",
                "data",
                "plain",
                "criteria",
                "walk",
                "findings",
                "proof",
                "made",
            )
        },
        "answers": sentences.answers(facts),
        "tables": _tables(facts, [step["label"] for step in walk["data"]["steps"]]),
        "plain_figure": figures.of_plain(facts),
        "losses_figure": None if main_of(facts)["is_plain_pca"] else figures.of_losses(facts),
        "walk_figure": walked,
        "dimension_figure": by_dimension if along_frontier else None,
        "walk": walk,
        "findings": _by_code(about_answer),
        "other_findings": _by_code(about_others),
        "disparity": sentences.disparity(facts),
        "main": spoken(main_of(facts)["name"]),
        "measured": _measured(facts),
        "made": _made(facts),
    }


def _tables(facts: Facts, steps: Sequence[str]) -> dict[str, Table]:
    return {
        "groups": tables.of_groups(facts),
        "plain": tables.of_plain(facts),
        "criteria": tables.of_criteria(facts),
        "losses": tables.of_groups_by_model(facts, "excess_loss", "Excess loss of each group"),
        "errors": tables.of_groups_by_model(facts, "error", "Error of each group"),
        "certificates": tables.of_certificates(facts),
        "steps": tables.of_steps(facts, steps),
    }


def _by_code(findings: Sequence[Facts]) -> list[tuple[str, str, list[str], str]]:
    """Code, severity, messages and what to do: warnings first, one entry for each code."""
    by_code: dict[tuple[str, str], list[Facts]] = {}
    for each in findings:
        by_code.setdefault((each["severity"], each["code"]), []).append(each)
    return [
        (code, severity, [each["message"] for each in found], found[0]["remedy"])
        for (severity, code), found in sorted(
            by_code.items(), key=lambda item: (item[0][0] != "warning", item[0][1])
        )
    ]


def _byline(facts: Facts) -> str:
    about, d = facts["data"], facts["settings"]["n_components"]
    counts = (
        count(about["n_rows"], "row"),
        count(about["n_features"], "feature"),
        count(len(about["groups"]), "group"),
    )
    return f"{about['name']}: {', '.join(counts)}, reduced to {count(d, 'dimension')}"


def _measured(facts: Facts) -> str:
    """What figures are measured in."""
    chosen = facts["settings"]
    units = "standardized features" if chosen["standardize"] else "the features as they came"
    return f"mean squared distance {_CENTERS[chosen['center']]}, in squared units of {units}"


def _made(facts: Facts) -> list[tuple[str, str]]:
    """Terms and what they are."""
    made, chosen, about = facts["made"], facts["settings"], facts["data"]
    told = [
        (name, made[name]) for name in made if name not in ("input_sha256", "parameters", "command")
    ]
    how = settings({"n_components": chosen["n_components"]}) + f" ({chosen['chosen_by']})"
    more = {key: chosen[key] for key in ("center", "standardize", "criterion")}
    more |= chosen["parameters"]
    rows = [
        ("Input", about["name"]),
        ("SHA-256 of the input", made["input_sha256"] or "not taken"),
        ("Settings", f"{how}, {settings(more)}"),
        ("Versions", ", ".join(f"{name} {number}" for name, number in told)),
    ]
    if about["n_dropped"]:
        rows.insert(1, ("Rows left out", f"{whole(about['n_dropped'])}, with a value missing"))
    if about["sampled_from"] is not None:
        rows.insert(1, ("Sample", f"of {whole(about['sampled_from'])} rows"))
    return rows
