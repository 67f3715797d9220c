"""Pictures of fitted estimators, after scikit-learn's convention for displays.

Each has `from_estimator`, `plot(ax=None)`, which sets `ax_`, `axes_` and `figure_`, and `frame()`,
the data that is drawn.
"""

from fairspan.displays.by_group import GroupLossDisplay, VarianceKeptDisplay
from fairspan.displays.error_curves import ErrorCurveDisplay
from fairspan.displays.loadings import LoadingsDisplay
from fairspan.displays.reduced_rows import ReducedRowsDisplay
from fairspan.displays.trade_offs import DisparityPathDisplay, FrontierDisplay

__all__ = [
    "DisparityPathDisplay",
    "ErrorCurveDisplay",
    "FrontierDisplay",
    "GroupLossDisplay",
    "LoadingsDisplay",
    "ReducedRowsDisplay",
    "VarianceKeptDisplay",
]
