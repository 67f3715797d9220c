"""FS109 names the row with the largest error, in the terms of the rows that were passed."""

import numpy as np
import pandas as pd
import pytest

from fairspan import FairPCA, audit

OUTLIER = 17
MODEL = np.eye(4)[[2]]


def loans():
    """600 people in three regions, one with an income of a billion."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(600, 4)), columns=["income", "age", "debt", "score"])
    table["income"] = 50_000 + 15_000 * table["income"]
    table["region"] = rng.choice(["a", "b", "c"], 600)
    table.loc[OUTLIER, "income"] = 1e9
    return table


def heavy_tails(rows, model=MODEL, groups="region", **settings):
    result = audit(model, rows, groups, **settings)
    [finding] = [finding for finding in result.findings if finding.code == "FS109"]
    return finding


def share_of_the_row(table, components):
    """Share of the row in the error of its group, about the overall mean."""
    X = table.drop(columns="region").to_numpy()
    centered = X - X.mean(axis=0)
    residuals = centered - centered @ components.T @ components
    errors = (residuals**2).sum(axis=1)
    is_same_group = (table["region"] == table["region"][OUTLIER]).to_numpy()
    return errors[OUTLIER] / errors[is_same_group].sum()


@pytest.mark.parametrize("folds", [10, None])
def test_the_row_its_value_and_its_share_are_named(folds):
    table = loans()
    finding = heavy_tails(table, folds=folds)
    share = share_of_the_row(table, MODEL)
    group = table["region"][OUTLIER]
    assert (
        f"(row 18, income = 1,000,000,000: {100 * share:.1f} % of the error of '{group}')"
        in finding.message
    )
    assert (finding.groups, finding.columns) == ((group,), ("income",))
    (row,) = finding.to_dict()["rows"]
    assert row.pop("error_share") == pytest.approx(share)
    assert row == {"group": group, "row": "row 18", "column": "income", "value": 1e9}


def test_the_value_is_that_of_the_table_and_not_the_scaled_one():
    table = loans()
    fair = FairPCA(1, scale=True).fit(table, sensitive_features="region")
    assert "row 18, income = 1,000,000,000" in heavy_tails(table, fair).message


def test_the_feature_is_the_one_that_contributes_most_to_the_error():
    """The model keeps all of the income, so a smaller number makes the error."""
    table = loans()
    table["income"] = np.arange(600.0) ** 2
    table.loc[OUTLIER, "debt"] = 5_000
    assert "row 18, debt = 5,000: " in heavy_tails(table, np.eye(4)[[0]]).message


def test_a_row_of_a_csv_file_has_its_line(tmp_path):
    loans().to_csv(tmp_path / "loans.csv", index=False)
    assert "row 18 (line 19), income = 1,000,000,000" in heavy_tails(tmp_path / "loans.csv").message


def test_a_row_of_a_data_frame_has_its_label():
    table = loans().set_index(np.arange(1000, 1600))
    assert "row 18 (index 1017), income = 1,000,000,000" in heavy_tails(table).message


@pytest.mark.slow
def test_rows_of_several_parquet_files_are_counted_through(tmp_path):
    for number, start in enumerate(range(0, 600, 10)):
        loans()[start : start + 10].to_parquet(tmp_path / f"{number:02}.parquet")
    assert "row 18, income = 1,000,000,000" in heavy_tails(tmp_path).message


def test_a_row_of_several_csv_files_has_no_number(tmp_path):
    for number, start in enumerate((0, 300)):
        loans()[start : start + 300].to_csv(tmp_path / f"{number}.csv", index=False)
    assert "(one row, income = 1,000,000,000: " in heavy_tails(tmp_path).message


def test_a_dropped_row_counts_in_the_number():
    table = loans()
    table.loc[3, "age"] = np.nan
    assert "row 18, income = 1,000,000,000" in heavy_tails(table, on_missing="drop").message


def test_the_weight_of_a_row_counts():
    table = loans()
    in_group = np.flatnonzero(table["region"] == table["region"][OUTLIER])
    heavier = int(in_group[in_group != OUTLIER][0])
    table.loc[heavier, "income"] = 5e8
    weights = np.ones(600)
    assert "row 18," in heavy_tails(table, sample_weight=weights).message
    weights[heavier] = 10
    assert (
        f"row {heavier + 1}, income = 500,000,000"
        in heavy_tails(table, sample_weight=weights).message
    )


def test_logarithms_are_suggested_only_where_they_shorten_the_tail():
    """Beside a mean of 50,000, the logarithm of 1.5 million is near; around 1,000, it is linear."""
    table = loans()
    assert "take their logarithms" in heavy_tails(table).message
    table["income"] = 1_000 + 0.1 * np.random.default_rng(1).normal(size=600)
    table.loc[OUTLIER, "income"] = 1_200
    message = heavy_tails(table).message
    assert "cap the columns in which they are extreme: income" in message
    assert "logarithm" not in message


def test_rows_are_said_to_dominate_only_with_a_large_share():
    table = loans()
    assert "a few rows dominate" in heavy_tails(table).message
    heavy = np.random.default_rng(1).standard_t(2.5, size=(40_000, 1))
    finding = heavy_tails(
        pd.DataFrame({"x": heavy[:, 0], "y": 0.0, "region": "a"}), np.array([[0.0, 1.0]])
    )
    assert max(row.error_share for row in finding.rows) < 0.1
    assert "dominate" not in finding.message


def test_columns_of_arrays_are_numbered():
    table = loans()
    X = table.drop(columns="region").to_numpy()
    assert "row 18, x0 = 1,000,000,000" in heavy_tails(X, groups=table["region"]).message


def test_a_model_that_is_no_projection_names_the_row_alone():
    from sklearn.decomposition import KernelPCA

    table = loans()
    X = table.drop(columns="region").to_numpy() / 1e4
    model = KernelPCA(1, kernel="linear", fit_inverse_transform=True).fit(X[100:])
    assert "(row 18: " in heavy_tails(X, model, groups=table["region"]).message
