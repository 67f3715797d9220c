"""A newcomer reads few files of the solvers to follow a fit of two groups."""

import ast
import sys
from pathlib import Path

import numpy as np
import pytest

import fairspan.solvers
from fairspan import FairPCA, GroupMoments

SOLVERS = Path(fairspan.solvers.__file__).parent
# Written down in the architecture of the project.
MOST_FILES, MOST_STATEMENTS = 7, 430


def two_groups():
    rng = np.random.default_rng(0)
    rows = np.vstack([rng.standard_normal((40, 6)) * scale for scale in ([3, 2, 1] * 2, range(6))])
    return GroupMoments.from_rows(rows, ["a"] * 40 + ["b"] * 40)


def two_groups_with_a_flat_edge():
    rows = np.array([[2.0, 0, 0], [0, 1.0, 0], [0, 0, 0.5]])
    return GroupMoments.from_rows(
        np.vstack([rows, -rows, rows[:, [1, 0, 2]], -rows[:, [1, 0, 2]]]), ["a"] * 6 + ["b"] * 6
    )


def files_that_run(fit):
    """Those of the solvers in which a function is called."""
    fit()  # what runs at import is not counted
    found = set()

    def note(frame, event, _):
        if event == "call":
            found.add(Path(frame.f_code.co_filename))

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        fit()
    finally:
        sys.setprofile(before)
    return sorted(path for path in found if SOLVERS in path.parents)


def n_statements(path):
    """Without docstrings."""
    nodes = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.stmt)]
    docstrings = [
        node
        for node in nodes
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    ]
    return len(nodes) - len(docstrings)


@pytest.mark.parametrize("moments", [two_groups(), two_groups_with_a_flat_edge()])
def test_a_fit_of_two_groups_runs_through_few_files_and_statements(request, moments):
    if request.config.getoption("--path") == "projected":
        pytest.skip("few features are solved without a subspace by default")
    files = files_that_run(lambda: FairPCA(2, criterion="minimax_loss").fit_moments(moments))
    assert 1 <= len(files) <= MOST_FILES
    assert sum(map(n_statements, files)) <= MOST_STATEMENTS
