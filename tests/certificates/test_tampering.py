"""No field of a model can be changed to something false: each is, in memory and in a file."""

import numpy as np
import pytest

from fairspan import verify
from tampering import (
    KINDS,
    accepted_model,
    find_falsehood,
    fit_kind,
    forged_models,
    lower_feature_limits,
)

pytestmark = pytest.mark.unverified


def assert_none_is_false(kind, path, step=1):
    fit = fit_kind(kind)
    honest = verify(fit.subspace, fit.rows, fit.groups)
    assert honest.holds, str(honest)
    assert find_falsehood(kind, fit.subspace) is None
    wrong = []
    n_tried = 0
    for i, (how, model) in enumerate(forged_models(kind, np.random.default_rng(len(kind)))):
        if i % step:
            continue
        n_tried += 1
        for where in (None, path):
            accepted = accepted_model(model, fit.rows, fit.groups, where)
            if accepted is not None and (message := find_falsehood(kind, accepted)):
                wrong.append(f"{how} ({'in memory' if where is None else 'in a file'}): {message}")
    assert not wrong, "\n".join(wrong)
    return n_tried


@pytest.mark.parametrize("kind", ["dense", pytest.param("equal means", marks=pytest.mark.slow)])
def test_a_part_of_the_changes(kind, tmp_path):
    assert assert_none_is_false(kind, tmp_path / "model", step=12) > 10


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_every_field_of_every_kind_of_model(kind, monkeypatch, tmp_path):
    lower_feature_limits(kind, monkeypatch)
    assert assert_none_is_false(kind, tmp_path / "model") > 150
