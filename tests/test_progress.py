"""Long work shows how far it has come: by a bar, or by lines where there is no terminal."""

import io
import re
import threading
import warnings
from contextlib import contextmanager, redirect_stderr

import numpy as np
import pytest
from somebody_elses_parts.weight_grid import WeightGrid

import fairspan as fs
from fairspan import progress
from fairspan.errors import FairspanWarning, warn
from fairspan.extending import Stage


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def terminal():
    return Terminal()


@contextmanager
def show_progress_on(terminal):
    """Show progress on standard error, which is this terminal."""
    with redirect_stderr(terminal), fs.show_progress():
        yield


@pytest.fixture
def immediate_progress(monkeypatch):
    """Show every change."""
    monkeypatch.setattr(progress, "_DELAY", 0)
    monkeypatch.setattr(progress, "_INTERVAL", 0)


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(5)
    groups = np.repeat(["a", "b", "c"], 20)
    X = rng.standard_normal((60, 6)) * np.linspace(3, 1, 6)
    X[groups == "b"] = X[groups == "b"][:, ::-1]
    return X, groups


def line_texts(terminal):
    """Return all texts that lines had, one after the other."""
    return [part.strip() for part in re.split(r"[\r\n]", terminal.getvalue()) if part.strip()]


def final_lines(terminal):
    """Return the lines that a terminal shows in the end, after overwriting."""
    lines = []
    for line in terminal.getvalue().split("\n"):
        cells = ""
        for part in line.split("\r"):
            cells = part + cells[len(part) :]
        lines.append(cells.rstrip())
    return [line for line in lines if line]


@pytest.mark.usefixtures("immediate_progress")
def test_an_audit_shows_its_parts_and_the_fit_inside_and_leaves_nothing(rows, terminal):
    X, groups = rows
    fair = fs.FairPCA(2).fit(X, sensitive_features=groups)
    with show_progress_on(terminal):
        result = fs.audit(fair, X, groups, folds=5)
    parts = [line for line in line_texts(terminal) if line.startswith("refitting without each")]
    assert any("| 3/5 [" in line for line in parts), parts
    assert any("fitting minimax loss: 2 eigenproblems" in line for line in parts)
    assert final_lines(terminal) == []
    assert result.to_dict() == fs.audit(fair, X, groups, folds=5).to_dict()


@pytest.mark.slow
@pytest.mark.usefixtures("immediate_progress")
def test_a_report_names_its_steps(rows, terminal, tmp_path):
    X, groups = rows
    with show_progress_on(terminal):
        fs.write_report(
            tmp_path / "r.html", X, groups, n_components=2, compare=["minimax_error"], folds=5
        )
    lines = line_texts(terminal)
    for step in (
        "comparing criteria: 1 criteria",
        "refitting without each fold: 5 folds",
        "comparing numbers of dimensions: 6 dimensions",
    ):
        assert any(step in line for line in lines), step
    # One bar, of all steps, which never goes back and has not ended before the page is there.
    percentages = [int(re.match(r"making the report: +(\d+)%", line)[1]) for line in lines]
    assert percentages == sorted(percentages)
    assert 50 < percentages[-1] < 100
    assert final_lines(terminal) == []


@pytest.mark.usefixtures("immediate_progress")
@pytest.mark.parametrize(
    "solver",
    [fs.DualNewton(), fs.MultiplicativeWeights(max_iter=20), WeightGrid(31)],
    ids=lambda solver: solver.name,
)
def test_every_solver_is_counted_that_of_another_package_too(rows, terminal, solver):
    X, groups = rows
    some = groups != "c"
    with show_progress_on(terminal):
        fair = fs.FairPCA(2, solver=solver).fit(X[some], sensitive_features=groups[some])
    counts = re.findall(r"fitting minimax loss: (\d+) eigenproblems", terminal.getvalue())
    # Of those that the solution counts, some were known before: each group's own.
    assert int(counts[-1]) >= fair.solution_.n_eigenproblems - 2
    alone = fs.FairPCA(2, solver=solver).fit(X[some], sensitive_features=groups[some])
    np.testing.assert_array_equal(fair.components_, alone.components_)


def test_steps_shorter_than_the_delay_are_not_shown(rows, terminal, monkeypatch):
    X, groups = rows
    monkeypatch.setattr(progress, "_DELAY", 3600.0)
    with show_progress_on(terminal):
        fs.FairPCA(2, criterion="total_error").fit(X, sensitive_features=groups)
    assert terminal.getvalue() == ""


@pytest.mark.usefixtures("immediate_progress")
def test_no_thread_is_started(terminal):
    before = threading.active_count()
    with show_progress_on(terminal), Stage("counting", 3) as stage:
        stage.advance()
        assert threading.active_count() == before
    assert line_texts(terminal)


@pytest.mark.usefixtures("immediate_progress")
def test_nothing_is_shown_where_no_terminal_is(rows, capfd):
    X, groups = rows
    with fs.show_progress():
        fs.FairPCA(2, criterion="total_error").fit(X, sensitive_features=groups)
    assert capfd.readouterr() == ("", "")


def test_progress_is_written_as_lines_without_a_terminal(rows, capfd, monkeypatch):
    X, groups = rows
    monkeypatch.setattr(progress, "_LINE_INTERVAL", 0)
    fair = fs.FairPCA(2).fit(X, sensitive_features=groups)
    with fs.show_progress():
        fs.audit(fair, X, groups, folds=5)
    lines = capfd.readouterr().err.splitlines()
    message = r"fairspan: .*: 3 of 5 folds, about \d+ s left .*"
    assert any(re.fullmatch(message, line) for line in lines), lines


@pytest.mark.long
@pytest.mark.usefixtures("immediate_progress")
def test_a_program_that_imports_what_notebooks_are_made_of_is_none(rows, capfd):
    import ipykernel.kernelapp  # noqa: F401  (it brings IPython, and no shell)

    X, groups = rows
    with fs.show_progress():
        fs.FairPCA(2).fit(X, sensitive_features=groups)
    assert capfd.readouterr() == ("", "")


@pytest.mark.usefixtures("immediate_progress")
def test_the_work_of_other_threads_is_not_shown(terminal):
    """A thread that did not request progress shows none."""

    def work():
        with Stage("elsewhere", 1) as stage:
            stage.advance()

    with show_progress_on(terminal):
        other = threading.Thread(target=work)
        other.start()
        other.join()
    assert terminal.getvalue() == ""


@pytest.mark.usefixtures("immediate_progress")
def test_it_is_over_when_work_fails(terminal):
    def divide():
        with show_progress_on(terminal), Stage("dividing", 2) as stage:
            stage.advance()
            return 1 / 0

    with pytest.raises(ZeroDivisionError):
        divide()
    assert "dividing" in terminal.getvalue()
    assert final_lines(terminal) == []
    before = terminal.getvalue()
    with Stage("later", 1) as stage:
        stage.advance()
    assert terminal.getvalue() == before


@pytest.mark.usefixtures("immediate_progress")
def test_a_warning_has_a_line_of_its_own(terminal):
    with warnings.catch_warnings():
        warnings.simplefilter("always", FairspanWarning)
        warnings.showwarning = lambda message, *_: terminal.write(f"{message}\n")
        with show_progress_on(terminal), Stage("reading", 9) as stage:
            stage.advance()
            warn("look here")
            stage.advance()
    assert final_lines(terminal) == ["look here"]
    assert re.match(r"reading:  22%.* 2/9 ", line_texts(terminal)[-1])


NOTEBOOK = """
import numpy as np, fairspan as fs, fairspan.progress as progress
progress._DELAY = progress._INTERVAL = 0
rng = np.random.default_rng(0)
X, groups = rng.normal(size=(90, 5)), np.repeat(["a", "b", "c"], 30)
with fs.show_progress():
    fs.FairPCA(2).fit(X, sensitive_features=groups)
"""


@pytest.mark.long
def test_a_notebook_shows_the_bar_under_the_cell_and_clears_it():
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(NOTEBOOK)])
    NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    terminal = Terminal()
    for output in notebook.cells[0].outputs:
        assert output["output_type"] == "stream"
        terminal.write(output["text"])
    assert any(
        re.match(r"fitting minimax loss: \d+ eigenpr", line) for line in line_texts(terminal)
    )
    assert final_lines(terminal) == []


def test_the_line_of_a_log_shows_the_time_of_a_fit_of_unknown_length(rows, monkeypatch, capsys):
    monkeypatch.setattr(progress, "_DELAY", 0)
    monkeypatch.setattr(progress, "_LINE_INTERVAL", 0)
    X, groups = rows
    with fs.show_progress():
        fs.FairPCA(2, criterion="total_error").fit(X, sensitive_features=groups)
    assert re.fullmatch(
        r"(fairspan: fitting total error \.\.\. \(\d+ s\)\n)+", capsys.readouterr().err
    )
