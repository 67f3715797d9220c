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
N = 569


@pytest.fixture(scope="module")
def frame():
    return load_breast_cancer(as_frame=True).data


@pytest.fixture(scope="module")
def groups(frame):
    return np.where(frame["mean area"] > 550, "large", "small")


@pytest.fixture(scope="module")
def plain_pca(frame):
    return PCA(3).fit(frame)


@pytest.fixture(scope="module")
def fair_model(frame, groups):
    return FairPCA(3, criterion="total_error").fit(frame, sensitive_features=groups)


def names_in_table(title):
    """The names of PCA in the first column of a table, below its head."""
    code_spans = re.findall(r"`(.*?)`", " ".join(row[0] for row in TABLES[title][1:]))
    names = (re.split(r"[(=]", span)[0].removeprefix("IncrementalPCA.") for span in code_spans)
    return {name for name in names if name.isidentifier()}


def third_column(name):
    """Return the third column of the page for an attribute or method."""
    rows = [*TABLES["Attributes"], *TABLES["Methods"]]
    return next(cell for names, _, cell in rows if re.search(rf"`{name}\b", names))


INHERITED = {"get_params", "set_params", "set_output", "get_metadata_routing"}


def test_every_attribute_of_pca_is_in_a_table(plain_pca):
    attributes = {name for name in vars(plain_pca) if name.endswith("_") and name[0] != "_"}
    assert names_in_table("Attributes") == attributes


def test_every_method_of_pca_is_in_a_table():
    assert names_in_table("Methods") == {
        name
        for name, _ in [*inspect.getmembers(PCA, callable), ("partial_fit", None)]
        if name[0] != "_" and name not in INHERITED and not name.endswith("_request")
    }


def test_every_parameter_of_pca_is_in_a_table():
    assert names_in_table("Parameters") == set(PCA().get_params())


@pytest.mark.parametrize(
    "name", sorted(names_in_table("Attributes") - {"components_", "n_samples_"})
)
def test_an_attribute_is_that_of_pca_up_to_the_factor_said(name, plain_pca, fair_model):
    fair_value, pca_value = (np.asarray(getattr(model, name)) for model in (fair_model, plain_pca))
    cell = third_column(name)
    if pca_value.dtype.kind not in "fi":
        assert (fair_value == pca_value).all()
        return
    factor = (N - 1) / N if "(n - 1) / n" in cell else 1.0
    assert cell.startswith("equal")
    np.testing.assert_allclose(fair_value, factor * pca_value, rtol=1e-9)


def test_components_are_those_of_pca_with_the_same_signs(plain_pca, fair_model):
    assert "same signs" in third_column("components_")
    np.testing.assert_allclose(fair_model.components_, plain_pca.components_, atol=1e-10)
    largest = np.abs(fair_model.components_).argmax(axis=1)
    assert (fair_model.components_[np.arange(3), largest] > 0).all()


def test_rows_are_counted_as_incremental_pca_counts_them(frame, plain_pca, fair_model):
    assert (
        fair_model.n_samples_seen_
        == plain_pca.n_samples_
        == IncrementalPCA(3).fit(frame).n_samples_seen_
    )


def test_rows_are_reduced_as_pca_reduces_them(frame, plain_pca, fair_model):
    Z = plain_pca.transform(frame)
    np.testing.assert_allclose(fair_model.transform(frame), Z, atol=1e-8)
    restored_rows = fair_model.inverse_transform(fair_model.transform(frame))
    np.testing.assert_allclose(restored_rows, plain_pca.inverse_transform(Z), atol=1e-8)


def test_covariances_are_those_of_pca_up_to_the_factor_said(frame, plain_pca, fair_model):
    factor = (N - 1) / N
    fair_covariance = fair_model.get_covariance()
    pca_covariance = plain_pca.get_covariance()
    np.testing.assert_allclose(fair_covariance, factor * pca_covariance, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(
        fair_model.get_precision() @ fair_covariance, np.eye(frame.shape[1]), atol=1e-6
    )


def test_columns_are_named_after_the_class(plain_pca, fair_model):
    assert list(fair_model.get_feature_names_out()) == ["fairpca0", "fairpca1", "fairpca2"]
    assert list(plain_pca.get_feature_names_out()) == ["pca0", "pca1", "pca2"]


def test_the_score_is_minus_the_mean_squared_error(frame, plain_pca, fair_model):
    errors = ((frame - plain_pca.inverse_transform(plain_pca.transform(frame))) ** 2).sum(axis=1)
    assert fair_model.score(frame) == pytest.approx(-errors.mean())
    assert fair_model.score(frame) != pytest.approx(plain_pca.score(frame))


def test_batches_give_the_fit_of_all_rows(frame, groups, fair_model):
    batched = FairPCA(3, criterion="total_error")
    for start in range(3):
        batched.partial_fit(frame[start::3], sensitive_features=groups[start::3])
    np.testing.assert_allclose(batched.components_, fair_model.components_, atol=1e-9)


def test_a_share_is_kept_by_every_group(frame, groups):
    X = (frame - frame.mean()) / frame.std(ddof=0)
    share = FairPCA(0.9).fit(X, sensitive_features=groups)
    assert (share.group_explained_variance_ratio_.sum(axis=1) >= 0.9).all()
    fewer = FairPCA(share.n_components_ - 1).fit(X, sensitive_features=groups)
    assert (fewer.group_explained_variance_ratio_.sum(axis=1) < 0.9).any()


def test_missing_groups_can_mean_pca(frame, fair_model):
    ungrouped_model = FairPCA(3, missing_groups="ignore").fit(frame)
    np.testing.assert_allclose(ungrouped_model.components_, fair_model.components_, atol=1e-10)
