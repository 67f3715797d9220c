"""Refits of models to the rows outside each fold."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress

import numpy as np

from fairspan.auditing.best_subspaces import BestSubspaces
from fairspan.auditing.leading_directions import (
    MAX_DENSE_FEATURES,
    LeadingDirections,
    find_leading_directions,
)
from fairspan.auditing.models import AuditedModel
from fairspan.errors import FairspanError
from fairspan.estimator.fit import fit_moments
from fairspan.estimator.fit_settings import FitSettings
from fairspan.moments.base_moments import Center
from fairspan.moments.compute import Moments
from fairspan.moments.projector import Projector
from fairspan.moments.second_moments import SecondMoments
from fairspan.problem.warm_start import WarmStart
from fairspan.typing import FloatArray

# Center and scale of a model, the latter as bytes.
_FrameKey = tuple[Center, bytes]


@dataclass(frozen=True)
class NoRefit:
    """Reason why a model has no refits, and hence no estimates for new rows.

    Attributes
    ----------
    reason : str
    was_tried : bool
        Whether a refit was tried and failed; otherwise there was to be none.
    """

    reason: str
    was_tried: bool = False


@dataclass(frozen=True, eq=False)
class ModelRefits:
    """Refits of one model without each fold.

    Attributes
    ----------
    projectors : tuple of K Projectors
        Empty for a model that was not refitted, or could not be without every fold.
    no_refit : NoRefit or None
        Why there are none; None if there are, or if the model was fitted to other rows.
    """

    projectors: tuple[Projector, ...] = ()
    no_refit: NoRefit | None = None

    @classmethod
    def combine(cls, refits: Sequence["ModelRefits"]) -> "ModelRefits":
        """Combine the refits of a model, of one fold each; the first failure is that of all."""
        for refit in refits:
            if refit.no_refit is not None:
                return refit
        return cls(tuple(projector for refit in refits for projector in refit.projectors))


def try_refit(model: AuditedModel, training: "TrainingMoments", best: BestSubspaces) -> ModelRefits:
    """Refit a model to the rows outside one fold, or say why it cannot be refitted.

    `best` are the best subspaces of the groups there, from which the search starts.
    """
    if model.no_refit_reason:
        return ModelRefits(no_refit=NoRefit(model.no_refit_reason))
    try:
        return ModelRefits((_refit(model, training, best),))
    except FairspanError as error:
        reason = (
            "a refit without one part of the rows failed, unlike the fit to all rows: "
            f"{error.args[0]}"
        )
        return ModelRefits(no_refit=NoRefit(reason, was_tried=True))


class TrainingMoments:
    """Training moments for refits, with a cache of the eigenproblems that models share.

    Parameters
    ----------
    moments : GroupMoments, SparseMoments or WideMoments
    models : sequence of AuditedModel
        All models, refitted or not.
    on_all_rows : TrainingMoments, optional
        Moments of all rows, whose ordinary PCA was computed: those of a part start from it.
    """

    def __init__(
        self,
        moments: Moments,
        models: Sequence[AuditedModel],
        on_all_rows: "TrainingMoments | None" = None,
    ) -> None:
        self._moments = moments
        self._on_all_rows = on_all_rows
        # Largest dimension of an ordinary PCA.
        self._max_pca_dimension = max(
            (model.subspace.dimension for model in models if _is_pca(model)), default=0
        )
        self._has_several_dimensions = len({model.subspace.dimension for model in models}) > 1
        self._second_moments: dict[_FrameKey, tuple[Moments, SecondMoments]] = {}
        self._pca: dict[_FrameKey, LeadingDirections] = {}

    @classmethod
    def of_all_rows(
        cls, total: Moments, models: Sequence[AuditedModel], in_sample: Sequence[bool]
    ) -> "TrainingMoments":
        """Moments of all rows, with an ordinary PCA for those refits that will start from it."""
        training = cls(total, models)
        if total.n_features > MAX_DENSE_FEATURES:
            for model in compress(models, in_sample):
                if _is_pca(model):
                    training.pca_directions(_pca_center(model), model.subspace.scale)
        # Only the directions are needed from here on.
        training._second_moments.clear()
        return training

    def second_moments_about(
        self, center: Center, scale: FloatArray | None
    ) -> tuple[Moments, SecondMoments]:
        """Return the scaled moments and their second moments about a center, computed once.

        If models differ in dimension, the spectrum of each group is computed up front, since the
        fits of all dimensions need it.
        """
        key = _frame_key(center, scale)
        if key not in self._second_moments:
            scaled = self._moments.in_units(scale)
            second_moments = scaled.second_moments_about(scaled.center_point(center))
            is_small = second_moments.n_features <= MAX_DENSE_FEATURES
            if self._has_several_dimensions and is_small:
                second_moments.decompose_groups()
            self._second_moments[key] = scaled, second_moments
        return self._second_moments[key]

    def pca_directions(self, center: Center, scale: FloatArray | None) -> LeadingDirections:
        """Leading directions of all groups together, those of ordinary PCA."""
        key = _frame_key(center, scale)
        if key not in self._pca:
            scaled, second_moments = self.second_moments_about(center, scale)
            weight = scaled.weights.sum()
            start = None
            if self._on_all_rows is not None and key in self._on_all_rows._pca:
                growth = float(self._on_all_rows._moments.weights.sum() / weight)
                start = self._on_all_rows._pca[key].start_for(self._max_pca_dimension, growth)
            self._pca[key] = find_leading_directions(
                second_moments, scaled.weights / weight, self._max_pca_dimension, start
            )
        return self._pca[key]


def _refit(model: AuditedModel, training: TrainingMoments, best: BestSubspaces) -> Projector:
    """Refit a model with its own settings, keeping its scale.

    A model without certificate is refitted as ordinary PCA, like PCA itself. The tolerance is at
    least `model.refit_tol`, which curves over the dimension set to save time. Returns the projector
    of the refit, in the same units as the model.
    """
    subspace = model.subspace
    certificate = model.subspace.certificate
    if certificate is None or _is_pca(model):
        directions = training.pca_directions(_pca_center(model), subspace.scale)
        return Projector(np.ascontiguousarray(directions.vectors[:, : subspace.dimension].T))
    moments, second_moments = training.second_moments_about(subspace.center, subspace.scale)
    warm_start = None
    # A nested fit, which solves one problem per component, does not start from the model.
    if certificate.groups == tuple(moments.labels) and not subspace.is_nested:
        # The rows and the subspace may be in other coordinates than those of the fit.
        warm_start = WarmStart(
            certificate.weights,
            # A start needs orthonormal columns, and those of a soft projection are not.
            basis=None if subspace.is_soft else subspace.components.T,
            directions=tuple(item.vectors for item in best.directions),
        )
    settings = FitSettings(
        subspace.dimension,
        certificate.criterion,
        certificate.restriction,
        subspace.center,
        tol=max(certificate.tol, model.refit_tol),
        # A soft projection, with components shorter than one, has more of them than its dimension.
        allow_extra=subspace.is_soft,
        nested=subspace.is_nested,
    )
    fit = fit_moments(
        moments,
        settings,
        warm_start=warm_start,
        second_moments=second_moments,
    )
    return fit.subspace.projector


def _is_pca(model: AuditedModel) -> bool:
    """Whether a model is refitted as ordinary PCA: it is one, or has no certificate.

    The first d components of one PCA serve all such models with d dimensions.
    """
    return model.is_pca or model.subspace.certificate is None


def _pca_center(model: AuditedModel) -> Center:
    """Center of the ordinary PCA as which a model is refitted."""
    return "none" if model.subspace.center == "none" else "global"


def _frame_key(center: Center, scale: FloatArray | None) -> _FrameKey:
    return center, b"" if scale is None else scale.tobytes()
