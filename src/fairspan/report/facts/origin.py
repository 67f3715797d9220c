"""Where the rows of a report come from, and the call that makes it again.

No date, no user and no host: the same rows and settings give the same bytes.
"""

import os
import platform
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from fairspan.drawing.picture import Display
from fairspan.problem.reduction import criterion_of
from fairspan.registry import names_of
from fairspan.version import __version__

_PACKAGES = ("numpy", "scipy", "scikit-learn")
# What write_report takes where nothing is said.
_DEFAULTS = {
    "criterion": ("'minimax_loss'",),
    "center": ("None", "'global'"),
    "scale": ("None", "False"),
    "folds": ("10",),
    "level": ("0.95",),
    "material": ("0.01",),
}
_NOTHING = ("None",)
# What a call names and does not show.
_OBJECTS = ("models", "test")


@dataclass(frozen=True)
class Origin:
    """Where the rows of a report come from, and how it was requested.

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


def without_folders(word: str) -> str:
    """An absolute path by its last part: a page says nothing of the machine that made it.

    Examples
    --------
    >>> [without_folders(word) for word in ("/home/me/rows.csv", "--test=/tmp/b.csv", "data/c.csv")]
    ['rows.csv', '--test=b.csv', 'data/c.csv']
    """
    option, mark, value = word.rpartition("=")
    return f"{option}{mark}{Path(value).name if Path(value).is_absolute() else value}"


def title_of(name: str) -> str:
    """The title of a report that was given none."""
    return f"What PCA does to each group of {name}"


def origin_of_call(
    X: Any,
    sensitive_features: Any,
    fingerprint: str | None,
    *,
    sample_weight: Any,
    max_groups: int | None,
    **settings: Any,
) -> Origin:
    """The origin of a report that `write_report` makes; rows in memory are named, not shown.

    Parameters
    ----------
    X, sensitive_features, sample_weight, max_groups
        As they were passed; X is None where moments were.
    fingerprint : str or None
        SHA-256 of the rows.
    **settings
        The others as they were passed, `name` and `title` among them.
    """
    if X is None:
        given = "moments=moments"
        moments = 'moments = GroupMoments.load("moments.npz")  # after moments.save("moments.npz")'
    else:
        words = [repr(without_folders(os.fspath(X))) if _is_path(X) else "X"]
        # Rows that were opened bring their own groups.
        is_opened = sensitive_features is None
        words.append("None" if is_opened else _named("sensitive_features", sensitive_features, X))
        if sample_weight is not None:
            words.append(f"sample_weight={_named('sample_weight', sample_weight, X)}")
        if max_groups is not None:
            words.append(f"max_groups={max_groups}")
        given = ", ".join(words)
        moments = f"moments = GroupMoments.from_rows({given})"
    told = {key: _spelled(value) for key, value in settings.items()}
    told |= {key: key for key in _OBJECTS if settings[key] is not None}
    chosen = [
        f"{key}={text}" for key, text in told.items() if text not in _DEFAULTS.get(key, _NOTHING)
    ]
    of_rows = Path(X).name if _is_path(X) else "these rows"
    name, title = of_rows if settings["name"] is None else settings["name"], settings["title"]
    return Origin(
        name=name,
        title=title_of(name) if title is None else title,
        input_sha256=fingerprint,
        command=f"fairspan.write_report({', '.join(['path', given, *chosen])})",
        moments=moments,
    )


def _spelled(value: Any) -> str:
    """A setting as Python: a criterion by its name where its own settings are the default ones."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_spelled, value))}]"
    if hasattr(value, "pieces"):  # a criterion
        is_usual = value.name in names_of("criterion") and value == criterion_of(value.name)
        return repr(value.name if is_usual else value)
    return type(value).__name__ if isinstance(value, Display) else repr(value)


def _named(name: str, value: Any, X: Any) -> str:
    """Names of columns as they are; anything else by the name of the parameter."""
    several = isinstance(value, list | tuple) and all(isinstance(each, str) for each in value)
    return repr(value) if isinstance(value, str) or (several and _is_path(X)) else name


def _is_path(X: Any) -> bool:
    return isinstance(X, str | os.PathLike)
