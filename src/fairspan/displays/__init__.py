"""Displays of fitted estimators and audits, following scikit-learn's convention.

`from_estimator` computes and draws, and sets `ax_`, `axes_` and `figure_`; `plot(ax=None)` draws
again; `frame()` returns the plotted data.
"""

from fairspan.displays.audit import AuditDisplay
from fairspan.displays.disparity_path import DisparityPathDisplay
from fairspan.displays.error_curve import ErrorCurveDisplay
from fairspan.displays.feature_errors import FeatureErrorDisplay
from fairspan.displays.frontier import FrontierDisplay
from fairspan.displays.group_loss import GroupLossDisplay
from fairspan.displays.loadings import LoadingsDisplay
from fairspan.displays.reduced_rows import ReducedRowsDisplay
from fairspan.displays.variance_kept import VarianceKeptDisplay

__all__ = [
    "AuditDisplay",
    "DisparityPathDisplay",
    "ErrorCurveDisplay",
    "FeatureErrorDisplay",
    "FrontierDisplay",
    "GroupLossDisplay",
    "LoadingsDisplay",
    "ReducedRowsDisplay",
    "VarianceKeptDisplay",
]
