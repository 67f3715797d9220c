"""Real data: one set that fairspan ships, two of scikit-learn, three that are fetched once.

Nothing is fetched on import or by any other part of fairspan.
"""

import os
import shutil
import sys
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from http.client import HTTPException
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple
from urllib.error import HTTPError, URLError

import numpy as np
import numpy.typing as npt

from fairspan.errors import CorruptFile, InvalidInput, InvalidParameter
from fairspan.registry import check_choice
from fairspan.rows.groups import format_list
from fairspan.typing import AnyArray, FloatArray

__all__ = [
    "Dataset",
    "fetch_compas",
    "fetch_default_credit",
    "load_adult",
    "load_adult_by_sex",
    "load_breast_cancer_by_diagnosis",
    "load_diabetes_by_sex",
    "subset",
]


_CACHE_VARIABLE = "FAIRSPAN_CACHE"
# The shipped file stores a column of texts as positions in another array, its values.
_VALUES_SUFFIX = " values"
_CREDIT_NAMES = (
    *("LIMIT_BAL", "SEX", "EDUCATION", "MARRIAGE", "AGE"),
    *(f"PAY_{month}" for month in range(1, 7)),
    *(f"BILL_AMT{month}" for month in range(1, 7)),
    *(f"PAY_AMT{month}" for month in range(1, 7)),
)


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
    y: AnyArray | None = None


_SPOUSE_NAMES = {f"relationship={each}": "relationship=Spouse" for each in ("Husband", "Wife")}
_MIN_PEOPLE = 100
_ADULT_GROUP_FORMATTERS: dict[str, Callable[[Any], str]] = {"race": str, "sex": str}


def load_adult(group: str = "race") -> Dataset:
    """Adult census income (Becker and Kohavi 1996), the 32,561 rows of the training file.

    It comes with fairspan (CC BY 4.0, see LICENSES/adult.md); nothing is fetched.

    Parameters
    ----------
    group : {"race", "sex"}
        Race has five values. The column is no feature.

    Returns
    -------
    Dataset
        Five numbers (age, years of education, capital gain and loss, hours per week) and one
        feature for each value of the columns of text, all zero where it is missing. The sampling
        weight fnlwgt is left out. `labels` say whether the income is above 50,000 dollars.

    Raises
    ------
    InvalidParameter
        Another group.

    Examples
    --------
    >>> data = adult()
    >>> data.X.shape, sorted(set(data.sensitive_features.tolist()))[:2]
    ((32561, 99), ['Amer-Indian-Eskimo', 'Asian-Pac-Islander'])
    """
    with (
        resources.files("fairspan").joinpath("adult.npz").open("rb") as file,
        np.load(file) as held,
    ):
        stored = {name: values for name, values in held.items() if name != "attribution"}
    texts = {name.removesuffix(_VALUES_SUFFIX) for name in stored if name.endswith(_VALUES_SUFFIX)}
    columns = {
        name: RawColumn(
            name, stored[name + _VALUES_SUFFIX][codes] if name in texts else codes.astype(float)
        )
        for name, codes in stored.items()
        if not name.endswith(_VALUES_SUFFIX)
    }
    source = "Adult (Becker and Kohavi 1996, UCI)"
    return _make_dataset("adult", columns, source, group, _ADULT_GROUP_FORMATTERS, label="class")


def load_adult_by_sex() -> Dataset:
    """Adult census income as a table that a projection can be fitted to, grouped by sex.

    The 32,561 people of :func:`adult`, 10,771 women and 21,790 men, with 40 features: age, years of
    education, capital gain and loss, hours per week, and one for each value of work class, marital
    status, occupation, relationship and race. Four things differ from ``adult("sex")``:

    - "Husband" and "Wife" are one value, "Spouse", as they would tell the sex;
    - the texts of education are left out, since the years of education say the same;
    - the 41 countries are left out, as nine people in ten are of one;
    - so are four values of fewer than 100 people, which would decide a direction by themselves
      once features are scaled.

    Examples
    --------
    >>> load_adult_by_sex().X.shape
    (32561, 40)
    """
    whole = load_adult("sex")
    columns: dict[str, FloatArray] = {}
    for name, values in zip(whole.feature_names, whole.X.T, strict=True):
        kept = _SPOUSE_NAMES.get(name, name)
        if not kept.startswith(("education=", "native-country=")) and values.sum() >= _MIN_PEOPLE:
            columns[kept] = columns.get(kept, 0.0) + values
    X = np.column_stack([*columns.values()])
    return replace(whole, name="Adult by sex", X=X, feature_names=tuple(columns))


def load_diabetes_by_sex() -> Dataset:
    """Diabetes patients (Efron et al. 2004) as scikit-learn ships them, grouped by sex.

    442 patients, 9 features: age, body mass index, blood pressure and six blood serum measurements
    in their original units. The source codes sex as 1 and 2 without saying which is which.

    Examples
    --------
    >>> load_diabetes_by_sex().X.shape
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


def load_breast_cancer_by_diagnosis() -> Dataset:
    """Breast tumours (Street et al. 1993) as scikit-learn ships them, grouped by diagnosis.

    569 patients, 30 features: mean, standard error and largest values of ten measurements of the
    cell nuclei in a digitised image, such as radius, texture and smoothness. 357 tumours are
    benign, 212 are malignant.

    Examples
    --------
    >>> load_breast_cancer_by_diagnosis().X.shape
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


def fetch_default_credit(
    group: str = "education",
    *,
    cache_dir: str | os.PathLike[str] | None = None,
) -> Dataset:
    """Default of credit card clients (Yeh and Lien 2009), OpenML 42477.

    Parameters
    ----------
    group : {"education", "sex"}
        "higher" is graduate school or university, as in Samadi et al. (2018).
    cache : path, optional
        Folder for the file; without it the one that FAIRSPAN_CACHE names, or the platform's.

    Returns
    -------
    Dataset
        30,000 rows, 22 features: the other columns in units of the source.

    Raises
    ------
    InvalidInput
        The server cannot be reached, does not have it, or gives other columns than expected.
    CorruptFile
        The downloaded file does not have the server's checksum.
    InvalidParameter
        Another group.
    """
    columns = fetch_openml_columns(42477, cache_dir)
    # The source names columns x1 to x23.
    for number, name in enumerate(_CREDIT_NAMES, start=1):
        if f"x{number}" in columns:
            columns[name.lower()] = RawColumn(name, columns.pop(f"x{number}").values)
    spell: Mapping[str, Callable[[float], str]] = {
        "education": lambda code: "higher" if code in (1, 2) else "lower",
        "sex": lambda code: "male" if code == 1 else "female",
    }
    return _make_dataset("default_credit", columns, "OpenML 42477", group, spell, label="y")


def subset(
    group: str = "sex",
    *,
    part: str = "all",
    cache_dir: str | os.PathLike[str] | None = None,
) -> Dataset:
    """Adult census income (Becker and Kohavi 1996), OpenML 1590.

    Parameters
    ----------
    group : {"sex", "race"}
    part : {"all", "train", "test"}
        The rows of the source's training or test file alone. The training rows are those of
        :func:`adult`, by which they are found.
    cache
        As for :func:`fetch_default_credit`, with the same errors.

    Returns
    -------
    Dataset
        48,842 rows; 32,561 and 16,281 of its parts. Columns of text become one feature for each
        value, all zero where it is missing; the sampling weight fnlwgt is left out.

    Raises
    ------
    InvalidInput
        Also where a part is requested and the table does not hold the training rows together.
    InvalidParameter
        Another group or part.
    """
    check_choice("part", part, ("all", "train", "test"))
    columns = fetch_openml_columns(1590, cache_dir)
    columns.pop("fnlwgt", None)
    if part != "all":
        trained = _training_mask(columns)
        rows = trained if part == "train" else ~trained
        columns = {name: RawColumn(each.name, each.values[rows]) for name, each in columns.items()}
    return _make_dataset(
        "adult", columns, "OpenML 1590", group, _ADULT_GROUP_FORMATTERS, label="class"
    )


def fetch_compas(
    group: str = "race",
    *,
    cache_dir: str | os.PathLike[str] | None = None,
) -> Dataset:
    """Recidivism within two years (ProPublica; Angwin et al. 2016), OpenML 42192.

    Parameters
    ----------
    group : {"race", "sex"}
        Sex as the source codes it.
    cache
        As for :func:`fetch_default_credit`, with the same errors.

    Returns
    -------
    Dataset
    """
    columns = fetch_openml_columns(42192, cache_dir)
    label = next((name for name in columns if name.replace("_", "") == "twoyearrecid"), "")
    spell: Mapping[str, Callable[[float], str]] = {
        "race": str,
        "sex": lambda code: str(code) if isinstance(code, str) else f"sex {code:.0f}",
    }
    return _make_dataset(
        "compas", columns, "OpenML 42192", group, spell, label=label or "twoyearrecid"
    )


def _training_mask(columns: Mapping[str, "RawColumn"]) -> npt.NDArray[np.bool_]:
    """Which rows of Adult are those of the training file, wherever it begins, shape (n,)."""
    shipped = load_adult("sex").X[:, 0]  # their ages
    ages = columns["age"].values if "age" in columns else np.empty(0)
    for start in (0, len(ages) - len(shipped)):
        where = np.arange(len(ages))
        rows = (where >= start) & (where < start + len(shipped))
        if np.array_equal(ages[rows], shipped):
            return rows
    raise InvalidInput(
        f"OpenML 1590 has {len(ages)} rows, which do not hold the training rows of Adult together",
        f"Expected are {len(shipped)} rows with the ages of datasets.adult(), first or last",
        "Use datasets.adult(), which has the training rows and needs no network",
    )


class RawColumn(NamedTuple):
    """A column of a table: numbers, NaN where missing; or texts, empty where missing."""

    name: str
    values: FloatArray | npt.NDArray[np.str_]


def fetch_openml_columns(
    data_id: int, cache_dir: str | os.PathLike[str] | None = None
) -> dict[str, RawColumn]:
    """Columns of an OpenML data set by their names in lower case.

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
    folder = cache_directory(cache_dir) / "openml" / str(data_id)
    try:
        with warnings.catch_warnings():
            # They tell of attempts that are repeated; the last failure is told below.
            warnings.simplefilter("ignore")
            bunch = fetch_openml(
                data_id=data_id,
                data_home=folder,
                target_column=None,
                as_frame=False,
                parser="liac-arff",
            )
        if not len(bunch.data):
            raise ValueError("it has no rows")
    except (URLError, TimeoutError, ConnectionError, HTTPException) as error:
        raise _unreachable_error(data_id, error) from error
    except OSError:  # the cache cannot be written
        raise
    # What came may break in a dozen ways, all for one reason.
    except Exception as error:
        shutil.rmtree(folder, ignore_errors=True)
        if type(error).__name__ == "OpenMLError":  # the server's way to say that it has no such set
            raise _not_available_error(data_id, str(error)) from error
        raise CorruptFile(
            f"What came as OpenML {data_id} cannot be used ({type(error).__name__}: {error})",
            "Expected is a table in the format ARFF, with the checksum that OpenML promises",
            "Try again, nothing was kept of it; if it stays so, the set has been altered",
        ) from error
    return {
        name.lower(): RawColumn(name, _decode_column(values, bunch.categories.get(name)))
        for name, values in zip(bunch.feature_names, bunch.data.T, strict=True)
    }


def cache_directory(cache_dir: str | os.PathLike[str] | None = None) -> Path:
    """The folder for files that can be fetched again."""
    given = os.environ.get(_CACHE_VARIABLE) if cache_dir is None else cache_dir
    if given:
        return Path(given)
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home())) / "fairspan"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "fairspan"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fairspan"


def _decode_column(
    codes: FloatArray, categories: list[str] | None
) -> FloatArray | npt.NDArray[np.str_]:
    """Numbers as they are; a nominal column from the positions of its values among `categories`."""
    if categories is None:
        return codes.astype(np.float64)
    missing = np.isnan(codes)
    positions = np.where(missing, 0, codes).astype(np.intp)
    try:
        return np.where(missing, np.nan, np.array(categories, dtype=np.float64)[positions])
    except ValueError:  # they are texts
        return np.where(missing, "", np.array(categories)[positions])


def _unreachable_error(number: int, error: Exception) -> InvalidInput:
    if isinstance(error, HTTPError):
        with error:
            return _not_available_error(number, f"{error.url} answers {error.code} {error.reason}")
    return InvalidInput(
        f"OpenML {number} cannot be reached ({getattr(error, 'reason', error)})",
        "Fetching needs a network",
        "Check the connection and try again; offline, name a copy of the cache folder of another "
        f"machine, with cache or {_CACHE_VARIABLE}",
    )


def _not_available_error(number: int, answer: str) -> InvalidInput:
    return InvalidInput(
        answer.removesuffix("."),
        f"Expected is the data set OpenML {number}",
        "Try again later; if it stays so, OpenML no longer has it",
    )


def _make_dataset(
    name: str,
    columns: dict[str, RawColumn],
    source: str,
    group: str,
    spell: Mapping[str, Callable[[float], str]],
    label: str,
) -> Dataset:
    if group not in spell:
        raise InvalidParameter(
            f"group is {group!r}", f"Allowed: {format_list(list(spell))}", "Choose one of these"
        )
    if label not in columns:
        raise _unexpected_columns_error(source, list(columns), f"a column {label!r}")
    labels = columns.pop(label).values
    groups = _pop_groups(columns, source, group, spell[group])
    features = [feature for column in columns.values() for feature in _one_hot_features(column)]
    names = tuple(feature for feature, _ in features)
    X = np.column_stack([values for _, values in features])
    if not np.isfinite(X).all():
        missing = [each for each, values in features if not np.isfinite(values).all()]
        raise CorruptFile(
            f"The columns {format_list(missing)} of {source} have missing numbers",
            "Expected is a number in every row",
            "The set has changed at its source; use another copy of it",
        )
    return Dataset(name, source, X, groups, names, labels)


def _pop_groups(
    columns: dict[str, RawColumn], source: str, group: str, spell: Callable[[float], str]
) -> npt.NDArray[np.str_]:
    """Take the group column, or the block of columns GROUP_VALUE, out of the features."""
    if group in columns:
        return np.array([spell(value) for value in columns.pop(group).values.tolist()])
    block = [each for each in columns if each.startswith(f"{group}_")]
    if not block:
        raise _unexpected_columns_error(source, list(columns), f"a column {group!r}")
    names = [columns[each].name[len(group) + 1 :] for each in block]
    marks = np.column_stack([columns.pop(each).values.astype(float) for each in block])
    return np.where(marks.any(axis=1), np.array(names)[marks.argmax(axis=1)], "other")


def _one_hot_features(column: RawColumn) -> list[tuple[str, FloatArray]]:
    """A column of numbers as it is; a column of texts as one feature for each value."""
    if column.values.dtype.kind == "f":
        return [(column.name, column.values.astype(np.float64))]
    return [
        (f"{column.name}={value}", (column.values == value).astype(np.float64))
        for value in np.unique(column.values).tolist()
        if value
    ]


def _unexpected_columns_error(source: str, found: list[str], expected: str) -> InvalidInput:
    return InvalidInput(
        f"{source} has the columns {format_list(found, max_items=40)}",
        f"Expected is {expected}",
        "The set has changed at its source; use another copy of it",
    )
