"""What each group keeps and loses, under PCA and under a criterion."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from fairspan.displays.fitted import (
    audited_beside_pca,
    criterion_name,
    estimates_of,
    moments_for,
    moments_of_fit,
    names_of,
    plain_figures,
    plain_of_fit,
    rows_for,
    without_rounding,
)
from fairspan.drawing.layout import (
    BEST,
    FAINT,
    FAIR,
    INK,
    PLAIN,
    Axes,
    for_legend,
    head,
    plain_numbers,
    rows_size,
    set_rows,
    set_shares,
)
from fairspan.drawing.pictures import AuditPicture, Estimates, Picture
from fairspan.errors import InvalidInput
from fairspan.formatting.text import axis_number, count, label_of, spoken
from fairspan.metrics import group_figures
from fairspan.problem.reduction import criterion_of
from fairspan.registry import check_flag
from fairspan.rows.protocol import Rows
from fairspan.typing import FloatArray

# Inches of a row; share of it that each bar takes.
_LOSS_ROW, _BAR = 0.46, 0.38


@dataclass(eq=False)
class VarianceKeptDisplay(Picture):
    """Plot the share of each group's variance kept: by PCA, by the criterion, and at most.

    Make it with :meth:`from_estimator`.

    Attributes
    ----------
    groups : tuple of k str
    plain, fair, best : (k,) arrays
        From 0 to 1; NaN for a group without variance.
    n_components : int
    name : str
        The criterion's.
    """

    groups: tuple[str, ...]
    plain: FloatArray
    fair: FloatArray
    best: FloatArray
    n_components: int
    name: str = "fair"

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

    def size(self) -> tuple[float, float]:
        """Width and height of a new figure, in inches."""
        return rows_size(self.groups)

    def columns(self) -> Mapping[str, Sequence[Any]]:
        """One row for each group."""
        return {
            "group": list(self.groups),
            "PCA": self.plain.tolist(),
            self.name: self.fair.tolist(),
            "best possible": self.best.tolist(),
        }

    def _draw(self, axes: Axes) -> Sequence[Axes]:
        rows = np.arange(len(self.groups))
        axes.hlines(rows, self.plain, self.fair, color=FAINT, linewidth=2.5, zorder=1)
        (best,) = axes.plot(
            self.best, rows, "|", color=BEST.colour, markersize=17, markeredgewidth=2.2
        )
        (fair,) = axes.plot(self.fair, rows, FAIR.marker, color=FAIR.colour, markersize=8)
        (plain,) = axes.plot(
            self.plain,
            rows,
            PLAIN.marker,
            color=PLAIN.colour,
            markersize=11,
            fillstyle="none",
            markeredgewidth=2.2,
        )
        axes.set_xlabel("share of the group's variance that is kept")
        set_shares(axes, np.concatenate([self.plain, self.fair, self.best]))
        beside = set_rows(axes, self.groups)
        labels = ["PCA", label_of(spoken(self.name)), "the group's own best subspace"]
        dimensions = count(self.n_components, "dimension")
        title = f"The share of each group's variance that {dimensions} can keep"
        head(axes, title, for_legend([plain, fair, best]), labels, beside=beside)
        return (axes,)


@dataclass(eq=False)
class GroupLossDisplay(AuditPicture):
    """Plot the loss of each group on new rows, or on the rows of the fit with the proven bound.

    Make it with :meth:`from_estimator`.

    Attributes
    ----------
    groups : tuple of k str
    models : mapping of name to Estimates of (k,) arrays
        Of ordinary PCA and then of the criterion: losses expected on new rows, or excess losses on
        the rows of the fit. NaN if there are too few rows.
    plain : tuple of str
        The name of ordinary PCA.
    quantity : {"expected loss", "loss"}
    level : float
        Of the intervals, each of one group.
    n_components : int
    bound : float or None
        No subspace has a smaller largest loss; None where the criterion proves no such thing.
    status : str
        How the fit ended: "optimal", "estimated", "open gap" or "unresolved".
    """

    n_components: int = 1
    bound: float | None = None
    status: str = "optimal"

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
        >>> display.estimates.values.round(2), round(display.bound, 2)
        (array([[0.  , 4.  ],
               [2.77, 2.77]]), 2.77)
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
        losses = {"PCA": plain.excess_losses, criterion_name(estimator): estimator.group_losses_}
        return cls(
            groups=names_of(moments.labels),
            models={
                name: Estimates.of(without_rounding(each, plain)) for name, each in losses.items()
            },
            plain=("PCA",),
            quantity="loss",
            n_components=estimator.subspace_.dimension,
            bound=max(solution.lower_bound, 0.0) if bounds_losses else None,
            status=str(solution.status),
        )

    def size(self) -> tuple[float, float]:
        """Width and height of a new figure, in inches."""
        return rows_size(self.groups, _LOSS_ROW)

    def columns(self) -> Mapping[str, Sequence[Any]]:
        """One row for each model and group; the bound is the same in all."""
        columns = super().columns()
        return {
            **columns,
            "bound": [np.nan if self.bound is None else self.bound] * len(columns["group"]),
        }

    def _draw(self, axes: Axes) -> Sequence[Axes]:
        if self.quantity == "expected loss":
            return super()._draw(axes)
        plain, fair = self.estimates.values
        rows = np.arange(len(self.groups))
        hollow: Any = {"facecolor": "white", "edgecolor": PLAIN.colour, "hatch": PLAIN.hatch}
        handles: list[Any] = [
            axes.barh(rows - _BAR / 2, plain, _BAR, **hollow),
            axes.barh(rows + _BAR / 2, fair, _BAR, facecolor=FAIR.colour, edgecolor=FAIR.colour),
        ]
        labels = [label_of(spoken(name)) for name in self.models]
        if self.bound is not None:
            handles.append(axes.axvline(self.bound, color=INK, linewidth=1.6, gid="bound"))
            labels.append(
                "proven lower bound" if self.status != "estimated" else "estimated lower bound"
            )
        axes.set_xlabel("excess loss of the group")
        beside = set_rows(axes, self.groups)
        axes.set_xlim(left=0)
        plain_numbers((axes,), "x")
        d = self.n_components
        own = "its own best dimension" if d == 1 else f"its own best {d} dimensions"
        title = f"Loss of each group against {own}"
        head(axes, title, handles, labels, note=self._note(), beside=beside)
        return (axes,)

    def _note(self) -> str:
        """What is proven of the largest loss on the rows of the fit."""
        if self.quantity == "expected loss":
            return super()._note()
        name = label_of(spoken([*self.models][-1]))
        if self.bound is None:
            return f"{name} minimises another quantity, so it gives no bound on the largest loss."
        if self.status == "optimal":
            return f"Proven: no subspace has a smaller largest loss than that of {name}."
        if self.status == "estimated":
            return "The lower bound is an estimate: it depends on eigenvectors found by iteration."
        if self.status == "unresolved":
            return "The gap to the lower bound is within the rounding error of these data."
        above = axis_number(float(f"{self.estimates.values[-1].max() - self.bound:.3g}"))
        return f"Open gap: a largest loss that is smaller by up to {above} is not ruled out."


def _expected_losses(estimator: Any, rows: Rows, *, on_rows: bool) -> dict[str, Any]:
    """What is expected on new rows, as the picture takes it."""
    audited = audited_beside_pca(estimator, [estimator], [plain_of_fit(estimator)], rows)
    groups = names_of([group.group for group in audited[0][0].groups])
    name, d = criterion_name(estimator), estimator.subspace_.dimension
    plain, fair = (estimates_of(each, len(groups), "loss", on_rows=on_rows) for each in audited)
    if np.isnan(plain.values).all():
        why = audited[0][0].why_no_estimates or "every group has too few of them"
        raise InvalidInput(
            f"The rows give no estimates for new rows: {why}",
            "Allowed: rows that do, or none, which shows the losses on the rows of the fit",
            "Leave out X",
        )
    return {
        "groups": groups,
        "models": {"PCA": plain.at(0), name: fair.at(0)},
        "plain": ("PCA",),
        "quantity": "expected loss",
        "n_components": d,
        "status": str(estimator.solution_.status),
    }
