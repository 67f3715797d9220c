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
from fairspan.moments.normal_model import NormalModel, blocks_to_complete
from fairspan.moments.of_rows import compute_dense_moments
from fairspan.rows.attributes import RowsWithAttributes, column_positions
from fairspan.rows.groups import Label, to_python_label
from fairspan.rows.mapped import MappedRows
from fairspan.rows.protocol import GroupLimit, RowBlock, Rows
from fairspan.typing import FloatArray

N_IMPUTATIONS = 10
"""m, the number of tables that are drawn."""

# Steps from a table to the next; what one says of the next is the share of information that is
# missing, to this power.
_STEPS_PER_IMPUTATION = 4
# Leading bits of a cell that decide the seed of the draws: fewer than the 53 of a number, so that
# rows that were computed on another processor, with other last digits, get the same draws.
_BITS_OF_SEED = 24


def draw_imputations(
    rows: Rows,
    moments: GroupMoments,
    limit: GroupLimit,
    seed: int,
    *,
    has_y: bool,
    by_cluster: bool,
) -> Iterator[Rows]:
    """Tables of the same rows, in which missing cells are drawn; each can be read repeatedly.

    Parameters
    ----------
    rows : RowSource or PartitionedRows
        With missing cells.
    moments : GroupMoments
        Of these rows, by the EM algorithm.
    limit : GroupLimit
    seed : int
    has_y, by_cluster : bool
        What the last columns of the labels are, the cluster last.
    """
    label_flags = {"has_y": has_y, "by_cluster": by_cluster}
    if isinstance(rows, RowsWithAttributes):  # which are drawn along
        for table in draw_imputations(
            rows.source, _moments_in_row_order(moments, rows), limit, seed, **label_flags
        ):
            yield RowsWithAttributes.wrap(table, rows.attributes)
        return
    em_moments = moments.finest
    models = dict(zip(em_moments.labels, _normal_models(em_moments), strict=True))
    for step in range(N_IMPUTATIONS * _STEPS_PER_IMPUTATION):
        drawn = _MissingCellSampler(models, by_cluster, (seed, step))
        table = MappedRows.wrap(rows, drawn)
        if step % _STEPS_PER_IMPUTATION == _STEPS_PER_IMPUTATION - 1:
            yield table
        completed = compute_dense_moments(table, limit, **label_flags).finest
        generator = np.random.default_rng([seed, step, 1])
        models = _draw_models(completed, em_moments, generator)


def _moments_in_row_order(moments: GroupMoments, rows: RowsWithAttributes) -> GroupMoments:
    """The moments of features and attributes, in the order of the rows."""
    assert moments.all_columns is not None
    columns = rows.source.feature_names, rows.source.n_features
    order = [*rows.feature_positions.tolist(), *column_positions(rows.attributes, *columns)]
    return moments.all_columns.select_features(np.argsort(order).tolist())


def _normal_models(moments: GroupMoments) -> list[NormalModel]:
    weights = moments.weights[:, None, None]
    return [
        NormalModel(mean, covariance)
        for mean, covariance in zip(moments.means, moments.scatters / weights, strict=True)
    ]


def _draw_models(
    completed: GroupMoments, em_moments: GroupMoments, generator: np.random.Generator
) -> dict[Label, NormalModel]:
    """Models as they could be, given completed rows: inverse Wishart, and normal means.

    Where a group's correlations are partly those of all groups, as many rows are added of the model
    that the EM algorithm found.
    """
    assert em_moments.em_summary is not None
    found = {}
    shares, cells = (
        em_moments.em_summary.pool_weights.tolist(),
        em_moments.em_summary.n_missing_cells.tolist(),
    )
    own = zip(completed.labels, _normal_models(completed), _normal_models(em_moments), strict=True)
    for i, (label, model, first) in enumerate(own):
        found[label] = model
        if not cells[i]:
            continue
        n, share = int(completed.counts[i]), shares[i]
        df = n - 1 + n * share / (1 - share)
        covariance = (1 - share) * model.covariance + share * first.covariance
        root = _drawn_root(df * covariance, df, generator)
        noise = root @ generator.standard_normal(len(root)) / np.sqrt(n)
        found[label] = NormalModel(model.mean + noise, root @ root.T)
    return found


def _drawn_root(scatter: FloatArray, df: float, generator: np.random.Generator) -> FloatArray:
    """Draw R, (p, p), with RR' from the inverse Wishart distribution (Bartlett 1933).

    The same numbers are drawn whatever the signs of eigenvectors are, which differ between
    processors.
    """
    p = len(scatter)
    scales = np.sqrt(np.diag(scatter))
    scales = np.where(scales > 0, scales, 1.0)
    triangle = np.tril(generator.standard_normal((p, p)), -1)
    chi_square_df = np.maximum(df - np.arange(p), 1.0)
    np.fill_diagonal(triangle, np.sqrt(generator.chisquare(chi_square_df)))
    root = symmetric_root(scatter / np.outer(scales, scales)) @ np.linalg.inv(triangle).T
    return np.asarray(scales[:, None] * root)


def _seed_of(values: FloatArray) -> int:
    """Return a seed for the draws of a block, (r, p): the same for equal cells up to rounding."""
    mantissas, exponents = np.frexp(np.where(np.isnan(values), 0.0, values))
    rounded = np.rint(np.ldexp(mantissas, _BITS_OF_SEED))
    digest = blake2b(np.packbits(np.isnan(values)).tobytes(), digest_size=16)
    rounded = np.ldexp(rounded, exponents - _BITS_OF_SEED) + 0.0  # makes -0.0 to 0.0
    digest.update(rounded.tobytes())
    return int.from_bytes(digest.digest(), "big")


@dataclass(frozen=True)
class _MissingCellSampler:
    """Blocks in which missing cells are drawn; the same block always gets the same."""

    models: Mapping[Label, NormalModel]
    by_cluster: bool
    seed_key: tuple[int, int]

    def __call__(self, block: RowBlock) -> RowBlock:
        missing = np.isnan(block.values)
        if not missing.any():
            return block
        assert block.group_labels is not None
        labels = (
            block.group_labels.without_last_attribute() if self.by_cluster else block.group_labels
        )
        generator = np.random.default_rng([*self.seed_key, _seed_of(block.values)])
        values, incomplete = np.array(block.values), missing.any(axis=1)
        for code, label in enumerate(labels.categories):
            own = np.flatnonzero(incomplete & (labels.codes == code))
            # Of a group of which no row counts, there is no model.
            model = self.models.get(to_python_label(label))
            if len(own) and model is not None:
                for place in blocks_to_complete(values[own]):
                    rows = values[own[place]]
                    drawn = model.complete(rows).sample(generator)
                    values[own[place]] = drawn.fill(rows)
        return replace(block, values=np.nan_to_num(values))
