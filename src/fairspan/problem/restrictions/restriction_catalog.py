"""Built-in restrictions by name."""

from typing import cast

from fairspan.problem.restrictions.covariance_parity import CovarianceParity
from fairspan.problem.restrictions.mean_parity import MeanParity
from fairspan.problem.restrictions.restriction import Restriction
from fairspan.problem.restrictions.uncorrelated import Uncorrelated
from fairspan.registry import resolve_object

# Restrictions by name.
RESTRICTIONS = {each.name: each for each in (MeanParity, CovarianceParity, Uncorrelated)}


def get_restriction(restriction: object, **parameters: object) -> Restriction | None:
    """Get a restriction by name, with parameters, or return the given object or None.

    Raises
    ------
    InvalidParameter, InvalidType
        See :func:`get_criterion`.

    Examples
    --------
    >>> get_restriction("mean_parity")
    MeanParity(tolerance=0.0)
    """
    if restriction is None:
        return None
    return cast(
        Restriction,
        resolve_object(
            "restriction", restriction, Restriction, RESTRICTIONS.__getitem__, parameters
        ),
    )
