"""Data sets of a folder, for reproductions and benchmarks.

``NAME.parquet`` is a table. The role of a column is the prefix of its name. No prefix: a feature.
``group__``: a sensitive group. ``label__``: something to predict. Columns of any other prefix with
two underscores are left out. ``lfw.npz`` holds gray images of faces.
"""

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from fairspan.datasets import Dataset
from fairspan.errors import InvalidInput, InvalidParameter, import_optional
from fairspan.rows.labels import format_list
from fairspan.typing import AnyArray, FloatArray, IndexArray

_GROUP, _LABEL, _MARK = "group__", "label__", "__"


def load(
    name: str,
    data: str | os.PathLike[str] | None = None,
    group: str | Sequence[str] | None = None,
    leave_out: Sequence[str] = (),
) -> Dataset:
    """Load a table, without changing its values.

    Parameters
    ----------
    name : str
        Such as "default_credit".
    data : path, optional
        The folder; without it, the one that the environment variable FAIRSPAN_DATA names.
    group : str or sequence of str, optional
        Group column, without its prefix; several are crossed. By default the first one.
    leave_out : sequence of str
        Features that are left out.

    Raises
    ------
    InvalidInput, InvalidParameter
        No folder, file or group column of this name.
    """
    path = data_file(name, data)
    import_optional("pyarrow", "arrow", f"Reading {path}")
    from pyarrow import parquet

    table = parquet.read_table(path)
    columns = {name: table[name].to_numpy() for name in table.column_names}
    features = [name for name in columns if _MARK not in name and name not in leave_out]
    groups = [name.removeprefix(_GROUP) for name in columns if name.startswith(_GROUP)]
    labels = [name for name in columns if name.startswith(_LABEL)]
    if group is None:
        requested = groups[:1]
    elif isinstance(group, str):
        requested = [group]
    else:
        requested = list(group)
    if unknown := [group_name for group_name in requested if group_name not in groups]:
        raise InvalidParameter(
            f"{name} has no group column {unknown[0]!r}",
            f"Allowed: {format_list(groups)}",
            "Choose one of these",
        )
    sensitive = np.column_stack(
        [columns[_GROUP + group_name].astype(str) for group_name in requested]
    )
    return Dataset(
        name,
        path.name,
        np.column_stack([columns[feature].astype(np.float64) for feature in features]),
        sensitive[:, 0] if len(requested) == 1 else sensitive,
        tuple(features),
        columns[labels[0]] if labels else None,
    )


def load_faces(
    data: str | os.PathLike[str] | None = None,
    *,
    n_per_gender: int | None = None,
    shape: tuple[int, int] | None = None,
) -> Dataset:
    """Load pictures of faces: gray values from 0 to 1, grouped by gender.

    Labeled Faces in the Wild (Huang et al. 2007) with gender labels (Afifi and Abdelhamed 2017):
    images of 49 rows and 36 columns, one face a row of X.

    Parameters
    ----------
    data : path, optional
        The folder; without it, the one that the environment variable FAIRSPAN_DATA names.
    n_per_gender : int, optional
        Draw as many faces of each gender, without replacement; all faces without it.
    shape : (rows, columns), optional
        Resize every image, each new pixel the average over its area.
    """
    path = data_file("lfw", data)
    with np.load(path, allow_pickle=False) as archive:
        pixels, thirds, male = (archive[key] for key in ("pixels", "thirds", "male"))
    genders = np.where(male == 1, "male", "female")
    rows = np.arange(len(male))
    if n_per_gender is not None:
        rows = balanced_rows(genders, n_per_gender, 0)
    images = (pixels[rows] + thirds[rows] / 3) / 255
    if shape is not None:
        images = resized(images, shape)
    _, n_rows, n_columns = images.shape
    names = tuple(f"row{i}_column{j}" for i in range(n_rows) for j in range(n_columns))
    return Dataset("lfw", path.name, images.reshape(len(images), -1), genders[rows], names)


def data_file(name: str, data: str | os.PathLike[str] | None = None) -> Path:
    """Return the path of a data set's file.

    Raises
    ------
    InvalidInput
        It is not there.
    """
    folder = Path(data or os.environ.get("FAIRSPAN_DATA") or ".")
    path = folder / f"{name}{'.npz' if name == 'lfw' else '.parquet'}"
    if not path.is_file():
        raise InvalidInput(
            f"There is no file {path}",
            f"Expected is the data set {name!r} in the folder of the data files",
            "Name the folder with --data or in the environment variable FAIRSPAN_DATA",
        )
    return path


def balanced_rows(groups: AnyArray, n_per_group: int, seed: int | tuple[int, ...]) -> IndexArray:
    """Draw as many rows of each group, without replacement; in the order of the rows."""
    generator = np.random.default_rng(seed)
    samples = [
        generator.choice(np.flatnonzero(groups == label), n_per_group, replace=False)
        for label in np.unique(groups)
    ]
    return np.sort(np.concatenate(samples))


def resized(images: FloatArray, shape: tuple[int, int]) -> FloatArray:
    """Resize (n, rows, columns) images to a shape by averaging over areas.

    Examples
    --------
    >>> import numpy as np
    >>> resized(np.array([[[0.0, 3.0, 6.0]]]), (1, 2))
    array([[[1., 5.]]])
    """
    down, across = (_averages(*sizes) for sizes in zip(images.shape[1:], shape, strict=True))
    return np.asarray(down @ images @ across.T)


def _averages(n_old: int, n_new: int) -> FloatArray:
    """Return the (new, old) matrix of each old pixel's share in each new one; rows sum to one."""
    edges = np.arange(n_new + 1) * (n_old / n_new)
    old = np.arange(n_old)
    overlap = np.minimum(edges[1:, None], old + 1) - np.maximum(edges[:-1, None], old)
    return np.asarray(np.maximum(overlap, 0.0) * (n_new / n_old))
