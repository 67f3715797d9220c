"""The path of disparity and total error along a parameter of the criterion."""

import numbers
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from fairspan.auditing.expected_losses import ROUNDING
from fairspan.auditing.results import group_name
from fairspan.displays.base import Picture, unproven
from fairspan.displays.fitted import (
    criterion_name,
    moments_of_fit,
    plain_of_fit,
    refitted,
    status_of,
    without_rounding,
)
from fairspan.displays.style import (
    FAINT,
    FAIR,
    INK,
    PLAIN,
    Axes,
    add_header,
    add_panels,
    names_within,
    width_of,
    write_numbers,
)
from fairspan.errors import InvalidParameter
from fairspan.formatting.text import axis_number, label_of, spoken
from fairspan.metrics import group_figures
from fairspan.problem.problem import signed_disparity
from fairspan.progress import track
from fairspan.typing import FloatArray

# Decades below and above the default of 0.5 that penalties are tried at, and steps.
_DECADES, _STEPS = (-2.0, 1.0), 19
# Parameters that are shares; all others may be any number from zero on.
_SHARES = ("criterion__trade_off",)


@dataclass(eq=False, repr=False)
class DisparityPathDisplay(Picture):
    """Plot disparity and total error against a trade-off or penalty of the criterion.

    Make it with :meth:`from_estimator`.

    Attributes
    ----------
    values : (m,) array
        Of the parameter, rising.
    disparity, total_error : (m,) arrays
        At each value; NaN where no subspace answers the criterion.
    plain_disparity, plain_total_error : float
        Of ordinary PCA.
    groups : tuple of k str
        Of two, the disparity is the error of the second minus that of the first; of more, the
        largest gap.
    name : str
        The criterion's.
    parameter : str
    current : float or None
        The value that was chosen.
    logarithmic : bool
        Whether the parameter is shown on a logarithmic scale, with zero at its beginning.
    statuses : sequence of m str, or None
        How each fit ended, "no answer" where there is none.
    """

    values: FloatArray
    disparity: FloatArray
    total_error: FloatArray
    plain_disparity: float
    plain_total_error: float
    groups: tuple[str, ...]
    name: str = "fair"
    parameter: str = "penalty"
    current: float | None = None
    logarithmic: bool = True
    statuses: Sequence[str] | None = None

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        parameter: str = "criterion__penalty",
        values: Sequence[float] | None = None,
        *,
        ax: Any = None,
    ) -> Self:
        """Fit the estimator's criterion at every value of a parameter, and draw the path.

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
        ax : matplotlib Axes, optional
            Where to draw; without it, a new figure is made with pyplot.

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
        return cls._drawn(ax, estimator, parameter, values)

    @classmethod
    def undrawn(
        cls,
        estimator: Any,
        parameter: str = "criterion__penalty",
        values: Sequence[float] | None = None,
    ) -> Self:
        """What `from_estimator` draws, of the same parameters."""
        moments = moments_of_fit(estimator, cls.__name__)
        current = _current(estimator, parameter, cls.__name__)
        is_share = parameter in _SHARES
        shown = _tried_values(values, current, is_share=is_share)
        fits = [
            refitted(estimator, **{parameter: value})
            for value in track("fitting", shown.tolist(), "values")
        ]
        path = np.array([_gap_and_error(fit) for fit in fits])
        plain = group_figures(plain_of_fit(estimator), moments)
        gaps = np.append(path[:, 0], signed_disparity(plain.errors))
        gaps = without_rounding(gaps, ROUNDING * float(plain.total_variances.max()))
        return cls(
            values=shown,
            disparity=gaps[:-1],
            total_error=path[:, 1],
            plain_disparity=float(gaps[-1]),
            plain_total_error=float(moments.proportions @ plain.errors),
            groups=tuple(map(group_name, moments.labels)),
            name=criterion_name(estimator),
            parameter=parameter.rsplit("__", 1)[-1],
            current=current,
            logarithmic=not is_share and values is None,
            statuses=tuple(map(status_of, fits)),
        )

    def size(self) -> tuple[float, float]:
        """Width and height of a new figure, in inches."""
        return 6.4, 5.4

    def columns(self) -> Mapping[str, Sequence[Any]]:
        """One row for each value of the parameter."""
        return {
            self.parameter: self.values.tolist(),
            "disparity": self.disparity.tolist(),
            "total_error": self.total_error.tolist(),
            "status": list(self.statuses or ()) or [None] * len(self.values),
        }

    def _draw(self, axes: Axes) -> Sequence[Axes]:
        upper, lower = add_panels(axes, 2, (2, 1), share_y=False)
        for panel, path, plain in (
            (upper, self.disparity, self.plain_disparity),
            (lower, self.total_error, self.plain_total_error),
        ):
            pca = panel.axhline(plain, color=PLAIN.colour, linestyle=PLAIN.line)
            (line,) = panel.plot(
                self.values, path, FAIR.marker, linestyle="-", color=FAIR.colour, markersize=4.5
            )
        handles: list[Any] = [pca, line]
        labels = ["PCA", label_of(spoken(self.name))]
        if self.current is not None:
            for panel in (upper, lower):
                mark = panel.axvline(self.current, color=FAINT, linewidth=1)
            handles.append(mark)
            labels.append(f"chosen: {axis_number(self.current)}")
        upper.axhline(0, color=INK, linewidth=0.8, zorder=1)
        if self.logarithmic and (positive := self.values[self.values > 0]).any():
            least, first = float(positive.min()), float(self.values.min())
            lower.set_xscale("symlog", linthresh=least, linscale=0.5)
            lower.xaxis.set_major_formatter(lambda value, _: axis_number(value))
            lower.set_xlim(first if first > 0 else -0.1 * least, positive.max() * 1.1)
        for panel in (upper, lower):
            write_numbers(panel, "y" if self.logarithmic else "xy", room=width_of(axes))
        name = label_of(spoken(self.parameter))
        upper.set_ylabel("disparity")
        lower.set(xlabel=name, ylabel="total error")
        title = f"Disparity and total error against the {name}"
        add_header(axes, title, handles, labels, note=self._note(axes))
        return upper, lower

    def _note(self, axes: Axes) -> str:
        what = "the largest difference of two groups' errors"
        if len(self.groups) == 2:
            first, second = names_within(self.groups, 0.45 * width_of(axes))
            what = f"the error of {second} minus that of {first}"
        return f"The disparity is {what}. {unproven(self.statuses or ())}".strip()


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
