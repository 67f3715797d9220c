"""Pictures of expected losses: grey where rows cannot tell, and no interval to infinity."""

import numpy as np
import pytest

import fairspan as fs
from fairspan.drawing.error_curves import ErrorCurvePicture
from fairspan.drawing.labels import FAINT, PLAIN
from fairspan.drawing.losses import ExpectedLossPicture
from fairspan.errors import InvalidInput


def picture(values, low, high, states):
    return ExpectedLossPicture(
        groups=("a", "b", "c"),
        models=("PCA",),
        values=np.array([values], dtype=float),
        low=np.array([low], dtype=float),
        high=np.array([high], dtype=float),
        plain=(0,),
        quantity="expected loss",
        states=(states,),
    )


@pytest.fixture(scope="module")
def audit():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4)) * [3, 2, 1, 1]
    X[100:] = X[100:, ::-1]
    groups = np.repeat(["a", "b", "few"], [100, 198, 2])
    return fs.audit(fs.FairPCA(2).fit(X, sensitive_features=groups), X, groups)


def test_what_is_not_known_is_grey_and_leaves_the_axes_as_they_are():
    drawn = picture(
        [1.0, 5.0, np.nan],
        [0.5, -1e6, np.nan],
        [1.5, 1e6, np.nan],
        ("harmed", "cannot tell", "cannot tell"),
    ).plot()
    start, end = drawn.ax_.get_xlim()
    assert -10 < start < 0
    assert 1.5 < end < 10
    told, unknown = (each.get_color()[0] for each in drawn.ax_.collections)
    from matplotlib.colors import to_rgba

    assert tuple(told) == to_rgba(PLAIN.colour)
    assert tuple(unknown) == to_rgba(FAINT)
    arrows = [line.get_marker() for line in drawn.ax_.lines if line.get_marker() in "<>"]
    assert arrows == ["<", ">"]
    (text,) = (text for text in drawn.ax_.texts if "too few rows" in text.get_text())
    assert text.get_position()[1] == 2


def test_an_audit_shows_what_is_expected_where_it_is_known(audit):
    drawn = audit.picture()
    assert drawn.quantity == "expected loss"
    frame, records = drawn.frame(), audit.records()
    assert frame["state"].tolist() == [each["state"] for each in records]
    for ours, theirs in (("expected loss", "expected_loss"), ("low", "expected_loss_low")):
        known = [np.nan if each[theirs] is None else each[theirs] for each in records]
        assert frame[ours].to_numpy() == pytest.approx(np.array(known), nan_ok=True)
    assert audit.picture("error").quantity == "error"


def test_without_estimates_errors_on_the_rows_are_shown(audit):
    rng = np.random.default_rng(1)
    X, groups = rng.normal(size=(40, 3)), np.repeat(["a", "b"], 20)
    result = fs.audit(fs.FairPCA(1).fit(X, sensitive_features=groups), X, groups, folds=None)
    assert result.picture().quantity == "error"
    with pytest.raises(InvalidInput, match="no estimates for new rows"):
        result.picture("expected loss")


def test_curves_show_all_points_and_of_wide_bands_little():
    values = np.array([[1.0, 0.5, np.nan], [0.5, -2.0, np.nan]])
    ends = np.stack([values - 0.2, values + 0.2], axis=2)
    ends[1, 1] = -1e6, 1e6
    states = [["harmed", "minor", "cannot tell"], ["harmed", "cannot tell", "cannot tell"]]
    drawn = ErrorCurvePicture(
        np.array([1, 2]),
        ("a", "b", "few"),
        values,
        np.full((2, 3), np.nan),
        plain_interval=ends,
        plain_states=states,
        quantity="expected loss",
        plain_on_rows=np.ones((2, 3)),
        fair_on_rows=np.zeros((2, 3)),
    ).plot()
    start, end = drawn.axes_[0].get_ylim()
    assert -5 < start < -2
    assert 1.2 < end < 5
    grey = [line for line in drawn.axes_[1].lines if line.get_color() == FAINT]
    assert [line.get_ydata().tolist() for line in grey] == [[-2.0]]
    assert [text.get_text() for text in drawn.axes_[2].texts] == ["too few rows"]
    dotted = [line for line in drawn.axes_[2].lines if line.get_linestyle() == ":"]
    assert {line.get_color() for line in dotted} == {FAINT}
    frame = drawn.frame()
    assert frame["state"].tolist()[:6] == [state for row in states for state in row]
    assert frame["loss on the rows"].tolist() == [1.0] * 6 + [0.0] * 6
