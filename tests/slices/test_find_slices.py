"""Slices that lose most: found in one half of the rows, confirmed in the other."""

import json
from functools import cache

import numpy as np
import pandas as pd
import pytest
from sklearn.decomposition import PCA, KernelPCA

import fairspan as fs
from fairspan.auditing.in_sample import InSampleStatus
from fairspan.slices import find_slices as find_slices_module

SPREADS = [3.0, 2.0, 1.0, 1.0, 1.0]
# Loss of the planted rows, whose second and third features are exchanged, as a share of their
# variance: the model keeps 9 + 1 of 16, and the best subspace 9 + 4.
PLANTED_LOSS = 3 / 16


def draw_rows(seed, n=2000):
    """Draw rows with three attributes; one conjunction of the first two varies otherwise."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 5)) * SPREADS
    attributes = pd.DataFrame(rng.choice(["no", "yes"], (n, 3)), columns=["old", "rural", "north"])
    planted = (attributes["old"] == "yes") & (attributes["rural"] == "yes")
    X[planted] = X[planted][:, [0, 2, 1, 3, 4]]
    return X, attributes


# Of several searches or a large one; one example of each kind is left without.
slow = pytest.mark.slow


@cache
def planted_search():
    return fs.find_slices(np.eye(5)[:2], *draw_rows(0))


def test_a_planted_slice_is_confirmed_with_its_true_loss_in_the_interval():
    result = planted_search()
    (planted,) = result.confirmed
    assert planted.conditions == (("old", "yes"), ("rural", "yes"))
    assert planted.name == "old=yes & rural=yes"
    assert planted.loss_share.low < PLANTED_LOSS < planted.loss_share.high
    assert planted.loss_share.high - planted.loss_share.low < 0.15
    # Six of one attribute and twelve of two.
    assert result.n_searched == 18
    assert result.n_rows == 2000


def test_rows_of_a_slice_are_counted_in_both_halves():
    _, attributes = draw_rows(0)
    (planted,) = planted_search().confirmed
    n_rows = int(((attributes["old"] == "yes") & (attributes["rural"] == "yes")).sum())
    assert planted.n_rows == n_rows
    assert planted.proportion == pytest.approx(n_rows / 2000)
    assert planted_search().n_rows_confirming == 1000
    assert abs(planted.n_rows_confirming - n_rows / 2) < 60


@slow
def test_only_single_attributes_are_searched_at_depth_one():
    result = fs.find_slices(np.eye(5)[:2], *draw_rows(0), max_depth=1)
    assert result.n_searched == 6
    assert not any("&" in tested_slice.name for tested_slice in result.slices)


@slow
def test_columns_of_a_table_or_of_a_file_give_the_same_slices(tmp_path):
    X, attributes = draw_rows(0, n=1200)
    columns = list("abcde")
    table = pd.DataFrame(X, columns=columns).join(attributes)
    model = PCA(2).fit(pd.DataFrame(draw_rows(1, n=900)[0], columns=columns))
    names = ["old", "rural", "north"]
    separate = fs.find_slices(model, table[columns], attributes)
    table.to_csv(tmp_path / "rows.csv", index=False)
    assert fs.find_slices(model, table, names).to_dict() == separate.to_dict()
    in_file = fs.find_slices(model, tmp_path / "rows.csv", names)
    assert [tested_slice.name for tested_slice in in_file.slices] == [
        tested_slice.name for tested_slice in separate.slices
    ]
    assert separate.confirmed


@slow
def test_slices_that_lose_nothing_are_not_confirmed():
    n_tested = 0
    for seed in range(6):
        rng = np.random.default_rng([seed, 1])
        X = rng.standard_normal((600, 4)) * [3, 2, 1, 1]
        attributes = rng.choice(["a", "b", "c"], (600, 3))
        # The model is the best one for every slice.
        result = fs.find_slices(np.eye(4)[:2], X, attributes, materiality=0.0, min_rows=50)
        n_tested += len(result.slices)
        assert not result.confirmed
        assert "confirmed" in result.conclusion
    assert n_tested < 10


def test_a_large_error_is_not_a_loss():
    rng = np.random.default_rng(3)
    X = rng.standard_normal((2000, 4)) * [3, 2, 1, 1]
    noisy = rng.random(2000) < 0.3
    X[noisy] *= 2  # four times the error, in the same directions
    result = fs.find_slices(np.eye(4)[:2], X, np.where(noisy, "noisy", "clear"))
    assert not result.slices


@slow
def test_no_more_than_twenty_slices_are_tested():
    rng = np.random.default_rng(4)
    n = 6000
    letters = rng.integers(30, size=n)
    X = rng.standard_normal((n, 4)) * [3, 2, 1, 1]
    lossy = letters < 25
    X[lossy] = X[lossy][:, [2, 3, 0, 1]]
    result = fs.find_slices(np.eye(4)[:2], X, [f"l{code:02}" for code in letters])
    assert result.n_searched == 30
    assert len(result.slices) == 20
    assert len(result.confirmed) == 20
    assert all(
        int(confirmed_slice.conditions[0][1][1:]) < 25 for confirmed_slice in result.confirmed
    )
    losses = [confirmed_slice.loss_share.value for confirmed_slice in result.confirmed]
    assert losses == sorted(losses, reverse=True)


@slow
def test_rows_of_one_cluster_stay_in_one_half():
    X, attributes = draw_rows(2, n=1000)
    repeated = np.repeat(np.arange(1000), 3)
    result = fs.find_slices(
        np.eye(5)[:2], X[repeated], attributes.iloc[repeated], clusters=repeated
    )
    single = fs.find_slices(np.eye(5)[:2], X[repeated], attributes.iloc[repeated])
    assert result.n_rows_confirming % 3 == 0
    (by_cluster,) = result.confirmed
    (by_row,) = single.confirmed
    width_by_cluster = by_cluster.loss_share.high - by_cluster.loss_share.low
    assert width_by_cluster > 1.4 * (by_row.loss_share.high - by_row.loss_share.low)


def test_results_can_be_printed_and_written():
    result = planted_search()
    assert "old=yes & rural=yes" in repr(result)
    assert "One is confirmed to lose more than it must" in result.conclusion
    record = json.loads(json.dumps(result.to_dict()))
    assert record["slices"][0]["conditions"] == {"old": "yes", "rural": "yes"}
    frame = result.frame()
    assert len(frame) == len(result.slices)
    assert frame["is_confirmed"].sum() == 1
    assert "<table" in result._repr_html_()


@slow
def test_the_seed_decides_the_halves():
    X, attributes = draw_rows(0, n=1200)
    model = np.eye(5)[:2]
    first = fs.find_slices(model, X, attributes, random_state=1)
    repeated = fs.find_slices(model, X, attributes, random_state=1)
    other = fs.find_slices(model, X, attributes, random_state=2)
    assert first.to_dict() == repeated.to_dict()
    assert first.to_dict() != other.to_dict()


@slow
@pytest.mark.parametrize("scale", [False, True])
def test_rows_of_the_fit_are_refused(scale):
    X, attributes = draw_rows(0, n=800)
    model = fs.FairPCA(2, scale=scale).fit(X, sensitive_features=attributes["old"])
    with pytest.raises(fs.errors.InvalidInput, match="those of the fit"):
        fs.find_slices(model, X, attributes)
    with pytest.raises(fs.errors.InvalidInput, match="those of the fit"):
        fs.find_slices(model.subspace_, X[:700], attributes[:700])


def test_new_rows_that_seem_to_be_those_of_the_fit_are_accepted_by_force(monkeypatch):
    X, attributes = draw_rows(0, n=400)
    model = fs.FairPCA(2).fit(*draw_rows(1, n=400)[:1], sensitive_features=attributes["old"])
    # By chance, a model may fit new rows as closely as its own.
    seeming = InSampleStatus(in_sample=True, inferred=True)
    monkeypatch.setattr(find_slices_module, "in_sample_status", lambda *arguments: seeming)
    with pytest.raises(fs.errors.InvalidInput, match=r"seem to be .* pass force=True"):
        fs.find_slices(model, X, attributes)
    assert fs.find_slices(model, X, attributes, force=True).n_rows == 400


def test_rows_that_are_known_to_be_those_of_the_fit_are_refused_even_by_force():
    X, attributes = draw_rows(0, n=400)
    model = fs.FairPCA(2).fit(X, sensitive_features=attributes["old"])
    with pytest.raises(fs.errors.InvalidInput, match=r"those of the fit\. Allowed") as error:
        fs.find_slices(model, X, attributes, force=True)
    assert "force" not in str(error.value)


def test_errors_name_the_arguments_and_options_that_a_search_has(tmp_path):
    X, attributes = draw_rows(0, n=200)
    model = np.eye(5)[:2]
    table = pd.DataFrame(X, columns=list("abcde")).join(attributes)
    table.to_csv(tmp_path / "rows.csv", index=False)
    with_gap = X.copy()
    with_gap[3, 1] = np.nan
    calls = [
        (X, attributes[:150]),
        (X, "old"),
        (X, attributes.replace("yes", None)),
        (with_gap, attributes),
        (table[:2], ["old", "rural"]),
        (X, 5),
        (X, np.zeros((200, 2, 2))),
        (X, pd.date_range("2020", periods=200)),
        (table[list("abcde")], attributes[::-1]),
        (tmp_path / "rows.csv", "east"),
        (tmp_path / "rows.csv", attributes),
    ]
    for rows, labels in calls:
        with pytest.raises(fs.errors.FairspanError) as error:
            fs.find_slices(model, rows, labels)
        message = str(error.value)
        assert "sensitive_features" not in message
        assert 'on_missing="em"' not in message
        assert "max_groups" not in message


def test_bad_input_is_refused_with_a_remedy():
    X, attributes = draw_rows(0, n=200)
    model = np.eye(5)[:2]
    with pytest.raises(fs.errors.InvalidInput, match=r"has 200 values.*Bin continuous values"):
        fs.find_slices(model, X, X[:, 0])
    with pytest.raises(fs.errors.InvalidInput, match="attributes is None"):
        fs.find_slices(model, X, None)
    with pytest.raises(fs.errors.InvalidParameter, match="max_depth is 0"):
        fs.find_slices(model, X, attributes, max_depth=0)
    with pytest.raises(fs.errors.InvalidParameter, match="on_missing is 'em'"):
        fs.find_slices(model, X, attributes, on_missing="em")
    with pytest.raises(fs.errors.InvalidInput, match="is missing"):
        fs.find_slices(model, X, attributes.replace("yes", None))
    kernel = KernelPCA(2, kernel="rbf", fit_inverse_transform=True).fit(X)
    with pytest.raises(fs.errors.IncompatibleParameters, match="not a projection"):
        fs.find_slices(kernel, X, attributes)


def test_a_table_without_slices_of_enough_rows_has_none():
    X, attributes = draw_rows(0, n=200)
    result = fs.find_slices(np.eye(5)[:2], X, attributes, min_rows=150)
    assert result.slices == ()
    assert repr(result) == "No slice has enough rows to be searched."
