"""Adapters for models of other packages: detect the projection that their methods make.

A model provides ``transform`` and ``inverse_transform``. A pipeline provides ``steps``, of which
the leading invertible ones are used; a fitted search provides ``best_estimator_``. The projection
x -> D E (x - mean) + mean is detected from the model's effect on probe rows: both methods must be
affine at every distance from the origin, and their composition must be idempotent.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from fairspan.errors import InvalidInput, InvalidType, describe_type
from fairspan.linalg.rounding import RANK_TOL, SINGLE_PRECISION_TOL
from fairspan.model.two_tables import TWO_TABLES_REMEDY, is_of_two_tables
from fairspan.moments.reference_frame import ReferenceFrame
from fairspan.typing import FloatArray

# Multiples of a step's own scale at which it is probed, since many maps are linear only locally.
PROBE_SCALES = (1.0, 1e3, 1e6)
# Number of rows transformed at once.
_BLOCK_ROWS = 512
ALLOWED_MODELS = (
    "Allowed: fitted models with transform and inverse_transform, such as a PCA, a FairPCA or a "
    "pipeline that starts with them, a FairSubspace, the path of a file written by save, or a "
    "(d, p) array with orthonormal rows"
)


@dataclass(frozen=True, eq=False)
class AffineProjection:
    """Projection x -> D E (x - m) + m.

    Attributes
    ----------
    components : (d, p) array
        E.
    mean : (p,) array
        m.
    oblique_decoder : (p, d) array or None
        D, with orthonormal columns; None for an orthogonal projection, where it is E'.
    """

    components: FloatArray
    mean: FloatArray
    oblique_decoder: FloatArray | None = None


@dataclass(frozen=True, eq=False)
class ReconstructionModel:
    """Model with transform and inverse_transform, evaluated by its reconstruction of each row.

    Attributes
    ----------
    steps : tuple of objects with transform and inverse_transform
        All steps of the model.
    projection_steps : tuple of the same
        The steps after those that standardize the features.
    n_features : int
    mean, scale : (p,) arrays or None
        Mean and scale of the standardization; None if there is none.
    feature_names : tuple of str or None
    n_fit_rows : int or None
        Number of rows it was fitted on, if one of its steps knows.
    """

    steps: tuple[object, ...]
    projection_steps: tuple[object, ...]
    n_features: int
    mean: FloatArray | None
    scale: FloatArray | None
    feature_names: tuple[str, ...] | None
    n_fit_rows: int | None

    @property
    def dimension(self) -> int:
        """Dimension of comparable subspaces: the number of coordinates, at most p."""
        coordinates = encode(self.projection_steps, np.zeros((1, self.n_features)))
        return min(int(coordinates.shape[1]), self.n_features)

    def squared_residuals(self, rows: FloatArray) -> FloatArray:
        """Squared distance of each row from its reconstruction, shape (n,).

        Parameters
        ----------
        rows : (n, p) array
            Rows as the user passed them, neither centered nor scaled, since a model may react to
            their last digits. Residuals are divided by `scale`, one number for each feature.
        """
        reconstructed = decode(self.steps, encode(self.steps, rows))
        scale = 1.0 if self.scale is None else self.scale
        residuals = (rows - reconstructed) / scale
        return np.asarray(np.einsum("ij,ij->i", residuals, residuals))


def encode(steps: tuple[object, ...], rows: FloatArray) -> FloatArray:
    """Apply `transform` of each step in order."""
    return _apply_steps(steps, "transform", rows)


def decode(steps: tuple[object, ...], coordinates: FloatArray) -> FloatArray:
    """Apply `inverse_transform` of each step in reverse order."""
    return _apply_steps(steps[::-1], "inverse_transform", coordinates)


def _apply_steps(steps: tuple[object, ...], method: str, rows: FloatArray) -> FloatArray:
    """Apply one method of several steps, each to the output of the previous one."""
    with warnings.catch_warnings():
        # Models fitted on named columns are applied to the same columns without names.
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        for step in steps:
            # Some models drop an axis of length one.
            coordinates = np.asarray(getattr(step, method)(rows), dtype=np.float64)
            rows = coordinates.reshape(len(rows), -1)
    return rows


def reconstruction_model(model: object, n_features: int | None = None) -> ReconstructionModel:
    """Reconstruction model of a fitted model, from its invertible steps.

    Parameters
    ----------
    model : object
    n_features : int, optional
        p, for a model that does not define it.

    Raises
    ------
    InvalidType
        An object without `transform` or `inverse_transform`, or a model that is not fitted.
    InvalidInput
        A pipeline whose first step is not invertible, or a model of unknown number of features.
    """
    model = getattr(model, "best_estimator_", model)
    steps = tuple(_invertible_steps(model))
    not_fitted_error = InvalidType(
        f"The {type(model).__name__} is not fitted", ALLOWED_MODELS, "Call its fit first"
    )
    first_step = steps[0]
    names = getattr(model, "feature_names_in_", getattr(first_step, "feature_names_in_", None))
    n_features = getattr(first_step, "n_features_in_", n_features)
    n_features = getattr(model, "n_features_in_", n_features)
    if n_features is None and hasattr(model, "fit"):
        raise not_fitted_error
    if n_features is None:
        raise InvalidInput(
            f"The {type(model).__name__} does not define its number of features",
            "Allowed: models with n_features_in_, or models passed with rows",
            "Set n_features_in_, or pass the model to fairspan.audit with rows",
        )
    p = int(n_features)
    try:
        encode(steps, np.zeros((1, p)))
    except Exception as error:  # a model of another package may raise anything
        if type(error).__name__ == "NotFittedError":
            raise not_fitted_error from error
        # Any other error may be due to the row of zeros, as of a model that rejects it.
    standardization = _detect_standardizations(steps, p)
    standardizes = standardization.n_steps > 0
    has_scale = not (standardization.scale == 1).all()
    return ReconstructionModel(
        steps=steps,
        projection_steps=steps[standardization.n_steps :],
        n_features=p,
        mean=standardization.mean if standardizes else None,
        scale=standardization.scale if has_scale else None,
        feature_names=None if names is None else tuple(map(str, names)),
        n_fit_rows=_n_fit_rows(steps),
    )


def _n_fit_rows(steps: tuple[object, ...]) -> int | None:
    """Return the number of rows that the steps were fitted on; None if no step knows."""
    # scikit-learn counts rows per column if there are NaN. 0 stands for an unknown number.
    row_counts = [
        getattr(step, "n_samples_", getattr(step, "n_samples_seen_", 0)) for step in steps
    ]
    return max(int(np.max(row_count)) for row_count in row_counts) or None


def _invertible_steps(model: object) -> list[object]:
    """Return the steps before the first non-invertible one.

    A step that holds a fair subspace is the last one, so that this subspace is used, with its
    certificate, and not a projection detected from several steps. A step that resamples rows
    leaves those to transform as they are, as in imbalanced-learn.
    """
    named_steps = getattr(model, "steps", None)
    if named_steps is None:
        if not _is_invertible(model):
            remedy = TWO_TABLES_REMEDY if is_of_two_tables(model) else "Pass one of these"
            raise InvalidType(f"The model is {describe_type(model)}", ALLOWED_MODELS, remedy)
        return [model]
    invertible: list[object] = []
    for _, step in named_steps:
        if step is None or isinstance(step, str):  # "passthrough"
            continue
        if invertible and _resamples(step):
            continue
        if not _is_invertible(step):
            break
        # A pipeline may contain another one.
        is_pipeline = hasattr(step, "steps")
        invertible += _invertible_steps(step) if is_pipeline else [step]
        if hasattr(step, "subspace_"):
            break
    if not invertible:
        raise _first_step_error(named_steps)
    return invertible


def _first_step_error(named_steps: Sequence[tuple[str, object]]) -> InvalidInput:
    """Return the error for a pipeline whose first step is not invertible."""
    name, first = named_steps[0]
    allowed = "Allowed: pipelines that start with invertible steps"
    if _resamples(first):
        n_samplers = next((i for i, (_, step) in enumerate(named_steps) if not _resamples(step)), 1)
        return InvalidInput(
            f"The pipeline begins with the step {name!r} ({type(first).__name__}), which resamples "
            "rows in fit and does not transform them",
            allowed,
            f"Pass the steps after it, model[{n_samplers}:], with the same rows",
        )
    return InvalidInput(
        f"The first step of the pipeline, {name!r}, is {describe_type(first)} without "
        "inverse_transform",
        allowed,
        "Audit the later steps on transformed rows: model[1:] and model[:1].transform(X)",
    )


@dataclass(frozen=True, eq=False)
class EncodedPipeline:
    """Fitted pipeline that begins with steps without `inverse_transform`, such as an encoder.

    Attributes
    ----------
    encoder : pipeline
        The steps before the first invertible one.
    later_steps : pipeline
        The other steps.
    """

    encoder: Any
    later_steps: Any


def split_off_encoder(model: object) -> EncodedPipeline | None:
    """Split a pipeline before its first invertible step; None if there is nothing to split off.

    A fitted search stands for its best estimator.
    """
    model = getattr(model, "best_estimator_", model)
    named_steps = getattr(model, "steps", None)
    if named_steps is None:
        return None
    n_encoders = 0
    for _, step in named_steps:
        is_passthrough = step is None or isinstance(step, str)
        if not is_passthrough and (_is_invertible(step) or not hasattr(step, "transform")):
            break
        n_encoders += 1
    has_later_steps = n_encoders < len(named_steps)
    first_steps = [step for _, step in named_steps[:n_encoders]]
    if not has_later_steps or not any(hasattr(step, "transform") for step in first_steps):
        return None
    sliceable = cast(Any, model)
    return EncodedPipeline(sliceable[:n_encoders], sliceable[n_encoders:])


def _resamples(step: object) -> bool:
    """Whether a step of a pipeline only draws other rows when it is fitted."""
    return hasattr(step, "fit_resample") and not hasattr(step, "transform")


def _is_invertible(step: object) -> bool:
    has_both_methods = hasattr(step, "transform") and hasattr(step, "inverse_transform")
    return has_both_methods and not isinstance(step, type)


@dataclass(frozen=True, eq=False)
class _Standardizations:
    """Leading steps of a model that standardize features, composed.

    Attributes
    ----------
    n_steps : int
        Number of these steps.
    mean, scale : (p,) arrays
        Together they map rows to (x - mean) / scale.
    """

    n_steps: int
    mean: FloatArray
    scale: FloatArray


def _detect_standardizations(steps: tuple[object, ...], p: int) -> _Standardizations:
    """Detect the leading steps that standardize p features; the last step never counts."""
    mean = np.zeros(p)
    scale = np.ones(p)
    n_steps = 0
    for step in steps[:-1]:
        step_frame = _detect_standardization(step, p)
        if step_frame is None:
            break
        mean = mean + scale * step_frame.center
        scale = scale * step_frame.scale
        n_steps += 1
    return _Standardizations(n_steps, mean, scale)


def _detect_standardization(step: object, p: int) -> ReferenceFrame | None:
    """Mean and scale of a step that standardizes each feature; None if it does anything else.

    It standardizes if it is z = start + slope * x feature by feature, with positive slopes, and its
    inverse undoes that.
    """
    steps = (step,)
    try:
        start = encode(steps, np.zeros((1, p)))
        if start.shape != (1, p):
            return None
        # Probe far from the origin, so that an offset costs no precision of the slope.
        probe = 1.0 + np.abs(start[0])
        slope = (encode(steps, probe[None]) - start)[0] / probe
        if not (np.isfinite(slope).all() and (slope > 0).all()):
            return None
        rows = _probe_rows(np.zeros(p), 1.0 / slope)
        coordinates = encode(steps, rows)
        reconstructed = decode(steps, coordinates)
    except (ValueError, ArithmeticError):
        return None
    magnitudes = np.abs(start) + np.abs(slope * rows)
    allowed = SINGLE_PRECISION_TOL * magnitudes  # steps may compute in single precision
    is_affine = (np.abs(coordinates - (start + slope * rows)) <= allowed).all()
    is_inverse = (np.abs(reconstructed - rows) <= allowed / slope).all()
    if not (is_affine and is_inverse):
        return None
    return ReferenceFrame(-start[0] / slope, 1.0 / slope)


def detect_projection(model: ReconstructionModel) -> AffineProjection | None:
    """Detect the projection made by a model's steps; None if they make none.

    A few probe rows decide; all features are probed only if the projection is oblique.
    """
    try:
        return _detect_projection(model.projection_steps, model.n_features)
    except (ValueError, ArithmeticError):  # for example, a model that rejects negative numbers
        return None


def _detect_projection(steps: tuple[object, ...], p: int) -> AffineProjection | None:
    """Detect the projection that steps make of rows of p features; None if they make none.

    The steps may raise ValueError or ArithmeticError if they reject a probe row.
    """
    start = encode(steps, np.zeros((1, p)))  # coordinates of the origin of the features
    d = start.shape[1]
    mean = decode(steps, np.zeros((1, d)))[0]
    if mean.shape != (p,) or not 1 <= d <= p:
        return None
    # Probes as large as the offsets, so that these cost no precision.
    probe_size = 1.0 + float(np.abs(mean).max())
    decoder = (decode(steps, probe_size * np.eye(d)) - mean).T / probe_size
    # Coordinates z of the model are triangle @ z in the orthonormal basis.
    basis, triangle = _signed_qr(decoder)
    lengths = np.abs(np.diag(triangle))
    has_full_rank = lengths.min() > RANK_TOL * lengths.max()
    if not has_full_rank:
        return None
    rows = _probe_rows(mean, 1.0 + np.abs(mean))
    coordinates = encode(steps, rows)
    reconstructed = decode(steps, coordinates)
    has_linear_decoder = _rows_close(reconstructed, coordinates @ decoder.T + mean, rows)
    if not has_linear_decoder:
        return None
    if _rows_close(reconstructed, (rows - mean) @ basis @ basis.T + mean, rows):
        return AffineProjection(basis.T.copy(), mean)
    # Oblique: the encoder is found from the image of each feature.
    encoder = _probe_encoder(steps, start, probe_size, p)
    is_affine = _rows_close(coordinates, rows @ encoder.T + start, coordinates)
    # Otherwise reconstructions would be shifted or shrunk within the subspace.
    origin_shift = np.abs(encoder @ mean + start[0]).max()
    keeps_origin = origin_shift <= SINGLE_PRECISION_TOL * (1.0 + np.abs(start).max())
    basis_encoder = triangle @ encoder
    is_left_inverse = np.allclose(basis_encoder @ basis, np.eye(d), atol=SINGLE_PRECISION_TOL)
    if not (is_affine and keeps_origin and is_left_inverse):
        return None
    return AffineProjection(basis_encoder, mean, basis)


def _signed_qr(matrix: FloatArray) -> tuple[FloatArray, FloatArray]:
    """QR decomposition whose orthonormal columns have the signs of the columns of the matrix."""
    basis, triangle = np.linalg.qr(matrix)
    signs = np.sign(np.diag(triangle))
    return basis * signs, signs[:, None] * triangle


def _probe_encoder(
    steps: tuple[object, ...], start: FloatArray, probe_size: float, p: int
) -> FloatArray:
    """Matrix of an affine encoder, from the image of each feature, shape (d, p).

    Parameters
    ----------
    steps : tuple of objects with transform
    start : (1, d) array
        Coordinates of the origin.
    probe_size : float
        Size of the probes, which are multiples of unit vectors; a block of them at a time.
    p : int
        Number of features.
    """
    blocks = (
        probe_size * np.eye(min(_BLOCK_ROWS, p - first_row), p, first_row)
        for first_row in range(0, p, _BLOCK_ROWS)
    )
    return np.hstack([(encode(steps, block) - start).T for block in blocks]) / probe_size


def _probe_rows(center: FloatArray, spread: FloatArray) -> FloatArray:
    """Random rows around a point, with a fixed seed, shape (m, p).

    Four each at distances of about `spread`, of shape (p,), times each of the `PROBE_SCALES`.
    """
    rng = np.random.default_rng(0)
    offsets = rng.standard_normal((4 * len(PROBE_SCALES), len(center)))
    return np.asarray(center + spread * offsets * np.repeat(PROBE_SCALES, 4)[:, None])


def _rows_close(rows: FloatArray, expected: FloatArray, references: FloatArray) -> bool:
    """Whether rows agree up to rounding, relative to the largest entry of each reference row."""
    if rows.shape != expected.shape or not np.isfinite(rows).all():
        return False
    allowed = SINGLE_PRECISION_TOL * (1.0 + np.abs(references).max(axis=1, keepdims=True))
    return bool((np.abs(rows - expected) <= allowed).all())
