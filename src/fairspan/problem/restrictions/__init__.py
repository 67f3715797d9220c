"""Restrictions: subspaces in which the groups look alike, whatever criterion is minimised in them.

A criterion decides how much each group may lose. A restriction hides the group instead: it removes
differences between the groups from the projected rows (Olfat and Aswani 2019; Kleindessner et al.
2023). The two goals differ, and a subspace that hides the group can have a larger error for one
group.

Symbols: m_g is the mean of group g, C_g its covariance about that mean (divided by its weight), V
the orthonormal (p, d) basis. All are in scaled units where the features are scaled.
"""

from fairspan.problem.restrictions.covariance_parity import CovarianceParity
from fairspan.problem.restrictions.mean_parity import MeanParity
from fairspan.problem.restrictions.restriction import Restriction

__all__ = ["CovarianceParity", "MeanParity", "Restriction"]
