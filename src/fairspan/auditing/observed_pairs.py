"""Groups with missing cells in which every pair of features is observed together often enough."""

import numpy as np

from fairspan.moments.compute import Moments
from fairspan.typing import BoolArray

# Figures for new rows of a group with missing cells need every pair of features observed together
# in this number of rows per feature. With fewer, their intervals covered as little as .6 in
# simulations, and losses were more than a tenth of the variance too large.
MIN_PAIRS_PER_FEATURE = 5
# They are given as well if every pair is observed in this share of the rows: then the group is
# hardly different from one of complete rows.
_SUFFICIENT_SHARE = 0.9


def has_enough_pairs(moments: Moments) -> BoolArray:
    """Whether every pair of features is observed together in enough rows of each group, (k,)."""
    summary = moments.em_summary
    if summary is None:
        return np.ones(moments.n_groups, dtype=bool)
    sufficient_counts = np.minimum(
        MIN_PAIRS_PER_FEATURE * moments.n_features, _SUFFICIENT_SHARE * moments.counts
    )
    return np.asarray(summary.min_pair_counts >= sufficient_counts)
