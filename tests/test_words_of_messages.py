"""Numbers agree with their nouns and verbs, and types are those of the package of the user."""

import re
from functools import cache

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from fairspan import FairPCA, FairSubspace, GroupMoments, audit, frontier, metrics, regression
from fairspan.errors import FairspanError, FairspanWarning, InvalidInput
from fairspan.selection import UCB1SearchCV

# "1 rows", and "1 dimension keep", but not "index 1 rows" or "11 rows".
_ONE_OF_MANY = re.compile(
    r"(?<![\w.,])1[ \u00a0](?!of\b|is\b|as\b|was\b|has\b|ends\b|keeps\b)\w+s\b"
)
_SEVERAL_OR_NOT = re.compile(r"\w\((s|es)\)")

X = np.random.default_rng(3).standard_normal((40, 3))
GROUPS = np.array(["a", "b"] * 20)
# The last row alone decides a coefficient, so that its residual is zero.
ALONE = np.vstack([X[:20] * [1, 1, 0], [[1, 1, 1]]])


@cache
def fit_features(n_features):
    return FairPCA(1).fit(X[:, :n_features], sensitive_features=GROUPS)


class Failing(FairPCA):
    def fit(self, X, y=None, **params):
        raise InvalidInput("It failed", "Allowed: nothing", "Do something else")


CALLS = {
    "one row, two labels": lambda: GroupMoments.from_rows(X[:1], ["a", "b"]),
    "two rows, one label": lambda: GroupMoments.from_rows(X[:2], ["a"]),
    "one row, two weights": lambda: GroupMoments.from_rows(X[:1], ["a"], [1, 2]),
    "one dimension": lambda: fit_features(3).transform(X[0]),
    "one feature": lambda: audit(fit_features(3), X[:, :1], GROUPS),
    "one column of Z": lambda: metrics.leakage(X[:, :1], GROUPS, X, GROUPS),
    "a constant column": lambda: metrics.leakage(X * [1, 1, 0], GROUPS, X * [1, 1, 0], GROUPS),
    "a group of one row": lambda: metrics.mmd(X[:21], ["a"] * 20 + ["b"]),
    "one group": lambda: frontier(X, 1, sensitive_features=["a"] * 40),
    "max_groups": lambda: GroupMoments.from_rows(X, GROUPS, max_groups=1),
    "one setting": lambda: UCB1SearchCV(
        Failing(1), {"n_components": [1]}, n_pulls=1, random_state=0
    ).fit(X, sensitive_features=GROUPS),
    "one prediction": lambda: metrics.prediction_bias(
        lambda rows: np.zeros((1, 2)), X[:1], ["a"], protected="a"
    ),
    "one coefficient": lambda: regression.least_squares(
        GroupMoments.from_rows(X[:, :2], GROUPS), 1
    ).predict(X),
    "too few rows": lambda: regression.least_squares(
        GroupMoments.from_rows(ALONE, ["a"] * 20 + ["b"]), 0, variance="by_group"
    ),
}


@pytest.mark.parametrize("case", CALLS)
def test_numbers_in_errors_and_warnings_agree_with_their_nouns(case):
    with pytest.raises((FairspanError, FairspanWarning)) as error:
        CALLS[case]()
    message = str(error.value)
    assert not _ONE_OF_MANY.search(message), message
    assert not _SEVERAL_OR_NOT.search(message), message


def test_numbers_in_representations_agree_with_their_nouns():
    fair = fit_features(1)
    for thing in (
        *(fair.subspace_, fair.moments_, fair.solution_),
        FairSubspace(np.eye(1), np.zeros(1)),
        GroupMoments.from_rows(X[:1], ["a"]),
        frontier(X, 1, sensitive_features=GROUPS, tol=1e-2),
    ):
        assert not _ONE_OF_MANY.search(repr(thing)), repr(thing)


@pytest.mark.parametrize(
    ("d", "sentence"), [(1, "PCA: 1 dimension keeps "), (3, "PCA: 3 dimensions keep ")]
)
def test_the_finding_that_nothing_is_lost_agrees_with_the_dimensions(d, sentence):
    result = audit({"PCA": np.eye(d)}, X[:, :d], GROUPS, folds=None)
    (message,) = [finding.message for finding in result.findings if finding.code == "FS206"]
    assert message.startswith(sentence)
    # One dimension cannot become fewer.
    assert ("Use fewer dimensions" in message) == (d > 1)


TEXTS = ["x", "y"] * 20
FRAMES = {
    "pandas": (pd.DataFrame({"q": X[:, 0], "t": TEXTS}), "str"),
    "pandas category": (pd.DataFrame({"q": X[:, 0], "t": pd.Categorical(TEXTS)}), "category"),
    "pandas dates": (
        pd.DataFrame({"q": X[:, 0], "t": pd.date_range("2024", periods=40)}),
        "datetime64[us]",
    ),
    "polars": (pl.DataFrame({"q": X[:, 0], "t": TEXTS}), "String"),
    "pyarrow": (pa.table({"q": X[:, 0], "t": TEXTS}), "string"),
}


@pytest.mark.parametrize("kind", FRAMES)
def test_types_are_named_as_the_package_of_the_frame_names_them(kind):
    frame, dtype = FRAMES[kind]
    expected_text = re.escape(f"Column 't' is not numeric ({dtype}).")
    with pytest.raises(InvalidInput, match=expected_text):
        GroupMoments.from_rows(frame, GROUPS)
    with pytest.raises(
        InvalidInput, match=re.escape(f"weight column 't' is not numeric ({dtype}).")
    ):
        GroupMoments.from_rows(frame, GROUPS, "t")


def test_columns_of_several_types_are_listed():
    frame = pd.DataFrame({"t": TEXTS, "c": pd.Categorical(TEXTS), "q": X[:, 0]})
    with pytest.raises(InvalidInput, match="Columns 't', 'c' are not numeric \\(category, str\\)"):
        GroupMoments.from_rows(frame, GROUPS)
    mixed = pd.DataFrame({"m": [1.0, "x"] * 20, "q": X[:, 0]})
    with pytest.raises(InvalidInput, match=r"Column 'm', of dtype object, .*non-numeric"):
        GroupMoments.from_rows(mixed, GROUPS)


def test_columns_that_are_missing_agree_with_their_number():
    frame = pd.DataFrame({"x": X[:, 0], "y": X[:, 1], "q": X[:, 0] - X[:, 1]})
    fair = FairPCA(1).fit(frame, sensitive_features=GROUPS).subspace_
    with pytest.raises(InvalidInput, match=r"no columns 'x', 'y'\. .* Add them to the table: "):
        fair.transform(frame[["q"]].assign(n=1.0))
    with pytest.raises(InvalidInput, match=r"no column 'x'\. .* Add it to the table: "):
        fair.transform(frame[["y", "q"]])


def test_shares_of_moments_have_a_space_before_the_sign():
    shares = str(GroupMoments.from_rows(X, GROUPS).table())
    assert " %" in shares
    assert not re.search(r"\d%", shares)
