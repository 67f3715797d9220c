"""Long work tells how far it has come, in Python as on the command line."""

import io
import sys
import time
from threading import Event, Thread

import numpy as np
import pytest
from somebody_elses_parts.weight_grid import WeightGrid

import fairspan as fs
from fairspan.progress import line as lines
from fairspan.progress import showing
from fairspan.progress.line import ProgressLine
from fairspan.progress.stages import Stage, listening, make_place, told


@pytest.fixture
def at_once(monkeypatch):
    """Without patience: every change is shown."""
    monkeypatch.setattr(lines, "_PATIENCE", -1.0)
    monkeypatch.setattr(lines, "_EVERY", -1.0)


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(5)
    groups = np.repeat(["a", "b", "c"], 60)
    X = rng.standard_normal((180, 6)) * np.linspace(3, 1, 6)
    X[groups == "b"] = X[groups == "b"][:, ::-1]
    return X, groups


def of(what, shown):
    return [line for line in shown if line.startswith(f"{what}: ")]


@pytest.mark.usefixtures("at_once")
def test_an_audit_tells_its_parts_and_the_fit_inside(rows):
    X, groups = rows
    fair = fs.FairPCA(2).fit(X, sensitive_features=groups)
    shown = []
    with fs.show_progress(shown.append):
        found = fs.audit(fair, X, groups, folds=7)
    parts = of("fitting again without each part", shown)
    assert any("3 of 7 parts (43 %)" in line for line in parts)
    assert any("; fitting minimax loss: " in line for line in parts)
    assert shown[-1] == ""
    assert found.to_dict() == fs.audit(fair, X, groups, folds=7).to_dict()


@pytest.mark.usefixtures("at_once")
def test_a_report_is_never_silent(rows, tmp_path):
    X, groups = rows
    shown = []
    with fs.show_progress(shown.append):
        fs.write_report(
            tmp_path / "r.html", X, groups, n_components=2, criteria=["minimax_error"], folds=5
        )
    for what, last in (
        ("comparing criteria", "1 of 2 criteria (50 %)"),
        ("fitting again without each part", "5 of 5 parts (100 %)"),
        ("comparing numbers of dimensions", "of 6 dimensions"),
    ):
        assert any(last in line for line in of(what, shown)), what
    assert shown[-1] == ""


class Recorder:
    """Keeps every stage that ended."""

    def __init__(self):
        self.open, self.ended, self.n_changes = [], [], 0

    def begin(self, stage):
        self.open.append(stage)

    def end(self, stage):
        self.open.remove(stage)
        self.ended.append(stage)

    def changed(self, n_eigenproblems=0):
        self.n_changes += 1
        if self.open:
            self.open[-1].n_eigenproblems += n_eigenproblems

    def hide(self):
        self.open.append("hidden")


@pytest.mark.parametrize(
    "solver",
    [fs.DualNewton(), fs.MultiplicativeWeights(max_iter=20), WeightGrid(31)],
    ids=lambda each: each.name,
)
def test_every_solver_is_counted_that_of_another_package_too(rows, solver):
    X, groups = rows
    some = groups != "c"
    recorder = Recorder()
    with listening(recorder):
        fair = fs.FairPCA(2, solver=solver).fit(X[some], sensitive_features=groups[some])
    (stage,) = recorder.ended
    assert stage.what == "fitting minimax loss"
    # Of those that the solution counts, some were known before: each group's own.
    assert stage.n_eigenproblems >= fair.solution_.n_eigenproblems - 2
    alone = fs.FairPCA(2, solver=solver).fit(X[some], sensitive_features=groups[some])
    np.testing.assert_array_equal(fair.components_, alone.components_)


def test_stages_end_where_work_fails():
    recorder = Recorder()
    with listening(recorder), pytest.raises(ZeroDivisionError), Stage("dividing"):
        1 / 0  # noqa: B018
    assert [stage.what for stage in recorder.ended] == ["dividing"]
    assert recorder.open == []


def test_items_are_told_after_they_are_done():
    recorder, done = Recorder(), []
    with listening(recorder):
        for item in told("going", ["a", "b", "c"]):
            done.append((item, recorder.open[0].done))
    assert done == [("a", 0), ("b", 1), ("c", 2)]


def shown_by(*seconds, columns=81):
    """A line that shows at these seconds, after two of patience."""
    shown = []
    return shown, ProgressLine(shown.append, lambda: columns, iter(seconds).__next__)


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        (81, "comparing: 3 of 9 criteria (33 %), 6 criteria/min, 60 s left; fitting: 10 s"),
        (61, "comparing: 33 %, 6 criteria/min, 60 s left; fitting: 10 s"),
        (42, "comparing: 33 %, 60 s left; fitting: 10 s"),
        (30, "comparing: 33 %, 60 s left"),
    ],
)
def test_of_stages_inside_each_other_the_last_is_shown_behind_the_first(columns, text):
    shown, line = shown_by(0, 0, 20, 30, columns=columns)
    with listening(line), Stage("comparing", 9, "criteria") as outer:
        outer.done = 3
        with Stage("fitting"):
            line.changed()
    assert shown == [text, ""]


def test_a_message_has_its_place():
    shown, line = shown_by(0, 0, 5, 9)
    with listening(line), Stage("fitting"):
        line.changed(7)
        make_place()
        assert shown == ["fitting: 7 eigenproblems, 5 s", ""]
        line.changed()
    assert shown[2:] == ["fitting: 7 eigenproblems, 9 s", ""]


def test_one_long_step_is_shown_though_it_says_nothing(monkeypatch):
    monkeypatch.setattr(lines, "_PATIENCE", -1.0)
    monkeypatch.setattr(showing, "_EVERY", 0.001)
    shown, seen = [], Event()

    def show(text):
        shown.append(text)
        seen.set()

    with fs.show_progress(show), Stage("solving"):
        assert seen.wait(30)
    assert shown[0].startswith("solving: ")
    assert shown[-1] == ""


def test_other_threads_are_not_told_of():
    """Somebody else's thread, which asked for no progress, shows none."""
    shown = []
    with fs.show_progress(shown.append):
        other = Thread(target=lambda: list(told("elsewhere", range(3))))
        other.start()
        other.join()
    assert shown == []


@pytest.mark.usefixtures("at_once")
def test_nothing_is_shown_where_no_terminal_is(rows, capfd):
    X, groups = rows
    with fs.show_progress():
        fs.FairPCA(2).fit(X, sensitive_features=groups)
    assert capfd.readouterr() == ("", "")


@pytest.mark.long
@pytest.mark.usefixtures("at_once")
def test_a_program_that_imports_what_notebooks_are_made_of_is_none(rows, capfd):
    import ipykernel.kernelapp  # noqa: F401  (it brings IPython, and no shell)

    X, groups = rows
    with fs.show_progress():
        fs.FairPCA(2).fit(X, sensitive_features=groups)
    assert capfd.readouterr() == ("", "")


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.usefixtures("at_once")
def test_a_terminal_has_the_line_and_is_left_clean(rows, monkeypatch):
    X, groups = rows
    monkeypatch.setattr(sys, "stderr", Terminal())
    with fs.show_progress():
        fs.FairPCA(2).fit(X, sensitive_features=groups)
    written = sys.stderr.getvalue()
    assert "\rfitting minimax loss: " in written
    assert written.split("\r")[-2:] == [" " * len(written.split("\r")[-2]), ""]


def test_it_is_over_when_it_fails():
    before = time.monotonic()
    with pytest.raises(RuntimeError), fs.show_progress(lambda text: None):
        raise RuntimeError
    with Stage("later") as stage:
        stage.add()
    assert stage._listener is None
    assert time.monotonic() >= before


NOTEBOOK = """
import numpy as np
import fairspan as fs
from fairspan.progress import line
line._PATIENCE = line._EVERY = -1.0
rng = np.random.default_rng(0)
X, groups = rng.normal(size=(90, 5)), np.repeat(["a", "b", "c"], 30)
with fs.show_progress():
    fs.FairPCA(2).fit(X, sensitive_features=groups)
"""


@pytest.mark.long
def test_a_notebook_shows_the_line_under_the_cell_and_clears_it():
    import nbformat
    from nbclient import NotebookClient

    updates = []

    class Client(NotebookClient):
        def process_message(self, msg, cell, cell_index):
            if msg["msg_type"] in ("display_data", "update_display_data"):
                updates.append(msg["content"]["data"]["text/plain"])
            return super().process_message(msg, cell, cell_index)

    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(NOTEBOOK)])
    Client(notebook, timeout=120, kernel_name="python3").execute()
    assert updates[0].startswith("fitting minimax loss: ")
    assert any(" eigenproblems, " in text for text in updates)
    assert updates[-1] == ""
    (output,) = notebook.cells[0].outputs
    assert output["output_type"] == "display_data"
    assert output["data"]["text/plain"] == ""
