"""Display of reduced rows by group, with the loadings of the features as arrows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from fairspan.displays.base_display import BaseDisplay
from fairspan.displays.feature_arrows import draw_feature_arrows
from fairspan.displays.plane_sample import point_columns
from fairspan.displays.records import fitted_moments
from fairspan.displays.reduced_rows_display import ReducedRowsDisplay
from fairspan.displays.style import FOREGROUND, MUTED, Axes, add_header, format_ticks, series_style
from fairspan.errors import InvalidParameter
from fairspan.formatting.numbers import format_count, verb_form
from fairspan.parameters import check_integer
from fairspan.rows.labels import printable
from fairspan.typing import FloatArray, IndexArray

if TYPE_CHECKING:
    from fairspan.estimator.fair_pca import FairPCA

MAX_ROWS = 5000
"""Largest number of points, drawn evenly by group."""

_TITLE = "First two components by group, with the loadings of the features"
# Length of the longest arrow, relative to half the range of the axes: room for its label.
_LONGEST_ARROW = 0.72
# Quantile of the distances of points from the origin that is shown.
_SHOWN_SHARE = 0.995
_MARGIN = 1.05
# Opacity decreases with the number of points, so that density remains visible.
_MAX_OPACITY = 0.55
_OPACITY_FACTOR = 9.0


@dataclass(eq=False, repr=False)
class BiplotDisplay(BaseDisplay):
    """Plot rows by their first two components, colored by group, and loadings as arrows.

    Create it with :meth:`from_estimator`.

    Attributes
    ----------
    points : (n, 2) array
        Coordinates of the rows, a sample with equally many rows of each group if available.
    codes : (n,) array of int
        Group index of each point.
    groups : tuple of k str
    loadings : (p, 2) array
        Loadings of each feature on the two components.
    features : tuple of p str
    n_rows : int
        Number of rows that the points were sampled from.
    max_labels : int
        Maximum number of features with a name.
    """

    points: FloatArray
    codes: IndexArray
    groups: tuple[str, ...]
    loadings: FloatArray
    features: tuple[str, ...]
    n_rows: int
    max_labels: int = 12

    @classmethod
    def from_estimator(
        cls,
        estimator: "FairPCA",
        X: object,
        sensitive_features: object,
        *,
        max_rows: int = 1500,
        max_labels: int = 12,
        random_state: int = 0,
        ax: "Axes | None" = None,
    ) -> Self:
        """Project rows, and plot a sample of each group with the loadings.

        Parameters
        ----------
        estimator : FairPCA
            Fitted estimator with at least two components.
        X : (n, p) table of finite numbers, as `FairPCA.fit` takes it
        sensitive_features : (n,) or (n, a) array-like or data frame, or column name(s) of X
        max_rows : int
            Maximum number of points, at most 5,000, equally many per group if available.
        max_labels : int
            Maximum number of features with a name, by decreasing length of the arrow. A name that
            would overlap another is left out.
        random_state : int
            Seed for sampling the points.
        ax : matplotlib Axes, optional
            Axes to draw on; by default, a new pyplot figure.

        Returns
        -------
        BiplotDisplay

        Raises
        ------
        InvalidType
            The estimator is not a fitted FairPCA.
        InvalidParameter
            `max_rows` or `max_labels` is out of range.
        IncompatibleParameters
            The estimator has a single component.
        InvalidInput
            Rows without groups, or with other features.
        UnknownGroup
            A group that the estimator was not fitted on.

        Examples
        --------
        >>> import numpy as np
        >>> from fairspan import FairPCA
        >>> from fairspan.displays import BiplotDisplay
        >>> X = np.array([[3.0, 0, 1], [-3, 0, 1], [0, 2, 0], [0, -2, 0]])
        >>> groups = ["a", "a", "b", "b"]
        >>> fair = FairPCA(2).fit(X, sensitive_features=groups)
        >>> display = BiplotDisplay.from_estimator(fair, X, groups)
        >>> display.points.shape, display.loadings.shape
        ((4, 2), (3, 2))
        """
        return cls._compute_and_plot(
            ax,
            estimator,
            X,
            sensitive_features,
            max_rows=max_rows,
            max_labels=max_labels,
            random_state=random_state,
        )

    @classmethod
    def compute(
        cls,
        estimator: "FairPCA",
        X: object,
        sensitive_features: object,
        *,
        max_rows: int = 1500,
        max_labels: int = 12,
        random_state: int = 0,
    ) -> Self:
        """Sample the points; parameters and exceptions as for `from_estimator`."""
        fitted_moments(estimator, cls.__name__)  # raises if the estimator is not fitted
        check_integer("max_rows", max_rows)
        check_integer("max_labels", max_labels, minimum=0)
        if max_rows > MAX_ROWS:
            raise InvalidParameter(
                f"max_rows is {max_rows}",
                f"Allowed: at most {MAX_ROWS:,}, since more points hide each other",
                "Pass a smaller number; the points are a sample of each group",
            )
        sample = ReducedRowsDisplay.compute(
            estimator, X, sensitive_features, max_rows=max_rows, random_state=random_state
        )
        subspace = estimator.subspace_
        names = subspace.feature_names or [f"feature {j}" for j in range(subspace.n_features)]
        return cls(
            points=sample.points,
            codes=sample.codes,
            groups=sample.groups,
            loadings=subspace.components[:2].T,
            features=tuple(map(printable, names)),
            n_rows=sample.n_rows,
            max_labels=int(max_labels),
        )

    def to_columns(self) -> Mapping[str, Sequence[object]]:
        """Columns with one row per point."""
        return point_columns(self.points, self.codes, self.groups)

    @property
    def half_range(self) -> float:
        """Half the range of the axes: nearly all points lie within it."""
        distance = float(np.quantile(np.abs(self.points).max(axis=1), _SHOWN_SHARE))
        return _MARGIN * distance or 1.0

    def arrow_tips(self) -> FloatArray:
        """Return the tips of the arrows in the units of the coordinates, shape (p, 2).

        Loadings are multiplied by one factor, so that the longest arrow nearly fills the axes.
        """
        longest = float(np.hypot(*self.loadings.T).max())
        return np.asarray(self.loadings * (_LONGEST_ARROW * self.half_range / (longest or 1.0)))

    def figure_size(self) -> tuple[float, float]:
        """Figure size in inches."""
        # Long legends of many groups take more height.
        return 6.4, 6.8 + 0.1 * len(self.groups)

    def _draw(self, axes: Axes) -> Sequence[Axes]:
        from matplotlib.lines import Line2D

        half_range = self.half_range
        axes.axhline(0, color=MUTED, linewidth=0.6, zorder=1)
        axes.axvline(0, color=MUTED, linewidth=0.6, zorder=1)
        # In the order of the sample, so that no group covers all others.
        opacity = min(_MAX_OPACITY, _OPACITY_FACTOR / np.sqrt(max(len(self.points), 1)))
        handles = []
        for g in range(len(self.groups)):
            style = series_style(g)
            settings: Any = {"color": style.color, "marker": style.marker, "linestyle": ""}
            axes.plot(
                *self.points[self.codes == g].T,
                **settings,
                alpha=opacity,
                markersize=3.5,
                markeredgewidth=0,
                rasterized=True,
                zorder=2,
            )
            handles.append(Line2D([], [], **settings, markersize=6))
        axes.set_xlim(-half_range, half_range)
        axes.set_ylim(-half_range, half_range)
        axes.set_aspect("equal", adjustable="box")
        draw_feature_arrows(
            axes,
            self.arrow_tips(),
            self.features,
            max_labels=self.max_labels,
            half_ranges=(half_range, half_range),
            color=FOREGROUND,
        )
        axes.set_xlabel("component 1")
        axes.set_ylabel("component 2")
        format_ticks(axes)
        add_header(axes, _TITLE, handles, self.groups, note=self._note())
        return (axes,)

    def _note(self) -> str:
        notes = []
        if len(self.points) < self.n_rows:
            notes.append(
                f"{len(self.points):,} of {self.n_rows:,} rows are shown, equally many of each "
                "group if available."
            )
        n_outside = int((np.abs(self.points).max(axis=1) > self.half_range).sum())
        if n_outside:
            verb = verb_form(n_outside, "lies", "lie")
            notes.append(f"{format_count(n_outside, 'row')} {verb} outside the plot.")
        return " ".join(notes)
