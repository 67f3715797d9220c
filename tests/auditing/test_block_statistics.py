"""Errors on all blocks but one, which intervals from moments alone are made of, by hand."""

import numpy as np
import pytest

from by_hand import random_rows
from fairspan import FairPCA, GroupMoments, audit
from fairspan.auditing.block_statistics import errors_without_each
from fairspan.errors import InvalidInput

ROWS = random_rows(5, n=120, p=5, offset=2.0)


@pytest.mark.parametrize("scale", [False, True])
@pytest.mark.parametrize("center", ["global", "group", "none"])
def test_they_are_those_of_the_rows_that_are_left(center, scale):
    model = FairPCA(2, center=center, scale=scale).fit(ROWS.X, sensitive_features=ROWS.labels)
    parts = [np.arange(120) % 4 == i for i in range(4)]
    blocks = [GroupMoments.from_rows(ROWS.X[part], ROWS.labels[part]) for part in parts]
    found = errors_without_each(blocks, sum(blocks), model.subspace_)
    X = ROWS.X / model.scale_ if scale else ROWS.X
    V = model.components_.T
    for part, errors in zip(parts, found, strict=True):
        for label, error in zip("ab", errors, strict=True):
            rows = X[~part & (ROWS.labels == label)]
            if center == "group":
                rows = rows - rows.mean(axis=0)
            elif center == "global":
                rows = rows - X.mean(axis=0)
            left = rows - rows @ V @ V.T
            assert error == pytest.approx((left**2).sum() / len(left), rel=1e-9)


def test_a_group_in_a_single_block_is_named():
    model = FairPCA(2).fit(ROWS.X, sensitive_features=ROWS.labels)
    own = [ROWS.labels == each for each in "ab"]
    blocks = [GroupMoments.from_rows(ROWS.X[part], ROWS.labels[part]) for part in own]
    with pytest.raises(InvalidInput, match="'a' stands in only one of the 2 blocks"):
        errors_without_each(blocks, sum(blocks), model.subspace_)


@pytest.mark.parametrize("n_blocks", [4, 5])
def test_five_blocks_are_enough_for_estimates_of_new_rows(n_blocks):
    rng = np.random.default_rng(0)
    X, groups = rng.standard_normal((500, 4)), np.tile(["a", "b", "b"], 167)[:500]
    parts = np.array_split(np.arange(500), n_blocks)
    blocks = [GroupMoments.from_rows(X[part], groups[part]) for part in parts]
    for model in audit(FairPCA(2).fit_moments(sum(blocks)), moments=blocks).models:
        if n_blocks == 5:
            assert model.why_no_estimates is None
            assert all(group.expected is not None for group in model.groups)
        else:
            assert model.why_no_estimates == "4 blocks are too few to fit it again without each"
            assert all(group.expected is None for group in model.groups)
