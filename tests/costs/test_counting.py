"""The counter of work counts what a run is known to do."""

import numpy as np
import pytest
import scipy.linalg

from costs.cases import rows
from costs.counting import count_work
from fairspan import FairPCA


def test_factorizations_are_counted_by_kind_and_size():
    matrices = np.eye(5) + np.zeros((3, 5, 5))

    def run():
        np.linalg.eigh(matrices)
        scipy.linalg.eigh(matrices[0])
        np.linalg.qr(np.ones((20, 2)))

    costs = count_work(run)
    assert costs["eigenproblems"] == 4
    assert costs["other factorizations"] == 1
    assert costs["Mflop in factorizations"] == pytest.approx((4 * 5**3 + 20 * 2**2) / 1e6)


def test_the_largest_memory_is_counted():
    peak = count_work(lambda: np.zeros(2**18))["MiB at most"]
    assert peak == pytest.approx(2, rel=0.01)


@pytest.mark.slow
def test_a_second_fit_doubles_the_work():
    data = rows(400, 8)

    def fit():
        FairPCA(2).fit(data.X, sensitive_features=data.groups)

    def fit_twice():
        fit()
        fit()

    once = count_work(fit)
    twice = count_work(fit_twice)
    for name in ("eigenproblems", "Mflop in products", "Mflop in factorizations"):
        assert twice[name] == pytest.approx(2 * once[name])
    # The functions of this test are not the library's.
    assert twice["calls"] == 2 * once["calls"]
