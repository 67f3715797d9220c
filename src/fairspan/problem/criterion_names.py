"""The names of the criteria, apart from them: help and usage errors must not wait for numpy."""

CRITERION_NAMES = (
    "minimax_loss",
    "minimax_error",
    "total_error",
    "disparity",
    "equal_error",
    "error_gap",
    "robust_error_gap",
    "nash_welfare",
)
