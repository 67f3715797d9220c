"""Dask collections on a real cluster of two processes: the same moments, models and audits."""

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

import fairspan as fs
from by_hand import assert_moments, moments_by_hand, projector_distance
from fairspan import FairPCA, GroupMoments
from fairspan.errors import InvalidInput
from fairspan.moments.group_moments import MomentsTally
from fairspan.rows.protocol import PartedRows
from fairspan.rows.registry import rows_of
from rows.dask_cluster import lines_of_docs, rows

# Older Dask warns where a test asks for another scheduler than the cluster on purpose.
pytestmark = pytest.mark.filterwarnings("ignore:Running on a single-machine scheduler")

X, GROUPS, WEIGHTS = rows()
NAMES = ["a", "b", "c", "d"]
# What depends on which rows are left out together.
OF_FOLDS = (
    *("expected_error", "expected_error_low", "expected_error_high", "expected_best_error"),
    *("expected_loss", "expected_loss_low", "expected_loss_high", "cross_fitted_loss", "state"),
)
AGES = np.random.default_rng(5).choice([20, 40], len(X))


def frame():
    return pd.DataFrame(X, columns=NAMES).assign(sex=GROUPS, age=AGES, w=WEIGHTS)


def collection(columns=(*NAMES, "sex"), npartitions=7):
    return dd.from_pandas(frame()[list(columns)], npartitions=npartitions)


def array(chunks=(90, 3)):
    return da.from_array(X, chunks=chunks)


def unknown_chunks():
    return dd.from_pandas(frame()[NAMES], npartitions=5).to_dask_array()


ARRAYS = {
    "chunks": array(),
    "one chunk": array((len(X), 4)),
    "unknown chunks": unknown_chunks(),
    "an empty block": da.concatenate([array()[:300], array()[:0], array()[300:]]),
}
BESIDE = {
    "numpy": lambda values: values,
    "list": lambda values: values.tolist(),
    "pandas": pd.Series,
    "dask array": lambda values: da.from_array(values, chunks=47),
}


@pytest.mark.long
@pytest.mark.parametrize("beside", BESIDE)
@pytest.mark.parametrize("kind", ["chunks", "one chunk", "an empty block"])
def test_arrays_with_labels_and_weights_beside_them(client, kind, beside):
    put = BESIDE[beside]
    moments = GroupMoments.from_rows(ARRAYS[kind], put(GROUPS), put(WEIGHTS))
    assert_moments(moments, moments_by_hand(X, GROUPS, WEIGHTS))
    assert moments.feature_names is None


@pytest.mark.long
def test_an_array_of_unknown_chunks(client):
    moments = GroupMoments.from_rows(ARRAYS["unknown chunks"], GROUPS.tolist(), WEIGHTS)
    assert_moments(moments, moments_by_hand(X, GROUPS, WEIGHTS))
    sex = dd.from_pandas(frame()["sex"], npartitions=5)
    assert_moments(
        GroupMoments.from_rows(ARRAYS["unknown chunks"], sex), moments_by_hand(X, GROUPS)
    )


def test_two_columns_of_labels_are_crossed(client):
    crossed = list(zip(GROUPS.tolist(), AGES.tolist(), strict=True))
    expected = moments_by_hand(X, crossed)
    frame_moments = GroupMoments.from_rows(collection([*NAMES, "sex", "age"]), ["sex", "age"])
    assert_moments(frame_moments, expected)
    labels = np.array(crossed, dtype=object)
    assert_moments(GroupMoments.from_rows(array(), labels), expected)
    chunked = da.from_array(labels, chunks=(47, 1))
    assert_moments(GroupMoments.from_rows(array(), chunked), expected)
    assert_moments(GroupMoments.from_rows(collection(NAMES), collection(["sex", "age"])), expected)


def test_data_frames_with_named_columns(client):
    moments = GroupMoments.from_rows(collection([*NAMES, "sex", "w"]), "sex", "w")
    assert_moments(moments, moments_by_hand(X, GROUPS, WEIGHTS))
    assert moments.feature_names == tuple(NAMES)


@pytest.mark.parametrize("beside", ["numpy", "list", "pandas", "series"])
def test_data_frames_with_labels_and_weights_beside_them(client, beside):
    labels, weights = collection(["sex", "w"])["sex"], collection(["sex", "w"])["w"]
    if beside != "series":
        labels, weights = BESIDE[beside](GROUPS), BESIDE[beside](WEIGHTS)
    moments = GroupMoments.from_rows(collection(NAMES), labels, weights)
    assert_moments(moments, moments_by_hand(X, GROUPS, WEIGHTS))


def test_single_precision_is_summed_in_double(client):
    single = X.astype(np.float32)
    expected = moments_by_hand(single.astype(np.float64), GROUPS)
    chunked = da.from_array(single, chunks=90)
    assert_moments(GroupMoments.from_rows(chunked, GROUPS), expected)
    frames = dd.from_pandas(pd.DataFrame(single, columns=NAMES).assign(sex=GROUPS), npartitions=4)
    assert_moments(GroupMoments.from_rows(frames, "sex"), expected)


def test_groups_that_are_not_in_every_partition_and_partitions_without_rows(client):
    ordered = frame().sort_values("sex", ignore_index=True)[[*NAMES, "sex"]]
    whole = dd.from_pandas(ordered, npartitions=9)
    with_gap = dd.concat([whole.partitions[:4], whole[whole.a > 1e9], whole.partitions[4:]])
    expected = moments_by_hand(X, GROUPS)
    assert_moments(GroupMoments.from_rows(with_gap, "sex"), expected)
    # A partition all of whose weights are zero is one without rows.
    weights = np.where(np.arange(len(X)) < 90, 0.0, WEIGHTS)
    moments = GroupMoments.from_rows(array(), GROUPS, da.from_array(weights, chunks=90))
    assert_moments(moments, moments_by_hand(X, GROUPS, weights))


def test_rows_with_missing_cells_are_dropped_and_counted(client):
    holes = frame()[[*NAMES, "sex"]]
    holes.loc[[3, 599], "b"] = np.nan
    holes.loc[77, "sex"] = None
    whole = ~holes.isna().any(axis=1)
    rows = rows_of(dd.from_pandas(holes, npartitions=4), "sex", on_missing="drop")
    moments = rows.tallied(MomentsTally())
    assert_moments(moments, moments_by_hand(X[whole], GROUPS[whole]))
    assert moments.intake.n_dropped == 3


def test_every_scheduler_gives_the_same_bits(client):
    on_cluster = GroupMoments.from_rows(collection(), "sex").to_bytes()
    for scheduler in ("threads", "synchronous"):
        with dask.config.set(scheduler=scheduler):
            assert GroupMoments.from_rows(collection(), "sex").to_bytes() == on_cluster


def test_a_fit_on_a_cluster_is_the_fit_on_the_rows(client):
    here = FairPCA().fit(frame()[[*NAMES, "sex"]], sensitive_features="sex")
    there = FairPCA().fit(collection(), sensitive_features="sex")
    assert projector_distance(there.components_, here.components_) <= 1e-7
    np.testing.assert_array_equal(there.feature_names_in_, NAMES)
    np.testing.assert_allclose(there.group_losses_, here.group_losses_, rtol=1e-7)
    # The group column is passed over where it is present, here as there.
    np.testing.assert_allclose(
        there.transform(frame()[[*NAMES, "sex"]]), here.transform(frame()[NAMES]), atol=1e-9
    )


def test_ordinary_pca_without_groups(client):
    plain = FairPCA(missing_groups="ignore", criterion="total_error").fit(collection(NAMES))
    again = FairPCA(missing_groups="ignore", criterion="total_error").fit(array())
    here = FairPCA(missing_groups="ignore", criterion="total_error").fit(X)
    assert projector_distance(plain.components_, here.components_) <= 1e-7
    assert projector_distance(again.components_, here.components_) <= 1e-7
    with pytest.raises(InvalidInput, match="sensitive_features is missing"):
        FairPCA().fit(collection(NAMES))


def test_partial_fit_adds_partitions_to_those_before(client):
    whole = collection()
    model = FairPCA().partial_fit(whole.partitions[:3], sensitive_features="sex")
    model.partial_fit(whole.partitions[3:], sensitive_features="sex")
    assert_moments(model.moments_, moments_by_hand(X, GROUPS))
    model.partial_fit(collection(["b", "a", "c", "d", "sex"]), sensitive_features="sex")
    assert_moments(model.moments_, moments_by_hand(np.vstack([X, X]), [*GROUPS, *GROUPS]))
    with pytest.raises(InvalidInput, match="Allowed: the features of the rows before"):
        model.partial_fit(collection(["a", "b", "c", "sex"]), sensitive_features="sex")


@pytest.mark.long
def test_an_audit_on_a_cluster_is_the_audit_on_the_rows_with_its_intervals(client):
    model = FairPCA().fit(frame()[[*NAMES, "sex"]], sensitive_features="sex")
    # Columns in another order, and more of them: they are matched by name.
    more = collection(["sex", "d", "c", "age", "b", "a", "w"])
    for weight in (None, "w"):
        here = fs.audit(model, frame(), "sex", sample_weight=weight)
        there = fs.audit(model, more, "sex", sample_weight=weight)
        first = here.records()[0]
        assert first["error_here_low"] < first["error_here"] < first["error_here_high"]
        # How many rows are in the partitions before nobody knows: other rows are left out together.
        assert_same_figures(there, here, but=OF_FOLDS)


@pytest.mark.long
def test_rows_are_left_out_together_by_position_or_by_cluster(client):
    ids = frame().assign(id=np.arange(len(X)))
    by_cluster = {"sensitive_features": "sex", "clusters": "id"}
    columns = [*NAMES, "sex", "id"]
    model = FairPCA().fit(ids[[*NAMES, "sex"]], sensitive_features="sex")
    here = fs.audit(model, ids[columns], **by_cluster)
    assert_same_figures(
        fs.audit(model, dd.from_pandas(ids[columns], npartitions=7), **by_cluster), here
    )
    model = FairPCA().fit(X, sensitive_features=GROUPS)
    assert_same_figures(fs.audit(model, array(), GROUPS), fs.audit(model, X, GROUPS))


def assert_same_figures(audit, expected, but=()):
    for one, other in zip(expected.records(), audit.records(), strict=True):
        for name in set(one) - set(but):
            value = one[name]
            close = pytest.approx(value, rel=1e-9) if isinstance(value, float) else value
            assert other[name] == close, name


def test_rows_are_opened_once_and_can_be_read_again(client):
    rows = rows_of(collection(), "sex")
    assert isinstance(rows, PartedRows)
    assert (rows.n_features, rows.feature_names, rows.n_rows) == (4, tuple(NAMES), None)
    assert rows_of(array(), GROUPS).n_rows == len(X)
    first, second = (rows.tallied(MomentsTally()).to_bytes() for _ in range(2))
    assert first == second


def test_columns_with_numbers_for_names(client):
    unnamed = dd.from_pandas(pd.DataFrame(X), npartitions=3)
    moments = GroupMoments.from_rows(unnamed, GROUPS)
    assert_moments(moments, moments_by_hand(X, GROUPS))
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
    here = FairPCA(10).fit(wide, sensitive_features="sex")
    assert projector_distance(names["fair"].components_, here.components_) <= 1e-7
