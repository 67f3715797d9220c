"""Known reasons why a figure differs from the printed one.

A reason is a short name in the table and a sentence in its notes.
"""

import math
from collections.abc import Iterable, Sequence

from reproduction.comparison import WANTS_A_REASON, relative_difference

_PAPERS_REPEATS = 10

EXPLANATIONS = {
    "columns": (
        "columns: the printed 24 features of Steel are not the 22 that the paper's rule leaves, "
        "and any 24 with perimY give an error above 20 (one row has perimY = 18152)."
    ),
    "faces": (
        "faces: the paper gives neither its draw of 4000 faces nor how it resizes them; filters "
        "alone move PCA's error between 6.8 and 8.2."
    ),
    "own means": (
        "own means: the printed ABDiff is that of errors about each group's own mean, or at least "
        "twice as near to it (our column 'about own means'), while the printed ARE is that of "
        "errors about the common mean. A transform that sees no group can only do the latter."
    ),
    "spread": "spread: within twice the standard error of a difference of two means over splits.",
    "variance kept": (
        "variance kept: ours keeps as much variance as the limit on the covariances allows; the "
        "printed figures fit the row 'CFPCA both', the directions of closest covariances "
        "whatever their variance."
    ),
    "tolerance": (
        "tolerance: the printed CFPCA lets the means differ by a delta in 0 to 0.9 that its search "
        "chose, and its covariances by a penalty; here the means are equal, which leaves a linear "
        "classifier less. The row 'CFPCA mean, tolerance chosen' makes the paper's choice."
    ),
    "starts": (
        "starts: the paper's algorithm ends far above the optimum from our three starts in some "
        "splits; the paper takes twenty (--full)."
    ),
    "not known": "not known: the paper's text gives no cause that we could check.",
}


def reason_for(
    data_set: str,
    figure: str,
    method: str,
    values: Sequence[float],
    printed: float | None,
    own_means: Sequence[float] = (),
    optimum: Sequence[float] = (),
) -> str:
    """Return the name of the reason for a difference over a tenth; an empty text below.

    Parameters
    ----------
    data_set, figure, method : str
        Figure is "ABDiff", "ARE" or "leakage".
    values : sequence of float
        Ours in each split.
    printed : float or None
    own_means : sequence of float
        ABDiff about each group's own mean in each split.
    optimum : sequence of float
        For the paper's algorithm, those of the certified optimum at the same settings.
    """
    difference = relative_difference(mean(values), printed)
    if difference is None or printed is None or abs(difference) <= WANTS_A_REASON:
        return ""
    if data_set in ("steel_plates", "lfw"):
        return "columns" if data_set == "steel_plates" else "faces"
    if within_spread(values, printed):
        return "spread"
    if figure == "leakage" and method in ("CFPCA mean", "CFPCA both", "CFPCA both, limited"):
        return "tolerance"
    if method.startswith("CFPCA both, limited"):
        return "variance kept"
    if figure == "ABDiff" and _is_nearer(own_means, values, printed):
        return "own means"
    away = relative_difference(mean(values), mean(optimum))
    return "starts" if away is not None and abs(away) > WANTS_A_REASON else "not known"


def explain_reasons(reasons: Iterable[str]) -> tuple[str, ...]:
    """Return the sentences of the reasons that occur, each once."""
    names = set(reasons)
    return tuple(sentence for name, sentence in EXPLANATIONS.items() if name in names)


def mean(values: Sequence[float]) -> float | None:
    """Return the mean, or None without values.

    Examples
    --------
    >>> mean([1.0, 2.0]), mean([])
    (1.5, None)
    """
    return math.fsum(values) / len(values) if values else None


def spread(values: Sequence[float]) -> float | None:
    """Return the standard deviation (ddof 1); None of fewer than two.

    Examples
    --------
    >>> spread([1.0, 3.0]), spread([1.0])
    (1.4142135623730951, None)
    """
    center = mean(values)
    if center is None or len(values) < 2:
        return None
    return math.sqrt(math.fsum((value - center) ** 2 for value in values) / (len(values) - 1))


def within_spread(values: Sequence[float], printed: float) -> bool:
    """Whether a printed mean differs from ours by no more than chance over splits."""
    center, deviation = mean(values), spread(values)
    if center is None or deviation is None:
        return False
    error = deviation * math.sqrt(1 / len(values) + 1 / _PAPERS_REPEATS)
    return abs(center - printed) <= 2 * error


def _is_nearer(values: Sequence[float], others: Sequence[float], printed: float) -> bool:
    """Whether the mean of values is at most half as far from the printed as that of others."""
    center, other = mean(values), mean(others)
    if center is None or other is None:
        return False
    return abs(center - printed) <= abs(other - printed) / 2
