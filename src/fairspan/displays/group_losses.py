"""What each group loses under a fit: on new rows, or on the rows of the fit with the bound."""

from typing import Any, Self

import numpy as np

from fairspan.displays.fitted import (
    Curve,
    audited_beside_pca,
    criterion_name,
    moments_of_fit,
    names_of,
    plain_figures,
    plain_of_fit,
    rows_for,
    without_rounding,
)
from fairspan.drawing.losses import GroupLossPicture
from fairspan.errors import InvalidInput
from fairspan.problem.parameters import check_flag
from fairspan.problem.posing import criterion_of
from fairspan.rows.protocol import Rows


class GroupLossDisplay(GroupLossPicture):
    """Plot the loss of each group on new rows, or on the rows of the fit with the proven bound.

    Make it with :meth:`from_estimator`.
    """

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any = None,
        sensitive_features: Any = None,
        *,
        on_rows: bool = False,
    ) -> Self:
        """The losses under ordinary PCA and under an estimator.

        Parameters
        ----------
        estimator : FairPCA
            Fitted.
        X : (n, p) table of finite numbers, optional
            Rows of the fit or held-out rows, as `FairPCA.fit` takes them: losses are then those
            expected on new rows, with intervals, as in :func:`fairspan.audit`. Without rows, they
            are excess losses on the rows of the fit, where a group of few rows seems to lose more
            than it does. They are shown with the bound of the certificate if the criterion is
            "minimax_loss"; other criteria prove nothing about the largest loss.
        sensitive_features : (n,) or (n, a) array-like or data frame, or column name(s) of X
        on_rows : bool
            Show the excess losses on `X` beside those that are expected.

        Returns
        -------
        GroupLossDisplay

        Raises
        ------
        InvalidType
            The estimator is not a fitted FairPCA.
        InvalidInput
            Rows without groups, or of other features; rows that give no estimates for new rows.
        UnknownGroup
            A group that the estimator was not fitted on.

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
        check_flag("on_rows", on_rows)
        if X is not None or sensitive_features is not None:
            rows = rows_for(estimator, X, sensitive_features, cls.__name__)
            return cls(**_expected_losses(estimator, rows, on_rows=on_rows))
        solution, provenance = estimator.solution_, estimator.subspace_.provenance
        criterion = criterion_of(estimator.criterion)
        is_own = provenance.criterion == criterion.name
        bounds_losses = is_own and criterion.is_largest_loss
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


def _expected_losses(estimator: Any, rows: Rows, *, on_rows: bool) -> dict[str, Any]:
    """What is expected on new rows, as the picture takes it."""
    audited = audited_beside_pca(estimator, [estimator], [plain_of_fit(estimator)], rows)
    groups = [group.group for group in audited[0][0].groups]
    plain, fair = (Curve.of(models, len(groups), "loss") for models in audited)
    if np.isnan(plain.values).all():
        why = audited[0][0].why_no_estimates or "every group has too few of them"
        raise InvalidInput(
            f"The rows give no estimates for new rows: {why}",
            "Allowed: rows that do, or none, which shows the losses on the rows of the fit",
            "Leave out X",
        )
    return {
        "groups": names_of(groups),
        "plain": plain.values[0],
        "fair": fair.values[0],
        "n_components": estimator.subspace_.dimension,
        "name": criterion_name(estimator),
        "status": str(estimator.solution_.status),
        "plain_interval": plain.interval[0],
        "fair_interval": fair.interval[0],
        "plain_states": plain.states[0],
        "fair_states": fair.states[0],
        "plain_on_rows": plain.on_rows[0] if on_rows else None,
        "fair_on_rows": fair.on_rows[0] if on_rows else None,
    }
