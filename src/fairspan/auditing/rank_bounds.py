"""Largest group errors of the models of others, beside what no linear decoder can fall below."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fairspan.auditing.models import AuditedModel
from fairspan.errors import FairspanError
from fairspan.linalg.rounding import EPS, LOOSE_TOL
from fairspan.metrics import GroupErrors
from fairspan.metrics.decoder_offset import decoder_offset
from fairspan.metrics.rank_bound import minimax_certificate, proven_bound
from fairspan.model.other_packages import ReconstructionModel
from fairspan.moments.base_moments import BaseMoments
from fairspan.moments.compute import Moments
from fairspan.moments.group_moments import GroupMoments
from fairspan.moments.reference_frame import ReferenceFrame
from fairspan.moments.wide import WideMoments
from fairspan.rows.aggregation import Rows, as_row_source
from fairspan.rows.labels import Label
from fairspan.typing import FloatArray

# Relative gap at which the search for a bound ends: figures are shown with three digits.
_BOUND_TOL = 1e-3


@dataclass(frozen=True)
class RankBoundSummary:
    """Largest error of a group, beside what no linear decoder of as many numbers can fall below.

    Errors are shares of each group's variance.

    Attributes
    ----------
    group : label
        Group with the largest error.
    largest_error : float
    bound : float
        No model that reconstructs rows as an offset, that of this model, plus a weighted sum of as
        many components has a smaller largest error, whatever its encoder.
    """

    group: Label
    largest_error: float
    bound: float

    @property
    def excess(self) -> float:
        """Largest error relative to the bound, minus one: no such model improves on it by more."""
        return self.largest_error / self.bound - 1

    def to_dict(self) -> dict[str, object]:
        """Return JSON-serializable values."""
        return {**vars(self), "excess": self.excess}


def summarize_rank_bound(
    model: AuditedModel,
    moments: Moments,
    errors: GroupErrors,
    rows: Rows | None = None,
) -> RankBoundSummary | None:
    """Compare the largest error of a model of others with the bound for linear decoders.

    None for models that fairspan fits itself, whose optimum is known; without a positive bound; if
    the decoder is not linear, or not known to be, since the rows are not at hand; and for sparse
    rows of more features than fit into matrices.

    Parameters
    ----------
    model : AuditedModel
    moments : GroupMoments, SparseMoments or WideMoments
        Moments of the audited rows.
    errors : GroupErrors
        Of the model on these rows.
    rows : Rows, optional
        The audited rows, for a model that is not a projection.
    """
    if not model.is_fit_unknown:
        return None
    frame = _decoder_frame(model, moments, rows)
    if frame is None:
        return None
    second_moments = _second_moments_about(frame, moments)
    if second_moments is None:
        return None
    # A variance within rounding error of the rows divides no error.
    mean_squares = np.einsum("gii->g", second_moments)
    groups = np.flatnonzero(errors.variances > EPS * mean_squares)
    if not len(groups):
        return None
    variances = errors.variances[groups]
    shares = errors.errors[groups] / variances
    labels: Sequence[Label] = [moments.labels[group] for group in groups]
    certificate = minimax_certificate(
        second_moments[groups] / variances[:, None, None],
        labels,
        model.subspace.dimension,
        tol=_BOUND_TOL,
    )
    bound = proven_bound(certificate)
    largest = int(shares.argmax())
    # A decoder that is linear nowhere but near the checked codes may fall below the bound.
    if bound == 0 or shares[largest] < bound * (1 - LOOSE_TOL):
        return None
    return RankBoundSummary(labels[largest], float(shares[largest]), bound)


def _decoder_frame(
    model: AuditedModel, moments: Moments, rows: Rows | None
) -> ReferenceFrame | None:
    """Frame whose center is the offset of the decoder; None if the decoder is not linear."""
    if model.row_model is None:
        return model.subspace.reference_frame(moments)
    offset = _linear_offset(model.row_model, rows)
    return None if offset is None else ReferenceFrame.from_optional(offset, model.row_model.scale)


def _linear_offset(model: ReconstructionModel, rows: Rows | None) -> FloatArray | None:
    """Offset of a decoder that is linear at random codes and at those of the first rows."""
    source = None if rows is None else as_row_source(rows)
    block = None if source is None else next(iter(source.blocks()), None)
    if block is None:
        return None
    try:
        return decoder_offset(model, block.values)
    # Models of other packages refuse codes that they do not expect, in their own ways.
    except (FairspanError, ValueError, TypeError, ArithmeticError):
        return None


def _second_moments_about(frame: ReferenceFrame, moments: Moments) -> FloatArray | None:
    """Second moments (k, q, q) about a center, in all features or in the span of fewer rows."""
    scaled: BaseMoments = moments.divided_by(frame.scale) if frame.is_scaled else moments
    center = frame.scaled_center
    if isinstance(scaled, WideMoments):
        no_directions = np.empty((scaled.n_features, 0))
        scaled, center, _ = scaled.to_compact_coordinates(center, no_directions, n_components=1)
    if not isinstance(scaled, GroupMoments):
        return None
    return scaled.second_moments_about(center).matrices
