"""Provenance of a report.

No date, user or host name is included, so output is reproducible.
"""

import os
import platform
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeGuard

from fairspan.extending import Display
from fairspan.problem.criteria.criterion import Criterion
from fairspan.problem.criteria.criterion_catalog import get_criterion
from fairspan.registry import builtin_names
from fairspan.typing import LabelsLike, Record, TableLike, WeightsLike
from fairspan.version import __version__

_REPORTED_PACKAGES = ("numpy", "scipy", "scikit-learn")
# Code of the default arguments of write_report, which is omitted.
_DEFAULT_TEXTS = {
    "criterion": ("'minimax_loss'",),
    "center": ("None", "'global'"),
    "scale": ("None", "False"),
    "folds": ("10",),
    "repeats": ("1",),
    "level": ("0.95",),
    "materiality": ("0.01",),
}
# Of arguments without an entry above, the texts that are omitted.
_OMITTED = ("None",)
# Arguments shown by name rather than by value.
_NAMED_ONLY = ("models", "test", "clusters")


@dataclass(frozen=True)
class Provenance:
    """Provenance of a report: its data and how it was requested.

    Attributes
    ----------
    name : str
        Name of the data.
    title : str
        Title of the report.
    input_sha256 : str or None
        SHA-256 of the input file, folder or arrays; None for remote data.
    command : str
        Command or call that reproduces the report.
    """

    name: str
    title: str
    input_sha256: str | None
    command: str

    def to_dict(self) -> Record:
        """Return versions, input hash and command needed to reproduce the report."""
        return {
            "fairspan": __version__,
            "python": platform.python_version(),
            **{name: version(name) for name in _REPORTED_PACKAGES},
            "input_sha256": self.input_sha256,
            "command": self.command,
        }


def without_directories(argument: str) -> str:
    """Reduce an absolute path to its last component.

    Pages must not reveal the directories of the machine.

    Examples
    --------
    >>> arguments = ("/home/me/rows.csv", "--test=/tmp/b.csv", "data/c.csv")
    >>> [without_directories(argument) for argument in arguments]
    ['rows.csv', '--test=b.csv', 'data/c.csv']
    """
    option, equals_sign, value = argument.rpartition("=")
    path = Path(value)
    if path.is_absolute():
        value = path.name
    return f"{option}{equals_sign}{value}"


def default_title(name: str) -> str:
    """Return the default title of a report."""
    return f"How PCA affects each group of {name}"


def provenance_of_call(
    X: TableLike,
    sensitive_features: LabelsLike,
    fingerprint: str | None,
    *,
    sample_weight: WeightsLike,
    max_groups: int | None,
    on_missing: str,
    **settings: Any,
) -> Provenance:
    """Return the provenance of a `write_report` call; in-memory data are represented by name.

    Parameters
    ----------
    X, sensitive_features, sample_weight, max_groups, on_missing
        Arguments as passed; X is None if moments were passed.
    fingerprint : str or None
        SHA-256 of the rows.
    **settings
        All other arguments as passed, including `name` and `title`.
    """
    if X is None:
        data_arguments = "moments=moments"
    else:
        data_arguments = _data_arguments(
            X, sensitive_features, sample_weight, max_groups, on_missing
        )
    texts = {name: _argument_code(name, value) for name, value in settings.items()}
    # Only arguments that differ from their defaults, usually None, appear in the command.
    nondefault = [
        f"{name}={text}"
        for name, text in texts.items()
        if text not in _DEFAULT_TEXTS.get(name, _OMITTED)
    ]
    data_name = settings["name"]
    if data_name is None:
        data_name = Path(X).name if _is_path(X) else "these rows"
    title = settings["title"]
    if title is None:
        title = default_title(data_name)
    return Provenance(
        name=data_name,
        title=title,
        input_sha256=fingerprint,
        command=f"fairspan.write_report({', '.join(['path', data_arguments, *nondefault])})",
    )


def _data_arguments(
    X: TableLike,
    sensitive_features: LabelsLike,
    sample_weight: WeightsLike,
    max_groups: int | None,
    on_missing: str,
) -> str:
    """Return the code of the arguments that select the rows."""
    arguments = [repr(without_directories(os.fspath(X))) if _is_path(X) else "X"]
    # Rows that were opened before, such as FileRows, contain their groups.
    groups = "None"
    if sensitive_features is not None:
        groups = _column_or_parameter_name("sensitive_features", sensitive_features, X)
    arguments.append(groups)
    if sample_weight is not None:
        weights = _column_or_parameter_name("sample_weight", sample_weight, X)
        arguments.append(f"sample_weight={weights}")
    if max_groups is not None:
        arguments.append(f"max_groups={max_groups}")
    if on_missing != "error":
        arguments.append(f'on_missing="{on_missing}"')
    return ", ".join(arguments)


def _argument_code(name: str, value: object) -> str:
    """Format an argument as Python code; some are represented by their name."""
    if name in _NAMED_ONLY and not isinstance(value, str | None):
        return name
    return _as_code(value)


def _as_code(value: object) -> str:
    """Format a setting as Python code.

    A built-in criterion with default parameters is written by its name, which callers may pass in
    its place. A display object holds drawn figures, for which there is no code: its class tells the
    reader which one was passed.
    """
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_as_code, value))}]"
    if isinstance(value, Criterion):
        has_defaults = value.name in builtin_names("criterion") and value == get_criterion(
            value.name
        )
        return repr(value.name if has_defaults else value)
    if isinstance(value, Display):
        return type(value).__name__
    return repr(value)


def _column_or_parameter_name(name: str, value: object, X: TableLike) -> str:
    """Format column names as code; represent anything else by the parameter's name."""
    are_names = isinstance(value, list | tuple) and all(isinstance(item, str) for item in value)
    if isinstance(value, str) or (are_names and _is_path(X)):
        return repr(value)
    return name


def _is_path(X: object) -> TypeGuard[str | os.PathLike[str]]:
    return isinstance(X, str | os.PathLike)
