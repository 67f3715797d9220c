"""Normal model of the rows: conditional expectations of missing cells.

Given the observed cells o of a row, the missing ones u have the conditional mean
m_u + S_uo S_oo^-1 (x_o - m_o) and covariance C = S_uu - S_uo S_oo^-1 S_ou, where m and S are the
mean and covariance of the model. With K = S^-1, C = K_uu^-1 and x_u - m_u = -C K_uo (x_o - m_o):
only matrices of the size of the missing part are factorized, once per missingness pattern.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from fairspan.errors import InvalidInput
from fairspan.linalg import is_valid_scatter
from fairspan.typing import BoolArray, FloatArray, IndexArray

# Relative ridge added to the variances, so that collinear columns have an inverse; it is removed
# again from conditional covariances.
RIDGE = 1e-10
# Largest number of entries (64 MB) of the conditional covariances of rows that are completed
# together, if no two rows share a pattern. About three times as many are in use at a time.
_MAX_COVARIANCE_ENTRIES = 2**23
# Triangles up to this size are inverted row by row; larger ones are split into blocks.
_MAX_DIRECT_TRIANGLE = 16
# With this many rows per pattern, one product per pattern is faster than one batched product.
_MIN_ROWS_PER_PATTERN = 4


@dataclass(frozen=True, eq=False)
class NormalModel:
    """Multivariate normal model that imputes missing cells.

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
        """Standard deviations, with 1 for constant features, (p,)."""
        return np.where(self.standard_deviations > 0, self.standard_deviations, 1.0)

    @cached_property
    def correlation(self) -> FloatArray:
        """Correlation matrix, with zero rows for constant features, (p, p)."""
        return self.covariance / self.scales / self.scales[:, None]

    @cached_property
    def precision(self) -> FloatArray:
        """Inverse of the ridged correlation matrix, K.

        Computed from eigenvectors, so that rounding errors along nearly collinear columns, where
        the inverse is huge, stay symmetric and do not swamp the other entries.
        """
        values, vectors = np.linalg.eigh(self.correlation)
        root = vectors / np.sqrt(np.maximum(values, 0.0) + RIDGE)
        return np.asarray(root @ root.T)

    def impute(
        self, rows: FloatArray, matrix: FloatArray | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Fill missing cells with their conditional means, block by block.

        Parameters
        ----------
        rows : (n, p) array
            Rows with NaN in missing cells.
        matrix : (p, p) array, optional
            Weights of the entries of C, the conditional covariance of a row's missing cells in
            standard deviations (zero for observed cells).

        Returns
        -------
        (n, p) array
            Filled rows, in units of the features.
        (n,) array
            tr(matrix C) of each row, as from :meth:`CompletedRows.covariance_traces`; zeros without
            a matrix.
        """
        imputed = np.array(rows)
        traces = np.zeros(len(rows))
        for block in blocks_to_complete(rows):
            completed = self.complete(rows[block])
            imputed[block] = completed.fill(rows[block])
            if matrix is not None:
                traces[block] = completed.covariance_traces(matrix)
        return imputed, traces

    def complete(self, rows: "FloatArray | IncompleteRows") -> "CompletedRows":
        """Impute missing cells by their conditional means; values are standardized.

        Parameters
        ----------
        rows : (n, p) array or IncompleteRows
            Rows with NaN in missing cells.

        Returns
        -------
        CompletedRows
            Standardized rows, with the conditional distributions of their missing cells.
        """
        if not isinstance(rows, IncompleteRows):
            rows = IncompleteRows.from_values(rows)
        values = np.where(rows.missing, 0.0, (rows.values - self.mean) / self.scales)
        if not rows.patterns:
            return CompletedRows(self, values, ())
        # Missing cells are zero here, so that only observed cells enter the products K_uo x_o
        # of the precision K (rows of missing cells, columns of observed ones) and observed values.
        products = values @ self.precision
        conditionals = []
        for patterns in rows.patterns:
            cells = patterns.cells
            precision_blocks = self.precision[cells[:, :, None], cells[:, None, :]]
            factors = _invert_triangles(np.asarray(np.linalg.cholesky(precision_blocks)))
            conditional = _ConditionalNormals(patterns, factors)
            conditional.fill(values, products)
            conditionals.append(conditional)
        return CompletedRows(self, values, tuple(conditionals))


def blocks_to_complete(rows: FloatArray) -> Iterator[slice]:
    """Iterate over slices of the rows whose conditional covariances need bounded memory.

    A row with c missing cells counts c^2 entries, as if no two rows shared a pattern.
    """
    sizes = np.isnan(rows).sum(axis=1).astype(np.float64) ** 2
    block_of_row = np.floor(np.cumsum(sizes) / _MAX_COVARIANCE_ENTRIES)
    # A block ends where the number of the next row's block differs.
    ends = [*(np.flatnonzero(np.diff(block_of_row)) + 1).tolist(), len(rows)]
    start = 0
    for end in ends:
        yield slice(start, end)
        start = end


def _invert_triangles(triangles: FloatArray) -> FloatArray:
    """Invert (m, c, c) lower triangles, with a sixth of the products of a general inverse.

    By blocks: the inverse of [[A, 0], [B, C]] is [[A^-1, 0], [-C^-1 B A^-1, C^-1]].
    """
    c = triangles.shape[1]
    if c <= _MAX_DIRECT_TRIANGLE:
        return _invert_small_triangles(triangles)
    half = c // 2
    inverse = np.zeros_like(triangles)
    upper_block = _invert_triangles(triangles[:, :half, :half])
    lower_block = _invert_triangles(triangles[:, half:, half:])
    inverse[:, :half, :half] = upper_block
    inverse[:, half:, half:] = lower_block
    inverse[:, half:, :half] = -lower_block @ (triangles[:, half:, :half] @ upper_block)
    return inverse


def _invert_small_triangles(triangles: FloatArray) -> FloatArray:
    """Invert (m, c, c) lower triangles by forward substitution, one row of all at a time."""
    inverse = np.zeros_like(triangles)
    reciprocals = 1 / np.einsum("mii->mi", triangles)
    inverse[:, 0, 0] = reciprocals[:, 0]
    for i in range(1, triangles.shape[1]):
        products = (triangles[:, i, None, :i] @ inverse[:, :i, :i])[:, 0]
        inverse[:, i, :i] = -reciprocals[:, i, None] * products
        inverse[:, i, i] = reciprocals[:, i]
    return inverse


def validated_normal_model(mean: FloatArray | None, covariance: FloatArray | None) -> NormalModel:
    """Build a normal model from untrusted numbers.

    Raises
    ------
    InvalidInput
        The mean or covariance is missing, or the matrix is not a covariance.
    """
    if (
        mean is None
        or covariance is None
        or not np.array_equal(covariance, covariance.T)
        or not is_valid_scatter(covariance, mean, weight=1.0)
    ):
        raise InvalidInput(
            "The normal model lacks a mean or a valid covariance matrix",
            "Allowed: a mean and a symmetric positive semidefinite matrix",
            "Use the mean and covariance of one fit",
        )
    return NormalModel(mean.astype(np.float64), covariance.astype(np.float64))


@dataclass(frozen=True, eq=False)
class MissingPatterns:
    """Missingness patterns with the same number of missing cells, and the rows that have them.

    Attributes
    ----------
    cells : (m, c) array of int
        Indices of the missing cells of each pattern.
    rows, pattern_of_row : (r,) arrays of int
        Indices of the rows, and the pattern of each, in ascending order of patterns.
    """

    cells: IndexArray
    rows: IndexArray
    pattern_of_row: IndexArray

    @cached_property
    def indices(self) -> tuple[IndexArray, IndexArray]:
        """Row and column indices of the missing cells, (r, 1) and (r, c)."""
        return self.rows[:, None], self.cells[self.pattern_of_row]

    def multiply(self, matrices: FloatArray, vectors: FloatArray) -> FloatArray:
        """Multiply each of r rows' vectors by the matrix of its pattern, (r, c).

        There are m patterns, each with c missing cells. With many rows per pattern, one product per
        pattern is faster than a product per row.

        Parameters
        ----------
        matrices : (m, c, c) array
            One matrix per pattern.
        vectors : (r, c) array
            One vector per row, in the order of :attr:`rows`.
        """
        m = len(matrices)
        if len(vectors) < _MIN_ROWS_PER_PATTERN * m:
            return np.asarray(np.einsum("rij,rj->ri", matrices[self.pattern_of_row], vectors))
        products = np.empty_like(vectors)
        # Rows of a pattern are consecutive.
        ends = np.cumsum(np.bincount(self.pattern_of_row)).tolist()
        for matrix, start, end in zip(matrices, [0, *ends], ends, strict=False):
            products[start:end] = vectors[start:end] @ matrix.T
        return products


@dataclass(frozen=True, eq=False)
class IncompleteRows:
    """Rows with their missingness patterns, which are the same for all normal models.

    Attributes
    ----------
    values : (n, p) array
        Rows with NaN in missing cells.
    missing : (n, p) array of bool
    patterns : tuple of MissingPatterns
        Patterns by number of missing cells.
    """

    values: FloatArray
    missing: BoolArray
    patterns: tuple[MissingPatterns, ...]

    @classmethod
    def from_values(cls, values: FloatArray) -> "IncompleteRows":
        """Find the patterns of (n, p) rows with NaN in missing cells."""
        missing = np.isnan(values)
        return cls(values, missing, tuple(_missing_patterns(missing)))


def _missing_patterns(missing: BoolArray) -> Iterator[MissingPatterns]:
    """Iterate over missingness patterns, grouped by their number of missing cells."""
    incomplete = np.flatnonzero(missing.any(axis=1))
    if not len(incomplete):
        return
    # Row i of the incomplete ones has pattern codes[i], an index into `patterns`.
    first, codes = _unique_rows(missing[incomplete])
    patterns = missing[incomplete[first]]
    order = np.argsort(codes, kind="stable")
    sizes = patterns.sum(axis=1)
    for size in np.unique(sizes).tolist():
        of_this_size = np.flatnonzero(sizes == size)
        index_in_size = np.full(len(sizes), -1)
        index_in_size[of_this_size] = np.arange(len(of_this_size))
        pattern_of_row = index_in_size[codes[order]]
        is_included = pattern_of_row >= 0
        cells = np.nonzero(patterns[of_this_size])[1].reshape(len(of_this_size), size)
        yield MissingPatterns(cells, incomplete[order[is_included]], pattern_of_row[is_included])


@dataclass(frozen=True, eq=False)
class _ConditionalNormals:
    """Conditional distributions of the missing cells under a normal model, standardized.

    Attributes
    ----------
    patterns : MissingPatterns
    factors : (m, c, c) array
        Inverse Cholesky factors R of K_uu: R'R is the ridged conditional covariance (standardized).
        The conditional mean is -R'(R (K_uo x_o)); two triangular products stay accurate for
        collinear columns, a single one with R'R does not.
    """

    patterns: MissingPatterns
    factors: FloatArray

    @cached_property
    def covariances(self) -> FloatArray:
        """Conditional covariance of each pattern, without the ridge, (m, c, c)."""
        covariances = self.factors.transpose(0, 2, 1) @ self.factors
        np.einsum("mii->mi", covariances)[:] -= RIDGE
        return np.asarray(covariances)

    def fill(self, values: FloatArray, products: FloatArray) -> None:
        """Write conditional means into the missing cells of the (n, p) standardized values.

        These are zero there before. `products` is values @ K, where K is the precision matrix.
        """
        patterns = self.patterns
        whitened = patterns.multiply(self.factors, products[patterns.indices])
        values[patterns.indices] -= patterns.multiply(self.factors.transpose(0, 2, 1), whitened)

    def add_noise(self, values: FloatArray, generator: np.random.Generator) -> None:
        """Add draws of the conditional distribution, less its mean, to the missing cells.

        The values, (n, p) and standardized, are changed in place and hold the conditional means.
        """
        patterns = self.patterns
        noise = generator.standard_normal((len(patterns.rows), patterns.cells.shape[1]))
        roots = self.factors.transpose(0, 2, 1)
        values[patterns.indices] += patterns.multiply(roots, noise)


@dataclass(frozen=True, eq=False)
class CompletedRows:
    """Standardized rows with missing cells replaced by their conditional means.

    Attributes
    ----------
    model : NormalModel
    values : (n, p) array
    conditionals : tuple of _ConditionalNormals
        Conditional distributions of the missing cells, by number of missing cells.
    """

    model: NormalModel
    values: FloatArray
    conditionals: tuple[_ConditionalNormals, ...]

    def sample(self, generator: np.random.Generator) -> "CompletedRows":
        """Draw missing cells from their conditional distribution."""
        values = self.values.copy()
        for conditional in self.conditionals:
            conditional.add_noise(values, generator)
        return replace(self, values=values)

    def fill(self, rows: FloatArray) -> FloatArray:
        """Fill the missing cells of the original rows, (n, p), in units of the features."""
        model = self.model
        return np.where(np.isnan(rows), model.mean + model.standard_deviations * self.values, rows)

    def covariance(self, weights: FloatArray) -> FloatArray:
        """Weighted sum of the rows' conditional covariances, (p, p), standardized.

        Entries of cells that are not both missing are zero. `weights` has one weight per row.
        """
        p = self.values.shape[1]
        total = np.zeros(p * p)
        for conditional in self.conditionals:
            patterns = conditional.patterns
            cells = patterns.cells
            row_weights = weights[patterns.rows]
            pattern_weights = np.bincount(patterns.pattern_of_row, row_weights, len(cells))
            sums = pattern_weights[:, None, None] * conditional.covariances
            # Add each pattern's (c, c) block to the rows and columns of its missing cells.
            flat_indices = cells[:, :, None] * p + cells[:, None, :]
            total += np.bincount(flat_indices.ravel(), sums.ravel(), p * p)
        return total.reshape(p, p)

    def covariance_traces(self, matrix: FloatArray) -> FloatArray:
        """Return tr(matrix C) of each row, (n,), for a (p, p) matrix.

        C is the standardized conditional covariance of the row's missing cells, zero elsewhere.
        """
        traces = np.zeros(len(self.values))
        for conditional in self.conditionals:
            patterns = conditional.patterns
            cells = patterns.cells
            blocks = matrix[cells[:, :, None], cells[:, None, :]]
            by_pattern = np.einsum("mij,mij->m", blocks, conditional.covariances)
            traces[patterns.rows] = by_pattern[patterns.pattern_of_row]
        return traces


def _unique_rows(rows: BoolArray) -> tuple[IndexArray, IndexArray]:
    """Return the index of the first of each set of equal rows, and the set of each row.

    Rows are packed into words of 64 bits, which are compared one by one: this is many times faster
    than comparing rows of booleans.
    """
    packed = np.packbits(rows, axis=1)
    words = np.zeros((len(rows), -(-packed.shape[1] // 8) * 8), dtype=np.uint8)
    words[:, : packed.shape[1]] = packed
    codes = np.zeros(len(rows), dtype=np.intp)
    for column in words.view(np.uint64).T:
        kinds = np.unique(column, return_inverse=True)[1]
        codes = np.unique(codes * (int(kinds.max()) + 1) + kinds, return_inverse=True)[1]
    return np.unique(codes, return_index=True)[1], codes
