"""Sets of a data folder: tables, and grey images of faces.

In a table, the role of a column is the prefix of its name. No prefix: a feature. ``group__``: a
sensitive group. ``label__``: something to predict. Columns of any other prefix with two underscores
are left out.
"""

import os
from collections.abc import Sequence

import numpy as np

from fairspan.datasets.dataset import Dataset, balanced_rows
from fairspan.datasets.folder import data_file
from fairspan.errors import CorruptFile, InvalidParameter, imported
from fairspan.rows.groups import listed
from fairspan.typing import AnyArray, FloatArray

_GROUP, _LABEL, _MARK = "group__", "label__", "__"


def load(
    name: str,
    data: str | os.PathLike[str] | None = None,
    group: str | Sequence[str] | None = None,
) -> Dataset:
    """Load a data set from a data folder, without changing its values.

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
            f"Allowed: {listed([each.removeprefix(_GROUP) for each in groups])}",
            "Choose one of these",
        )
    return column


def _columns(path: os.PathLike[str]) -> dict[str, AnyArray]:
    pa = imported("pyarrow", "arrow", f"Reading {path}")
    from pyarrow import parquet

    try:
        table = parquet.read_table(path)
    except (pa.ArrowException, OSError) as error:
        raise CorruptFile(
            f"{path} cannot be read as Parquet ({type(error).__name__}: {error})",
            "Allowed: a complete Parquet file",
            "Copy the file again; this one is truncated or altered",
        ) from error
    return {name: column.to_numpy() for name, column in zip(table.column_names, table, strict=True)}


def load_faces(
    data: str | os.PathLike[str] | None = None,
    *,
    n_per_gender: int | None = None,
    shape: tuple[int, int] | None = None,
    seed: int = 0,
    name: str = "lfw",
) -> Dataset:
    """Load pictures of faces from a data folder: grey values from 0 to 1, grouped by gender.

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
    seed : int
        Seed of the draw.
    name : str
        Of the file, without its ending.

    Returns
    -------
    Dataset

    Raises
    ------
    InvalidParameter
        More faces than there are, or a shape without pixels.
    InvalidInput, CorruptFile
        The file is missing, or not what the manifest promises.
    """
    path = data_file(name, data).path
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            pixels, thirds, male = (archive[each] for each in ("pixels", "thirds", "male"))
        if pixels.ndim != 3 or thirds.shape != pixels.shape or male.shape != pixels.shape[:1]:
            raise ValueError(f"shapes {pixels.shape}, {thirds.shape} and {male.shape}")
    # Altered bytes make zipfile and numpy raise a dozen kinds of errors, all for one reason.
    except Exception as error:
        raise CorruptFile(
            f"{path} cannot be read as faces ({type(error).__name__}: {error})",
            "Allowed: an npz file with the arrays pixels and thirds (n, rows, columns) and male",
            "Copy the file again",
        ) from error
    genders = np.where(male == 1, "male", "female")
    rows = np.arange(len(male))
    if n_per_gender is not None:
        rows = balanced_rows(genders, n_per_gender, seed)
    images = (pixels[rows] + thirds[rows] / 3) / 255
    if shape is not None:
        images = resized(images, shape)
    return Dataset(
        name=name,
        source=f"{path.name}: Huang et al. (2007)",
        X=images.reshape(len(images), -1),
        sensitive_features=genders[rows],
        feature_names=tuple(
            f"row{i}_column{j}" for i in range(images.shape[1]) for j in range(images.shape[2])
        ),
    )


def resized(images: FloatArray, shape: tuple[int, int]) -> FloatArray:
    """Resize (n, rows, columns) images to a shape by averaging over areas.

    Examples
    --------
    >>> import numpy as np
    >>> resized(np.array([[[0.0, 3.0, 6.0]]]), (1, 2))
    array([[[1., 5.]]])
    """
    if min(shape) < 1:
        raise InvalidParameter(
            f"shape is {shape}", "Allowed: one row and one column or more", "Pass such a shape"
        )
    down = _averages(images.shape[1], shape[0])
    across = _averages(images.shape[2], shape[1])
    return np.asarray(down @ images @ across.T)


def _averages(n_old: int, n_new: int) -> FloatArray:
    """(new, old) matrix: the share of each old pixel in each new one; rows sum to one."""
    edges = np.arange(n_new + 1) * (n_old / n_new)
    old = np.arange(n_old)
    overlap = np.minimum(edges[1:, None], old + 1) - np.maximum(edges[:-1, None], old)
    return np.asarray(np.maximum(overlap, 0.0) * (n_new / n_old))
