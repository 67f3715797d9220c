"""The command that watches a saved model on new rows."""

import datetime
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fairspan.auditing.gate import CheckFailure, parse_conditions
from fairspan.auditing.group_names import quote_group
from fairspan.cli.command_terminal import painter_for
from fairspan.cli.model_auditing import load_models, open_input_of_model
from fairspan.cli.option_values import ReadOptions
from fairspan.errors import IncompatibleParameters
from fairspan.formatting.names import join_truncated
from fairspan.formatting.terminal import output_width
from fairspan.monitoring.history import History
from fairspan.monitoring.look import Look
from fairspan.monitoring.monitor import Monitor
from fairspan.registry import ExternalObject

_DRIFT = "drift"
_INCONCLUSIVE = "inconclusive"


def add_look(
    model: Path,
    data: Path | ExternalObject,
    history_path: Path,
    read_options: ReadOptions,
    *,
    date: datetime.datetime | None,
    clusters: str | None,
    level: float | None,
    custom_objects: Sequence[ExternalObject],
    force: bool,
) -> History:
    """Add a look at the rows to the history in a file, and return the history.

    Raises
    ------
    FairspanError, click.UsageError
        Invalid rows or settings; the history stays as it was.
    """
    (subspace,) = load_models([model], custom_objects).values()
    read_options.reject_feature_options(subspace.feature_names)
    # The history is checked before rows are read.
    monitor = Monitor(subspace, history_path, level=level)
    table = open_input_of_model(subspace, data, read_options, clusters)
    if table.row_source is None:
        raise IncompatibleParameters(
            f"{data} contains moments, which have no intervals",
            "Allowed: rows, whose variation tells change from chance",
            "Name a file of rows",
        )
    rows = table.rows("reading")
    monitor.add_rows(rows, date, has_clusters=clusters is not None, force=force)
    return monitor.history


def watch_record(history: History, path: Path) -> dict[str, Any]:
    """Return the last look and the state of the history as values for JSON."""
    return {
        "history": str(path),
        "problem": history.problem,
        "level": history.level,
        "spent": history.spent,
        "n_looks": len(history.looks),
        "conclusion": history.conclusion,
        "look": history.looks[-1].to_dict(),
    }


def watch_text(history: History) -> str:
    """Format the last looks and the conclusion for standard output."""
    return history.to_text(output_width(sys.stdout), painter_for(sys.stdout))


def parse_conditions_of_looks(texts: Sequence[str]) -> tuple[str, ...]:
    """Return the conditions of --fail-on, none if it was not given.

    Raises
    ------
    InvalidParameter
        Unknown condition.
    """
    if not texts:
        return ()
    return parse_conditions(
        texts, "--fail-on", conditions=(_DRIFT, _INCONCLUSIVE), has_findings=False
    )


def look_failures(look: Look, conditions: Sequence[str]) -> list[CheckFailure]:
    """Return the conditions that apply to a look, each with its groups."""
    failures = []
    for condition in conditions:
        groups = look.alarms
        message = "the error of {} has risen since the fit."
        if condition == _INCONCLUSIVE:
            groups = look.unknown_groups
            message = "nothing is known of {}: a few rows dominate the error, or there are too few."
        if groups:
            names = join_truncated([quote_group(label) for label in groups])
            failures.append(CheckFailure(condition, message.format(names), groups=groups))
    return failures
