"""The demonstration: real data, end to end, on one screen."""

import sys
from dataclasses import replace
from pathlib import Path

from fairspan.auditing.audit import Audit, audit
from fairspan.auditing.models import plain_pca
from fairspan.auditing.results import ModelAudit
from fairspan.auditing.views import audit_table
from fairspan.cli.output import certificate_in_words
from fairspan.cli.terminal import paint_on, width_of
from fairspan.datasets import Dataset, diabetes_by_sex
from fairspan.errors import MissingDependency
from fairspan.estimator.fitting import Fit, fit_subspace
from fairspan.formatting.numbers import figure, in_ascii, relative
from fairspan.formatting.terminal_text import wrapped
from fairspan.moments.group_moments import GroupMoments
from fairspan.moments.of_rows import accumulate
from fairspan.report.facts.answers import ReportSettings
from fairspan.report.facts.assembly import facts_of
from fairspan.report.facts.origin import Origin, title_of
from fairspan.report.writing import check_can_write, write_page
from fairspan.rows.fingerprint import fingerprint_of
from fairspan.rows.groups import spelled
from fairspan.rows.registry import rows_of

_N_COMPONENTS = 5
_BAR = 40
# How a reader of the page gets the same moments.
_MAKING_MOMENTS = """\
from fairspan.datasets import diabetes_by_sex
data = diabetes_by_sex()
moments = GroupMoments.from_rows(data.X, data.sensitive_features)"""


def demo_facts() -> tuple[Fit, Audit, Dataset]:
    """Fit and audit the data."""
    data = diabetes_by_sex()
    moments = GroupMoments.from_rows(data.X, data.sensitive_features)
    fair = fit_subspace(moments, _N_COMPONENTS, scale=True)
    plain = plain_pca(moments, _N_COMPONENTS, "global", scale=True)
    result = audit({"PCA": plain, "fair": fair.subspace}, data.X, data.sensitive_features)
    return fair, result, data


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
    worse = max(plain.groups, key=lambda group: group.excess_loss)
    better = min(plain.groups, key=lambda group: group.excess_loss)
    cost = fair.total_error / plain.total_error - 1
    d, width = plain.n_components, width_of(sys.stdout)
    about = (
        f"Data: {data.name}, {result.rows.n} patients ({sizes}), {result.rows.n_features} "
        f"measurements, standardised. {data.source}. PCA and fair PCA each keep {d} dimensions."
    )
    heading = f"Excess loss: error above what {d} dimensions could do for that group alone"
    conclusion = (
        f"PCA costs {spelled(worse.group)} {worse.excess_loss / better.excess_loss:.1f} times "
        f"what it costs {spelled(better.group)}. Fair PCA makes the larger loss as small as it can "
        f"be, {figure(fair.largest_loss)}, for {in_ascii(relative(cost))} more error over all "
        "rows. The errors themselves do not differ by more than chance (the interval of the "
        "disparity contains zero): the groups differ in what PCA could have done for them."
    )
    parts = [
        _filled("Does PCA lose one of my groups, and what does it cost to repair that?", width),
        _filled(about, width),
        audit_table(result.models, result.rows, width, paint_on(sys.stdout)),
        f"{_filled(heading, width)}\n{_bars(plain, fair, room=width)}",
        f"{_filled(conclusion, width)}\n{certificate_in_words(fit)}",
        # In one line, as it is copied.
        "Now yours: fairspan audit DATA.csv --group COLUMN --standardize",
    ]
    return "\n\n".join(parts)


def _filled(text: str, width: int) -> str:
    return "\n".join(wrapped(text, width))


def _bars(*models: ModelAudit, room: int) -> str:
    # Beside a bar stand the model, the group and the figure.
    length = min(_BAR, room - 23)
    longest = max(model.largest_loss for model in models)
    mark = "█" if (sys.stdout.encoding or "").lower().startswith("utf") else "#"
    lines = []
    for model in models:
        name = model.name
        for group in model.groups:
            bar = mark * round(length * group.excess_loss / longest)
            lines.append(f"{name:6}{spelled(group.group):8}{bar} {figure(group.excess_loss)}")
            name = ""
    return "\n".join(lines)
