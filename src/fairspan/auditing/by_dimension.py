"""Ordinary PCA under audit with each of several numbers of dimensions, side by side."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from fairspan.auditing.models import Audited, audited_pca
from fairspan.moments.of_rows import Moments

MOST_ESTIMATED = 16
"""Numbers of dimensions of which it is estimated what new rows would show."""


def pca_by_dimension(
    moments: Moments, dimensions: Sequence[int], center: Any, *, scale: bool
) -> list[Audited]:
    """Ordinary PCA of these rows with each number of dimensions; all are audited in one pass."""
    return [
        audited_pca(moments, d, center, scale=scale, name=name_at("PCA", d)) for d in dimensions
    ]


def name_at(name: str, n_components: int) -> str:
    """What a model with so many dimensions is called.

    Examples
    --------
    >>> name_at("PCA", 3)
    'PCA, d = 3'
    """
    return f"{name}, d = {n_components}"


def chosen_dimensions(n_features: int, asked: int, most: int = MOST_ESTIMATED) -> list[int]:
    """The audited dimensions: all if there are few, otherwise the smaller half and some others.

    Examples
    --------
    >>> chosen_dimensions(5, 2)
    [1, 2, 3, 4, 5]
    >>> chosen = chosen_dimensions(81, 34, 40)
    >>> len(chosen), chosen[18:24], 34 in chosen, chosen[-1]
    (40, [19, 20, 23, 26, 30, 33], True, 81)
    """
    if n_features <= most:
        return list(range(1, n_features + 1))
    first = list(range(1, most // 2 + 1))
    # One place is kept for the dimension that was requested.
    rest = np.linspace(first[-1], n_features, most - len(first))[1:]
    return sorted({asked, *first, *rest.round().astype(int).tolist()})


def estimated_of(dimensions: Sequence[int], asked: int) -> list[int]:
    """The audited dimensions for which losses on new rows are estimated.

    Examples
    --------
    >>> estimated_of(range(1, 41), 30)
    [1, 2, 3, 4, 5, 6, 7, 8, 13, 17, 22, 26, 30, 31, 35, 40]
    """
    place = list(dimensions).index(asked) + 1
    return [dimensions[i - 1] for i in chosen_dimensions(len(dimensions), place)]
