"""Pictures of fitted estimators, after scikit-learn's convention for displays.

Each has `from_estimator`, `plot(ax=None)`, which sets `ax_`, `axes_` and `figure_`, and `frame()`,
the data that is drawn.
"""

from fairspan.displays.curves import DisparityPathDisplay, ErrorCurveDisplay
from fairspan.displays.fits import (
    FrontierDisplay,
    GroupLossDisplay,
    LoadingsDisplay,
    VarianceKeptDisplay,
)
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
