"""The semidefinite program of Samadi et al. (2018): two conic solvers compared with fairspan."""

import warnings
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.effort import Effort
from benchmarks.measurement import (
    format_seconds,
    format_table,
    log_progress,
    median_seconds,
    time_call,
)
from benchmarks.report import SectionContent
from benchmarks.rows import FloatArray, make_rows
from fairspan import GroupMoments, Semidefinite
from fairspan.estimator.fit import fit_moments
from fairspan.estimator.fit_settings import FitSettings

# The type annotations of cvxpy omit half of its functions.
cvxpy: Any = import_module("cvxpy")

D, N = 3, 3000
CONIC_SOLVERS = {"CLARABEL": "Clarabel", "SCS": "SCS"}
_FAIRSPAN_REPETITIONS = 5


def measure(effort: Effort) -> SectionContent:
    """Compare the solvers at up to p = 60 features, above which the conic solvers take minutes."""
    sizes = (20,) if effort.quick else (20, 40, 60)
    lines = []
    for p in sizes:
        log_progress(f"semidefinite program, p = {p}")
        # With two threads, matrices of this size are slower: the threads wait for each other.
        with threadpool_limits(1):
            lines += conic_lines(p)
    explanation = (
        f"Two groups, {N} synthetic rows, d = {D}, minimax loss, from moments, one thread. The "
        "relaxation is written in cvxpy (time includes cvxpy's own) with each conic solver's "
        "default tolerances; `Semidefinite()` is all of the paper's Algorithm 1: Clarabel to "
        "1e-10, then the linear program. Ratios are of their time over ours, which is exact and "
        "proven (goal at p = 60: 1000 times Clarabel). *Off* is how far their value lies "
        "from ours: a relaxation solved inaccurately can lie below what any subspace reaches."
    )
    header = ["p", "by", "seconds", "ratio", "off", "status"]
    return SectionContent(
        f"{explanation}\n\n{format_table(header, lines)}",
        ("fairspan", "numpy", "cvxpy", "clarabel", "scs"),
    )


def conic_lines(p: int) -> list[list[str]]:
    """Return the lines of the table for p features: fairspan, then each conic solver."""
    moments = GroupMoments.from_rows(*make_rows(N, p))
    run = partial(fit_moments, moments, FitSettings.parse(D))
    fairspan_seconds = median_seconds({"fairspan": run}, _FAIRSPAN_REPETITIONS)["fairspan"]
    fit = run()
    certificate, problem = fit.certificate, fit.problem
    optimum = certificate.objective
    second_moments = moments.second_moments("global")
    best_traces = np.asarray(problem.second_moments.traces - problem.best_errors)

    def line(name: str, seconds: float, value: float, status: str) -> list[str]:
        ratio = f"**{seconds / fairspan_seconds:,.0f}**"
        deviation = f"{(value - optimum) / optimum:+.1e}"
        return [str(p), name, format_seconds(seconds), ratio, deviation, status]

    lines = [
        [str(p), "fairspan", format_seconds(fairspan_seconds), "1", "", certificate.status.value]
    ]
    for solver, name in CONIC_SOLVERS.items():
        if solver in cvxpy.installed_solvers():
            solve = partial(solve_relaxation, second_moments, best_traces, solver)
            seconds, (value, status) = time_call(solve)
            lines.append(line(name, seconds, value, status))
    settings = FitSettings.parse(D, solver=Semidefinite())
    seconds, fit = time_call(partial(fit_moments, moments, settings))
    certificate = fit.certificate
    lines.append(line("`Semidefinite()`", seconds, certificate.objective, certificate.status.value))
    return lines


def solve_relaxation(
    second_moments: FloatArray, best_traces: FloatArray, solver: str
) -> tuple[float, str]:
    """Minimize max_g (t_g - <S_g, P>) subject to 0 <= P <= I and tr P = d.

    Parameters
    ----------
    second_moments : array of shape (k, p, p)
        S_g, the second moments of each group.
    best_traces : array of shape (k,)
        t_g, the largest <S_g, P> of one group alone.
    solver : str
        Name of a solver in cvxpy.

    Returns
    -------
    value : float
    status : str
        As cvxpy reports it.
    """
    k, p, _ = second_moments.shape
    P: Any = cvxpy.Variable((p, p), symmetric=True)
    largest_loss: Any = cvxpy.Variable()
    losses = best_traces - second_moments.reshape(k, p * p) @ cvxpy.vec(P, order="C")
    program: Any = cvxpy.Problem(
        cvxpy.Minimize(largest_loss),
        [losses <= largest_loss, P >> 0, np.eye(p) - P >> 0, cvxpy.trace(P) == D],
    )
    with warnings.catch_warnings():
        # The status already tells that an answer is inaccurate.
        warnings.simplefilter("ignore")
        program.solve(getattr(cvxpy, solver))
    return float(program.value), str(program.status)
