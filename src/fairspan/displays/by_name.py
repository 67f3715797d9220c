"""Displays of an estimator by name, as a report takes them."""

from collections.abc import Callable, Mapping
from typing import Any

from fairspan.displays.correlation_circle_display import CorrelationCircleDisplay
from fairspan.displays.disparity_path_display import DisparityPathDisplay
from fairspan.displays.error_curve_display import ErrorCurveDisplay
from fairspan.displays.feature_error_display import FeatureErrorDisplay
from fairspan.displays.frontier_display import FrontierDisplay
from fairspan.displays.group_loss_display import GroupLossDisplay
from fairspan.displays.loadings_display import LoadingsDisplay
from fairspan.displays.variance_kept_display import VarianceKeptDisplay

# Functions that compute a display of a fitted estimator.
DISPLAYS: Mapping[str, Callable[..., Any]] = {
    "correlation_circle": CorrelationCircleDisplay.compute,
    "disparity_path": DisparityPathDisplay.compute,
    "error_curve": ErrorCurveDisplay.compute,
    "feature_error": FeatureErrorDisplay.compute,
    "frontier": FrontierDisplay.compute,
    "group_loss": GroupLossDisplay.compute,
    "loadings": LoadingsDisplay.compute,
    "variance_kept": VarianceKeptDisplay.compute,
}
