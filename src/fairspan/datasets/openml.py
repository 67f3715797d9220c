"""Data sets fetched from OpenML once, and kept in a cache folder.

Nothing is fetched on import or by any other part of fairspan.
"""

import os
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from fairspan.datasets.dataset import Column, Dataset, fetched
from fairspan.errors import CorruptFile, InvalidInput, InvalidParameter
from fairspan.rows.groups import listed
from fairspan.typing import FloatArray

_CREDIT_NAMES = (
    *("LIMIT_BAL", "SEX", "EDUCATION", "MARRIAGE", "AGE"),
    *(f"PAY_{month}" for month in range(1, 7)),
    *(f"BILL_AMT{month}" for month in range(1, 7)),
    *(f"PAY_AMT{month}" for month in range(1, 7)),
)


def fetch_default_credit(
    group: str = "education",
    *,
    cache: str | os.PathLike[str] | None = None,
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
    columns = _by_name(fetched(42477, cache), 42477)
    # The source names columns x1 to x23.
    for number, name in enumerate(_CREDIT_NAMES, start=1):
        if f"x{number}" in columns:
            columns[name.lower()] = Column(name, columns.pop(f"x{number}").values)
    spell: Mapping[str, Callable[[float], str]] = {
        "education": lambda code: "higher" if code in (1, 2) else "lower",
        "sex": lambda code: "male" if code == 1 else "female",
    }
    return _dataset("default_credit", columns, 42477, group, spell, label="y")


def fetch_adult(
    group: str = "sex",
    *,
    cache: str | os.PathLike[str] | None = None,
) -> Dataset:
    """Adult census income (Becker and Kohavi 1996), OpenML 1590.

    Parameters
    ----------
    group : {"sex", "race"}
    cache
        As for :func:`fetch_default_credit`, with the same errors.

    Returns
    -------
    Dataset
        48,842 rows. Columns of text become one feature for each value, all zero where it is
        missing; the sampling weight fnlwgt is left out.
    """
    columns = _by_name(fetched(1590, cache), 1590)
    columns.pop("fnlwgt", None)
    return _dataset("adult", columns, 1590, group, {"sex": str, "race": str}, label="class")


def fetch_compas(
    group: str = "race",
    *,
    cache: str | os.PathLike[str] | None = None,
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
    columns = _by_name(fetched(42192, cache), 42192)
    label = next((name for name in columns if name.replace("_", "") == "twoyearrecid"), "")
    spell: Mapping[str, Callable[[float], str]] = {"race": str, "sex": _spelled}
    return _dataset("compas", columns, 42192, group, spell, label=label or "twoyearrecid")


def _by_name(columns: Sequence[Column], number: int) -> dict[str, Column]:
    by_name = {column.name.lower(): column for column in columns}
    if len(by_name) < len(columns):
        raise _unexpected(number, list(by_name), "names that differ")
    return by_name


def _dataset(
    name: str,
    columns: dict[str, Column],
    number: int,
    group: str,
    spell: Mapping[str, Callable[[float], str]],
    label: str,
) -> Dataset:
    if group not in spell:
        raise InvalidParameter(
            f"group is {group!r}", f"Allowed: {listed(list(spell))}", "Choose one of these"
        )
    if label not in columns:
        raise _unexpected(number, list(columns), f"a column {label!r}")
    labels = columns.pop(label).values
    groups = _groups(columns, number, group, spell[group])
    features = [feature for column in columns.values() for feature in _numbers(column)]
    names = tuple(feature for feature, _ in features)
    X = np.column_stack([values for _, values in features])
    if not np.isfinite(X).all():
        missing = [each for each, values in features if not np.isfinite(values).all()]
        raise CorruptFile(
            f"The columns {listed(missing)} of OpenML {number} have missing numbers",
            "Expected is a number in every row",
            "The set has changed at its source; use another copy of it",
        )
    return Dataset(name, f"OpenML {number}", X, groups, names, labels)


def _groups(
    columns: dict[str, Column], number: int, group: str, spell: Callable[[float], str]
) -> npt.NDArray[np.str_]:
    """Take the group column, or the block of columns GROUP_VALUE, out of the features."""
    if group in columns:
        values = columns.pop(group).values
        return np.array([spell(value) for value in values.tolist()])
    block = [each for each in columns if each.startswith(f"{group}_")]
    if not block:
        raise _unexpected(number, list(columns), f"a column {group!r}")
    names = [columns[each].name[len(group) + 1 :] for each in block]
    marks = np.column_stack([columns.pop(each).values.astype(float) for each in block])
    return np.where(marks.any(axis=1), np.array(names)[marks.argmax(axis=1)], "other")


def _numbers(column: Column) -> list[tuple[str, FloatArray]]:
    """A column of numbers as it is; a column of texts as one feature for each value."""
    if column.values.dtype.kind == "f":
        return [(column.name, column.values.astype(np.float64))]
    present = [value for value in np.unique(column.values).tolist() if value]
    return [
        (f"{column.name}={value}", (column.values == value).astype(np.float64)) for value in present
    ]


def _spelled(code: float) -> str:
    return str(code) if isinstance(code, str) else f"sex {code:.0f}"


def _unexpected(number: int, found: list[str], expected: str) -> InvalidInput:
    return InvalidInput(
        f"OpenML {number} has the columns {listed(found, most=40)}",
        f"Expected is {expected}",
        "The set has changed at its source; use another copy of it",
    )
