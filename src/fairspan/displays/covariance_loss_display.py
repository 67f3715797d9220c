"""Display of the covariance that each group loses, by number of components."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

import numpy as np

from fairspan.cross_decomposition.audited_pairs import read_pairs
from fairspan.cross_decomposition.paired_certificate import PairedCertificate
from fairspan.cross_decomposition.pose_pairs import PairedSettings, pose_pairs
from fairspan.displays.base_display import BaseDisplay, describe_unproven
from fairspan.displays.style import (
    FAIR_STYLE,
    PCA_STYLE,
    SeriesStyle,
    add_header,
    available_width,
    format_ticks,
    grid_shape,
    named_panels,
    panel_figure_size,
)
from fairspan.errors import InvalidType, describe_type
from fairspan.formatting.names import plot_label
from fairspan.moments.group_moments import GroupMoments
from fairspan.rows.labels import Label, table_name
from fairspan.typing import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from fairspan.cross_decomposition.fair_pls import FairCCA, FairPLS

# Most numbers of components that are fitted, two models each.
_MAX_DIMENSIONS = 12


@dataclass(eq=False, repr=False)
class CovarianceLossDisplay(BaseDisplay):
    """Plot the covariance that each group loses with 1, 2, ... components of two tables.

    Losses are those on the rows of the fit, as shares of what the group's own best pair of
    subspaces keeps. Create it with :meth:`from_estimator`.

    Attributes
    ----------
    models : tuple of str
        The ordinary model, and the fair one.
    groups : tuple of labels
    dimensions : (m,) array
        Numbers of components.
    losses : (2, m, k) array
        Loss of each group, from 0 to 2; NaN for a group in which X and Y do not covary.
    statuses : tuple of m str
        Status of each fair fit.
    """

    models: tuple[str, ...]
    groups: tuple[Label, ...]
    dimensions: "np.ndarray[tuple[int, ...], np.dtype[np.int64]]"
    losses: FloatArray
    statuses: tuple[str, ...]

    @classmethod
    def from_estimator(cls, estimator: "FairPLS | FairCCA", *, ax: "Axes | None" = None) -> Self:
        """Plot the losses of a fitted model of two tables, and of the ordinary one.

        Parameters
        ----------
        estimator : FairPLS or FairCCA
            Fitted estimator, with any number of components.
        ax : matplotlib Axes, optional
            Axes to draw on; by default, a new pyplot figure.

        Returns
        -------
        CovarianceLossDisplay

        Raises
        ------
        InvalidType
            The estimator is not a fitted FairPLS or FairCCA.

        Examples
        --------
        >>> import numpy as np
        >>> from fairspan.cross_decomposition import FairPLS
        >>> from fairspan.displays import CovarianceLossDisplay
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(100, 4))
        >>> fair = FairPLS(1).fit(X, X[:, :3] ** 3, sensitive_features=["a", "b"] * 50)
        >>> display = CovarianceLossDisplay.from_estimator(fair)
        >>> display.dimensions, display.losses.shape
        (array([1, 2]), (2, 2, 2))
        """
        return cls._compute_and_plot(ax, estimator)

    @classmethod
    def compute(cls, estimator: "FairPLS | FairCCA") -> Self:
        """Compute the losses for each number of components. Parameters as for `from_estimator`."""
        moments = getattr(estimator, "moments_", None)
        pair = getattr(estimator, "subspace_", None)
        settings = getattr(pair, "settings", None)
        if not isinstance(moments, GroupMoments) or not isinstance(settings, PairedSettings):
            raise InvalidType(
                f"The estimator is {describe_type(estimator)}",
                "Allowed: a fitted FairPLS or FairCCA",
                "Fit it first",
            )
        fair = estimator.subspace_
        n_targets = fair.y.n_features
        # A restriction leaves fewer directions than columns.
        posed = pose_pairs(moments, n_targets, replace(settings, n_components=1))
        n_directions = min(posed.problem.covariances.shape)
        dimensions = np.arange(1, min(n_directions, _MAX_DIMENSIONS + 1))
        models = read_pairs(fair)
        losses = np.empty((len(models), len(dimensions), moments.n_groups))
        statuses: list[str] = []
        for i, d in enumerate(dimensions.tolist()):
            certificates = [
                model.with_n_components(d).fit(moments, n_targets).certificate for model in models
            ]
            losses[:, i] = [_loss_shares(certificate) for certificate in certificates]
            statuses.append(str(certificates[-1].status))  # of the fair model
        return cls(
            tuple(model.name for model in models),
            tuple(moments.labels),
            dimensions,
            losses,
            tuple(statuses),
        )

    def to_columns(self) -> Mapping[str, Sequence[object]]:
        """Columns with one row for each model, number of components and group."""
        m = len(self.dimensions)
        k = len(self.groups)
        n_models = len(self.models)
        return {
            "model": np.repeat(self.models, m * k).tolist(),
            "n_components": np.tile(np.repeat(self.dimensions, k), n_models).tolist(),
            "group": [*self.groups] * (n_models * m),
            "loss": self.losses.ravel().tolist(),
        }

    def figure_size(self) -> tuple[float, float]:
        """Figure size in inches."""
        return panel_figure_size(len(self.groups))

    def _draw(self, axes: "Axes") -> "Sequence[Axes]":
        from matplotlib.lines import Line2D
        from matplotlib.ticker import MaxNLocator

        names = [plot_label(table_name(group)) for group in self.groups]
        panels = named_panels(axes, names, "number of components", "covariance lost")
        styles = self._styles()
        for index, panel in enumerate(panels):
            for number, style in enumerate(styles):
                panel.plot(
                    self.dimensions,
                    self.losses[number, :, index],
                    color=style.color,
                    linestyle=style.line,
                    marker=style.marker,
                    markerfacecolor=style.marker_fill(style.color),
                    gid=f"{self.models[number]}-{index}",
                )
        for panel in panels:
            panel.set_ylim(bottom=0)
            width = available_width(axes) / grid_shape(len(panels))[1]
            format_ticks(panel, "x", width=width)
            format_ticks(panel, "y", is_share=True)
            panel.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True, min_n_ticks=1))
        handles = []
        for style in styles:
            handle = Line2D([], [], color=style.color, linestyle=style.line, marker=style.marker)
            handle.set_markerfacecolor(style.marker_fill(style.color))
            handles.append(handle)
        add_header(
            axes,
            "Covariance of X and Y lost by each group, as a share of what its own best pair keeps",
            handles,
            [plot_label(name) for name in self.models],
            note=describe_unproven(self.statuses),
        )
        return panels

    def _styles(self) -> tuple[SeriesStyle, ...]:
        """Styles of the ordinary model and the fair one."""
        return (PCA_STYLE, FAIR_STYLE)[: len(self.models)]


def _loss_shares(certificate: PairedCertificate) -> FloatArray:
    """Return the groups' losses as shares of what their own best pairs keep, (k,).

    NaN for a group whose best pair keeps nothing.
    """
    best = certificate.figures.best
    shares = np.full(len(best), np.nan)
    np.divide(certificate.losses, best, out=shares, where=best > 0)
    return shares
