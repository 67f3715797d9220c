"""Best subspace of each group, on all rows and on those outside a fold, and the gaps after it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from fairspan.auditing.leading_directions import LeadingDirections, find_leading_directions
from fairspan.auditing.models import AuditedModel
from fairspan.model.subspace import FairSubspace
from fairspan.moments.compute import Moments
from fairspan.moments.reference_frame import ReferenceFrame
from fairspan.moments.second_moments import SecondMoments
from fairspan.typing import FloatArray, IntegerArray


@dataclass(frozen=True, eq=False)
class BestSubspaces:
    """Best subspace of each group on some rows, the training rows.

    Attributes
    ----------
    bases : tuple of k (d, p) arrays
    errors : (k,) array
        Error of each group on the training rows.
    counts : (k,) array of int
    weights : (k,) array
    boundaries : tuple of k (p, 2) arrays
        Eigenvectors d and d + 1 of each group; (p, 1) if there are only d.
    gaps : (k,) array
        Variance of the training rows along the first minus that along the second of two directions,
        which are the boundaries of these rows, or of all rows if these are a part of them. Infinite
        if there is only one, NaN for a group without training rows.
    directions : tuple of k LeadingDirections
        The eigenvectors of each group up to its boundary, and more where the same search served
        larger dimensions; the first axis for a group without training rows.
    """

    bases: tuple[FloatArray, ...]
    errors: FloatArray
    counts: IntegerArray
    weights: FloatArray
    boundaries: tuple[FloatArray, ...]
    gaps: FloatArray
    directions: tuple[LeadingDirections, ...]


class OptimaKey(NamedTuple):
    """Dimension and frame of a model; models with the same key share their group optima."""

    dimension: int
    frame_key: tuple[bytes, bytes]

    @classmethod
    def of(cls, subspace: FairSubspace, total: Moments) -> "OptimaKey":
        """Key of a model; `total` are the moments of all rows."""
        return cls(subspace.dimension, subspace.reference_frame(total).key)


def best_subspaces_by_key(
    model_by_key: Mapping[OptimaKey, AuditedModel],
    moments: Moments,
    total: Moments,
    on_all_rows: Sequence[BestSubspaces] | None = None,
) -> list[BestSubspaces]:
    """Best subspaces from the training rows, in the order of the keys.

    Keys that differ only in the dimension share one computation.

    Parameters
    ----------
    model_by_key : mapping of key to AuditedModel
        A model for each key, of which center and scale are used.
    moments : GroupMoments, SparseMoments or WideMoments
        Moments of the training rows.
    total : GroupMoments, SparseMoments or WideMoments
        Moments of all rows, which determine groups and centers.
    on_all_rows : sequence of BestSubspaces, optional
        For each key, the best subspaces on all rows: searches start from them, and gaps are
        measured along their boundaries. Without them the training rows are all rows.
    """
    best_on_all_rows: dict[OptimaKey, BestSubspaces] = {}
    if on_all_rows is not None:
        best_on_all_rows = dict(zip(model_by_key, on_all_rows, strict=True))
    keys_by_frame: dict[tuple[bytes, bytes], list[OptimaKey]] = {}
    for key in model_by_key:
        keys_by_frame.setdefault(key.frame_key, []).append(key)
    best_by_key: dict[OptimaKey, BestSubspaces] = {}
    for keys in keys_by_frame.values():
        subspace = model_by_key[keys[0]].subspace
        best = _best_subspaces(
            moments,
            subspace.reference_frame(total),
            [key.dimension for key in keys],
            total,
            [best_on_all_rows.get(key) for key in keys],
        )
        best_by_key |= dict(zip(keys, best, strict=True))
    return [best_by_key[key] for key in model_by_key]


def _best_subspaces(
    moments: Moments,
    frame: ReferenceFrame,
    dimensions: Sequence[int],
    total: Moments,
    on_all_rows: Sequence[BestSubspaces | None],
) -> list[BestSubspaces]:
    """Best subspaces of each group from the training rows, one result per dimension.

    A group without training rows gets count and weight zero and the first axes as a placeholder, so
    that the arrays have an entry for every group.

    Parameters
    ----------
    moments : GroupMoments, SparseMoments or WideMoments
        Moments of the training rows.
    frame : ReferenceFrame
        With the center of all groups or of each group of `total`.
    dimensions : sequence of int
    total : GroupMoments, SparseMoments or WideMoments
        Moments of all rows, with k groups.
    on_all_rows : sequence of BestSubspaces or None
        For each dimension, those on all rows; None if these are the training rows.
    """
    present = [i for i, label in enumerate(total.labels) if label in set(moments.labels)]
    second_moments = frame.select_groups(present).second_moments(moments)
    counts = np.zeros(total.n_groups, dtype=np.int64)
    weights = np.zeros(total.n_groups)
    counts[present] = moments.counts
    weights[present] = moments.weights
    placeholder = LeadingDirections(np.eye(moments.n_features, 1), np.zeros(1))
    training = _TrainingGroups(
        present, second_moments, counts, weights, [placeholder] * total.n_groups
    )
    # One more vector than dimensions, if there is one, for the gap after eigenvalue d.
    n_vectors = min(max(dimensions) + 1, moments.n_features)
    training.find_directions(n_vectors, on_all_rows[0])
    return [
        training.best_subspaces(d, reference)
        for d, reference in zip(dimensions, on_all_rows, strict=True)
    ]


@dataclass(frozen=True, eq=False)
class _TrainingGroups:
    """Training rows of each group, with the leading eigenvectors of their second moments.

    Attributes
    ----------
    present : list of int
        Indices of the groups with training rows, in the order of `second_moments`.
    second_moments : SecondMoments
    counts : (k,) array of int
    weights : (k,) array
    directions : list of k LeadingDirections
        Placeholders until :meth:`find_directions`, and for groups without training rows.
    """

    present: list[int]
    second_moments: SecondMoments
    counts: IntegerArray
    weights: FloatArray
    directions: list[LeadingDirections]

    def find_directions(self, n_vectors: int, reference: BestSubspaces | None) -> None:
        """Find the leading eigenvectors of each group, starting from those on all rows if known."""
        for position, group in enumerate(self.present):
            start = None
            if reference is not None:
                growth = float(reference.weights[group] / self.weights[group])
                start = reference.directions[group].start_for(n_vectors, growth)
            # A mixture with weight one on a single group is the second moment matrix of that group.
            unit_weights = np.eye(len(self.present))[position]
            self.directions[group] = find_leading_directions(
                self.second_moments, unit_weights, n_vectors, start
            )

    def best_subspaces(self, d: int, reference: BestSubspaces | None) -> BestSubspaces:
        """Return the best subspaces of d dimensions.

        Gaps are measured along the boundaries of `reference`, the best subspaces on all rows; along
        their own if it is None.
        """
        n_groups = len(self.directions)
        n_features = self.second_moments.n_features
        bases = [np.eye(d, n_features)] * n_groups
        boundaries = [np.eye(n_features, 1)] * n_groups
        errors = np.zeros(n_groups)
        gaps = np.full(n_groups, np.nan)
        for position, group in enumerate(self.present):
            group_moments = self.second_moments.select_group(position)
            vectors = self.directions[group].vectors
            basis = vectors[:, :d]
            bases[group] = np.ascontiguousarray(basis.T)
            errors[group] = float(group_moments.residual_variances(basis)[0])
            boundaries[group] = vectors[:, d - 1 : d + 1]
            boundary = boundaries[group] if reference is None else reference.boundaries[group]
            gaps[group] = _gap_along(group_moments, boundary)
        return BestSubspaces(
            tuple(bases),
            errors,
            self.counts,
            self.weights,
            tuple(boundaries),
            gaps,
            tuple(self.directions),
        )


def _gap_along(group_moments: SecondMoments, directions: FloatArray) -> float:
    """Variance of a group along the first minus that along the second of two directions.

    `directions` are (p, 2); infinite if there is only one, (p, 1).
    """
    if directions.shape[1] < 2:
        return np.inf
    variances = np.diagonal(group_moments.compress(np.ascontiguousarray(directions))[0])
    return float(variances[0] - variances[1])
