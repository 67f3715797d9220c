"""Display of the share of variance kept in each group by an estimator and by PCA."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from fairspan.displays.audit_display import AuditDisplay
from fairspan.displays.records import (
    best_records,
    fitted_moments,
    known_group_moments,
    observed_records,
    open_display_rows,
    values_of,
)
from fairspan.formatting.numbers import format_count

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from fairspan.estimator.fair_pca import FairPCA


@dataclass(eq=False, repr=False)
class VarianceKeptDisplay(AuditDisplay):
    """Plot the share of variance kept in each group by PCA and the criterion, and the maximum.

    Create it with :meth:`from_estimator`.

    Attributes
    ----------
    records : sequence of mappings
        `observed_variance_kept` of each group under "PCA", the criterion and "best possible", in
        [0, 1]; NaN for a group without variance.
    n_components : int
    """

    n_components: int = 1

    @classmethod
    def from_estimator(
        cls,
        estimator: "FairPCA",
        X: object = None,
        sensitive_features: object = None,
        *,
        ax: "Axes | None" = None,
    ) -> Self:
        """Plot the share of variance kept in each group by PCA, the estimator and at best.

        Parameters
        ----------
        estimator : FairPCA
            Fitted estimator.
        X : (n, p) table of finite numbers, optional
            Other rows, such as held-out ones, as for `FairPCA.fit`; by default, the training rows.
        sensitive_features : (n,) or (n, a) array-like or data frame, or column name(s) of X
        ax : matplotlib Axes, optional
            Axes to draw on; by default, a new pyplot figure.

        Returns
        -------
        VarianceKeptDisplay

        Raises
        ------
        InvalidType
            The estimator is not a fitted FairPCA.
        InvalidInput
            Rows without groups, or with other features.
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
        >>> display.models, display.values().round(2)
        (('PCA', 'minimax loss', 'best possible'), array([[1.  , 0.  ],
               [0.69, 0.31],
               [1.  , 1.  ]]))
        """
        return cls._compute_and_plot(ax, estimator, X, sensitive_features)

    @classmethod
    def compute(
        cls, estimator: "FairPCA", X: object = None, sensitive_features: object = None
    ) -> Self:
        """Compute the share of variance kept in each group by PCA, the estimator and at best.

        Parameters and exceptions as for `from_estimator`. Without rows, the shares are those of the
        training rows.
        """
        moments = fitted_moments(estimator, cls.__name__)
        d = estimator.subspace_.dimension
        rows = open_display_rows(estimator, X, sensitive_features, cls.__name__)
        if rows is not None:
            moments = known_group_moments(estimator, rows)
        records = observed_records(estimator, {d: estimator}, moments)
        # The records of PCA come first, one per group; the best errors are the same for all models.
        pca_records = records[: len(moments.labels)]
        best_errors = values_of(pca_records, "observed_best_error")
        variances = values_of(pca_records, "observed_total_variance")
        with np.errstate(invalid="ignore"):  # 0 / 0: a group without variance
            best = 1 - best_errors / variances
        records += best_records(pca_records, "observed_variance_kept", best)
        return cls(records, "observed_variance_kept", n_components=d)

    def _title(self) -> str:
        dimensions = format_count(self.n_components, "dimension")
        return f"Share of variance kept in each group with {dimensions}"
