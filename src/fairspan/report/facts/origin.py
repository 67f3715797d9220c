"""Where the rows of a report come from, and the call that makes it again.

No date, no user and no host: the same rows and settings give the same bytes.
"""

import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from fairspan.problem.by_name import criterion_of
from fairspan.problem.criteria import Criterion
from fairspan.report.facts.settings import ReportSettings
from fairspan.version import __version__

_PACKAGES = ("numpy", "scipy", "scikit-learn")
# What write_report takes where nothing is said.
_DEFAULTS = ("'minimax_loss'", "'global'", None)


@dataclass(frozen=True)
class Origin:
    """Where the rows of a report come from, and how it was asked for.

    Attributes
    ----------
    name : str
        What the rows are called.
    title : str
        Of the report.
    input_sha256 : str or None
        Of the file, the folder or the numbers that were read; None where they lie elsewhere.
    command : str
        What makes the report again.
    moments : str
        The line of Python that makes the moments of the same rows.
    """

    name: str
    title: str
    input_sha256: str | None
    command: str
    moments: str


def provenance_facts(origin: Origin, settings: dict[str, Any]) -> dict[str, Any]:
    """What is needed to make the report again."""
    return {
        "fairspan": __version__,
        "python": platform.python_version(),
        **{name: version(name) for name in _PACKAGES},
        "input_sha256": origin.input_sha256,
        "parameters": settings,
        "command": origin.command,
    }


def title_of(name: str) -> str:
    """The title of a report that was given none."""
    return f"What PCA does to each group of {name}"


def origin_of_call(
    rows: tuple[Any, Any, Any],
    settings: ReportSettings,
    fingerprint: str | None,
    *,
    criteria: Sequence[Any] | None,
    name: str | None,
    title: str | None,
    max_groups: int | None,
) -> Origin:
    """The origin of a report that `write_report` makes; rows in memory are named, not shown.

    Parameters
    ----------
    rows : tuple
        X, sensitive_features and sample_weight as they were passed; X is None where moments were.
    settings : ReportSettings
    fingerprint : str or None
        SHA-256 of the rows.
    criteria : sequence of str or criterion objects, or None
    name, title : str or None
    max_groups : int or None
    """
    X = rows[0]
    if X is None:
        given = "moments=moments"
        moments = 'moments = GroupMoments.load("moments.npz")  # after moments.save("moments.npz")'
    else:
        given = _rows_of_call(*rows, max_groups)
        moments = f"moments = GroupMoments.from_rows({given})"
    if criteria is not None:
        criteria = [_spelled(criterion_of(each)) for each in criteria]
    told = {
        "n_components": settings.n_components,
        "criterion": _spelled(settings.criterion),
        "criteria": None if criteria is None else f"[{', '.join(criteria)}]",
        "center": repr(settings.center),
        "scale": settings.scale or None,
        "name": None if name is None else repr(name),
        "title": None if title is None else repr(title),
    }
    chosen = [f"{key}={value}" for key, value in told.items() if value not in _DEFAULTS]
    if name is None:
        name = Path(X).name if _is_path(X) else "these rows"
    return Origin(
        name=name,
        title=title_of(name) if title is None else title,
        input_sha256=fingerprint,
        command=f"fairspan.write_report({', '.join(['path', given, *chosen])})",
        moments=moments,
    )


def _rows_of_call(X: Any, sensitive_features: Any, sample_weight: Any, limit: int | None) -> str:
    # Rows that were opened bring their own groups.
    is_opened = sensitive_features is None
    told = [
        repr(os.fspath(X)) if _is_path(X) else "X",
        "None" if is_opened else _named("sensitive_features", sensitive_features, X),
    ]
    if sample_weight is not None:
        told.append(f"sample_weight={_named('sample_weight', sample_weight, X)}")
    if limit is not None:
        told.append(f"max_groups={limit}")
    return ", ".join(told)


def _spelled(criterion: Criterion) -> str:
    """A criterion by its name, or as an object where its settings are not the default ones."""
    is_usual = criterion == criterion_of(criterion.name)
    return repr(criterion.name) if is_usual else repr(criterion)


def _named(name: str, value: Any, X: Any) -> str:
    """Names of columns as they are; anything else by the name of the parameter."""
    several = isinstance(value, list | tuple) and all(isinstance(each, str) for each in value)
    is_names = isinstance(value, str) or (several and _is_path(X))
    return repr(value) if is_names else name


def _is_path(X: Any) -> bool:
    return isinstance(X, str | os.PathLike)
