"""Offset of the decoder of a model, after a check that it is linear."""

import numpy as np

from fairspan.errors import IncompatibleParameters
from fairspan.linalg.rounding import SINGLE_PRECISION_TOL
from fairspan.model.other_packages import ReconstructionModel, decode, encode
from fairspan.typing import FloatArray

# Number of random codes at which a decoder is checked to be linear.
_N_PROBES = 8
# Number of rows at whose codes it is checked: random codes may lie far from those of rows.
_N_CHECKED_ROWS = 200


def decoder_offset(model: ReconstructionModel, rows: FloatArray) -> FloatArray:
    """Return the row that the code zero decodes to, after a check that the decoder is linear.

    Parameters
    ----------
    model : ReconstructionModel
    rows : (n, p) array
        Rows, at least one. The decoder is compared with a linear one at the codes of the first, and
        at random codes.

    Returns
    -------
    (p,) array

    Raises
    ------
    IncompatibleParameters
        The decoder is not linear.
    """
    codes_of_rows = encode(model.steps, rows[:_N_CHECKED_ROWS])
    d = codes_of_rows.shape[1]
    # Models of non-negative codes may refuse others.
    random_codes = np.abs(np.random.default_rng(0).standard_normal((_N_PROBES, d)))
    codes = np.vstack([codes_of_rows, random_codes])
    zero = decode(model.steps, np.zeros((1, d)))[0]
    basis = decode(model.steps, np.eye(d)) - zero
    expected = codes @ basis + zero
    decoded = decode(model.steps, codes)
    size = float(np.abs(expected).max()) + float(np.abs(basis).max(initial=0.0))
    if np.abs(decoded - expected).max() <= SINGLE_PRECISION_TOL * d * size:
        return np.asarray(zero)
    raise not_linear_error()


def not_linear_error() -> IncompatibleParameters:
    """Error for a decoder that is not linear."""
    return IncompatibleParameters(
        "The decoder (inverse_transform) of the model is not linear",
        "Allowed: models that reconstruct rows as weighted sums of the same components",
        "For other models no such bound is known; audit them with fairspan.audit",
    )
