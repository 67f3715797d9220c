"""Moments that somebody made or changed by hand are refused where no rows have them."""

from dataclasses import replace

import numpy as np
import pytest

from by_hand import made_rows
from fairspan import GroupMoments
from fairspan.errors import InvalidInput

OWN = GroupMoments.from_rows(*made_rows())
TURNED = np.diag([5.0, *[0.0] * (OWN.n_features - 1)])


@pytest.mark.parametrize(
    ("changed", "because"),
    [
        ({"scatters": -OWN.scatters}, "scatter of group 'a' has a negative eigenvalue"),
        ({"scatters": OWN.scatters - 1e3 * (1 - np.eye(OWN.n_features))}, "negative eigenvalue"),
        ({"scatters": OWN.scatters + np.roll(TURNED, 1, 1)}, "'a' is not symmetric"),
        ({"scatters": OWN.scatters[:1]}, "scatters has shape"),
        ({"means": np.nan * OWN.means}, "means holds NaN"),
        ({"counts": -OWN.counts}, "counts are -"),
        ({"weights": 0 * OWN.weights}, "weights are 0.0"),
        ({"groups": np.array(["a", "a"])}, "groups are 'a', 'a'"),
        ({"groups": OWN.groups[::-1]}, "groups are 'b', 'a'"),
    ],
)
def test_moments_that_no_rows_have(changed, because):
    with pytest.raises(InvalidInput, match=because):
        replace(OWN, **changed)
