"""The paper's evaluation of a subspace: splits, standardizing, folds, ABDiff and ARE.

Everything here is a function of arrays.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fairspan.errors import InvalidInput
from fairspan.moments.projector import Projector
from fairspan.typing import FloatArray, IndexArray

GroupArray = npt.NDArray[np.str_]


@dataclass(frozen=True, eq=False)
class Part:
    """Standardized rows with the group of each: a training part, a test part or a fold.

    Attributes
    ----------
    rows : (n, p) array
    groups : (n,) array
    """

    rows: FloatArray
    groups: GroupArray

    def at(self, index: IndexArray) -> "Part":
        """Return the part with these rows."""
        return Part(self.rows[index], self.groups[index])


@dataclass(frozen=True)
class Errors:
    """The paper's figures of one subspace on some rows, in squared standardized units.

    Attributes
    ----------
    gap : float
        ABDiff, |mean error of group 1 - mean error of group 2|.
    error : float
        ARE, the average error of all rows.
    gap_about_own_means : float
        ABDiff where each group's rows are first centered by that group's own mean. Some printed
        columns are of this kind; a deployed transform cannot do it, since it sees no group.
    """

    gap: float
    error: float
    gap_about_own_means: float


def split_rows(n_rows: int, share: float, seed: int) -> tuple[IndexArray, IndexArray]:
    """Draw a training part of round(share * n) rows; the rest is the test part.

    Parameters
    ----------
    n_rows : int
        n.
    share : float
    seed : int
        The same seed draws the same rows.

    Returns
    -------
    train, test : index arrays
    """
    order = np.random.default_rng(seed).permutation(n_rows)
    n_train = round(share * n_rows)
    return order[:n_train], order[n_train:]


def fold_rows(n_rows: int, n_folds: int, seed: int) -> list[tuple[IndexArray, IndexArray]]:
    """Split rows into folds of nearly equal size, each held out once.

    Returns
    -------
    list of (training rows, test rows) index arrays
    """
    folds = np.array_split(np.random.default_rng(seed).permutation(n_rows), n_folds)
    return [
        (np.concatenate([other for j, other in enumerate(folds) if j != i]), test)
        for i, test in enumerate(folds)
    ]


def standardized(X: FloatArray, train: IndexArray, *, scale: bool = True) -> FloatArray:
    """All rows less the training part's mean, divided by its standard deviation (ddof 0).

    The paper does not say which rows it standardizes with. The training part's fit the printed
    errors; those of all rows do not (Biodeg's printed error outside the sample is out of reach).

    Parameters
    ----------
    X : (n, p) array
    train : index array
    scale : bool
        False only centers, as is done with the faces.

    Returns
    -------
    (n, p) array
        A column that is constant in the training part is centered and not divided.
    """
    mean, deviation = X[train].mean(axis=0), X[train].std(axis=0)
    # The mean of equal numbers may miss them by rounding, which must not be blown up.
    varies = deviation > 1e-12 * np.abs(mean)
    return np.asarray((X - mean) / np.where(varies & scale, deviation, 1.0))


def errors_of(components: FloatArray, part: Part) -> Errors:
    """ABDiff and ARE of a subspace on rows.

    Parameters
    ----------
    components : (d, p) array
        Orthonormal rows.
    part : Part
        Of two groups.

    Raises
    ------
    InvalidInput
        Not two groups.
    """
    labels = np.unique(part.groups)
    if len(labels) != 2:
        raise InvalidInput(
            f"The rows to be judged have {len(labels)} group(s)",
            "Allowed are exactly two: ABDiff compares two mean errors",
            "Draw another split, or join groups",
        )
    projector = Projector(components)
    errors = projector.squared_residuals(part.rows)
    members = [part.groups == label for label in labels]
    centered = [part.rows[mask] - part.rows[mask].mean(axis=0) for mask in members]
    first, second = (float(errors[mask].mean()) for mask in members)
    first_own, second_own = (float(projector.squared_residuals(rows).mean()) for rows in centered)
    return Errors(abs(first - second), float(errors.mean()), abs(first_own - second_own))
