"""The largest loss of several groups: fairspan compared with the methods of minPCA and StablePCA.

Both packages are in repositories only (anyafries/minPCA, zywang0701/StablePCA), and the first needs
PyTorch. Their methods are implemented here in numpy from their publications, with their default
steps and rounds; none of their code is used. Both minimize the largest loss
max_g [t_d(S_g) - tr(V'S_gV)] over orthonormal V (p, d), where S_g are the second moments of group g
and t_d is the sum of the d largest eigenvalues. Parameters of the functions below: `second_moments`
is S_g, (k, p, p), and `best_traces` is t_d(S_g), (k,).
"""

from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.special import logsumexp
from threadpoolctl import threadpool_limits

from benchmarks.effort import Effort, SkippedError
from benchmarks.measurement import (
    format_seconds,
    format_table,
    log_progress,
    median_seconds,
    time_call,
)
from benchmarks.papers import format_excess
from benchmarks.report import SectionContent
from benchmarks.rows import FloatArray, explain_missing, load_table
from fairspan import GroupMoments
from fairspan.estimator.fit import fit_moments
from fairspan.estimator.fit_settings import FitSettings

# Defaults of minPCA: starts, steps of each, and the parameters of Adam.
_STARTS, _STEPS = 5, 500
_LEARNING_RATE = 0.1
_DECAYS = (0.9, 0.99)
_ADAM_EPSILON = 1e-8
# Defaults of StablePCA: rounds, a factor of the step size, and rounds until the step is halved.
_ROUNDS = 1000
_STEP_FACTOR = 10.0
_HALVING_ROUNDS = 500
_FAIRSPAN_REPETITIONS = 5
# Name, file, column of the groups, and d.
_CASES = (
    ("Default Credit, education and sex", "default_credit", "education_sex6", 3),
    ("Default Credit, education and sex", "default_credit", "education_sex6", 5),
    ("Adult, race", "adult_race5", "race", 5),
    ("Adult, race", "adult_race5", "race", 10),
)
_EXPLANATION = f"""\
Minimax loss, groups about their own means, standardized, from moments, one thread. *Descents* is
the method of minPCA: {_STARTS} random starts, each {_STEPS} steps of Adam along a subgradient of
the largest loss. *Mirror-prox* is that of StablePCA: a matrix with eigenvalues between 0 and 1 and
trace d, against weights of the groups, {_ROUNDS} rounds, then the d leading eigenvectors of the
average; its weights prove a lower bound. Both are our implementations, in double precision; the
authors' own are not run here. *Above* is how far their largest loss lies above ours, ratios are of
their time over ours. *Their gap* is how far their loss lies above the lower bound of mirror-prox,
as a share of it; descents have no bound."""


def measure(effort: Effort) -> SectionContent:
    """Compare the methods in every case whose data set is in the data folder."""
    cases, reasons = [], []
    for case in _CASES:
        if reason := explain_missing(f"{case[1]}.parquet"):
            reasons.append(reason)
        else:
            cases.append(case)
    if not cases:
        raise SkippedError(reasons[0])
    lines = []
    with threadpool_limits(1):
        for name, file, group, d in cases[: 1 if effort.quick else None]:
            log_progress(f"{name}, d = {d}")
            lines.append(compare_methods(name, GroupMoments.from_rows(*load_table(file, group)), d))
    header = [
        "data", "p, d", "groups", "ours", "largest loss", "status", "descents", "ratio", "above",
        "mirror-prox", "ratio", "above", "their gap",
    ]  # fmt: skip
    return SectionContent(f"{_EXPLANATION}\n\n{format_table(header, lines)}")


def compare_methods(name: str, moments: GroupMoments, d: int) -> list[str]:
    """Return one line of the table: time and largest loss of fairspan and of both methods."""
    run = partial(fit_moments, moments, FitSettings.parse(d, center="group"))
    seconds = median_seconds({"fairspan": run}, _FAIRSPAN_REPETITIONS)["fairspan"]
    certificate = run().certificate
    optimum = certificate.objective
    second_moments = moments.second_moments("group")
    best_traces = np.linalg.eigvalsh(second_moments)[:, -d:].sum(axis=1)
    adam_seconds, V = time_call(partial(adam_descents, second_moments, best_traces, d))
    adam_loss = largest_loss(second_moments, best_traces, V)
    mirror_seconds, (V, lower_bound) = time_call(
        partial(mirror_prox, second_moments, best_traces, d)
    )
    mirror_loss = largest_loss(second_moments, best_traces, V)
    return [
        name,
        f"{moments.n_features}, {d}",
        str(moments.n_groups),
        format_seconds(seconds),
        f"{optimum:.6g}",
        certificate.status.value,
        format_seconds(adam_seconds),
        f"{adam_seconds / seconds:.0f}",
        format_excess(adam_loss, optimum),
        format_seconds(mirror_seconds),
        f"{mirror_seconds / seconds:.0f}",
        format_excess(mirror_loss, optimum),
        f"{(mirror_loss - lower_bound) / mirror_loss:.2%}",
    ]


def largest_loss(second_moments: FloatArray, best_traces: FloatArray, V: FloatArray) -> float:
    """Return max_g [best_traces_g - tr(V'S_gV)]."""
    return float((best_traces - np.einsum("pd,gpq,qd->g", V, second_moments, V)).max())


def adam_descents(
    second_moments: FloatArray,
    best_traces: FloatArray,
    d: int,
    starts: int = _STARTS,
    steps: int = _STEPS,
) -> FloatArray:
    """Return the V (p, d) of the smallest loss among the ends of descents from random starts."""
    rng = np.random.default_rng(0)
    p = second_moments.shape[1]
    ends = [
        _adam_descent(second_moments, best_traces, rng.standard_normal((p, d)), steps)
        for _ in range(starts)
    ]
    return min(ends, key=partial(largest_loss, second_moments, best_traces))


def _adam_descent(
    second_moments: FloatArray, best_traces: FloatArray, W: FloatArray, steps: int
) -> FloatArray:
    """Take steps of Adam (Kingma and Ba 2015) on W (p, d), whose span is the subspace."""
    first_decay, second_decay = _DECAYS
    gradient_mean, squared_mean = np.zeros_like(W), np.zeros_like(W)
    for step in range(1, steps + 1):
        V, R = np.linalg.qr(W)
        images = second_moments @ V
        losses = best_traces - np.einsum("pd,gpd->g", V, images)
        # Gradient of -tr(P S) at W, P the projector onto its span, S of the active group.
        active = images[int(losses.argmax())]
        gradient = -2 * np.linalg.solve(R, (active - V @ (V.T @ active)).T).T
        gradient_mean = first_decay * gradient_mean + (1 - first_decay) * gradient
        squared_mean = second_decay * squared_mean + (1 - second_decay) * gradient**2
        direction = gradient_mean / (1 - first_decay**step)
        deviation = np.sqrt(squared_mean / (1 - second_decay**step))
        W = W - _LEARNING_RATE * direction / (deviation + _ADAM_EPSILON)
    return np.asarray(np.linalg.qr(W)[0])


@dataclass(frozen=True)
class _SaddlePoint:
    """Matrix M (p, p), 0 <= M <= I, of trace d; weights w (k,) on the simplex; their logarithms."""

    M: FloatArray
    w: FloatArray
    log_M: FloatArray  # noqa: N815
    log_w: FloatArray


def mirror_prox(
    second_moments: FloatArray, best_traces: FloatArray, d: int, rounds: int = _ROUNDS
) -> tuple[FloatArray, float]:
    """Solve the relaxation as a game of a matrix against the weights of the groups.

    The game is max over M, 0 <= M <= I of trace d, of min over w on the simplex of
    sum_g w_g tr(A_g M), where A_g = S_g - (best_traces_g / d) I, divided by the largest spectral
    norm of any A_g.

    Returns
    -------
    V : array of shape (p, d)
        Leading eigenvectors of the average of M.
    lower_bound : float
        On the largest loss of any subspace, proven by the average of w.
    """
    k, p = second_moments.shape[:2]
    A = second_moments - (best_traces / d)[:, None, None] * np.eye(p)
    norm = np.abs(np.linalg.eigvalsh(A)).max()
    A = A / norm
    # Ranges of the entropies of w and of M; each divides the step of the other.
    w_range = np.log(k)
    M_range = d * np.log(p / d)
    first_step = _STEP_FACTOR * np.sqrt(w_range / M_range) / 4
    uniform = np.full(k, -np.log(k))
    point = _SaddlePoint(
        M=(d / p) * np.eye(p), w=np.exp(uniform), log_M=np.log(d / p) * np.eye(p), log_w=uniform
    )
    sum_of_M = np.zeros((p, p))
    sum_of_w = np.zeros(k)
    for number in range(rounds):
        step = first_step * 0.5 ** (number // _HALVING_ROUNDS)
        M_step, w_step = step / w_range, step / M_range
        # Mirror-prox: a trial step, then a step from the same point along the trial's gradient.
        trial = _step_along_gradient(A, d, point, point, M_step, w_step)
        point = _step_along_gradient(A, d, point, trial, M_step, w_step)
        sum_of_M, sum_of_w = sum_of_M + trial.M, sum_of_w + trial.w
    weights = sum_of_w / rounds
    lower_bound = -norm * np.linalg.eigvalsh(np.tensordot(weights, A, axes=1))[-d:].sum()
    return np.linalg.eigh(sum_of_M)[1][:, -d:], float(lower_bound)


def _step_along_gradient(
    A: FloatArray,
    d: int,
    start: _SaddlePoint,
    gradient_point: _SaddlePoint,
    M_step: float,
    w_step: float,
) -> _SaddlePoint:
    """Step from a point along the gradient at another: M increases the value, w decreases it."""
    log_w = start.log_w - w_step * np.einsum("gpq,pq->g", A, gradient_point.M)
    log_w = log_w - logsumexp(log_w)
    gradient = np.tensordot(gradient_point.w, A, axes=1)
    values, vectors = np.linalg.eigh(start.log_M + M_step * gradient)
    # Bregman projection onto 0 <= M <= I with trace d.
    capped = np.minimum(values + _trace_shift(values[::-1], d), 0.0)
    M = (vectors * np.exp(capped)) @ vectors.T
    return _SaddlePoint(M, np.exp(log_w), (vectors * capped) @ vectors.T, log_w)


def _trace_shift(values: FloatArray, d: int) -> float:
    """Return s such that sum_i min(exp(values_i + s), 1) equals d; `values` descend."""
    for n_capped in range(d):
        shift = float(np.log(d - n_capped) - logsumexp(values[n_capped:]))
        if values[n_capped] + shift <= 0:
            break
    return shift
