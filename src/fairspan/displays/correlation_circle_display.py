"""Display of the correlations of the features with the first two components."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from fairspan.displays.base_display import BaseDisplay
from fairspan.displays.feature_arrows import draw_feature_arrows
from fairspan.displays.records import fitted_moments
from fairspan.displays.style import BLUE, FOREGROUND, MUTED, Axes, add_header, format_ticks
from fairspan.errors import IncompatibleParameters, InvalidParameter
from fairspan.formatting.numbers import format_count, format_share, to_ascii
from fairspan.model.subspace import FairSubspace
from fairspan.moments.compute import Moments
from fairspan.parameters import check_integer
from fairspan.rows.labels import printable
from fairspan.typing import FloatArray

if TYPE_CHECKING:
    from fairspan.estimator.fair_pca import FairPCA

MAX_FEATURES = 2000
"""Largest number of features: more arrows cannot be told apart, and their p x p matrix is large."""

_TITLE = "Correlation of each feature with the first two components"
# Half the ranges of the axes: labels extend beyond the circle, most of all to its sides. A wide
# figure has more room there, for each inch of its width, up to that of the longest labels.
_HALF_HEIGHT = 1.25
_HALF_WIDTH_PER_INCH = 0.33
_HALF_WIDTHS = (1.4, 2.1)
# Height of title, note and labels in inches.
_EXTRA_HEIGHT = 1.4
_TICKS = (-1.0, -0.5, 0.0, 0.5, 1.0)
# Share of its variance from which a feature counts as represented.
_REPRESENTED_SHARE = 0.5


# Correlation of the coordinates up to which it counts as a rounding error.
_UNCORRELATED_TOL = 1e-6


@dataclass(eq=False, repr=False)
class CorrelationCircleDisplay(BaseDisplay):
    """Plot the correlations of the features with the first two components, as arrows in a circle.

    Over all rows, whatever their group. Arrows that nearly reach the circle belong to features that
    the plane represents well. Features with a small angle between them vary together in the plane.

    Create it with :meth:`from_estimator`.

    Attributes
    ----------
    correlations : (p, 2) array
        Correlation of each feature with the coordinates; zero for constant features.
    features : tuple of p str
    variance_shares : (2,) array
        Share of the total variance that each component keeps.
    explained_shares : (p,) array
        Share of the variance of each feature that both coordinates explain together (R squared);
        the squared length of its arrow if the coordinates are uncorrelated.
    coordinate_correlation : float
        Correlation of the two coordinates; zero unless the components are rotated or oblique, or
        errors are about each group's mean.
    max_labels : int
        Maximum number of features with a name.
    width : float
        Width of a new figure in inches.
    """

    correlations: FloatArray
    features: tuple[str, ...]
    variance_shares: FloatArray
    explained_shares: FloatArray
    coordinate_correlation: float = 0.0
    max_labels: int = 15
    width: float = 6.4

    @classmethod
    def from_estimator(
        cls, estimator: "FairPCA", *, max_labels: int = 15, ax: "Axes | None" = None
    ) -> Self:
        """Plot the correlations of a fitted estimator.

        Parameters
        ----------
        estimator : FairPCA
            Fitted estimator with at least two components and at most 2,000 features.
        max_labels : int
            Maximum number of features with a name, by decreasing length of the arrow. A name that
            would overlap another is left out.
        ax : matplotlib Axes, optional
            Axes to draw on; by default, a new pyplot figure.

        Returns
        -------
        CorrelationCircleDisplay

        Raises
        ------
        InvalidType
            The estimator is not a fitted FairPCA.
        IncompatibleParameters
            It has a single component, or too many features.

        Examples
        --------
        >>> import numpy as np
        >>> from fairspan import FairPCA
        >>> from fairspan.displays import CorrelationCircleDisplay
        >>> X = np.array([[3.0, 0, 1], [-3, 0, 1], [0, 2, -1], [0, -2, -1]])
        >>> fair = FairPCA(2).fit(X, sensitive_features=["a", "a", "b", "b"])
        >>> CorrelationCircleDisplay.from_estimator(fair).correlations.round(3)
        array([[1., 0.],
               [0., 1.],
               [0., 0.]])
        """
        return cls._compute_and_plot(ax, estimator, max_labels=max_labels)

    @classmethod
    def compute(cls, estimator: "FairPCA", *, max_labels: int = 15) -> Self:
        """Compute the correlations; parameters and exceptions as for `from_estimator`."""
        moments = fitted_moments(estimator, cls.__name__)
        return cls.from_moments(estimator.subspace_, moments, max_labels=max_labels)

    @classmethod
    def from_moments(
        cls, subspace: FairSubspace, moments: Moments, *, max_labels: int = 15
    ) -> Self:
        """Compute the correlations of a subspace from the moments of rows, without drawing."""
        check_integer("max_labels", max_labels, minimum=0)
        if subspace.n_components < 2:
            raise IncompatibleParameters(
                f"{cls.__name__} received a model with one component",
                "Allowed: two or more components, since the first two span the plane",
                "Fit with n_components=2",
            )
        if subspace.n_features > MAX_FEATURES:
            raise InvalidParameter(
                f"{cls.__name__} received a model of {subspace.n_features:,} features",
                f"Allowed: at most {MAX_FEATURES:,} features",
                "Plot the loadings of the largest with LoadingsDisplay",
            )
        covariance = _covariance(subspace, moments)
        encoder = subspace.components[:2]
        images = covariance @ encoder.T  # covariances of features and coordinates, (p, 2)
        inside = encoder @ images  # of the coordinates, (2, 2)
        variances = np.diag(covariance)
        coordinate_variances = np.diag(inside)
        scale = np.sqrt(np.outer(variances, coordinate_variances))
        correlations = np.divide(images, scale, out=np.zeros_like(images), where=scale > 0)
        between = np.sqrt(coordinate_variances.prod())
        explained = np.einsum("ij,jk,ik->i", images, np.linalg.pinv(inside), images)
        names = subspace.feature_names or [f"feature {j}" for j in range(len(variances))]
        return cls(
            correlations=np.clip(correlations, -1.0, 1.0),
            features=tuple(map(printable, names)),
            variance_shares=coordinate_variances / (float(variances.sum()) or 1.0),
            explained_shares=np.divide(
                explained, variances, out=np.zeros_like(explained), where=variances > 0
            ),
            coordinate_correlation=float(inside[0, 1] / between) if between > 0 else 0.0,
            max_labels=int(max_labels),
        )

    def to_columns(self) -> Mapping[str, Sequence[object]]:
        """Columns with one row per feature."""
        return {
            "feature": list(self.features),
            "component 1": self.correlations[:, 0].tolist(),
            "component 2": self.correlations[:, 1].tolist(),
        }

    @property
    def n_represented(self) -> int:
        """Number of features of which the plane explains at least half of the variance."""
        return int((self.explained_shares >= _REPRESENTED_SHARE).sum())

    @property
    def are_coordinates_correlated(self) -> bool:
        """Whether the two coordinates are correlated, as those of rotated components may be."""
        return abs(self.coordinate_correlation) > _UNCORRELATED_TOL

    def figure_size(self) -> tuple[float, float]:
        """Figure size in inches."""
        return self.width, self.width * _HALF_HEIGHT / self._half_width + _EXTRA_HEIGHT

    @property
    def _half_width(self) -> float:
        """Half the range of the horizontal axis."""
        return float(np.clip(_HALF_WIDTH_PER_INCH * self.width, *_HALF_WIDTHS))

    def _draw(self, axes: Axes) -> Sequence[Axes]:
        angles = np.linspace(0, 2 * np.pi, 200)
        radii = [1.0] if self.are_coordinates_correlated else [1.0, _REPRESENTED_SHARE**0.5]
        for radius in radii:
            axes.plot(radius * np.cos(angles), radius * np.sin(angles), color=MUTED, linewidth=1)
        axes.axhline(0, color=FOREGROUND, linewidth=0.6, zorder=1)
        axes.axvline(0, color=FOREGROUND, linewidth=0.6, zorder=1)
        axes.set_xlim(-self._half_width, self._half_width)
        axes.set_ylim(-_HALF_HEIGHT, _HALF_HEIGHT)
        axes.set_aspect("equal", adjustable="box")
        draw_feature_arrows(
            axes,
            self.correlations,
            self.features,
            max_labels=self.max_labels,
            half_ranges=(self._half_width, _HALF_HEIGHT),
            color=BLUE,
        )
        axes.set_xlabel(self._axis_label(0))
        # In two lines, as the axis is not high.
        axes.set_ylabel(self._axis_label(1).replace(" (", "\n("))
        format_ticks(axes)
        axes.set_xticks(_TICKS)
        axes.set_yticks(_TICKS)
        note = self._note()
        add_header(axes, _TITLE, note=note)
        return (axes,)

    def _note(self) -> str:
        count = format_count(self.n_represented, "feature")
        note = (
            f"The plane explains at least half of the variance of {count} of {len(self.features):,}"
        )
        if not self.are_coordinates_correlated:
            return f"{note}: those whose arrow reaches the inner circle."
        return (
            f"{note}. The coordinates have a correlation of {self.coordinate_correlation:.2f}, so "
            "arrows may be longer than the circle."
        )

    def _axis_label(self, i: int) -> str:
        share = to_ascii(format_share(float(self.variance_shares[i])))
        return f"component {i + 1} ({share} of the variance)"


def _covariance(subspace: FairSubspace, moments: Moments) -> FloatArray:
    """Covariance of all rows about their mean, in the units of the model, shape (p, p)."""
    dense = moments.to_dense()
    scale = subspace.row_frame.scale
    deviations = (dense.means - dense.mean) / scale
    within = np.asarray(dense.second_moments(center="group")) / np.multiply.outer(scale, scale)
    pooled = np.tensordot(dense.proportions, within, axes=1)
    return np.asarray(pooled + (deviations.T * dense.proportions) @ deviations)
