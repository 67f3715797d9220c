"""Facts of a walk: few components and few features of each step, and its figures."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from fairspan.moments.group_moments import GroupMoments
from fairspan.report.facts.dimensions import without_rounding
from fairspan.report.facts.walks import Step, Walk, aligned
from fairspan.typing import FloatArray

MOST_COMPONENTS, MOST_FEATURES = 5, 20
# Decimals of a loading, which is at most one; and digits that decide which are the largest.
_DECIMALS, _TELLING = 4, 9


def steps_facts(
    walk: Walk, scaled: GroupMoments, second: FloatArray, names: Sequence[str], rounding: float
) -> dict[str, Any]:
    """Everything that a slider shows.

    Parameters
    ----------
    walk : Walk
    scaled : GroupMoments
        In the units of the errors.
    second : (k, p, p) array
        Their second moments about the centre of the errors.
    names : sequence of p str
    rounding : float
        Figures up to this size are none.
    """
    walk = aligned(walk)
    chosen = telling_features([step.components[:MOST_COMPONENTS] for step in walk.steps])
    pooled = np.tensordot(scaled.proportions, second, axes=1)
    traces = np.einsum("gii->g", second)
    return {
        "walk": walk.kind,
        "start": walk.start,
        "plain": walk.plain,
        "features": [names[i] for i in chosen],
        "points": [
            _point(step, scaled.proportions, traces, rounding) | _components(step, pooled, chosen)
            for step in walk.steps
        ],
    }


def telling_features(components: Sequence[FloatArray]) -> list[int]:
    """The features with the largest loadings anywhere on the walk, in their own order.

    Examples
    --------
    >>> telling_features([np.array([[0.8, 0.0, 0.6]])])
    [0, 1, 2]
    """
    largest = np.max([np.abs(each).max(axis=0) for each in components], axis=0).round(_TELLING)
    return sorted(np.argsort(-largest, kind="stable")[:MOST_FEATURES].tolist())


def _point(
    step: Step, proportions: FloatArray, traces: FloatArray, rounding: float
) -> dict[str, Any]:
    with np.errstate(invalid="ignore", divide="ignore"):
        kept = np.where(traces > 0, 1.0 - step.errors / traces, np.nan)
    return {
        "label": step.label,
        "weights": None if step.weights is None else step.weights.tolist(),
        "n_components": len(step.components),
        "errors": without_rounding(step.errors, rounding),
        "losses": without_rounding(step.errors - step.best, rounding),
        "kept": kept.tolist(),
        "total_error": float(proportions @ step.errors),
    }


def _components(step: Step, pooled: FloatArray, chosen: Sequence[int]) -> dict[str, Any]:
    shown = step.components[:MOST_COMPONENTS]
    # Adding zero leaves no minus zero.
    loadings = shown[:, chosen].round(_DECIMALS) + 0.0
    return {
        "components": loadings.tolist(),
        "variances": np.einsum("ij,jk,ik->i", shown, pooled, shown).tolist(),
    }
