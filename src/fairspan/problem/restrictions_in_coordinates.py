"""Restrictions that count directions, where most of the features' directions are left out.

Rows that are fewer than their features have coordinates in which most directions without variance
are left out (see :mod:`fairspan.moments.held_rows`). A restriction counts those as well: along them
the groups look alike.
"""

import numbers
from dataclasses import replace
from typing import Any, cast

from fairspan.errors import Incompatible
from fairspan.moments.held_rows.frame import InCoordinates
from fairspan.problem.mean_free_directions import mean_free_directions
from fairspan.problem.restrictions import Restriction


def in_coordinates(restriction: Restriction, within: InCoordinates) -> Restriction:
    """The restriction of coordinates that stands for that of all features.

    Raises
    ------
    Incompatible
        Fewer directions are left than components or directions were asked for, or it is not said
        how many.
    """
    # A restriction that counts no directions means the same in all coordinates.
    if not getattr(restriction, "is_exact", False):
        return restriction
    moments, n_features = within.frame.moments, within.frame.n_features
    free = mean_free_directions(moments.means, moments.second_moments("group"), 1)
    most = n_features - moments.n_features + free.shape[1]
    least = int(within.asked) if isinstance(within.asked, numbers.Integral) else 1
    if least > most:
        raise Incompatible(
            f"n_components is {least} with {restriction!r}",
            f"Allowed is at most {most}: of {n_features} features, the means of "
            f"{moments.n_groups} groups differ along {n_features - most} direction(s)",
            "Choose fewer components, or leave the restriction out",
        )
    if not hasattr(restriction, "n_directions") or moments.n_groups == 1:
        return restriction
    wanted = restriction.n_directions
    if wanted is None or not least <= wanted <= most:
        varying = within.frame.n_known
        raise Incompatible(
            f"{restriction!r} was asked for with rows that vary along only {varying} of "
            f"{n_features} directions",
            f"Allowed is a number n_directions from {least} to {most}; unless it is above "
            f"{n_features - varying}, no direction with variance needs to be among them",
            "Choose such a number, or another n_components",
        )
    # Directions without variance, which the coordinates leave out, are taken last.
    fewer: Any = replace(cast(Any, restriction), n_directions=min(wanted, free.shape[1]))
    return cast(Restriction, fewer)
