"""The figures of an audit, one object for each group of each model, and how groups are named."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fairspan.auditing.expected_losses import ExpectedFigures, State
from fairspan.auditing.intervals import Estimate
from fairspan.formatting.names import first_of
from fairspan.moments.group_statistics import Intake
from fairspan.rows.groups import Label, printable, spelled

# Of float64's sixteen digits the last four are left to rounding.
ROUNDING = 1e-12


@dataclass(frozen=True)
class GroupAudit:
    """What one model does to one group, in squared (scaled) units of the features.

    Attributes
    ----------
    group : label
    n : int
        Rows.
    proportion : float
        Share of the total weight.
    total_variance : float
        tr S_g about the model's centre.
    error : Estimate
        e_g with its interval.
    best_error : float
        e*_g, the least error any subspace of the same dimension has on this group.
    excess_loss : float
        e_g - e*_g.
    variance_kept : float or None
        1 - e_g / tr S_g; None for a group without variance.
    expected : ExpectedFigures or None
        What new rows would show; None where too little is known.
    kurtosis : float
        Fourth moment of the rows' errors over their squared variance; 0 if it is not known.
    """

    group: Label
    n: int
    proportion: float
    total_variance: float
    error: Estimate
    best_error: float
    excess_loss: float
    variance_kept: float | None
    expected: ExpectedFigures | None = None
    kurtosis: float = 0.0

    @property
    def state(self) -> State:
        """What may be said of the group's loss on new rows."""
        return "cannot tell" if self.expected is None else self.expected.state

    @property
    def expected_columns(self) -> dict[str, Any]:
        """What new rows would show, by the names of the columns of a table; None where unknown."""
        found = self.expected
        return {
            "expected_error": None if found is None else found.error.value,
            "expected_error_low": None if found is None else found.error.low,
            "expected_error_high": None if found is None else found.error.high,
            "expected_loss": None if found is None else found.loss.value,
            "expected_loss_low": None if found is None else found.loss.low,
            "expected_loss_high": None if found is None else found.loss.high,
            "cross_fitted_loss": None if found is None else found.cross_fitted_loss,
            "state": self.state,
        }


@dataclass(frozen=True)
class ModelAudit:
    """What one model does to every group.

    Attributes
    ----------
    name : str
    n_components : int
    center : {"global", "group", "none"}
    scaled : bool
        Whether figures are in scaled units.
    status : str or None
        Status of the model's certificate; None for models that carry none.
    gap : float or None
        Gap of the certificate, in the units of its objective.
    is_plain_pca : bool
    fitted_here : bool
        Whether the model was fitted on the audited rows.
    baseline : str or None
        Name of the ordinary PCA of the same rows, dimension, centre and scale beside it.
    known_groups : tuple of labels
        Groups it was fitted on; empty if it knows of none.
    groups : tuple of GroupAudit
    disparity : Estimate
        Two groups: error of the second minus error of the first; more: the largest pairwise gap.
    pair : tuple of two labels
        The disparity is the error of the second of these minus that of the first.
    reason : str or None
        Where the status is "unresolved", what in the data leaves it so.
    why_no_estimates : str or None
        Why nothing is said of new rows, where that is so.
    is_nested : bool
        Whether its first components are an answer of fewer dimensions.
    """

    name: str
    n_components: int
    center: str
    scaled: bool
    status: str | None
    gap: float | None
    is_plain_pca: bool
    fitted_here: bool
    baseline: str | None
    known_groups: tuple[Label, ...]
    groups: tuple[GroupAudit, ...]
    disparity: Estimate
    pair: tuple[Label, Label]
    reason: str | None = None
    why_no_estimates: str | None = None
    is_nested: bool = False

    @property
    def has_estimates(self) -> bool:
        """Whether anything is said of new rows."""
        return any(group.expected is not None for group in self.groups)

    @property
    def total_error(self) -> float:
        """Average error over all rows."""
        return sum(group.proportion * group.error.value for group in self.groups)

    @property
    def rounding(self) -> float:
        """Figures up to this size are rounding: a share of the variance over all rows."""
        return ROUNDING * sum(group.proportion * group.total_variance for group in self.groups)

    @property
    def loses_nothing(self) -> bool:
        """Whether every group is reconstructed up to rounding."""
        return max(group.error.value for group in self.groups) <= self.rounding

    @property
    def largest_loss(self) -> float:
        """Largest excess loss of a group."""
        return max(group.excess_loss for group in self.groups)


@dataclass(frozen=True)
class AuditedRows:
    """What the models were judged on.

    Attributes
    ----------
    n : int
        Rows.
    n_features : int
    has_intervals : bool
    n_dropped : int
        Rows left out since a feature or the group is missing in them.
    """

    n: int
    n_features: int
    has_intervals: bool
    n_dropped: int = 0

    @property
    def left_out(self) -> str:
        """Which rows are not in; nothing if all are."""
        intake = str(Intake(self.n_dropped))
        return f"{self.n:,} rows: {intake}" if intake else ""


def labels(groups: Sequence[GroupAudit]) -> tuple[Label, ...]:
    """Of each group its label."""
    return tuple(group.group for group in groups)


def names(groups: Sequence[GroupAudit]) -> str:
    """The groups' names in a row."""
    return first_of([quoted(group.group) for group in groups])


def group_name(label: Label) -> str:
    """A group's name as tables, pages and figures print it."""
    return printable(spelled(label))


def quoted(label: Label) -> str:
    """A group's name in quotes."""
    return f"'{group_name(label)}'"


def counts(groups: Sequence[GroupAudit]) -> str:
    """The groups' numbers of rows in a row."""
    return first_of([str(group.n) for group in groups])
