"""Rows of Dask collections are reduced when they are asked for, as the same kind."""

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

from fairspan import FairPCA
from fairspan.errors import InvalidInput, InvalidType
from rows.dask_cluster import part_of, rows

X, GROUPS, _ = rows()
NAMES = ["a", "b", "c", "d"]
FRAME = pd.DataFrame(X, columns=NAMES, index=np.arange(len(X)) * 2)
NAMED = FairPCA(2, scale=True).fit(FRAME.assign(sex=GROUPS), sensitive_features="sex")
UNNAMED = FairPCA(2).fit(X, sensitive_features=GROUPS)


def never(block):
    raise AssertionError("nothing may be computed")


def test_a_frame_stays_a_frame_with_its_index_and_divisions():
    whole = dd.from_pandas(FRAME.assign(sex=GROUPS)[["sex", "d", "b", "c", "a"]], npartitions=5)
    reduced = NAMED.transform(whole)
    assert isinstance(reduced, dd.DataFrame)
    assert list(reduced.columns) == ["fairpca0", "fairpca1"]
    assert reduced.divisions == whole.divisions
    assert (reduced.dtypes == np.float64).all()
    here = reduced.compute()
    pd.testing.assert_index_equal(here.index, FRAME.index)
    np.testing.assert_allclose(here, NAMED.transform(FRAME), rtol=0, atol=1e-12)


@pytest.mark.parametrize("precision", [np.float64, np.float32, np.int16])
def test_an_array_stays_an_array_of_its_precision(precision):
    values = X.astype(precision)
    reduced = UNNAMED.transform(da.from_array(values, chunks=(170, 3)))
    assert isinstance(reduced, da.Array)
    assert reduced.chunks == ((170, 170, 170, 90), (2,))
    expected = UNNAMED.transform(values)
    assert reduced.dtype == expected.dtype
    here = reduced.compute()
    assert here.dtype == expected.dtype
    np.testing.assert_allclose(here, expected, rtol=1e-6 if precision == np.float32 else 1e-12)


def test_unknown_chunks_and_partitions_without_rows():
    whole = dd.from_pandas(FRAME, npartitions=4)
    some = whole[whole.a > 100]
    expected = UNNAMED.transform(X[X[:, 0] > 100])
    np.testing.assert_allclose(UNNAMED.transform(some.to_dask_array()).compute(), expected)
    gap = dd.concat([whole.partitions[:2], whole[whole.a > 1e9], whole.partitions[2:]])
    assert len(NAMED.transform(gap).compute()) == len(X)
    single = da.from_array(X.astype(np.float32), chunks=100)
    holey = UNNAMED.transform(da.concatenate([single[:100], single[:0], single[100:]])).compute()
    assert (holey.shape, holey.dtype) == ((len(X), 2), np.float32)


def test_nothing_is_computed_before_it_is_asked_for():
    lazy = dd.from_pandas(FRAME, npartitions=3).map_partitions(never, meta=FRAME.iloc[:0])
    NAMED.transform(lazy)
    with pytest.raises(InvalidInput, match="The table has no column 'd'"):
        NAMED.transform(lazy[["a", "b", "c"]])
    with pytest.raises(InvalidInput, match=r"no numbers .*'a'"):
        NAMED.transform(lazy.assign(a="text"))
    array = da.from_array(X, chunks=100).map_blocks(never, meta=np.empty((0, 0)))
    UNNAMED.transform(array)
    with pytest.raises(InvalidInput, match="X has 3 features, but FairSubspace is expecting 4"):
        UNNAMED.transform(array[:, :3])
    with pytest.raises(InvalidType, match="X is a Dask Series"):
        NAMED.transform(lazy["a"])


def test_errors_name_the_partition():
    holes = FRAME.copy()
    holes.iloc[450, 2] = np.nan
    with pytest.raises(InvalidInput, match=r"partition 4: X contains NaN.*'c'"):
        NAMED.transform(dd.from_pandas(holes, npartitions=6)).compute()
    with pytest.raises(InvalidInput, match="partition 4: X contains NaN"):
        UNNAMED.transform(da.from_array(holes.to_numpy(), chunks=100)).compute()
    frames = [FRAME, FRAME.drop(columns="b")]
    odd = dd.from_map(part_of, [0, 1], frames=frames, meta=FRAME.iloc[:0])
    with pytest.raises(InvalidInput, match="partition 1: The table has no column 'b'"):
        NAMED.transform(odd).compute()


def test_coordinates_are_brought_back_lazily():
    coordinates = UNNAMED.transform(X)
    expected = UNNAMED.inverse_transform(coordinates)
    lazy = UNNAMED.inverse_transform(da.from_array(coordinates, chunks=(100, 1)))
    assert isinstance(lazy, da.Array)
    assert lazy.shape == X.shape
    np.testing.assert_allclose(lazy.compute(), expected)
    frames = NAMED.transform(dd.from_pandas(FRAME, npartitions=3))
    np.testing.assert_allclose(
        NAMED.inverse_transform(frames).compute(),
        NAMED.inverse_transform(NAMED.transform(FRAME)),
    )
    with pytest.raises(InvalidInput, match="expecting 2 coordinates"):
        UNNAMED.inverse_transform(da.from_array(X, chunks=100))


def test_rows_are_scored_lazily():
    expected = UNNAMED.score_samples(X)
    lazy = UNNAMED.score_samples(da.from_array(X, chunks=(100, 3)))
    assert isinstance(lazy, da.Array)
    assert lazy.shape == (len(X),)
    np.testing.assert_allclose(lazy.compute(), expected)
    assert UNNAMED.score(da.from_array(X, chunks=100)) == pytest.approx(UNNAMED.score(X))
    whole = dd.from_pandas(FRAME.assign(sex=GROUPS), npartitions=3)
    series = NAMED.score_samples(whole).compute()
    pd.testing.assert_index_equal(series.index, FRAME.index)
    np.testing.assert_allclose(series, NAMED.score_samples(FRAME))
    assert NAMED.score(whole) == pytest.approx(NAMED.score(FRAME))


@pytest.mark.long
def test_on_a_cluster(client):
    # The last test, as from here on this process is connected to a cluster.
    whole = dd.from_pandas(FRAME, npartitions=5)
    np.testing.assert_allclose(
        NAMED.transform(whole).compute(), NAMED.transform(FRAME), rtol=0, atol=1e-12
    )
    array = da.from_array(X, chunks=100)
    np.testing.assert_allclose(UNNAMED.transform(array).compute(), UNNAMED.transform(X))
