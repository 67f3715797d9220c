"""Moments of rows in memory at the speed of one matrix product.

Sums of x and xx' are taken without centring the rows, and means are subtracted afterwards. That
loses digits where what is subtracted is large beside what remains. So features whose mean is far
from zero are first moved by one of their own values; and what was subtracted is compared with what
remains, feature by feature. Groups that lost more than two bits are read again and centred, but for
features that are constant in a group.
"""

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy.linalg import blas

from fairspan.errors import InvalidInput
from fairspan.linalg.machine import FEW_FEATURES, in_threads, threads_for
from fairspan.moments.group_statistics import OneGroup, joined
from fairspan.moments.running_group import RunningGroup, mirrored
from fairspan.rows.arrays import ArrayRows
from fairspan.rows.folds import Folds
from fairspan.rows.groups import Label, LabelCoder, side_by_side
from fairspan.rows.protocol import block_rows
from fairspan.typing import BoolArray, FloatArray, IndexArray

# What may be subtracted, as a multiple of what remains: about two bits are lost.
_MOST_SUBTRACTED = 3.0
# Numbers of one part, which one thread reads; the same whatever the number of threads.
_PART_NUMBERS = 2**21
# Each group is looked for among all rows, so that with many sorting the rows is faster.
MOST_AT_ONCE = 24
# Rows, all over a part, that show where features lie, and whose values may be subtracted.
_GLANCE = 64
# A mean further from zero than this share of the deviation is brought near zero first.
_FAR = 0.5


def uncentred_groups(
    rows: ArrayRows, folds: Folds | None = None, most_groups: int | None = None
) -> list[list[OneGroup]] | None:
    """Moments of each group's rows in each fold; None where rows are to be read in blocks.

    That is so with too many groups to gain by it. It is also so where a label or a number is wrong,
    as reading in order finds the first mistake.

    Parameters
    ----------
    rows : ArrayRows
    folds : Folds, optional
        Without it all rows are one fold.
    most_groups : int, optional
        No more groups than that are added up, if it is fewer than what gains.
    """
    try:
        found = _groups_by_fold(rows, folds, most_groups)
    except InvalidInput:
        return None
    if found is None or not all(
        np.isfinite(np.diagonal(group.scatter)).all() for _, group in found
    ):
        return None
    return [
        joined(group for own, group in found if own == fold)
        for fold in range(1 if folds is None else folds.n_folds)
    ]


def _groups_by_fold(
    rows: ArrayRows, folds: Folds | None, most_groups: int | None
) -> list[tuple[int, OneGroup]] | None:
    """Moments of each group in each part of the rows, with the number of their fold."""
    n, p = rows.n_rows, rows.n_features
    most = min(most_groups or MOST_AT_ONCE, MOST_AT_ONCE)
    # Parts are read side by side; products of many features use the threads themselves.
    size = max(_PART_NUMBERS // p, 1) if p <= FEW_FEATURES else n
    if folds is not None:
        size *= folds.n_folds  # each part needs sums of its own for every fold
    cuts = [*range(0, max(n - size // 2, 1), size), n]
    found: list[tuple[int, OneGroup]] = []
    # A single small part is done before a second thread is awake.
    alone = threads_for(p) if len(cuts) == 2 else nullcontext()
    with alone, np.errstate(over="ignore", invalid="ignore"):
        for part in in_threads(
            lambda span: _groups_of(rows, *span, most, folds), list(pairwise(cuts))
        ):
            if part is None:
                return None
            found += part
    return found


def _groups_of(
    rows: ArrayRows, start: int, stop: int, most_groups: int, folds: Folds | None
) -> list[tuple[int, OneGroup]] | None:
    assert rows.labels is not None
    coder, labels = LabelCoder(), rows.labels.between(start, stop)
    of_rows = None if folds is None else folds.of_rows(labels, rows.first_position + start)
    if of_rows is not None:
        labels = of_rows.groups
    if labels.n_present > most_groups:  # before each of them is looked at
        return None
    codes, k = coder.encode(labels, start), len(coder.labels)
    n_folds = 1
    if of_rows is not None and folds is not None:
        codes, n_folds = of_rows.folds * k + codes, folds.n_folds
    # With several folds more blocks are read at once, so that products have rows enough.
    size = min(block_rows(rows.n_features) * max(n_folds // 2, 1), stop - start)
    part = _Part(rows, start, stop, codes, k * n_folds, np.empty((size, rows.n_features)))
    with np.errstate(over="ignore", invalid="ignore"):
        return [
            (code // k, part.group(code, coder.labels[code % k], each))
            for code, each in enumerate(part.sums())
            if each.count
        ]


@dataclass(frozen=True, eq=False)
class _Part:
    """Consecutive rows with the codes of their groups, or of these in folds."""

    rows: ArrayRows
    start: int
    stop: int
    codes: IndexArray
    n_groups: int
    # Copies of rows go here: memory that is new each time takes longer than the copy.
    room: FloatArray

    def group(self, code: int, label: Label, sums: "_Sums") -> OneGroup:
        """The moments of a group, from its sums where these are accurate enough."""
        lost = sums.lost_digits()
        if not lost.any():
            return sums.centred(label)
        constants = self._constants(code, np.flatnonzero(lost))
        if constants is None:
            return self._centred(code, label)
        group = sums.centred(label)
        group.mean[lost] = constants
        group.scatter[lost] = group.scatter[:, lost] = 0.0
        return group

    def sums(self) -> "list[_Sums]":
        """Of each group's rows, side by side."""
        pilot = self._pilot()
        each = [_Sums.zero(self.rows.n_features, pilot) for _ in range(self.n_groups)]
        for values, codes in self._blocks():
            for code, index in self._places(codes):
                # By position, which is twice as fast as by a mask; and without a check of these.
                own = np.take(values, index, axis=0, out=self.room[: len(index)], mode="clip")
                if pilot is not None:
                    own -= pilot
                each[code].add(own)
        return each

    def _places(self, codes: IndexArray) -> Iterator[tuple[int, IndexArray]]:
        """The codes that occur, and where."""
        if self.n_groups > MOST_AT_ONCE:
            order, places = side_by_side(codes)
            for code, own in places:
                yield code, order[own]
            return
        for code in range(self.n_groups):
            index = np.flatnonzero(codes == code)
            if len(index):
                yield code, index

    def _constants(self, code: int, features: IndexArray) -> FloatArray | None:
        """The values of features in a group if each has only one, as its rows' sex may."""
        places, found = self._places_of(code), np.empty(len(features))
        for i, feature in enumerate(features):
            own = self.rows.array[places, feature]
            if (own != own[0]).any():
                return None
            found[i] = own[0]
        return found

    def _centred(self, code: int, label: Label) -> OneGroup:
        """The moments of one group, whose rows are centred first."""
        running, places = RunningGroup(self.rows.n_features), self._places_of(code)
        for start in range(0, len(places), len(self.room)):
            own = self.rows.array[places[start : start + len(self.room)]]
            running.absorb(own.astype(np.float64, copy=False), None)
        return running.finished(label)

    def _places_of(self, code: int) -> IndexArray:
        return self.start + np.flatnonzero(self.codes == code)

    def _blocks(self) -> Iterator[tuple[FloatArray, IndexArray]]:
        size = len(self.room)
        for start in range(self.start, self.stop, size):
            stop = min(start + size, self.stop)
            # Of columns side by side, as data frames hold them, each `take` would copy all.
            yield (
                self.rows.between(start, stop).astype(np.float64, order="C", copy=False),
                self.codes[start - self.start : stop - self.start],
            )

    def _pilot(self) -> FloatArray | None:
        """A value to subtract from each feature: zero, unless its mean is far from zero."""
        places = self.start + np.arange(_GLANCE) * (self.stop - self.start) // _GLANCE
        glance = self.rows.array[places].astype(np.float64, copy=False)
        mean, deviation = glance.mean(axis=0), glance.std(axis=0)
        far = np.abs(mean) > _FAR * deviation
        if not far.any():
            return None
        # One of the values: a feature that is constant then becomes exactly zero.
        nearest = np.abs(glance - mean).argmin(axis=0)
        return np.where(far, glance[nearest, np.arange(len(mean))], 0.0)


@dataclass(eq=False)
class _Sums:
    """Sums over rows of a group, each less the pilot.

    Attributes
    ----------
    pilot : (p,) array or None
    count : int
    total : (p,) array
        Of x.
    products : (p, p) array
        Of xx'; in Fortran's order the lower triangle only.
    """

    pilot: FloatArray | None
    count: int
    total: FloatArray
    products: FloatArray

    @classmethod
    def zero(cls, p: int, pilot: FloatArray | None) -> "_Sums":
        """Of no rows."""
        return cls(pilot, 0, np.zeros(p), np.zeros((p, p), order="C" if p <= FEW_FEATURES else "F"))

    def add(self, rows: FloatArray) -> None:
        """Add (r, p) rows."""
        self.count += len(rows)
        if self.products.flags.c_contiguous:
            self.total += np.ones(len(rows)) @ rows
            self.products += rows.T @ rows
        else:  # by scipy's library, so nothing by numpy's
            self.total += rows.sum(axis=0)
            self.products = blas.dsyrk(
                1.0, rows.T, beta=1.0, c=self.products, lower=1, overwrite_c=1
            )

    def lost_digits(self) -> BoolArray:
        """Features of which too little is left, shape (p,); none of what is not finite."""
        squares = np.diagonal(self.products)
        return np.asarray(squares > _MOST_SUBTRACTED * (squares - self.total**2 / self.count))

    def centred(self, label: Label) -> OneGroup:
        """The group's moments."""
        mean = self.total / self.count
        if self.products.flags.c_contiguous:
            scatter = self.products - np.outer(self.total, mean)
            # Products of few rows need not be symmetric to the last bit.
            scatter = (scatter + scatter.T) / 2
        else:
            scatter = mirrored(
                blas.dsyr(-float(self.count), mean, a=self.products, lower=1, overwrite_a=1)
            )
        mean = mean if self.pilot is None else self.pilot + mean
        return OneGroup(label, self.count, float(self.count), mean, scatter)
