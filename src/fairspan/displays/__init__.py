"""Displays of fitted estimators and audits, following scikit-learn's convention.

`from_estimator` computes and draws, and sets `ax_`, `axes_` and `figure_`; `plot(ax=None)` draws
again; `frame()` returns the plotted data.
"""

from fairspan.displays.audit import AuditDisplay, GroupLossDisplay, VarianceKeptDisplay
from fairspan.displays.components import LoadingsDisplay, ReducedRowsDisplay
from fairspan.displays.error_curve import ErrorCurveDisplay
from fairspan.displays.feature_errors import FeatureErrorDisplay
from fairspan.displays.frontier import DisparityPathDisplay, FrontierDisplay

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
