"""FS401 to FS404: features that encode the group, are ordered, dominate or are rare.

The findings follow from means and variances, except FS402, which is about the order of rows. The
thresholds are justified in docs/findings.md.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from fairspan.auditing.findings.finding import Finding, Setting
from fairspan.auditing.findings.finding_catalog import make_finding
from fairspan.auditing.group_names import ascii_share, quote_group
from fairspan.auditing.models import AuditedModel
from fairspan.formatting.names import join_truncated
from fairspan.formatting.numbers import format_count, noun_form, verb_form
from fairspan.linalg.rounding import AGREEMENT_TOL
from fairspan.moments.compute import Moments
from fairspan.typing import FloatArray, IndexArray

# Share of a feature's variance within groups below which it encodes the group.
_MAX_WITHIN_GROUP_SHARE = 0.02
# Degrees of freedom below which variances within groups say little.
_MIN_DF = 10
# Share of the variance from which one feature is dominant: the first component is then nearly that
# feature, unless others correlate with it.
_DOMINANT_SHARE = 0.6
# Least ratio of the variance of a dominant feature to the mean of the others. Of two or three
# features, one often has 60 % of the variance without a difference in units.
_MIN_DOMINANT_RATIO = 4
# Share of the variance above which digits say no more than "nearly all".
_NEARLY_ALL = 0.999
# Share of the rows below which a value of an indicator is rare.
_RARE_SHARE = 0.01
# Share of a component's squared loadings that makes features its majority.
_MAJORITY_OF_COMPONENT = 0.5


@dataclass(frozen=True)
class FeatureNames:
    """Feature names for messages; x0, x1, ... if there are none."""

    names: tuple[str, ...] | None

    @classmethod
    def from_data(cls, models: Sequence[AuditedModel], moments: Moments) -> "FeatureNames":
        """Use the names of the rows' features, or else those of the models."""
        candidates = (moments.feature_names, *(model.subspace.feature_names for model in models))
        return cls(next(filter(None, candidates), None))

    def names_of(self, columns: Iterable[int]) -> tuple[str, ...]:
        """Return the names as in the data."""
        return tuple(f"x{i}" if self.names is None else self.names[i] for i in columns)

    def describe(self, columns: Sequence[int]) -> str:
        """Return "feature 'a'" or "features 'a', 'b'"."""
        names = self.names_of(columns)
        shown_names: Sequence[str] = names
        if self.names is not None:
            shown_names = [quote_group(name) for name in names]
        noun = noun_form(len(columns), "feature", "features")
        return f"{noun} {join_truncated(shown_names)}"


def feature_findings(
    models: Sequence[AuditedModel],
    moments: Moments,
    columns: FeatureNames,
    monotone_columns: Sequence[int],
) -> Iterator[Finding]:
    """Apply the rules about features.

    Parameters
    ----------
    models : sequence of AuditedModel
    moments : GroupMoments, SparseMoments or WideMoments
        Moments of the audited rows, unscaled.
    columns : FeatureNames
    monotone_columns : sequence of int
        Columns that are strictly monotone in row order.
    """
    yield from features_encoding_group(moments, columns)
    yield from monotone_features(monotone_columns, columns)
    yield from dominant_feature(models, moments, columns)
    yield from rare_indicator_components(models, moments, columns)


def features_encoding_group(moments: Moments, columns: FeatureNames) -> Iterator[Finding]:
    """FS401: features that are nearly constant within groups but differ between them.

    None for fewer than two groups, or too few rows to know the variances within groups.
    """
    n_rows = int(moments.counts.sum())
    df = n_rows - moments.n_groups
    if moments.n_groups < 2 or df < _MIN_DF:
        return
    total_variances = moments.standard_deviations**2
    # Compare mean squares as in an analysis of variance, with the degrees of freedom df within
    # groups and n - 1 in total; otherwise every column would seem constant within many small
    # groups.
    within_variances = (moments.proportions @ moments.variances) * ((n_rows - 1) / df)
    is_nearly_constant = within_variances < _MAX_WITHIN_GROUP_SHARE * total_variances
    encoding = np.flatnonzero((total_variances > 0) & is_nearly_constant).tolist()
    if encoding:
        verb = verb_form(len(encoding), "encodes", "encode")
        yield make_finding(
            "FS401",
            {"features": columns.describe(encoding), "encode": verb},
            columns=columns.names_of(encoding),
            settings=[Setting("exclude", "drop the column")],
        )


def monotone_features(monotone_columns: Sequence[int], columns: FeatureNames) -> Iterator[Finding]:
    """FS402: strictly monotone features."""
    if monotone_columns:
        yield make_finding(
            "FS402",
            {"features": columns.describe(monotone_columns)},
            columns=columns.names_of(monotone_columns),
            settings=[Setting("exclude", "drop the column")],
        )


def dominant_feature(
    models: Sequence[AuditedModel], moments: Moments, columns: FeatureNames
) -> Iterator[Finding]:
    """FS403: one feature dominates the variance of an unscaled model.

    One finding for all models. Which feature it is depends on the center of a model.
    """
    if moments.n_features < 2:
        return
    share_by_column: dict[int, float] = {}
    affected_models = []
    for model in models:
        if model.subspace.is_scaled:
            continue
        second_moments = _pooled_second_moments(
            moments, model.subspace.reference_frame(moments).center
        )
        if not second_moments.any():
            continue
        largest = int(np.argmax(second_moments))
        share = second_moments[largest] / second_moments.sum()
        if share >= _min_dominant_share(moments.n_features):
            affected_models.append(model.name)
            share_by_column[largest] = max(share, share_by_column.get(largest, 0.0))
    if share_by_column:
        description = "; ".join(
            f"{columns.describe([column])} accounts for {_format_dominant_share(share)} of the "
            "variance"
            for column, share in sorted(share_by_column.items())
        )
        verb = verb_form(len(affected_models), "does", "do")
        yield make_finding(
            "FS403",
            {"shares": description, "models": join_truncated(affected_models), "do": verb},
            columns=columns.names_of(sorted(share_by_column)),
            settings=[Setting("scale", "scale=True", True)],
        )


def _min_dominant_share(n_features: int) -> float:
    """Share of the variance from which one of p features is dominant.

    Examples
    --------
    >>> _min_dominant_share(2), _min_dominant_share(10)
    (0.8, 0.6)
    """
    share_at_ratio = _MIN_DOMINANT_RATIO / (_MIN_DOMINANT_RATIO + n_features - 1)
    return max(_DOMINANT_SHARE, share_at_ratio)


def _format_dominant_share(share: float) -> str:
    if share > _NEARLY_ALL:
        return "more than 99.9 %"
    return ascii_share(share)


def rare_indicator_components(
    models: Sequence[AuditedModel], moments: Moments, columns: FeatureNames
) -> Iterator[Finding]:
    """FS404: components dominated by rare indicators, which standardization inflates.

    An indicator is a 0/1 column. A component is dominated by them if they have more than half of
    its squared loadings. One finding for all models that scale.
    """
    indicators = _rare_indicators(moments)
    if not len(indicators):
        return
    dominant: set[int] = set()
    descriptions = []
    for model in models:
        if not model.subspace.is_scaled or model.row_model is not None:
            continue
        loadings = model.subspace.components**2
        loadings = loadings / loadings.sum(axis=1, keepdims=True)
        indicator_shares = loadings[:, indicators].sum(axis=1)
        affected_components = np.flatnonzero(indicator_shares > _MAJORITY_OF_COMPONENT)
        for component in affected_components:
            dominant |= _dominant_indicators(loadings[component], indicators)
        if len(affected_components):
            n_components = format_count(len(loadings), "component")
            descriptions.append(f"{len(affected_components)} of {n_components} of {model.name}")
    if dominant:
        yield make_finding(
            "FS404",
            {
                "components": join_truncated(descriptions),
                "features": columns.describe(sorted(dominant)),
            },
            columns=columns.names_of(sorted(dominant)),
            settings=[Setting("exclude", "drop the columns")],
        )


def _pooled_second_moments(moments: Moments, point: FloatArray) -> FloatArray:
    """Pooled second moment of each column about a point, or about (k, p) points by group, (p,)."""
    second_moments = moments.variances + (moments.means - point) ** 2
    return np.asarray(moments.proportions @ second_moments)


def _rare_indicators(moments: Moments) -> IndexArray:
    """Return the indices of 0/1 columns with a rare value.

    For integers x, x^2 >= x with equality only for 0 and 1, so among integer columns exactly the
    0/1 columns have a second moment equal to the mean. Fractions may match by coincidence.
    """
    # The mean of a 0/1 column.
    share_of_ones = moments.mean
    origin = np.zeros(moments.n_features)
    second_moments = _pooled_second_moments(moments, origin)
    # Mean and second moment of a column of zeros and ones are equal.
    is_indicator = np.abs(second_moments - share_of_ones) <= AGREEMENT_TOL * second_moments
    is_rare = np.minimum(share_of_ones, 1 - share_of_ones) < _RARE_SHARE
    return np.flatnonzero(is_indicator & is_rare & (moments.standard_deviations > 0))


def _dominant_indicators(loadings: FloatArray, indicators: IndexArray) -> set[int]:
    """Smallest set of indicators that accounts for the majority of a component.

    Parameters
    ----------
    loadings : (p,) array
        Squared loadings of the component, with sum one; those of the indicators exceed one half.
    indicators : array of int
        Columns of the indicators.
    """
    by_size = indicators[np.argsort(-loadings[indicators], kind="stable")]
    is_majority = np.cumsum(loadings[by_size]) > _MAJORITY_OF_COMPONENT
    n_needed = int(np.argmax(is_majority)) + 1
    return set(by_size[:n_needed].tolist())
