"""Models of others: what reduces rows and brings them back, and the projection that it makes.

A model offers ``transform`` and ``inverse_transform``. A pipeline offers ``steps``, of which the
first ones that offer both are taken; a search that was fitted offers ``best_estimator_``. The
projection x to D E (x - mean) + mean is found by what a model does to rows: both methods must be
affine at every distance from its origin, and together leave what they brought back as it is.
"""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairspan.errors import InvalidInput, InvalidType, describe_type
from fairspan.typing import FloatArray

# At which multiples of its own scale a step is tried, since many maps are linear only near by.
PROBE_SCALES = (1.0, 1e3, 1e6)
# Of numbers that are equal but for rounding, also where a step computes in single precision.
PROBE_TOL = 1e-6
# Rows that are transformed at a time.
_BLOCK_ROWS = 512
# A column of the decoder that adds less than this share to the others adds nothing.
_RANK_TOL = 1e-10
# Components, mean, and the decoder of an oblique projection.
AffineProjection = tuple[FloatArray, FloatArray, FloatArray | None]
ALLOWED_MODELS = (
    "Allowed: fitted models with transform and inverse_transform, such as a PCA, a FairPCA or a "
    "pipeline that begins with them, a FairSubspace, the name of a file that save wrote, or a "
    "(d, p) array with orthonormal rows"
)


@dataclass(frozen=True, eq=False)
class ReconstructionModel:
    """What reduces rows and brings them back, judged by what it makes of each row.

    Attributes
    ----------
    steps : tuple of objects with transform and inverse_transform
        The whole model.
    later : tuple of the same
        Those after the first ones that standardize the features.
    n_features : int
    mean, scale : (p,) arrays or None
        Of the standardization; None where there is none.
    feature_names : tuple of str or None
    n_fitted : int or None
        Number of rows that it was fitted on, if one of its steps knows.
    """

    steps: tuple[Any, ...]
    projection_steps: tuple[Any, ...]
    n_features: int
    mean: FloatArray | None
    scale: FloatArray | None
    feature_names: tuple[str, ...] | None
    n_fit_rows: int | None

    @property
    def dimension(self) -> int:
        """That of the subspaces which it is compared with: at most p."""
        coordinates = encode(self.projection_steps, np.zeros((1, self.n_features)))
        return min(int(coordinates.shape[1]), self.n_features)

    def squared_residuals(self, rows: FloatArray) -> FloatArray:
        """Squared distance of each row to what it is brought back as, shape (n,).

        Parameters
        ----------
        rows : (n, p) array
            As they came, which a model may depend on to the last digit. Distances are in units of
            `scale`.
        """
        reconstructed = decode(self.steps, encode(self.steps, rows))
        residuals = (rows - reconstructed) / (1.0 if self.scale is None else self.scale)
        return np.asarray(np.einsum("ij,ij->i", residuals, residuals))


def encode(steps: tuple[Any, ...], rows: FloatArray) -> FloatArray:
    """What steps make of rows, one after the other."""
    return _apply_steps(steps, "transform", rows)


def decode(steps: tuple[Any, ...], coordinates: FloatArray) -> FloatArray:
    """What the same steps bring coordinates back as."""
    return _apply_steps(steps[::-1], "inverse_transform", coordinates)


def _apply_steps(steps: tuple[Any, ...], method: str, rows: FloatArray) -> FloatArray:
    """Rows after one method of several steps, each applied to what the one before made."""
    with warnings.catch_warnings():
        # Models that were fitted on named columns take the same columns without their names.
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        for step in steps:
            # Some models drop the rows of a table that has one.
            coordinates = np.asarray(getattr(step, method)(rows), dtype=np.float64)
            rows = coordinates.reshape(len(rows), -1)
    return rows


def reconstruction_model(model: Any, n_features: int | None = None) -> ReconstructionModel:
    """The steps of a fitted model that reduce rows and bring them back.

    Parameters
    ----------
    model : object
    n_features : int, optional
        p, for a model that does not say it.

    Raises
    ------
    InvalidType
        An object that does neither, or a model that has not been fitted.
    InvalidInput
        A pipeline whose first step cannot be undone, or a model of unknown width.
    """
    model = getattr(model, "best_estimator_", model)
    steps = tuple(_invertible_steps(model))
    not_fitted_error = InvalidType(
        f"The {type(model).__name__} has not been fitted", ALLOWED_MODELS, "Call its fit first"
    )
    names = getattr(model, "feature_names_in_", getattr(steps[0], "feature_names_in_", None))
    n_features_in = getattr(
        model, "n_features_in_", getattr(steps[0], "n_features_in_", n_features)
    )
    if n_features_in is None:
        raise (
            not_fitted_error
            if hasattr(model, "fit")
            else InvalidInput(
                f"The {type(model).__name__} does not say how many features it takes",
                "Allowed: models with n_features_in_, or models beside rows",
                "Set n_features_in_, or pass the model to fairspan.audit with rows",
            )
        )
    width = int(n_features_in)
    try:
        encode(steps, np.zeros((1, width)))
    except Exception as error:  # whatever a model of another package raises
        if type(error).__name__ == "NotFittedError":
            raise not_fitted_error from error
    mean, scale, projection_steps = np.zeros(width), np.ones(width), steps
    while (
        len(projection_steps) > 1
        and (found := _detect_standardization(projection_steps[:1], width)) is not None
    ):
        mean, scale, projection_steps = (
            mean + scale * found[0],
            scale * found[1],
            projection_steps[1:],
        )
    # scikit-learn counts rows for each column where NaN is.
    row_counts = [
        getattr(each, "n_samples_", getattr(each, "n_samples_seen_", 0)) for each in steps
    ]
    return ReconstructionModel(
        steps,
        projection_steps,
        width,
        None if projection_steps is steps else mean,
        None if (scale == 1).all() else scale,
        tuple(map(str, names)) if names is not None else None,
        max(int(np.max(each)) for each in row_counts) or None,
    )


def _invertible_steps(model: Any) -> list[Any]:
    """The steps up to the first that cannot be undone, or that holds a fair subspace.

    A step that resamples rows leaves those to transform as they are, as in imbalanced-learn.
    """
    named_steps = getattr(model, "steps", None)
    if named_steps is None:
        if not _is_invertible(model):
            raise InvalidType(
                f"The model is {describe_type(model)}", ALLOWED_MODELS, "Pass one of these"
            )
        return [model]
    invertible: list[Any] = []
    for _, step in named_steps:
        if step is None or isinstance(step, str):  # "passthrough"
            continue
        if invertible and _resamples(step):
            continue
        if not _is_invertible(step):
            break
        # A pipeline may hold another one.
        invertible += _invertible_steps(step) if hasattr(step, "steps") else [step]
        if hasattr(step, "subspace_"):
            break
    if not invertible:
        name, first = named_steps[0]
        if _resamples(first):
            n_samplers = next((i for i, (_, s) in enumerate(named_steps) if not _resamples(s)), 1)
            raise InvalidInput(
                f"The pipeline begins with the step {name!r} ({type(first).__name__}), which "
                "resamples rows in fit and does not transform them",
                "Allowed: pipelines that begin with steps that bring rows back",
                f"Pass the steps after it, model[{n_samplers}:], with the same rows",
            )
        raise InvalidInput(
            f"The first step of the pipeline, {name!r}, is {describe_type(first)}, which has no "
            "inverse_transform",
            "Allowed: pipelines that begin with steps that bring rows back",
            "Audit the steps after it on the rows that it makes: model[1:] and "
            "model[:1].transform(X)",
        )
    return invertible


def _resamples(step: Any) -> bool:
    """Return whether a step of a pipeline draws other rows when it is fitted, and nothing else."""
    return hasattr(step, "fit_resample") and not hasattr(step, "transform")


def _is_invertible(step: Any) -> bool:
    both = hasattr(step, "transform") and hasattr(step, "inverse_transform")
    return both and not isinstance(step, type)


def _detect_standardization(
    step: tuple[Any, ...], width: int
) -> tuple[FloatArray, FloatArray] | None:
    """What a step subtracts from each feature and divides it by; None if it does anything else."""
    try:
        start = encode(step, np.zeros((1, width)))
        if start.shape != (1, width):
            return None
        # Far out, so that an offset costs no digits of the slope.
        probe = 1.0 + np.abs(start[0])
        slope = (encode(step, probe[None]) - start)[0] / probe
        if not (np.isfinite(slope).all() and (slope > 0).all()):
            return None
        rows = _probe_rows(np.zeros(width), 1.0 / slope)
        coordinates = encode(step, rows)
        reconstructed = decode(step, coordinates)
    except (ValueError, ArithmeticError):
        return None
    magnitudes = np.abs(start) + np.abs(slope * rows)
    is_affine = (np.abs(coordinates - (start + slope * rows)) <= PROBE_TOL * magnitudes).all()
    undone = (np.abs(reconstructed - rows) <= PROBE_TOL * (magnitudes / slope)).all()
    return (-start[0] / slope, 1.0 / slope) if is_affine and undone else None


def detect_projection(model: ReconstructionModel) -> AffineProjection | None:
    """The projection of a part, found by what it does to rows; None if it makes none.

    In normal form: by a decoder with orthonormal columns, and orthogonal if it can be. A few rows
    tell that; what becomes of every feature is looked at only where the encoder is oblique.
    """
    steps, p = model.projection_steps, model.n_features
    try:
        start = encode(steps, np.zeros((1, p)))
        d = start.shape[1]
        mean = decode(steps, np.zeros((1, d)))[0]
        if mean.shape != (p,) or not 1 <= d <= p:
            return None
        # Steps as large as the offsets, so that these cost no digits.
        step = 1.0 + float(np.abs(mean).max())
        decoder = (decode(steps, step * np.eye(d)) - mean).T / step
        rows = _probe_rows(mean, 1.0 + np.abs(mean))
        coordinates = encode(steps, rows)
        reconstructed = decode(steps, coordinates)
        basis, triangle = np.linalg.qr(decoder)
        lengths = np.diag(triangle)
        independent = np.abs(lengths).min() > _RANK_TOL * np.abs(lengths).max()
        if not (independent and _rows_close(reconstructed, coordinates @ decoder.T + mean, rows)):
            return None
        # As the columns of the decoder point.
        basis, triangle = basis * np.sign(lengths), np.sign(lengths)[:, None] * triangle
        if _rows_close(reconstructed, (rows - mean) @ basis @ basis.T + mean, rows):
            return basis.T.copy(), mean, None
        blocks = (step * np.eye(min(_BLOCK_ROWS, p - at), p, at) for at in range(0, p, _BLOCK_ROWS))
        encoder = np.hstack([(encode(steps, block) - start).T for block in blocks]) / step
    except (ValueError, ArithmeticError):  # a model that takes no negative numbers, for instance
        return None
    is_affine = _rows_close(coordinates, rows @ encoder.T + start, coordinates)
    # Otherwise what it brings back is moved within the subspace, or shrunk.
    keeps_origin = np.abs(encoder @ mean + start[0]).max() <= PROBE_TOL * (
        1.0 + np.abs(start).max()
    )
    basis_encoder = triangle @ encoder
    undone = np.allclose(basis_encoder @ basis, np.eye(d), atol=PROBE_TOL)
    return (basis_encoder, mean, basis) if is_affine and keeps_origin and undone else None


def _probe_rows(middle: FloatArray, spread: FloatArray) -> FloatArray:
    """Rows at several distances from a point, the same in every call, shape (m, p)."""
    drawn = np.random.default_rng(0).standard_normal((4 * len(PROBE_SCALES), len(middle)))
    return np.asarray(middle + spread * drawn * np.repeat(PROBE_SCALES, 4)[:, None])


def _rows_close(found: FloatArray, expected: FloatArray, sizes: FloatArray) -> bool:
    """Whether rows agree up to rounding, each beside the size of its own numbers."""
    comparable = found.shape == expected.shape and bool(np.isfinite(found).all())
    allowed = PROBE_TOL * (1.0 + np.abs(sizes).max(axis=1, keepdims=True))
    return comparable and bool((np.abs(found - expected) <= allowed).all())
