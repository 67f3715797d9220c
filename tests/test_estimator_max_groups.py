"""What fits, audits, metrics and reports do with more groups than rows can have."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from fairspan import FairPCA, GroupMoments, audit, metrics, write_report
from fairspan.errors import InvalidInput, InvalidParameter, UnknownGroup

N = 240
X = np.random.default_rng(5).normal(size=(N, 3))
FRAME = pd.DataFrame(X, columns=["x", "y", "z"]).assign(person=np.arange(N) // 2)
PEOPLE = FRAME.person.to_numpy()
REFUSED = "'person' has 120 groups among 240 rows"


def fair(**settings):
    return FairPCA(1, criterion="total_error", **settings)


def test_a_fit_is_refused_unless_max_groups_allows_it():
    with pytest.raises(InvalidInput, match=REFUSED):
        fair().fit(FRAME, sensitive_features="person")
    model = fair(max_groups=120).fit(FRAME, sensitive_features="person")
    assert len(model.groups_) == 120
    with pytest.raises(InvalidInput, match=f"{REFUSED}.* max_groups is 119"):
        model.set_params(max_groups=119).fit(FRAME, sensitive_features="person")
    assert len(model.groups_) == 120


def test_max_groups_is_a_parameter_like_others():
    assert fair().get_params()["max_groups"] is None
    assert clone(fair(max_groups=7)).max_groups == 7
    with pytest.raises(InvalidParameter, match="max_groups is 0"):
        fair(max_groups=0).fit_moments(GroupMoments.from_rows(X, PEOPLE % 2))


def test_moments_were_let_through_when_they_were_made():
    moments = GroupMoments.from_rows(X, PEOPLE, max_groups=120)
    assert len(fair().fit_moments(moments).groups_) == 120
    with pytest.raises(InvalidInput, match="120 groups among 240 rows, and max_groups is 119"):
        fair(max_groups=119).fit_moments(moments)


def test_partial_fits_count_all_rows_so_far():
    many = np.tile(X, (4, 1))
    model = fair().partial_fit(many, sensitive_features=np.arange(4 * N) % 120)
    # Few rows of as many groups, which have had rows enough.
    model.partial_fit(X[:120], sensitive_features=np.arange(120))
    assert model.moments_.counts.tolist() == [9] * 120
    before = model.components_
    with pytest.raises(InvalidInput, match="1120 groups among 2080 rows"):
        model.partial_fit(np.tile(X, (5, 1))[:1000], sensitive_features=np.arange(120, 1120))
    assert model.components_ is before
    with pytest.raises(InvalidInput, match="'person' has 120 groups among 240 rows"):
        fair().partial_fit(FRAME, sensitive_features="person")


@pytest.fixture(scope="module")
def model():
    return fair(max_groups=120).fit(X, sensitive_features=PEOPLE)


def test_groups_that_a_model_knows_are_groups(model):
    assert len(audit(model, X, PEOPLE).models[0].groups) == 120
    errors = metrics.reconstruction_error(model, X, PEOPLE)
    np.testing.assert_allclose(list(errors.values()), model.group_errors_, atol=1e-12)
    with pytest.raises(UnknownGroup, match="does not know: 120"):
        audit(model, X, np.where(PEOPLE == 7, 120, PEOPLE))
    with pytest.raises(InvalidInput, match="240 groups among 240 rows"):
        audit(model, X, np.arange(N))


@pytest.mark.long
def test_other_models_need_max_groups(model):
    components = model.components_
    with pytest.raises(InvalidInput, match="120 groups among 240 rows"):
        audit(components, X, PEOPLE)
    assert len(audit(components, X, PEOPLE, max_groups=120).models[0].groups) == 120
    for metric in (
        metrics.reconstruction_error,
        metrics.excess_loss,
        metrics.captured_variance_ratio,
        metrics.disparity,
    ):
        with pytest.raises(InvalidInput, match="120 groups among 240 rows"):
            metric(components, X, PEOPLE)
        assert metric(components, X, PEOPLE, max_groups=120)


@pytest.mark.long
def test_a_report_needs_max_groups_and_says_so(tmp_path):
    page = tmp_path / "report.html"
    with pytest.raises(InvalidInput, match=REFUSED):
        write_report(page, FRAME, "person", n_components=1)
    with pytest.raises(InvalidInput, match="max_groups is 1"):
        write_report(page, X, PEOPLE % 2, n_components=1, max_groups=1)
    assert not page.exists()
    facts = write_report(page, X, PEOPLE % 2, n_components=1, criteria=[], max_groups=2)
    assert "GroupMoments.from_rows(X, sensitive_features, max_groups=2)" in str(facts)
