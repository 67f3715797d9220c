"""Figures of rows that remain do not depend on how the others were left out."""

import numpy as np
import pandas as pd
import pytest

from fairspan import FairPCA, audit

N = 400
FEATURES = list("wxyz")


def some_people():
    """A frame in which cells and groups are missing, and the rows of it that are complete."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(N, 4)) * [3, 2, 1, 1], columns=FEATURES)
    frame["g"] = rng.choice(list("abc"), N)
    frame.loc[frame["g"] == "b", "w"] *= 0.3
    frame = frame.mask(rng.random(frame.shape) < 0.04)
    frame["person"], frame["weight"] = np.arange(N) // 3, rng.integers(0, 4, N)
    return frame, frame.dropna().reset_index(drop=True)


SOME, COMPLETE = some_people()
MODEL = FairPCA(1).fit(COMPLETE[FEATURES], sensitive_features=COMPLETE["g"])


def of_frame(frame, **options):
    return audit(MODEL, frame, "g", on_missing="drop", **options)


def of_arrays(frame, **options):
    X, groups = frame[FEATURES].to_numpy(), frame["g"].to_numpy()
    weights = frame["weight"].to_numpy(dtype=float)
    return audit(MODEL, X, groups, sample_weight=weights, on_missing="drop", **options)


def of_polars(frame, **options):
    polars = pytest.importorskip("polars")
    return audit(MODEL, polars.from_pandas(frame), "g", on_missing="drop", **options)


def figures(result):
    return [
        [value for group in model["groups"] for value in group.values()]
        for model in result.to_dict()["models"]
    ]


@pytest.mark.parametrize("options", [{}, {"repeats": 2}, {"folds": None}], ids=str)
@pytest.mark.parametrize("read", [of_frame, of_arrays, of_polars])
def test_rows_that_were_dropped_decide_no_figure(read, options):
    here, there = read(SOME, **options), read(COMPLETE, **options)
    assert figures(here) == figures(there)
    assert here.rows.n_dropped == len(SOME) - len(COMPLETE)
    assert there.rows.n_dropped == 0
    assert [each.kind for each in here.verdicts] == [each.kind for each in there.verdicts]


def almost(left, right):
    for mine, theirs in zip(figures(left), figures(right), strict=True):
        for one, other in zip(mine, theirs, strict=True):
            assert one == (pytest.approx(other, rel=1e-10) if isinstance(one, float) else other)


def test_clusters_that_were_dropped_decide_no_figure():
    almost(of_frame(SOME, clusters="person"), of_frame(COMPLETE, clusters="person"))


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_rows_of_files_that_were_dropped_decide_no_figure(kind, tmp_path):
    pytest.importorskip("pyarrow")
    found = []
    for name, frame in (("some", SOME), ("complete", COMPLETE)):
        path, shown = tmp_path / f"{name}.{kind}", frame[[*FEATURES, "g"]]
        if kind == "csv":
            shown.to_csv(path, index=False)
        else:
            shown.to_parquet(path)
        found.append(audit(MODEL, path, "g", on_missing="drop"))
    almost(*found)


def test_rows_of_dask_that_were_dropped_decide_no_figure():
    dask = pytest.importorskip("dask.dataframe")
    parts = dask.from_pandas(SOME[[*FEATURES, "g"]], npartitions=3)
    almost(of_frame(parts, folds=5), of_frame(parts.dropna(), folds=5))


def test_what_is_wrong_is_named_by_its_place_in_the_table():
    wrong = SOME.copy()
    row = int(np.flatnonzero(SOME.notna().all(axis=1))[-1])
    wrong.loc[row, "x"] = np.inf
    with pytest.raises(ValueError, match=rf"row {row + 1} "):
        of_frame(wrong)
