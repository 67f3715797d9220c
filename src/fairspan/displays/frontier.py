"""The trade-off of two groups, from an estimator."""

from collections.abc import Sequence
from typing import Any, Self

from fairspan.displays.fitted import moments_of_fit
from fairspan.drawing.points import FrontierPicture
from fairspan.trade_off.tracing import frontier_to_look_at


class FrontierDisplay(FrontierPicture):
    """The frontier of two groups' errors with PCA, every criterion, and what lies above it.

    Make it with :meth:`from_estimator`, or with :meth:`fairspan.Frontier.plot`.
    """

    @classmethod
    def from_estimator(cls, estimator: Any, *, criteria: Sequence[Any] | None = None) -> Self:
        """The frontier of the rows that an estimator was fitted on.

        Parameters
        ----------
        estimator : FairPCA
            Fitted, on two groups.
        criteria : sequence of str or criterion objects, optional
            Whose answers are shown; all by default.

        Returns
        -------
        FrontierDisplay

        Raises
        ------
        Incompatible
            Not exactly two groups.
        InvalidType
            The estimator is not a fitted FairPCA.

        Examples
        --------
        >>> import numpy as np
        >>> from fairspan import FairPCA
        >>> from fairspan.displays import FrontierDisplay
        >>> X = np.array([[3.0, 0], [-3, 0], [0, 2], [0, -2]])
        >>> fair = FairPCA(1).fit(X, sensitive_features=["a", "a", "b", "b"])
        >>> display = FrontierDisplay.from_estimator(fair, criteria=["minimax_loss"])
        >>> display.answers["minimax_loss"].round(2)
        array([2.77, 2.77])
        """
        moments = moments_of_fit(estimator, "FrontierDisplay")
        subspace = estimator.subspace_
        scaled = subspace.scale is not None
        curve = frontier_to_look_at(moments, subspace.dimension, subspace.center, scale=scaled)
        return cls(**vars(curve.picture(criteria)))
