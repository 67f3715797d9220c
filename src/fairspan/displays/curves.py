"""Errors against the number of dimensions, and against a parameter, from an estimator."""

import numbers
from collections.abc import Sequence
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt

from fairspan.auditing.cross_fitting import points_of
from fairspan.auditing.intervals import error_estimates
from fairspan.auditing.row_statistics import Benchmark, Projection, row_figures
from fairspan.displays.fitted import (
    criterion_name,
    moments_for,
    moments_of_fit,
    names_of,
    plain_figures,
    plain_of_fit,
    refitted,
    rows_for,
    status_of,
    without_rounding,
)
from fairspan.drawing.curves import DisparityPathPicture, ErrorCurvePicture
from fairspan.errors import InvalidParameter
from fairspan.metrics import GroupFigures, group_figures
from fairspan.moments.of_rows import Moments
from fairspan.problem.parameters import check_choice
from fairspan.problem.problem import check_n_components, signed_disparity
from fairspan.rows.protocol import Rows
from fairspan.subspace import FairSubspace
from fairspan.typing import FloatArray

# As many dimensions as are shown by default.
_MOST = 20


class ErrorCurveDisplay(ErrorCurvePicture):
    """Each group's error, or excess loss, against the number of dimensions d.

    Ordinary PCA stands beside the estimator's criterion, refitted at each d. Make it with
    :meth:`from_estimator`.
    """

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any = None,
        sensitive_features: Any = None,
        *,
        dimensions: Sequence[int] | None = None,
        quantity: Literal["error", "loss"] = "error",
    ) -> Self:
        """Fit PCA and the estimator's criterion at every dimension.

        Parameters
        ----------
        estimator : FairPCA
            Fitted.
        X : (n, p) table of finite numbers, optional
            Rows to judge by, such as held-out ones, as `FairPCA.fit` takes them. Without them, the
            rows that the estimator was fitted on, without intervals.
        sensitive_features : (n,) or (n, a) array-like or data frame, or column name(s) of X
        dimensions : sequence of int, optional
            By default from 1 to 20, or up to twice the estimator's own in 20 steps.
        quantity : {"error", "loss"}
            e_g, or e_g - e*_g: what the group loses against its own best subspace. Losses have no
            intervals, as that best subspace is found on the same rows.

        Returns
        -------
        ErrorCurveDisplay

        Raises
        ------
        InvalidType
            The estimator is not a fitted FairPCA.
        InvalidParameter
            A dimension that the features do not have, another quantity, or settings of the
            estimator that were changed after it was fitted.
        InvalidInput
            Rows without groups, or of other features.
        UnknownGroup
            A group that the estimator was not fitted on.

        Examples
        --------
        >>> import numpy as np
        >>> from fairspan import FairPCA
        >>> from fairspan.displays import ErrorCurveDisplay
        >>> X = np.array([[3.0, 0, 0], [-3, 0, 0], [0, 2, 0], [0, -2, 0]])
        >>> fair = FairPCA(1).fit(X, sensitive_features=["a", "a", "b", "b"])
        >>> display = ErrorCurveDisplay.from_estimator(fair)
        >>> display.dimensions, display.plain[0], display.fair[0].round(2)
        (array([1, 2, 3]), array([0., 4.]), array([2.77, 2.77]))
        """
        moments = moments_of_fit(estimator, cls.__name__)
        check_choice("quantity", quantity, ("error", "loss"))
        own = estimator.subspace_.dimension
        shown = _dimensions(dimensions, own, moments.n_features)
        rows = None
        if X is not None or sensitive_features is not None:
            rows = rows_for(estimator, X, sensitive_features, cls.__name__)
            moments = moments_for(estimator, rows)
        fits = [estimator if d == own else refitted(estimator, n_components=int(d)) for d in shown]
        plain = [plain_of_fit(estimator, int(d)) for d in shown]
        of_plain = [group_figures(each, moments) for each in plain]
        fair = [None if fit is None else fit.subspace_ for fit in fits]
        of_fair = [None if each is None else group_figures(each, moments) for each in fair]
        figures = [*of_plain, *of_fair]
        values = np.array([_values(each, quantity, moments.n_groups) for each in figures])
        ends: tuple[Any, Any] = (None, None)
        if rows is not None and quantity == "error":
            found = _intervals((*plain, *fair), figures, rows, moments)
            ends = (found[: len(shown)], found[len(shown) :])
        return cls(
            dimensions=shown,
            groups=names_of(moments.labels),
            plain=values[: len(shown)],
            fair=values[len(shown) :],
            name=criterion_name(estimator),
            best=np.array([each.best_errors for each in of_plain]) if quantity == "error" else None,
            plain_interval=ends[0],
            fair_interval=ends[1],
            marked=own,
            quantity=quantity,
            statuses=tuple(map(status_of, fits)),
        )


def _values(figures: GroupFigures | None, quantity: str, n_groups: int) -> FloatArray:
    if figures is None:
        return np.full(n_groups, np.nan)
    values = figures.errors if quantity == "error" else figures.excess_losses
    return without_rounding(values, figures)


def _intervals(
    subspaces: Sequence[FairSubspace | None],
    figures: Sequence[GroupFigures | None],
    rows: Rows,
    moments: Moments,
) -> FloatArray:
    """Both ends for each subspace and group, from one pass over the rows, (m, k, 2)."""
    judged = [
        (subspace, each)
        for subspace, each in zip(subspaces, figures, strict=True)
        if subspace is not None and each is not None
    ]
    benchmarks = [Benchmark(points_of(each, moments), each.scale) for each, _ in judged]
    projections = [
        Projection(i, subspace.components, each.errors) for i, (subspace, each) in enumerate(judged)
    ]
    ends = np.full((len(subspaces), moments.n_groups, 2), np.nan)
    answered = [i for i, each in enumerate(figures) if each is not None]
    found = row_figures(rows, moments.labels, benchmarks, projections).standard_errors[:, 0]
    for i, (_, each), errors in zip(answered, judged, found, strict=True):
        for g, estimate in enumerate(error_estimates(each.errors, errors, moments.counts)):
            if estimate.has_interval:
                ends[i, g] = estimate.low, estimate.high
    return ends


def _dimensions(asked: Sequence[int] | None, own: int, n_features: int) -> npt.NDArray[np.int64]:
    if asked is not None:
        if not len(asked):
            raise InvalidParameter(
                "dimensions is empty",
                f"Allowed are whole numbers from 1 to {n_features}",
                "Leave it out to see the smallest",
            )
        for d in asked:
            check_n_components(d, n_features)
        return np.unique(np.asarray(asked, dtype=np.int64))
    top = min(n_features, max(_MOST, 2 * own))
    return np.union1d(np.round(np.linspace(1, top, min(top, _MOST))).astype(np.int64), [own])


# Parameters that are shares; all others may be any number from zero on.
_SHARES = ("criterion__trade_off",)
# Decades below and above the default of 0.5 that penalties are tried at, and steps.
_DECADES, _STEPS = (-2.0, 1.0), 19


class DisparityPathDisplay(DisparityPathPicture):
    """Disparity and total error against a trade-off or penalty of the criterion.

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
            f"{purpose} was asked for {parameter!r}, which the estimator does not have",
            f"Its parameters that are numbers are {', '.join(sorted(numeric))}",
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
