"""Losses of k groups with the proven bound, from an estimator."""

from typing import Any, Self

from fairspan.displays.fitted import (
    criterion_name,
    moments_of_fit,
    names_of,
    plain_figures,
    without_rounding,
)
from fairspan.drawing.group_loss import GroupLossPicture
from fairspan.problem.criteria import MinimaxLoss


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
        bounds_losses = provenance.criterion == MinimaxLoss.name
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
