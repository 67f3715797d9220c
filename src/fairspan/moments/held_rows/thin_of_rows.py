"""Moments of rows in memory that are fewer than their features: one pass for the groups' means."""

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from fairspan.moments.group_statistics import check_sizes
from fairspan.moments.held_rows.row_span import CentredRows
from fairspan.moments.held_rows.thin_moments import ThinMoments
from fairspan.rows.checks import checked_values, converted
from fairspan.rows.group_limit import USUAL_LIMIT, GroupLimit
from fairspan.rows.groups import CodedLabels, Label, LabelCoder, label_array
from fairspan.typing import FloatArray


def thin_moments(
    values: npt.NDArray[Any],
    labels: CodedLabels,
    weights: FloatArray | None,
    feature_names: tuple[str, ...] | None,
    limit: GroupLimit = USUAL_LIMIT,
) -> ThinMoments:
    """Moments that refer to (n, p) rows.

    Parameters
    ----------
    values : (n, p) array
        Of any precision; referred to, not copied.
    labels : CodedLabels of n rows
    weights : (n,) array or None
        Finite and not negative, some of them positive.
    feature_names : tuple of str or None
    limit : GroupLimit
        How many groups there may be.

    Returns
    -------
    ThinMoments

    Raises
    ------
    InvalidInput, InvalidType
        NaN, infinity, no numbers, missing labels, too many groups, numbers whose squares overflow.
    """
    values = converted(values)
    present = None if weights is None or weights.all() else np.flatnonzero(weights)
    if present is not None:
        checked_values(values, 0, feature_names)  # also the rows that do not count
    coder = LabelCoder()
    codes = coder.encode(labels)
    if present is not None and weights is not None:
        codes, weights = codes[present], weights[present]
    names, codes = _sorted_groups(coder.labels, codes)
    counts = np.bincount(codes)
    limit.check(len(counts), len(codes), values.shape[1])
    totals = np.bincount(codes, weights).astype(np.float64)
    pilot = values[0 if present is None else present[0]].astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        shares = (1.0 if weights is None else weights) / totals[codes]
        rows = CentredRows(values, pilot, present=present)
        means = pilot + _sums(rows, codes, shares)
    if not np.isfinite(means).all():
        checked_values(values, 0, feature_names)
    check_sizes(totals.tolist(), [np.abs(means)])
    moments = ThinMoments(
        label_array(names), counts, totals, means, rows, codes, weights, feature_names
    )
    return replace(moments, rows=replace(rows, center=moments.mean))


def _sorted_groups(
    labels: list[Label], codes: npt.NDArray[np.intp]
) -> tuple[list[Label], npt.NDArray[np.intp]]:
    """The labels that occur, in order, and codes by their places."""
    met = np.unique(codes).tolist()
    met.sort(key=labels.__getitem__)
    places = np.zeros(len(labels), dtype=np.intp)
    places[met] = np.arange(len(met))
    return [labels[code] for code in met], places[codes]


def _sums(rows: CentredRows, codes: npt.NDArray[np.intp], shares: FloatArray) -> FloatArray:
    """Sum of share times row over each group's rows, (k, p)."""
    mixing = np.zeros((codes.max() + 1, len(codes)))
    mixing[codes, np.arange(len(codes))] = shares
    sums = np.empty((len(mixing), rows.n_features))
    for own, block in rows.blocks():
        sums[:, own] = mixing @ block
    return sums
