"""Faces: grey images of two genders, whole, resized by area, or a balanced sample."""

import os

import numpy as np

from fairspan.datasets.dataset import Dataset, balanced_rows
from fairspan.datasets.folder import data_file
from fairspan.errors import CorruptFile, InvalidParameter
from fairspan.typing import FloatArray


def load_faces(
    data: str | os.PathLike[str] | None = None,
    *,
    n_per_gender: int | None = None,
    shape: tuple[int, int] | None = None,
    seed: int = 0,
    name: str = "lfw",
) -> Dataset:
    """Faces of a data folder, grey values from 0 to 1, grouped by gender.

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
        Of the draw.
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
            "Allowed is an npz file with the arrays pixels and thirds (n, rows, columns) and male",
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
            f"shape is {shape}", "Allowed are one row and one column or more", "Pass such a shape"
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
