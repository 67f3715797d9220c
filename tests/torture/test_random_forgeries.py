"""Models that somebody changed, at random: none holds that does or says something false."""

import zlib

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
from torture.judges import Wrong
from torture.tally import Tally

pytestmark = pytest.mark.unverified


@pytest.mark.parametrize("kind", KINDS)
def test_random_forgeries(kind, how_many, tmp_path, monkeypatch, record_property):
    lower_feature_limits(kind, monkeypatch)
    own, tally = fit_kind(kind), Tally()
    assert verify(own.subspace, own.rows, own.groups).holds
    assert find_falsehood(kind, own.subspace) is None
    rng = np.random.default_rng(zlib.crc32(kind.encode()))
    n_wanted = how_many(20, 2000 // len(KINDS) + 1)
    number = 0
    while tally.examples < n_wanted:
        # Every time with other numbers; of the changes, which are hundreds, some.
        for how, forged in forged_models(kind, rng):
            if tally.examples >= n_wanted or rng.random() > 0.25:
                continue
            number += 1
            path = tmp_path / "model" if number % 2 else None
            with tally.example(number, lambda: None):
                found = accepted_model(forged, own.rows, own.groups, path)
                tally.outcomes["refused" if found is None else "held"] += 1
                if found is not None and (said := find_falsehood(kind, found)) is not None:
                    where = "in a file" if path else "in memory"
                    raise Wrong(f"a forgery holds: {how} {where}: {said}")
    tally.conclude(record_property, f"forgeries of models: {kind}")
