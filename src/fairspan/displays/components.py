"""Loadings of components, and rows in the plane of the first two, reduced in one pass."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from math import ceil
from typing import Any, NamedTuple, Self

import numpy as np

from fairspan.auditing.results import group_name
from fairspan.displays.base import Picture
from fairspan.displays.fitted import criterion_name, moments_of_fit, plain_of_fit, rows_for
from fairspan.displays.style import (
    BLUE,
    DIVERGING,
    FAINT,
    ON_DARK_CELLS,
    ON_LIGHT_CELLS,
    Axes,
    add_header,
    add_panels,
    figure_of,
    grid_of,
    names_within,
    panelled_size,
    panels_of,
    rows_size,
    set_rows,
    width_of,
    write_numbers,
)
from fairspan.errors import Incompatible, InvalidInput, InvalidParameter
from fairspan.formatting.text import count, counted, loading, spoken
from fairspan.model.subspace import FairSubspace
from fairspan.moments.of_rows import moments_of
from fairspan.registry import check_count
from fairspan.rows.groups import Label, LabelCoder, printable
from fairspan.rows.protocol import RowBlock, RowSource, tallied
from fairspan.typing import FloatArray, IndexArray

# Inches of a row, and of the widest figure that is made by itself.
_ROW, _WIDEST = 0.3, 12.0
# Points that a figure of two digits takes, beside and below.
_CELL = (34.0, 13.0)
# On cells darker than this, by brightness, figures are white.
_DARK = 0.5
_MOST_NUMBERED = 20
_MOST_BESIDE, _MOST_IMAGES = 6, 24
_INCHES_OF_IMAGE = 1.5


@dataclass(eq=False, repr=False)
class LoadingsDisplay(Picture):
    """Plot the loadings of the features on each component, or the components as images.

    Make it with :meth:`from_estimator`.

    Attributes
    ----------
    loadings : (r, p) array
    features : tuple of p str
    n_features : int
        How many are shown, from that which takes part most: by the sum of its squared loadings, the
        share of the feature's direction that the subspace holds.
    image_shape : tuple of 2 int or None
        Rows and columns of an image whose pixels the features are; then components are images.
    plain : (d, p) array or None
        The components of ordinary PCA, shown as images beside these.
    name : str
        The criterion's.
    """

    loadings: FloatArray
    features: tuple[str, ...]
    n_features: int = 20
    image_shape: tuple[int, int] | None = None
    plain: FloatArray | None = None
    name: str = "fair"

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        n_features: int = 20,
        image_shape: tuple[int, int] | None = None,
        beside_pca: bool = False,
        ax: Any = None,
    ) -> Self:
        """Draw the loadings of a fitted estimator.

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
        ax : matplotlib Axes, optional
            Where to draw; without it, a new figure is made with pyplot.

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
        return cls._drawn(ax, estimator, n_features, image_shape, beside_pca=beside_pca)

    @classmethod
    def undrawn(
        cls,
        estimator: Any,
        n_features: int = 20,
        image_shape: tuple[int, int] | None = None,
        *,
        beside_pca: bool = False,
    ) -> Self:
        """What `from_estimator` draws, of the same parameters."""
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

    @property
    def shown(self) -> IndexArray:
        """Positions of the features that are shown, in the order in which they are."""
        return (
            np.argsort(-(self.loadings**2).sum(axis=0), kind="stable")[: self.n_features]
            if self.image_shape is None
            else np.arange(len(self.features))
        )

    def size(self) -> tuple[float, float]:
        """Width and height of a new figure, in inches."""
        if self.image_shape is None:
            width, height = rows_size([self.features[j] for j in self.shown], _ROW)
            return max(width, min(2.6 + 0.55 * len(self.loadings), _WIDEST)), height
        n_rows, n_columns = self._grid()
        tall = _INCHES_OF_IMAGE * self.image_shape[0] / self.image_shape[1]
        return max(6.4, 0.6 + _INCHES_OF_IMAGE * n_columns), 1.0 + (tall + 0.3) * n_rows

    def columns(self) -> Mapping[str, Sequence[Any]]:
        """One row for each feature shown, one column for each component."""
        shown = self.shown
        return {
            "feature": [self.features[j] for j in shown],
            **{f"component {i + 1}": row[shown].tolist() for i, row in enumerate(self.loadings)},
        }

    def _draw(self, axes: Axes) -> Sequence[Axes]:
        most = float(np.abs(self.loadings).max()) or 1.0
        return self._draw_map(axes, most) if self.image_shape is None else self._draw_images(axes)

    def _draw_map(self, axes: Axes, most: float) -> Sequence[Axes]:
        values = self.loadings[:, self.shown].T
        image = axes.imshow(values, cmap=DIVERGING, vmin=-most, vmax=most, aspect="auto")
        set_rows(axes, [self.features[j] for j in self.shown])
        axes.spines[:].set_visible(False)
        axes.grid(visible=False)
        steps = range(0, len(self.loadings), ceil(len(self.loadings) / _MOST_NUMBERED))
        axes.set_xticks(steps, [str(i + 1) for i in steps])
        axes.set_xlabel("component")
        write_cells(axes, image, values, loading, "loading")
        n_left = len(self.features) - len(values)
        are = "is" if n_left == 1 else "are"
        note = (
            f"{counted(n_left, 'feature')} with smaller loadings {are} left out." if n_left else ""
        )
        add_header(axes, "Loadings of the components", note=note)
        return (axes,)

    def _draw_images(self, axes: Axes) -> Sequence[Axes]:
        assert self.image_shape is not None
        n_rows, n_columns = self._grid()
        drawn = add_panels(axes, n_rows * n_columns, (n_rows, n_columns))
        # Each image of each block with what stands above it.
        names = ["PCA", spoken(self.name)] if self.plain is not None else ["component"]
        short = names_within(names, width_of(axes) / n_columns - 30)
        titled = [
            [(f"{name} {i + 1}", row) for i, row in enumerate(block[:_MOST_IMAGES])]
            for name, block in zip(short, self._blocks(), strict=True)
        ]
        for panel in drawn:
            panel.set_axis_off()
        for row, block in enumerate(titled):
            for place, (title, loadings) in enumerate(block):
                panel = drawn[row * (n_rows // len(titled)) * n_columns + place]
                most = float(np.abs(loadings).max()) or 1.0
                panel.imshow(
                    loadings.reshape(self.image_shape), cmap=DIVERGING, vmin=-most, vmax=most
                )
                panel.set_title(title, fontsize=10, pad=3, loc="center")
        n_left = max(map(len, self._blocks())) - _MOST_IMAGES
        are = "is" if n_left == 1 else "are"
        left_out = f" {n_left} more {are} left out." if n_left > 0 else ""
        add_header(
            axes,
            "The components as images",
            note=f"Each has its own scale; white is zero.{left_out}",
        )
        return drawn[: sum(map(len, titled))] if len(titled) == 1 else drawn

    def _blocks(self) -> list[FloatArray]:
        return [self.loadings] if self.plain is None else [self.plain, self.loadings]

    def _grid(self) -> tuple[int, int]:
        """Rows, of all blocks, and columns of images."""
        n = min(max(map(len, self._blocks())), _MOST_IMAGES)
        n_columns = min(n, _MOST_BESIDE)
        return ceil(n / n_columns) * len(self._blocks()), n_columns


def write_cells(
    axes: Axes, image: Any, values: FloatArray, spelled: Callable[[float], str], label: str
) -> None:
    """Write the numbers into the cells of a map; where they are too small, a bar of colours."""
    cell = np.array(axes.bbox.size) * 72 / figure_of(axes).dpi / values.shape[::-1]
    if (cell < np.array(_CELL)).any():
        figure_of(axes).colorbar(image, ax=axes, label=label)
        return
    for (row, column), value in np.ndenumerate(values):
        red, green, blue, _ = image.to_rgba(np.asarray(value))
        is_dark = 0.299 * red + 0.587 * green + 0.114 * blue < _DARK
        axes.text(
            column,
            row,
            spelled(float(value)),
            color=ON_DARK_CELLS if is_dark else ON_LIGHT_CELLS,
            ha="center",
            va="center",
            fontsize=9,
        )


# Room around the rows, as a share of their extent.
_MARGIN = 0.12
# The ellipses of others are shown among so many groups; inches that each row is taller.
_FEW, _TALLER = 4, 0.6
# Room where all rows are the same, as a share of where they lie.
_LEAST = 1e-6
# Standard deviations that an ellipse and its axes reach.
_REACH = 2.0
# Points are fainter the more there are, so that dense places are told from dark ones.
_MOST_OPAQUE, _OPACITY = 0.6, 7.0
# Points are far where they lie this many times the range of all but this share of them beyond it.
_TAIL, _FAR = 0.05, 2.0
_TITLE = "The rows in two dimensions, with each group's own axes"


class InPlane(NamedTuple):
    """Rows of each group in the plane: sums over all, and the points of some.

    Attributes
    ----------
    n_rows : int
    sums : (k, 3, 3) array
        Of the weighted products of (1, x, y) with themselves: weights, coordinates, products.
    keys : (n,) array
        Random, one for each point that was kept: those of the smallest are drawn first.
    codes : (n,) array of int
    points : (n, 2) array
    """

    n_rows: int
    sums: FloatArray
    keys: FloatArray
    codes: IndexArray
    points: FloatArray

    def of_groups(self) -> tuple[IndexArray, FloatArray, FloatArray]:
        """Groups that have rows; their means, and covariances about these by weight."""
        present = np.flatnonzero(self.sums[:, 0, 0])
        means = self.sums[present] / self.sums[present, :1, :1]
        centre = means[:, 0, 1:]
        return present, centre, means[:, 1:, 1:] - np.einsum("gi,gj->gij", centre, centre)

    def thinned(self, most: int) -> Self:
        """With so many points, which stay in the order of the rows.

        Every group has the same number as far as it has them; what small ones leave goes to others.
        Whatever is among these of all rows is among these of a part of them.
        """
        order = np.lexsort((self.keys, self.codes))
        grouped, ranks = self.codes[order], np.empty(len(order), dtype=np.intp)
        ranks[order] = np.arange(len(order)) - np.searchsorted(grouped, grouped)
        # The first of every group, then the second of every group, and so on.
        kept = np.sort(np.lexsort((self.codes, ranks))[:most])
        return self._replace(keys=self.keys[kept], codes=self.codes[kept], points=self.points[kept])


@dataclass(frozen=True, eq=False)
class PlaneRows:
    """The pass that makes an `InPlane`.

    Attributes
    ----------
    subspace : FairSubspace
        Of two components or more.
    labels : tuple of k labels
    most : int
        Points that are kept.
    seed : int
    """

    subspace: FairSubspace
    labels: tuple[Label, ...]
    most: int
    seed: int

    def over(self, rows: RowSource) -> InPlane | None:
        """The result over some rows."""
        random, coder = np.random.default_rng(self.seed), LabelCoder(self.labels)
        parts = (self._of_block(block, coder, random) for block in rows.blocks())
        return reduce(self.merged, parts, None)

    def merged(self, left: InPlane | None, right: InPlane) -> InPlane:
        """The result over both parts."""
        if left is None:
            return right
        rows: Any = map(np.concatenate, zip(left[2:], right[2:], strict=True))
        both = InPlane(left.n_rows + right.n_rows, left.sums + right.sums, *rows)
        return both.thinned(self.most)

    def _of_block(self, block: RowBlock, coder: LabelCoder, random: np.random.Generator) -> InPlane:
        if block.labels is None:
            raise InvalidInput(
                "The rows have no groups",
                "Allowed: rows with the group of each",
                "Open them with the name of the group column",
            )
        keys, of = random.random(len(block.values)), self.subspace
        weights = np.ones(len(keys)) if block.weights is None else block.weights
        present = np.flatnonzero(weights)
        codes = coder.encode(block.labels, block.first_row)[present]
        rows = block.values[present] - (0 if of.mean is None else of.mean)
        points = rows / (1 if of.scale is None else of.scale) @ of.components[:2].T
        with_one = np.column_stack([np.ones(len(points)), points])
        sums = np.zeros((len(self.labels), 3, 3))
        np.add.at(sums, codes, np.einsum("n,ni,nj->nij", weights[present], with_one, with_one))
        return InPlane(len(present), sums, keys[present], codes, points).thinned(self.most)


@dataclass(eq=False, repr=False)
class ReducedRowsDisplay(Picture):
    """Plot rows by their first two components, with each group's own principal axes.

    Make it with :meth:`from_estimator`.

    Attributes
    ----------
    points : (n, 2) array
    codes : (n,) array of int
        Position of each row's group.
    groups : tuple of k str
    means : (k, 2) array
        Of all rows of each group, also those that are not shown.
    covariances : (k, 2, 2) array
        Of all rows of each group about their own mean.
    n_rows : int
        Rows that the points were drawn from.
    """

    points: FloatArray
    codes: IndexArray
    groups: tuple[str, ...]
    means: FloatArray
    covariances: FloatArray
    n_rows: int

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        sensitive_features: Any,
        *,
        max_rows: int = 1500,
        random_state: int = 0,
        ax: Any = None,
    ) -> Self:
        """Reduce rows, and draw some of each group.

        Parameters
        ----------
        estimator : FairPCA
            Fitted, with two components or more.
        X : (n, p) table of finite numbers, as `FairPCA.fit` takes it
        sensitive_features : (n,) or (n, a) array-like or data frame, or column name(s) of X
        max_rows : int
            Largest number of rows that are drawn, the same number of each group if it has as many.
            Means and principal axes are those of all rows.
        random_state : int
            Which rows are drawn.
        ax : matplotlib Axes, optional
            Where to draw; without it, a new figure is made with pyplot.

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
        settings = {"max_rows": max_rows, "random_state": random_state}
        return cls._drawn(ax, estimator, X, sensitive_features, **settings)

    @classmethod
    def undrawn(
        cls,
        estimator: Any,
        X: Any,
        sensitive_features: Any,
        *,
        max_rows: int = 1500,
        random_state: int = 0,
    ) -> Self:
        """What `from_estimator` draws, of the same parameters."""
        moments = moments_of_fit(estimator, cls.__name__)
        check_count("max_rows", max_rows)
        check_count("random_state", random_state, least=0)
        subspace = estimator.subspace_
        if subspace.n_components < 2:
            raise Incompatible(
                f"{cls.__name__} received an estimator of one component",
                "Allowed: two components or more, whose first two make the plane",
                "Fit with n_components=2",
            )
        rows = rows_for(estimator, X, sensitive_features, cls.__name__)
        nothing = InvalidInput("X has no rows", "Allowed: at least one", "Pass some rows")
        if rows is None:
            raise nothing
        # Fitted without groups, it knows nothing of these.
        labels = moments_of(rows).labels if moments.n_groups == 1 else moments.labels
        seen = tallied(rows, PlaneRows(subspace, tuple(labels), int(max_rows), int(random_state)))
        if seen is None or not seen.n_rows:
            raise nothing
        present, means, covariances = seen.of_groups()
        return cls(
            points=seen.points,
            codes=np.searchsorted(present, seen.codes),
            groups=tuple(group_name(labels[g]) for g in present),
            means=means,
            covariances=covariances,
            n_rows=int(seen.n_rows),
        )

    def size(self) -> tuple[float, float]:
        """Width and height of a new figure, in inches."""
        width, height = panelled_size(len(self.groups))
        return width, height + _TALLER * grid_of(len(self.groups))[0]

    def columns(self) -> Mapping[str, Sequence[Any]]:
        """One row for each point."""
        return {
            "group": [self.groups[g] for g in self.codes],
            "component 1": self.points[:, 0].tolist(),
            "component 2": self.points[:, 1].tolist(),
        }

    def principal_axes(self, g: int) -> FloatArray:
        """The axes of a group's ellipse as rows, two standard deviations long, longest first."""
        variances, directions = np.linalg.eigh(self.covariances[g])
        return np.asarray((directions * (_REACH * np.sqrt(np.maximum(variances, 0.0)))).T[::-1])

    def _draw(self, axes: Axes) -> Sequence[Axes]:
        k, room = len(self.groups), width_of(axes)
        drawn = panels_of(axes, self.groups, "component 1", "component 2")
        for g, panel in enumerate(drawn):
            # The other groups behind, so that it is seen where among them this one lies.
            _scatter(panel, self.points[self.codes != g], FAINT)
            _scatter(panel, self.points[self.codes == g], BLUE)
            for other in range(k if k <= _FEW else 0):
                self._draw_ellipse(panel, other, FAINT)
            self._draw_ellipse(panel, g, BLUE, with_axes=True)
            # At one scale, axes at right angles are seen at right angles.
            panel.set_aspect("equal", adjustable="box")
        n_outside = self._leave_out_far_points(drawn[0])  # all are of one scale
        write_numbers(drawn[0], room=room / grid_of(k)[1] - 25)
        lie = f"{count(n_outside, 'row')} {'lies' if n_outside == 1 else 'lie'}"
        notes = (
            f"{len(self.points):,} of {self.n_rows:,} rows are shown."
            if len(self.points) < self.n_rows
            else "",
            "Ellipses: two standard deviations of the group's rows, along its own axes.",
            f"{lie} outside the picture." if n_outside else "",
        )
        add_header(axes, _TITLE, note=" ".join(filter(None, notes)))
        return drawn

    def _leave_out_far_points(self, axes: Axes) -> int:
        """Limit axes to where all points lie but single ones far from them; how many these are."""
        low, high = np.quantile(self.points, [_TAIL, 1 - _TAIL], axis=0)
        reach = _FAR * np.maximum(high - low, (high - low).max())
        low, high = low - reach, high + reach
        inside = ((self.points >= low) & (self.points <= high)).all(axis=1)
        ends = [
            mean + sign * self.principal_axes(g)
            for g, mean in enumerate(self.means)
            for sign in (-1, 1)
        ]
        shown = np.vstack([self.points[inside], np.clip(np.vstack(ends), low, high)])
        start, end = shown.min(axis=0), shown.max(axis=0)
        margin = _MARGIN * (end - start) / 2 + _LEAST * max(np.abs(shown).max(), _LEAST)
        axes.set_xlim(start[0] - margin[0], end[0] + margin[0])
        axes.set_ylim(start[1] - margin[1], end[1] + margin[1])
        return int((~inside).sum())

    def _draw_ellipse(self, axes: Axes, g: int, colour: str, *, with_axes: bool = False) -> None:
        (long, short), turn = self.principal_axes(g), np.linspace(0, 2 * np.pi, 200)[:, None]
        lines = [np.cos(turn) * long + np.sin(turn) * short]
        lines += [np.array([-each, each]) for each in (long, short) if with_axes]
        for line in lines:
            axes.plot(*(self.means[g] + line).T, color="white", linewidth=3.4, alpha=0.8)
            axes.plot(*(self.means[g] + line).T, color=colour, linewidth=1.7)


def _scatter(axes: Axes, points: FloatArray, colour: str) -> None:
    """Points as one image inside a drawing, which would get large otherwise."""
    opacity = min(_MOST_OPAQUE, _OPACITY / np.sqrt(max(len(points), 1)))
    style: dict[str, Any] = {"alpha": opacity, "markersize": 4, "markeredgewidth": 0}
    axes.plot(*points.T, "o", color=colour, rasterized=True, **style)
