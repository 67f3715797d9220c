"""Groups that lose nothing by a model, and groups with a known loss, in draws of their rows.

The model of each setting is ordinary PCA of many rows of other people, so that its subspace is that
of their first d axes. A group without a loss has the same axes, with variances of its own.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

D = 3
# A gap after the third dimension, of which the documentation tells the power.
GAP = np.concatenate([[4.0, 3.0, 2.0], np.linspace(0.8, 0.2, 17)])
FALLING = 1 / np.arange(1, 21)
TIED = np.concatenate([np.ones(6), np.full(14, 0.1)])


@dataclass(frozen=True)
class GroupRows:
    """Rows of the group under audit, and the cluster of each; None if they are independent."""

    values: np.ndarray
    clusters: np.ndarray | None = None


@dataclass(frozen=True)
class NullSetting:
    """A group without a loss, among others.

    Attributes
    ----------
    draw : callable
        Gives the rows of the group, from a generator.
    others : (p,) array
        Variances of the others along their axes.
    d : int
        Dimension of the model.
    """

    draw: Callable[[np.random.Generator], GroupRows]
    others: np.ndarray
    d: int = D


def normal(rng, n, p):
    return rng.normal(size=(n, p))


def exponential(rng, n, p):
    return rng.exponential(size=(n, p)) - 1


def two_values(rng, n, p):
    return np.sign(rng.normal(size=(n, p)))


def student(df, n_normal=0):
    """Multivariate t, of unit variances; the first `n_normal` features are normal instead."""

    def draw(rng, n, p):
        rows = rng.normal(size=(n, p)) / np.sqrt(rng.chisquare(df, (n, 1)) / (df - 2))
        rows[:, :n_normal] = rng.normal(size=(n, n_normal))
        return rows

    return draw


def independent(n, variances, draw=normal, offset=0.0):
    def rows(rng):
        values = draw(rng, n, len(variances)) * np.sqrt(variances)
        values[:, 0] += offset
        return GroupRows(values)

    return rows


def visits(variances, correlation, n_persons=20, n_visits=10, n_independent=0):
    """Several visits of each person, correlated; in the first features they are independent."""

    def rows(rng):
        persons = np.repeat(np.arange(n_persons), n_visits)
        p = len(variances)
        share = np.full(p, correlation)
        share[:n_independent] = 0.0
        values = np.sqrt(share) * rng.normal(size=(n_persons, p))[persons]
        values += np.sqrt(1 - share) * rng.normal(size=(len(persons), p))
        return GroupRows(values * np.sqrt(variances), persons)

    return rows


def one_large(largest, p=20):
    return np.concatenate([[largest], np.ones(p - 1)])


_ONE_LARGE_DEVIATION = np.concatenate([[30.0, 1.5, 1.2], np.full(17, 0.8)])
_FALLING_50 = 1 / np.arange(1, 51)

# Section 7 of the design first, then section 8.1.
NULLS = {
    "one distribution": NullSetting(independent(80, FALLING), FALLING),
    "few rows": NullSetting(independent(40, FALLING), FALLING),
    "more features": NullSetting(independent(60, _FALLING_50), _FALLING_50, d=5),
    "t4": NullSetting(independent(160, FALLING, student(4)), FALLING),
    "skewed": NullSetting(independent(80, FALLING, exponential), FALLING),
    "two values": NullSetting(independent(80, FALLING, two_values), FALLING),
    "tied": NullSetting(independent(80, TIED), TIED),
    "tied, others are not": NullSetting(independent(80, TIED), GAP),
    "twice the size": NullSetting(independent(80, 4 * FALLING), FALLING),
    "twice the size, t4": NullSetting(independent(80, 4 * FALLING, student(4)), FALLING),
    "another spectrum": NullSetting(
        independent(80, np.concatenate([np.linspace(1, 0.9, 3), np.linspace(0.8, 0.5, 17)])),
        FALLING,
    ),
    "nearly a ball": NullSetting(
        independent(80, np.concatenate([np.ones(3), np.full(17, 0.99)])), FALLING
    ),
    "another mean": NullSetting(independent(80, FALLING, offset=1.5), FALLING),
    "one large of 100": NullSetting(independent(60, one_large(100.0)), GAP),
    "one large of 30": NullSetting(independent(60, one_large(30.0)), GAP),
    "visits, but for the first feature": NullSetting(
        visits(_ONE_LARGE_DEVIATION, 1.0, n_independent=1), GAP
    ),
    "visits with ties, but for the first feature": NullSetting(
        visits(one_large(30.0), 1.0, n_independent=1), GAP
    ),
    "visits": NullSetting(visits(_ONE_LARGE_DEVIATION, 0.7), GAP),
    "t5, but for the first feature": NullSetting(
        independent(200, _ONE_LARGE_DEVIATION, student(5, n_normal=1)), GAP
    ),
    "t5 with ties, but for the first feature": NullSetting(
        independent(200, one_large(30.0), student(5, n_normal=1)), GAP
    ),
    "skewed, few rows": NullSetting(independent(60, one_large(30.0), exponential), GAP),
}


def rotated_setting(n, loss):
    """Normal rows with this loss, a share of the variance, by the first d axes.

    Each of these axes is turned by the same angle against one of the next d.
    """
    share = loss * GAP.sum() / (GAP[:D] - GAP[D : 2 * D]).sum()
    rotation = np.eye(len(GAP))
    for i in range(D):
        plane = np.ix_([i, i + D], [i, i + D])
        cosine = np.sqrt(1 - share)
        sine = np.sqrt(share)
        rotation[plane] = [[cosine, sine], [-sine, cosine]]

    def rows(rng):
        return GroupRows(rng.normal(size=(n, len(GAP))) * np.sqrt(GAP) @ rotation)

    return NullSetting(rows, GAP)
