"""What displays need of an estimator."""

from typing import Any

from fairspan.errors import InvalidType
from fairspan.moments.of_rows import Moments
from fairspan.problem.parameters import kind_of


def moments_of_fit(estimator: Any, purpose: str) -> Any:
    """The group moments that a fitted FairPCA holds.

    Raises
    ------
    InvalidType
        Something else, or a FairPCA that is not fitted.
    """
    moments = getattr(estimator, "moments_", None)
    if isinstance(moments, Moments):
        return moments
    raise InvalidType(
        f"{purpose} received {kind_of(estimator)}"
        + (" that is not fitted" if hasattr(estimator, "fit") else ""),
        "Allowed is a fitted FairPCA, which holds the moments of its rows",
        "Fit one first",
    )
