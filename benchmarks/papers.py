"""Published algorithms compared with fairspan, from the same moments: time and objective."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from threadpoolctl import threadpool_limits

from benchmarks.effort import Effort
from benchmarks.measurement import (
    format_seconds,
    format_table,
    log_progress,
    median_seconds,
    time_call,
)
from benchmarks.printed_algorithm import RobustProblem, descend
from benchmarks.report import SectionContent
from benchmarks.rows import LabeledRows, explain_missing, load_faces_by_gender, load_table
from fairspan import GroupMoments, MultiplicativeWeights, RiemannianSubgradient, RobustErrorGap
from fairspan.estimator.fit import Fit, fit_moments
from fairspan.estimator.fit_settings import FitSettings
from reproduction.vu.data_sets import DATA_SETS

PENALTIES = (0.5, 2.5)
RADIUS = 0.15
D = 3
# Rounds of multiplicative weights.
_ROUNDS = 10
_DEFAULT_TOL = 1e-9
# A looser tolerance, still far below the gap of the paper's algorithm.
_COARSE_TOL = 1e-6
# fairspan takes milliseconds and is repeated; a baseline takes up to a minute, and runs once.
_FAIRSPAN_REPETITIONS = 5


@dataclass(frozen=True)
class Starts:
    """Number of random starts of the Riemannian algorithm, and steps of each."""

    n: int = 20
    steps: int = 1000


def measure(effort: Effort) -> SectionContent:
    """Compare the algorithms for the robust error gap and for the minimax loss."""
    data_sets = [data_set for data_set in DATA_SETS if not data_set.is_large]
    if effort.quick:
        data_sets = data_sets[1:4]
    for data_set in data_sets:
        if reason := explain_missing(f"{data_set.name}.parquet"):
            return SectionContent(f"Not measured: {reason}.")
    penalties = PENALTIES[:1] if effort.quick else PENALTIES
    robust_lines = []
    with threadpool_limits(1):
        for data_set in data_sets:
            log_progress(f"robust error gap, {data_set.name}")
            moments = GroupMoments.from_rows(*load_table(data_set.name, data_set.group))
            for penalty in penalties:
                robust_lines.append(robust_line(data_set.name, moments, penalty))
        weights_text = _compare_weights(effort)
    return SectionContent(f"{_format_robust(robust_lines)}\n\n{weights_text}")


def robust_line(
    name: str, moments: GroupMoments, penalty: float, starts: Starts = Starts()
) -> list[str]:
    """Compare fairspan with the paper's algorithm, as printed and as implemented here.

    Returns
    -------
    list of str
        One line of the table of `_format_robust`.
    """
    criterion = RobustErrorGap(penalty, RADIUS)
    seconds, fit = _time_fairspan(moments, D, criterion)
    certificate, problem = fit.certificate, fit.problem
    optimum = certificate.objective
    coarse_seconds, _ = _time_fairspan(moments, D, criterion, _COARSE_TOL)
    solver = RiemannianSubgradient(max_iter=starts.steps, n_starts=starts.n)
    settings = FitSettings.parse(D, criterion=criterion, solver=solver)
    solver_seconds, solver_fit = time_call(partial(fit_moments, moments, settings))
    robust_problem = RobustProblem(
        moments.second_moments("global"),
        moments.proportions,
        criterion.radii(problem),
        penalty,
    )
    printed_seconds, errors = time_call(partial(descend, robust_problem, D, starts.n, starts.steps))
    return [
        name,
        f"{moments.n_features}",
        f"{penalty:g}",
        format_seconds(seconds),
        certificate.status.value,
        format_seconds(printed_seconds),
        f"**{printed_seconds / seconds:,.0f}**",
        f"{printed_seconds / coarse_seconds:,.0f}",
        format_excess(criterion.value(errors, problem), optimum),
        format_seconds(solver_seconds),
        f"{solver_seconds / seconds:,.0f}",
        format_excess(solver_fit.certificate.objective, optimum),
    ]


def weights_line(name: str, rows: LabeledRows, d: int) -> list[str]:
    """Compare fairspan with ten rounds of multiplicative weights.

    Returns
    -------
    list of str
        One line of the table of `_compare_weights`.
    """
    moments = GroupMoments.from_rows(*rows)
    seconds, fit = _time_fairspan(moments, d, "minimax_loss")
    certificate = fit.certificate
    solver = MultiplicativeWeights(max_iter=_ROUNDS)
    settings = FitSettings.parse(d, solver=solver)
    solver_seconds, solver_fit = time_call(partial(fit_moments, moments, settings))
    solver_certificate = solver_fit.certificate
    return [
        name,
        f"{moments.n_features}, {d}",
        str(moments.n_groups),
        format_seconds(seconds),
        certificate.status.value,
        format_seconds(solver_seconds),
        f"{solver_seconds / seconds:.2f}",
        format_excess(solver_certificate.objective, certificate.objective),
        solver_certificate.status.value,
    ]


def format_excess(value: float, optimum: float) -> str:
    """Return how far a value lies above the optimum, as a share of the optimum."""
    share = (value - optimum) / optimum
    if abs(share) < 1e-6:
        return "equal"
    if abs(share) <= 1e-4:
        return f"{share:+.1e}"
    return f"{share:+.2%}"


def _time_fairspan(
    moments: GroupMoments, d: int, criterion: str | RobustErrorGap, tol: float = _DEFAULT_TOL
) -> tuple[float, Fit]:
    """Return the median time of the default solver, and its fit."""
    run = partial(fit_moments, moments, FitSettings.parse(d, criterion=criterion, tol=tol))
    return median_seconds({"fairspan": run}, _FAIRSPAN_REPETITIONS)["fairspan"], run()


def _format_robust(lines: list[list[str]]) -> str:
    explanation = (
        f"**Robust error gap** (Vu et al. 2022), their data sets, standardized, d = {D}, radius "
        f"{RADIUS:g} / sqrt(n_g), from moments, one thread: branch and bound to a proven optimum, "
        "compared with the paper's Algorithm 1, 20 starts of 1000 steps, once step by step as "
        "printed, once as `RiemannianSubgradient`, which moves all starts at once and includes one "
        "solve of ours for its lower bound. Ratios are of their time over ours (goal: 100), with "
        "ours proven to the default tolerance of 1e-9 and once to 1e-6; "
        "*above* is how far their value lies above ours."
    )
    header = [
        "data", "p", "penalty", "ours", "status", "as printed", "ratio", "ratio at 1e-6", "above",
        "`RiemannianSubgradient`", "ratio", "above",
    ]  # fmt: skip
    return f"{explanation}\n\n{format_table(header, lines)}"


def _compare_weights(effort: Effort) -> str:
    """Return a table of multiplicative weights for those data sets that are in the data folder."""
    cases: list[tuple[str, str, Callable[[], LabeledRows], int]] = [
        ("Default Credit", "default_credit", partial(load_table, "default_credit", "education"), 5),
        (
            "six groups",
            "default_credit",
            partial(load_table, "default_credit", "education_sex6"),
            5,
        ),
        ("Adult by race", "adult_race5", partial(load_table, "adult_race5", "race"), 5),
        ("Faces (LFW)", "lfw", load_faces_by_gender, 20),
    ]
    if effort.quick:
        cases = cases[:2]
    lines = []
    for name, file, load, d in cases:
        if not (explain_missing(f"{file}.parquet") and explain_missing(f"{file}.npz")):
            log_progress(f"multiplicative weights, {name}")
            lines.append(weights_line(name, load(), d))
    explanation = (
        f"**Minimax loss** (Samadi et al. 2018): multiplicative weights, T = {_ROUNDS} rounds, "
        "each an eigenproblem, then rounded to d components; from moments, one thread. *Above* is "
        "how far their largest loss lies above ours; their status is against their own bound."
    )
    header = [
        "data", "p, d", "groups", "ours", "status", "weights", "ratio", "above", "their status"
    ]  # fmt: skip
    return f"{explanation}\n\n{format_table(header, lines)}"
