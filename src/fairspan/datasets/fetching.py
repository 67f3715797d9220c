"""Tables of OpenML, fetched once by scikit-learn and kept in a cache folder."""

import os
import shutil
import sys
import warnings
from http.client import HTTPException
from pathlib import Path
from typing import NamedTuple
from urllib.error import HTTPError, URLError

import numpy as np
import numpy.typing as npt

from fairspan.errors import CorruptFile, InvalidInput
from fairspan.typing import FloatArray

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
