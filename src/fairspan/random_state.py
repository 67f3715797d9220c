"""Conversion of scikit-learn style `random_state` arguments."""

import numpy as np

from fairspan.errors import InvalidType
from fairspan.typing import RandomSource


def as_generator(random_state: RandomSource) -> np.random.Generator:
    """Return a Generator for a seed, a Generator, a RandomState, or None.

    Raises
    ------
    InvalidType
        Unsupported `random_state`.

    Examples
    --------
    >>> int(as_generator(0).integers(100))
    85
    """
    if isinstance(random_state, np.random.RandomState):
        # Four of its numbers are the seed, which advances its state as any use would.
        return np.random.default_rng(random_state.randint(2**31, size=4))
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError) as error:
        raise InvalidType(
            f"random_state is {random_state!r}",
            "Allowed: a nonnegative integer, a numpy Generator or RandomState, or None",
            "Pass a seed",
        ) from error
