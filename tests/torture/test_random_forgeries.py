"""Verification of models that were changed at random: none holds that claims something false."""

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
from torture.tally import Tally
from torture.wrong_answer import WrongAnswer

pytestmark = pytest.mark.unverified


@pytest.mark.parametrize("kind", KINDS)
def test_no_random_forgery_with_a_false_claim_holds(
    kind, choose_count, tmp_path, monkeypatch, record_property
):
    lower_feature_limits(kind, monkeypatch)
    honest = fit_kind(kind)
    tally = Tally()
    assert verify(honest.subspace, honest.rows, honest.groups).holds
    assert find_falsehood(kind, honest.subspace) is None
    rng = np.random.default_rng(zlib.crc32(kind.encode()))
    n_wanted = choose_count(20, 2000 // len(KINDS) + 1)
    number = 0
    while tally.examples < n_wanted:
        # There are hundreds of changes: each round draws new numbers and tries a quarter of them.
        for change, forgery in forged_models(kind, rng):
            if tally.examples >= n_wanted or rng.random() > 0.25:
                continue
            number += 1
            path = tmp_path / "model" if number % 2 else None
            with tally.count_example(number, lambda: None):
                model = accepted_model(forgery, honest.rows, honest.groups, path)
                tally.outcomes["refused" if model is None else "held"] += 1
                falsehood = None if model is None else find_falsehood(kind, model)
                if falsehood is not None:
                    place = "in a file" if path else "in memory"
                    raise WrongAnswer(f"a forgery holds: {change} {place}: {falsehood}")
    tally.conclude(record_property, f"forgeries of models: {kind}")
