"""Result of a search for slices."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan
from typing import Any

from fairspan.auditing.estimates import State
from fairspan.auditing.intervals import Estimate
from fairspan.formatting.export import to_data_frame
from fairspan.formatting.messages import counted
from fairspan.formatting.names import join_truncated
from fairspan.formatting.numbers import format_level, format_share, to_ascii
from fairspan.formatting.table import (
    Cell,
    Column,
    Table,
    name_column,
    share_column,
    share_estimate_column,
)
from fairspan.formatting.terminal import MAX_WIDTH, Styler, unstyled, wrap_text
from fairspan.rows.labels import Scalar, printable

# Slices that the conclusion names; all are in the table below it.
_MAX_NAMED_SLICES = 3


@dataclass(frozen=True)
class Slice:
    """A conjunction of attributes that was found in one half of the rows and tested in the other.

    Attributes
    ----------
    conditions : tuple of (str, value) pairs
        Attributes and their values.
    n_rows : int
        Number of rows in both halves.
    n_rows_confirming : int
        Number of rows in the half that confirms.
    proportion : float
        Share of all rows.
    total_variance : float
        Total variance about the model's center, in squared (scaled) units of the features.
    error : Estimate
        Expected error under the model, with an interval for this slice alone.
    loss : Estimate
        Expected loss: the error minus that of the best subspace of the slice. The interval is
        simultaneous over all slices that were tested. Unknown with too few rows.
    loss_share : Estimate
        The same as a share of the total variance.
    searched_loss_share : float
        Loss in the half that was searched. Since the largest losses are selected there, it is
        larger than the true one by chance.
    state : {"harmed", "minor", "no material harm", "inconclusive"}
        State of the loss, as in an audit, at the level at which the slice was tested.
    """

    conditions: tuple[tuple[str, Scalar], ...]
    n_rows: int
    n_rows_confirming: int
    proportion: float
    total_variance: float
    error: Estimate
    loss: Estimate
    loss_share: Estimate
    searched_loss_share: float
    state: State

    @property
    def name(self) -> str:
        """Conditions in one line, such as "sex=f & region=north"."""
        return " & ".join(f"{attribute}={value}" for attribute, value in self.conditions)

    @property
    def is_confirmed(self) -> bool:
        """Whether the loss is confirmed: at the level of all tests jointly, and material."""
        return self.state == "harmed"

    def to_record(self) -> dict[str, Any]:
        """Return the figures as a flat dictionary; unknown ones are None."""
        return {
            "slice": self.name,
            "n_rows": self.n_rows,
            "n_rows_confirming": self.n_rows_confirming,
            "proportion": self.proportion,
            "total_variance": self.total_variance,
            **self.error.to_record("error"),
            **self.loss.to_record("loss"),
            **self.loss_share.to_record("loss_share"),
            "searched_loss_share": self.searched_loss_share,
            "state": self.state,
            "is_confirmed": self.is_confirmed,
        }


@dataclass(frozen=True)
class SliceSearch:
    """Result of :func:`find_slices`; printing it shows the conclusion and a table.

    Attributes
    ----------
    slices : tuple of Slice
        Slices that lost most in the half that was searched, at most twenty: first the confirmed
        ones, those of the largest loss first.
    n_searched : int
        Number of slices whose loss was computed.
    n_rows : int
        Number of rows in both halves.
    n_rows_confirming : int
        Number of rows in the half that confirms.
    level : float
        Confidence level of all tests jointly.
    materiality : float
        Smallest loss that counts, as a share of the slice's variance.
    """

    slices: tuple[Slice, ...]
    n_searched: int
    n_rows: int
    n_rows_confirming: int
    level: float
    materiality: float

    @property
    def confirmed(self) -> tuple[Slice, ...]:
        """Slices whose loss is confirmed; empty if there are none."""
        return tuple(tested for tested in self.slices if tested.is_confirmed)

    @property
    def conclusion(self) -> str:
        """Conclusion in a few sentences."""
        if not self.n_searched:
            return "No slice has enough rows to be searched."
        searched = f"{counted(self.n_searched, 'slice')} of {counted(self.n_rows, 'row')}"
        if not self.slices:
            limit = to_ascii(format_share(self.materiality))
            return (
                f"Of {searched}, none loses more than {limit} of its variance beyond chance in the "
                "half that was searched. None was tested, and none is confirmed."
            )
        verb = "was" if len(self.slices) == 1 else "were"
        sentence = (
            f"Of {searched}, {len(self.slices)} {verb} tested in the half that was not searched"
        )
        if not self.confirmed:
            return f"{sentence}. None is confirmed to lose more than it must."
        quoted_names = [f"'{printable(tested.name)}'" for tested in self.confirmed]
        names = join_truncated(quoted_names, _MAX_NAMED_SLICES)
        if len(self.confirmed) == 1:
            return f"{sentence}. One is confirmed to lose more than it must: {names}."
        return (
            f"{sentence}. {len(self.confirmed)} are confirmed to lose more than they must: {names}."
        )

    def to_records(self) -> list[dict[str, Any]]:
        """Return one flat dictionary per slice; unknown values are None."""
        return [tested.to_record() for tested in self.slices]

    def to_dict(self) -> dict[str, Any]:
        """Return all figures as JSON-serializable values."""
        return {
            "conclusion": self.conclusion,
            "n_searched": self.n_searched,
            "n_rows": self.n_rows,
            "n_rows_confirming": self.n_rows_confirming,
            "level": self.level,
            "materiality": self.materiality,
            "slices": [
                {"conditions": dict(tested.conditions), **tested.to_record()}
                for tested in self.slices
            ],
        }

    def frame(self) -> Any:
        """Return the slices as a DataFrame with one row each.

        Returns
        -------
        pandas.DataFrame
            Columns: slice, n_rows, n_rows_confirming, proportion, total_variance; error, loss and
            loss_share with _low and _high; searched_loss_share, state and is_confirmed.

        Raises
        ------
        MissingDependency
            pandas is not installed.
        """
        return to_data_frame(self.to_records(), "SliceSearch.frame()")

    def table(self) -> Table:
        """Return the slices as a table, one row each."""
        slices = self.slices
        shares = [tested.loss_share for tested in slices]
        results = ["confirmed" if tested.is_confirmed else "not confirmed" for tested in slices]
        columns = (
            name_column("slice", [printable(tested.name) for tested in slices]),
            Column("rows", [Cell(f"{tested.n_rows:,}", tested.n_rows) for tested in slices]),
            share_column("loss when searched", [tested.searched_loss_share for tested in slices]),
            share_estimate_column(
                "loss",
                [share.value for share in shares],
                [(share.low, share.high) for share in shares],
                detail_heading="interval",
                worst_rows=[i for i, tested in enumerate(slices) if tested.is_confirmed],
            ),
            name_column("result", results),
        )
        caption = (
            "Losses of slices as a share of their variance. The "
            f"{to_ascii(format_level(self.level))} intervals of all slices hold jointly."
        )
        return Table(caption, columns)

    def to_text(self, width: int = MAX_WIDTH, paint: Styler = unstyled) -> str:
        """Format the conclusion and the table for a terminal."""
        lines = wrap_text(self.conclusion, width)
        if self.slices:
            lines += ["", self.table().to_text(width, paint)]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return self.to_text()

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()


def sort_slices(slices: Sequence[Slice]) -> tuple[Slice, ...]:
    """Sort confirmed slices before others, and each by the loss, the largest first."""

    def sort_key(tested: Slice) -> tuple[bool, float]:
        # An unknown loss comes last: shares of the variance are at most 1.
        loss = -1.0 if isnan(tested.loss_share.value) else tested.loss_share.value
        return (not tested.is_confirmed, -loss)

    return tuple(sorted(slices, key=sort_key))
