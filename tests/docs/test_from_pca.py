"""Each attribute, method and parameter of scikit-learn's PCA is as docs/from-pca.md says."""

import inspect
import re
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.decomposition import PCA, IncrementalPCA

from fairspan import FairPCA

PAGE = (Path(__file__).parents[2] / "docs" / "from-pca.md").read_text(encoding="utf-8")
TABLES = {
    title: re.findall(r"^\| (`.*?) \| (.*?) (?:\| (.*?) )?\|$", part, re.M)
    for title, part in re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", PAGE, re.M | re.S)
}
FRAME = load_breast_cancer(as_frame=True).data
GROUPS = np.where(FRAME["mean area"] > 550, "large", "small")
N = len(FRAME)
PLAIN = PCA(3).fit(FRAME)
FAIR = FairPCA(3, criterion="total_error").fit(FRAME, sensitive_features=GROUPS)


def named(title):
    """The names of PCA in the first column of a table, below its head."""
    quoted = re.findall(r"`(.*?)`", " ".join(row[0] for row in TABLES[title][1:]))
    names = (re.split(r"[(=]", each)[0].removeprefix("IncrementalPCA.") for each in quoted)
    return {name for name in names if name.isidentifier()}


def relation(name):
    """What the page says of one attribute, or method, in its third column."""
    rows = [*TABLES["Attributes"], *TABLES["Methods"]]
    return next(said for names, _, said in rows if re.search(rf"`{name}\b", names))


INHERITED = {"get_params", "set_params", "set_output", "get_metadata_routing"}
ALL = {
    "Attributes": {name for name in vars(PLAIN) if name.endswith("_") and name[0] != "_"},
    "Methods": {
        name
        for name, _ in [*inspect.getmembers(PCA, callable), ("partial_fit", None)]
        if name[0] != "_" and name not in INHERITED and not name.endswith("_request")
    },
    "Parameters": set(PLAIN.get_params()),
}


@pytest.mark.parametrize("title", ALL)
def test_everything_of_pca_is_in_a_table(title):
    assert named(title) == ALL[title]


@pytest.mark.parametrize("name", sorted(named("Attributes") - {"components_", "n_samples_"}))
def test_an_attribute_is_that_of_pca_up_to_the_factor_said(name):
    ours, theirs = (np.asarray(getattr(model, name)) for model in (FAIR, PLAIN))
    said = relation(name)
    if theirs.dtype.kind not in "fi":
        assert (ours == theirs).all()
        return
    factor = (N - 1) / N if "(n - 1) / n" in said else 1.0
    assert said.startswith("equal")
    np.testing.assert_allclose(ours, factor * theirs, rtol=1e-9)


def test_components_are_those_of_pca_with_the_same_signs():
    assert relation("components_").startswith("equal, with the same signs")
    np.testing.assert_allclose(FAIR.components_, PLAIN.components_, atol=1e-10)
    largest = np.abs(FAIR.components_).argmax(axis=1)
    assert (FAIR.components_[np.arange(3), largest] > 0).all()


def test_rows_are_counted_as_incremental_pca_counts_them():
    assert FAIR.n_samples_seen_ == PLAIN.n_samples_ == IncrementalPCA(3).fit(FRAME).n_samples_seen_


def test_rows_are_reduced_as_pca_reduces_them():
    Z = PLAIN.transform(FRAME)
    np.testing.assert_allclose(FAIR.transform(FRAME), Z, atol=1e-8)
    back = FAIR.inverse_transform(FAIR.transform(FRAME))
    np.testing.assert_allclose(back, PLAIN.inverse_transform(Z), atol=1e-8)


def test_covariances_are_those_of_pca_up_to_the_factor_said():
    factor = (N - 1) / N
    ours, theirs = FAIR.get_covariance(), PLAIN.get_covariance()
    np.testing.assert_allclose(ours, factor * theirs, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(FAIR.get_precision() @ ours, np.eye(FRAME.shape[1]), atol=1e-6)


def test_columns_are_named_after_the_class():
    assert list(FAIR.get_feature_names_out()) == ["fairpca0", "fairpca1", "fairpca2"]
    assert list(PLAIN.get_feature_names_out()) == ["pca0", "pca1", "pca2"]


def test_the_score_is_minus_the_mean_squared_error():
    errors = ((FRAME - PLAIN.inverse_transform(PLAIN.transform(FRAME))) ** 2).sum(axis=1)
    assert FAIR.score(FRAME) == pytest.approx(-errors.mean())
    assert FAIR.score(FRAME) != pytest.approx(PLAIN.score(FRAME))


def test_batches_give_the_fit_of_all_rows():
    batched = FairPCA(3, criterion="total_error")
    for start in range(3):
        batched.partial_fit(FRAME[start::3], sensitive_features=GROUPS[start::3])
    np.testing.assert_allclose(batched.components_, FAIR.components_, atol=1e-9)


def test_a_share_is_kept_by_every_group():
    X = (FRAME - FRAME.mean()) / FRAME.std(ddof=0)
    fair = FairPCA(0.9).fit(X, sensitive_features=GROUPS)
    assert (fair.group_explained_variance_ratio_.sum(axis=1) >= 0.9).all()
    fewer = FairPCA(fair.n_components_ - 1).fit(X, sensitive_features=GROUPS)
    assert (fewer.group_explained_variance_ratio_.sum(axis=1) < 0.9).any()


def test_missing_groups_can_mean_pca():
    alone = FairPCA(3, missing_groups="ignore").fit(FRAME)
    np.testing.assert_allclose(alone.components_, FAIR.components_, atol=1e-10)
