"""Pictures of a fit by group, its trade-off and loadings."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from fairspan.displays.fitted import (
    Curve,
    audited_beside_pca,
    criterion_name,
    moments_for,
    moments_of_fit,
    names_of,
    plain_figures,
    plain_of_fit,
    rows_for,
    without_rounding,
)
from fairspan.drawing.by_group import VarianceKeptPicture
from fairspan.drawing.components import LoadingsPicture
from fairspan.drawing.losses import GroupLossPicture
from fairspan.drawing.trade_offs import FrontierPicture
from fairspan.errors import Incompatible, InvalidInput, InvalidParameter
from fairspan.metrics import group_figures
from fairspan.problem.parameters import check_count, check_flag
from fairspan.problem.reduction import criterion_of
from fairspan.rows.groups import printable
from fairspan.rows.protocol import Rows
from fairspan.trade_off import frontier_to_look_at


class VarianceKeptDisplay(VarianceKeptPicture):
    """Plot the share of each group's variance kept: by PCA, by the criterion, and at most.

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
            Rows, such as held-out ones, as `FairPCA.fit` takes them.
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
            moments = moments_for(
                estimator, rows_for(estimator, X, sensitive_features, cls.__name__)
            )
        plain = group_figures(plain_of_fit(estimator), moments)
        fair = group_figures(estimator.subspace_, moments)
        with np.errstate(invalid="ignore"):  # 0 / 0: a group without variance
            best = 1.0 - plain.best_errors / plain.total_variances
        return cls(
            groups=names_of(moments.labels),
            plain=plain.captured_ratios,
            fair=fair.captured_ratios,
            best=best,
            n_components=estimator.subspace_.dimension,
            name=criterion_name(estimator),
        )


class FrontierDisplay(FrontierPicture):
    """Plot the Pareto frontier of two groups' errors, with PCA and every criterion.

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
            Criteria whose answers are shown; all by default.

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
        curve = frontier_to_look_at(
            moments, subspace.dimension, subspace.center, scale=subspace.scale is not None
        )
        return cls(**vars(curve.picture(criteria)))


class LoadingsDisplay(LoadingsPicture):
    """Plot the loadings of the features on each component, or the components as images.

    Make it with :meth:`from_estimator`.
    """

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        n_features: int = 20,
        image_shape: tuple[int, int] | None = None,
        beside_pca: bool = False,
    ) -> Self:
        """The loadings of a fitted estimator.

        Parameters
        ----------
        estimator : FairPCA
            Fitted.
        n_features : int
            How many of the features with the largest loadings are shown.
        image_shape : tuple of 2 int, optional
            Rows and columns of an image whose pixels the features are.
        beside_pca : bool
            Show the components of ordinary PCA as well; as images only.

        Returns
        -------
        LoadingsDisplay

        Raises
        ------
        InvalidType
            The estimator is not a fitted FairPCA, or a number is not a whole number.
        InvalidParameter
            No features, or an image of another number of pixels.
        Incompatible
            `beside_pca` without images.

        Examples
        --------
        >>> import numpy as np
        >>> from fairspan import FairPCA
        >>> from fairspan.displays import LoadingsDisplay
        >>> X = np.array([[3.0, 0, 0], [-3, 0, 0], [0, 2, 0], [0, -2, 0]])
        >>> fair = FairPCA(1).fit(X, sensitive_features=["a", "a", "b", "b"])
        >>> LoadingsDisplay.from_estimator(fair, n_features=2).columns()["feature"]
        ['feature 0', 'feature 1']
        """
        moments_of_fit(estimator, cls.__name__)
        check_count("n_features", n_features)
        subspace = estimator.subspace_
        shape, p = image_shape, subspace.n_features
        if shape is not None and (len(shape) != 2 or shape[0] * shape[1] != p):
            raise InvalidParameter(
                f"image_shape is {image_shape!r}",
                f"Allowed: two whole numbers whose product is the number of features, {p}",
                "Pass the rows and columns of the images that the features are the pixels of",
            )
        if beside_pca and image_shape is None:
            raise Incompatible(
                "beside_pca was requested without image_shape",
                "Allowed: PCA beside components that are shown as images",
                "Pass image_shape, or make a second display of a FairPCA with criterion "
                "'total_error'",
            )
        names = subspace.feature_names or [f"feature {j}" for j in range(subspace.n_features)]
        return cls(
            loadings=subspace.components,
            features=tuple(map(printable, names)),
            n_features=int(n_features),
            image_shape=image_shape,
            plain=plain_of_fit(estimator).components if beside_pca else None,
            name=criterion_name(estimator),
        )


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
        solution = estimator.solution_
        criterion = criterion_of(estimator.criterion)
        is_loss = criterion.measures_losses and not criterion.relative
        bounds_losses = solution.criterion.name == criterion.name and is_loss
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
