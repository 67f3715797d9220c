"""Rows in Spark DataFrameAdapter, in a real session, against numpy and pandas on the same rows."""

import os
import shutil
import sys
import warnings
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import fairspan as fs
from fairspan.cross_decomposition import FairCCA, FairPLS, verify_pairs
from fairspan.errors import InvalidInput, InvalidParameter, InvalidType, MissingDependency
from fairspan.moments.group_moments import MomentsAggregator
from fairspan.rows.opening import open_group_rows
from numpy_reference import assert_moments, projector_distance, random_rows, reference_moments
from rows.dask_cluster import lines_of_docs
from rows.source_cases import CASES

# PySpark leaves a socket of its own open now and then.
pytestmark = pytest.mark.filterwarnings(
    "ignore:PySpark does not yet fully support pandas", "ignore:unclosed:ResourceWarning"
)

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "4",
}


@pytest.fixture(scope="module")
def spark():
    """One session for a module: two cores, and a task may fail twice before the job does."""
    missing = _find_missing_requirement()
    if missing is not None:
        if os.environ.get("FAIRSPAN_REQUIRE_SPARK") == "1":
            pytest.fail(f"Spark was asked for, but {missing}")
        pytest.skip(f"{missing}; run: ./run test --with spark")
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master("local[2,3]").appName("fairspan")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas")
        session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


def _find_missing_requirement():
    try:
        import pyspark  # noqa: F401
    except ImportError:
        return "the extra 'spark' is not installed"
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        return "there is no Java"
    return None


ROWS = random_rows(7, n=300, p=4, groups=("f", "m"))
NAMES = ["a", "b", "with.point", "d`tick"]


def table():
    frame = pd.DataFrame(ROWS.X, columns=NAMES)
    return frame.assign(sex=ROWS.labels.astype(str), w=ROWS.weights, id=np.arange(300))


def on_spark(spark, frame, partitions=5):
    """Return a Spark DataFrame whose partitions hold consecutive rows."""
    columns = [frame[name].tolist() for name in frame.columns]
    rows = list(zip(*columns, strict=True))
    chunks = spark.sparkContext.parallelize(rows, partitions)
    return spark.createDataFrame(chunks, schema_of(frame))


def schema_of(frame):
    kinds = {"f": "double", "i": "bigint", "b": "boolean", "O": "string", "U": "string"}
    single = {np.dtype("float32"): "float", np.dtype("int16"): "smallint"}
    return ", ".join(
        f"`{name.replace('`', '``')}` "
        + (single.get(kind) or kinds.get(getattr(kind, "kind", "O"), "string"))
        for name, kind in frame.dtypes.items()
    )


@pytest.mark.parametrize("case", CASES)
def test_the_moments_and_the_fit_of_every_case(case, spark):
    rows = CASES[case]
    frame = rows.frame()
    frame["g"] = [None if label is None else str(label) for label in rows.labels]
    frame["g"] = frame["g"].astype(object).where(frame["g"].notna(), None)
    rows.check(on_spark(spark, frame, 7), "g", rows.weight)


def test_numbers_of_every_kind_count(spark):
    bits = np.arange(40) % 3 == 0
    frame = pd.DataFrame({"i": np.arange(40, dtype=np.int16), "t": bits, "x": np.arange(40) / 8})
    rows = on_spark(spark, frame.assign(g=np.where(np.arange(40) % 2, "u", "v")), 3)
    rows = rows.selectExpr("i", "t", "cast(x as decimal(10, 4)) as x", "g")
    assert rows.first()["x"] == Decimal("0")
    expected = reference_moments(frame.to_numpy(dtype=float), np.where(np.arange(40) % 2, "u", "v"))
    assert_moments(fs.GroupMoments.from_rows(rows, "g"), expected)


@pytest.mark.parametrize("attributes", [["sex"], ["sex", "age"]])
def test_equal_means_in_each_class_of_y(attributes, spark):
    frame = table().assign(age=np.arange(300) % 5 % 2, y=np.arange(300) % 7 % 2)
    frame = frame.drop(columns=["w", "id"] if len(attributes) > 1 else ["w", "id", "age"])
    rows = on_spark(spark, frame)
    parity = fs.MeanParity(within_classes=[1], attributes="marginal")
    model = fs.FairPCA(1, criterion="total_error", restriction=parity)
    model.fit(rows, "y", sensitive_features=attributes)
    expected = fs.FairPCA(1, criterion="total_error", restriction=parity)
    expected.fit(frame, "y", sensitive_features=attributes)
    np.testing.assert_allclose(model.components_, expected.components_, atol=1e-9)
    assert fs.verify(model, rows, attributes, y="y").holds
    assert fs.verify(model, model.moments_).holds
    with pytest.raises(InvalidInput, match="not in memory"):
        model.fit(rows, frame["y"], sensitive_features=attributes)


def test_several_attributes_are_crossed_and_partitions_may_be_empty(spark):
    frame = table().assign(age=np.where(np.arange(300) % 3, 20, 40)).drop(columns=["w", "id"])
    crossed = list(zip(frame["sex"], frame["age"].tolist(), strict=True))
    rows = (
        on_spark(spark, frame, 4).where("a > -1e9").union(on_spark(spark, frame, 2).where("false"))
    )
    moments = fs.GroupMoments.from_rows(rows, ["sex", "age"])
    assert_moments(moments, reference_moments(ROWS.X, crossed))
    assert moments.feature_names == tuple(NAMES)


def test_results_that_are_fetched_one_by_one_give_the_same_bits_every_time(spark):
    rows = on_spark(spark, table().drop(columns=["id"]), 11)
    once = fs.GroupMoments.from_rows(rows, "sex", "w")
    assert_moments(once, reference_moments(ROWS.X, ROWS.labels, ROWS.weights))
    assert fs.GroupMoments.from_rows(rows, "sex", "w").to_bytes() == once.to_bytes()


def test_no_rows_at_all(spark):
    with pytest.raises(InvalidInput, match="There are no rows"):
        fs.GroupMoments.from_rows(on_spark(spark, table()).where("false"), "sex")


def test_rows_without_groups_are_ordinary_pca(spark):
    frame = table().drop(columns=["sex", "w", "id"])
    fair = fs.FairPCA(2, missing_groups="ignore").fit(on_spark(spark, frame))
    plain = fs.FairPCA(2, missing_groups="ignore").fit(frame)
    assert projector_distance(fair.components_, plain.components_) < 1e-7


def test_fit_audit_and_transform_equal_those_on_pandas(spark):
    frame = table()
    distributed = on_spark(spark, frame)
    # Limits of intervals are compared to nine digits, so that solutions need more.
    model = fs.FairPCA(2, tol=1e-12)
    columns = {"sensitive_features": "sex", "sample_weight": "w"}
    fair = clone(model).fit(distributed.drop("id"), **columns)
    plain = clone(model).fit(frame.drop(columns="id"), **columns)
    assert projector_distance(fair.components_, plain.components_) < 1e-7

    # Rows have no positions in Spark, so that by these other rows would be left out together.
    settings = {"sensitive_features": "sex", "sample_weight": "w", "clusters": "id"}
    on_cluster = fs.audit(fair, distributed, **settings).to_records()
    local = fs.audit(fair, frame, **settings).to_records()
    for one, other in zip(on_cluster, local, strict=True):
        assert one.keys() == other.keys()
        for name, value in one.items():
            expected = other[name]
            is_number = isinstance(expected, float)
            assert value == (pytest.approx(expected, rel=1e-9) if is_number else expected), name

    reduced = fair.transform(distributed)
    assert reduced.columns == ["fairpca0", "fairpca1", "id"]
    collected = pd.DataFrame(reduced.collect(), columns=reduced.columns).sort_values("id")
    np.testing.assert_allclose(
        collected[["fairpca0", "fairpca1"]].to_numpy(), fair.transform(frame[[*NAMES]]), atol=1e-12
    )
    # A bare subspace cannot know which column was the group.
    carried = fair.subspace_.transform(distributed).columns
    assert carried == ["fairpca0", "fairpca1", "sex", "w", "id"]


def test_transform_refuses_what_it_cannot_reduce(spark):
    subspace = fs.FairPCA(2).fit(ROWS.X, sensitive_features=ROWS.labels).subspace_
    features = on_spark(spark, table()[NAMES])
    assert subspace.transform(features).columns == ["fairpca0", "fairpca1"]
    with pytest.raises(InvalidInput, match="X has 3 features, but the model expects 4"):
        subspace.transform(features.drop("a"))
    subspace_of_frame = fs.FairPCA(2).fit(table()[NAMES], sensitive_features=ROWS.labels).subspace_
    with pytest.raises(InvalidInput, match="no column 'a'"):
        subspace_of_frame.transform(features.drop("a"))
    with pytest.raises(InvalidInput, match=r"fairpca0.*clash"):
        subspace_of_frame.transform(features.selectExpr("*", "1 as fairpca0"))
    with pytest.raises(InvalidInput, match="Column 'a' is not numeric \\(string\\)"):
        subspace_of_frame.transform(features.withColumn("a", features["b"].cast("string")))


def test_an_error_names_partition_row_and_column(spark):
    frame = table().drop(columns=["w", "id"])
    frame.loc[130:, "b"] = np.nan  # the partitions hold 60 rows each
    with pytest.raises(InvalidInput) as error:
        fs.FairPCA(2).fit(on_spark(spark, frame), sensitive_features="sex")
    assert (
        error.value.args[0] == "partition 2: X contains NaN, first in row 11 (index 10), column 'b'"
    )
    assert len(error.value.args) == 3


def test_missing_labels_are_an_error_or_dropped_and_counted(spark):
    frame = table().drop(columns=["w", "id"])
    frame["sex"] = frame["sex"].astype(object)
    frame.loc[[70, 71, 299], "sex"] = None
    rows = on_spark(spark, frame)
    with pytest.raises(
        InvalidInput, match=r"partition 1: The group label in row 11 \(index 10\) is missing"
    ):
        fs.GroupMoments.from_rows(rows, "sex")
    moments = fs.GroupMoments.from_rows(rows, "sex", on_missing="drop")
    labeled = np.setdiff1d(np.arange(300), [70, 71, 299])
    assert_moments(moments, reference_moments(ROWS.X[labeled], ROWS.labels[labeled]))
    assert moments.n_dropped == 3


def test_text_arrays_and_names_are_refused_before_a_job_starts(spark):
    rows = on_spark(spark, table())
    before = spark.sparkContext.statusTracker().getJobIdsForGroup()
    with pytest.raises(InvalidInput, match="Column 'sex' is not numeric \\(string\\)"):
        fs.GroupMoments.from_rows(rows, "id")
    with pytest.raises(
        InvalidInput,
        match=r"'v' is not numeric \(array<double>\).*Split the vector into columns",
    ):
        fs.GroupMoments.from_rows(rows.selectExpr("array(a, b) as v", "sex"), "sex")
    with pytest.raises(InvalidInput, match="no column 'sexx'"):
        fs.GroupMoments.from_rows(rows, "sexx")
    with pytest.raises(InvalidInput, match="same name: 'a'"):
        fs.GroupMoments.from_rows(rows.selectExpr("a", "b as a", "sex"), "sex")
    with pytest.raises(InvalidParameter, match="a Spark DataFrame, but its groups"):
        fs.GroupMoments.from_rows(rows, ROWS.labels)
    with pytest.raises(InvalidType, match="X is a pyspark RDD"):
        fs.GroupMoments.from_rows(spark.sparkContext.parallelize([1]), "sex")
    assert spark.sparkContext.statusTracker().getJobIdsForGroup() == before


def test_a_worker_that_dies_once_costs_nothing(spark, tmp_path):
    class Dying(MomentsAggregator):
        """Ends the process of the first task that has read its rows."""

        def aggregate(self, rows):
            moments = super().aggregate(rows)
            try:
                flag = os.open(tmp_path / "died", os.O_CREAT | os.O_EXCL)
            except FileExistsError:
                return moments
            os.close(flag)
            os._exit(1)

    rows = open_group_rows(on_spark(spark, table().drop(columns=["id"])), "sex", "w")
    recovered = rows.aggregate(Dying())
    assert (tmp_path / "died").exists()
    assert recovered.to_bytes() == rows.aggregate(MomentsAggregator()).to_bytes()


def test_a_worker_names_its_missing_package(spark):
    rows = open_group_rows(on_spark(spark, table()), "sex", "w")

    class Lacking(MomentsAggregator):
        def aggregate(self, rows):
            import there_is_no_such_package  # noqa: F401

    with pytest.raises(MissingDependency, match="there_is_no_such_package"):
        rows.aggregate(Lacking())


def test_the_lines_that_the_documentation_shows(spark, tmp_path, monkeypatch):
    wide = pd.DataFrame(np.random.default_rng(3).normal(size=(300, 12)))
    wide = wide.rename(columns=lambda i: f"x{i}").assign(sex=ROWS.labels.astype(str))
    wide.to_parquet(tmp_path / "people")
    monkeypatch.chdir(tmp_path)
    path = str(tmp_path / "people")  # Spark's process has a folder of its own
    lines = lines_of_docs("people = spark.read").replace('"people/"', repr(path))
    names = {"fs": fs, "spark": spark}
    exec(lines, names)
    local = fs.FairPCA(10).fit(wide, sensitive_features="sex")
    assert projector_distance(names["fair"].components_, local.components_) < 1e-7
    assert names["reduced"].columns == [f"fairpca{i}" for i in range(10)]


@pytest.mark.parametrize("kind", [FairPLS, FairCCA])
def test_two_tables_in_one_spark_frame(kind, spark):
    frame = table().drop(columns="id")
    rows = on_spark(spark, frame)
    targets = ["d`tick", "b"]
    model = kind(1).fit(rows, targets, sensitive_features="sex", sample_weight="w")
    of_pandas = kind(1).fit(frame, targets, sensitive_features="sex", sample_weight="w")
    moments = fs.GroupMoments.from_rows(rows, "sex", sample_weight="w")
    of_moments = kind(1).fit_moments(moments, targets)
    for other in (of_pandas, of_moments):
        assert list(model.feature_names_in_) == list(other.feature_names_in_)
        for ours, theirs in (
            (model.x_weights_, other.x_weights_),
            (model.y_weights_, other.y_weights_),
            (model.group_losses_, other.group_losses_),
        ):
            np.testing.assert_allclose(ours, theirs, atol=1e-6)
        assert model.solution_.objective == pytest.approx(other.solution_.objective, rel=1e-9)
    assert model.solution_.status == "optimal"
    result = verify_pairs(model, rows, targets, sensitive_features="sex", sample_weight="w")
    assert result.holds, str(result)
    # Spark carries the other columns along, as rows have no order by which to match them again.
    scores = model.transform(rows).select(*model.get_feature_names_out()).collect()
    np.testing.assert_allclose(np.array(scores), of_pandas.transform(frame), atol=1e-6)
