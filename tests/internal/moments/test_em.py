"""Steps of the EM algorithm: rows completed by a normal model, and how passes are extrapolated."""

import pickle

import numpy as np
import pytest

from fairspan import GroupMoments
from fairspan.moments import em, fixed_point, normal_model, observed_cells
from fairspan.moments.normal_model import NormalModel
from fairspan.rows.group_limit import GroupLimit
from fairspan.rows.opening import open_rows
from incomplete_tables import incomplete_rows


def test_rows_of_a_pattern_alone_and_together_are_completed_alike():
    rows = incomplete_rows(5, 40, 70, 0.3)
    root = np.random.default_rng(6).standard_normal((70, 80))
    model = NormalModel(np.nanmean(rows, axis=0), root @ root.T)
    repeated_rows = np.vstack([np.repeat(rows, 5, axis=0), rows])
    completed = model.complete(repeated_rows)
    for row, filled_row, trace in zip(
        repeated_rows,
        completed.fill(repeated_rows),
        completed.covariance_traces(np.eye(70)),
        strict=True,
    ):
        is_observed = ~np.isnan(row)
        cross = model.covariance[np.ix_(~is_observed, is_observed)]
        inverse = np.linalg.inv(model.covariance[np.ix_(is_observed, is_observed)])
        off = cross @ inverse @ (row - model.mean)[is_observed]
        np.testing.assert_allclose(
            filled_row[~is_observed], model.mean[~is_observed] + off, rtol=1e-4, atol=1e-4
        )
        np.testing.assert_allclose(filled_row[is_observed], row[is_observed], rtol=1e-12)
        conditional_variances = np.diag(
            model.covariance[np.ix_(~is_observed, ~is_observed)] - cross @ inverse @ cross.T
        )
        units = model.standard_deviations[~is_observed] ** 2
        np.testing.assert_allclose(trace, (conditional_variances / units).sum(), rtol=1e-4)


def test_a_pass_can_be_sent_to_another_process():
    rows = incomplete_rows(16, 50, 3, 0.2)
    source = open_rows(rows, ["a", "b"] * 25, on_missing="em")
    models = {label: NormalModel(np.zeros(3), np.eye(3)) for label in ("a", "b")}
    step = em._EStepAggregator(models)
    of_step = step.aggregate(source)
    of_copy = pickle.loads(pickle.dumps(step)).aggregate(source)
    for label in models:
        np.testing.assert_array_equal(of_step[label].second, of_copy[label].second)


def test_rows_without_a_group_are_counted_over_all_parts():
    first_pass = observed_cells.ObservedAggregator(GroupLimit(), has_classes=False)
    parts = []
    for n_lacking in (3, 2):
        groups = [None] * n_lacking + ["a", "b"] * 10
        rows = incomplete_rows(16, len(groups), 3, 0.2)
        parts.append(first_pass.aggregate(open_rows(rows, groups, on_missing="em")))
    total = first_pass.merge(*parts)
    assert total.n_dropped == 5
    assert sum(group.count for group in total.groups.values()) == 40


def test_the_distance_is_how_far_further_passes_move():
    rows = incomplete_rows(20, 80, 4, 0.5)
    groups = ["a", "b"] * 40
    moments = GroupMoments.from_rows(rows, groups, on_missing="em")
    assert moments.em_summary.distance < 1e-11
    models = np.concatenate([moments.means[:, None], moments.second_moments("group")], axis=1)
    source = open_rows(rows, groups, on_missing="em")
    step = em._EMStep(source, tuple(moments.labels), moments.em_summary.pool_weights, 0.0)
    relative_change = np.abs(step(models) - models) / em._standard_units(models)
    assert relative_change.max() <= 1e-12


def test_patterns_of_their_own_take_a_bounded_memory(monkeypatch):
    rows = incomplete_rows(22, 300, 70, 0.5)
    model = NormalModel(np.zeros(70), np.cov(incomplete_rows(22, 300, 70, 0.0).T))
    matrix = np.diag(np.arange(70.0))
    expected_values, traces = model.impute(rows, matrix)
    monkeypatch.setattr(normal_model, "_MAX_COVARIANCE_ENTRIES", 20_000)
    assert len(list(normal_model.blocks_to_complete(rows))) > 10
    parts, traces_in_parts = model.impute(rows, matrix)
    np.testing.assert_allclose(parts, expected_values, rtol=1e-9)
    np.testing.assert_allclose(traces_in_parts, traces, rtol=1e-9)
    # The conditional mean and covariance of one row, by their formula.
    row = rows[5]
    missing = np.isnan(rows[5])
    inside = model.covariance[np.ix_(~missing, ~missing)]
    across = model.covariance[np.ix_(missing, ~missing)]
    expected = across @ np.linalg.solve(inside, row[~missing])
    np.testing.assert_allclose(expected_values[5, missing], expected, rtol=1e-5, atol=1e-6)


def test_small_tables_are_read_and_searched_for_patterns_once(monkeypatch):
    rows = incomplete_rows(23, 90, 5, 0.15)
    groups = ["a", "b", "a"] * 30
    reads = []
    searches = []
    reader = observed_cells.ChunkReader
    patterns = normal_model._missing_patterns
    chunks = reader.chunks
    monkeypatch.setattr(reader, "chunks", lambda self: reads.append(1) or chunks(self))
    monkeypatch.setattr(
        normal_model, "_missing_patterns", lambda *a: searches.append(1) or patterns(*a)
    )
    small = GroupMoments.from_rows(rows, groups, on_missing="em")
    n_passes = small.em_summary.n_passes
    assert n_passes > 10
    assert len(reads) == len(searches) == 2  # the observed cells and the patterns; one per group
    # Larger tables are read in each pass, so that memory stays bounded.
    for module in (em, observed_cells):
        monkeypatch.setattr(module, "CHUNK_ENTRIES", rows.size - 1)
    reads.clear()
    large = GroupMoments.from_rows(rows, groups, on_missing="em")
    assert len(reads) == 1 + large.em_summary.n_passes
    np.testing.assert_allclose(small.scatters, large.scatters, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(small.means, large.means, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("m", [3, 20])
@pytest.mark.parametrize("c", [1, 2, 9, 16, 17, 40])
def test_triangles_are_inverted_row_by_row_and_by_blocks(m, c):
    triangles = np.tril(np.random.default_rng(c).standard_normal((m, c, c)) / c) + np.eye(c)
    inverses = normal_model._invert_triangles(triangles)
    np.testing.assert_allclose(
        inverses @ triangles, np.broadcast_to(np.eye(c), (m, c, c)), atol=1e-9
    )
    assert (np.triu(inverses, 1) == 0).all()


def test_steps_are_extrapolated_to_the_least_squares_limit():
    """The increment of Anderson's method, and the slowness, by a pseudoinverse."""
    rng = np.random.default_rng(0)
    memory = fixed_point._StepMemory(4)
    points = rng.standard_normal((8, 30))
    residuals = rng.standard_normal((8, 30)) * 0.5 ** np.arange(8)[:, None]
    for point, residual in zip(points, residuals, strict=True):
        increment = memory.extrapolate(point, residual)
    point_differences = np.diff(points[-5:], axis=0)
    step_differences = np.diff(residuals[-5:], axis=0)
    inverse = np.linalg.pinv(step_differences.T)
    correction = (point_differences + step_differences).T @ (inverse @ residuals[-1])
    np.testing.assert_allclose(increment, residuals[-1] - correction, rtol=1e-9)
    slowness = np.linalg.norm(point_differences.T @ inverse, 2)
    np.testing.assert_allclose(memory.slowness, slowness, rtol=1e-9)
