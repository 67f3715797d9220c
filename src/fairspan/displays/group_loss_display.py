"""Display of the loss of each group under an estimator and under PCA."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from fairspan.displays.audit_display import AuditDisplay
from fairspan.displays.records import (
    expected_records,
    fitted_moments,
    observed_records,
    open_display_rows,
    values_of,
)
from fairspan.displays.style import FOREGROUND, Axes
from fairspan.errors import InvalidInput
from fairspan.formatting.names import plot_label, readable_name
from fairspan.formatting.numbers import format_tick
from fairspan.formatting.units import Unit, check_unit
from fairspan.parameters import check_bool
from fairspan.problem.criteria.criterion_catalog import get_criterion

if TYPE_CHECKING:
    from matplotlib.artist import Artist

    from fairspan.estimator.fair_pca import FairPCA


@dataclass(eq=False, repr=False)
class GroupLossDisplay(AuditDisplay):
    """Plot the expected loss of each group, or the loss on the training rows with its bound.

    Create it with :meth:`from_estimator`.

    Attributes
    ----------
    records : sequence of mappings
        `expected_loss` or `observed_loss` of each group under ordinary PCA and under the criterion.
    n_components : int
    bound : float or None
        Lower bound on the largest loss of any subspace, in squared units; None if the criterion
        does not bound it. As a share, it is marked for each group: under any subspace, at least
        one group reaches its mark.
    status : str
        Status of the fit: "optimal" ("optimal within 1 %" with a loose tolerance), "estimated",
        "open gap" or "unresolved".
    """

    n_components: int = 1
    bound: float | None = None
    status: str = "optimal"

    @classmethod
    def from_estimator(
        cls,
        estimator: "FairPCA",
        X: object = None,
        sensitive_features: object = None,
        *,
        show_observed: bool = False,
        unit: Unit = "share",
        ax: "Axes | None" = None,
    ) -> Self:
        """Plot the losses under ordinary PCA and under an estimator.

        Parameters
        ----------
        estimator : FairPCA
            Fitted estimator.
        X : (n, p) table of finite numbers, optional
            Training or held-out rows, as for `FairPCA.fit`; losses are then expected losses on new
            rows with intervals, as in :func:`fairspan.audit`. Without rows, excess losses on the
            training rows are shown, where those of small groups are overestimated, with the
            certificate's bound if the criterion is "minimax_loss"; other criteria do not bound the
            largest loss.
        sensitive_features : (n,) or (n, a) array-like or data frame, or column name(s) of X
        show_observed : bool
            Also show the observed losses on `X`.
        unit : {"share", "squared"}
            Shares of the group's variance, or squared units of the features.
        ax : matplotlib Axes, optional
            Axes to draw on; by default, a new pyplot figure.

        Returns
        -------
        GroupLossDisplay

        Raises
        ------
        InvalidType
            The estimator is not a fitted FairPCA.
        InvalidInput
            Rows without groups or with other features, or rows that give no estimates.
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
        >>> display.values().round(2), round(display.bound, 2)
        (array([[0.  , 1.  ],
               [0.31, 0.69]]), 2.77)
        """
        return cls._compute_and_plot(
            ax, estimator, X, sensitive_features, show_observed=show_observed, unit=unit
        )

    @classmethod
    def compute(
        cls,
        estimator: "FairPCA",
        X: object = None,
        sensitive_features: object = None,
        *,
        show_observed: bool = False,
        unit: Unit = "share",
    ) -> Self:
        """Compute the losses of each group under PCA and the estimator.

        Parameters and exceptions as for `from_estimator`. With rows, the losses are expected losses
        on new rows. Without rows, they are those of the training rows, and the display has a lower
        bound on the largest loss of any subspace on these, if the criterion bounds it.
        """
        moments = fitted_moments(estimator, cls.__name__)
        check_bool("show_observed", show_observed)
        check_unit(unit)
        d = estimator.subspace_.dimension
        fits = {d: estimator}  # by dimension, of which there is one here
        status = estimator.solution_.status_text
        rows = open_display_rows(estimator, X, sensitive_features, cls.__name__)
        if rows is not None:
            expected = expected_records(estimator, fits, rows)
            if expected.no_estimates_reason:
                raise InvalidInput(
                    f"The rows give no estimates for new rows: {expected.no_estimates_reason}",
                    "Allowed: rows that give estimates, or none to show the losses on the training "
                    "rows",
                    "Omit X",
                )
            return cls(
                expected.records,
                show_observed=show_observed,
                unit=unit,
                n_components=d,
                status=status,
            )
        return cls(
            observed_records(estimator, fits, moments),
            "observed_loss",
            unit=unit,
            n_components=d,
            bound=_loss_bound(estimator),
            status=status,
        )

    def to_columns(self) -> Mapping[str, Sequence[object]]:
        """Columns with one row per model and group; `bound` is constant."""
        bound = np.nan if self.bound is None else self.bound
        return {**super().to_columns(), "bound": [bound] * len(self.records)}

    def _draw_extras(
        self, axes: Axes, handles: "list[Artist]", labels: list[str]
    ) -> "tuple[list[Artist], list[str]]":
        if self.bound is None:
            return handles, labels
        style: dict[str, Any] = {"color": FOREGROUND, "linewidth": 1.6}
        kind = "estimated" if self.status == "estimated" else "proven"
        label = f"{kind} lower bound"
        if self.unit == "squared":
            line = axes.axvline(self.bound, zorder=1.5, gid="bound", **style)
            return [*handles, line], [*labels, label]
        variances = values_of(self.records, "observed_total_variance")[: len(self.groups)]
        for row, variance in enumerate(variances.tolist()):
            if variance > 0:
                share = self.bound / variance
                ends = [row - 0.4, row + 0.4]
                axes.plot([share] * 2, ends, zorder=1.5, gid=f"bound-{row}", **style)
        (handle,) = axes.plot([], [], **style)
        return [*handles, handle], [*labels, label]

    def _title(self) -> str:
        if self.quantity == "expected_loss":
            return super()._title()
        d = self.n_components
        best = "its best dimension" if d == 1 else f"its best {d} dimensions"
        return f"Excess loss of each group over {best}"

    def _note(self) -> str:
        """Describe what is proven about the largest loss on the training rows."""
        if self.quantity == "expected_loss":
            return super()._note()
        name = plot_label(readable_name(self.models[-1]))  # that of the estimator's criterion
        if self.bound is None:
            return f"{name} minimizes another quantity, so it does not bound the largest loss."
        if self.status.startswith("optimal"):  # "optimal within 1 %" gives "Proven within 1 %"
            proven = self.status.replace("optimal", "Proven")
            if self.unit == "share":
                return f"{proven}: under every subspace, a group loses as much as its mark."
            return f"{proven}: no subspace has a smaller largest loss than {name}."
        if self.status == "estimated":
            return "The lower bound is an estimate: it relies on iteratively computed eigenvectors."
        if self.status == "unresolved":
            return "The gap to the lower bound is within the rounding error for these data."
        # Three significant digits, since a gap is known only roughly.
        losses = values_of(self.records, self.quantity)[-len(self.groups) :]
        gap = format_tick(float(f"{losses.max() - self.bound:.3g}"))
        return f"Open gap: a largest loss smaller by up to {gap} squared units cannot be excluded."


def _loss_bound(estimator: "FairPCA") -> float | None:
    """Lower bound on the largest loss of any subspace; None if the criterion does not bound it.

    The certificate bounds the criterion's objective, which is the largest loss only for a criterion
    of excess losses that are not divided by the group's variance. A loss is never negative.
    """
    solution = estimator.solution_
    criterion = get_criterion(estimator.criterion)
    if solution.criterion.name != criterion.name:  # changed after the fit
        return None
    if not criterion.bounds_largest_loss:
        return None
    return max(float(solution.lower_bound), 0.0)
