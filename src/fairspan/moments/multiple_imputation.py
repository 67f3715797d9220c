"""Multiple imputation: tables with missing cells drawn from their conditional distribution.

Missing cells are drawn from the normal model of their group, conditional on the observed cells of
the row. The models are drawn from their posterior (Schafer 1997, chapter 5): data augmentation
alternates between drawing cells given models and models given completed rows, and every few steps a
table is kept.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from hashlib import blake2b

import numpy as np

from fairspan.linalg import symmetric_root
from fairspan.linalg.wishart import draw_wishart_factors
from fairspan.moments.group_moments import GroupMoments, compute_group_moments
from fairspan.moments.normal_model import NormalModel, blocks_to_complete
from fairspan.rows.aggregation import Rows
from fairspan.rows.attributes import RowsWithAttributes, column_positions
from fairspan.rows.blocks import RowBlock
from fairspan.rows.group_limit import GroupLimit
from fairspan.rows.labels import Label, to_python_label
from fairspan.rows.mapped import MappedRows
from fairspan.typing import FloatArray

N_IMPUTATIONS = 10
"""Number of imputations, m."""

# Data-augmentation steps between tables; successive tables are correlated by the fraction of
# missing information to this power.
_STEPS_PER_IMPUTATION = 4
# Leading bits of a cell that determine the seed of the draws: fewer than the 53 of a float64, so
# that rows computed on another processor, with other last digits, get the same draws.
_SEED_BITS = 24


def draw_imputations(
    rows: Rows,
    moments: GroupMoments,
    limit: GroupLimit,
    seed: int,
) -> Iterator[Rows]:
    """Generate `N_IMPUTATIONS` imputed copies of the rows; each can be read repeatedly.

    Each step draws normal models of the groups given the completed rows of the step before (the
    first takes the EM estimates), and then the missing cells given these models. Only every few
    steps is a table kept, so that the tables are nearly independent.

    Parameters
    ----------
    rows : RowSource or PartitionedRows
        Rows with missing cells.
    moments : GroupMoments
        EM moments of these rows.
    limit : GroupLimit
        Maximum number of groups, and memory.
    seed : int
        The same seed gives the same tables.
    """
    if isinstance(rows, RowsWithAttributes):  # attributes are imputed along with features
        all_columns = _moments_in_row_order(moments, rows)
        for table in draw_imputations(rows.source, all_columns, limit, seed):
            yield RowsWithAttributes.wrap(table, rows.attributes)
        return
    em_moments = moments.finest  # by group and class if the rows have classes
    models = dict(zip(em_moments.labels, _normal_models(em_moments), strict=True))
    table = rows
    for step in range(N_IMPUTATIONS * _STEPS_PER_IMPUTATION):
        if step > 0:
            completed = compute_group_moments(table, limit).finest
            generator = np.random.default_rng([seed, step - 1, 1])
            # Groups whose correlations were pooled with those of others have the EM estimates as
            # their prior.
            models = _draw_models(completed, em_moments, generator)
        # Map the original rows, in which cells are still missing; `(seed, step)` seeds the draws.
        table = MappedRows(rows, _MissingCellSampler(models, (seed, step)))
        if (step + 1) % _STEPS_PER_IMPUTATION == 0:
            yield table


def _moments_in_row_order(moments: GroupMoments, rows: RowsWithAttributes) -> GroupMoments:
    """Return the moments of all columns, in the column order of the rows."""
    assert moments.all_columns is not None
    source = rows.source
    attributes = column_positions(rows.attributes, source.feature_names, source.n_features)
    order = [*rows.feature_positions.tolist(), *attributes]
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
    """Draw models from their posterior given completed rows.

    Covariances are inverse Wishart and means are normal. If a group's correlations were pooled with
    those of all groups, with a weight w, the EM model counts as n w / (1 - w) prior rows beside the
    n rows of the group. Groups without missing cells keep their model, as nothing is drawn from it.
    """
    assert em_moments.em_summary is not None
    pool_weights = em_moments.em_summary.pool_weights.tolist()
    n_missing_cells = em_moments.em_summary.n_missing_cells.tolist()
    models = {}
    groups = zip(
        completed.labels, _normal_models(completed), _normal_models(em_moments), strict=True
    )
    for i, (label, model, em_model) in enumerate(groups):
        models[label] = model
        if not n_missing_cells[i]:
            continue
        n = int(completed.counts[i])
        share = pool_weights[i]
        df = n - 1 + n * share / (1 - share)
        covariance = (1 - share) * model.covariance + share * em_model.covariance
        root = _draw_inverse_wishart_root(df * covariance, df, generator)
        noise = root @ generator.standard_normal(len(root)) / np.sqrt(n)
        models[label] = NormalModel(model.mean + noise, root @ root.T)
    return models


def _draw_inverse_wishart_root(
    scatter: FloatArray, df: float, generator: np.random.Generator
) -> FloatArray:
    """Draw R, (p, p), with RR' from the inverse Wishart distribution.

    `scatter` is the scale matrix of the distribution, (p, p), and `df` its degrees of freedom. With
    a Wishart draw TT' for the identity, RR' is scatter^(1/2) (TT')^-1 scatter^(1/2). The symmetric
    root does not depend on the signs of eigenvectors, which differ between processors.
    """
    p = len(scatter)
    # The root is taken in units of each feature's deviation, so that small features stay accurate.
    scales = np.sqrt(np.diag(scatter))
    scales = np.where(scales > 0, scales, 1.0)
    triangle = draw_wishart_factors(generator, 1, df, p)[0]
    root = symmetric_root(scatter / np.outer(scales, scales)) @ np.linalg.inv(triangle).T
    return np.asarray(scales[:, None] * root)


def _seed_from_values(values: FloatArray) -> int:
    """Return a seed for the draws of an (r, p) block, equal for cells equal up to rounding."""
    missing = np.isnan(values)
    mantissas, exponents = np.frexp(np.where(missing, 0.0, values))
    integers = np.rint(np.ldexp(mantissas, _SEED_BITS))
    rounded = np.ldexp(integers, exponents - _SEED_BITS) + 0.0  # turns -0.0 into 0.0
    digest = blake2b(np.packbits(missing).tobytes(), digest_size=16)
    digest.update(rounded.tobytes())
    return int.from_bytes(digest.digest(), "big")


@dataclass(frozen=True)
class _MissingCellSampler:
    """Block transform that draws missing cells, seeded by the block's contents.

    The same block always gets the same draws.
    """

    models: Mapping[Label, NormalModel]
    seed_key: tuple[int, int]

    def __call__(self, block: RowBlock) -> RowBlock:
        """Return the block with missing cells drawn given the observed cells of their rows.

        Cells of groups without a model become zero; their rows have weight zero. The draws are
        seeded by the contents of the block, so that a block gets the same draws every time it is
        read, whichever blocks are read before.
        """
        missing = np.isnan(block.values)
        if not missing.any():
            return block
        groups = block.finest_groups  # pairs of group and class if the rows have classes
        assert groups is not None
        generator = np.random.default_rng([*self.seed_key, _seed_from_values(block.values)])
        values = np.array(block.values)
        is_incomplete = missing.any(axis=1)
        for code, label in enumerate(groups.categories):
            indices = np.flatnonzero(is_incomplete & (groups.codes == code))
            # A group without rows of positive weight has no model.
            model = self.models.get(to_python_label(label))
            if len(indices) and model is not None:
                for part in blocks_to_complete(values[indices]):
                    rows = values[indices[part]]
                    completed = model.complete(rows).sample(generator)
                    values[indices[part]] = completed.fill(rows)
        return replace(block, values=np.nan_to_num(values))
