"""Second moments and scores of rows under a fitted subspace."""

from dataclasses import dataclass

from fairspan.model.subspace import FairSubspace
from fairspan.moments.compute import Moments
from fairspan.moments.projector import Projector
from fairspan.moments.second_moments import SecondMoments
from fairspan.rows.frames import open_features
from fairspan.rows.row_adapters import RowMap
from fairspan.typing import FloatArray


def second_moments_and_projector(
    subspace: FairSubspace, moments: Moments
) -> tuple[SecondMoments, Projector]:
    """Second moments of rows as the model measures them, and its projector in their coordinates.

    The errors of the groups follow from these two; see
    :func:`~fairspan.moments.second_moments.reconstruction_errors`.

    Parameters
    ----------
    subspace : FairSubspace
    moments : GroupMoments, SparseMoments or WideMoments
        In the units of the rows.

    Returns
    -------
    second_moments : SecondMoments
        About the center of the model, or the mean of each group, and in its units. Coordinates are
        the features; for moments of fewer rows than features, they are those of the span of the
        rows, the center and the components, in which products are cheap.
    projector : Projector
        Encoder and decoder in the same coordinates.
    """
    frame = subspace.reference_frame(moments)  # center and scale of the model
    projector = subspace.projector
    scaled_moments = moments.divided_by(frame.scale) if frame.is_scaled else moments
    # Means of groups are those of the scaled moments, without the rounding of another division.
    scaled_center = frame.scaled_center if frame.has_common_center else scaled_moments.means
    # All three in the coordinates described above: moments, center (or group means), projector.
    compact = scaled_moments.to_compact_coordinates(
        scaled_center, projector.stacked_columns, subspace.dimension
    )
    second_moments = compact.moments.second_moments_about(compact.point)
    return second_moments, projector.with_stacked_columns(compact.basis)


@dataclass(frozen=True, eq=False)
class _Score:
    """Function of rows: minus their squared reconstruction error under a subspace."""

    subspace: FairSubspace

    def __call__(self, X: object) -> FloatArray:
        return -squared_residuals(self.subspace, X)


def squared_residuals(subspace: FairSubspace, X: object) -> FloatArray:
    """Squared reconstruction error of each row in scaled units, shape (n,).

    For a row with missing cells, its expected value given the observed cells.
    """
    standardization = subspace.standardization
    rows = open_features(X, standardization.on_missing)
    return standardization.squared_residuals(rows, subspace.projector)


def score_map(subspace: FairSubspace) -> RowMap:
    """Map of rows to minus their squared reconstruction error, applied where the rows are."""
    return RowMap(
        _Score(subspace), subspace.n_features, "features", subspace.feature_names, ("score",)
    )
