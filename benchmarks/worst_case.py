"""The largest loss of several groups: ours beside the methods of minPCA and StablePCA.

Both packages lie in repositories (anyafries/minPCA, zywang0701/StablePCA), and the first needs
PyTorch. Their methods are written here in numpy from what they publish, with their default steps
and rounds; no code of theirs is used. Both minimize max_g [t_d(S_g) - tr(V'S_gV)].
"""

from functools import partial

import numpy as np
from scipy.special import logsumexp
from threadpoolctl import threadpool_limits

from benchmarks.effort import Effort, SkippedError
from benchmarks.papers import excess
from benchmarks.report import Measured
from benchmarks.results import announce, seconds_of, shown_seconds, table_of, timed
from benchmarks.rows import FloatArray, missing, table
from fairspan import GroupMoments
from fairspan.estimator.fit import fit_moments
from fairspan.estimator.settings import FitSettings

# minPCA: starts, steps of each, and the parameters of Adam.
_STARTS, _STEPS, _RATE, _DECAYS, _TINY = 5, 500, 0.1, (0.9, 0.99), 1e-8
# StablePCA: rounds, the multiple of its first step, and the rounds after which steps are halved.
_ROUNDS, _MULTIPLE, _HALVED_AFTER = 1000, 10.0, 500
_OWN_TURNS = 5
_CASES = (
    ("Default Credit, education and sex", "default_credit", "education_sex6", 3),
    ("Default Credit, education and sex", "default_credit", "education_sex6", 5),
    ("Adult, race", "adult_race5", "race", 5),
    ("Adult, race", "adult_race5", "race", 10),
)
_READ = f"""\
Minimax loss, groups about their own means, standardized, from moments, one thread. *Descents* is
the method of minPCA: {_STARTS} random starts, each {_STEPS} steps of Adam along a subgradient of
the largest loss. *Mirror-prox* is that of StablePCA: a matrix with eigenvalues between 0 and 1 and
trace d, against weights of the groups, {_ROUNDS} rounds, then the d leading eigenvectors of the
average; its weights prove a lower bound. Both are our implementations, in double precision; the
authors' own are not run here. *Above* is how far their largest loss lies above ours, ratios are of
their time over ours. *Their gap* is how far their loss lies above the lower bound of mirror-prox,
as a share of it; descents have no bound."""


def measure(effort: Effort) -> Measured:
    """Every case whose data are here."""
    cases = [each for each in _CASES if not missing(f"{each[1]}.parquet")]
    if not cases:
        raise SkippedError(str(missing(f"{_CASES[0][1]}.parquet")))
    lines = []
    with threadpool_limits(1):
        for name, file, group, d in cases[: 1 if effort.quick else None]:
            announce(f"{name}, d = {d}")
            lines.append(line_of(name, GroupMoments.from_rows(*table(file, group)), d))
    header = [
        "data", "p, d", "groups", "ours", "largest loss", "status", "descents", "ratio", "above",
        "mirror-prox", "ratio", "above", "their gap",
    ]  # fmt: skip
    return Measured(f"{_READ}\n\n{table_of(header, lines)}")


def line_of(name: str, moments: GroupMoments, d: int) -> list[str]:
    """One line: our time, value and proof; time and value of both others."""
    run = partial(fit_moments, moments, FitSettings.parse(d, center="group"))
    ours, fit = seconds_of({"ours": run}, _OWN_TURNS)["ours"], run()
    least = fit.certificate.objective
    second = moments.second_moments("group")
    best = np.linalg.eigvalsh(second)[:, -d:].sum(axis=1)
    descending, found = timed(partial(descents, second, best, d))
    mirroring, (rounded, bound) = timed(partial(mirror_prox, second, best, d))
    value = largest_loss(second, best, rounded)
    return [
        name,
        f"{moments.n_features}, {d}",
        str(moments.n_groups),
        shown_seconds(ours),
        f"{least:.6g}",
        fit.certificate.status.value,
        shown_seconds(descending),
        f"{descending / ours:.0f}",
        excess(largest_loss(second, best, found), least),
        shown_seconds(mirroring),
        f"{mirroring / ours:.0f}",
        excess(value, least),
        f"{(value - bound) / value:.2%}",
    ]


def largest_loss(second: FloatArray, best: FloatArray, V: FloatArray) -> float:
    """max_g [best_g - tr(V'S_gV)]."""
    return float((best - np.einsum("pd,gpq,qd->g", V, second, V)).max())


def descents(
    second: FloatArray, best: FloatArray, d: int, starts: int = _STARTS, steps: int = _STEPS
) -> FloatArray:
    """Orthonormal columns (p, d) of the least value where the descents end."""
    random = np.random.default_rng(0)
    found = [
        _descent(second, best, random.standard_normal((second.shape[1], d)), steps)
        for _ in range(starts)
    ]
    return min(found, key=partial(largest_loss, second, best))


def _descent(second: FloatArray, best: FloatArray, W: FloatArray, steps: int) -> FloatArray:
    """Adam (Kingma and Ba 2015) on W, whose span is the subspace."""
    first_decay, second_decay = _DECAYS
    mean, square = np.zeros_like(W), np.zeros_like(W)
    for step in range(1, steps + 1):
        V, R = np.linalg.qr(W)
        images = second @ V
        losses = best - np.einsum("pd,gpd->g", V, images)
        # Of -tr(P S) for the projector P onto the span of W.
        active = images[int(losses.argmax())]
        gradient = -2 * np.linalg.solve(R, (active - V @ (V.T @ active)).T).T
        mean = first_decay * mean + (1 - first_decay) * gradient
        square = second_decay * square + (1 - second_decay) * gradient**2
        steered = mean / (1 - first_decay**step)
        W = W - _RATE * steered / (np.sqrt(square / (1 - second_decay**step)) + _TINY)
    return np.asarray(np.linalg.qr(W)[0])


def mirror_prox(
    second: FloatArray, best: FloatArray, d: int, rounds: int = _ROUNDS
) -> tuple[FloatArray, float]:
    """Orthonormal columns (p, d), and the lower bound that the averaged weights prove.

    max over 0 <= M <= I of trace d, min over w on the simplex, of sum_g w_g tr(A_g M), where
    A_g = S_g - (best_g / d) I, all divided by the largest spectral norm.
    """
    k, p = second.shape[:2]
    A = second - (best / d)[:, None, None] * np.eye(p)
    norm = np.abs(np.linalg.eigvalsh(A)).max()
    A = A / norm
    spread_of_w, spread_of_M = np.log(k), d * np.log(p / d)
    pace = _MULTIPLE * np.sqrt(spread_of_w / spread_of_M) / 4
    # The logarithms of M and of w, and the sums of what lies between two rounds.
    log_M, log_w = np.log(d / p) * np.eye(p), np.full(k, -np.log(k))
    M, w = (d / p) * np.eye(p), np.exp(log_w)
    sum_of_M, sum_of_w = np.zeros((p, p)), np.zeros(k)
    for number in range(rounds):
        size = pace * 0.5 ** (number // _HALVED_AFTER)
        steps = size / spread_of_w, size / spread_of_M
        between_M, between_w, _, _ = _moved(A, d, log_M, log_w, M, w, steps)
        M, w, log_M, log_w = _moved(A, d, log_M, log_w, between_M, between_w, steps)
        sum_of_M, sum_of_w = sum_of_M + between_M, sum_of_w + between_w
    weights = sum_of_w / rounds
    bound = -norm * np.linalg.eigvalsh(np.tensordot(weights, A, axes=1))[-d:].sum()
    return np.linalg.eigh(sum_of_M)[1][:, -d:], float(bound)


def _moved(
    A: FloatArray,
    d: int,
    log_M: FloatArray,
    log_w: FloatArray,
    at_M: FloatArray,
    at_w: FloatArray,
    steps: tuple[float, float],
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """A step of M and of w along the gradient at another point, with their logarithms."""
    log_w = log_w - steps[1] * np.einsum("gpq,pq->g", A, at_M)
    log_w = log_w - logsumexp(log_w)
    values, vectors = np.linalg.eigh(log_M + steps[0] * np.tensordot(at_w, A, axes=1))
    capped = np.minimum(values + _level(values[::-1], d), 0.0)
    M = (vectors * np.exp(capped)) @ vectors.T
    return M, np.exp(log_w), (vectors * capped) @ vectors.T, log_w


def _level(values: FloatArray, d: int) -> float:
    """The number that, added to all of these descending values, makes sum min(exp, 1) equal d."""
    for capped in range(d):
        level = float(np.log(d - capped) - logsumexp(values[capped:]))
        if values[capped] + level <= 0:
            break
    return level
