"""Displays of fitted estimators and audits, following scikit-learn's convention.

`from_estimator` computes and draws, and sets `ax_`, `axes_` and `figure_`; `plot(ax=None)` draws
again; `frame()` returns the plotted data.
"""

from fairspan.displays.audit_display import AuditDisplay
from fairspan.displays.biplot_display import BiplotDisplay
from fairspan.displays.correlation_circle_display import CorrelationCircleDisplay
from fairspan.displays.covariance_loss_display import CovarianceLossDisplay
from fairspan.displays.disparity_path_display import DisparityPathDisplay
from fairspan.displays.error_curve_display import ErrorCurveDisplay
from fairspan.displays.feature_error_display import FeatureErrorDisplay
from fairspan.displays.frontier_display import FrontierDisplay
from fairspan.displays.group_loss_display import GroupLossDisplay
from fairspan.displays.loadings_display import LoadingsDisplay
from fairspan.displays.monitor_display import MonitorDisplay
from fairspan.displays.reduced_rows_display import ReducedRowsDisplay
from fairspan.displays.variance_kept_display import VarianceKeptDisplay

__all__ = [
    "AuditDisplay",
    "BiplotDisplay",
    "CorrelationCircleDisplay",
    "CovarianceLossDisplay",
    "DisparityPathDisplay",
    "ErrorCurveDisplay",
    "FeatureErrorDisplay",
    "FrontierDisplay",
    "GroupLossDisplay",
    "LoadingsDisplay",
    "MonitorDisplay",
    "ReducedRowsDisplay",
    "VarianceKeptDisplay",
]
