"""Reduced rows of every group in the plane, from an estimator and rows.

One pass over the rows keeps what the picture needs. Only two numbers of each row are used, so no
matrix of p x p numbers is made, and rows on other machines stay there.

"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from io import BytesIO
from typing import Any, NamedTuple, Self

import numpy as np

from fairspan.auditing.results import group_name
from fairspan.displays.base import Picture
from fairspan.displays.fitted import moments_of_fit, rows_for
from fairspan.displays.style import (
    BLUE,
    FAINT,
    Axes,
    add_header,
    grid_of,
    panelled_size,
    panels_of,
    width_of,
    write_numbers,
)
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

    def to_bytes(self, result: InPlane) -> bytes:
        """A result as bytes."""
        np.savez(file := BytesIO(), *result)
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
