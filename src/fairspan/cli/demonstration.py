"""The demonstration: real data, end to end, on one screen."""

import sys
from dataclasses import replace
from pathlib import Path

from fairspan.auditing.audit import audit
from fairspan.auditing.audit_result import Audit
from fairspan.cli.output import certificate_in_words
from fairspan.cli.terminal import paint_on
from fairspan.datasets import Dataset, tumours_by_diagnosis
from fairspan.errors import MissingDependency
from fairspan.estimator.fair_pca import FairPCA
from fairspan.estimator.fit import Fit, fit_subspace
from fairspan.formatting.numbers import figure, in_ascii, relative
from fairspan.formatting.terminal_text import width_of, wrapped
from fairspan.moments.group_moments import GroupMoments
from fairspan.moments.of_rows import accumulate
from fairspan.report.facts.answers import ReportSettings
from fairspan.report.facts.assembly import facts_of
from fairspan.report.facts.origin import Origin, title_of
from fairspan.report.writing import check_can_write, write_page
from fairspan.rows.groups import spelled
from fairspan.rows.registry import fingerprint_of, rows_of

_N_COMPONENTS = 3
# How a reader of the page gets the same moments.
_MAKING_MOMENTS = """\
from fairspan.datasets import tumours_by_diagnosis
data = tumours_by_diagnosis()
moments = GroupMoments.from_rows(data.X, data.sensitive_features)"""


def demo_facts() -> tuple[Fit, Audit, Dataset]:
    """Fit and audit the data."""
    data = tumours_by_diagnosis()
    moments = GroupMoments.from_rows(data.X, data.sensitive_features)
    # Estimators carry the moments that tell an audit which PCA a fair fit is compared with.
    plain, fair = (
        FairPCA(_N_COMPONENTS, criterion=criterion, scale=True).fit_moments(moments)
        for criterion in ("total_error", "minimax_loss")
    )
    result = audit({"PCA": plain, "fair": fair}, data.X, data.sensitive_features)
    return fit_subspace(moments, _N_COMPONENTS, scale=True), result, data


def missing_for_page(page: Path) -> str | None:
    """How to get the page, where a package that makes it is not installed."""
    try:
        check_can_write(page)
    except MissingDependency:
        return 'For the whole audit as a page: pip install "fairspan[report]", run this again'
    return None


def write_demo_page(page: Path, data: Dataset) -> None:
    """Write the audit page of the same rows."""
    rows = rows_of(data.X, data.sensitive_features)
    moments = replace(accumulate(rows), feature_names=data.feature_names)
    asked = ReportSettings.of("minimax_loss", None, _N_COMPONENTS, "global", True)
    origin = Origin(
        data.name, title_of(data.name), fingerprint_of(rows), "fairspan demo", _MAKING_MOMENTS
    )
    write_page(page, facts_of(moments, rows, asked, origin))


def demo_screen(fit: Fit, result: Audit, data: Dataset) -> str:
    """What the reader sees, as wide as the terminal."""
    plain, fair = result.models
    sizes = ", ".join(f"{spelled(group.group)}: {group.n}" for group in plain.groups)
    cost = fair.total_error / plain.total_error - 1
    d, width = plain.n_components, width_of(sys.stdout)
    about = (
        f"Data: {data.name}, {result.rows.n} patients ({sizes}), {result.rows.n_features} "
        f"measurements, standardised. {data.source}. PCA and fair PCA each keep {d} dimensions."
    )
    conclusion = (
        "A group is called 'harmed' only where its loss is above zero beyond chance. On these rows "
        "fair PCA minimises the larger loss: "
        f"{figure(plain.largest_loss)} becomes {figure(fair.largest_loss)}, for "
        f"{in_ascii(relative(cost))} more error over all rows."
    )
    parts = [
        _filled("Does PCA harm one of my groups, and does repair help?", width),
        _filled(about, width),
        _filled(f"Verdict: {result.verdict}", width),
        result.table(width, paint_on(sys.stdout)),
        f"{_filled(conclusion, width)}\n{certificate_in_words(fit)}",
        # In one line, as it is copied.
        "Try it on your data: fairspan audit DATA.csv --group COLUMN --standardize",
    ]
    return "\n\n".join(parts)


def _filled(text: str, width: int) -> str:
    return "\n".join(wrapped(text, width))
