"""Estimates of memory and time, and the assignments of folds that a limit leaves room for."""

import json

import numpy as np
import pytest

from fairspan import cli
from fairspan.errors import FairspanWarning, InvalidInput
from fairspan.linalg import memory
from fairspan.moments.fold_moments import compute_fold_moments
from fairspan.moments.group_moments import MomentsAggregator
from fairspan.rows.group_limit import GroupLimit
from fairspan.rows.opening import open_group_rows

GB = 10**9


def rows(n, p):
    return np.random.default_rng(0).standard_normal((n, p))


def test_memory_of_matrices_is_estimated_from_the_shape(monkeypatch):
    monkeypatch.setattr(memory, "memory_limit", lambda: 16 * GB)
    memory.check_memory(10**6, 20)
    memory.check_memory(2, 10_000, 5 * GB)
    for arguments, message in (
        ((2, 60_000), r"2 groups and 60,000 features need about 172\.8 GB"),
        ((10**6, 1000), r"1,000,000 groups.*Allowed: 16\.0 GB .*this machine"),
        ((2, 60_000, GB), r"days|hours|minutes"),
    ):
        with pytest.raises(InvalidInput, match=message):
            memory.check_memory(*arguments)


def test_parts_that_fit_are_refused_where_their_sum_does_not():
    X = rows(40, 300)
    groups = np.repeat(["a", "b", "c", "d"], 10)
    tally = MomentsAggregator(GroupLimit(max_memory=3 * 24 * 300**2))
    parts = [
        tally.aggregate(open_group_rows(X[start : start + 20], groups[start : start + 20]))
        for start in (0, 20)
    ]
    with pytest.raises(InvalidInput, match=r"matrices of 4 groups and 300 features"):
        tally.merge(*parts)


@pytest.mark.parametrize(
    ("command", "that_fit", "n_folds", "n_groups"),
    [
        pytest.param("audit", 10, 10, 2, marks=pytest.mark.slow),
        pytest.param("audit", 9, 5, 2, marks=pytest.mark.slow),
        ("audit", 9, 5, 4),
        pytest.param("audit", 5, 5, 2, marks=pytest.mark.slow),
        ("audit", 4, 0, 2),
        ("fit", 4, 0, 2),
        pytest.param("report", 5, 5, 2, marks=pytest.mark.slow),
    ],
)
def test_estimates_keep_to_the_memory_that_is_allowed(
    monkeypatch, tmp_path, capsys, command, that_fit, n_folds, n_groups
):
    p = 40
    folds = []

    def record_folds(rows, assigned, *args, **kwargs):
        folds.append(assigned.n_folds)
        return compute_fold_moments(rows, assigned, *args, **kwargs)

    monkeypatch.setattr("fairspan.auditing.fold_statistics.compute_fold_moments", record_folds)
    names = ",".join(f"c{i}" for i in range(p))
    table = np.column_stack([rows(120, p), np.arange(120) % n_groups])
    np.savetxt(tmp_path / "data.csv", table, "%.6g", ",", header=f"{names},g", comments="")
    words = [command, str(tmp_path / "data.csv"), "--group", "g", "-d", "2", "--json"]
    words += ["-o", str(tmp_path / "model")] if command == "fit" else []
    assert cli.run([*words, "--max-memory", str(that_fit * n_groups * 24 * p**2)]) == 0
    # Where best errors move with the folds, there are several assignments of as many.
    assert set(folds) == ({n_folds} if n_folds else set())
    findings = json.loads(capsys.readouterr().out)["findings"]
    messages = [finding["message"] for finding in findings if finding["code"] == "FS110"]
    assert bool(messages) == (not n_folds)
    for message in messages:
        assert all(fact in message for fact in ("5 folds", "0.4 MB", "max_memory is 0.3 MB"))


@pytest.mark.parametrize(
    ("minutes", "expected_text"),
    [(2, "2 minutes"), (119, "119 minutes"), (300, "5 hours"), (7200, "5 days")],
)
def test_durations_are_printed_in_a_readable_unit(monkeypatch, minutes, expected_text):
    monkeypatch.setattr("os.cpu_count", lambda: 4)  # which share the work
    n_rows = round(minutes * 60 * 4 * memory._OPERATIONS_PER_SECOND / (2 * 1000**2))
    with pytest.warns(FairspanWarning, match=f"about {expected_text}"):
        memory.warn_if_slow(n_rows, 1000)
