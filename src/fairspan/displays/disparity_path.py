"""Disparity and total error against a parameter of the criterion, from an estimator."""

import numbers
from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from fairspan.displays.fitted import (
    criterion_name,
    moments_of_fit,
    names_of,
    plain_figures,
    refitted,
    status_of,
    without_rounding,
)
from fairspan.drawing.disparity_path import DisparityPathPicture
from fairspan.errors import InvalidParameter
from fairspan.problem.problem import signed_disparity
from fairspan.typing import FloatArray

# Parameters that are shares; all others may be any number from zero on.
_SHARES = ("criterion__trade_off",)
# Decades below and above the default of 0.5 that penalties are tried at, and steps.
_DECADES, _STEPS = (-2.0, 1.0), 19


class DisparityPathDisplay(DisparityPathPicture):
    """Plot disparity and total error against a trade-off or penalty of the criterion.

    Make it with :meth:`from_estimator`.
    """

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        parameter: str = "criterion__penalty",
        values: Sequence[float] | None = None,
    ) -> Self:
        """Fit the estimator's criterion at every value of a parameter.

        Parameters
        ----------
        estimator : FairPCA
            Fitted.
        parameter : str
            A number among the estimator's parameters, such as "criterion__penalty" of `ErrorGap`,
            "criterion__radius" of `RobustErrorGap` or "criterion__trade_off" of `Disparity`.
        values : sequence of float, optional
            By default from 0 to 1 for a trade-off; else zero and 0.01 to 10, evenly on a
            logarithmic scale. The estimator's own value is always among them.

        Returns
        -------
        DisparityPathDisplay

        Raises
        ------
        InvalidType
            The estimator is not a fitted FairPCA.
        InvalidParameter
            The estimator has no such parameter, a value is out of its range, or settings of the
            estimator were changed after it was fitted.

        Examples
        --------
        >>> import numpy as np
        >>> from fairspan import ErrorGap, FairPCA
        >>> from fairspan.displays import DisparityPathDisplay
        >>> X = np.array([[3.0, 0, 0], [-3, 0, 0], [0, 2, 0], [0, -2, 0]])
        >>> fair = FairPCA(1, criterion=ErrorGap(0.5)).fit(
        ...     X, sensitive_features=["a", "a", "b", "b"]
        ... )
        >>> display = DisparityPathDisplay.from_estimator(fair, values=[0, 0.5])
        >>> display.values, display.disparity.round(2)
        (array([0. , 0.5]), array([4., 0.]))
        """
        moments = moments_of_fit(estimator, cls.__name__)
        current = _current(estimator, parameter, cls.__name__)
        is_share = parameter in _SHARES
        shown = _tried_values(values, current, is_share=is_share)
        fits = [refitted(estimator, **{parameter: float(value)}) for value in shown]
        path = np.array([_gap_and_error(fit) for fit in fits])
        plain = plain_figures(estimator)
        plain_gap = signed_disparity(plain.errors)
        return cls(
            values=shown,
            disparity=without_rounding(path[:, 0], plain),
            total_error=path[:, 1],
            plain_disparity=float(without_rounding(np.array(plain_gap), plain)),
            plain_total_error=float(moments.proportions @ plain.errors),
            groups=names_of(moments.labels),
            name=criterion_name(estimator),
            parameter=parameter.rsplit("__", 1)[-1],
            current=current,
            logarithmic=not is_share and values is None,
            statuses=tuple(map(status_of, fits)),
        )


def _current(estimator: Any, parameter: str, purpose: str) -> float | None:
    """The estimator's own value; None if it is no number."""
    parameters = estimator.get_params()
    if parameter not in parameters:
        numeric = [name for name, value in parameters.items() if _is_number(value)]
        raise InvalidParameter(
            f"{purpose} received parameter={parameter!r}, which the estimator does not have",
            f"Allowed: its numeric parameters, {', '.join(sorted(numeric))}",
            "Choose one of these, or fit with a criterion that has this one, such as ErrorGap",
        )
    value = parameters[parameter]
    return float(value) if _is_number(value) else None


def _is_number(value: object) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def _tried_values(
    asked: Sequence[float] | None, own: float | None, *, is_share: bool
) -> FloatArray:
    if asked is not None:
        tried = np.asarray(asked, dtype=np.float64)
    elif is_share:
        tried = np.linspace(0, 1, 21)
    else:
        tried = np.concatenate([[0.0], np.logspace(*_DECADES, _STEPS)])
    return np.unique(tried if own is None else [*tried, own])


def _gap_and_error(fit: Any) -> tuple[float, float]:
    if fit is None:
        return np.nan, np.nan
    return fit.disparity_, float(fit.moments_.proportions @ fit.group_errors_)
