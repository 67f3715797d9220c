"""Rows that are fewer than their features, and the models that judge them, in the rows' span."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fairspan.auditing.models import Audited
from fairspan.metrics.reconstruction import reference_point
from fairspan.moments.held_rows.frame import directions_beside
from fairspan.moments.held_rows.thin_moments import ThinMoments
from fairspan.rows.arrays import ArrayRows, RowsInMemory
from fairspan.rows.labels import Labels
from fairspan.rows.protocol import Rows


def in_coordinates(
    audited: Sequence[Audited], rows: Rows, thin: ThinMoments
) -> tuple[list[Audited], ArrayRows] | None:
    """Models and rows in orthonormal coordinates that hold both; distances stay what they are.

    The origin stays where it is, so that errors about it can be measured too.

    Parameters
    ----------
    audited : sequence of Audited
    rows : RowsInMemory
        With labels.
    thin : ThinMoments
        Of the same rows.

    Returns
    -------
    list of Audited, ArrayRows; or None
        None where the models are in different units, or have more dimensions than there are rows.
    """
    scales: list[Any] = [each.subspace.scale for each in audited]
    if not all(np.array_equal(scale, scales[0]) for scale in scales) or not isinstance(
        rows, RowsInMemory
    ):
        return None
    scaled = thin if scales[0] is None else thin.divided_by(scales[0])
    unit = 1.0 if scales[0] is None else scales[0]
    points = [reference_point(each.subspace, thin) for each in audited]
    directions = [scaled.mean[:, None]]
    for each, point in zip(audited, points, strict=True):
        directions.append(each.subspace.projector.columns)
        if point is not None:
            directions.append((point / unit - scaled.mean)[:, None])
    frame = scaled.framed(directions_beside(scaled.span, np.hstack(directions)), 0)
    if max(each.subspace.dimension for each in audited) > scaled.span.rank:
        return None
    mean = frame.reduced(scaled.mean[:, None])[:, 0]
    coordinates = scaled.span.coordinates
    beside = np.zeros((len(coordinates), frame.beside.shape[1]))
    reduced = []
    for each, point in zip(audited, points, strict=True):
        about = None if point is None else frame.point(point / unit, scaled.mean)
        projector = each.subspace.projector
        inside = projector.with_columns(frame.reduced(projector.columns))
        subspace = replace(
            each.subspace,
            components=inside.encoder,
            oblique_decoder=inside.oblique_decoder,
            mean=None if about is None else about + mean,
            scale=None,
            feature_names=None,
        )
        reduced.append(replace(each, subspace=subspace))
    assert rows.labels is not None
    present = thin.rows.present
    chosen = np.arange(rows.n_rows) if present is None else present
    labels = rows.labels.between(0, rows.n_rows)[chosen]
    return reduced, ArrayRows(
        np.hstack([coordinates, beside]) + mean,
        labels=Labels(len(chosen), lambda start, stop: labels[start:stop]),
        weights=thin.row_weights,
    )
