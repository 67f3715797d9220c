"""Residuals under many models at once equal those under each model alone."""

import numpy as np
import pytest

from fairspan.moments import projector
from fairspan.moments.projector import Projector, squared_residuals


class Halves:
    """A foreign model that is no projection."""

    def squared_residuals(self, rows):
        return ((rows / 2) ** 2).sum(axis=1)


@pytest.mark.parametrize("at_once", [1, 50, 2**20])
def test_many_models_at_once_agree_with_each_alone(monkeypatch, at_once):
    monkeypatch.setattr(projector, "_CHUNK_ENTRIES", at_once)
    rng = np.random.default_rng(1)
    basis = np.linalg.qr(rng.standard_normal((6, 6)))[0].T
    rows = rng.standard_normal((40, 6))
    rows[0] = 0
    oblique = Projector(basis[:1] + basis[1:2], basis[:1].T)
    soft = Projector(basis[:2] * [[1.0], [np.sqrt(0.5)]])
    models = [Projector(basis[:d]) for d in (1, 3, 6)] + [Halves(), oblique, soft]
    residuals = squared_residuals(rows, models)
    expected = np.array([model.squared_residuals(rows) for model in models])
    np.testing.assert_allclose(residuals, expected, rtol=1e-11, atol=1e-13)
    # With as many components as features, residuals are exactly zero.
    assert not residuals[2].any()


def test_a_residual_next_to_a_huge_coordinate_keeps_its_digits():
    rows = np.array([[1e8, 0.0, 1e-3], [1.0, 2.0, 3.0]])
    residuals = squared_residuals(rows, [Projector(np.eye(3)[:1]), Projector(np.eye(3)[1:2])])
    np.testing.assert_allclose(residuals, [[1e-6, 13.0], [1e16 + 1e-6, 10.0]], rtol=1e-14)
