"""What new rows would show, from rows in folds or from blocks of moments in place of folds."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from fairspan.auditing.cross_fitting import (
    QUANTITIES,
    Benchmark,
    CrossFitted,
    Projection,
    cross_fitted,
    measured_by,
    points_of,
)
from fairspan.auditing.expected_losses import UNSTABLE, Expectations, instabilities
from fairspan.auditing.models import Audited
from fairspan.auditing.row_statistics import RowFigures, row_figures
from fairspan.errors import Incompatible, InvalidInput, InvalidParameter
from fairspan.formatting.text import counted
from fairspan.linalg.resources import bytes_of_moments, in_units
from fairspan.metrics import GroupFigures
from fairspan.model.subspace import FairSubspace
from fairspan.moments.group_moments import GroupMoments
from fairspan.moments.of_rows import (
    FEWEST_FOLDS,
    MATRICES_UP_TO,
    FoldMoments,
    Moments,
    SparseFolds,
    SummedFolds,
    affordable_folds,
    fold_moments,
    moments_of,
    sparse_folds,
)
from fairspan.moments.operators import Projector, Reconstructs, SecondMoments, errors_under
from fairspan.moments.thin import ThinMoments
from fairspan.rows.arrays import ArrayRows, RowsInMemory
from fairspan.rows.groups import Folds, Label
from fairspan.rows.matrices import SparseRows
from fairspan.rows.protocol import GroupLimit, Rows
from fairspan.typing import FloatArray

# Up to so many features, a hundred groups in ten folds are within the budget of memory.
_SURELY_AFFORDABLE = 300
# Further assignments of rows to folds, where the groups' best errors move with them.
_MORE = 4


@dataclass(frozen=True, eq=False)
class FoldedRows:
    """Rows in folds, with the models that they judge.

    Attributes
    ----------
    audited : sequence of Audited
        In the coordinates of the rows.
    rows : RowSource or PartedRows
    assigned : Folds
    moments : FoldMoments
    limit : GroupLimit
    has_labels : bool
        Whether the rows' labels hold classes of y.
    """

    audited: Sequence[Audited]
    rows: Rows
    assigned: Folds
    moments: FoldMoments
    limit: GroupLimit
    has_labels: bool = False

    @classmethod
    def of(
        cls,
        audited: Sequence[Audited],
        rows: Rows,
        assigned: Folds,
        limit: GroupLimit,
        *,
        has_labels: bool = False,
    ) -> "FoldedRows":
        """Read all rows once."""
        if isinstance(rows, SparseRows) and rows.n_features > MATRICES_UP_TO and not has_labels:
            sparse: SparseFolds = sparse_folds(rows, assigned, limit)
            return cls(audited, sparse.rows, assigned, sparse, limit)
        moments = fold_moments(rows, assigned, limit, has_labels=has_labels)
        return cls(audited, rows, assigned, moments, limit, has_labels)

    def of_table(self, rows: Rows) -> "FoldedRows":
        """The same of another table of these rows, of which moments have matrices."""
        return FoldedRows.of(
            self.audited, rows, self.assigned, self.limit, has_labels=self.has_labels
        )

    def again(self) -> "FoldedRows":
        """The same rows in other folds."""
        other = replace(self.assigned, seed=self.assigned.seed + 1)
        return FoldedRows.of(self.audited, self.rows, other, self.limit, has_labels=self.has_labels)


def read_rows(
    audited: Sequence[Audited],
    rows: Rows,
    moments: Moments | None,
    limit: GroupLimit,
    options: Expectations,
) -> tuple[Moments, FoldedRows | None, str | None]:
    """Read all rows, by fold where estimates for new rows are wanted and memory allows.

    Parameters
    ----------
    audited : sequence of Audited
    rows : RowSource or PartedRows
    moments : GroupMoments, SparseMoments or ThinMoments, optional
        Of all rows, if they are known.
    limit : GroupLimit
    options : Expectations

    Returns
    -------
    moments of all rows, the rows in folds or None, and why there are none

    Raises
    ------
    Incompatible
        Clusters without folds.
    """
    has_labels = options.has_labels
    if options.folds is None:
        return moments or moments_of(rows, limit, has_labels=has_labels), None, None
    assigned, p = Folds(options.folds, options.seed, options.by_cluster), rows.n_features
    if not (isinstance(rows, SparseRows) and p > MATRICES_UP_TO) and (
        p > _SURELY_AFFORDABLE or limit.max_memory is not None
    ):
        if moments is None and not options.by_cluster:
            moments = moments_of(rows, limit, has_labels=has_labels)
        if isinstance(moments, ThinMoments):
            reduced = in_coordinates(audited, rows, moments)
            if reduced is None:
                return moments, None, "the models reach beyond the span of these few rows"
            return moments, FoldedRows.of(*reduced, assigned, limit), None
        n_groups = 2 if moments is None else moments.n_groups
        count = affordable_folds(options.folds, n_groups, p, limit.max_memory)
        if count is None:
            needed = f"moments of {counted(n_groups, 'group')} in {FEWEST_FOLDS} folds would take"
            why = f"{needed} {FEWEST_FOLDS * n_groups * p**2 * 8 / 2**30:.0f} GiB"
            if limit.max_memory is not None:
                taken = in_units(bytes_of_moments(FEWEST_FOLDS * n_groups, p))
                why = f"{needed} {taken}, and max_memory is {in_units(limit.max_memory)}"
            if moments is None:
                raise Incompatible(
                    f"clusters was given, but {why}",
                    "Allowed: tables whose moments by fold fit into memory",
                    "Choose fewer features",
                )
            return moments, None, why
        assigned = replace(assigned, n_folds=count)
    folded = FoldedRows.of(audited, rows, assigned, limit, has_labels=has_labels)
    return moments or folded.moments.whole, folded, None


def figures_by_fold(
    folded: FoldedRows, judged: Sequence[GroupFigures], fitted_here: Sequence[bool]
) -> list[tuple[CrossFitted, RowFigures]]:
    """Cross-fitted models with what the rows say of them, for one assignment to folds or several.

    Where the groups' best errors move with the folds there are five. All but the first are used
    for these best errors alone: models are not fitted again for them, and rows are judged by their
    moments.

    Raises
    ------
    InvalidParameter
        Too few folds for models that are to be fitted again.
    """
    n_folds = folded.assigned.n_folds
    if any(fitted_here) and n_folds < FEWEST_FOLDS:
        raise InvalidParameter(
            f"folds is {n_folds}, and models were fitted on these rows",
            f"Allowed: {FEWEST_FOLDS} folds or more, as the models are fitted again without "
            "each: with fewer, they would be fitted on too few rows",
            "Use the default, 10, or audit rows that were held out",
        )
    errors, best_errors = [each.errors for each in judged], [each.best_errors for each in judged]
    cross = cross_fitted(folded.audited, errors, fitted_here, folded.moments, n_folds)
    labels = folded.moments.whole.labels
    seen = row_figures(
        folded.rows,
        folded.moments.whole,
        cross.benchmarks,
        cross.projections,
        folded.assigned,
        has_labels=folded.has_labels,
    )
    results = [(cross, seen)]
    if not (instabilities(cross, seen, best_errors)[cross.known] > UNSTABLE).any():
        return results
    for _ in range(_MORE):
        folded = folded.again()
        if not isinstance(folded.moments, SummedFolds):
            break
        cross = cross_fitted(folded.audited, errors, [False] * len(judged), folded.moments, n_folds)
        results.append((cross, block_figures(cross, labels, folded.moments.parts)))
    return results


def figures_of_errors(
    audited: Sequence[Audited],
    judged: Sequence[GroupFigures],
    rows: Rows,
    moments: Moments,
    *,
    has_labels: bool,
) -> RowFigures:
    """Means and spreads of errors alone, from one pass over the rows."""
    benchmarks, projections = [], []
    for i, (each, figures) in enumerate(zip(audited, judged, strict=True)):
        subspace, model = each.subspace, each.by_rows
        if model is None:
            benchmarks.append(Benchmark(points_of(subspace, moments), subspace.scale))
            projections.append(Projection(i, subspace.projector, figures.errors))
        else:  # it takes rows as they came
            benchmarks.append(Benchmark(np.zeros((1, moments.n_features)), None))
            projections.append(Projection(i, model, np.zeros(moments.n_groups)))
    return row_figures(rows, moments, benchmarks, projections, has_labels=has_labels)


def in_coordinates(
    audited: Sequence[Audited], rows: Rows, thin: ThinMoments
) -> tuple[list[Audited], ArrayRows] | None:
    """Models and rows in orthonormal coordinates that hold both; distances stay what they are.

    The origin stays where it is, so that errors about it can be measured too.

    Parameters
    ----------
    audited : sequence of Audited
    rows : RowsInMemory
        With labels.
    thin : ThinMoments
        Of the same rows.

    Returns
    -------
    list of Audited, ArrayRows; or None
        None where the models are in different units, or have more dimensions than there are rows.
    """
    scales: list[Any] = [each.subspace.scale for each in audited]
    if not all(np.array_equal(scale, scales[0]) for scale in scales) or not isinstance(
        rows, RowsInMemory
    ):
        return None
    scaled = thin if scales[0] is None else thin.divided_by(scales[0])
    unit = 1.0 if scales[0] is None else scales[0]
    points = [each.subspace.reference_point(thin) for each in audited]
    directions = [-scaled.pilot[:, None]]
    for each, point in zip(audited, points, strict=True):
        directions.append(each.subspace.projector.columns)
        if point is not None:
            directions.append((point / unit - scaled.pilot)[:, None])
    if max(each.subspace.dimension for each in audited) > scaled.span.n_known:
        return None
    known = scaled.span.widened(np.hstack(directions))
    start = known.reduce(directions[0])[:, 0]
    reduced = []
    for each, point in zip(audited, points, strict=True):
        projector = each.subspace.projector
        inside = projector.with_columns(known.reduce(projector.columns))
        subspace = replace(
            each.subspace,
            components=inside.encoder,
            oblique_decoder=inside.oblique_decoder,
            mean=None
            if point is None
            else known.reduce((point / unit - scaled.pilot)[:, None])[:, 0] - start,
            scale=None,
            feature_names=None,
        )
        reduced.append(replace(each, subspace=subspace))
    assert rows.labels is not None
    chosen = np.concatenate([part.positions for part in thin.parts])
    order = np.argsort(chosen)
    padded = np.pad(known.rows[order], [(0, 0), (0, known.n_known - known.rows.shape[1])])
    return reduced, ArrayRows(
        padded - start,
        labels=rows.labels[chosen[order]],
        weights=None if rows.weights is None else rows.weights[chosen[order]],
        weight_exponent=rows.weight_exponent,
    )


def block_figures(
    cross: CrossFitted, labels: Sequence[Label], blocks: Sequence[GroupMoments | None]
) -> RowFigures:
    """Means over all blocks, and their standard errors by how blocks differ.

    With D_f the mean over block f of K, which weighs n_f of n, and l the mean over all: the
    variance of l is K / (K - 1) sum (n_f / n)^2 (D_f - l)^2.

    Parameters
    ----------
    cross : CrossFitted
        Found without each block.
    labels : sequence of k labels
    blocks : sequence of GroupMoments, or None for one without rows
    """
    shape = (len(blocks), len(cross.projections), len(QUANTITIES), len(labels))
    values, weights = np.zeros(shape), np.zeros((len(blocks), len(labels)))
    for fold, block in enumerate(blocks):
        if block is None:
            continue
        for i, label in enumerate(block.labels):
            group = list(labels).index(label)
            weights[fold, group] = block.weights[i]
            errors = _errors_of(block.of_groups(np.arange(block.n_groups) == i), group)
            values[fold, :, :, group] = measured_by(
                errors, cross.benchmarks, cross.projections, group, fold, len(blocks)
            )[:, :, 0]
    shares = weights / weights.sum(axis=0)
    means = np.einsum("fg,fmqg->mqg", shares, values)
    sizes = (weights > 0).sum(axis=0)
    spread = np.einsum("fg,fmqg->mqg", shares**2, (values - means) ** 2)
    factor = np.where(sizes > 1, sizes / np.maximum(sizes - 1, 1), 0.0)
    # Blocks vary by the rows that they were fitted without as well: nothing is uncertain beside.
    return RowFigures(
        means, np.sqrt(spread * factor), sizes, np.full(means.shape, np.nan), np.zeros(means.shape)
    )


def _errors_of(
    alone: GroupMoments, group: int
) -> Callable[[Sequence[tuple[Benchmark, Reconstructs]]], FloatArray]:
    """Mean squared residuals (l, 1) of one group of a block, for l benchmarks and projectors.

    Benchmarks of different dimensions share the second moments about their centre.
    """
    second: dict[tuple[bytes, bytes], SecondMoments] = {}

    def about(benchmark: Benchmark) -> SecondMoments:
        frame = benchmark.frame(group)
        if frame not in second:
            point, unit = benchmark.point_of(group), benchmark.scale
            unit = np.ones_like(point) if unit is None else unit
            second[frame] = alone.divided_by(unit).operator_about(point / unit)
        return second[frame]

    def errors(pairs: Sequence[tuple[Benchmark, Reconstructs]]) -> FloatArray:
        # Moments judge projections alone: others have been refused.
        return np.array(
            [errors_under(cast(Projector, model), about(benchmark)) for benchmark, model in pairs]
        )

    return errors


def errors_without_each(
    blocks: Sequence[GroupMoments], pooled: GroupMoments, subspace: FairSubspace
) -> FloatArray:
    """Errors of each group over all blocks but one, for each block left out, (B, k).

    About where the model of all blocks is judged, or about each group's own mean without the block.

    Parameters
    ----------
    blocks : sequence of B >= 2 GroupMoments
    pooled : GroupMoments
        Their sum.
    subspace : FairSubspace

    Raises
    ------
    InvalidInput
        A group is in a single block: without that block it has no rows.
    """
    folds, point = SummedFolds(tuple(blocks)), subspace.reference_point(pooled)
    unit = np.ones(pooled.n_features) if subspace.scale is None else subspace.scale
    errors = np.empty((len(blocks), pooled.n_groups))
    for index in range(len(blocks)):
        left = folds.without(index)
        if gone := [label for label in pooled.labels if label not in left.labels]:
            raise InvalidInput(
                f"The group {gone[0]!r} stands in only one of the {len(blocks)} blocks",
                "Allowed: blocks among which every group stands in at least two",
                "Make larger blocks, or pass the sum of the blocks to audit without intervals",
            )
        about = (left.means if point is None else point) / unit
        second = left.divided_by(unit).operator_about(about)
        errors[index] = errors_under(subspace.projector, second)
    return errors
