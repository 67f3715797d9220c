"""Scale the coordinates of a subspace to unit variance."""

from dataclasses import replace

import numpy as np

from fairspan.errors import IncompatibleParameters
from fairspan.linalg.rounding import ENTRY_TERMS, EPS
from fairspan.model.subspace import FairSubspace
from fairspan.moments.compute import Moments
from fairspan.typing import FloatArray


def whiten_subspace(
    subspace: FairSubspace, moments: Moments, variances: FloatArray
) -> FairSubspace:
    """Divide each coordinate by its standard deviation, unless that is exactly zero.

    Parameters
    ----------
    subspace : FairSubspace
    moments : GroupMoments, SparseMoments or WideMoments
        In units of the rows, to find the rounding error of the variances.
    variances : (d,) array
        Pooled variance of each coordinate, in scaled units.

    Returns
    -------
    FairSubspace
        With its field `whitening`. A coordinate that is zero in every row is divided by 1.

    Raises
    ------
    IncompatibleParameters
        The projection is soft or oblique, or the variance of a coordinate is negligible.
    """
    check_orthonormal_components(subspace, "whiten=True")
    # Second moment of each feature of each group about the center of the model, shape (k, p).
    frame = subspace.reference_frame(moments)
    squares = moments.variances + moments.offsets_from(frame.center) ** 2
    feature_variances = moments.proportions @ squares / frame.scale**2
    # A direction is compared with its own features, so that a column of large numbers does not
    # make the variance of other columns negligible.
    direction_variances = subspace.components**2 @ feature_variances
    # Rounding of the sums of p products, relative to the direction's features. The entries of a
    # component are rounded themselves, which adds a fraction of every feature.
    entry_rounding = (EPS * ENTRY_TERMS) ** 2 * float(feature_variances.sum())
    n_terms = ENTRY_TERMS * subspace.n_features
    rounding = EPS * n_terms * direction_variances + entry_rounding
    is_negligible = variances <= rounding
    is_zero = (variances == 0) & (direction_variances == 0)
    rejected = np.flatnonzero(is_negligible & ~is_zero)
    if rejected.size:
        first = int(rejected[0])
        raise IncompatibleParameters(
            f"whiten=True was requested, but the variance {variances[first]:.1e} along component "
            f"{first + 1} of {len(variances)} is negligible",
            "Allowed with whiten=True: components along which the rows vary; otherwise rounding "
            "becomes a coordinate of variance one",
            "Choose fewer components, or use whiten=False",
        )
    return replace(subspace, whitening=np.sqrt(np.where(is_zero, 1.0, variances)))


def check_orthonormal_components(subspace: FairSubspace, requested: str) -> None:
    """Check that the components are orthonormal, as `requested` (an attribute or call) requires.

    Those of a soft projection are shorter than one; the encoder of an oblique projection is not the
    transpose of its decoder.

    Raises
    ------
    IncompatibleParameters
    """
    if subspace.is_soft or subspace.is_oblique:
        kind = "a soft projection" if subspace.is_soft else "an oblique projection"
        raise IncompatibleParameters(
            f"{requested} was requested for {kind}",
            "Allowed: orthonormal components",
            "Fit with allow_extra=False and without an oblique restriction",
        )
