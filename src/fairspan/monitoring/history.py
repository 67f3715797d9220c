"""The looks at one model so far, and their file."""

import datetime
import hashlib
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from fairspan.auditing.group_names import format_group
from fairspan.auditing.intervals import DEFAULT_LEVEL, Estimate
from fairspan.auditing.models import model_name
from fairspan.class_loaders import load_class
from fairspan.errors import InvalidInput
from fairspan.formatting.export import to_data_frame
from fairspan.formatting.numbers import format_level, format_share, to_ascii
from fairspan.formatting.table import Cell, Column, Table, name_column, number_column
from fairspan.formatting.terminal import MAX_WIDTH, Styler, unstyled, wrap_text
from fairspan.model.subspace import FairSubspace
from fairspan.monitoring.look import GroupLook, Look
from fairspan.rows.labels import Label, format_list
from fairspan.storage.archive import open_json, write_json
from fairspan.storage.fields import FieldReader, FileKind
from fairspan.typing import PlottedDisplay

_HISTORY_FILE = FileKind(
    "history",
    "the looks at a model",
    remedy="Name the history that fairspan wrote, or start another",
    outdated_remedy="Start another history; files of older versions are not read",
)
# Smallest level, as of audits.
_MIN_LEVEL = 0.5
# Looks that are printed: the last half year of a monthly look.
_N_PRINTED_LOOKS = 6


@dataclass(frozen=True)
class History:
    """Looks at one model on new rows, in the order in which they were made.

    Look t spends alpha / (t (t + 1)) of alpha = 1 - `level`. All looks together spend less than
    alpha, however many there are, so that the probability of any false alarm, ever, is at most
    alpha.

    Attributes
    ----------
    model_sha256 : str
        Hash of the projection of the model.
    problem : str
        Criterion and restriction of the model, in words.
    level : float
        Confidence level of all looks together.
    looks : tuple of Look
    """

    model_sha256: str
    problem: str
    level: float = DEFAULT_LEVEL
    looks: tuple[Look, ...] = ()

    @classmethod
    def from_model(cls, subspace: FairSubspace, level: float) -> "History":
        """Return the history of a model without any look."""
        return cls(hash_model(subspace), model_name(subspace.require_certificate()), level)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "History":
        """Read a history that :class:`Monitor` or ``fairspan watch`` wrote.

        Raises
        ------
        FileNotFoundError
            There is no such file.
        CorruptFile
            The file is truncated, modified or of another kind.
        """
        with open_json(path, _HISTORY_FILE) as fields:
            return cls(
                model_sha256=fields.read_text("model_sha256"),
                problem=fields.read_text("problem"),
                level=fields.read_number("level", minimum=_MIN_LEVEL, below=1.0),
                looks=tuple(_read_look(look) for look in fields.read_records("looks")),
            )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the history as JSON to exactly this path, atomically."""
        document = {
            "model_sha256": self.model_sha256,
            "problem": self.problem,
            "level": self.level,
            "looks": [_look_to_dict(look) for look in self.looks],
        }
        write_json(path, _HISTORY_FILE, document)

    @property
    def spent(self) -> float:
        """Probability of a false alarm that all looks together have spent."""
        return sum(1 - look.level for look in self.looks)

    def find_same_rows(self, look: Look) -> Look | None:
        """Return the look at rows with the same moments, if there is one."""
        return next((earlier for earlier in self.looks if earlier.has_same_rows(look)), None)

    def merge(self, other: "History") -> "History":
        """Return the looks of two histories of one model, in the order of their dates.

        Looks at the same rows are kept once. Each keeps the level that it was made with; if both
        histories spent up to alpha, the merged one may have spent more (`spent`).

        Raises
        ------
        InvalidInput
            The histories are of different models or levels.
        """
        if (self.model_sha256, self.level) != (other.model_sha256, other.level):
            raise InvalidInput(
                f"A history of {self.problem} (level {self.level:g}) is merged with one of "
                f"{other.problem} (level {other.level:g})",
                "Allowed: histories of the same fitted model, with the same level",
                "Merge the histories of each model separately",
            )
        added = [look for look in other.looks if self.find_same_rows(look) is None]
        by_date = sorted([*self.looks, *added], key=lambda look: look.date)
        numbered = [replace(look, number=t) for t, look in enumerate(by_date, start=1)]
        return replace(self, looks=tuple(numbered))

    def to_records(self) -> list[dict[str, Any]]:
        """Return one flat dictionary per look and group; unknown values are None."""
        records = []
        for look in self.looks:
            values = look.to_dict()
            del values["groups"], values["alarms"], values["n_rows"]
            records += [{**values, **group.to_record()} for group in look.groups]
        return records

    def frame(self) -> Any:
        """Return the figures as a DataFrame with one row per look and group.

        Returns
        -------
        pandas.DataFrame
            Columns: number, date, level, objective, lower_bound, relative_gap and refit_may_help of
            the look; group, n_rows, total_variance, error and drift with _low and _high, and
            is_alarm of the group.

        Raises
        ------
        MissingDependency
            pandas is not installed.
        """
        return to_data_frame(self.to_records(), "History.frame()")

    def plot(self, ax: Any = None) -> PlottedDisplay:
        """Plot the error of each group over the looks (requires the `plot` extra).

        Returns
        -------
        displays.MonitorDisplay
        """
        display = load_class("result display", "monitor").compute(self)
        plotted: PlottedDisplay = display.plot(ax)
        return plotted

    def write_report(self, path: str | os.PathLike[str]) -> None:
        """Write the conclusion, a chart and the table of all looks as one HTML page.

        The page is a single self-contained file. Requires the `report` extra.

        Parameters
        ----------
        path : path
            Path of the page, ending in .html; it is written atomically.

        Raises
        ------
        InvalidInput
            There is no look yet.
        InvalidParameter
            The file cannot be written, or has another ending.
        MissingDependency
            jinja2 or matplotlib is not installed.
        """
        load_class("result page", "history")(self).write(path)

    def table(self, n_looks: int = _N_PRINTED_LOOKS) -> Table:
        """Return the last looks as a table, one row per look and group."""
        shown_looks = self.looks[-n_looks:]
        # One row per look and group.
        looks = [look for look in shown_looks for _ in look.groups]
        groups = [group for look in shown_looks for group in look.groups]
        numbers = [Cell(str(look.number), look.number) for look in looks]
        columns = (
            Column("look", numbers, is_text=True),
            name_column("date", [look.date for look in looks]),
            name_column("group", [format_group(group.group) for group in groups]),
            Column("rows", [Cell(f"{group.n_rows:,}", group.n_rows) for group in groups]),
            number_column("error", [group.error.value for group in groups]),
            Column(
                "change since the fit",
                [_share_cell(group.relative_drift) for group in groups],
                detail_heading="interval",
            ),
            name_column("alarm", [_describe_alarm(group) for group in groups]),
        )
        caption = (
            f"Errors of {self.problem} by group, in squared units of the features. The "
            f"{to_ascii(format_level(self.level))} intervals of all looks and groups hold jointly."
        )
        return Table(caption, columns)

    def to_text(self, width: int = MAX_WIDTH, paint: Styler = unstyled) -> str:
        """Format the last looks, and the conclusion of the last one, for a terminal."""
        if not self.looks:
            return f"No look at {self.problem} yet."
        lines = [self.table().to_text(width, paint), ""]
        return "\n".join([*lines, *wrap_text(self.conclusion, width)])

    @property
    def conclusion(self) -> str:
        """Conclusion of the last look, in a few sentences."""
        if not self.looks:
            return "There is no look yet."
        last = self.looks[-1]
        text = f"Look {last.number} ({last.date}): {_conclude(last)}"
        if not last.unknown_groups:
            return text
        names = _join_names(last.unknown_groups)
        reason = "a few rows dominate the error, or there are too few"
        return f"{text} Nothing is known of {names}: {reason}."

    def __repr__(self) -> str:
        return self.to_text()

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()


def hash_model(subspace: FairSubspace) -> str:
    """Return the SHA-256 of encoder, mean and scale, which tells fitted models apart."""
    digest = hashlib.sha256()
    for array in (subspace.components, subspace.mean, subspace.scale):
        digest.update(b"none" if array is None else array.tobytes())
    return digest.hexdigest()


def check_date(date: str | datetime.date | None) -> str:
    """Return a date as YYYY-MM-DD; today if it is None.

    Raises
    ------
    InvalidInput
        Not a date.
    """
    if date is None:
        return datetime.date.today().isoformat()
    if isinstance(date, datetime.datetime):
        return date.date().isoformat()
    if isinstance(date, datetime.date):
        return date.isoformat()
    try:
        return datetime.date.fromisoformat(date).isoformat()
    except (TypeError, ValueError) as error:
        raise InvalidInput(
            f"date is {date!r}", "Allowed: a date such as '2026-05-31'", "Pass the date of the rows"
        ) from error


def _describe_alarm(group: GroupLook) -> str:
    """Return the word for a group in the column of alarms."""
    if group.is_alarm:
        return "risen"
    return "unknown" if group.is_unknown else "no"


def _join_names(labels: Sequence[Label]) -> str:
    return format_list([format_group(label) for label in labels])


def _conclude(look: Look) -> str:
    """Conclude which errors have risen, and whether a refit may help."""
    if not look.alarms:
        if len(look.unknown_groups) == len(look.groups):
            return "no error can be compared with that of the fit."
        return "no error is known to have risen."
    observation = f"the error of {_join_names(look.alarms)} has risen beyond chance."
    if look.refit_may_help is None:
        return f"{observation} There is no bound for a refit to these rows."
    if not look.refit_may_help:
        return f"{observation} By the certificate, a refit to these rows would hardly help."
    gap = "" if look.relative_gap is None else f" by up to {_format_share(look.relative_gap)}"
    return f"{observation} A refit may lower the criterion{gap}."


def _format_share(value: float) -> str:
    return to_ascii(format_share(value))


def _share_cell(change: Estimate) -> Cell:
    """Return the cell of a relative change with its interval."""
    interval = ""
    if change.low is not None and change.high is not None:
        low = _format_share(change.low).removesuffix(" %")
        interval = f"{low} to {_format_share(change.high)}"
    text = "" if math.isnan(change.value) else _format_share(change.value)
    return Cell(text, change.value, detail=interval)


def _look_to_dict(look: Look) -> dict[str, Any]:
    """Return the entries of a look in a file: its figures, without those that follow from them."""
    values = look.to_dict()
    for name in ("n_rows", "alarms", "groups"):
        del values[name]
    # Labels are stored apart, since they may be of any type.
    records = [group.to_record() for group in look.groups]
    labels = [record.pop("group") for record in records]
    return {**values, "labels": labels, "figures": records}


def _read_look(fields: FieldReader) -> Look:
    labels = fields.read_labels("labels")
    records = fields.read_records("figures")
    if len(records) != len(labels):
        raise fields.error("figures", f"has {len(records)} entries", f"{len(labels)}")
    date = fields.read_text("date")
    with fields.explain_errors("date"):
        datetime.date.fromisoformat(date)
    refit_may_help = None
    if not fields.is_null("refit_may_help"):
        refit_may_help = fields.read_boolean("refit_may_help")
    return Look(
        number=fields.read_integer("number", minimum=1),
        date=date,
        level=fields.read_number("level", minimum=_MIN_LEVEL, below=1.0),
        groups=tuple(
            _read_group(record, label) for record, label in zip(records, labels, strict=True)
        ),
        objective=_read_optional(fields, "objective"),
        lower_bound=_read_optional(fields, "lower_bound"),
        relative_gap=_read_optional(fields, "relative_gap"),
        refit_may_help=refit_may_help,
    )


def _read_group(fields: FieldReader, label: Label) -> GroupLook:
    return GroupLook(
        group=label,
        n_rows=fields.read_integer("n_rows", minimum=0),
        total_variance=fields.read_number("total_variance", minimum=0.0),
        error=_read_estimate(fields, "error"),
        drift=_read_estimate(fields, "drift"),
        is_alarm=fields.read_boolean("is_alarm"),
    )


def _read_estimate(fields: FieldReader, name: str) -> Estimate:
    value = _read_optional(fields, name)
    low = _read_optional(fields, f"{name}_low")
    high = _read_optional(fields, f"{name}_high")
    return Estimate(math.nan if value is None else value, low, high)


def _read_optional(fields: FieldReader, name: str) -> float | None:
    """Read a number that may be null."""
    return None if fields.is_null(name) else fields.read_number(name)
