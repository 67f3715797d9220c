"""Tables in which missing cells are drawn, several times, as multiple imputation needs them.

A cell that is missing is drawn from the normal model of its group, given the observed cells of its
row. The models are drawn too, from what they could be given the rows (Schafer 1997, chapter 5): in
turn cells are drawn given models, and models given the moments of the completed rows. Every so many
of these steps a table is kept.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from hashlib import blake2b

import numpy as np

from fairspan.linalg import symmetric_root
from fairspan.moments.group_moments import GroupMoments
from fairspan.moments.normal import Normal, blocks_to_complete
from fairspan.moments.of_rows import matrices_of
from fairspan.rows.attributes import RowsWithAttributes, positions_of
from fairspan.rows.changed import ChangedRows
from fairspan.rows.groups import Label, plain_label
from fairspan.rows.protocol import GroupLimit, RowBlock, Rows
from fairspan.typing import FloatArray

N_TABLES = 10
"""m, the number of tables that are drawn."""

# Steps from a table to the next; what one says of the next is the share of information that is
# missing, to this power.
_STEPS = 4
# Leading bits of a cell that decide the seed of the draws: fewer than the 53 of a number, so that
# rows that were computed on another processor, with other last digits, get the same draws.
_BITS_OF_SEED = 24


def imputed_rows(
    rows: Rows,
    moments: GroupMoments,
    limit: GroupLimit,
    seed: int,
    *,
    has_labels: bool,
    by_cluster: bool,
) -> Iterator[Rows]:
    """Tables of the same rows, in which missing cells are drawn; each can be read repeatedly.

    Parameters
    ----------
    rows : RowSource or PartedRows
        With missing cells.
    moments : GroupMoments
        Of these rows, by the EM algorithm.
    limit : GroupLimit
    seed : int
    has_labels, by_cluster : bool
        What the last columns of the labels are, the cluster last.
    """
    beside = {"has_labels": has_labels, "by_cluster": by_cluster}
    if isinstance(rows, RowsWithAttributes):  # which are drawn along
        for table in imputed_rows(
            rows.whole, _of_all_columns(moments, rows), limit, seed, **beside
        ):
            yield RowsWithAttributes.of(table, rows.attributes)
        return
    start = moments.pairs
    models = dict(zip(start.labels, _models(start), strict=True))
    for step in range(N_TABLES * _STEPS):
        drawn = _Drawn(models, by_cluster, (seed, step))
        table = ChangedRows.of(rows, drawn)
        if step % _STEPS == _STEPS - 1:
            yield table
        completed = matrices_of(table, limit, **beside).pairs
        generator = np.random.default_rng([seed, step, 1])
        models = _drawn_models(completed, start, generator)


def _of_all_columns(moments: GroupMoments, rows: RowsWithAttributes) -> GroupMoments:
    """The moments of features and attributes, in the order of the rows."""
    assert moments.whole is not None
    columns = rows.whole.feature_names, rows.whole.n_features
    order = [*rows.features.tolist(), *positions_of(rows.attributes, *columns)]
    return moments.whole.selected(np.argsort(order).tolist())


def _models(moments: GroupMoments) -> list[Normal]:
    weights = moments.weights[:, None, None]
    return [
        Normal(mean, covariance)
        for mean, covariance in zip(moments.means, moments.scatters / weights, strict=True)
    ]


def _drawn_models(
    completed: GroupMoments, start: GroupMoments, generator: np.random.Generator
) -> dict[Label, Normal]:
    """Models as they could be, given completed rows: inverse Wishart, and normal means.

    Where a group's correlations are partly those of all groups, as many rows are added of the model
    that the EM algorithm found.
    """
    assert start.completion is not None
    found = {}
    shares, cells = start.completion.pool_weights.tolist(), start.completion.cells.tolist()
    own = zip(completed.labels, _models(completed), _models(start), strict=True)
    for i, (label, model, first) in enumerate(own):
        found[label] = model
        if not cells[i]:
            continue
        n, share = int(completed.counts[i]), shares[i]
        freedom = n - 1 + n * share / (1 - share)
        covariance = (1 - share) * model.covariance + share * first.covariance
        root = _drawn_root(freedom * covariance, freedom, generator)
        noise = root @ generator.standard_normal(len(root)) / np.sqrt(n)
        found[label] = Normal(model.mean + noise, root @ root.T)
    return found


def _drawn_root(scatter: FloatArray, freedom: float, generator: np.random.Generator) -> FloatArray:
    """Draw R, (p, p), with RR' from the inverse Wishart distribution (Bartlett 1933).

    The same numbers are drawn whatever the signs of eigenvectors are, which differ between
    processors.
    """
    p = len(scatter)
    units = np.sqrt(np.diag(scatter))
    units = np.where(units > 0, units, 1.0)
    triangle = np.tril(generator.standard_normal((p, p)), -1)
    left = np.maximum(freedom - np.arange(p), 1.0)
    np.fill_diagonal(triangle, np.sqrt(generator.chisquare(left)))
    root = symmetric_root(scatter / np.outer(units, units)) @ np.linalg.inv(triangle).T
    return np.asarray(units[:, None] * root)


def _seed_of(values: FloatArray) -> int:
    """Return a seed for the draws of a block, (r, p): the same for equal cells up to rounding."""
    mantissas, exponents = np.frexp(np.where(np.isnan(values), 0.0, values))
    rounded = np.rint(np.ldexp(mantissas, _BITS_OF_SEED))
    digest = blake2b(np.packbits(np.isnan(values)).tobytes(), digest_size=16)
    rounded = np.ldexp(rounded, exponents - _BITS_OF_SEED) + 0.0  # makes -0.0 to 0.0
    digest.update(rounded.tobytes())
    return int.from_bytes(digest.digest(), "big")


@dataclass(frozen=True)
class _Drawn:
    """Blocks in which missing cells are drawn; the same block always gets the same."""

    models: Mapping[Label, Normal]
    by_cluster: bool
    key: tuple[int, int]

    def __call__(self, block: RowBlock) -> RowBlock:
        missing = np.isnan(block.values)
        if not missing.any():
            return block
        assert block.labels is not None
        labels = block.labels.without_last_attribute() if self.by_cluster else block.labels
        generator = np.random.default_rng([*self.key, _seed_of(block.values)])
        values, incomplete = np.array(block.values), missing.any(axis=1)
        for code, label in enumerate(labels.distinct):
            own = np.flatnonzero(incomplete & (labels.codes == code))
            # Of a group of which no row counts, there is no model.
            model = self.models.get(plain_label(label))
            if len(own) and model is not None:
                for place in blocks_to_complete(values[own]):
                    rows = values[own[place]]
                    drawn = model.completed(rows).with_noise(generator)
                    values[own[place]] = drawn.filled(rows)
        return replace(block, values=np.nan_to_num(values))
