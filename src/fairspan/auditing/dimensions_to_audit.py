"""Numbers of dimensions to audit, and ordinary PCA with each."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fairspan.auditing.models import AuditedModel, audited_pca
from fairspan.moments.base_moments import Center
from fairspan.moments.compute import Moments

MAX_ESTIMATED_DIMENSIONS = 16
"""Maximum number of dimensions with estimates for new rows."""


def pca_by_dimension(
    moments: Moments, dimensions: Sequence[int], center: Center, *, scale: bool
) -> list[AuditedModel]:
    """Ordinary PCA with each number of dimensions, from one fit.

    The models have no certificate, since that of the fit is for the largest dimension.
    """
    largest_pca = audited_pca(moments, max(dimensions), center, scale=scale)
    return [
        replace(
            largest_pca,
            name=dimension_name("PCA", d),
            subspace=replace(
                largest_pca.subspace,
                components=largest_pca.subspace.components[:d],
                certificate=None,
            ),
        )
        for d in dimensions
    ]


def dimension_name(name: str, n_components: int) -> str:
    """Name of a model at a number of dimensions.

    Examples
    --------
    >>> dimension_name("PCA", 3)
    'PCA, d = 3'
    """
    return f"{name}, d = {n_components}"


def select_dimensions(
    n_features: int, requested: int, max_count: int = MAX_ESTIMATED_DIMENSIONS
) -> list[int]:
    """Select at most `max_count` dimensions to audit, in ascending order.

    All of them, or the requested one, the smallest ones and evenly spaced larger ones.

    Examples
    --------
    >>> select_dimensions(5, 2)
    [1, 2, 3, 4, 5]
    >>> dimensions = select_dimensions(81, 34, 40)
    >>> len(dimensions), dimensions[18:24], 34 in dimensions, dimensions[-1]
    (40, [19, 20, 23, 26, 30, 33], True, 81)
    """
    if n_features <= max_count:
        return list(range(1, n_features + 1))
    smallest = list(range(1, max_count // 2 + 1))
    # Reserve one slot for the requested dimension.
    spaced = np.linspace(smallest[-1], n_features, max_count - len(smallest))[1:]
    return sorted({requested, *smallest, *spaced.round().astype(int).tolist()})


def select_estimated(dimensions: Sequence[int], requested: int) -> list[int]:
    """Select the audited dimensions that get estimates for new rows, at most 16.

    They include the requested one. The choice is that of :func:`select_dimensions`, applied to
    positions in the list from 1.

    Examples
    --------
    >>> select_estimated(range(1, 41), 30)
    [1, 2, 3, 4, 5, 6, 7, 8, 13, 17, 22, 26, 30, 31, 35, 40]
    """
    position = list(dimensions).index(requested) + 1
    return [dimensions[i - 1] for i in select_dimensions(len(dimensions), position)]
