"""Rows with the largest error of their group, where a few rows dominate the error."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from fairspan.auditing.cross_fitting import EvaluatedModel, GroupOptima
from fairspan.auditing.intervals import is_heavy_tailed
from fairspan.moments.compute import Moments
from fairspan.moments.projector import Projector
from fairspan.moments.reference_frame import ReferenceFrame
from fairspan.rows.aggregation import Rows, as_partitioned
from fairspan.rows.protocol import row_metadata
from fairspan.typing import FloatArray, IndexArray

# With more features, the kept rows of a hundred groups would take more than 16 MB.
_MAX_FEATURES = 10_000

# Multiple of the mean of its column from which the logarithm of a value is much nearer to the rest.
_MIN_FACTOR = 5.0


class GroupModel(NamedTuple):
    """Indices of a group and of a model."""

    group: int
    model: int


@dataclass(frozen=True, eq=False)
class RowError:
    """Row of a group with its error under a model.

    Attributes
    ----------
    weighted_error : float
        Squared residual times the weight of the row.
    position : int
        Position in the table, from 0.
    values : (p,) array
        Features, in the units of the table; empty if there are too many to keep.
    """

    weighted_error: float
    position: int
    values: FloatArray


@dataclass(frozen=True)
class LargestRow:
    """Row with the largest error of its group under a model.

    Attributes
    ----------
    name : str or None
        Name of the row in the terms of the user, such as "row 18"; None if its number is unknown.
    error_share : float
        Share of the row in the error of the group.
    feature : str or None
        Feature that contributes most to the error of the row; None if it is unknown.
    value : float
        Value of this feature, in the units of the table; NaN if it is unknown.
    group_mean : float
        Mean of this feature over the group; NaN if it is unknown.
    """

    name: str | None
    error_share: float
    feature: str | None = None
    value: float = np.nan
    group_mean: float = np.nan

    @property
    def varies_by_factors(self) -> bool:
        """Whether the value is a multiple of a positive mean, so that a logarithm is much nearer.

        Close to the mean, a logarithm is nearly linear and leaves the tail as it is.
        """
        return self.group_mean > 0 and self.value >= _MIN_FACTOR * self.group_mean


def keep_largest_rows(
    largest: dict[GroupModel, RowError],
    group: int,
    weighted_errors: FloatArray,
    values: FloatArray,
    positions: IndexArray,
) -> None:
    """Replace the row with the largest error of a group under each model if another has a larger.

    Parameters
    ----------
    largest : dict of GroupModel to RowError
        Updated in place.
    group : int
    weighted_errors : (m, r) array
        Squared residuals under m models, times the weights of r rows of the group.
    values : (r, p) array
    positions : (r,) array of int
        Positions of the rows in the table.
    """
    n_features = values.shape[1]
    for model, errors in enumerate(weighted_errors):
        row = int(np.argmax(errors))
        key = GroupModel(group, model)
        if key in largest and largest[key].weighted_error >= errors[row]:
            continue
        row_values = values[row].copy() if n_features <= _MAX_FEATURES else np.empty(0)
        largest[key] = RowError(float(errors[row]), int(positions[row]), row_values)


def merge_largest_rows(
    left: Mapping[GroupModel, RowError], right: Mapping[GroupModel, RowError]
) -> dict[GroupModel, RowError]:
    """Combine the rows with the largest errors of two parts, the earlier of equal ones."""
    largest = {**left}
    for key, row in right.items():
        if key not in largest or row.weighted_error > largest[key].weighted_error:
            largest[key] = row
    return largest


def describe_largest_rows(
    largest: Mapping[GroupModel, RowError],
    rows: Rows,
    moments: Moments,
    optima: Sequence[GroupOptima],
    models: Sequence[EvaluatedModel],
    total_errors: FloatArray,
    kurtosis: FloatArray,
) -> dict[GroupModel, LargestRow]:
    """Describe the row with the largest error, for the groups of which a few rows dominate it.

    Parameters
    ----------
    largest : mapping of GroupModel to RowError
    rows : Rows
    moments : GroupMoments, SparseMoments or WideMoments
        Of the same rows, with k groups.
    optima : sequence of GroupOptima
        They give the center and scale of each model.
    models : sequence of m EvaluatedModel
    total_errors : (m, k) array
        Sum of the weighted errors of the rows.
    kurtosis : (m, k) array
        Kurtosis of the rows' errors.
    """
    names = moments.feature_names or tuple(f"x{j}" for j in range(moments.n_features))
    described = {}
    for key, row in largest.items():
        group, index = key
        if not is_heavy_tailed(float(kurtosis[index, group]), int(moments.counts[group])):
            continue
        largest_row = LargestRow(
            _row_name(rows, row.position),
            error_share=float(row.weighted_error / total_errors[index, group]),
        )
        model = models[index]
        if isinstance(model.model, Projector) and len(row.values):
            frame = optima[model.optima_index].frame.of_group(group)
            column = _largest_contribution(row.values, frame, model.model)
            largest_row = replace(
                largest_row,
                feature=names[column],
                value=float(row.values[column]),
                group_mean=float(moments.means[group, column]),
            )
        described[key] = largest_row
    return described


def _largest_contribution(values: FloatArray, frame: ReferenceFrame, projector: Projector) -> int:
    """Return the feature that contributes most to the squared residual of a row, by position.

    `values` are those of the row, (p,), in the units of the table.
    """
    centered = frame.standardize(values[None])
    # The squared residual of an orthogonal projection is the sum of these contributions.
    contributions = centered * projector.residuals(centered)
    return int(np.argmax(contributions))


def _row_name(rows: Rows, position: int) -> str | None:
    """Return the number of a row, from 1, with its line or label; None if it is unknown."""
    metadata = row_metadata(rows)
    if as_partitioned(rows) is not None and not metadata.has_row_offsets:
        return None
    return metadata.row_name(position) or f"row {position + 1:,}"
