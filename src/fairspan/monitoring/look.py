"""One look at a model on new rows: errors by group, and whether they have risen since the fit."""

import math
from dataclasses import dataclass
from typing import Any

from fairspan.auditing.intervals import UNKNOWN, Estimate, none_if_nan
from fairspan.auditing.results import GroupResult, ModelResult
from fairspan.rows.labels import Label

# Largest relative difference between the figures of one chunk of rows that was read twice: sums in
# another order differ by rounding.
_SAME_FIGURE_TOL = 1e-9


@dataclass(frozen=True)
class GroupLook:
    """Figures of one group in a look, in squared (scaled) units of the features.

    Attributes
    ----------
    group : label
    n_rows : int
    total_variance : float
    error : Estimate
        Observed error, with an interval at the level of the look.
    drift : Estimate
        Increase of the error since the fit. The interval holds for all groups at once at the level
        of the look, and allows for errors that are too small on the rows of the fit; it is unknown
        if a few rows dominate the error.
    is_alarm : bool
        Whether the error has risen beyond chance.
    """

    group: Label
    n_rows: int
    total_variance: float
    error: Estimate
    drift: Estimate
    is_alarm: bool

    @classmethod
    def from_result(cls, result: GroupResult) -> "GroupLook":
        """Take the figures from the results of an audit."""
        low = result.drift.low
        return cls(
            group=result.group,
            n_rows=result.n_rows,
            total_variance=result.observed_total_variance,
            error=result.observed_error,
            drift=result.drift,
            is_alarm=low is not None and low > 0 and result.drift.value > result.observed_rounding,
        )

    @property
    def error_at_fit(self) -> float:
        """Error on the rows of the fit; NaN if the group was not among them."""
        return self.error.value - self.drift.value

    @property
    def is_unknown(self) -> bool:
        """Whether the increase has no interval, so that nothing is known of it.

        The group has one row, was not among the rows of the fit, or a few rows dominate its error.
        """
        return self.drift.low is None

    @property
    def relative_drift(self) -> Estimate:
        """Increase of the error since the fit, relative to the error at the fit."""
        if not self.error_at_fit > 0:
            return UNKNOWN
        return self.drift.relative_to(self.error_at_fit)

    def has_same_rows(self, other: "GroupLook") -> bool:
        """Whether both have the same group, number of rows, variance and error."""
        return (
            (self.group, self.n_rows) == (other.group, other.n_rows)
            and _is_same(self.total_variance, other.total_variance)
            and _is_same(self.error.value, other.error.value)
        )

    def to_record(self) -> dict[str, Any]:
        """Return the figures as a flat dictionary; unknown ones are None."""
        return {
            "group": self.group,
            "n_rows": self.n_rows,
            "total_variance": self.total_variance,
            **self.error.to_record("error"),
            **self.drift.to_record("drift"),
            "is_alarm": self.is_alarm,
        }


@dataclass(frozen=True)
class Look:
    """Figures of a model on one chunk of new rows.

    Attributes
    ----------
    number : int
        Number of the look t, counted from 1.
    date : str
        Date of the rows, as YYYY-MM-DD.
    level : float
        Confidence level of the look: 1 - alpha / (t (t + 1)).
    groups : tuple of GroupLook
    objective : float or None
        Criterion of the model on these rows; None if it is undefined.
    lower_bound : float or None
        Bound that no refit to these rows can fall below; None if there is no proof.
    relative_gap : float or None
        Gap between both, relative to the scale of the objective.
    refit_may_help : bool or None
        Whether the gap is larger than what is expected by chance; None without a bound.
    """

    number: int
    date: str
    level: float
    groups: tuple[GroupLook, ...]
    objective: float | None
    lower_bound: float | None
    relative_gap: float | None
    refit_may_help: bool | None

    @classmethod
    def from_result(cls, result: ModelResult, number: int, date: str, level: float) -> "Look":
        """Take the figures from the results of an audit with this level."""
        bound = result.refit_bound
        assert bound is not None  # the monitor refuses models and rows without one
        has_bound = bound.refit_may_help is not None
        return cls(
            number=number,
            date=date,
            level=level,
            groups=tuple(GroupLook.from_result(group) for group in result.groups),
            objective=_none_unless_finite(bound.objective),
            lower_bound=_none_unless_finite(bound.lower_bound),
            relative_gap=_none_unless_finite(bound.relative_gap) if has_bound else None,
            refit_may_help=bound.refit_may_help,
        )

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return sum(group.n_rows for group in self.groups)

    @property
    def alarms(self) -> tuple[Label, ...]:
        """Groups whose error has risen beyond chance."""
        return tuple(group.group for group in self.groups if group.is_alarm)

    @property
    def unknown_groups(self) -> tuple[Label, ...]:
        """Groups about which nothing is known: whose increase has no interval."""
        return tuple(group.group for group in self.groups if group.is_unknown)

    def has_same_rows(self, other: "Look") -> bool:
        """Whether both are about rows with the same moments, as far as they are known."""
        return len(self.groups) == len(other.groups) and all(
            group.has_same_rows(other_group)
            for group, other_group in zip(self.groups, other.groups, strict=True)
        )

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-serializable values, with those of each group."""
        return {
            "number": self.number,
            "date": self.date,
            "level": self.level,
            "n_rows": self.n_rows,
            "objective": self.objective,
            "lower_bound": self.lower_bound,
            "relative_gap": self.relative_gap,
            "refit_may_help": self.refit_may_help,
            "alarms": list(self.alarms),
            "groups": [group.to_record() for group in self.groups],
        }


def _is_same(first: float, second: float) -> bool:
    return math.isclose(first, second, rel_tol=_SAME_FIGURE_TOL)


def _none_unless_finite(value: float) -> float | None:
    return none_if_nan(value) if math.isfinite(value) else None
