"""docs/reproduced.md is generated from the stored results, which are those of the experiments."""

import json

import numpy as np
import pytest

from reproduction.page import PAGE, RESULTS, format_page, store_result, stored_results
from reproduction.registry import experiment_of
from reproduction.vu.shapes import reliable_columns


def table(result):
    return [dict(zip(result.columns, row, strict=True)) for row in result.rows]


def test_the_page_is_built_from_the_stored_results():
    assert PAGE.read_text(encoding="utf-8") == format_page(stored_results())


def test_kept_results_are_of_experiments():
    for result in stored_results():
        experiment = experiment_of(result["name"])
        assert (result["title"], result["source"]) == (experiment.title, experiment.source)
        assert result["rows"], result["name"]
        assert all(len(row) == len(result["columns"]) for row in result["rows"]), result["name"]


def test_a_result_is_kept_as_it_is_computed(tmp_path, monkeypatch):
    monkeypatch.setattr("reproduction.page.RESULTS", tmp_path)
    store_result("blog-regression", "quick", None)
    result = json.loads((tmp_path / "blog-regression.json").read_text())
    committed = json.loads((RESULTS / "blog-regression.json").read_text())
    for one, other in zip(result["rows"], committed["rows"], strict=True):
        assert one[0] == other[0]
        assert one[1] == pytest.approx(other[1], rel=1e-9)
    assert "blog-regression" in format_page([result])


@pytest.mark.slow
def test_the_printed_biases_are_found(quick):
    rows = table(quick(experiment_of("blog-bias"), []))
    for row in rows:
        if row["printed"] is not None:
            assert round(row["ours"], 4) == row["printed"]
    assert rows[4]["ours"] == pytest.approx(0.0031, abs=5e-5)


@pytest.mark.slow
def test_the_bandits_regret_is_below_both_bounds(quick):
    for row in table(quick(experiment_of("blog-ucb1"), [])):
        assert 0 < row["regret"] < min(row["bound by the gaps"], row["bound for any arms"])


def test_the_columns_of_table_2():
    by_name = {
        row["data set"]: row
        for row in (
            dict(zip(result["columns"], row, strict=True))
            for result in stored_results()
            if result["name"] == "vu-table2"
            for row in result["rows"]
        )
    }
    assert len(by_name) == 15
    assert [name for name, row in by_name.items() if not row["agrees"]] == [
        "magic",
        "skillcraft",
        "steel_plates",
    ]
    assert by_name["steel_plates"]["features by the rule"] == 22

    assert reliable_columns(np.array([[0.0, 0.0, 1.0], [2000.0, 1.0, 1.0]])).tolist() == [
        False,
        True,
        False,
    ]
