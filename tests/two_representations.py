"""Fits of the same rows in two representations: their settings, and what must agree.

Fits of many features, or of sparse rows, use other coordinates than those of dense rows of few
features. Limits on the number of features are lowered, so that few of them count as many.
"""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse

from fairspan import FairPCA, MinimaxError, MinimaxLoss

CRITERIA = [
    "minimax_loss",
    "minimax_error",
    "total_error",
    "disparity",
    "equal_error",
    "error_gap",
    "robust_error_gap",
    "nash_welfare",
    "least_variance",
    MinimaxLoss(relative=True),
    MinimaxError(relative=True),
]
CENTERS = ["global", "group", "none"]
OTHER_SOLVERS = [
    "dual_newton",
    "multiplicative",
    pytest.param("riemannian", marks=pytest.mark.slow),
]
# At most as many features as this are few.
_LOW_LIMIT = 5


def lower_limits(monkeypatch, *names):
    """Treat few features as many, by limits such as "moments.compute.MIN_WIDE_FEATURES"."""
    for name in names:
        monkeypatch.setattr(f"fairspan.{name}", _LOW_LIMIT)


def alternate(values, n):
    """Repeat values in turn, `n` in all."""
    values = np.asarray(values)
    return values[np.arange(n) % len(values)]


def fit_sparse_and_dense(X, labels, weights=None, *, d=3, kind=scipy.sparse.csr_array, **settings):
    """Fit sparse rows, and the same rows with all their zeros."""
    arguments = {"sensitive_features": labels, "sample_weight": weights}
    return [FairPCA(d, **settings).fit(rows, **arguments) for rows in (kind(X), X)]


def assert_same_optimum(first, second, *, atol, bound_atol=None):
    """Compare objectives and lower bounds; these within another tolerance if it is given."""
    tolerances = {"objective": atol, "lower_bound": atol if bound_atol is None else bound_atol}
    for name, tolerance in tolerances.items():
        values = [getattr(model.solution_, name) for model in (first, second)]
        assert abs(values[0] - values[1]) <= tolerance


def assert_orthonormal(components, d):
    np.testing.assert_allclose(components @ components.T, np.eye(d), atol=1e-12)


def assert_solver_comes_close(solver, rows, X, labels, *, max_excess):
    """Fit rows by a solver, compare with the optimum of the dense rows, and return the solution.

    `max_excess` is the largest objective above the optimum, as a share of the variance.
    """
    criterion = "robust_error_gap" if solver == "riemannian" else "minimax_loss"
    exact = FairPCA(3, criterion=criterion).fit(X, sensitive_features=labels).solution_
    fair = FairPCA(3, criterion=criterion, solver=solver, random_state=0, tol=1e-4)
    solution = fair.fit(rows, sensitive_features=labels).solution_
    total = X.var(axis=0).sum()
    lowest = exact.objective - 1e-9 * total
    assert lowest <= solution.objective <= exact.objective + max_excess * total
    assert solution.lower_bound <= exact.objective + 1e-9 * total
    assert solution.solver == solver
    return solution


needs_process_status = pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="needs /proc/self/status"
)
# Start of a script: its imports, and the largest memory of the process so far, in kilobytes.
_PEAK = """
import json
import numpy as np, scipy.sparse, fairspan
def peak():
    status = dict(line.split(":", 1) for line in open("/proc/self/status"))
    return int(status["VmHWM"].split()[0])
"""


def run_with_peak(script):
    """Run a script in a process of its own, and return the figures that it prints as JSON.

    The script can call `peak()`, the largest memory of the process so far, in kilobytes.
    """
    command = [sys.executable, "-c", _PEAK + script]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(ran.stdout)
