"""Losses of groups with the proven bound, and shares of variance kept, from an estimator."""

from typing import Any, Self

import numpy as np

from fairspan.displays.fitted import (
    criterion_name,
    moments_for,
    moments_of_fit,
    names_of,
    plain_figures,
    plain_of_fit,
    rows_for,
    without_rounding,
)
from fairspan.drawing.by_group import GroupLossPicture, VarianceKeptPicture
from fairspan.metrics import GroupFigures, group_figures
from fairspan.problem.by_name import criterion_of
from fairspan.problem.criteria import declares
from fairspan.typing import FloatArray


class GroupLossDisplay(GroupLossPicture):
    """What each group loses against its own best subspace, with the bound that is proven.

    Make it with :meth:`from_estimator`.
    """

    @classmethod
    def from_estimator(cls, estimator: Any) -> Self:
        """The excess losses of the rows that an estimator was fitted on.

        Parameters
        ----------
        estimator : FairPCA
            Fitted. The bound is that of its certificate if the criterion is "minimax_loss"; other
            criteria prove nothing about the largest loss.

        Returns
        -------
        GroupLossDisplay

        Raises
        ------
        InvalidType
            The estimator is not a fitted FairPCA.

        Examples
        --------
        >>> import numpy as np
        >>> from fairspan import FairPCA
        >>> from fairspan.displays import GroupLossDisplay
        >>> X = np.array([[3.0, 0], [-3, 0], [0, 2], [0, -2]])
        >>> fair = FairPCA(1).fit(X, sensitive_features=["a", "a", "b", "b"])
        >>> display = GroupLossDisplay.from_estimator(fair)
        >>> display.plain, display.fair.round(2), round(display.bound, 2)
        (array([0., 4.]), array([2.77, 2.77]), 2.77)
        """
        moments = moments_of_fit(estimator, cls.__name__)
        solution, provenance = estimator.solution_, estimator.subspace_.provenance
        criterion = criterion_of(estimator.criterion)
        is_own = provenance.criterion == criterion.name
        bounds_losses = is_own and declares(criterion, "measures_losses")
        plain = plain_figures(estimator)
        return cls(
            groups=names_of(moments.labels),
            plain=without_rounding(plain.excess_losses, plain),
            fair=without_rounding(estimator.group_losses_, plain),
            n_components=estimator.subspace_.dimension,
            name=criterion_name(estimator),
            bound=max(solution.lower_bound, 0.0) if bounds_losses else None,
            status=str(solution.status),
        )


class VarianceKeptDisplay(VarianceKeptPicture):
    """The share of each group's variance that is kept: by PCA, by the criterion, at best.

    Make it with :meth:`from_estimator`.
    """

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any = None, sensitive_features: Any = None) -> Self:
        """The shares on the rows of the fit, or on others.

        Parameters
        ----------
        estimator : FairPCA
            Fitted.
        X : (n, p) table of finite numbers, optional
            Rows to judge by, such as held-out ones, as `FairPCA.fit` takes them.
        sensitive_features : (n,) or (n, a) array-like or data frame, or column name(s) of X

        Returns
        -------
        VarianceKeptDisplay

        Raises
        ------
        InvalidType
            The estimator is not a fitted FairPCA.
        InvalidInput
            Rows without groups, or of other features.
        UnknownGroup
            A group that the estimator was not fitted on.

        Examples
        --------
        >>> import numpy as np
        >>> from fairspan import FairPCA
        >>> from fairspan.displays import VarianceKeptDisplay
        >>> X = np.array([[3.0, 0], [-3, 0], [0, 2], [0, -2]])
        >>> fair = FairPCA(1).fit(X, sensitive_features=["a", "a", "b", "b"])
        >>> display = VarianceKeptDisplay.from_estimator(fair)
        >>> display.plain, display.fair.round(2), display.best
        (array([1., 0.]), array([0.69, 0.31]), array([1., 1.]))
        """
        moments = moments_of_fit(estimator, cls.__name__)
        if X is not None or sensitive_features is not None:
            rows = rows_for(estimator, X, sensitive_features, cls.__name__)
            moments = moments_for(estimator, rows)
        plain = group_figures(plain_of_fit(estimator), moments)
        fair = group_figures(estimator.subspace_, moments)
        return cls(
            groups=names_of(moments.labels),
            plain=plain.captured_ratios,
            fair=fair.captured_ratios,
            best=_best_ratios(plain),
            n_components=estimator.subspace_.dimension,
            name=criterion_name(estimator),
        )


def _best_ratios(figures: GroupFigures) -> FloatArray:
    with np.errstate(invalid="ignore"):  # 0 / 0: a group without variance
        return 1.0 - figures.best_errors / figures.total_variances
