"""Seeds and generators, as scikit-learn's users pass them."""

from typing import Any

import numpy as np

from fairspan.errors import InvalidType


def generator_of(random_state: Any) -> np.random.Generator:
    """The generator for a seed, a numpy Generator or RandomState, or None.

    Raises
    ------
    InvalidType
        Anything else.

    Examples
    --------
    >>> int(generator_of(0).integers(100))
    85
    """
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31, size=4))
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError) as error:
        raise InvalidType(
            f"random_state is {random_state!r}",
            "Allowed: a whole number of at least 0, a numpy Generator or RandomState, or None",
            "Pass a seed",
        ) from error
