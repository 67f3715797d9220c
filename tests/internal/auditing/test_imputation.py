"""Multiple imputation: what is drawn, how often, and how the figures of the tables are pooled."""

import numpy as np
import pytest

from fairspan.auditing.imputation import pool_statistics
from fairspan.auditing.row_statistics import RowStatistics
from fairspan.linalg import symmetrize
from fairspan.moments import multiple_imputation
from fairspan.moments.group_moments import compute_group_moments
from fairspan.moments.multiple_imputation import (
    N_IMPUTATIONS,
    _draw_inverse_wishart_root,
    _draw_models,
    draw_imputations,
)
from fairspan.rows.group_limit import DEFAULT_GROUP_LIMIT
from fairspan.rows.opening import open_rows
from incomplete_rows import draw_rows, groups_of


def test_pooled_figures_are_those_of_rubins_rules():
    shape = (1, 1, 1)
    m = 5
    values = np.array([1.0, 1.2, 0.9, 1.1, 1.3])
    errors = np.array([0.1, 0.2, 0.1, 0.1, 0.2])
    nothing = np.zeros(shape)
    tables = [
        RowStatistics(np.full(shape, q), np.full(shape, u), np.array([31]), nothing, nothing)
        for q, u in zip(values, errors, strict=True)
    ]
    pooled = pool_statistics(tables)
    between = (1 + 1 / m) * np.var(values, ddof=1)
    total = np.mean(errors**2) + between
    share = between / total
    old = (m - 1) / share**2
    observed = 31 / 33 * 30 * (1 - share)
    assert pooled.means == pytest.approx(values.mean())
    assert pooled.standard_errors == pytest.approx(np.sqrt(total))
    assert pooled.df == pytest.approx(old * observed / (old + observed))


def test_drawn_cells_have_the_distribution_of_what_is_missing():
    rows, incomplete = draw_rows(2, 2000)
    source = open_rows(incomplete, groups_of(incomplete), on_missing="em")
    moments = compute_group_moments(source, DEFAULT_GROUP_LIMIT)
    tables = draw_imputations(source, moments, DEFAULT_GROUP_LIMIT, 0)
    first_draw = np.vstack([block.values for block in next(tables).blocks()])
    is_observed = ~np.isnan(incomplete)
    np.testing.assert_array_equal(first_draw[is_observed], incomplete[is_observed])
    np.testing.assert_allclose(
        np.cov(first_draw[2000:].T), np.cov(rows[2000:].T), atol=0.1 * np.abs(np.cov(rows.T)).max()
    )
    second_draw = np.vstack([block.values for block in next(tables).blocks()])
    assert (second_draw[~is_observed] != first_draw[~is_observed]).all()


def test_draws_of_models_do_not_depend_on_how_ties_are_turned():
    rng = np.random.default_rng(0)
    rotation = np.linalg.qr(rng.standard_normal((6, 6)))[0]
    near_rotation = np.linalg.qr(rotation + 1e-14 * rng.standard_normal((6, 6)))[0]
    roots = [
        _draw_inverse_wishart_root(10 * symmetrize(axes @ axes.T), 40.0, np.random.default_rng(1))
        for axes in (np.eye(6), rotation, near_rotation)
    ]
    for root in roots[1:]:
        np.testing.assert_allclose(root, roots[0], atol=1e-12)


@pytest.mark.slow
def test_no_model_is_drawn_for_a_table_that_is_not_used(monkeypatch):
    _, incomplete = draw_rows(3, 60)
    source = open_rows(incomplete, groups_of(incomplete), on_missing="em")
    moments = compute_group_moments(source)
    n_draws = 0

    def count_draws(*arguments):
        nonlocal n_draws
        n_draws += 1
        return _draw_models(*arguments)

    monkeypatch.setattr(multiple_imputation, "_draw_models", count_draws)
    assert len(list(draw_imputations(source, moments, DEFAULT_GROUP_LIMIT, 0))) == N_IMPUTATIONS
    # Four steps for each table, of which the very first uses the models of EM.
    assert n_draws == 4 * N_IMPUTATIONS - 1
