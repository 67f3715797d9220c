"""Errors of an oblique model without each block of rows."""

import numpy as np

from fairspan import FairPCA, GroupMoments, MeanParity
from fairspan.auditing.block_statistics import leave_one_block_out_errors
from numpy_reference import random_rows


def test_errors_without_each_block_are_those_of_the_other_rows():
    rows = random_rows(81, n=150, p=6, offset=1.0).X
    labels = np.arange(150) * 7 % 2
    model = FairPCA(2, criterion="total_error", restriction=MeanParity(oblique=True))
    model.fit(rows, sensitive_features=labels)
    parts = [slice(i, None, 3) for i in range(3)]
    blocks = [GroupMoments.from_rows(rows[part], labels[part]) for part in parts]
    errors_by_block = leave_one_block_out_errors(blocks, sum(blocks), model.subspace_)
    row_errors = -model.score_samples(rows)
    for part, errors in zip(parts, errors_by_block, strict=True):
        remaining_rows = np.setdiff1d(np.arange(150), np.arange(150)[part])
        expected = [row_errors[remaining_rows][labels[remaining_rows] == g].mean() for g in (0, 1)]
        np.testing.assert_allclose(errors, expected, rtol=1e-9)
