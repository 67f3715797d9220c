"""The semidefinite program of Samadi et al. (2018), by two conic solvers, beside ours."""

import warnings
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.effort import Effort
from benchmarks.report import Measured
from benchmarks.results import announce, seconds_of, shown_seconds, table_of, timed
from benchmarks.rows import FloatArray, made
from fairspan import GroupMoments, Semidefinite
from fairspan.estimator.fit import fit_moments
from fairspan.estimator.settings import FitSettings

# Its own types leave out half of its functions.
cvxpy: Any = import_module("cvxpy")

D, N = 3, 3000
CONIC_SOLVERS = {"CLARABEL": "Clarabel", "SCS": "SCS"}


def measure(effort: Effort) -> Measured:
    """At p = 60, and where the programs still end beyond."""
    sizes = (20,) if effort.quick else (20, 40, 60)
    lines = []
    for p in sizes:
        announce(f"semidefinite program, p = {p}")
        # Two threads only make matrices of this size wait for each other.
        with threadpool_limits(1):
            lines += conic_lines(p)
    explained = (
        f"Two groups, {N} made rows, d = {D}, minimax loss, from moments, one thread. The "
        "relaxation is written in cvxpy (time includes cvxpy's own) with each conic solver's "
        "default tolerances; `Semidefinite()` is the paper's Algorithm 1 whole: Clarabel to "
        "1e-10, then the linear program. Ratios are of their time over ours, which is exact and "
        "proven (goal at p = 60: 1000 times Clarabel). *Off* is how far their value lies "
        "from ours: a relaxation solved inaccurately can lie below what any subspace reaches."
    )
    header = ["p", "by", "seconds", "ratio", "off", "status"]
    return Measured(
        f"{explained}\n\n{table_of(header, lines)}",
        ("fairspan", "numpy", "cvxpy", "clarabel", "scs"),
    )


def conic_lines(p: int) -> list[list[str]]:
    """One line for ours and one for each rival."""
    moments = GroupMoments.from_rows(*made(N, p))
    run = partial(fit_moments, moments, FitSettings.parse(D))
    ours, fit = seconds_of({"ours": run}, 5)["ours"], run()
    least = fit.certificate.objective
    lines = [[str(p), "fairspan", shown_seconds(ours), "1", "", fit.certificate.status.value]]
    posed = fit_moments(moments, FitSettings.parse(D)).problem
    references = np.asarray(posed.second_moments.traces - posed.best_errors)
    second = moments.second_moments("global")
    for solver in CONIC_SOLVERS:
        if solver in cvxpy.installed_solvers():
            seconds, value = timed(partial(relaxed, second, references, solver))
            lines.append(_line(p, CONIC_SOLVERS[solver], seconds / ours, seconds, value, least))
    seconds, whole = timed(
        partial(fit_moments, moments, FitSettings.parse(D, solver=Semidefinite()))
    )
    reached = (whole.certificate.objective, whole.certificate.status.value)
    return [*lines, _line(p, "`Semidefinite()`", seconds / ours, seconds, reached, least)]


def relaxed(second: FloatArray, references: FloatArray, solver: str) -> tuple[float, str]:
    """Value of min_P max_g (t_d(S_g) - <S_g, P>), 0 <= P <= I, tr P = d, and how it ended."""
    k, p, _ = second.shape
    P: Any = cvxpy.Variable((p, p), symmetric=True)
    largest: Any = cvxpy.Variable()
    losses = references - second.reshape(k, p * p) @ cvxpy.vec(P, order="C")
    program: Any = cvxpy.Problem(
        cvxpy.Minimize(largest),
        [losses <= largest, P >> 0, np.eye(p) - P >> 0, cvxpy.trace(P) == D],
    )
    with warnings.catch_warnings():
        # That an answer is inaccurate is in its status.
        warnings.simplefilter("ignore")
        program.solve(getattr(cvxpy, solver))
    return float(program.value), str(program.status)


def _line(
    p: int, name: str, ratio: float, seconds: float, value: tuple[float, str], least: float
) -> list[str]:
    off = (value[0] - least) / least
    return [str(p), name, shown_seconds(seconds), f"**{ratio:,.0f}**", f"{off:+.1e}", value[1]]
