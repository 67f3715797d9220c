"""Lazy Polars frames: read in batches, and transformed lazily."""

import numpy as np
import polars as pl
import pytest

import fairspan as fs
from fairspan.errors import InvalidParameter
from rows.source_cases import CASES


@pytest.mark.parametrize("name", CASES)
def test_moments_and_fit_are_those_of_the_rows(name):
    case = CASES[name]
    frame = pl.from_pandas(case.frame(), nan_to_null=False).lazy()
    case.check(frame, sample_weight=case.weight)


@pytest.fixture
def people():
    rng = np.random.default_rng(0)
    frame = pl.DataFrame(rng.normal(size=(900, 3)) * [3, 1, 2], schema=["x", "y", "z"])
    return frame.with_columns(pl.Series("g", rng.choice(["a", "b"], 900)))


def test_transform_is_lazy_and_equal(people):
    fair = fs.FairPCA(2).fit(people.lazy(), sensitive_features="g")
    reduced = fair.transform(people.lazy())
    assert isinstance(reduced, pl.LazyFrame)
    collected = reduced.collect()
    assert collected.columns == ["fairpca0", "fairpca1"]
    np.testing.assert_allclose(collected.to_numpy(), fair.transform(people), atol=1e-12)
    scores = fair.score_samples(people.lazy()).collect().to_numpy().ravel()
    np.testing.assert_allclose(scores, fair.score_samples(people), atol=1e-12)
    assert fair.score(people.lazy()) == pytest.approx(fair.score(people))


@pytest.mark.slow
def test_a_query_is_audited_like_its_result(people):
    query = people.lazy().filter(pl.col("x") > -1).with_columns(pl.col("y") * 2)
    fair = fs.FairPCA(1).fit(query, sensitive_features="g")
    lazy = fs.audit(fair, query, "g")
    eager = fs.audit(fair, query.collect(), "g")
    figures = ["observed_error", "expected_loss_low", "expected_loss_high"]
    np.testing.assert_allclose(lazy.frame()[figures], eager.frame()[figures], rtol=1e-9, atol=1e-12)
    assert lazy.verdict == eager.verdict


def test_labels_are_columns(people):
    with pytest.raises(InvalidParameter, match=r"a polars\.LazyFrame.*not column names"):
        fs.FairPCA(1).fit(people.lazy(), sensitive_features=people["g"])
