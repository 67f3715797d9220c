"""Which models can be judged, and what each of them projects with."""

from typing import Any

import numpy as np

from fairspan.errors import InvalidType
from fairspan.subspace import FairSubspace, orthonormal, orthonormal_or_soft


def subspace_of(model: Any) -> FairSubspace:
    """What any accepted model projects with: the basis and its own centre and scale.

    Parameters
    ----------
    model : FairPCA, FairSubspace, fitted PCA, IncrementalPCA or TruncatedSVD, or (d, p) array
        A bare array has orthonormal rows and is centred at the mean of the rows it is shown. Only
        FairPCA and FairSubspace may be soft projections.

    Returns
    -------
    FairSubspace

    Raises
    ------
    InvalidType
        Something else, or a model that is not fitted.
    InvalidInput
        Components that are not orthonormal.
    """
    if isinstance(model, FairSubspace):
        return orthonormal_or_soft(model)
    fitted = getattr(model, "subspace_", None)
    if isinstance(fitted, FairSubspace):
        return fitted
    if isinstance(model, np.ndarray):
        return orthonormal(FairSubspace(np.asarray(model, dtype=np.float64), None))
    components = getattr(model, "components_", None)
    # Matched by name, so that scikit-learn is not imported to find out.
    kinds = {each.__name__ for each in type(model).__mro__}
    if components is None or not kinds & {"PCA", "IncrementalPCA", "TruncatedSVD"}:
        raise InvalidType(
            f"The model is a {type(model).__name__}"
            + (" that is not fitted" if hasattr(model, "fit") and components is None else ""),
            "Allowed are a fitted FairPCA, FairSubspace, PCA, IncrementalPCA or TruncatedSVD, "
            "or a (d, p) array with orthonormal rows",
            "Fit the model first, or pass its components as an array",
        )
    names = getattr(model, "feature_names_in_", None)
    mean = getattr(model, "mean_", None)  # TruncatedSVD does not centre
    return orthonormal(
        FairSubspace(
            np.asarray(components, dtype=np.float64),
            np.zeros(components.shape[1]) if mean is None else np.asarray(mean, dtype=np.float64),
            center="none" if mean is None else "global",
            feature_names=None if names is None else tuple(names),
        )
    )
