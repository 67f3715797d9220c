"""Few rows of many features, with their models, in coordinates of their joint span."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from fairspan.auditing.models import AuditedModel
from fairspan.moments.row_space import RowSpace
from fairspan.moments.wide import WideMoments
from fairspan.rows.aggregation import Rows
from fairspan.rows.arrays import ArrayRows
from fairspan.rows.in_memory import InMemoryRows
from fairspan.typing import FloatArray


@dataclass(frozen=True, eq=False)
class ReducedRows:
    """Models and rows in orthonormal coordinates of their joint span.

    Attributes
    ----------
    models : list of AuditedModel
    rows : ArrayRows
    """

    models: list[AuditedModel]
    rows: ArrayRows


class IrreducibleRows(Exception):
    """Rows and models that cannot be expressed in coordinates of their span; says why."""


def reduce_to_span(
    models: Sequence[AuditedModel], rows: Rows, wide_moments: WideMoments
) -> ReducedRows:
    """Express models and rows in orthonormal coordinates of their joint span.

    Distances and the origin are preserved, so that errors are those in all features, while moments
    by fold need memory for the dimension of the span only.

    Parameters
    ----------
    models : sequence of AuditedModel
    rows : InMemoryRows
        Rows with labels.
    wide_moments : WideMoments
        Moments of the same rows.

    Raises
    ------
    IrreducibleRows
        The models differ in scale, the rows are not in memory, or a model has more dimensions than
        the span of the rows.
    """
    if not isinstance(rows, InMemoryRows):
        raise IrreducibleRows("rows that are fewer than their features must be in memory")
    scales = [model.subspace.scale for model in models]
    if not all(_are_equal_scales(scale, scales[0]) for scale in scales):
        raise IrreducibleRows(
            "the models divide the features by different scales, and the rows are fewer than these"
        )
    scaled = wide_moments.in_units(scales[0])
    # The rows would not determine best subspaces of more dimensions than they span.
    if max(model.subspace.dimension for model in models) > scaled.row_space.n_axes:
        raise IrreducibleRows("the models extend beyond the span of these few rows")

    centers = [_shifted_center(model, wide_moments, scaled) for model in models]
    # The span is that of the scaled rows minus a shift, which is one of them. It is extended by the
    # origin, and by the components and center of each model.
    origin_direction = -scaled.shift[:, None]
    directions = [origin_direction]
    for model, center in zip(models, centers, strict=True):
        # The columns of the encoder, and of the decoder if it is another matrix.
        directions.append(model.subspace.projector.stacked_columns)
        if center is not None:
            directions.append(center)
    joint_span = scaled.row_space.extend(np.hstack(directions))
    # Coordinates of the origin of the features, which is minus the shift; it becomes the origin of
    # the new coordinates.
    origin = joint_span.project(origin_direction)[:, 0]
    reduced = [
        _reduce_model(model, center, joint_span, origin)
        for model, center in zip(models, centers, strict=True)
    ]
    return ReducedRows(reduced, _reduce_rows(rows, wide_moments, joint_span, origin))


def _reduce_rows(
    rows: InMemoryRows, wide_moments: WideMoments, joint_span: RowSpace, origin: FloatArray
) -> ArrayRows:
    """Express rows in the coordinates of the joint span, whose origin is at `origin`."""
    assert rows.groups is not None
    row_positions = np.concatenate(
        [group_rows.row_indices for group_rows in wide_moments.group_rows]
    )
    # The span has the rows by group; return them in the order of the table.
    order = np.argsort(row_positions)
    positions = row_positions[order]
    # The rows have no component along the axes that were added.
    n_new_axes = joint_span.n_axes - joint_span.row_coordinates.shape[1]
    coordinates = np.pad(joint_span.row_coordinates[order], [(0, 0), (0, n_new_axes)]) - origin
    if wide_moments.n_dropped:
        # Folds follow the positions in the table, so dropped rows keep theirs, and are dropped.
        complete = coordinates
        coordinates = np.full((rows.n_rows, joint_span.n_axes), np.nan)
        coordinates[positions] = complete
        positions = np.arange(rows.n_rows)
    return ArrayRows(
        coordinates,
        groups=rows.groups[positions],
        weights=None if rows.weights is None else rows.weights[positions],
        weight_exponent=rows.weight_exponent,  # weights are in units of 2**weight_exponent
        on_missing="drop" if wide_moments.n_dropped else "error",
    )


def _shifted_center(
    model: AuditedModel, wide_moments: WideMoments, scaled: WideMoments
) -> FloatArray | None:
    """Return the scaled center of a model minus the shift of the rows, as a (p, 1) column.

    None if the model centers each group at its own mean. `scaled` are the moments in the units of
    the model.
    """
    frame = model.subspace.reference_frame(wide_moments)
    if not frame.has_common_center:
        return None
    return (frame.scaled_center - scaled.shift)[:, None]


def _reduce_model(
    model: AuditedModel, center: FloatArray | None, joint_span: RowSpace, origin: FloatArray
) -> AuditedModel:
    """Express a model in the coordinates of the joint span, whose origin is at `origin`.

    `center` is the center of the model minus the shift of the rows, (p, 1), or None.
    """
    # The columns of the encoder, and of the decoder if it is not the transposed encoder (an oblique
    # projection), are directions and so need no shift.
    projector = model.subspace.projector
    reduced_projector = projector.with_stacked_columns(
        joint_span.project(projector.stacked_columns)
    )
    mean = None
    if center is not None:
        mean = joint_span.project(center)[:, 0] - origin
    subspace = replace(
        model.subspace,
        components=reduced_projector.encoder,
        oblique_decoder=reduced_projector.oblique_decoder,
        mean=mean,
        scale=None,
        feature_names=None,
    )
    return replace(model, subspace=subspace)


def _are_equal_scales(first: FloatArray | None, second: FloatArray | None) -> bool:
    """Return whether two scales are equal, or both are None."""
    if first is None or second is None:
        return first is second
    return np.array_equal(first, second)
