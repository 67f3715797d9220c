"""Reduced rows of every group in the plane, from an estimator and rows."""

from typing import Any, Self

import numpy as np

from fairspan.displays.fitted import moments_of_fit, names_of
from fairspan.displays.plane import InPlane, PlaneRows
from fairspan.displays.rows import rows_for
from fairspan.drawing.reduced_rows import ReducedRowsPicture
from fairspan.errors import Incompatible, InvalidInput
from fairspan.moments.of_rows import moments_of
from fairspan.problem.parameters import check_count
from fairspan.rows.engines import folded


class ReducedRowsDisplay(ReducedRowsPicture):
    """Rows in the plane of the first two components, with each group's own principal axes.

    Make it with :meth:`from_estimator`.
    """

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        sensitive_features: Any,
        *,
        max_rows: int = 1500,
        random_state: int = 0,
    ) -> Self:
        """Reduce rows, and keep some of each group to be drawn.

        Parameters
        ----------
        estimator : FairPCA
            Fitted, with two components or more.
        X : (n, p) table of finite numbers, as `FairPCA.fit` takes it
        sensitive_features : (n,) or (n, a) array-like or data frame, or column name(s) of X
        max_rows : int
            Rows that are drawn at most, the same number of each group as far as it has them. Means
            and principal axes are those of all rows.
        random_state : int
            Which rows are drawn.

        Returns
        -------
        ReducedRowsDisplay

        Raises
        ------
        InvalidType
            The estimator is not a fitted FairPCA.
        Incompatible
            It has a single component.
        InvalidInput
            Rows without groups, or of other features.
        UnknownGroup
            A group that the estimator was not fitted on.

        Examples
        --------
        >>> import numpy as np
        >>> from fairspan import FairPCA
        >>> from fairspan.displays import ReducedRowsDisplay
        >>> X = np.array([[3.0, 0, 1], [-3, 0, 1], [0, 2, 0], [0, -2, 0]])
        >>> groups = ["a", "a", "b", "b"]
        >>> fair = FairPCA(2).fit(X, sensitive_features=groups)
        >>> display = ReducedRowsDisplay.from_estimator(fair, X, groups)
        >>> display.points.shape, display.codes
        ((4, 2), array([0, 0, 1, 1]))
        """
        moments = moments_of_fit(estimator, cls.__name__)
        check_count("max_rows", max_rows)
        check_count("random_state", random_state, least=0)
        subspace = estimator.subspace_
        if subspace.n_components < 2:
            raise Incompatible(
                f"{cls.__name__} received an estimator of one component",
                "Allowed are two components or more, whose first two make the plane",
                "Fit with n_components=2",
            )
        rows = rows_for(estimator, X, sensitive_features, cls.__name__)
        labels = moments.labels
        if moments.n_groups == 1:
            # Fitted without groups, so that it knows nothing of these.
            labels = moments_of(rows).labels
        fold = PlaneRows.of(subspace, labels, int(max_rows), int(random_state))
        seen = folded(rows, fold)
        if seen is None or not seen.weights.any():
            raise InvalidInput("X has no rows", "Allowed is at least one", "Pass some rows")
        return cls(**_picture(seen, labels, int(max_rows)))


def _picture(seen: InPlane, labels: Any, max_rows: int) -> dict[str, Any]:
    present = np.flatnonzero(seen.weights)
    drawn = seen.drawn(max_rows)
    return {
        "points": seen.points[drawn],
        "codes": np.searchsorted(present, seen.codes[drawn]),
        "groups": names_of([labels[g] for g in present]),
        "means": seen.means[present],
        "covariances": seen.covariances[present],
        "n_rows": int(seen.counts.sum()),
    }
