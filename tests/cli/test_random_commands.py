"""Command lines of plausible and odd words: answered, or refused in one message."""

import contextlib
import io

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from fairspan import FairPCA, FairSubspace, GroupMoments, cli, verify
from spoiling import ODD_VALUES, answered_or_refused, spoilt_bytes

FRAME = pd.DataFrame(np.random.default_rng(0).standard_normal((40, 4)), columns=list("wxyz"))
FRAME["g"] = ["a", "b"] * 20
MOMENTS = GroupMoments.from_rows(FRAME, "g")
COMMANDS = ["audit", "fit", "moments", "merge", "transform", "verify"]
DATA = ["rows.csv", "old.moments", "fair.model"]
# These write where they are told, or start processes.
NOT_TRIED = {"-o", "--jobs"}
PLAUSIBLE = ["g", "w", "1", "2", "0.9", "minimax_loss", "error_gap", "penalty=0.5", "w*"]
PLAUSIBLE += [",", ";", "latin-1", "utf-16", "#", "drop", "ignore", "mean_parity", "none", "1e-6"]
PLAUSIBLE += ["trade_off=NaN", "penalty=[1,2]", "protected=b", '{"a":1}', "radius=1e400"]
ODD = [str(value).replace("\0", "") for value in ODD_VALUES]
PARAMETERS = {
    "robust_error_gap": b"penalty=0.5\nradius.a=0.1\nradius.b=0.2",
    "error_gap": b"penalty=2e-3",
    "disparity": b"trade_off=0.3\nprotected=b",
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    inside = tmp_path / "inside"
    inside.mkdir()
    monkeypatch.chdir(inside)
    FRAME.to_csv("rows.csv", index=False)
    FairPCA(2).fit_moments(MOMENTS).subspace_.save("fair.model")
    MOMENTS.save("old.moments")
    yield inside
    assert list(tmp_path.iterdir()) == [inside]


def run(words):
    """Status and all that is printed; nobody is shown a traceback."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said), answered_or_refused():
        status = cli.run(words)
    assert "Traceback" not in said.getvalue(), words
    return status, said.getvalue()


@st.composite
def command_lines(draw):
    name, data = draw(st.sampled_from(COMMANDS)), draw(st.sampled_from(DATA))
    words = [name, *({"transform": ["fair.model"], "verify": ["fair.model"]}.get(name, [])), data]
    if name == "merge":
        words.append("old.moments")
    if name not in ("audit", "verify"):
        words += ["-o", "out.csv" if name == "transform" else "out"]
    if data == "rows.csv" and name not in ("merge", "transform"):
        words += ["--group", "g"]
    options = [each for each in cli.fairspan.commands[name].params if each.opts[0][0] == "-"]
    for option in draw(st.lists(st.sampled_from(options), max_size=2)):
        assume(not NOT_TRIED.intersection(option.opts))
        words.append(option.opts[0])
        if not option.is_flag:
            words.append(draw(st.sampled_from(PLAUSIBLE) | st.sampled_from(ODD)))
    return words


@given(words=command_lines())
def test_a_command_line_is_answered_or_refused(folder, words):
    status, said = run(words)
    assert status in ((0, 1, 2) if words[0] == "verify" else (0, 2)), (words, said)
    assert {path.name for path in folder.iterdir()} <= {*DATA, "out", "out.csv"}


@given(data=st.data(), criterion=st.sampled_from(sorted(PARAMETERS)))
def test_parameters_are_refused_or_give_a_certificate_that_holds(folder, data, criterion):
    text = data.draw(st.just(PARAMETERS[criterion]) | spoilt_bytes(PARAMETERS[criterion]))
    lines = text.decode(errors="surrogateescape").splitlines()
    given = [word for line in lines for word in ("--param", line)]
    where = ["fit", "old.moments", "--force", "-d", "2", "-o", "out", "--criterion", criterion]
    status, said = run([*where, *given])
    assert status in (0, 2), (given, said)
    if status == 0:
        model = FairSubspace.load(folder / "out")
        assert verify(model, MOMENTS).holds
