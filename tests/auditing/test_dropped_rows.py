"""Figures of the remaining rows do not depend on how the others were dropped."""

from functools import cache

import numpy as np
import pytest

from dropped_rows import FEATURES, SOURCES, N, draw_people, frame_of_features
from fairspan import FairPCA, audit
from fairspan.extending import CodedLabels, make_row_block


@cache
def model():
    _, complete = draw_people()
    return FairPCA(1, criterion="total_error").fit(
        complete[FEATURES], sensitive_features=complete["g"]
    )


@cache
def cached_frame_audit():
    return audit_frame_moments(frame_of_features(), folds=5)


def audit_frame_moments(frame, **options):
    return audit(model(), frame, "g", on_missing="drop", **options)


def audit_arrays(frame, **options):
    X = frame[FEATURES].to_numpy()
    groups = frame["g"].to_numpy()
    weights = frame["weight"].to_numpy(dtype=float)
    return audit(model(), X, groups, sample_weight=weights, on_missing="drop", **options)


def audit_polars_frame(frame, **options):
    polars = pytest.importorskip("polars")
    return audit(model(), polars.from_pandas(frame), "g", on_missing="drop", **options)


def figures(result):
    return [
        [value for group in model["groups"] for value in group.values()]
        for model in result.to_dict()["models"]
    ]


@pytest.mark.parametrize(
    "run_audit",
    [audit_frame_moments, audit_arrays, pytest.param(audit_polars_frame, marks=pytest.mark.slow)],
)
def test_rows_that_were_dropped_decide_no_figure_without_folds(run_audit):
    incomplete, complete = draw_people()
    result = run_audit(incomplete, folds=None)
    reference = run_audit(complete, folds=None)
    assert_close(result, reference)
    assert result.rows.n_dropped == len(incomplete) - len(complete)
    assert reference.rows.n_dropped == 0
    assert [verdict.kind for verdict in result.verdicts] == [
        verdict.kind for verdict in reference.verdicts
    ]


def assert_close(left, right):
    for left_figures, right_figures in zip(figures(left), figures(right), strict=True):
        for one, other in zip(left_figures, right_figures, strict=True):
            assert one == (pytest.approx(other, rel=1e-10) if isinstance(one, float) else other)


def test_clusters_that_were_dropped_decide_no_figure():
    result, reference = (
        audit_frame_moments(table, clusters="person", folds=5) for table in draw_people()
    )
    assert_close(result, reference)


@pytest.mark.parametrize("source", SOURCES)
def test_figures_with_dropped_rows_do_not_depend_on_the_source(source, tmp_path):
    reference = cached_frame_audit()
    result = audit_frame_moments(source(tmp_path), folds=5)
    assert_close(reference, result)
    incomplete, complete = draw_people()
    assert reference.rows.n_dropped == result.rows.n_dropped == len(incomplete) - len(complete)


class RowsInBlocks:
    """The table as a source of another package, in blocks of 90 rows."""

    feature_names = tuple(FEATURES)
    n_features = len(FEATURES)
    n_rows = None

    def select_features(self, names):
        assert names == self.feature_names
        return self

    def blocks(self):
        for first in range(0, N, 90):
            part = frame_of_features()[first : first + 90]
            labels = CodedLabels.from_labels(part["g"].to_list())
            values = part[FEATURES].to_numpy()
            yield make_row_block(first, values, labels, None, self.feature_names, "drop")


def test_rows_of_another_package_have_the_same_folds():
    assert_close(cached_frame_audit(), audit(model(), RowsInBlocks(), folds=5))


def test_faults_are_named_by_their_place_in_the_table():
    incomplete, _ = draw_people()
    wrong = incomplete.copy()
    row = int(np.flatnonzero(incomplete.notna().all(axis=1))[-1])
    wrong.loc[row, "x"] = np.inf
    with pytest.raises(ValueError, match=rf"row {row + 1} "):
        audit_frame_moments(wrong)
