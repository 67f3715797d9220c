"""Tables of a data folder: the role of a column is the prefix of its name.

No prefix: a feature. ``group__``: a sensitive group. ``label__``: something to predict. Columns of
any other prefix with two underscores are left out.
"""

import os
from collections.abc import Sequence

import numpy as np

from fairspan.datasets.dataset import Dataset
from fairspan.datasets.faces import load_faces
from fairspan.datasets.folder import data_file
from fairspan.errors import CorruptFile, InvalidParameter, MissingDependency
from fairspan.rows.groups import listed
from fairspan.typing import AnyArray

_GROUP, _LABEL, _MARK = "group__", "label__", "__"


def load(
    name: str,
    data: str | os.PathLike[str] | None = None,
    group: str | Sequence[str] | None = None,
) -> Dataset:
    """Load a set of a data folder, raw values as they are.

    Parameters
    ----------
    name : str
        Of the set, such as "default_credit"; "lfw" is all faces (:func:`load_faces`).
    data : path, optional
        The folder; without it, the one that the environment variable FAIRSPAN_DATA names.
    group : str or sequence of str, optional
        Group column, with or without its prefix ``group__``; several are crossed. By default the
        first one.

    Returns
    -------
    Dataset

    Raises
    ------
    InvalidParameter
        An unknown set or group column.
    InvalidInput
        The file or the folder is missing.
    CorruptFile
        The file is not what the manifest promises, or cannot be read.
    MissingDependency
        pyarrow, which reads Parquet, is not installed.
    """
    file = data_file(name, data)
    if file.path.suffix == ".npz":
        return load_faces(data, name=name)
    columns = _columns(file.path)
    features = [each for each in columns if _MARK not in each]
    groups = [each for each in columns if each.startswith(_GROUP)]
    labels = [each for each in columns if each.startswith(_LABEL)]
    chosen = [_group_column(name, each, groups) for each in _asked(group, groups)]
    sensitive = np.column_stack([columns[each].astype(str) for each in chosen])
    return Dataset(
        name=name,
        source=file.path.name,
        X=np.column_stack([columns[each].astype(np.float64) for each in features]),
        sensitive_features=sensitive[:, 0] if len(chosen) == 1 else sensitive,
        feature_names=tuple(features),
        labels=columns[labels[0]] if labels else None,
    )


def _asked(group: str | Sequence[str] | None, groups: list[str]) -> Sequence[str]:
    if group is None:
        return groups[:1] or [_GROUP]
    return [group] if isinstance(group, str) else group


def _group_column(name: str, asked: str, groups: list[str]) -> str:
    column = asked if asked.startswith(_GROUP) else _GROUP + asked
    if column not in groups:
        raise InvalidParameter(
            f"{name} has no group column {asked!r}",
            f"Allowed are {listed([each.removeprefix(_GROUP) for each in groups])}",
            "Choose one of these",
        )
    return column


def _columns(path: os.PathLike[str]) -> dict[str, AnyArray]:
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError as error:
        raise MissingDependency.for_extra("pyarrow", "arrow", f"Reading {path}") from error
    try:
        table = parquet.read_table(path)
    except (pa.ArrowException, OSError) as error:
        raise CorruptFile(
            f"{path} cannot be read as Parquet ({type(error).__name__}: {error})",
            "Allowed is a complete Parquet file",
            "Copy the file again; this one is truncated or altered",
        ) from error
    return {name: column.to_numpy() for name, column in zip(table.column_names, table, strict=True)}
