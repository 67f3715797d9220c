"""A data set: rows with a group each; two that need no file, and tables fetched from OpenML."""

import os
import shutil
import sys
import warnings
from dataclasses import dataclass, replace
from http.client import HTTPException
from pathlib import Path
from typing import NamedTuple
from urllib.error import HTTPError, URLError

import numpy as np
import numpy.typing as npt

from fairspan.errors import CorruptFile, InvalidInput, InvalidParameter
from fairspan.typing import AnyArray, FloatArray, IndexArray


@dataclass(frozen=True, eq=False)
class Dataset:
    """A data set: rows, each with a group.

    Attributes
    ----------
    name : str
    source : str
        Where the data come from.
    X : (n, p) array
    sensitive_features : (n,) array, or (n, a) where a attributes are crossed
    feature_names : tuple of str
    labels : (n,) array or None
        What is to be predicted from the features, where the set has such a thing.
    """

    name: str
    source: str
    X: FloatArray
    sensitive_features: npt.NDArray[np.str_]
    feature_names: tuple[str, ...]
    labels: AnyArray | None = None

    def without(self, *features: str) -> "Dataset":
        """The same rows without some features.

        Raises
        ------
        ValueError
            There is no such feature.
        """
        left_out = [self.feature_names.index(name) for name in features]
        kept = tuple(name for name in self.feature_names if name not in features)
        return replace(self, X=np.delete(self.X, left_out, axis=1), feature_names=kept)

    def balanced(self, n_per_group: int, seed: int | tuple[int, ...]) -> "Dataset":
        """A sample of as many rows of each group, without replacement.

        Raises
        ------
        InvalidParameter
            More rows than a group has, or none.
        """
        rows = balanced_rows(self.sensitive_features, n_per_group, seed)
        return replace(
            self,
            X=self.X[rows],
            sensitive_features=self.sensitive_features[rows],
            labels=None if self.labels is None else self.labels[rows],
        )


def balanced_rows(groups: AnyArray, n_per_group: int, seed: int | tuple[int, ...]) -> IndexArray:
    """Draw as many rows of each group, without replacement; in the order of the rows.

    Raises
    ------
    InvalidParameter
        More rows than a group has, or none.
    """
    generator = np.random.default_rng(seed)
    drawn = []
    for label in np.unique(groups):
        rows = np.flatnonzero(groups == label)
        if not 1 <= n_per_group <= len(rows):
            raise InvalidParameter(
                f"{n_per_group} rows of each group are requested",
                f"Allowed: 1 to {len(rows)}, the number of rows of {label}",
                "Choose a number in that range",
            )
        drawn.append(generator.choice(rows, n_per_group, replace=False))
    return np.sort(np.concatenate(drawn))


def diabetes_by_sex() -> Dataset:
    """Diabetes patients (Efron et al. 2004) as scikit-learn ships them, grouped by sex.

    442 patients, 9 features: age, body mass index, blood pressure and six blood serum measurements
    in their original units. The source codes sex as 1 and 2 without saying which is which.

    Examples
    --------
    >>> diabetes_by_sex().X.shape
    (442, 9)
    """
    from sklearn.datasets import load_diabetes

    data = load_diabetes(scaled=False)
    names = list(data.feature_names)
    column = names.index("sex")
    return Dataset(
        name="diabetes",
        source="Efron et al. (2004), as shipped with scikit-learn",
        X=np.delete(data.data, column, axis=1),
        sensitive_features=np.array([f"sex {code:.0f}" for code in data.data[:, column]]),
        feature_names=(*names[:column], *names[column + 1 :]),
    )


def tumours_by_diagnosis() -> Dataset:
    """Breast tumours (Street et al. 1993) as scikit-learn ships them, grouped by diagnosis.

    569 patients, 30 features: mean, standard error and largest values of ten measurements of the
    cell nuclei in a digitised image, such as radius, texture and smoothness. 357 tumours are
    benign, 212 are malignant.

    Examples
    --------
    >>> tumours_by_diagnosis().X.shape
    (569, 30)
    """
    from sklearn.datasets import load_breast_cancer

    data = load_breast_cancer()
    return Dataset(
        name="breast tumours",
        source="Street et al. (1993), as shipped with scikit-learn",
        X=data.data,
        sensitive_features=np.asarray(data.target_names[data.target], dtype=np.str_),
        feature_names=tuple(map(str, data.feature_names)),
    )


_VARIABLE = "FAIRSPAN_CACHE"


class Column(NamedTuple):
    """A column of a table: numbers, NaN where missing; or texts, empty where missing."""

    name: str
    values: FloatArray | npt.NDArray[np.str_]


def fetched(number: int, cache: str | os.PathLike[str] | None = None) -> list[Column]:
    """Columns of an OpenML data set.

    A nominal column whose values are all numbers, such as {0, 1}, is a column of numbers.

    Parameters
    ----------
    number : int
        Its id.
    cache : path, optional
        Folder for what is fetched; without it the one that FAIRSPAN_CACHE names, or the platform's.

    Raises
    ------
    InvalidInput
        The server cannot be reached, or does not have it.
    CorruptFile
        What came is not what the server's checksum promises, or no table.
    """
    # Imported here: scikit-learn takes seconds to load.
    from sklearn.datasets import fetch_openml

    # One folder for each set, so that one that came broken is removed as a whole.
    folder = cache_folder(cache) / "openml" / str(number)
    try:
        with warnings.catch_warnings():
            # They tell of attempts that are repeated; the last failure is told below.
            warnings.simplefilter("ignore")
            bunch = fetch_openml(
                data_id=number,
                data_home=folder,
                target_column=None,
                as_frame=False,
                parser="liac-arff",
            )
        if not len(bunch.data):
            raise ValueError("it has no rows")
    except (URLError, TimeoutError, ConnectionError, HTTPException) as error:
        raise _unreachable(number, error) from error
    except OSError:  # the cache cannot be written
        raise
    # What came may break in a dozen ways, all for one reason.
    except Exception as error:
        shutil.rmtree(folder, ignore_errors=True)
        if type(error).__name__ == "OpenMLError":  # the server's way to say that it has no such set
            raise _gone(number, str(error)) from error
        raise CorruptFile(
            f"What came as OpenML {number} cannot be used ({type(error).__name__}: {error})",
            "Expected is a table in the format ARFF, with the checksum that OpenML promises",
            "Try again, nothing was kept of it; if it stays so, the set has been altered",
        ) from error
    return [
        Column(name, _values(values, bunch.categories.get(name)))
        for name, values in zip(bunch.feature_names, bunch.data.T, strict=True)
    ]


def cache_folder(cache: str | os.PathLike[str] | None = None) -> Path:
    """The folder for files that can be fetched again."""
    given = os.environ.get(_VARIABLE) if cache is None else cache
    if given:
        return Path(given)
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home())) / "fairspan"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "fairspan"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fairspan"


def _values(codes: FloatArray, categories: list[str] | None) -> FloatArray | npt.NDArray[np.str_]:
    """Numbers as they are; a nominal column from the positions of its values among `categories`."""
    if categories is None:
        return codes.astype(np.float64)
    missing = np.isnan(codes)
    positions = np.where(missing, 0, codes).astype(np.intp)
    try:
        return np.where(missing, np.nan, np.array(categories, dtype=np.float64)[positions])
    except ValueError:  # they are texts
        return np.where(missing, "", np.array(categories)[positions])


def _unreachable(number: int, error: Exception) -> InvalidInput:
    if isinstance(error, HTTPError):
        with error:
            return _gone(number, f"{error.url} answers {error.code} {error.reason}")
    return InvalidInput(
        f"OpenML {number} cannot be reached ({getattr(error, 'reason', error)})",
        "Fetching needs a network",
        "Check the connection and try again; offline, load the same set from a data folder "
        "with fairspan.datasets.load",
    )


def _gone(number: int, answer: str) -> InvalidInput:
    return InvalidInput(
        answer.removesuffix("."),
        f"Expected is the data set OpenML {number}",
        "Try again later; if it stays so, OpenML no longer has it",
    )
