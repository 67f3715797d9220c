"""Moments of incomplete rows by fold: EM fits without each fold, and what each fold adds."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from fairspan import GroupMoments
from fairspan.moments.em_folds import compute_em_fold_moments
from fairspan.moments.fold_moments import compute_fold_moments
from fairspan.moments.group_moments import compute_group_moments
from fairspan.moments.merging import merge_moments
from fairspan.rows.attributes import RowsWithAttributes
from fairspan.rows.folds import Folds
from fairspan.rows.group_limit import DEFAULT_GROUP_LIMIT
from fairspan.rows.opening import open_rows
from incomplete_rows import draw_rows, groups_of
from numpy_reference import assert_moments

FOLDS = Folds(5, seed=2)


def draw_columns():
    """Rows with four features, complete and with cells missing in all but the first."""
    complete, X = draw_rows(0, 80)
    X[:, 0] = complete[:, 0]
    return complete[:, :4], X[:, :4]


def fit_by_fold(rows):
    fit = compute_group_moments(rows)
    return compute_em_fold_moments(rows, FOLDS, DEFAULT_GROUP_LIMIT, fit)


def plain(moments):
    return replace(moments, em_summary=None, skip_validation=True)


@pytest.mark.parametrize("is_weighted", [False, True])
def test_a_fold_and_the_fit_without_it_give_the_fit_to_all_rows(is_weighted):
    _, X = draw_columns()
    weights = np.random.default_rng(1).uniform(0.5, 2, len(X)) if is_weighted else None
    rows = open_rows(X, groups_of(X), sample_weight=weights, on_missing="em")
    by_fold = fit_by_fold(rows)
    for fold, moments in enumerate(by_fold.by_fold):
        assert_moments(
            merge_moments([by_fold.excluding(fold), moments]), plain(by_fold.total), rtol=1e-9
        )


@pytest.mark.slow
def test_moments_of_a_fold_are_those_of_its_rows_in_a_group_without_missing_cells():
    complete, X = draw_columns()
    by_fold = fit_by_fold(open_rows(X, groups_of(X), on_missing="em"))
    expected = compute_fold_moments(open_rows(complete, groups_of(complete)), FOLDS)
    for moments, expected_moments in zip(by_fold.by_fold, expected.by_fold, strict=True):
        is_complete_group = np.array([True, False])
        assert_moments(
            moments.select_groups(is_complete_group),
            expected_moments.select_groups(is_complete_group),
            rtol=1e-6,
        )


@pytest.mark.slow
def test_rows_of_a_fold_take_no_part_in_the_fit_without_it():
    _, X = draw_columns()
    groups = groups_of(X)
    folds = FOLDS.folds_of_positions(np.arange(len(X)))
    changed_rows = np.where((folds == 1)[:, None], 5 * X, X)
    fits = [
        fit_by_fold(open_rows(values, groups, on_missing="em")).excluding(1)
        for values in (X, changed_rows)
    ]
    np.testing.assert_array_equal(fits[0].scatters, fits[1].scatters)
    expected = GroupMoments.from_rows(X[folds != 1], groups[folds != 1], on_missing="em")
    assert_moments(fits[0], plain(expected), rtol=1e-5)


@pytest.mark.slow
def test_files_give_the_folds_of_their_frame(tmp_path):
    _, X = draw_columns()
    frame = pd.DataFrame(X, columns=list("uvwx")).assign(group=groups_of(X))
    frame.to_parquet(tmp_path / "rows.parquet", index=False, row_group_size=60)
    file_rows = open_rows(tmp_path / "rows.parquet", "group", on_missing="em")
    assert file_rows.n_partitions == 3
    expected = fit_by_fold(open_rows(frame, "group", on_missing="em"))
    from_file = fit_by_fold(file_rows.with_row_offsets())
    for fold in range(FOLDS.n_folds):
        assert_moments(from_file.excluding(fold), expected.excluding(fold), rtol=1e-5)


@pytest.mark.slow
def test_attributes_are_completed_along_with_the_features():
    _, X = draw_columns()
    rows = open_rows(X, groups_of(X), on_missing="em")
    all_columns = fit_by_fold(rows)
    features = fit_by_fold(RowsWithAttributes.wrap(rows, [1]))
    selected_columns = [0, 2, 3]
    for fold in range(FOLDS.n_folds):
        expected = all_columns.excluding(fold).select_features(selected_columns)
        assert_moments(features.excluding(fold), expected, rtol=1e-9)
        expected = all_columns.by_fold[fold].select_features(selected_columns)
        assert_moments(features.by_fold[fold], expected, rtol=1e-6)


@pytest.mark.slow
def test_groups_that_only_one_fold_has_add_all_of_their_moments():
    _, X = draw_columns()
    groups = groups_of(X).astype(object)
    folds = FOLDS.folds_of_positions(np.arange(len(X)))
    in_fold = np.flatnonzero(folds == 3)[:4]
    groups[in_fold] = "rare"
    by_fold = fit_by_fold(open_rows(X, groups, on_missing="em"))
    assert "rare" not in by_fold.excluding(3).labels
    is_rare = np.array([label == "rare" for label in by_fold.total.labels])
    rare = by_fold.by_fold[3].select_groups(
        np.array([label == "rare" for label in by_fold.by_fold[3].labels])
    )
    assert_moments(rare, plain(by_fold.total.select_groups(is_rare)), rtol=1e-9)
