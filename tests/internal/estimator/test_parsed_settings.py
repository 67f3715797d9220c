"""A fit parses its settings once."""

from fractions import Fraction

import numpy as np

from fairspan import FairPCA
from fairspan.estimator.fit_settings import FitSettings
from numpy_reference import random_rows

ROWS = random_rows(31, n=120, p=6)


def test_the_settings_of_a_fit_are_parsed_once_and_are_those_of_its_solution(monkeypatch):
    parsed_settings = []
    check = FitSettings.__post_init__
    monkeypatch.setattr(
        FitSettings, "__post_init__", lambda self: (check(self), parsed_settings.append(self))
    )
    # Rows in few dimensions, which are read again and fitted again.
    flat = ROWS.X[:, :2] @ np.ones((2, 6))
    model = FairPCA(np.int64(3), tol=Fraction(1, 10), center="group", scale=np.True_)
    model.fit(flat + np.arange(6), sensitive_features=ROWS.labels)
    (settings,) = parsed_settings
    assert type(settings.tol) is float
    assert settings.scale is True
    assert model.solution_.tol == settings.tol
    assert model.solution_.criterion == settings.criterion
    assert (model.solution_.center, model.n_components_) == ("group", 3)
