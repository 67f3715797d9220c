"""Files of models and moments are distinguished, and old ones are refused."""

import numpy as np
import pytest

import fairspan as fs
from fairspan.cross_decomposition import FairCCA, verify_pairs
from fairspan.errors import CorruptFile


def test_moments_of_an_older_format_have_to_be_computed_again(tmp_path):
    header = b'{"format": "fairspan.moments", "version": 1, "arrays": []}'
    np.savez(tmp_path / "old.npz", header=np.frombuffer(header, dtype=np.uint8))
    with pytest.raises(CorruptFile, match="Compute the moments again"):
        fs.GroupMoments.load(tmp_path / "old.npz")


def test_load_reads_models_and_moments(tmp_path):
    rng = np.random.default_rng(0)
    moments = fs.GroupMoments.from_rows(rng.normal(size=(40, 3)), ["a", "b"] * 20)
    for name, original in {"m": moments, "f": fs.FairPCA(2).fit_moments(moments).subspace_}.items():
        original.save(tmp_path / name)
        again = fs.load(tmp_path / name)
        assert type(again) is type(original)
    np.testing.assert_array_equal(again.components, original.components)
    (tmp_path / "table.csv").write_text("a,b\n1,2\n")
    with pytest.raises(CorruptFile, match=r"table\.csv"):
        fs.load(tmp_path / "table.csv")
    with pytest.raises(FileNotFoundError):
        fs.load(tmp_path / "nowhere")


def test_load_reads_models_of_two_tables(tmp_path):
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(40, 3)), rng.normal(size=(40, 3))
    model = FairCCA(2).fit(X, Y, sensitive_features=["a", "b"] * 20)
    model.subspace_.save(tmp_path / "pair.model")
    again = fs.load(tmp_path / "pair.model")
    for ours, theirs in zip(again.transform(X, Y), model.transform(X, Y), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert verify_pairs(again, X, Y, sensitive_features=["a", "b"] * 20).holds
