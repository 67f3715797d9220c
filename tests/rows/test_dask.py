"""Dask collections on a real cluster of two processes: the same answers, and what goes wrong."""

import os
import signal
import threading
import time
from functools import cache

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

import fairspan as fs
from fairspan import FairPCA, GroupMoments
from fairspan.errors import FairspanError, InvalidInput, InvalidType
from numpy_reference import assert_moments, projector_distance, reference_moments
from rows.dask_cluster import (
    DEADLINE,
    block_that_fails_once,
    block_that_kills_its_worker,
    block_that_waits,
    lines_of_docs,
    part_of,
    rows,
)

# Older Dask warns where a test asks for another scheduler than the cluster on purpose.
pytestmark = pytest.mark.filterwarnings("ignore:Running on a single-machine scheduler")

X, GROUPS, WEIGHTS = rows()
NAMES = ["a", "b", "c", "d"]
AGES = np.random.default_rng(5).choice([20, 40], len(X))


def frame():
    return pd.DataFrame(X, columns=NAMES).assign(sex=GROUPS, age=AGES, w=WEIGHTS)


def collection(columns=(*NAMES, "sex"), npartitions=7):
    import dask.dataframe as dd

    return dd.from_pandas(frame()[list(columns)], npartitions=npartitions)


def array(chunks=(90, 3)):
    import dask.array as da

    return da.from_array(X, chunks=chunks)


def unknown_chunks():
    import dask.dataframe as dd

    return dd.from_pandas(frame()[NAMES], npartitions=5).to_dask_array()


def with_an_empty_block():
    import dask.array as da

    return da.concatenate([array()[:300], array()[:0], array()[300:]])


def chunked(values):
    import dask.array as da

    return da.from_array(values, chunks=47)


def bag():
    import dask.bag

    return dask.bag.from_sequence([1, 2])


ARRAYS = {
    "chunks": array,
    "one chunk": lambda: array((len(X), 4)),
    "unknown chunks": unknown_chunks,
    "an empty block": with_an_empty_block,
}
CONTAINERS = {
    "numpy": lambda values: values,
    "list": lambda values: values.tolist(),
    "pandas": pd.Series,
    "dask array": chunked,
}


@pytest.mark.long
@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("kind", ["chunks", "one chunk", "an empty block"])
def test_arrays_with_labels_and_weights_next_to_them(client, kind, container):
    wrap = CONTAINERS[container]
    moments = GroupMoments.from_rows(ARRAYS[kind](), wrap(GROUPS), wrap(WEIGHTS))
    assert_moments(moments, reference_moments(X, GROUPS, WEIGHTS))
    assert moments.feature_names is None


@pytest.mark.long
def test_an_array_of_unknown_chunks(client):
    import dask.dataframe as dd

    moments = GroupMoments.from_rows(ARRAYS["unknown chunks"](), GROUPS.tolist(), WEIGHTS)
    assert_moments(moments, reference_moments(X, GROUPS, WEIGHTS))
    sex = dd.from_pandas(frame()["sex"], npartitions=5)
    assert_moments(
        GroupMoments.from_rows(ARRAYS["unknown chunks"](), sex), reference_moments(X, GROUPS)
    )


def test_two_columns_of_labels_are_crossed(client):
    import dask.array as da

    crossed = list(zip(GROUPS.tolist(), AGES.tolist(), strict=True))
    expected = reference_moments(X, crossed)
    frame_moments = GroupMoments.from_rows(collection([*NAMES, "sex", "age"]), ["sex", "age"])
    assert_moments(frame_moments, expected)
    labels = np.array(crossed, dtype=object)
    assert_moments(GroupMoments.from_rows(array(), labels), expected)
    chunked = da.from_array(labels, chunks=(47, 1))
    assert_moments(GroupMoments.from_rows(array(), chunked), expected)
    assert_moments(GroupMoments.from_rows(collection(NAMES), collection(["sex", "age"])), expected)


@pytest.mark.parametrize("container", ["numpy", "list", "pandas", "series"])
def test_data_frames_with_labels_and_weights_next_to_them(client, container):
    labels, weights = collection(["sex", "w"])["sex"], collection(["sex", "w"])["w"]
    if container != "series":
        labels, weights = CONTAINERS[container](GROUPS), CONTAINERS[container](WEIGHTS)
    moments = GroupMoments.from_rows(collection(NAMES), labels, weights)
    assert_moments(moments, reference_moments(X, GROUPS, WEIGHTS))


def test_groups_that_are_not_in_every_partition_and_partitions_without_rows(client):
    import dask.array as da
    import dask.dataframe as dd

    ordered = frame().sort_values("sex", ignore_index=True)[[*NAMES, "sex"]]
    all_rows = dd.from_pandas(ordered, npartitions=9)
    with_gap = dd.concat(
        [all_rows.partitions[:4], all_rows[all_rows.a > 1e9], all_rows.partitions[4:]]
    )
    expected = reference_moments(X, GROUPS)
    assert_moments(GroupMoments.from_rows(with_gap, "sex"), expected)
    # A partition all of whose weights are zero is one without rows.
    weights = np.where(np.arange(len(X)) < 90, 0.0, WEIGHTS)
    moments = GroupMoments.from_rows(array(), GROUPS, da.from_array(weights, chunks=90))
    assert_moments(moments, reference_moments(X, GROUPS, weights))


def test_every_scheduler_gives_the_same_bits(client):
    import dask

    on_cluster = GroupMoments.from_rows(collection(), "sex").to_bytes()
    for scheduler in ("threads", "synchronous"):
        with dask.config.set(scheduler=scheduler):
            assert GroupMoments.from_rows(collection(), "sex").to_bytes() == on_cluster


def test_a_fit_on_a_cluster_is_the_fit_on_the_rows(client):
    local = FairPCA().fit(frame()[[*NAMES, "sex"]], sensitive_features="sex")
    distributed = FairPCA().fit(collection(), sensitive_features="sex")
    assert projector_distance(distributed.components_, local.components_) <= 1e-7
    np.testing.assert_array_equal(distributed.feature_names_in_, NAMES)
    np.testing.assert_allclose(distributed.group_losses_, local.group_losses_, rtol=1e-7)
    # The group column is passed over where it is present, here as there.
    np.testing.assert_allclose(
        distributed.transform(frame()[[*NAMES, "sex"]]), local.transform(frame()[NAMES]), atol=1e-9
    )


def test_partial_fit_adds_partitions_to_those_before(client):
    all_rows = collection()
    model = FairPCA().partial_fit(all_rows.partitions[:3], sensitive_features="sex")
    model.partial_fit(all_rows.partitions[3:], sensitive_features="sex")
    assert_moments(model.moments_, reference_moments(X, GROUPS))
    model.partial_fit(collection(["b", "a", "c", "d", "sex"]), sensitive_features="sex")
    assert_moments(model.moments_, reference_moments(np.vstack([X, X]), [*GROUPS, *GROUPS]))
    with pytest.raises(InvalidInput, match="features of the fit"):
        model.partial_fit(collection(["a", "b", "c", "sex"]), sensitive_features="sex")


@pytest.mark.long
def test_an_audit_on_a_cluster_is_the_audit_on_the_rows_with_its_intervals(client):
    model = FairPCA().fit(frame()[[*NAMES, "sex"]], sensitive_features="sex")
    # Columns in another order, and more of them: they are matched by name.
    more = collection(["sex", "d", "c", "age", "b", "a", "w"])
    for weight in (None, "w"):
        local = fs.audit(model, frame(), "sex", sample_weight=weight)
        distributed = fs.audit(model, more, "sex", sample_weight=weight)
        first = local.to_records()[0]
        assert first["observed_error_low"] < first["observed_error"] < first["observed_error_high"]
        assert_same_figures(distributed, local)


@pytest.mark.long
def test_rows_are_left_out_together_by_position_or_by_cluster(client):
    import dask.dataframe as dd

    ids = frame().assign(id=np.arange(len(X)))
    by_cluster = {"sensitive_features": "sex", "clusters": "id"}
    columns = [*NAMES, "sex", "id"]
    model = FairPCA().fit(ids[[*NAMES, "sex"]], sensitive_features="sex")
    local = fs.audit(model, ids[columns], **by_cluster)
    assert_same_figures(
        fs.audit(model, dd.from_pandas(ids[columns], npartitions=7), **by_cluster), local
    )
    model = FairPCA().fit(X, sensitive_features=GROUPS)
    assert_same_figures(fs.audit(model, array(), GROUPS), fs.audit(model, X, GROUPS))


def assert_same_figures(audit, expected):
    for one, other in zip(expected.to_records(), audit.to_records(), strict=True):
        for name, value in one.items():
            close = pytest.approx(value, rel=1e-9) if isinstance(value, float) else value
            assert other[name] == close, name


def test_columns_with_numbers_for_names(client):
    import dask.dataframe as dd

    numbered = dd.from_pandas(pd.DataFrame(X), npartitions=3)
    moments = GroupMoments.from_rows(numbered, GROUPS)
    assert_moments(moments, reference_moments(X, GROUPS))
    assert moments.feature_names is None


def test_the_lines_that_the_documentation_shows(client, tmp_path, monkeypatch):
    (tmp_path / "people").mkdir()
    rng = np.random.default_rng(3)
    wide = pd.DataFrame(rng.normal(size=(300, 12)), columns=[f"x{i}" for i in range(12)])
    wide = wide.assign(sex=GROUPS[:300])
    for number in range(3):
        wide[100 * number : 100 * (number + 1)].to_parquet(tmp_path / f"people/{number}.parquet")
    monkeypatch.chdir(tmp_path)
    names = {"fs": fs}
    exec(lines_of_docs("import dask.dataframe"), names)
    local = FairPCA(10).fit(wide, sensitive_features="sex")
    assert projector_distance(names["fair"].components_, local.components_) <= 1e-7


def label_by_sex(**columns):
    return pd.DataFrame(X, columns=NAMES).assign(sex=GROUPS, **columns)


def in_partitions(frames):
    """Return a Dask data frame of these partitions, which Dask does not inspect."""
    import dask.dataframe as dd

    return dd.from_map(part_of, range(len(frames)), frames=frames, meta=frames[0].iloc[:0])


def undisturbed(array, labels):
    import dask

    with dask.config.set(scheduler="synchronous"):
        return GroupMoments.from_rows(array, labels).to_bytes()


@pytest.mark.long
def test_a_worker_that_is_killed_changes_no_bit(client, tmp_path):
    import dask.array as da

    n_blocks = 30
    array = da.from_array(X, chunks=len(X) // n_blocks)
    noted = array.map_blocks(block_that_waits, 5, str(tmp_path), dtype=float)
    counts = []

    def kill():
        deadline = time.monotonic() + DEADLINE
        while len(seen_now := list(tmp_path.iterdir())) < 5 and time.monotonic() < deadline:
            time.sleep(0.01)
        counts.append(len(seen_now))
        os.kill(victim, signal.SIGKILL)
        (tmp_path / "killed").write_text("")

    victim = next(iter(client.run(os.getpid).values()))
    killer = threading.Thread(target=kill)
    killer.start()
    moments = GroupMoments.from_rows(noted, GROUPS)
    killer.join()
    assert 5 <= counts[0] < n_blocks
    assert moments.to_bytes() == undisturbed(array, GROUPS)
    client.wait_for_workers(2, timeout=DEADLINE)
    assert victim not in client.run(os.getpid).values()


def test_a_task_that_fails_once_is_run_again(client, tmp_path):
    import dask.array as da

    array = da.from_array(X, chunks=150)
    failing = array.map_blocks(block_that_fails_once, str(tmp_path), dtype=float)
    moments = GroupMoments.from_rows(failing, GROUPS)
    assert len(list(tmp_path.iterdir())) == 4
    assert moments.to_bytes() == undisturbed(array, GROUPS)


@pytest.mark.long
def test_a_task_that_kills_every_worker_is_an_error_in_plain_words(client):
    import dask.array as da

    client.run_on_scheduler(lambda dask_scheduler: setattr(dask_scheduler, "allowed_failures", 0))
    array = da.from_array(X, chunks=600).map_blocks(
        block_that_kills_its_worker, meta=np.empty((0, 0))
    )
    try:
        with pytest.raises(FairspanError, match=r"killed repeatedly.*more partitions"):
            GroupMoments.from_rows(array, GROUPS)
    finally:
        client.run_on_scheduler(
            lambda dask_scheduler: setattr(dask_scheduler, "allowed_failures", 3)
        )
        client.wait_for_workers(2, timeout=DEADLINE)


@pytest.mark.long
def test_the_error_about_nan_names_partition_row_and_column(client):
    import dask.array as da
    import dask.dataframe as dd

    holes = label_by_sex()
    holes.loc[17 * 30 + 3, "c"] = np.nan
    # Rows of a frame are named by the pandas index of the whole table.
    expected = r"partition 17: X contains NaN, first in row 4 \(index 513\), column 'c'"
    with pytest.raises(InvalidInput, match=expected):
        GroupMoments.from_rows(dd.from_pandas(holes, npartitions=20), "sex")
    array = da.from_array(holes[NAMES].to_numpy(), chunks=30)
    with pytest.raises(
        InvalidInput, match=r"partition 17: X contains NaN, first in row 4 \(index 3\), col"
    ):
        GroupMoments.from_rows(array, GROUPS)


PARTS = [label_by_sex().iloc[:200], label_by_sex().iloc[200:400], label_by_sex().iloc[400:]]


@pytest.mark.long
@pytest.mark.parametrize(
    ("odd", "message"),
    [
        (PARTS[2].assign(b="text"), r"partition 2: Column 'b' is not numeric"),
        (PARTS[2].drop(columns="b"), r"partition 2: Column 'b' is missing"),
        (PARTS[2].drop(columns="sex"), r"partition 2: Column 'sex' is missing"),
        (
            PARTS[2].assign(sex=None),
            r"partition 2: The group label in row 1 \(index 0\) is missing",
        ),
        (PARTS[2].assign(sex=1), r"partitions 0 to 3: .*different types"),
    ],
)
def test_a_partition_of_another_kind_is_named(client, odd, message):
    with pytest.raises(InvalidInput, match=message):
        GroupMoments.from_rows(in_partitions([*PARTS[:2], odd]), "sex")


def test_blocks_of_another_width_are_named(client):
    import dask.array as da

    array = da.from_array(X, chunks=(200, 4)).map_blocks(lambda block: block[:, :3], dtype=float)
    with pytest.raises(InvalidInput, match=r"partition \d: X has shape"):
        GroupMoments.from_rows(array, GROUPS)


def test_lengths_that_differ(client):
    import dask.array as da
    import dask.dataframe as dd

    array = da.from_array(X, chunks=200)
    frames = dd.from_pandas(label_by_sex()[NAMES], npartitions=3)
    for labels in (GROUPS[:-1], da.from_array(GROUPS[:-1], chunks=200)):
        with pytest.raises(InvalidInput, match=r"Inconsistent lengths: 600 rows in X, 599"):
            GroupMoments.from_rows(array, labels)
    with pytest.raises(InvalidInput, match=r"Inconsistent lengths: 600 rows in X, 599"):
        GroupMoments.from_rows(frames, GROUPS[:-1])
    with pytest.raises(InvalidInput, match=r"sample_weight has shape \(599,\) for 600 rows"):
        GroupMoments.from_rows(frames, GROUPS, WEIGHTS[:-1])
    for labels in (
        dd.from_pandas(label_by_sex()["sex"], npartitions=2),
        da.from_array(GROUPS, chunks=60),
    ):
        with pytest.raises(InvalidInput, match="X has 3 partitions, but sensitive_features has"):
            GroupMoments.from_rows(frames, labels)
    shifted = da.from_array(GROUPS, chunks=((200, 199, 201),))
    with pytest.raises(InvalidInput, match=r"partition [12]: Inconsistent lengths: 200 rows"):
        GroupMoments.from_rows(frames, shifted)
    weights = da.from_array(WEIGHTS, chunks=((200, 199, 201),))
    with pytest.raises(InvalidInput, match=r"partition [12]: sample_weight has shape"):
        GroupMoments.from_rows(frames, GROUPS, weights)
    gap = dd.concat([frames.partitions[:1], frames[frames.a > 1e9].partitions[:1]])
    with pytest.raises(InvalidInput, match=r"partition 1: Inconsistent lengths: no rows in X, 400"):
        GroupMoments.from_rows(gap, da.from_array(GROUPS, chunks=((200, 400),)))


def never(block):
    raise AssertionError("nothing may be computed")


def lazy_array():
    import dask.array as da

    return da.from_array(X, chunks=200).map_blocks(never, dtype=float, meta=np.empty((0, 0)))


def lazy_frame():
    import dask.dataframe as dd

    rows = label_by_sex()
    return dd.from_pandas(rows, npartitions=3).map_partitions(never, meta=rows.iloc[:0])


@pytest.mark.parametrize(
    ("table", "groups", "error", "message"),
    [
        (lazy_frame, "gender", InvalidInput, r"no column 'gender'.*'sex'"),
        (lambda: lazy_frame()[["a", "b"]], None, InvalidInput, "sensitive_features is missing"),
        (lambda: lazy_frame().assign(t="a"), "sex", InvalidInput, r"Column 't' is not numeric"),
        (lambda: lazy_frame()[["sex"]], "sex", InvalidInput, "No feature columns are left"),
        (lazy_array, "sex", InvalidInput, "but X has no column names"),
        (lambda: lazy_array()[:, 0], GROUPS, InvalidInput, r"X has 1 dimension, "),
        (lambda: lazy_array()[:, :0], GROUPS, InvalidInput, r"0 feature\(s\)"),
        (lambda: lazy_array().astype(complex), GROUPS, InvalidInput, "complex"),
        (lambda: lazy_array().astype("M8[s]"), GROUPS, InvalidType, "dates"),
        (lambda: lazy_frame()["a"], GROUPS, InvalidType, "X is a Dask Series"),
        (bag, GROUPS, InvalidType, "X is a Dask Bag"),
        (
            lambda: lazy_array().map_blocks(scipy.sparse.csr_array),
            GROUPS,
            InvalidType,
            "of csr_array blocks",
        ),
    ],
)
def test_faults_in_the_metadata_are_refused_before_anything_is_computed(
    table, groups, error, message
):
    with pytest.raises(error, match=message):
        GroupMoments.from_rows(table(), groups)


@pytest.mark.parametrize("weight", ["nothing", "sex"])
def test_weights_that_are_no_column_or_no_numbers(client, weight):
    import dask.dataframe as dd

    with pytest.raises(InvalidInput, match=r"'nothing'|is not numeric"):
        GroupMoments.from_rows(dd.from_pandas(label_by_sex(g=GROUPS), npartitions=3), "g", weight)


@pytest.mark.long
def test_no_rows_at_all(client):
    import dask.dataframe as dd

    empty = dd.from_pandas(label_by_sex(), npartitions=3)
    with pytest.raises(InvalidInput, match="There are no rows"):
        GroupMoments.from_rows(empty[empty.a > 1e9], "sex")
    zero = dd.from_pandas(label_by_sex(w=0.0), npartitions=3)
    with pytest.raises(InvalidInput, match="There are no rows"):
        GroupMoments.from_rows(zero, "sex", "w")


FRAME = pd.DataFrame(X, columns=NAMES, index=np.arange(len(X)) * 2)


@cache
def fit_frame():
    return FairPCA(2, scale=True).fit(FRAME.assign(sex=GROUPS), sensitive_features="sex")


@cache
def fit_array():
    return FairPCA(2).fit(X, sensitive_features=GROUPS)


@pytest.mark.slow
def test_a_frame_stays_a_frame_with_its_index_and_divisions():
    import dask.dataframe as dd

    all_rows = dd.from_pandas(FRAME.assign(sex=GROUPS)[["sex", "d", "b", "c", "a"]], npartitions=5)
    reduced = fit_frame().transform(all_rows)
    assert isinstance(reduced, dd.DataFrame)
    assert list(reduced.columns) == ["fairpca0", "fairpca1"]
    assert reduced.divisions == all_rows.divisions
    assert (reduced.dtypes == np.float64).all()
    local = reduced.compute()
    pd.testing.assert_index_equal(local.index, FRAME.index)
    np.testing.assert_allclose(local, fit_frame().transform(FRAME), rtol=0, atol=1e-12)


@pytest.mark.parametrize("precision", [np.float64, np.float32, np.int16])
def test_an_array_stays_an_array_of_its_precision(precision):
    import dask.array as da

    values = X.astype(precision)
    reduced = fit_array().transform(da.from_array(values, chunks=(170, 3)))
    assert isinstance(reduced, da.Array)
    assert reduced.chunks == ((170, 170, 170, 90), (2,))
    expected = fit_array().transform(values)
    assert reduced.dtype == expected.dtype
    local = reduced.compute()
    assert local.dtype == expected.dtype
    np.testing.assert_allclose(local, expected, rtol=1e-6 if precision == np.float32 else 1e-12)


@pytest.mark.slow
def test_unknown_chunks_and_partitions_without_rows():
    import dask.array as da
    import dask.dataframe as dd

    all_rows = dd.from_pandas(FRAME, npartitions=4)
    some = all_rows[all_rows.a > 100]
    expected = fit_array().transform(X[X[:, 0] > 100])
    np.testing.assert_allclose(fit_array().transform(some.to_dask_array()).compute(), expected)
    gap = dd.concat([all_rows.partitions[:2], all_rows[all_rows.a > 1e9], all_rows.partitions[2:]])
    assert len(fit_frame().transform(gap).compute()) == len(X)
    single = da.from_array(X.astype(np.float32), chunks=100)
    holey = (
        fit_array().transform(da.concatenate([single[:100], single[:0], single[100:]])).compute()
    )
    assert (holey.shape, holey.dtype) == ((len(X), 2), np.float32)


def test_nothing_is_computed_before_it_is_requested():
    import dask.array as da
    import dask.dataframe as dd

    lazy = dd.from_pandas(FRAME, npartitions=3).map_partitions(never, meta=FRAME.iloc[:0])
    fit_frame().transform(lazy)
    with pytest.raises(InvalidInput, match="no column 'd'"):
        fit_frame().transform(lazy[["a", "b", "c"]])
    with pytest.raises(InvalidInput, match=r"'a' is not numeric"):
        fit_frame().transform(lazy.assign(a="text"))
    array = da.from_array(X, chunks=100).map_blocks(never, meta=np.empty((0, 0)))
    fit_array().transform(array)
    with pytest.raises(InvalidInput, match="X has 3 features, but the model expects 4"):
        fit_array().transform(array[:, :3])
    with pytest.raises(InvalidType, match="X is a Dask Series"):
        fit_frame().transform(lazy["a"])


def test_errors_name_the_partition():
    import dask.array as da
    import dask.dataframe as dd

    holes = FRAME.copy()
    holes.iloc[450, 2] = np.nan
    with pytest.raises(InvalidInput, match=r"partition 4: X contains NaN.*'c'"):
        fit_frame().transform(dd.from_pandas(holes, npartitions=6)).compute()
    with pytest.raises(InvalidInput, match="partition 4: X contains NaN"):
        fit_array().transform(da.from_array(holes.to_numpy(), chunks=100)).compute()
    frames = [FRAME, FRAME.drop(columns="b")]
    odd = dd.from_map(part_of, [0, 1], frames=frames, meta=FRAME.iloc[:0])
    with pytest.raises(InvalidInput, match=r"partition 1: .*no column 'b'"):
        fit_frame().transform(odd).compute()


def test_coordinates_are_reconstructed_lazily():
    import dask.array as da
    import dask.dataframe as dd

    coordinates = fit_array().transform(X)
    expected = fit_array().inverse_transform(coordinates)
    lazy = fit_array().inverse_transform(da.from_array(coordinates, chunks=(100, 1)))
    assert isinstance(lazy, da.Array)
    assert lazy.shape == X.shape
    np.testing.assert_allclose(lazy.compute(), expected)
    frames = fit_frame().transform(dd.from_pandas(FRAME, npartitions=3))
    np.testing.assert_allclose(
        fit_frame().inverse_transform(frames).compute(),
        fit_frame().inverse_transform(fit_frame().transform(FRAME)),
    )
    with pytest.raises(InvalidInput, match="coordinates, but the model expects 2"):
        fit_array().inverse_transform(da.from_array(X, chunks=100))


@pytest.mark.slow
def test_rows_are_scored_lazily():
    import dask.array as da
    import dask.dataframe as dd

    expected = fit_array().score_samples(X)
    lazy = fit_array().score_samples(da.from_array(X, chunks=(100, 3)))
    assert isinstance(lazy, da.Array)
    assert lazy.shape == (len(X),)
    np.testing.assert_allclose(lazy.compute(), expected)
    assert fit_array().score(da.from_array(X, chunks=100)) == pytest.approx(fit_array().score(X))
    all_rows = dd.from_pandas(FRAME.assign(sex=GROUPS), npartitions=3)
    series = fit_frame().score_samples(all_rows).compute()
    pd.testing.assert_index_equal(series.index, FRAME.index)
    np.testing.assert_allclose(series, fit_frame().score_samples(FRAME))
    assert fit_frame().score(all_rows) == pytest.approx(fit_frame().score(FRAME))


@pytest.mark.long
def test_on_a_cluster(client):
    import dask.array as da
    import dask.dataframe as dd

    # The last test, as from here on this process is connected to a cluster.
    all_rows = dd.from_pandas(FRAME, npartitions=5)
    np.testing.assert_allclose(
        fit_frame().transform(all_rows).compute(), fit_frame().transform(FRAME), rtol=0, atol=1e-12
    )
    array = da.from_array(X, chunks=100)
    np.testing.assert_allclose(fit_array().transform(array).compute(), fit_array().transform(X))


def test_scores_of_single_precision_are_double_as_those_of_rows_in_memory():
    import dask.array as da

    fair = FairPCA(2).fit(X.astype(np.float32), sensitive_features=GROUPS)
    single = X.astype(np.float32)
    local = fair.score_samples(single)
    distributed = fair.score_samples(da.from_array(single, chunks=100))
    assert distributed.dtype == local.dtype == np.float64
    np.testing.assert_array_equal(distributed.compute(), local)
    assert fair.transform(da.from_array(single, chunks=100)).dtype == np.float32
