"""A projection as one SELECT of standard SQL."""

from typing import TYPE_CHECKING

import numpy as np

from fairspan.errors import Incompatible, InvalidParameter

if TYPE_CHECKING:
    from fairspan.rows.protocol import Projection


_INDENT, _PLUS, _NEXT = "\n  ", "\n  + ", ",\n  "


def select_of(projection: "Projection", table: str) -> str:
    """The query that reduces the rows of a table.

    Parameters
    ----------
    projection : Projection
        With named features.
    table : str

    Raises
    ------
    Incompatible
        The features have no names.
    InvalidParameter
        A name that SQL cannot hold.
    """
    names = projection.feature_names
    if names is None:
        raise Incompatible(
            "The features of the model have no names, and SQL names columns",
            "Allowed: models that were fitted on tables with named columns",
            "Fit on a data frame or a file",
        )
    p = len(names)
    mean = np.zeros(p) if projection.mean is None else projection.mean
    loadings = projection.encoder / (1.0 if projection.scale is None else projection.scale)
    columns = [
        f"(CAST({_quoted(name)} AS DOUBLE PRECISION) - {_number(middle)})"
        for name, middle in zip(names, mean.tolist(), strict=True)
    ]
    made = []
    for row, name in zip(loadings.tolist(), projection.component_names, strict=True):
        terms = [f"{_number(each)} * {at}" for each, at in zip(row, columns, strict=True)]
        made.append(f"{_PLUS.join(terms)} AS {_quoted(name)}")
    return f"SELECT{_INDENT}{_NEXT.join(made)}\nFROM {_quoted(table)}"


def _quoted(name: str) -> str:
    if not isinstance(name, str) or not name or "\0" in name:
        raise InvalidParameter(
            f"{name!r} names a column or a table",
            "Allowed in SQL: names of one letter or more, without the character NUL",
            "Rename it",
        )
    return '"' + name.replace('"', '""') + '"'


def _number(value: float) -> str:
    """With an exponent, as a number without one is a decimal of few digits; negative in brackets.

    Examples
    --------
    >>> _number(0.1), _number(-2.0)
    ('1e-01', '(-2e+00)')
    """
    text = np.format_float_scientific(value, trim="-")
    return f"({text})" if text.startswith("-") else text
