"""Pictures of fitted estimators and audits, after scikit-learn's convention for displays.

`from_estimator` computes and draws, and leaves `ax_`, `axes_` and `figure_`; `plot(ax=None)` draws
again; `frame()` is the data that is drawn.
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
