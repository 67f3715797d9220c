"""Models of others: what reduces rows and brings them back, and the projection that it makes.

A model offers ``transform`` and ``inverse_transform``. A pipeline offers ``steps``, of which the
first ones that offer both are taken; a search that was fitted offers ``best_estimator_``. The
projection x to D E (x - mean) + mean is found by what a model does to rows: both methods must be
affine at every distance from its origin, and together leave what they brought back as it is.
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairspan.errors import InvalidInput, InvalidType, kind_of
from fairspan.typing import FloatArray

# At which multiples of its own scale a step is tried, since many maps are linear only near by.
FAR = (1.0, 1e3, 1e6)
# Of numbers that are equal but for rounding, also where a step computes in single precision.
SAME = 1e-6
ALLOWED_MODELS = (
    "Allowed: fitted models with transform and inverse_transform, such as a PCA, a FairPCA or a "
    "pipeline that begins with them, a FairSubspace, the name of a file that save wrote, or a "
    "(d, p) array with orthonormal rows"
)


@dataclass(frozen=True, eq=False)
class Chain:
    """Steps one after the other.

    Attributes
    ----------
    steps : tuple of objects with transform and inverse_transform
    """

    steps: tuple[Any, ...]

    def transform(self, X: FloatArray) -> FloatArray:
        """Coordinates of rows."""
        return self._through(X, [step.transform for step in self.steps])

    def inverse_transform(self, Z: FloatArray) -> FloatArray:
        """Rows from their coordinates."""
        return self._through(Z, [step.inverse_transform for step in reversed(self.steps)])

    @staticmethod
    def _through(rows: FloatArray, methods: Sequence[Callable[[Any], Any]]) -> FloatArray:
        with warnings.catch_warnings():
            # Models that were fitted on named columns take the same columns without their names.
            warnings.filterwarnings("ignore", message="X does not have valid feature names")
            for method in methods:
                # Some models drop the rows of a table that has one.
                rows = np.asarray(method(rows), dtype=np.float64).reshape(len(rows), -1)
        return rows


@dataclass(frozen=True, eq=False)
class RowModel:
    """What reduces rows and brings them back, judged by what it makes of each row.

    Attributes
    ----------
    whole : Chain
    chain : Chain
        The model after a standardization of the features.
    n_features : int
    mean, scale : (p,) arrays or None
        Of the standardization; None where there is none.
    feature_names : tuple of str or None
    n_fitted : int or None
        Number of rows that it was fitted on, if one of its steps knows.
    """

    whole: Chain
    chain: Chain
    n_features: int
    mean: FloatArray | None
    scale: FloatArray | None
    feature_names: tuple[str, ...] | None
    n_fitted: int | None

    @property
    def core(self) -> Any:
        """The single step that is left, or the chain of several."""
        return self.chain.steps[0] if len(self.chain.steps) == 1 else self.chain

    @property
    def dimension(self) -> int:
        """That of the subspaces which it is compared with: at most p."""
        made = self.chain.transform(np.zeros((1, self.n_features)))
        return min(int(made.shape[1]), self.n_features)

    def squared_residuals(self, rows: FloatArray) -> FloatArray:
        """Squared distance of each row to what it is brought back as, shape (n,).

        Parameters
        ----------
        rows : (n, p) array
            As they came, which a model may depend on to the last digit. Distances are in units of
            `scale`.
        """
        back = self.whole.inverse_transform(self.whole.transform(rows))
        left = (rows - back) / (1.0 if self.scale is None else self.scale)
        return np.asarray(np.einsum("ij,ij->i", left, left))


def row_model_of(model: Any, n_features: int | None = None) -> RowModel:
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
    steps = _steps_of(model)
    names = getattr(model, "feature_names_in_", getattr(steps[0], "feature_names_in_", None))
    known = getattr(model, "n_features_in_", getattr(steps[0], "n_features_in_", n_features))
    if known is None:
        if hasattr(model, "fit"):
            raise _not_fitted(model)
        raise InvalidInput(
            f"The {type(model).__name__} does not say how many features it takes",
            "Allowed: models with n_features_in_, or models beside rows",
            "Set n_features_in_, or pass the model to fairspan.audit with rows",
        )
    width, fitted = int(known), max(filter(None, map(_rows_of, steps)), default=None)
    whole = Chain(tuple(steps))
    try:
        whole.transform(np.zeros((1, width)))
    except Exception as error:  # whatever a model of another package raises
        if type(error).__name__ == "NotFittedError":
            raise _not_fitted(model) from error
    mean, scale, standardized = np.zeros(width), np.ones(width), False
    while len(steps) > 1 and (found := _standardization(steps[0], width)) is not None:
        mean, scale, standardized = mean + scale * found[0], scale * found[1], True
        steps = steps[1:]
    return RowModel(
        whole,
        Chain(tuple(steps)),
        width,
        mean if standardized else None,
        None if (scale == 1).all() else scale,
        None if names is None else tuple(map(str, names)),
        fitted,
    )


def _steps_of(model: Any) -> list[Any]:
    """The steps up to the first that cannot be undone, or that holds a fair subspace."""
    listed = getattr(model, "steps", None)
    if listed is None:
        if not _is_undone(model):
            raise InvalidType(f"The model is {kind_of(model)}", ALLOWED_MODELS, "Pass one of these")
        return [model]
    taken: list[Any] = []
    for _, step in listed:
        if step is None or isinstance(step, str):  # "passthrough"
            continue
        if not _is_undone(step):
            break
        # A pipeline may hold another one.
        taken += _steps_of(step) if hasattr(step, "steps") else [step]
        if hasattr(step, "subspace_"):
            break
    if not taken:
        name, first = listed[0]
        raise InvalidInput(
            f"The first step of the pipeline, {name!r}, is {kind_of(first)}, which has no "
            "inverse_transform",
            "Allowed: pipelines that begin with steps that bring rows back",
            "Audit the steps after it on the rows that it makes: model[1:] and "
            "model[:1].transform(X)",
        )
    return taken


def _is_undone(step: Any) -> bool:
    methods = ("transform", "inverse_transform")
    return not isinstance(step, type) and all(hasattr(step, name) for name in methods)


def _not_fitted(model: Any) -> InvalidType:
    return InvalidType(
        f"The {type(model).__name__} has not been fitted", ALLOWED_MODELS, "Call its fit first"
    )


def _rows_of(step: Any) -> int | None:
    """How many rows a step was fitted on: scikit-learn counts them for each column where NaN is."""
    counted = getattr(step, "n_samples_", getattr(step, "n_samples_seen_", None))
    return None if counted is None else int(np.max(counted))


def _standardization(step: Any, width: int) -> tuple[FloatArray, FloatArray] | None:
    """What a step subtracts from each feature and divides it by; None if it does anything else."""
    alone = Chain((step,))
    try:
        start = alone.transform(np.zeros((1, width)))
        if start.shape != (1, width):
            return None
        # Far out, so that an offset costs no digits of the slope.
        unit = 1.0 + np.abs(start[0])
        slope = (alone.transform(unit[None]) - start)[0] / unit
        if not (np.isfinite(slope).all() and (slope > 0).all()):
            return None
        rows = points_around(np.zeros(width), 1.0 / slope)
        made, expected = alone.transform(rows), start + slope * rows
        back = alone.inverse_transform(made)
    except (ValueError, ArithmeticError):
        return None
    sizes = np.abs(start) + np.abs(slope * rows)
    agree = (np.abs(made - expected) <= SAME * sizes).all()
    undone = (np.abs(back - rows) <= SAME * (sizes / slope)).all()
    return (-start[0] / slope, 1.0 / slope) if agree and undone else None


def points_around(middle: FloatArray, spread: FloatArray) -> FloatArray:
    """Rows at several distances from a point, the same in every call, shape (m, p)."""
    drawn = np.random.default_rng(0).standard_normal((4 * len(FAR), len(middle)))
    return np.asarray(middle + spread * drawn * np.repeat(FAR, 4)[:, None])


# Rows that are transformed at a time.
_BLOCK = 512
# A column of the decoder that adds less than this share to the others adds nothing.
_DEPENDENT = 1e-10


@dataclass(frozen=True, eq=False)
class AffineMap:
    """A projection in standardized features.

    Attributes
    ----------
    components : (d, p) array
        Orthonormal rows, or any beside a decoder.
    mean : (p,) array
    oblique_decoder : (p, d) array or None
        Orthonormal columns.
    is_declared : bool
        Whether the model shows them itself, as attributes.
    """

    components: FloatArray
    mean: FloatArray
    oblique_decoder: FloatArray | None = None
    is_declared: bool = False


def affine_map_of(part: RowModel) -> AffineMap | None:
    """The projection of a part; None if it makes none."""
    try:
        declared = _declared(part)
        return _found(part) if declared is None else declared
    except (ValueError, ArithmeticError):  # a model that takes no negative numbers, for instance
        return None


def _declared(part: RowModel) -> AffineMap | None:
    """The components and the mean that a model shows, if it does what they say."""
    components, mean = (getattr(part.core, name, None) for name in ("components_", "mean_"))
    if not isinstance(components, np.ndarray) or components.ndim != 2:
        return None
    basis = components.astype(np.float64)
    if basis.shape[1] != part.n_features or not np.allclose(
        basis @ basis.T, np.eye(len(basis)), atol=SAME
    ):
        return None
    middle = np.zeros(part.n_features) if mean is None else np.asarray(mean, dtype=np.float64)
    if middle.shape != (part.n_features,):
        return None
    rows = points_around(middle, 1.0 + np.abs(middle))
    back = part.chain.inverse_transform(part.chain.transform(rows))
    expected = (rows - middle) @ basis.T @ basis + middle
    return AffineMap(basis, middle, is_declared=True) if _alike(back, expected, rows) else None


def _found(part: RowModel) -> AffineMap | None:
    encode, decode, p = part.chain.transform, part.chain.inverse_transform, part.n_features
    start = encode(np.zeros((1, p)))
    d = start.shape[1]
    mean = decode(np.zeros((1, d)))[0]
    if mean.shape != (p,) or not 1 <= d <= p:
        return None
    # Steps as large as the offsets, so that these cost no digits.
    step = 1.0 + float(np.abs(mean).max())
    decoder = (decode(step * np.eye(d)) - mean).T / step
    encoder = np.empty((d, p))
    for first in range(0, p, _BLOCK):
        chosen = slice(first, min(first + _BLOCK, p))
        encoder[:, chosen] = (encode(step * np.eye(p)[chosen]) - start).T / step
    rows = points_around(mean, 1.0 + np.abs(mean))
    made = encode(rows)
    encodes = _alike(made, rows @ encoder.T + start, made)
    if not encodes or not _alike(decode(made), made @ decoder.T + mean, rows):
        return None
    offset = encoder @ mean + start[0]
    if np.abs(offset).max() > SAME * (1.0 + np.abs(start).max()):
        return None  # what it brings back is moved within the subspace
    return _normal_form(encoder, decoder, mean)


def _normal_form(encoder: FloatArray, decoder: FloatArray, mean: FloatArray) -> AffineMap | None:
    """The same projection by a decoder with orthonormal columns, orthogonal if it can be."""
    basis, triangle = np.linalg.qr(decoder)
    lengths = np.abs(np.diag(triangle))
    if lengths.min() <= _DEPENDENT * lengths.max():
        return None
    inside = triangle @ encoder
    if not np.allclose(inside @ basis, np.eye(len(inside)), atol=SAME):
        return None  # it shrinks what it brings back
    if np.allclose(inside, basis.T, atol=SAME):
        return AffineMap(np.ascontiguousarray(basis.T), mean)
    return AffineMap(inside, mean, basis)


def _alike(found: FloatArray, expected: FloatArray, sizes: FloatArray) -> bool:
    """Whether rows agree up to rounding, each beside the size of its own numbers."""
    if found.shape != expected.shape or not np.isfinite(found).all():
        return False
    largest = 1.0 + np.abs(sizes).max(axis=1, keepdims=True)
    return bool((np.abs(found - expected) <= SAME * largest).all())
