"""Random tables with known distributions of their groups.

Three kinds in turn: one distribution, groups with rotated axes, and groups of which some have a
direction of their own that a fair model can serve at a small cost.
"""

import numpy as np

from true_losses import Distribution, DrawnTable


def rotate_directions(rng, directions, size):
    """Orthonormal directions, turned at random by an angle of about `size`."""
    p = len(directions)
    return np.linalg.qr(directions + size * rng.normal(size=(p, p)) / np.sqrt(p))[0]


def draw_distribution(rng, kind, directions, spectrum, d):
    """Distribution of one group."""
    if kind == "same":
        return Distribution(directions * np.sqrt(spectrum))
    if kind == "rotated":
        eigenvalues = spectrum * rng.uniform(0.5, 1.5, len(spectrum))
        rotated_directions = rotate_directions(rng, directions, rng.choice([0.2, 1.0]))
        return Distribution(rotated_directions * np.sqrt(eigenvalues))
    eigenvalues = np.where(np.arange(len(spectrum)) < d - 1, 20 * spectrum, 0.2 * spectrum)
    if rng.random() < 0.5:
        own_axis = rng.integers(d - 1, len(spectrum))
        eigenvalues[own_axis] = rng.uniform(0.5, 3.0) * spectrum[0]
    return Distribution(directions * np.sqrt(eigenvalues))


def draw_table(seed):
    """Draw 80 to 4,000 rows of each of two to four groups."""
    rng = np.random.default_rng(seed)
    kind = ("same", "rotated", "own direction")[seed % 3]
    p = int(rng.integers(5, 13))
    d = int(rng.integers(1, max(2, p // 3) + 1))
    if kind == "own direction":
        d = max(d, 2)
    directions = np.linalg.qr(rng.normal(size=(p, p)))[0]
    spectrum = np.arange(1, p + 1) ** -rng.uniform(0.3, 1.5)
    n_groups = int(rng.integers(2, 5))
    sizes = {
        f"g{i}": round(np.exp(rng.uniform(np.log(80), np.log(4_000)))) for i in range(n_groups)
    }
    distributions = {name: draw_distribution(rng, kind, directions, spectrum, d) for name in sizes}
    return DrawnTable.draw(f"{kind} {seed}", rng, sizes, distributions, d)


def draw_repairable_table(seed):
    """Draw a table that a fair model repairs at a small cost: a small group has its direction.

    PCA spends its last dimension on all other groups, to which that makes little difference.
    """
    rng = np.random.default_rng(seed)
    p = int(rng.integers(5, 13))
    d = int(rng.integers(2, 4))
    directions = np.linalg.qr(rng.normal(size=(p, p)))[0]
    spectrum = np.arange(1, p + 1) ** -rng.uniform(0.6, 1.6)
    n_others = int(rng.integers(1, 4))
    sizes = {
        f"g{i}": round(np.exp(rng.uniform(np.log(3_000), np.log(15_000)))) for i in range(n_others)
    }
    n_small = round(sum(sizes.values()) * rng.uniform(0.03, 0.12))
    # PCA prefers the last common direction to the own one as long as this ratio is below one.
    ratio = rng.uniform(0.4, 0.95)
    common = np.where(np.arange(p) < d - 1, rng.uniform(1, 3), rng.uniform(0.02, 0.06)) * spectrum
    distributions = {}
    for name in (*sizes, "small"):
        eigenvalues = common * rng.uniform(0.97, 1.03, p)
        if name == "small":
            eigenvalues[d] = ratio * (common[d - 1] - common[d]) * sum(sizes.values()) / n_small
        distributions[name] = Distribution(directions * np.sqrt(eigenvalues))
    sizes["small"] = n_small
    return DrawnTable.draw(f"repairable {seed}", rng, sizes, distributions, d)
