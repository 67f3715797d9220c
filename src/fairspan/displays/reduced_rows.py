"""Reduced rows of every group in the plane, from an estimator and rows.

One pass over the rows keeps what the picture needs. Only two numbers of each row are used, so no
matrix of p x p numbers is made, and rows on other machines stay there.

"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Any, NamedTuple, Self

import numpy as np

from fairspan.displays.fitted import moments_of_fit, names_of, rows_for
from fairspan.drawing.layout import (
    FAINT,
    Axes,
    Look,
    fill_evenly,
    head,
    label_bounds,
    labels_within,
    look,
    panelled_size,
    panels,
    plain_numbers,
    width_of,
)
from fairspan.drawing.pictures import Picture
from fairspan.errors import Incompatible, InvalidInput
from fairspan.formatting.text import count
from fairspan.model.subspace import FairSubspace
from fairspan.moments.of_rows import moments_of
from fairspan.registry import check_count
from fairspan.rows.groups import Label, LabelCoder
from fairspan.rows.protocol import RowBlock, RowSource, tallied
from fairspan.typing import FloatArray, IndexArray

# Room around the rows, as a share of their extent.
_MARGIN = 0.12
_MOST_TOGETHER = 4
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
        Random, one for each point that was kept; the smallest are drawn first.
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

    def drawn(self, most: int) -> IndexArray:
        """Positions of the points to draw, in the order of the rows.

        Every group has the same number as far as it has them; what small ones leave goes to others.
        """
        # The first of every group, then the second of every group, and so on.
        return np.sort(np.lexsort((self.codes, _ranks(self.keys, self.codes)))[:most])

    def thinned(self, most: int) -> Self:
        """With at most so many points of each group."""
        kept = np.flatnonzero(_ranks(self.keys, self.codes) < most)
        return self._replace(keys=self.keys[kept], codes=self.codes[kept], points=self.points[kept])


@dataclass(frozen=True, eq=False)
class PlaneRows:
    """The pass that makes an `InPlane`.

    Attributes
    ----------
    components : (2, p) array
    mean, scale : (p,) arrays
    labels : tuple of k labels
    most : int
        Points of a group that are kept.
    seed : int
    """

    components: FloatArray
    mean: FloatArray
    scale: FloatArray
    labels: tuple[Label, ...]
    most: int
    seed: int

    @classmethod
    def of(
        cls, subspace: FairSubspace, labels: Sequence[Label], most: int, seed: int
    ) -> "PlaneRows":
        """The pass for the first two components of a subspace."""
        p = subspace.n_features
        mean = np.zeros(p) if subspace.mean is None else subspace.mean
        scale = np.ones(p) if subspace.scale is None else subspace.scale
        return cls(subspace.components[:2], mean, scale, tuple(labels), most, seed)

    def over(self, rows: RowSource) -> InPlane | None:
        """The result over some rows."""
        random, coder = np.random.default_rng(self.seed), LabelCoder(self.labels)
        total: InPlane | None = None
        for block in rows.blocks():
            part = self._of_block(block, coder, random)
            total = part if total is None else self.merged(total, part)
        return total

    def merged(self, left: InPlane, right: InPlane) -> InPlane:
        """The result over both parts."""
        rows: Any = map(np.concatenate, zip(left[2:], right[2:], strict=True))
        both = InPlane(left.n_rows + right.n_rows, left.sums + right.sums, *rows)
        return both.thinned(self.most)

    def to_bytes(self, result: InPlane) -> bytes:
        """A result as bytes."""
        file = BytesIO()
        np.savez(file, *result)
        return file.getvalue()

    def from_bytes(self, contents: bytes) -> InPlane:
        """The result again."""
        with np.load(BytesIO(contents), allow_pickle=False) as stored:
            return InPlane(*stored.values())

    def _of_block(self, block: RowBlock, coder: LabelCoder, random: np.random.Generator) -> InPlane:
        if block.labels is None:
            raise InvalidInput(
                "The rows have no groups",
                "Allowed: rows with the group of each",
                "Open them with the name of the group column",
            )
        keys = random.random(len(block.values))
        weights = np.ones(len(keys)) if block.weights is None else block.weights
        present = np.flatnonzero(weights)
        codes = coder.encode(block.labels, block.first_row)[present]
        points = ((block.values[present] - self.mean) / self.scale) @ self.components.T
        with_one = np.column_stack([np.ones(len(points)), points])
        sums = np.zeros((len(self.labels), 3, 3))
        products = np.einsum("n,ni,nj->nij", weights[present], with_one, with_one)
        np.add.at(sums, codes, products)
        return InPlane(len(present), sums, keys[present], codes, points).thinned(self.most)


def _ranks(keys: FloatArray, codes: IndexArray) -> IndexArray:
    """Place of each key among those of its group, from zero."""
    order = np.lexsort((keys, codes))
    grouped, ranks = codes[order], np.empty(len(keys), dtype=np.intp)
    ranks[order] = np.arange(len(keys)) - np.searchsorted(grouped, grouped)
    return ranks


@dataclass(eq=False)
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
    ) -> Self:
        """Reduce rows, and keep some of each group to be drawn.

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
                "Allowed: two components or more, whose first two make the plane",
                "Fit with n_components=2",
            )
        rows = rows_for(estimator, X, sensitive_features, cls.__name__)
        # Fitted without groups, it knows nothing of these.
        labels = moments_of(rows).labels if moments.n_groups == 1 else moments.labels
        seen = tallied(rows, PlaneRows.of(subspace, labels, int(max_rows), int(random_state)))
        if seen is None or not seen.n_rows:
            raise InvalidInput("X has no rows", "Allowed: at least one", "Pass some rows")
        (present, means, covariances), drawn = seen.of_groups(), seen.drawn(int(max_rows))
        return cls(
            points=seen.points[drawn],
            codes=np.searchsorted(present, seen.codes[drawn]),
            groups=names_of([labels[g] for g in present]),
            means=means,
            covariances=covariances,
            n_rows=int(seen.n_rows),
        )

    def size(self) -> tuple[float, float]:
        """Width and height of a new figure, in inches."""
        k = len(self.groups)
        return (6.4, 5.4) if k <= _MOST_TOGETHER else panelled_size(k)

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
        together = len(self.groups) <= _MOST_TOGETHER
        drawn = (axes,) if together else panels(axes, self.groups)
        handles = []
        for g in range(len(self.groups)):
            if together:
                handles.append(self._draw_group(axes, g, look(g)))
            else:
                # The other groups behind, so that it is seen where among them this one lies.
                _scatter(drawn[g], self.points[self.codes != g], Look(FAINT, "o", "-"))
                self._draw_group(drawn[g], g, look(0))
        n_outside = self._leave_out_far_points(drawn)
        whole = together and not n_outside
        if not whole:
            fill_evenly(drawn[0])
        for panel in drawn:
            # At one scale, axes at right angles are seen at right angles.
            panel.set_aspect("equal", adjustable="datalim" if whole else "box")
        plain_numbers(drawn[:1])  # all are of one scale
        label_bounds(axes, drawn, "component 1", "component 2")
        labels = labels_within(axes, self.groups, width_of(axes) / 2.5, 10) if together else []
        lie = f"{count(n_outside, 'row')} {'lies' if n_outside == 1 else 'lie'}"
        notes = (
            f"{len(self.points):,} of {self.n_rows:,} rows are shown."
            if len(self.points) < self.n_rows
            else "",
            "Ellipses: two standard deviations of the group's rows, along its own axes.",
            f"{lie} outside the picture." if n_outside else "",
        )
        head(axes, _TITLE, handles, labels, note=" ".join(filter(None, notes)))
        return drawn

    def _leave_out_far_points(self, drawn: Sequence[Axes]) -> int:
        """Limit the axes where single points lie far from all others; how many these are."""
        low, high = np.quantile(self.points, [_TAIL, 1 - _TAIL], axis=0)
        reach = np.maximum(high - low, (high - low).max())
        low, high = low - _FAR * reach, high + _FAR * reach
        inside = ((self.points >= low) & (self.points <= high)).all(axis=1)
        if inside.all():
            return 0
        axes = [self.principal_axes(g) for g in range(len(self.groups))]
        ends = [
            mean + sign * each
            for mean, each in zip(self.means, axes, strict=True)
            for sign in (-1, 1)
        ]
        shown = np.vstack([self.points[inside], np.clip(np.vstack(ends), low, high)])
        start, end = shown.min(axis=0), shown.max(axis=0)
        margin = _MARGIN * (end - start) / 2
        for panel in drawn:
            panel.set_xlim(start[0] - margin[0], end[0] + margin[0])
            panel.set_ylim(start[1] - margin[1], end[1] + margin[1])
        return int((~inside).sum())

    def _draw_group(self, axes: Axes, g: int, own: Look) -> Any:
        from matplotlib.lines import Line2D

        _scatter(axes, self.points[self.codes == g], own)
        long, short = self.principal_axes(g)
        turn = np.linspace(0, 2 * np.pi, 200)[:, None]
        lines = [
            self.means[g] + np.cos(turn) * long + np.sin(turn) * short,
            np.array([self.means[g] - long, self.means[g] + long]),
            np.array([self.means[g] - short, self.means[g] + short]),
        ]
        for i, line in enumerate(lines):
            style = own.line if i == 0 else "-"
            axes.plot(*line.T, color="white", linewidth=3.4, alpha=0.8)
            axes.plot(*line.T, color=own.colour, linestyle=style, linewidth=1.7)
        return Line2D([], [], color=own.colour, marker=own.marker, linestyle=own.line)


def _scatter(axes: Axes, points: FloatArray, own: Look) -> None:
    """Points as one image inside a drawing, which would get large otherwise."""
    axes.plot(
        *points.T,
        own.marker,
        color=own.colour,
        alpha=min(_MOST_OPAQUE, _OPACITY / np.sqrt(max(len(points), 1))),
        markersize=4,
        markeredgewidth=0,
        rasterized=True,
    )
