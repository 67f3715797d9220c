"""The memory needed is checked before work, and running out of it is an error of fairspan."""

import re

import numpy as np
import pytest
import scipy.sparse

from case_selection import parametrize_diagonal
from fairspan import FairPCA, GroupMoments, audit, cli, verify, write_report
from fairspan.errors import FairspanWarning, InvalidInput, InvalidParameter, InvalidType
from numpy_reference import trace_peak_memory


def rows(n, p, kind="dense"):
    X = np.random.default_rng(0).standard_normal((n, p))
    return scipy.sparse.csr_array(X * (X > 2)) if kind == "sparse" else X


@parametrize_diagonal(weights=[None, np.ones(40)], kind=["dense", "sparse", "frame"])
def test_too_large_matrices_are_never_allocated(kind, weights):
    X = rows(40, 300, kind)
    if kind == "frame":
        pandas = pytest.importorskip("pandas")
        X = pandas.DataFrame(X)
    groups = np.arange(40) % 4
    GroupMoments.from_rows(X[:4] if kind != "frame" else X.iloc[:4], groups[:4])  # imports
    room = 24 * 300**2  # one group
    with trace_peak_memory() as peak:
        for too_little in (room - 1, 4 * room - 1):
            with pytest.raises(InvalidInput, match=r"\(max_memory\).* raise the .*max_memory="):
                GroupMoments.from_rows(X, groups, weights, max_memory=too_little)
        assert peak() < room
    assert GroupMoments.from_rows(X, groups, weights, max_memory=4 * room).n_groups == 4


def test_computing_moments_takes_no_more_memory_than_estimated():
    p = 400
    groups = np.arange(800) % 2
    for weights in (None, np.ones(800)):
        X = rows(800, p)
        with trace_peak_memory() as peak:
            GroupMoments.from_rows(X, groups, weights)
            # Beside the matrices, blocks of rows.
            assert peak() < 2 * 24 * p**2 + 2 * X.nbytes


@pytest.mark.parametrize(
    ("value", "error"), [("2", InvalidType), (True, InvalidType), (0, InvalidParameter)]
)
def test_max_memory_is_an_integer(value, error):
    with pytest.raises(error, match=f"max_memory is {value!r}"):
        GroupMoments.from_rows(rows(4, 2), [0, 1, 0, 1], max_memory=value)


def run_out_of_memory(*args, **kwargs):
    raise MemoryError("Unable to allocate 26.8 GiB for an array")


@pytest.mark.parametrize(
    "where", ["fairspan.moments.accumulate._sum_by_code", "fairspan.cli.inputs.open_input"]
)
def test_the_command_line_tells_it_wherever_it_happens(monkeypatch, tmp_path, capsys, where):
    (tmp_path / "data.csv").write_text("x,y,g\n1,2,a\n2,1,b\n4,4,a\n0,3,b\n")
    monkeypatch.setattr(where, run_out_of_memory)
    assert cli.run(["audit", str(tmp_path / "data.csv"), "--group", "g"]) == 2
    assert re.search("Memory ran out|Out of memory", capsys.readouterr().err)


def test_work_of_more_than_a_minute_is_reported_beforehand(monkeypatch):
    monkeypatch.setattr("fairspan.linalg.memory._OPERATIONS_PER_SECOND", 1e4)  # a slow machine
    with pytest.warns(FairspanWarning, match="40 rows and 300 features takes about .* this mach"):
        GroupMoments.from_rows(rows(40, 300), np.arange(40) % 2)


def test_no_warning_of_a_long_computation_precedes_a_refusal(monkeypatch):
    monkeypatch.setattr(
        "fairspan.linalg.memory._OPERATIONS_PER_SECOND", 1e4
    )  # a warning would be an error here
    with pytest.raises(InvalidInput, match=r"matrices of 1 group"):
        GroupMoments.from_rows(rows(40, 300), np.arange(40) % 2, max_memory=1000)


@pytest.mark.slow
def test_no_partition_is_read_where_not_even_one_group_fits():
    array = pytest.importorskip("dask.array")
    blocks_read = []

    def block(block_info=None):
        blocks_read.append(block_info)
        return rows(20, 300)

    X = array.map_blocks(block, chunks=((20, 20), (300,)), dtype=float, meta=np.empty((0, 0)))
    with pytest.raises(InvalidInput, match=r"matrices of 1 group and 300 features"):
        GroupMoments.from_rows(X, np.arange(40) % 2, max_memory=24 * 300**2 - 1)
    assert not blocks_read
    GroupMoments.from_rows(X, np.arange(40) % 2, max_memory=2 * 24 * 300**2)
    assert len(blocks_read) == 2


@pytest.fixture(scope="module")
def moments():
    return GroupMoments.from_rows(rows(40, 3), np.arange(40) % 2)


@pytest.fixture(scope="module")
def model(moments):
    return FairPCA(1).fit_moments(moments)


@pytest.mark.parametrize(
    ("where", "work"),
    [
        (
            "fairspan.moments.accumulate._sum_by_code",
            lambda *_: GroupMoments.from_rows(rows(8, 3), [0, 1] * 4, np.ones(8)),
        ),
        (
            "fairspan.estimator.fit.finish_fit",
            lambda moments, _: FairPCA(1).fit_moments(moments),
        ),
        (
            "fairspan.moments.row_moments.group_sparse_rows",
            lambda *_: FairPCA(1).fit(
                rows(330, 2000, "sparse"), sensitive_features=np.arange(330) % 2
            ),
        ),
        (
            "fairspan.moments.wide.row_indices_by_group",
            lambda *_: FairPCA(1).fit(rows(30, 600), sensitive_features=np.arange(30) % 2),
        ),
        (
            "fairspan.moments.fold_moments.merge_moments",
            lambda _, model: audit(model, rows(40, 3), np.arange(40) % 2),
        ),
        (
            "fairspan.auditing.stages.evaluate_on_moments",
            lambda moments, model: audit(model, moments=moments),
        ),
        (
            "fairspan.moments.group_moments.merge_moments",
            lambda moments, _: moments + moments,
        ),
        (
            "fairspan.moments.group_moments.GroupMoments.second_moments_about",
            lambda moments, model: verify(model, moments),
        ),
        (
            "fairspan.report.build.fit_criteria",
            lambda *_: write_report("never.html", rows(40, 3), ["a", "b"] * 20),
        ),
    ],
)
def test_running_out_of_memory_is_an_error_of_ours_wherever_it_happens(
    monkeypatch, moments, model, where, work
):
    monkeypatch.setattr(where, run_out_of_memory)
    with pytest.raises(InvalidInput, match=r"Out of memory .*26\.8 GiB"):
        work(moments, model)


@pytest.mark.parametrize("kind", ["moments", "model"])
def test_a_sound_file_that_does_not_fit_is_not_called_corrupt(
    monkeypatch, tmp_path, moments, model, kind
):
    original = moments if kind == "moments" else model.subspace_
    original.save(tmp_path / "file")
    monkeypatch.setattr("fairspan.storage.archive._read_array", run_out_of_memory)
    with pytest.raises(InvalidInput, match="Out of memory"):
        type(original).load(tmp_path / "file")


def test_running_out_of_memory_in_a_worker_names_the_part(monkeypatch, tmp_path):
    for name in "ab":
        (tmp_path / f"{name}.csv").write_text("x,y,g\n1,2,a\n2,1,b\n4,4,a\n")
    monkeypatch.setattr("fairspan.moments.accumulate._sum_by_code", run_out_of_memory)
    with pytest.raises(InvalidInput, match=r"a\.csv: Out of memory"):
        GroupMoments.from_rows(tmp_path, "g")
