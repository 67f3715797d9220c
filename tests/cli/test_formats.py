"""However the rows are stored, the figures are the same."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from pyarrow.parquet import read_schema

import fairspan as fs


def csv(frame, folder):
    frame.to_csv(folder / "t.csv", index=False)
    return folder / "t.csv"


def tsv(frame, folder):
    frame.to_csv(folder / "t.tsv", index=False, sep="\t")
    return folder / "t.tsv"


def semicolons(frame, folder):
    frame.to_csv(folder / "t.csv", index=False, sep=";")
    return folder / "t.csv"


def bars_in_a_text_file(frame, folder):
    frame.to_csv(folder / "t.TXT", index=False, sep="|")
    return folder / "t.TXT"


def compressed_csv(frame, folder):
    frame.to_csv(folder / "t.csv.gz", index=False)
    return folder / "t.csv.gz"


def csv_with_byte_order_mark(frame, folder):
    frame.to_csv(folder / "t.csv", index=False, encoding="utf-8-sig", lineterminator="\r\n")
    return folder / "t.csv"


def parquet(frame, folder):
    frame.to_parquet(folder / "t.parquet")
    return folder / "t.parquet"


def parquet_of_row_groups(frame, folder):
    frame.to_parquet(folder / "t.pq", row_group_size=37)
    return folder / "t.pq"


def parquet_without_its_ending(frame, folder):
    frame.to_parquet(folder / "table")
    return folder / "table"


def parquet_with_an_index(frame, folder):
    frame.set_index(1000 * np.arange(len(frame)) ** 2).to_parquet(folder / "t.parquet")
    assert "__index_level_0__" in read_schema(folder / "t.parquet").names
    return folder / "t.parquet"


def folder_of_parquet(frame, folder):
    parts = folder / "parts"
    (parts / "deeper").mkdir(parents=True)
    frame.iloc[:50].to_parquet(parts / "1.parquet")
    frame.iloc[50:51, ::-1].to_parquet(parts / "2.parquet")  # columns in another order
    frame.iloc[51:].to_parquet(parts / "deeper" / "3.parquet")
    (parts / "_SUCCESS").touch()
    return parts


def feather(frame, folder):
    frame.to_feather(folder / "t.feather", chunksize=23)
    return folder / "t.feather"


def arrow_from_polars(frame, folder):
    pl.from_pandas(frame).write_ipc(folder / "t.arrow")
    return folder / "t.arrow"


def arrow_without_its_ending(frame, folder):
    frame.to_feather(folder / "t")
    return folder / "t"


FORMATS = [
    csv,
    tsv,
    semicolons,
    bars_in_a_text_file,
    compressed_csv,
    csv_with_byte_order_mark,
    parquet,
    parquet_of_row_groups,
    parquet_without_its_ending,
    parquet_with_an_index,
    folder_of_parquet,
    feather,
    arrow_from_polars,
    arrow_without_its_ending,
]


def figures_of(facts):
    return np.array(
        [
            [group["n"], group["error"]["value"], group["error"]["high"], group["best_error"]]
            for group in facts["models"][0]["groups"]
        ]
    )


@pytest.mark.parametrize("stored", FORMATS, ids=lambda each: each.__name__)
def test_every_format_gives_the_figures_of_the_frame(run, table, features, tmp_path, stored):
    path = stored(table[[*features, "age"]], tmp_path)
    facts = run("audit", path, "--group", "age", "-d", 2, "--json").facts
    in_python = fs.audit(
        fs.FairPCA(2, criterion="total_error").fit(
            table[features], sensitive_features=table["age"]
        ),
        table[features],
        table["age"],
    )
    assert facts["rows"]["n_features"] == len(features)
    expected = figures_of(in_python.to_dict())
    np.testing.assert_allclose(figures_of(facts), expected, rtol=1e-9)


def test_saved_moments_give_the_figures_of_the_rows(run, data, table, features, tmp_path):
    moments = tmp_path / "any name"
    fs.GroupMoments.from_rows(table[features], table["age"]).save(moments)
    settings = ("-d", 2, "--center", "group", "--standardize", "--json")
    alone = run("audit", moments, *settings).facts
    rows = run("audit", data, "--group", "age", *settings).facts
    columns = [0, 1, 3]  # all but the end of the interval, which moments do not tell
    expected = figures_of(rows)[:, columns]
    np.testing.assert_allclose(figures_of(alone)[:, columns].astype(float), expected, rtol=1e-9)


@pytest.mark.parametrize("stored", [csv, parquet, feather], ids=lambda each: each.__name__)
def test_whole_short_and_logical_columns_are_numbers(run, tmp_path, stored):
    rng = np.random.default_rng(5)
    frame = pd.DataFrame(
        {
            "whole": rng.integers(-9, 9, 80).astype("int16"),
            "short": rng.normal(size=80).astype("float32"),
            "logical": rng.random(80) < 0.5,
            "level": rng.integers(1, 4, 80).astype("uint8"),
            "group": rng.integers(0, 2, 80),
        }
    )
    facts = run("audit", stored(frame, tmp_path), "--group", "group", "-d", 2, "--json").facts
    labels = ["0", "1"] if stored is csv else [0, 1]
    assert [group["group"] for group in facts["models"][0]["groups"]] == labels
    X = frame.drop(columns="group").to_numpy(dtype=float)
    expected = fs.audit(np.linalg.svd(X - X.mean(axis=0))[2][:2], X, frame["group"])
    np.testing.assert_allclose(figures_of(facts), figures_of(expected.to_dict()), rtol=1e-6)


def test_group_labels_keep_their_type(run, tmp_path):
    frame = pd.DataFrame({"x": [1.0, 2, 4, 8], "y": [1.0, 0, 1, 1]})
    columns = {
        "text": ["b", "a", "b", "a"],
        "whole": [2, 1, 2, 1],
        "logical": [True, False, True, False],
        "category": pd.Categorical(["b", "a", "b", "a"]),
    }
    path = tmp_path / "t.parquet"
    for name, values in columns.items():
        frame.assign(g=values).to_parquet(path)
        facts = run("audit", path, "--group", "g", "-d", 1, "--json").facts
        found = [group["group"] for group in facts["models"][0]["groups"]]
        assert found == sorted(set(values)), name
        assert type(found[0]) is type(sorted(set(values))[0])


def test_an_index_that_groups_the_rows_can_be_named(run, table, features, tmp_path):
    path = tmp_path / "t.parquet"
    table.set_index("age")[features].to_parquet(path)
    facts = run("audit", path, "--group", "age", "--json").facts
    assert facts["rows"]["n_features"] == len(features)
    counts = table["age"].value_counts().sort_index().tolist()
    assert [group["n"] for group in facts["models"][0]["groups"]] == counts
