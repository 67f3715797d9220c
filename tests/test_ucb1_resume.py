"""A search that is continued: in memory, from a file, after a kill; files that are not its own."""

import json
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from by_hand import random_rows
from fairspan import ErrorGap, FairPCA
from fairspan.errors import CorruptFile, FairspanWarning, InvalidInput
from fairspan.rows.fingerprint import fingerprint
from fairspan.selection import UCB1SearchCV

ROWS = random_rows(61, n=60, p=4)
X, GROUPS = ROWS.X, ROWS.labels
GRID = {"n_components": [1, 2, 3]}


def search(n_pulls, **settings):
    given = {"param_grid": GRID, "n_pulls": n_pulls, "random_state": 3}
    return UCB1SearchCV(FairPCA(), **(given | settings))


def fit(model):
    return model.fit(X, sensitive_features=GROUPS)


def assert_same(first, second):
    np.testing.assert_array_equal(first.arms_, second.arms_)
    for name, values in first.cv_results_.items():
        if not name.endswith("_time"):
            np.testing.assert_array_equal(values, second.cv_results_[name])
    assert first.best_params_ == second.best_params_


@pytest.fixture
def fits(monkeypatch):
    """Counts the fits of FairPCA."""
    made = []
    original = FairPCA.fit

    def counted(self, *args, **kwargs):
        made.append(self)
        return original(self, *args, **kwargs)

    monkeypatch.setattr(FairPCA, "fit", counted)
    return made


def test_a_larger_budget_continues_in_memory(fits):
    whole = fit(search(20, refit=False))
    parts = fit(search(8, refit=False, warm_start=True))
    del fits[:]
    fit(parts.set_params(n_pulls=20))
    assert len(fits) == 12
    assert_same(parts, whole)
    # Without warm_start it starts over; a smaller budget is the beginning of the larger.
    del fits[:]
    fit(parts.set_params(warm_start=False))
    assert len(fits) == 20
    del fits[:]
    assert_same(fit(parts.set_params(warm_start=True, n_pulls=8)), fit(search(8, refit=False)))
    assert len(fits) == 8


@pytest.mark.parametrize("seed", [3, None])
def test_a_larger_budget_continues_from_a_file(tmp_path, fits, seed):
    path = tmp_path / "search.json"
    first = fit(search(8, checkpoint=path, random_state=seed))
    del fits[:]
    again = fit(search(20, checkpoint=str(path), random_state=seed, refit=False))
    assert len(fits) == 12
    np.testing.assert_array_equal(again.arms_[:8], first.arms_)
    assert list(tmp_path.iterdir()) == [path]
    drawn = json.loads(path.read_text())["seed"]
    assert_same(again, fit(search(20, random_state=drawn)))
    # A smaller budget takes the beginning and leaves the file as it is.
    before = path.read_bytes()
    assert_same(fit(search(8, checkpoint=path, random_state=seed)), first)
    assert path.read_bytes() == before


def test_an_interrupted_search_keeps_what_it_has(tmp_path):
    def scorer(model, rows, y=None):
        scorer.calls += 1
        if scorer.calls == 10:
            raise KeyboardInterrupt
        return model.score(rows)

    path, scorer.calls = tmp_path / "search.json", 0
    with pytest.raises(KeyboardInterrupt):
        fit(search(20, checkpoint=path, scoring=scorer))
    assert len(json.loads(path.read_text())["pulls"]) == 9
    assert_same(fit(search(20, checkpoint=path, scoring=scorer)), fit(search(20)))
    # The interrupted tenth was tried again, and nothing else.
    assert scorer.calls == 9 + 1 + 11


ENDLESS = """
import sys
import numpy as np
from fairspan import FairPCA
from fairspan.selection import UCB1SearchCV

X = np.load(sys.argv[1])
UCB1SearchCV(
    FairPCA(), {"n_components": [1, 2, 3]}, n_pulls=10**9, random_state=3, checkpoint=sys.argv[2]
).fit(X, sensitive_features=np.arange(len(X)) % 2)
"""


@pytest.mark.long
@pytest.mark.counts  # the other process takes the dense path, whose digits are compared
def test_a_killed_search_goes_on_in_another_process(tmp_path, fits):
    path, rows = tmp_path / "search.json", tmp_path / "rows.npy"
    np.save(rows, X)
    process = subprocess.Popen([sys.executable, "-c", ENDLESS, str(rows), str(path)])
    try:
        deadline = time.monotonic() + 100
        while not path.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
    finally:
        process.kill()
        process.wait()
    kept = len(json.loads(path.read_text())["pulls"])
    assert kept > 0
    n_pulls = max(kept, 3) + 5
    resumed = search(n_pulls, checkpoint=path, refit=False)
    resumed.fit(X, sensitive_features=np.arange(len(X)) % 2)
    assert len(fits) == n_pulls - kept
    again = search(n_pulls, refit=False).fit(X, sensitive_features=np.arange(len(X)) % 2)
    assert_same(resumed, again)


def test_failures_are_kept(tmp_path, fits):
    path = tmp_path / "search.json"
    grid = {"n_components": [1, 9]}
    for n_pulls in (4, 8):
        with pytest.warns(FairspanWarning, match="1 of 2 settings failed"):
            fitted = fit(search(n_pulls, param_grid=grid, checkpoint=path, refit=False))
        assert fitted.cv_results_["n_pulls"].tolist() == [n_pulls - 1, 1]
    assert [len(fits), path.exists()] == [8, True]
    # A search in which all failed leaves no file: the reason may be gone next time.
    with pytest.raises(InvalidInput, match="All 2 settings"):
        search(4, checkpoint=tmp_path / "none.json", param_grid=grid).fit(X)
    assert not (tmp_path / "none.json").exists()


OTHER = {
    "rows": lambda model: model.fit(X + 1e-9, sensitive_features=GROUPS),
    "groups": lambda model: model.fit(X, sensitive_features=GROUPS[::-1]),
    "target": lambda model: model.fit(X, X[:, 0], sensitive_features=GROUPS),
    "weights": lambda model: model.fit(X, sensitive_features=GROUPS, sample_weight=ROWS.weights),
    "grid": lambda model: fit(model.set_params(param_grid={"n_components": [1, 2]})),
    "seed": lambda model: fit(model.set_params(random_state=4)),
    "test_size": lambda model: fit(model.set_params(test_size=0.5)),
    "estimator": lambda model: fit(model.set_params(estimator__scale=True)),
    "scoring": lambda model: fit(model.set_params(scoring=OTHER_SCORE)),
}


def OTHER_SCORE(model, rows, y=None):  # noqa: N802 - a constant of this file
    return model.score(rows)


@pytest.mark.parametrize("case", OTHER)
def test_pulls_of_another_search_are_refused(case, tmp_path):
    path = tmp_path / "search.json"
    fit(search(5, checkpoint=path))
    before = path.read_bytes()
    with pytest.raises(InvalidInput, match=r"search\.json were made with other data or settings"):
        OTHER[case](search(5, checkpoint=path))
    assert path.read_bytes() == before
    with pytest.raises(InvalidInput, match=r"this search \(warm_start=True\) were made with other"):
        OTHER[case](fit(search(5, warm_start=True)))


def altered(document, **changes):
    return json.dumps(document | changes)


CORRUPT = {
    "truncated": lambda document: json.dumps(document)[:-20],
    "empty": lambda document: "",
    "a list": lambda document: "[1]",
    "of another kind": lambda document: altered(document, format="fairspan.moments"),
    "newer": lambda document: altered(document, version=2),
    "without pulls": lambda document: altered(document, pulls=None),
    "an arm too many": lambda document: altered(
        document, pulls=[document["pulls"][0] | {"arm": 3}]
    ),
    "no arm": lambda document: altered(document, pulls=[document["pulls"][0] | {"arm": -1}]),
    "no score": lambda document: altered(document, pulls=[document["pulls"][0] | {"score": "1"}]),
    "NaN": lambda document: altered(
        document, pulls=[document["pulls"][0] | {"score": float("nan")}]
    ),
    "unknown field": lambda document: altered(document, pulls=[document["pulls"][0] | {"a": 1}]),
}


@pytest.mark.parametrize("case", CORRUPT)
def test_corrupt_files(case, tmp_path):
    path = tmp_path / "search.json"
    fit(search(5, checkpoint=path))
    text = CORRUPT[case](json.loads(path.read_text()))
    path.write_text(text)
    with pytest.raises(CorruptFile, match=r"Delete it to start the search over"):
        fit(search(5, checkpoint=path))
    assert path.read_text() == text


def test_files_that_cannot_be(tmp_path):
    (tmp_path / "bytes.json").write_bytes(b"\xff\xfe\x00")
    for name in ("bytes.json", "."):
        with pytest.raises(CorruptFile, match="cannot be read"):
            fit(search(5, checkpoint=tmp_path / name))
    with pytest.raises(FileNotFoundError):
        fit(search(5, checkpoint=tmp_path / "missing" / "search.json"))


@pytest.mark.long
def test_fingerprints():
    same = [
        (X, X.copy(order="F")),
        (pd.DataFrame(X), pd.DataFrame(X).copy()),
        (pl.DataFrame({"a": ["x", None]}), pl.DataFrame({"a": ["x", None]})),
        (scipy.sparse.csr_array(X), scipy.sparse.csc_array(X)),
        (
            make_pipeline(StandardScaler(), Ridge(2)),
            clone(make_pipeline(StandardScaler(), Ridge(2))),
        ),
        ({"b": 1, "a": len}, {"a": len, "b": 1}),
        (object(), object()),
        (np.array(["a", None], dtype=object), np.array(["a", None], dtype=object)),
        (ErrorGap(2.0), ErrorGap(2.0)),
    ]
    for first, second in same:
        assert fingerprint(first) == fingerprint(second)
    other = [
        (X, X.T),
        (X, X.astype(np.float32)),
        (pd.DataFrame({"a": [1]}), pd.DataFrame({"b": [1]})),
        (Ridge(2), Ridge(3)),
        (Ridge(), make_pipeline(Ridge())),
        (["ab", "c"], ["a", "bc"]),
        ([1, [2, 3]], [1, 2, 3]),
        (ErrorGap(2.0), ErrorGap(3.0)),
        (len, max),
        (Ridge, StandardScaler),
        (scipy.sparse.csr_array([[1.0, 0.0]]), scipy.sparse.csr_array([[0.0, 1.0]])),
    ]
    for first, second in other:
        assert fingerprint(first) != fingerprint(second)
    # The same in every process, where hashes of text and addresses differ.
    code = (
        "from fairspan.rows.fingerprint import fingerprint as f; from sklearn.linear_model "
        "import Ridge; print(f({'x': [1.5, 'a']}, Ridge(), len, object(), set('abcdefghij')))"
    )
    output = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True).stdout
    here = fingerprint({"x": [1.5, "a"]}, Ridge(), len, object(), set("abcdefghij"))
    assert output.decode().strip() == here


def test_fingerprints_of_objects_are_those_of_what_they_hold():
    first, second = (np.array(["".join(["a", end]), 10**20], dtype=object) for end in ("b", "b"))
    assert first[0] is not second[0]
    assert fingerprint(first) == fingerprint(second)
    assert fingerprint(first) != fingerprint(np.array(["ab", 10**20 + 1], dtype=object))
