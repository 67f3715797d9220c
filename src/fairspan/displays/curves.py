"""Displays along a setting of a fitted FairPCA: the number of dimensions, or a trade-off."""

import numbers
from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from fairspan.displays.fitted import (
    Curve,
    Quantity,
    audited_beside_pca,
    criterion_name,
    moments_of_fit,
    names_of,
    plain_figures,
    plain_of_fit,
    refitted,
    rows_for,
    status_of,
    without_rounding,
)
from fairspan.drawing.error_curves import ErrorCurvePicture
from fairspan.drawing.trade_offs import DisparityPathPicture
from fairspan.errors import InvalidParameter
from fairspan.metrics import GroupFigures, group_figures
from fairspan.model.subspace import FairSubspace
from fairspan.moments.of_rows import Moments
from fairspan.problem.parameters import check_choice, check_flag
from fairspan.problem.problem import check_n_components, signed_disparity
from fairspan.rows.protocol import Rows
from fairspan.typing import FloatArray, IntegerArray

# Decades below and above the default of 0.5 that penalties are tried at, and steps.
_DECADES, _STEPS = (-2.0, 1.0), 19

# As many dimensions as are shown by default.
_MOST = 20
# Parameters that are shares; all others may be any number from zero on.
_SHARES = ("criterion__trade_off",)


class ErrorCurveDisplay(ErrorCurvePicture):
    """Plot the loss of each group on new rows, or its error, against the number of dimensions.

    Ordinary PCA is shown beside the estimator's criterion, refitted at each d. Make it with
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
        quantity: Quantity = "loss",
        on_rows: bool = False,
    ) -> Self:
        """Fit PCA and the estimator's criterion at every dimension.

        Parameters
        ----------
        estimator : FairPCA
            Fitted.
        X : (n, p) table of finite numbers, optional
            Rows of the fit or held-out rows, as `FairPCA.fit` takes them. They give estimates for
            new rows, with intervals, as in :func:`fairspan.audit`, in two passes for all
            dimensions. Without them, the figures are those on the rows that the estimator was
            fitted on, where a group of few rows seems to lose more than it does.
        sensitive_features : (n,) or (n, a) array-like or data frame, or column name(s) of X
        dimensions : sequence of int, optional
            By default from 1 to 20, or up to twice the estimator's own in 20 steps.
        quantity : {"loss", "error"}
            e_g - e*_g, what the group loses against its own best subspace; or e_g.
        on_rows : bool
            Show the figures on the rows as well.

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
        >>> rng = np.random.default_rng(0)
        >>> rows = rng.standard_normal((200, 3)) * [3, 2, 1]
        >>> groups = ["a", "b"] * 100
        >>> fair = FairPCA(1).fit(rows, sensitive_features=groups)
        >>> display = ErrorCurveDisplay.from_estimator(fair, rows, groups, on_rows=True)
        >>> display.quantity, display.plain_states[0]
        ('expected loss', ('not shown', 'not shown'))
        """
        moments = moments_of_fit(estimator, cls.__name__)
        check_choice("quantity", quantity, ("error", "loss"))
        check_flag("on_rows", on_rows)
        own = estimator.subspace_.dimension
        shown = _dimensions(dimensions, own, moments.n_features)
        rows = (
            None
            if X is None and sensitive_features is None
            else rows_for(estimator, X, sensitive_features, cls.__name__)
        )
        fits = [estimator if d == own else refitted(estimator, n_components=int(d)) for d in shown]
        plain = [plain_of_fit(estimator, int(d)) for d in shown]
        figures = (
            _on_rows(plain, fits, moments, quantity)
            if rows is None
            else _expected(estimator, plain, fits, rows, quantity, on_rows=on_rows)
        )
        return cls(
            dimensions=shown,
            name=criterion_name(estimator),
            marked=own,
            statuses=tuple(map(status_of, fits)),
            **figures,
        )


def _on_rows(
    plain: Sequence[FairSubspace], fits: Sequence[Any], moments: Moments, quantity: Quantity
) -> dict[str, Any]:
    """The figures on the rows of the fit, of which there are the moments alone."""
    of_plain = [group_figures(each, moments) for each in plain]
    of_fair = [None if fit is None else group_figures(fit.subspace_, moments) for fit in fits]
    return {
        "groups": names_of(moments.labels),
        "plain": np.array([_values(each, quantity, moments.n_groups) for each in of_plain]),
        "fair": np.array([_values(each, quantity, moments.n_groups) for each in of_fair]),
        "best": np.array([each.best_errors for each in of_plain]) if quantity == "error" else None,
        "quantity": quantity,
    }


def _expected(
    estimator: Any,
    plain: Sequence[FairSubspace],
    fits: Sequence[Any],
    rows: Rows,
    quantity: Quantity,
    *,
    on_rows: bool,
) -> dict[str, Any]:
    """What is expected on new rows; those on the rows where nothing can be."""
    audited = audited_beside_pca(estimator, fits, plain, rows)
    groups = [group.group for group in audited[0][0].groups]
    of_plain, of_fair = (Curve.of(models, len(groups), quantity) for models in audited)
    if np.isnan(of_plain.values).all():
        why = audited[0][0].why_no_estimates or "too few rows"
        return {
            "groups": names_of(groups),
            "plain": of_plain.on_rows,
            "fair": of_fair.on_rows,
            "quantity": quantity,
            "why_on_rows": why,
        }
    return {
        "groups": names_of(groups),
        "plain": of_plain.values,
        "fair": of_fair.values,
        "best": of_plain.best if quantity == "error" else None,
        "plain_interval": of_plain.interval,
        "fair_interval": of_fair.interval,
        "plain_states": of_plain.states,
        "fair_states": of_fair.states,
        "plain_on_rows": of_plain.on_rows if on_rows else None,
        "fair_on_rows": of_fair.on_rows if on_rows else None,
        "quantity": f"expected {quantity}",
    }


def _values(figures: GroupFigures | None, quantity: Quantity, n_groups: int) -> FloatArray:
    if figures is None:
        return np.full(n_groups, np.nan)
    return without_rounding(
        figures.errors if quantity == "error" else figures.excess_losses, figures
    )


def _dimensions(asked: Sequence[int] | None, own: int, n_features: int) -> IntegerArray:
    if asked is not None:
        if not len(asked):
            raise InvalidParameter(
                "dimensions is empty",
                f"Allowed: whole numbers from 1 to {n_features}",
                "Leave it out to see the smallest",
            )
        for d in asked:
            check_n_components(d, n_features)
        return np.unique(np.asarray(asked, dtype=np.int64))
    top = min(n_features, max(_MOST, 2 * own))
    return np.union1d(np.round(np.linspace(1, top, min(top, _MOST))).astype(np.int64), [own])


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
