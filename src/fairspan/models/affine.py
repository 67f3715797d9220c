"""The projection that a model makes, found by what it does to rows: x to D E (x - mean) + mean.

The model only needs ``transform`` and ``inverse_transform``, each of which must be
affine at every distance from its origin, and together leave what they brought back as it is.
"""

from dataclasses import dataclass

import numpy as np

from fairspan.models.parts import SAME, Part, points_around
from fairspan.typing import FloatArray

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


def affine_map_of(part: Part) -> AffineMap | None:
    """The projection of a part; None if it makes none."""
    try:
        declared = _declared(part)
        return _found(part) if declared is None else declared
    except (ValueError, ArithmeticError):  # a model that takes no negative numbers, for instance
        return None


def _declared(part: Part) -> AffineMap | None:
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
    alike = _alike(back, expected, rows)
    return AffineMap(basis, middle, is_declared=True) if alike else None


def _found(part: Part) -> AffineMap | None:
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
    if not _alike(made, rows @ encoder.T + start, made):
        return None
    if not _alike(decode(made), made @ decoder.T + mean, rows):
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
