"""Rows of two groups; random cells of the second are missing."""

import numpy as np

# Square roots of the second moments of the groups.
ROOTS = np.random.default_rng(0).standard_normal((2, 6, 6)) * np.repeat([1, 0.5], [2, 4])


def draw_rows(seed: int, n: int = 150, share: float = 0.3) -> tuple[np.ndarray, np.ndarray]:
    """Rows of two groups, and the same with cells of the second missing at random."""
    rng = np.random.default_rng(seed)
    rows = np.vstack([rng.standard_normal((n, 6)) @ root for root in ROOTS])
    holes = rng.random(rows.shape) < share
    holes[:, 0] &= ~holes.all(axis=1)
    holes[:n] = False
    return rows, np.where(holes, np.nan, rows)


def groups_of(rows: np.ndarray) -> np.ndarray:
    return np.repeat(["a", "b"], len(rows) // 2)
