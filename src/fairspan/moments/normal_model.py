"""A normal model of rows, by which cells that are missing are expected.

Of a row with the observed cells o and the missing ones u, a normal model with mean m and covariance
S expects x_u = m_u + S_uo S_oo^-1 (x_o - m_o), with the covariance C = S_uu - S_uo S_oo^-1 S_ou.
With K = S^-1, C is K_uu^-1 and x_u - m_u is -C K_uo (x_o - m_o): what is factored is as large as
the missing part of a row, once for each pattern of missing cells.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from fairspan.errors import InvalidInput
from fairspan.linalg import is_valid_scatter
from fairspan.rows.groups import sort_by_code
from fairspan.typing import BoolArray, FloatArray, IndexArray

# Added to each variance, as a share of it, and taken off again from what is expected: so columns
# that determine each other have an inverse.
RIDGE = 1e-10
# Numbers (64 MB) in the covariances of the missing cells of rows that are completed together, if
# each row has a pattern of its own. Some three times as many are in use at a time.
_MOST_NUMBERS = 2**23
# Triangles up to this size are inverted as they are; of larger ones, halves are.
_SMALL_TRIANGLE = 32
# With so many rows to a pattern, one product for each pattern takes less time than one for all.
_MIN_ROWS_PER_PATTERN = 4


@dataclass(frozen=True, eq=False)
class NormalModel:
    """A normal model of rows, by which missing cells are expected.

    Attributes
    ----------
    mean : (p,) array
    covariance : (p, p) array
    """

    mean: FloatArray
    covariance: FloatArray

    @cached_property
    def standard_deviations(self) -> FloatArray:
        """Standard deviation of each feature, (p,)."""
        return np.sqrt(np.maximum(np.diag(self.covariance), 0.0))

    @cached_property
    def scales(self) -> FloatArray:
        """The same, with 1 for features that do not vary."""
        return np.where(self.standard_deviations > 0, self.standard_deviations, 1.0)

    @cached_property
    def correlation(self) -> FloatArray:
        """Correlations, with rows of zeros for features that do not vary, (p, p)."""
        return self.covariance / self.scales / self.scales[:, None]

    @cached_property
    def precision(self) -> FloatArray:
        """K, the inverse of the correlations with the ridge.

        By eigenvectors, as the inverse is huge along columns that determine each other, and leaves
        no digits to the rest where its errors are not as symmetric as it is itself.
        """
        values, vectors = np.linalg.eigh(self.correlation)
        root = vectors / np.sqrt(np.maximum(values, 0.0) + RIDGE)
        return np.asarray(root @ root.T)

    def filled(
        self, rows: FloatArray, matrix: FloatArray | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Fill missing cells with what is expected of them, some rows at a time.

        Parameters
        ----------
        rows : (n, p) array
            With NaN in missing cells.
        matrix : (p, p) array, optional
            In standard deviations.

        Returns
        -------
        (n, p) array
            In units of the features.
        (n,) array
            tr(matrix C) of each row, as of :meth:`CompletedRows.traces`; zeros without a matrix.
        """
        found, traces = np.array(rows), np.zeros(len(rows))
        for place in blocks_to_complete(rows):
            completed = self.complete(rows[place])
            found[place] = completed.fill(rows[place])
            if matrix is not None:
                traces[place] = completed.covariance_traces(matrix)
        return found, traces

    def complete(self, rows: FloatArray) -> "CompletedRows":
        """Rows with what is expected of their missing cells, in standard deviations.

        Parameters
        ----------
        rows : (n, p) array
            With NaN in missing cells.
        """
        missing = np.isnan(rows)
        values = np.where(missing, 0.0, (rows - self.mean) / self.scales)
        holes = tuple(self._missing_patterns(missing))
        products = values @ self.precision if holes else values
        for each in holes:
            each.fill(values, products)
        return CompletedRows(self, values, holes)

    def _missing_patterns(self, missing: BoolArray) -> Iterator["_MissingPatterns"]:
        """Patterns of missing cells, of which those of as many cells are together."""
        incomplete = np.flatnonzero(missing.any(axis=1))
        if not len(incomplete):
            return
        first, codes = _unique_rows(missing[incomplete])
        patterns = missing[incomplete[first]]
        sizes = patterns.sum(axis=1)
        for size in np.unique(sizes).tolist():
            own = np.flatnonzero(sizes == size)
            place = np.full(len(sizes), -1)
            place[own] = np.arange(len(own))
            met = place[codes]
            cells = np.nonzero(patterns[own])[1].reshape(len(own), size)
            inside = self.precision[cells[:, :, None], cells[:, None, :]]
            roots = _inverse_of_triangles(np.asarray(np.linalg.cholesky(inside)))
            yield _MissingPatterns(cells, roots, incomplete[met >= 0], met[met >= 0])


def blocks_to_complete(rows: FloatArray) -> Iterator[slice]:
    """Cut rows so that what their missing cells may add takes a bounded memory in each part."""
    sizes = np.isnan(rows).sum(axis=1).astype(np.float64) ** 2
    parts = np.floor(np.cumsum(sizes) / _MOST_NUMBERS)
    ends = [*(np.flatnonzero(np.diff(parts)) + 1).tolist(), len(rows)]
    start = 0
    for end in ends:
        yield slice(start, end)
        start = end


def _inverse_of_triangles(triangles: FloatArray) -> FloatArray:
    """Return the inverses of (m, c, c) lower triangles, by a sixth of the usual products."""
    c = triangles.shape[1]
    if c <= _SMALL_TRIANGLE:
        return np.asarray(np.linalg.inv(triangles))
    half = c // 2
    found = np.zeros_like(triangles)
    above = _inverse_of_triangles(triangles[:, :half, :half])
    below = _inverse_of_triangles(triangles[:, half:, half:])
    found[:, :half, :half], found[:, half:, half:] = above, below
    found[:, half:, :half] = -below @ (triangles[:, half:, :half] @ above)
    return found


def validated_normal_model(mean: FloatArray | None, covariance: FloatArray | None) -> NormalModel:
    """The model of these numbers, which may come from anywhere.

    Raises
    ------
    InvalidInput
        One of them is missing, or the covariance is none.
    """
    if (
        mean is None
        or covariance is None
        or not np.array_equal(covariance, covariance.T)
        or not is_valid_scatter(covariance, mean, 1.0)
    ):
        raise InvalidInput(
            "The normal model of the rows lacks a mean or a covariance, or that is none",
            "Allowed: a mean, and a symmetric matrix without negative eigenvalues",
            "Use those of one fit",
        )
    return NormalModel(mean.astype(np.float64), covariance.astype(np.float64))


@dataclass(frozen=True, eq=False)
class _MissingPatterns:
    """Rows in which as many cells are missing.

    Attributes
    ----------
    cells : (m, c) array of int
        Missing cells of each pattern.
    roots : (m, c, c) array
        R, lower triangles: R'R is the covariance of what is missing, with the ridge, in standard
        deviations. What is expected is -R'(R (K_uo x_o)): two products that cancel where columns
        determine each other, which one with R'R would not.
    rows, patterns : (r,) arrays of int
        Places of the rows among all, and the pattern of each.
    """

    cells: IndexArray
    factors: FloatArray
    rows: IndexArray
    patterns: IndexArray

    @cached_property
    def covariances(self) -> FloatArray:
        """Of what is missing, without the ridge, (m, c, c)."""
        found = self.factors.transpose(0, 2, 1) @ self.factors
        return np.asarray(found - RIDGE * np.eye(self.cells.shape[1]))

    def fill(self, values: FloatArray, products: FloatArray) -> None:
        """Write what is expected; `products` are the rows, zero where missing, times K."""
        whitened = self.multiply_by_pattern(self.factors, products[self.indices])
        self.add_to_missing(
            values, -self.multiply_by_pattern(self.factors.transpose(0, 2, 1), whitened)
        )

    @property
    def indices(self) -> tuple[IndexArray, IndexArray]:
        """The missing cells of all rows, (r, 1) and (r, c)."""
        return self.rows[:, None], self.cells[self.patterns]

    def add_to_missing(self, values: FloatArray, increments: FloatArray) -> None:
        """Add (r, c) numbers to the missing cells."""
        values[self.indices] += increments

    def multiply_by_pattern(self, matrices: FloatArray, vectors: FloatArray) -> FloatArray:
        """The matrix of each row's pattern times the row's vector, (r, c)."""
        m = len(matrices)
        if len(vectors) < _MIN_ROWS_PER_PATTERN * m:
            return np.asarray(np.einsum("rij,rj->ri", matrices[self.patterns], vectors))
        found = np.empty_like(vectors)
        order, places = sort_by_code(self.patterns)
        for pattern, place in places:
            own = order[place]
            found[own] = vectors[own] @ matrices[pattern].T
        return found


@dataclass(frozen=True, eq=False)
class CompletedRows:
    """Rows in which missing cells hold what is expected, in standard deviations about the mean.

    Attributes
    ----------
    model : Normal
    values : (n, p) array
    holes : tuple of patterns
    """

    model: NormalModel
    values: FloatArray
    patterns: tuple[_MissingPatterns, ...]

    def sample(self, generator: np.random.Generator) -> "CompletedRows":
        """The same rows with draws in place of what is expected of missing cells."""
        values = self.values.copy()
        for each in self.patterns:
            noise = generator.standard_normal((len(each.rows), each.cells.shape[1]))
            each.add_to_missing(
                values, each.multiply_by_pattern(each.factors.transpose(0, 2, 1), noise)
            )
        return replace(self, values=values)

    def fill(self, rows: FloatArray) -> FloatArray:
        """The rows themselves, (n, p), in units of the features, with missing cells filled."""
        model = self.model
        return np.where(np.isnan(rows), model.mean + model.standard_deviations * self.values, rows)

    def covariance(self, weights: FloatArray) -> FloatArray:
        """The weighted sum of the rows' C, (p, p), in standard deviations."""
        p = self.values.shape[1]
        total = np.zeros(p * p)
        for each in self.patterns:
            own = np.bincount(each.patterns, weights[each.rows], len(each.cells))
            sums = own[:, None, None] * each.covariances
            flat = each.cells[:, :, None] * p + each.cells[:, None, :]
            total += np.bincount(flat.ravel(), sums.ravel(), p * p)
        return total.reshape(p, p)

    def covariance_traces(self, matrix: FloatArray) -> FloatArray:
        """tr(matrix C) of each row, (n,), with C in standard deviations."""
        found = np.zeros(len(self.values))
        for each in self.patterns:
            inside = matrix[each.cells[:, :, None], each.cells[:, None, :]]
            found[each.rows] = np.einsum("mij,mij->m", inside, each.covariances)[each.patterns]
        return found


def _unique_rows(rows: BoolArray) -> tuple[IndexArray, IndexArray]:
    """The first of each kind of equal rows, and the kind of every row."""
    packed = np.packbits(rows, axis=1)
    words = np.zeros((len(rows), -(-packed.shape[1] // 8) * 8), dtype=np.uint8)
    words[:, : packed.shape[1]] = packed
    codes = np.zeros(len(rows), dtype=np.intp)
    for column in words.view(np.uint64).T:
        kinds = np.unique(column, return_inverse=True)[1]
        codes = np.unique(codes * (int(kinds.max()) + 1) + kinds, return_inverse=True)[1]
    return np.unique(codes, return_index=True)[1], codes
