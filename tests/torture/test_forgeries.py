"""Models that somebody changed, at random: none holds that does or says something false."""

import zlib

import numpy as np
import pytest

from fairspan import verify
from tampering import KINDS, as_many_features, falsehood, fitted, forgeries, held
from torture.judges import Wrong
from torture.tally import Tally

pytestmark = pytest.mark.unverified


@pytest.mark.parametrize("kind", KINDS)
def test_random_forgeries(kind, how_many, tmp_path, monkeypatch, record_property):
    as_many_features(kind, monkeypatch)
    own, tally = fitted(kind), Tally()
    assert verify(own.subspace, own.rows, own.groups).holds
    assert falsehood(kind, own.subspace) is None
    rng = np.random.default_rng(zlib.crc32(kind.encode()))
    n_wanted = how_many(20, 2000 // len(KINDS) + 1)
    number = 0
    while tally.examples < n_wanted:
        # Every time with other numbers; of the changes, which are hundreds, some.
        for how, forged in forgeries(kind, rng):
            if tally.examples >= n_wanted or rng.random() > 0.25:
                continue
            number += 1
            path = tmp_path / "model" if number % 2 else None
            with tally.example(number, lambda: None):
                found = held(forged, own.rows, own.groups, path)
                tally.outcomes["refused" if found is None else "held"] += 1
                if found is not None and (said := falsehood(kind, found)) is not None:
                    where = "in a file" if path else "in memory"
                    raise Wrong(f"a forgery holds: {how} {where}: {said}")
    tally.settled(record_property, f"forgeries of models: {kind}")
