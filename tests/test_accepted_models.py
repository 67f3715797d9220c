import numpy as np
import pytest
from sklearn.decomposition import PCA, IncrementalPCA, TruncatedSVD

from by_hand import random_rows
from fairspan import FairPCA, FairSubspace
from fairspan.errors import InvalidInput, InvalidType

ROWS = random_rows(21, n=50, p=4)
BASIS = np.linalg.qr(np.random.default_rng(5).standard_normal((4, 2)))[0].T


@pytest.mark.parametrize("model", [PCA(2), IncrementalPCA(2), TruncatedSVD(2, random_state=0)])
def test_scikit_learn_models_project_as_they_do_themselves(model):
    model.fit(ROWS.X)
    subspace = FairSubspace.of(model)
    np.testing.assert_allclose(subspace.transform(ROWS.X), model.transform(ROWS.X), atol=1e-10)


def test_other_models_are_refused():
    with pytest.raises(InvalidType, match="The PCA has not been fitted"):
        FairSubspace.of(PCA(2))
    with pytest.raises(InvalidType, match="The FairPCA has not been fitted"):
        FairSubspace.of(FairPCA(2))
    with pytest.raises(InvalidType, match="The model is of type set"):
        FairSubspace.of({"model"})
    with pytest.raises(InvalidInput, match="not orthonormal"):
        FairSubspace.of(2 * BASIS)
    with pytest.raises(InvalidInput, match="1 <= d <= p"):
        FairSubspace.of(np.ones(4))


def test_models_that_are_subspaces_are_taken_as_they_are():
    bare = FairSubspace(BASIS, np.zeros(4))
    assert FairSubspace.of(bare) is bare
    estimator = FairPCA(1).fit(ROWS.X, sensitive_features=ROWS.labels)
    assert FairSubspace.of(estimator) is estimator.subspace_
    np.testing.assert_array_equal(FairSubspace.of(BASIS).components, BASIS)
