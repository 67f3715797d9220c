"""Models of any package as subspaces or row-wise maps."""

import os
from dataclasses import dataclass, replace

import numpy as np

from fairspan.errors import InvalidType
from fairspan.linalg.rounding import SINGLE_PRECISION_TOL
from fairspan.model.other_packages import (
    ALLOWED_MODELS,
    AffineProjection,
    ReconstructionModel,
    detect_projection,
    reconstruction_model,
)
from fairspan.model.subspace import FairSubspace
from fairspan.moments.projector import check_components
from fairspan.typing import FloatArray


@dataclass(frozen=True, eq=False)
class AdaptedModel:
    """Any supported model as a projection or row-wise map, with metadata of its fit.

    Attributes
    ----------
    mapping : FairSubspace or ReconstructionModel
        A projection, or a map that can only be evaluated on rows.
    moments : object
        Moments held by a FairPCA; None for other models.
    n_fit_rows : int or None
        Number of rows of the fit, if the model tells it.
    is_pca : bool
        Whether it exposes orthonormal components and a mean, like every kind of PCA.
    row_model : ReconstructionModel or None
        The row-wise map, for models read through their methods.
    """

    mapping: FairSubspace | ReconstructionModel
    moments: object = None
    n_fit_rows: int | None = None
    is_pca: bool = False
    row_model: ReconstructionModel | None = None

    @classmethod
    def from_model(cls, model: object, n_features: int | None = None) -> "AdaptedModel":
        """Adapt any supported model: to a projection, or to a map that is only evaluated on rows.

        Parameters
        ----------
        model : as for :meth:`FairSubspace.from_model`, or a nonlinear one
        n_features : int, optional
            p, for a model that does not define it.

        Returns
        -------
        AdaptedModel
            With a ReconstructionModel as its `mapping` if the model is not a projection.

        Raises
        ------
        InvalidType, InvalidInput
            See :meth:`FairSubspace.from_model`.
        """
        if isinstance(model, FairSubspace):
            model.projector.check()
            return cls(model)
        if isinstance(model, str | os.PathLike):
            return cls(_load_model(model))
        fitted_subspace = getattr(model, "subspace_", None)
        if isinstance(fitted_subspace, FairSubspace):
            return cls(fitted_subspace, moments=getattr(model, "moments_", None))
        if isinstance(model, np.ndarray):
            basis = np.asarray(model, dtype=np.float64)
            check_components(basis, may_be_soft=False)
            return cls(FairSubspace(basis, mean=None))
        return _adapt_row_model(reconstruction_model(model, n_features))


def _load_model(path: str | os.PathLike[str]) -> FairSubspace:
    try:
        return FairSubspace.load(path)
    except FileNotFoundError as error:
        raise InvalidType(
            f"The model is {os.fspath(path)!r}, but there is no such file",
            ALLOWED_MODELS,
            "Check the path, or pass the model itself",
        ) from error


def _adapt_row_model(row_model: ReconstructionModel) -> AdaptedModel:
    """Adapt a model that is read through its methods, `transform` and `inverse_transform`.

    The result is the subspace of a fair step, if that is the only one after standardization; else a
    projection, if the methods make one; else the row-wise map.
    """
    steps = row_model.projection_steps
    step = steps[0] if len(steps) == 1 else None
    subspace = getattr(step, "subspace_", None)
    moments = getattr(step, "moments_", None)
    is_pca = False
    if not isinstance(subspace, FairSubspace):
        projection = detect_projection(row_model)
        if projection is None:
            return AdaptedModel(row_model, n_fit_rows=row_model.n_fit_rows, row_model=row_model)
        subspace, is_pca = _subspace_from_projection(step, projection)
        moments = None
    subspace = replace(subspace, feature_names=row_model.feature_names or subspace.feature_names)
    if row_model.mean is not None:
        subspace = _compose_standardization(subspace, row_model.mean, row_model.scale)
    return AdaptedModel(subspace, moments, row_model.n_fit_rows, is_pca, row_model)


def _subspace_from_projection(
    step: object, projection: AffineProjection
) -> tuple[FairSubspace, bool]:
    """Subspace of a detected projection, and whether its step is a kind of PCA.

    Parameters
    ----------
    step : object or None
        The step that projects, if it is a single one.
    projection : AffineProjection
        As it was detected. If the step has equal components, they replace the detected ones, which
        are rounded.
    """
    components = projection.components
    has_mean = hasattr(step, "mean_")
    fitted_components: object = getattr(step, "components_", None)
    exposes_components = False
    if projection.oblique_decoder is None and isinstance(fitted_components, np.ndarray):
        exposes_components = fitted_components.shape == components.shape and np.allclose(
            fitted_components, components, atol=SINGLE_PRECISION_TOL
        )
        if exposes_components:
            components = fitted_components.astype(np.float64)
    is_centered = has_mean or projection.mean.any()  # TruncatedSVD is not
    subspace = FairSubspace(
        components,
        projection.mean,
        center="global" if is_centered else "none",
        oblique_decoder=projection.oblique_decoder,
    )
    # Components under their usual name, and a mean: a kind of PCA.
    return subspace, exposes_components and has_mean


def _compose_standardization(
    subspace: FairSubspace, mean: FloatArray, scale: FloatArray | None
) -> FairSubspace:
    """Subspace for rows from which `mean` is not subtracted yet, nor divided by `scale`.

    The given subspace is one of standardized rows, (x - mean) / scale.
    """
    divisor = 1.0 if scale is None else scale
    # If the features were centered before, the origin of the subspace is at their mean.
    has_moved_origin = subspace.center == "none" and mean.any()
    center = "global" if has_moved_origin else subspace.center
    if subspace.is_scaled:
        scale = subspace.row_frame.scale * divisor
    return replace(
        subspace, mean=mean + divisor * subspace.row_frame.center, scale=scale, center=center
    )
