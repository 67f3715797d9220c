"""Starts for local descents: near the relaxed solution, and spread over all subspaces."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from fairspan.problem.problem import Problem
from fairspan.typing import FloatArray


@dataclass(frozen=True)
class _StartLimits:
    """Limits of the number of starts, which keep their cost below that of a few descents.

    Attributes
    ----------
    n_relaxation_starts : int
        Random subspaces in the span of the relaxed solution.
    max_spread_starts : int
        Spread starts.
    min_distance : float
        Smallest distance between spread starts: the squared Frobenius distance of their projectors,
        divided by two.
    spread_start_budget : float
        Spread starts times features. With many features spread starts rarely help, and a descent is
        slow.
    full_budget_groups : float
        Number of groups beyond which that budget is reduced in proportion.
    min_samples : int
        Random subspaces to choose the spread starts from, at least.
    max_samples : int
        Random subspaces to choose the spread starts from, at most.
    sample_budget : int
        Entries of all of them together.
    """

    n_relaxation_starts: int = 12
    max_spread_starts: int = 8
    min_distance: float = 0.1
    spread_start_budget: float = 100.0
    full_budget_groups: float = 10.0
    min_samples: int = 32
    max_samples: int = 2000
    sample_budget: int = 20_000


_LIMITS = _StartLimits()


def starts_from_relaxation(soft: FloatArray, n_components: int) -> Iterator[FloatArray]:
    """Yield leading eigenvectors of a relaxed solution P, and random subspaces of its span.

    The eigenvectors may be a saddle point, where a descent stops immediately: if groups vary along
    separate axes, every choice of axes is one.

    Parameters
    ----------
    soft : (p, r) array
        Columns sqrt(lb_j) u_j, of P = sum_j lb_j u_j u_j'.
    n_components : int
        d.

    Yields
    ------
    (p, d) array
        Orthonormal columns.
    """
    vectors, lengths, _ = np.linalg.svd(soft, full_matrices=False)
    yield vectors[:, :n_components]
    # Fixed seed, for reproducible results.
    rng = np.random.default_rng(0)
    for _ in range(_LIMITS.n_relaxation_starts):
        # P^(1/2) times random columns: directions of large eigenvalues are the most likely.
        sample = rng.standard_normal((len(lengths), n_components))
        yield np.linalg.qr((vectors * np.minimum(lengths, 1.0)) @ sample)[0]


def spread_starts(
    problem: Problem, values_at: Callable[[FloatArray], FloatArray]
) -> list[FloatArray]:
    """Subspaces spread over the Grassmannian, the best of a random sample, to descend from.

    With few features the sample is dense. The seed is fixed, for reproducible results.

    Parameters
    ----------
    problem : Problem
    values_at : callable
        Maps errors (n, k) to values of the criterion (n,).

    Returns
    -------
    list of (p, d) arrays
        Best first, each at a minimum distance from those before it. Empty with many features.
    """
    p = problem.n_features
    d = problem.n_components
    # With many groups each descent takes longer, so fewer starts are selected.
    budget_fraction = min(1.0, _LIMITS.full_budget_groups / problem.n_groups)
    n_starts = min(
        int(budget_fraction * _LIMITS.spread_start_budget / p), _LIMITS.max_spread_starts
    )
    selected: list[FloatArray] = []
    if n_starts == 0:
        return selected
    n_samples = int(
        np.clip(_LIMITS.sample_budget // (p * d), _LIMITS.min_samples, _LIMITS.max_samples)
    )
    samples = np.linalg.qr(np.random.default_rng(0).standard_normal((n_samples, p, d)))[0]
    # Captured variances; cancellation does not matter here.
    columns = samples.transpose(1, 0, 2).reshape(p, -1)
    captured = np.einsum("pn,gpn->gn", columns, problem.second_moments.apply(columns))
    errors = problem.second_moments.traces - captured.reshape(-1, n_samples, d).sum(axis=2).T
    values = values_at(errors)
    for basis in samples[np.argsort(values, kind="stable")]:
        # ||VV' - WW'||_F^2 / 2 = d - ||V'W||_F^2
        distances = [d - float(np.sum((basis.T @ other) ** 2)) for other in selected]
        if all(distance > _LIMITS.min_distance for distance in distances):
            selected.append(basis)
        if len(selected) == n_starts:
            break
    return selected
