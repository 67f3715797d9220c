"""The tables of the RFPCA experiments, beside the printed ones."""

from pathlib import Path

import pytest

from real_data import FOLDER, path_of
from reproduction.comparison import printed_table
from reproduction.experiment import Effort, Setting
from reproduction.store import Store
from reproduction.vu import outcomes, tables
from reproduction.vu.data_sets import DATA_SETS
from reproduction.vu.reasons import explained, reason_for

_QUICK = ("ecoli", "parkinsons", "wine_quality")


def setting_with(store, effort=Effort.QUICK, data: Path = FOLDER):
    return Setting(data, effort, 0, lambda what, done, total: None, store)


@pytest.fixture(scope="module")
def quick():
    for name in _QUICK:
        path_of(f"{name}.parquet")
    store = Store()
    result = tables.TABLE_1.run(setting_with(store))
    return store, result


def by_figure(result):
    rows = [dict(zip(result.columns, row, strict=True)) for row in result.rows]
    return {(row["data set"], row["method"], row["figure"]): row for row in rows}


@pytest.mark.long
def test_quick_figures_are_near_the_printed(quick):
    rows = by_figure(quick[1])
    assert {name for name, _, _ in rows} == set(_QUICK)
    # Plain PCA of the data README: mean +- standard error over ten splits, here two.
    assert rows["parkinsons", "PCA", "ARE"]["ours"] == pytest.approx(4.94, abs=0.4)
    assert rows["wine_quality", "RFPCA certified", "ARE"]["ours"] == pytest.approx(4.28, abs=0.4)
    assert rows["wine_quality", "RFPCA certified", "ABDiff"]["ours"] < 1.0
    for method in ("FairPCA", "CFPCA mean", "CFPCA both"):
        row = rows["wine_quality", method, "ARE"]
        assert row["ours"] == pytest.approx(row["printed"], rel=0.1), method
        gap = rows["wine_quality", method, "ABDiff"]
        # The printed gap is that about the groups' own means.
        assert gap["ours"] > 2 * gap["printed"]
        assert gap["about own means"] < 1.2 * gap["printed"]
    assert rows["ecoli", "PCA", "ARE"]["printed"] is None


@pytest.mark.long
def test_a_difference_over_a_tenth_has_a_reason(quick):
    for row in by_figure(quick[1]).values():
        over = row["difference"] is not None and abs(row["difference"]) > 0.1
        assert bool(row["why"]) == over
    text = " ".join(quick[1].notes)
    assert "proven optimum" in text
    assert "spread:" in text


@pytest.mark.long
def test_a_run_goes_on_from_what_is_kept(quick, monkeypatch):
    store, before = quick
    monkeypatch.setattr(outcomes, "one_repeat", None)
    # Nothing is computed, and the files are not even read.
    after = tables.TABLE_1.run(setting_with(store, data=Path("nowhere")))
    assert after.rows == before.rows
    in_sample = tables.TABLE_3.run(setting_with(store, data=Path("nowhere")))
    assert len(in_sample.rows) == len(before.rows)


@pytest.mark.long
def test_what_is_left_out_says_so(quick):
    method, store = "CFPCA both, limited", Store()
    for key in (f"{name}/{i}" for name in _QUICK for i in range(2)):
        kept = quick[0].get_or_compute(key, dict)
        if key.startswith("ecoli"):
            kept = {**kept, method: {"left_out": "7 features, over 5"}}
        store.get_or_compute(key, lambda kept=kept: kept)
    result = tables.TABLE_1.run(setting_with(store, data=Path("nowhere")))
    for figure in ("ABDiff", "ARE"):
        row = by_figure(result)["ecoli", method, figure]
        assert row["why"] == "left out: 7 features, over 5"
        assert (row["ours"], row["printed"], row["difference"]) == (None, None, None)


@pytest.mark.long
def test_tables_draw(quick):
    figure = pytest.importorskip("matplotlib.figure").Figure()
    quick[1].draw(figure)
    left, right = figure.axes
    assert (left.get_title(), right.get_title()) == ("ABDiff", "ARE")
    assert left.get_xlabel() == "printed"


def test_printed_tables_are_whole():
    names = [each.name for each in DATA_SETS]
    for table in (tables.TABLE_1, tables.TABLE_3):
        rows = printed_table(table.printed)
        assert [row["data"] for row in rows] == names
        assert float(rows[1]["RFPCA_ABDiff"]) == (23.0066 if table is tables.TABLE_1 else 9.4093)
    # Without the faces.
    assert [row["data"] for row in printed_table(tables.TABLE_4.printed)] == names[:-1]


@pytest.mark.parametrize(
    ("data_set", "figure", "method", "values", "printed", "own", "reason"),
    [
        ("magic", "ARE", "FairPCA", [1.0, 1.0], 1.05, (), ""),
        ("magic", "ARE", "FairPCA", [1.0, 1.0], None, (), ""),
        ("steel_plates", "ARE", "FairPCA", [24.0, 23.0], 12.0, (), "columns"),
        ("lfw", "ARE", "FairPCA", [9.0, 9.1], 7.6, (), "faces"),
        ("magic", "ARE", "CFPCA both, limited", [5.0, 5.1], 9.0, (), "variance kept"),
        ("magic", "ARE", "FairPCA", [1.0, 3.0], 2.5, (), "spread"),
        ("magic", "leakage", "CFPCA mean", [0.1, 0.1], 0.2, (), "classifier"),
        ("magic", "ABDiff", "FairPCA", [7.2, 7.3], 0.33, (0.32, 0.33), "own means"),
        ("magic", "ARE", "FairPCA", [7.2, 7.3], 0.33, (0.32, 0.33), "not known"),
        ("magic", "ABDiff", "FairPCA", [7.2, 7.3], 0.33, (5.2, 5.3), "not known"),
    ],
)
def test_reasons(data_set, figure, method, values, printed, own, reason):
    assert reason_for(data_set, figure, method, values, printed, own) == reason
    assert len(explained([reason])) == (reason != "")


@pytest.mark.parametrize(("optimum", "reason"), [([5.0, 5.1], "starts"), ([7.2, 7.3], "not known")])
def test_starts_are_a_reason_where_the_optimum_is_elsewhere(optimum, reason):
    method = "RFPCA paper's algorithm"
    assert reason_for("magic", "ARE", method, [7.2, 7.3], 5.0, (), optimum) == reason
