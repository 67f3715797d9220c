"""The audited rows: their number, and missing values by group and feature."""

from dataclasses import dataclass

from fairspan.auditing.group_names import quote_group
from fairspan.formatting.messages import counted
from fairspan.formatting.names import join_truncated
from fairspan.formatting.numbers import format_count, to_ascii
from fairspan.moments.base_moments import describe_dropped_rows
from fairspan.rows.labels import Label


@dataclass(frozen=True)
class MissingFeature:
    """A feature with missing or mean-imputed values.

    Attributes
    ----------
    name : str
    is_mean_imputed : bool
        Whether the values equal the column mean, as after mean imputation, rather than being
        missing.
    shares : tuple of k floats
        Share of each group's rows that is affected.
    n_sole_cause : int
        Number of rows dropped because of this feature only.
    """

    name: str
    is_mean_imputed: bool
    shares: tuple[float, ...]
    n_sole_cause: int = 0


@dataclass(frozen=True)
class MissingValues:
    """Missing values by group and feature.

    Attributes
    ----------
    groups : tuple of k labels
        Groups among all rows, including dropped ones.
    n_rows, n_dropped : tuples of k ints
        Number of rows of each group, and of dropped rows.
    n_without_group : int
        Number of rows dropped because the group is missing.
    features : tuple of MissingFeature
        Affected features, by decreasing largest share in a group.
    """

    groups: tuple[Label, ...]
    n_rows: tuple[int, ...]
    n_dropped: tuple[int, ...]
    n_without_group: int
    features: tuple[MissingFeature, ...]

    @property
    def dropped_shares(self) -> tuple[float, ...]:
        """Share of dropped rows in each group."""
        return tuple(lost / n for lost, n in zip(self.n_dropped, self.n_rows, strict=True))

    @property
    def costliest_text(self) -> str:
        """Describe the features that are the only cause of most dropped rows."""
        by_cost = sorted(self.features, key=lambda feature: -feature.n_sole_cause)[:3]
        costs = [
            f"{quote_group(feature.name)} ({to_ascii(format_count(feature.n_sole_cause, 'row'))})"
            for feature in by_cost
            if feature.n_sole_cause
        ]
        if not costs:
            return ""
        return f"Dropped because of a single feature: {join_truncated(costs)}."


@dataclass(frozen=True)
class AuditedRows:
    """The audited rows.

    Attributes
    ----------
    n_rows : int
        Number of audited rows, without dropped ones.
    n_features : int
    has_intervals : bool
        Whether errors have intervals; not if a single set of moments was audited.
    n_dropped : int
        Number of rows dropped because a feature or the group is missing.
    missing : MissingValues or None
        Missing values by group and feature; None if there are none.
    has_clusters : bool
        Whether clusters were given.
    group_columns : tuple of str
        Names of the columns that define the groups; empty if they have no names.
    """

    n_rows: int
    n_features: int
    has_intervals: bool
    n_dropped: int = 0
    missing: MissingValues | None = None
    has_clusters: bool = False
    group_columns: tuple[str, ...] = ()

    @property
    def dropped_text(self) -> str:
        """Sentence about dropped rows; empty if there are none."""
        return describe_dropped_rows(self.n_dropped, f"{counted(self.n_rows, 'row')}: {{}}")
