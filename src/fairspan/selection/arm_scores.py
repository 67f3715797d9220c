"""Scores compared across splits of different difficulty."""

import numpy as np

from fairspan.typing import FloatArray


def least_squares_means(scores: FloatArray) -> FloatArray:
    """Least-squares mean of each arm's scores over all splits, shape (a,).

    Arms are pulled unequally often, and splits often differ more than arms do: a plain mean would
    penalize an arm for difficult splits that only it was tried on.

    Parameters
    ----------
    scores : (a, s) array
        At least one score per row; NaN if not measured.
    """
    is_used = ~np.isnan(scores).all(axis=0)
    observed = scores[:, is_used]
    if not np.isnan(observed).any():
        # The plain mean is the least-squares mean too, without its rounding error.
        return np.asarray(observed.mean(axis=1))
    effects = split_effects(observed)
    return np.asarray(np.nanmean(observed - effects, axis=1) + effects.mean())


def split_effects(scores: FloatArray) -> FloatArray:
    """Least-squares estimate of how much easier each split is than the first one.

    The model score_ij = arm_i + split_j is fitted to the observed scores (least-squares or
    population marginal means: Searle, Speed and Milliken 1980, The American Statistician 34). Each
    row has its scores first, followed by NaN. The residuals of the last split then sum to zero
    within its column, which leaves the normal equations of the earlier splits unchanged, so that
    one pass from the first split to the last solves them exactly:

        split_j = mean over the arms i that saw j of (score_ij - mean_{l < j}(score_il - split_l))

    Parameters
    ----------
    scores : (a, s) array

    Returns
    -------
    (s,) array
        The first is zero; also zero for splits that no arm was tried on.

    Examples
    --------
    >>> split_effects(np.array([[1.0, 4.0], [2.0, 5.0], [3.0, np.nan]]))
    array([0., 3.])
    """
    effects = np.zeros(scores.shape[1])
    sums = scores[:, 0].copy()
    for split in range(1, scores.shape[1]):
        observed = ~np.isnan(scores[:, split])
        if not observed.any():
            break
        effects[split] = np.mean(scores[observed, split] - sums[observed] / split)
        sums[observed] += scores[observed, split] - effects[split]
    return effects
