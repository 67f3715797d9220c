"""Example data sets: one shipped, two from scikit-learn, and three downloaded on first use.

Nothing is downloaded on import or by other parts of fairspan.
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
from typing import NamedTuple
from urllib.error import HTTPError, URLError

import numpy as np
import numpy.typing as npt

from fairspan.errors import CorruptFile, InvalidInput, InvalidParameter
from fairspan.parameters import check_choice
from fairspan.rows.labels import format_list
from fairspan.typing import AnyArray, FloatArray

__all__ = [
    "Dataset",
    "fetch_adult",
    "fetch_compas",
    "fetch_default_credit",
    "load_adult",
    "load_adult_by_race",
    "load_adult_by_sex",
    "load_breast_cancer_by_diagnosis",
    "load_diabetes_by_sex",
]

_CACHE_VARIABLE = "FAIRSPAN_CACHE"
# The shipped file stores text columns as codes plus an array of values.
_VALUES_SUFFIX = " values"
_CREDIT_NAMES = (
    *("LIMIT_BAL", "SEX", "EDUCATION", "MARRIAGE", "AGE"),
    *(f"PAY_{month}" for month in range(1, 7)),
    *(f"BILL_AMT{month}" for month in range(1, 7)),
    *(f"PAY_AMT{month}" for month in range(1, 7)),
)


@dataclass(frozen=True, eq=False)
class Dataset:
    """Data set with a group for each row.

    Attributes
    ----------
    name : str
    source : str
        Source of the data.
    X : (n, p) array
    sensitive_features : (n,) array, or (n, a) where a attributes are crossed
    feature_names : tuple of str
    y : (n,) array or None
        Prediction target, if the data set has one.
    """

    name: str
    source: str
    X: FloatArray
    sensitive_features: npt.NDArray[np.str_]
    feature_names: tuple[str, ...]
    y: AnyArray | None = None


_FEATURES_BY_RACE = (
    "age",
    "education-num",
    "hours-per-week",
    "sex=Female",
    "marital-status=Married-civ-spouse",
    "marital-status=Never-married",
    "relationship=Own-child",
)
_SPOUSE_NAMES = {
    "relationship=Husband": "relationship=Spouse",
    "relationship=Wife": "relationship=Spouse",
}
# A rarer value, scaled to unit variance, would dominate a component.
_MIN_PEOPLE = 100
_ADULT_GROUP_FORMATTERS: dict[str, Callable[[object], str]] = {"race": str, "sex": str}


def load_adult(group: str = "race") -> Dataset:
    """Adult census income (Becker and Kohavi 1996), the 32,561 rows of the training file.

    Shipped with fairspan (CC BY 4.0, see LICENSES/adult.md); nothing is downloaded.

    Parameters
    ----------
    group : {"race", "sex"}
        Group column; race has five values. It is not a feature.

    Returns
    -------
    Dataset
        Five numeric features (age, years of education, capital gain and loss, hours per week) and
        one-hot encoded text columns (all zeros if missing). The sampling weight fnlwgt is excluded.
        `y` says whether the income exceeds 50,000 dollars.

    Raises
    ------
    InvalidParameter
        Unknown group.

    Examples
    --------
    >>> data = load_adult()
    >>> data.X.shape, sorted(set(data.sensitive_features.tolist()))[:2]
    ((32561, 99), ['Amer-Indian-Eskimo', 'Asian-Pac-Islander'])
    """
    path = resources.files("fairspan").joinpath("adult.npz")
    with path.open("rb") as file, np.load(file) as archive:
        arrays = {name: values for name, values in archive.items() if name != "attribution"}
    columns = {}
    for name, values in arrays.items():
        if name.endswith(_VALUES_SUFFIX):
            continue
        # A text column is stored as codes, with its texts in a second array.
        categories = arrays.get(name + _VALUES_SUFFIX)
        decoded = values.astype(float) if categories is None else categories[values]
        columns[name] = RawColumn(name, decoded)
    source = "Adult (Becker and Kohavi 1996, UCI)"
    return _make_dataset("adult", columns, source, group, _ADULT_GROUP_FORMATTERS, label="class")


def load_adult_by_race() -> Dataset:
    """Adult census income with seven features, for 3,124 Black people and 29,437 others.

    The 32,561 people of :func:`load_adult`. The features are age, years of education, hours of work
    per week, and whether a person is a woman, is married, never married, and is a child of the
    householder. The other races are one group, "other", as three of them are small.

    Examples
    --------
    >>> load_adult_by_race().X.shape
    (32561, 7)
    """
    data = load_adult("race")
    columns = [data.feature_names.index(name) for name in _FEATURES_BY_RACE]
    return replace(
        data,
        name="Adult by race",
        X=data.X[:, columns],
        sensitive_features=np.where(data.sensitive_features == "Black", "Black", "other"),
        feature_names=_FEATURES_BY_RACE,
    )


def load_adult_by_sex() -> Dataset:
    """Adult census income, preprocessed for PCA and grouped by sex.

    The 32,561 people of :func:`load_adult`, 10,771 women and 21,790 men, with 40 features: age,
    years of education, capital gain and loss, hours per week, and one for each value of work class,
    marital status, occupation, relationship and race. It differs from ``load_adult("sex")`` in four
    ways:

    - "Husband" and "Wife" are merged into "Spouse", as they reveal the sex;
    - the education categories are dropped, being redundant with the years of education;
    - the 41 countries are dropped, as nine people in ten have the same one;
    - four values with fewer than 100 people are dropped, as each would dominate a component after
      scaling.

    Examples
    --------
    >>> load_adult_by_sex().X.shape
    (32561, 40)
    """
    data = load_adult("sex")
    columns: dict[str, FloatArray] = {}
    for name, values in zip(data.feature_names, data.X.T, strict=True):
        merged_name = _SPOUSE_NAMES.get(name, name)
        is_redundant = merged_name.startswith(("education=", "native-country="))
        if not is_redundant and values.sum() >= _MIN_PEOPLE:
            columns[merged_name] = columns.get(merged_name, 0.0) + values
    X = np.column_stack([*columns.values()])
    return replace(data, name="Adult by sex", X=X, feature_names=tuple(columns))


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
    """Breast tumors (Street et al. 1993) as scikit-learn ships them, grouped by diagnosis.

    569 patients, 30 features: mean, standard error and largest values of ten measurements of the
    cell nuclei in a digitized image, such as radius, texture and smoothness. 357 tumors are
    benign, 212 are malignant.

    Examples
    --------
    >>> load_breast_cancer_by_diagnosis().X.shape
    (569, 30)
    """
    from sklearn.datasets import load_breast_cancer

    data = load_breast_cancer()
    return Dataset(
        name="breast tumors",
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
    cache_dir : path, optional
        Cache directory; defaults to FAIRSPAN_CACHE or the platform's cache directory.

    Returns
    -------
    Dataset
        30,000 rows and 22 features, in the units of the source.

    Raises
    ------
    InvalidInput
        The server is unreachable, lacks the data set, or returns unexpected columns.
    CorruptFile
        The checksum of the downloaded file is wrong.
    InvalidParameter
        Unknown group.
    """
    columns = fetch_openml_columns(42477, cache_dir)
    # The source names columns x1 to x23.
    for number, name in enumerate(_CREDIT_NAMES, start=1):
        if f"x{number}" in columns:
            columns[name.lower()] = RawColumn(name, columns.pop(f"x{number}").values)
    group_formatters: Mapping[str, Callable[[float | str], str]] = {
        "education": lambda code: "higher" if code in (1, 2) else "lower",
        "sex": lambda code: "male" if code == 1 else "female",
    }
    source = "OpenML 42477"
    return _make_dataset("default_credit", columns, source, group, group_formatters, label="y")


def fetch_adult(
    group: str = "sex",
    *,
    subset: str = "all",
    cache_dir: str | os.PathLike[str] | None = None,
) -> Dataset:
    """Adult census income (Becker and Kohavi 1996), OpenML 1590.

    Parameters
    ----------
    group : {"sex", "race"}
    subset : {"all", "train", "test"}
        All rows, or only those of the original training or test file. Training rows are located by
        comparison with :func:`load_adult`.
    cache_dir : path, optional
        Same as for :func:`fetch_default_credit`, with the same errors.

    Returns
    -------
    Dataset
        48,842 rows (training 32,561, test 16,281). Text columns are one-hot encoded (all zeros if
        missing); the sampling weight fnlwgt is excluded.

    Raises
    ------
    InvalidInput
        Also if a subset is requested and the training rows are not contiguous.
    InvalidParameter
        Unknown group or subset.
    """
    check_choice("subset", subset, ("all", "train", "test"))
    columns = fetch_openml_columns(1590, cache_dir)
    columns.pop("fnlwgt", None)
    if subset != "all":
        is_training = _training_mask(columns)
        mask = is_training if subset == "train" else ~is_training
        columns = {
            name: RawColumn(column.name, column.values[mask]) for name, column in columns.items()
        }
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
        Group column; sex is coded as in the source.
    cache_dir : path, optional
        Same as for :func:`fetch_default_credit`, with the same errors.

    Returns
    -------
    Dataset
    """
    columns = fetch_openml_columns(42192, cache_dir)
    # The column is named two_year_recid, in some versions without underscores.
    label = "twoyearrecid"
    for name in columns:
        if name.replace("_", "") == "twoyearrecid":
            label = name
            break
    group_formatters: Mapping[str, Callable[[float | str], str]] = {
        "race": str,
        "sex": lambda code: str(code) if isinstance(code, str) else f"sex {code:.0f}",
    }
    return _make_dataset("compas", columns, "OpenML 42192", group, group_formatters, label=label)


def _training_mask(columns: Mapping[str, "RawColumn"]) -> npt.NDArray[np.bool_]:
    """Mask of the training rows among all rows of Adult, shape (n,).

    OpenML 1590 has the rows of the original training and test files, one after the other, so the
    training rows are the first or the last ones. Their ages tell which.

    Raises
    ------
    InvalidInput
        Neither the first nor the last rows have the ages of the training file.
    """
    training_ages = load_adult().X[:, 0]  # age is the first feature
    ages = columns["age"].values if "age" in columns else np.empty(0)
    n_training = len(training_ages)
    for start in (0, len(ages) - n_training):
        indices = np.arange(len(ages))
        mask = (indices >= start) & (indices < start + n_training)
        if np.array_equal(ages[mask], training_ages):
            return mask
    raise InvalidInput(
        f"OpenML 1590 has {len(ages)} rows without the contiguous training rows of Adult",
        f"Expected: {n_training} rows with the ages of load_adult(), at the start or end",
        "Use load_adult(), which has the training rows and needs no download",
    )


class RawColumn(NamedTuple):
    """Column of numbers (NaN if missing) or text (empty if missing)."""

    name: str
    values: FloatArray | npt.NDArray[np.str_]


def fetch_openml_columns(
    data_id: int, cache_dir: str | os.PathLike[str] | None = None
) -> dict[str, RawColumn]:
    """Fetch the columns of an OpenML data set, by lower-case name.

    Nominal columns with numeric values, such as {0, 1}, become numeric.

    Parameters
    ----------
    data_id : int
        OpenML id of the data set.
    cache_dir : path, optional
        Cache directory; defaults to FAIRSPAN_CACHE or the platform's cache directory.

    Raises
    ------
    InvalidInput
        The server is unreachable or lacks the data set.
    CorruptFile
        The download has a wrong checksum or is not a table.
    """
    # Imported here: scikit-learn takes seconds to load.
    from sklearn.datasets import fetch_openml

    # One directory per data set, so that a corrupt download can be removed entirely.
    folder = cache_directory(cache_dir) / "openml" / str(data_id)
    try:
        with warnings.catch_warnings():
            # Warnings about retries; the final failure is raised below.
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
    # Corrupt data raise many exception types.
    except Exception as error:
        shutil.rmtree(folder, ignore_errors=True)
        # The data set does not exist.
        if type(error).__name__ == "OpenMLError":
            raise _not_available_error(data_id, str(error)) from error
        raise CorruptFile(
            f"The download of OpenML {data_id} is unusable ({type(error).__name__}: {error})",
            "Expected: an ARFF table with OpenML's checksum",
            "Try again (nothing was cached); if the error persists, the data set has changed",
        ) from error
    return {
        name.lower(): RawColumn(name, _decode_column(values, bunch.categories.get(name)))
        for name, values in zip(bunch.feature_names, bunch.data.T, strict=True)
    }


def cache_directory(cache_dir: str | os.PathLike[str] | None = None) -> Path:
    """Return the cache directory for downloads."""
    configured_dir = os.environ.get(_CACHE_VARIABLE) if cache_dir is None else cache_dir
    if configured_dir:
        return Path(configured_dir)
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home())) / "fairspan"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "fairspan"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fairspan"


def _decode_column(
    codes: FloatArray, categories: list[str] | None
) -> FloatArray | npt.NDArray[np.str_]:
    """Decode a column: numbers unchanged, nominal columns from category codes.

    A code is an index into the categories, or NaN for a missing value, which becomes NaN among
    numeric categories and an empty text among others.
    """
    if categories is None:
        return codes.astype(np.float64)
    missing = np.isnan(codes)
    positions = np.where(missing, 0, codes).astype(np.intp)
    try:
        return np.where(missing, np.nan, np.array(categories, dtype=np.float64)[positions])
    except ValueError:  # text categories
        return np.where(missing, "", np.array(categories)[positions])


def _unreachable_error(data_id: int, error: Exception) -> InvalidInput:
    if isinstance(error, HTTPError):
        with error:
            return _not_available_error(data_id, f"{error.url} answers {error.code} {error.reason}")
    return InvalidInput(
        f"OpenML {data_id} is unreachable ({getattr(error, 'reason', error)})",
        "Downloading needs a network connection",
        "Check the connection and try again; offline, pass a cache directory copied from another "
        f"machine, with cache_dir or {_CACHE_VARIABLE}",
    )


def _not_available_error(data_id: int, answer: str) -> InvalidInput:
    return InvalidInput(
        answer.removesuffix("."),
        f"Expected: the data set OpenML {data_id}",
        "Try again later; if the error persists, OpenML no longer has it",
    )


def _make_dataset(
    name: str,
    columns: dict[str, RawColumn],
    source: str,
    group: str,
    group_formatters: Mapping[str, Callable[[float | str], str]],
    label: str,
) -> Dataset:
    """Make a data set from columns, of which group and label are taken out and others encoded.

    Parameters
    ----------
    name : str
    columns : dict of str to RawColumn
        All columns by lower-case name; changed in place.
    source : str
    group : str
        Name of the group column.
    group_formatters : mapping of str to callable
        By name of each allowed group column, a function from its values to the names of groups.
    label : str
        Name of the column that is the prediction target.

    Raises
    ------
    InvalidParameter, InvalidInput, CorruptFile
        An unknown group; a column is missing; a feature has missing values.
    """
    if group not in group_formatters:
        raise InvalidParameter(
            f"group is {group!r}",
            f"Allowed: {format_list(list(group_formatters))}",
            "Choose one of these",
        )
    if label not in columns:
        raise _unexpected_columns_error(source, list(columns), f"a column {label!r}")
    y = columns.pop(label).values
    groups = _pop_groups(columns, source, group, group_formatters[group])
    features = [feature for column in columns.values() for feature in _one_hot_features(column)]
    names = tuple(feature for feature, _ in features)
    X = np.column_stack([values for _, values in features])
    if not np.isfinite(X).all():
        incomplete = [feature for feature, values in features if not np.isfinite(values).all()]
        raise CorruptFile(
            f"Columns {format_list(incomplete)} of {source} have missing values",
            "Expected: a number in every row",
            "The data set has changed at its source; use another copy",
        )
    return Dataset(name, source, X, groups, names, y)


def _pop_groups(
    columns: dict[str, RawColumn],
    source: str,
    group: str,
    format_group: Callable[[float | str], str],
) -> npt.NDArray[np.str_]:
    """Remove the group column, or its one-hot columns GROUP_VALUE, and return the groups.

    A row in which no one-hot column is set belongs to the group "other".
    """
    if group in columns:
        return np.array([format_group(value) for value in columns.pop(group).values.tolist()])
    group_columns = [name for name in columns if name.startswith(f"{group}_")]
    if not group_columns:
        raise _unexpected_columns_error(source, list(columns), f"a column {group!r}")
    names = [columns[name].name[len(group) + 1 :] for name in group_columns]
    indicators = np.column_stack([columns.pop(name).values.astype(float) for name in group_columns])
    return np.where(indicators.any(axis=1), np.array(names)[indicators.argmax(axis=1)], "other")


def _one_hot_features(column: RawColumn) -> list[tuple[str, FloatArray]]:
    """Features of a column: numeric unchanged, text one-hot encoded."""
    if column.values.dtype.kind == "f":
        return [(column.name, column.values.astype(np.float64))]
    return [
        (f"{column.name}={value}", (column.values == value).astype(np.float64))
        for value in np.unique(column.values).tolist()
        if value
    ]


def _unexpected_columns_error(source: str, names: list[str], expected: str) -> InvalidInput:
    return InvalidInput(
        f"{source} has the columns {format_list(names, max_items=40)}",
        f"Expected: {expected}",
        "The data set has changed at its source; use another copy",
    )
