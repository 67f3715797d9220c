"""The demonstration: real data, end to end, on one screen."""

import sys

from fairspan.auditing.audit import Audit, audit
from fairspan.auditing.models import plain_pca
from fairspan.auditing.results import ModelAudit
from fairspan.cli.output import certificate_in_words
from fairspan.datasets import Dataset, diabetes_by_sex
from fairspan.fitting import Fit, fit_subspace
from fairspan.moments.group_moments import GroupMoments
from fairspan.moments.groups import spelled

_N_COMPONENTS = 5
_BAR = 40


def demo_facts() -> tuple[Fit, Audit, Dataset]:
    """Fit and audit the data."""
    data = diabetes_by_sex()
    moments = GroupMoments.from_rows(data.X, data.sensitive_features)
    fair = fit_subspace(moments, _N_COMPONENTS, scale=True)
    plain = plain_pca(moments, _N_COMPONENTS, "global", scale=True)
    result = audit({"PCA": plain, "fair": fair.subspace}, data.X, data.sensitive_features)
    return fair, result, data


def demo_screen(fit: Fit, result: Audit, data: Dataset) -> str:
    """What the reader sees."""
    plain, fair = result.models
    sizes = ", ".join(f"{spelled(group.group)}: {group.n}" for group in plain.groups)
    worse = max(plain.groups, key=lambda group: group.excess_loss)
    better = min(plain.groups, key=lambda group: group.excess_loss)
    cost = fair.total_error / plain.total_error - 1
    return f"""\
Does PCA lose one of my groups, and what does it cost to repair that?

Data: {data.name}, {result.rows.n} patients ({sizes}), {result.rows.n_features} measurements,
standardised. {data.source}.
PCA and fair PCA each keep {plain.n_components} dimensions.

{result.table()}

Excess loss: error above what {plain.n_components} dimensions could do for that group alone
{_bars(plain, fair)}

PCA costs {spelled(worse.group)} {worse.excess_loss / better.excess_loss:.1f} times \
what it costs {spelled(better.group)}. Fair PCA makes the larger loss as
small as it can be, {fair.largest_loss:.4f}, for {cost:.2%} more error over all rows.
{_caution(plain)}
{certificate_in_words(fit)}

Now yours: fairspan audit DATA.csv --group COLUMN --standardize"""


def _bars(*models: ModelAudit) -> str:
    longest = max(model.largest_loss for model in models)
    mark = "█" if (sys.stdout.encoding or "").lower().startswith("utf") else "#"
    lines = []
    for model in models:
        name = model.name
        for group in model.groups:
            bar = mark * round(_BAR * group.excess_loss / longest)
            lines.append(f"{name:6}{spelled(group.group):8}{bar} {group.excess_loss:.4f}")
            name = ""
    return "\n".join(lines)


def _caution(plain: ModelAudit) -> str:
    if plain.disparity.contains_zero:
        return (
            "The errors themselves do not differ by more than chance (the interval of the\n"
            "disparity contains zero): the groups differ in what PCA could have done for them."
        )
    return "The errors differ by more than chance: the interval of the disparity excludes zero."
