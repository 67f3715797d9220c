"""Text of the finding about a refit under restrictions, which other rows may violate."""

from dataclasses import replace

import numpy as np

import fairspan as fs
from fairspan.auditing.findings.drift_rules import _describe_refit_bound


def test_no_refit_is_needed_does_not_speak_of_the_restriction():
    rng = np.random.default_rng(0)
    groups = np.repeat(["a", "b"], 60)
    rows = [rng.normal(size=(120, 4)) * [3, 2, 1, 1] for _ in range(2)]
    for restriction in (None, fs.MeanParity()):
        model = fs.FairPCA(2, criterion="total_error", restriction=restriction)
        model.fit(rows[0], sensitive_features=groups)
        bound = fs.audit(model, rows[1], groups, folds=None).models[0].refit_bound
        message = _describe_refit_bound(
            replace(bound, refit_may_help=False, constraint_violation=0.0)
        )
        assert "No refit is needed" in message
        assert ("restriction" in message) == (restriction is not None)
