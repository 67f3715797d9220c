"""Pictures of fitted estimators, after scikit-learn's convention for displays.

Each has `from_estimator`, `plot(ax=None)`, which sets `ax_`, `axes_` and `figure_`, and `frame()`,
the data that is drawn.
"""

from fairspan.displays.by_group import GroupLossDisplay, VarianceKeptDisplay
from fairspan.displays.curves import DisparityPathDisplay, ErrorCurveDisplay
from fairspan.displays.frontier import FrontierDisplay
from fairspan.displays.loadings import LoadingsDisplay
from fairspan.displays.reduced_rows import ReducedRowsDisplay

__all__ = [
    "DisparityPathDisplay",
    "ErrorCurveDisplay",
    "FrontierDisplay",
    "GroupLossDisplay",
    "LoadingsDisplay",
    "ReducedRowsDisplay",
    "VarianceKeptDisplay",
]
