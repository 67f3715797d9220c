"""Scales of features: divisors that standardize them, and features that dominate all others."""

import numpy as np

from fairspan.errors import warn
from fairspan.moments.base_moments import Center
from fairspan.moments.compute import Moments
from fairspan.rows.labels import format_list
from fairspan.typing import FloatArray

# A feature this many times as large as the median one may leave the others few digits.
_DOMINANCE_RATIO = 100.0


def compute_feature_scale(moments: Moments) -> FloatArray:
    """Return each feature's standard deviation; 1 (and a warning) for constant features."""
    deviations = moments.standard_deviations
    constant = deviations == 0
    if constant.any():
        names = moments.feature_names or tuple(map(str, range(moments.n_features)))
        columns = [name for name, is_constant in zip(names, constant, strict=True) if is_constant]
        warn(
            f"Constant columns cannot be scaled and are left as they are: {format_list(columns)}. "
            "They carry no variance and can be dropped."
        )
    return np.where(constant, 1.0, deviations)


def describe_dominant_feature(moments: Moments, center: Center) -> str | None:
    """Describe the feature that varies most, or return None if it does not dominate the others.

    Without a center, the root mean square takes the place of the standard deviation.
    """
    magnitudes = moments.standard_deviations
    if center == "none":
        magnitudes = np.hypot(magnitudes, moments.mean)
    largest = int(np.argmax(magnitudes))
    names = moments.feature_names or tuple(map(str, range(moments.n_features)))
    text = f"the column {names[largest]!r} has the largest numbers"
    others = np.delete(magnitudes, largest)
    if not others.any():
        return text  # the ratio to the others would be infinite
    ratio = float(magnitudes[largest]) / np.median(others[others > 0])
    if ratio < _DOMINANCE_RATIO:
        return None
    if not np.isfinite(ratio):
        return text
    return f"{text}, {ratio:.0e} times those of the median column"
