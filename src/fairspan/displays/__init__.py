"""Pictures of fitted estimators, after scikit-learn's convention for displays.

Each has `from_estimator`, `plot(ax=None)`, which sets `ax_` and `figure_`, and `frame()`, the data
that is drawn.
"""

from fairspan.displays.frontier import FrontierDisplay

__all__ = ["FrontierDisplay"]
