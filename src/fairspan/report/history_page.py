"""The page of a history of looks: conclusion, chart and table in one self-contained HTML file."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fairspan.auditing.group_names import format_group
from fairspan.displays.monitor_display import MonitorDisplay
from fairspan.errors import InvalidInput
from fairspan.formatting.messages import counted
from fairspan.formatting.names import join_truncated
from fairspan.formatting.numbers import format_level
from fairspan.monitoring.history import History
from fairspan.report.page import content_security_policy, read_template, render_template
from fairspan.report.svg_figures import PageFigure, draw_figure
from fairspan.report.write_report import check_page_path
from fairspan.rows.labels import Label
from fairspan.storage.atomic import write_atomic
from fairspan.version import __version__

# Maximum number of groups in the chart; the table has all.
_MAX_GROUPS_DRAWN = 12
# Maximum number of panels beside each other on a phone.
_MAX_PHONE_GROUPS = 2


@dataclass(frozen=True)
class HistoryPage:
    """Page of a history.

    Attributes
    ----------
    history : History
    """

    history: History

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the page atomically.

        Raises
        ------
        InvalidInput
            There is no look yet.
        InvalidParameter
            The file cannot be written, or is no .html file.
        MissingDependency
            jinja2 or matplotlib is not installed.
        """
        check_page_path(path)
        if not self.history.looks:
            raise InvalidInput(
                "The history has no look yet",
                "Allowed: at least one look",
                "Add rows with Monitor.add",
            )
        write_atomic(path, self.render().encode())

    def render(self) -> str:
        """Return the page as HTML without external resources."""
        history = self.history
        style = read_template("page.css")
        return render_template(
            "history.html",
            {
                "title": f"Errors of {history.problem} since the fit",
                "history": history,
                "figure": self._figure(),
                "table": history.table(len(history.looks)),
                "level": format_level(history.level),
                "version": __version__,
                "style": style,
                "policy": content_security_policy(style, ""),
            },
        )

    def _figure(self) -> PageFigure:
        """Draw the errors of the groups over the looks."""
        records = self.history.to_records()
        groups = _groups_to_draw(records)
        drawn_records = [record for record in records if record["group"] in groups]
        n_groups = len({record["group"] for record in records})
        subject = "Error of each group"
        if len(groups) < n_groups:
            subject = f"Errors of {len(groups)} of {n_groups} groups, first those with an alarm"
        caption = (
            f"{subject}, divided by its error at the fit. The {format_level(self.history.level)} "
            "intervals of all looks and groups hold jointly."
        )
        return draw_figure(
            MonitorDisplay(drawn_records, self.history.level),
            element_prefix="h",
            caption=caption,
            alt_text=f"{subject} over {counted(len(self.history.looks), 'look')}. "
            f"{_describe_alarms(self.history)}",
            fit_phone=len(groups) <= _MAX_PHONE_GROUPS,
            keep_markers=True,
        )


def _groups_to_draw(records: Sequence[Mapping[str, Any]]) -> set[Label]:
    """Return the groups of the chart: those with an alarm first, then the others in their order."""
    has_alarm: dict[Label, bool] = {}
    for record in records:
        group = record["group"]
        has_alarm[group] = has_alarm.get(group, False) or record["is_alarm"]
    order = sorted(has_alarm, key=lambda group: not has_alarm[group])
    return set(order[:_MAX_GROUPS_DRAWN])


def _describe_alarms(history: History) -> str:
    alarms = [
        f"{format_group(group)} in look {look.number}"
        for look in history.looks
        for group in look.alarms
    ]
    if not alarms:
        return "No error has risen."
    return f"Errors that have risen: {join_truncated(alarms)}."
