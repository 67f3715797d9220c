"""Convex programs used by the solvers: conic programs, and programs over products of simplices.

Semidefinite programs are solved by Clarabel (Goulart and Chen 2024), which minimizes x'Px / 2 + q.x
subject to b - Ax in a product of cones. A symmetric matrix is represented by its upper triangle,
column by column, with off-diagonal entries scaled by sqrt(2), so that inner products are preserved.

Multipliers m are nonnegative, with sum one in each of their blocks (:class:`Blocks`). The dual
model of the solver for many groups is a saddle-point problem: maximize s.m - |F'(m - c)|^2 / 2 -
damping |m - c|^2 / 2 - t_j(sum_i m_i C_i) over a simplex for each block of m, where t_j is the sum
of the j largest eigenvalues. Since t_j(C) = min j u + tr Z over Z >= 0 and Z >= C - u I, it is one
conic program; the multipliers of the second constraint are the matrix Y, 0 <= Y <= I, tr Y = j,
with t_j(C) = <C, Y>.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy

from fairspan.linalg.rounding import AGREEMENT_TOL, EIGENVALUE_ROUNDING, TINY
from fairspan.problem.piecewise import SINGLE_BLOCK, Blocks
from fairspan.typing import FloatArray, IndexArray

# Up to this many entries a program over a simplex starts at a vertex, whatever start is given.
_VERTEX_START_SIZE = 4
# A start with more nonzeros is ignored, since these would leave the support one at a time. Also the
# largest number of multipliers that a saddle-point problem starts with or adds at a time.
_MAX_WARM_SUPPORT = 64
# Tolerance of gap and feasibility of a conic program; if Clarabel stalls earlier, its last point is
# used.
CONIC_TOL = 1e-12
# Coefficients larger than the constraints by this factor leave the constraints no digits.
_MAX_COEFFICIENT_RATIO = 1e15

_TriangleEntries = tuple[npt.NDArray[np.intp], npt.NDArray[np.intp], FloatArray]


@lru_cache(64)
def _triangle_entries(n: int) -> _TriangleEntries:
    """Rows, columns and scale factors of the upper triangle's entries."""
    columns, rows = np.tril_indices(n)
    return rows, columns, np.where(rows == columns, 1.0, np.sqrt(2.0))


def svec(matrices: FloatArray) -> FloatArray:
    """Vectorize symmetric (..., n, n) matrices, shape (..., n (n + 1) / 2).

    Examples
    --------
    >>> svec(np.array([[1.0, 2.0], [2.0, 3.0]])).round(3)
    array([1.   , 2.828, 3.   ])
    """
    rows, columns, scales = _triangle_entries(matrices.shape[-1])
    return np.asarray(matrices[..., rows, columns] * scales)


def smat(vector: FloatArray, n: int) -> FloatArray:
    """Symmetric (n, n) matrix of a vector; the inverse of :func:`svec`.

    Examples
    --------
    >>> smat(svec(np.array([[1.0, 2.0], [2.0, 3.0]])), 2).round(12)
    array([[1., 2.],
           [2., 3.]])
    """
    rows, columns, scales = _triangle_entries(n)
    matrix = np.empty((n, n))
    matrix[rows, columns] = vector / scales
    matrix[columns, rows] = matrix[rows, columns]
    return matrix


class ConeSizes(NamedTuple):
    """Sizes of the cones that the rows of a conic program belong to, in this order.

    Attributes
    ----------
    n_zero : int
        Number of rows in the zero cone: equations.
    n_nonnegative : int
        Number of rows in the nonnegative cone: inequalities.
    psd_orders : tuple of int
        Orders of the positive semidefinite matrices, each given by its :func:`svec`.
    """

    n_zero: int
    n_nonnegative: int
    psd_orders: tuple[int, ...]


class ConicSolution(NamedTuple):
    """Iterate of a conic program.

    Attributes
    ----------
    x : (n,) array
    duals : (m,) array
        Dual variables of the rows of A.
    status : str
        As Clarabel reports it.
    """

    x: FloatArray
    duals: FloatArray
    status: str


def solve_conic(
    quadratic: FloatArray | None,
    linear: FloatArray,
    constraints: "FloatArray | scipy.sparse.spmatrix",
    rhs: FloatArray,
    cone_sizes: ConeSizes,
    tol: float,
) -> ConicSolution:
    """Minimize x'Px / 2 + q.x subject to b - Ax in a product of cones.

    Parameters
    ----------
    quadratic : (n, n) array, optional
        P, positive semidefinite; None for a linear objective.
    linear : (n,) array
        q.
    constraints : (m, n) array
        A.
    rhs : (m,) array
        b.
    cone_sizes : ConeSizes
        Sizes of the cones, in the order of the rows of A and b.
    tol : float
        Tolerance of gap and feasibility in Clarabel.

    Returns
    -------
    ConicSolution
        The solution, or Clarabel's last iterate, if its status is not "Solved"; NaN if there is
        none.
    """
    n = len(linear)
    quadratic = np.zeros((0, 0)) if quadratic is None else np.triu(quadratic)
    sparse_quadratic = scipy.sparse.csc_matrix(quadratic if quadratic.size else (n, n))
    sparse_constraints = scipy.sparse.csc_matrix(constraints)
    best = ConicSolution(np.full(n, np.nan), np.full(len(rhs), np.nan), "no solution")
    max_cost = max(np.abs(costs).max(initial=0.0) for costs in (quadratic, linear))
    max_constraint = max(float(abs(constraints).max()), float(np.abs(rhs).max()))
    # Beside far larger coefficients of the cost, the constraints would have no digits left. NaN
    # must fail this test.
    if not max_cost <= _MAX_COEFFICIENT_RATIO * max_constraint:
        return best
    data = (sparse_quadratic, linear, sparse_constraints, rhs)
    # Regularization leaves errors of 1e-10 to 1e-8, but makes singular systems solvable, so it is
    # tried second.
    for is_regularized in (False, True):
        solution = _run_clarabel(data, cone_sizes, tol, is_regularized=is_regularized)
        if solution is None:
            continue
        best = solution
        if solution.status in ("Solved", "AlmostSolved"):
            break
    return best


def _run_clarabel(
    data: tuple[object, ...],
    cone_sizes: ConeSizes,
    tol: float,
    *,
    is_regularized: bool,
) -> ConicSolution | None:
    """Solve a conic program with Clarabel, given its data P, q, A and b; None if it panics.

    Minimizes x'Px / 2 + q.x subject to b - Ax in a product of cones.
    """
    import clarabel  # Imported lazily: most fits do not need it.

    cones = [
        clarabel.ZeroConeT(cone_sizes.n_zero),
        clarabel.NonnegativeConeT(cone_sizes.n_nonnegative),
        *map(clarabel.PSDTriangleConeT, cone_sizes.psd_orders),
    ]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.max_threads = 1
    settings.tol_gap_abs = tol
    settings.tol_gap_rel = tol
    settings.tol_feas = tol
    # Shorter steps than the default give a few more digits.
    settings.max_step_fraction = 0.9
    settings.static_regularization_enable = is_regularized
    settings.dynamic_regularization_enable = is_regularized
    try:
        solution = clarabel.DefaultSolver(*data, cones, settings).solve()
    except BaseException as error:
        # A panic in its Rust code, on overflow, is a BaseException that is not an Exception.
        if type(error).__name__ != "PanicException":
            raise
        return None
    return ConicSolution(np.array(solution.x), np.array(solution.z), str(solution.status))


def bordered_matrix(matrix: FloatArray, border: FloatArray) -> FloatArray:
    """Matrix [[M, B'], [B, 0]] of a quadratic program with equality constraints Bx = c.

    Parameters
    ----------
    matrix : (n, n) array
        M.
    border : (b, n) array
        B.

    Examples
    --------
    >>> bordered_matrix(np.array([[2.0]]), np.array([[1.0]]))
    array([[2., 1.],
           [1., 0.]])
    """
    n = len(matrix)
    size = n + len(border)
    bordered = np.zeros((size, size))
    bordered[:n, :n] = matrix
    bordered[n:, :n] = border
    bordered[:n, n:] = border.T
    return bordered


def minimize_on_simplex(
    factor: FloatArray,
    linear: FloatArray,
    blocks: Blocks = SINGLE_BLOCK,
    *,
    ridge: float = 0.0,
    start: FloatArray | None = None,
) -> FloatArray:
    """Minimize |F'x|^2 / 2 + ridge |x|^2 / 2 + b.x over x >= 0 with sum 1 in each block.

    Active-set method that never forms FF'; suited to solutions with few nonzeros among many
    entries. The support is the set of entries that may be nonzero: entries that would become
    negative leave it, and the one with the most negative gradient enters it.

    Parameters
    ----------
    factor : (n, s) array
        F; a multiple of the identity is added to FF', in case it is singular.
    linear : (n,) array
        b.
    blocks : Blocks
        Blocks of x.
    ridge : float
        Nonnegative weight of |x|^2 / 2.
    start : (n,) array, optional
        Feasible starting point. Ignored for few entries: if the minimizer is not unique, staying at
        the start would reveal nothing new. Ignored if it has many nonzeros, which would leave the
        support one at a time.

    Returns
    -------
    (n,) array
        The minimizer, up to rounding.

    Examples
    --------
    >>> minimize_on_simplex(np.diag([1.0, 2.0]), np.zeros(2))
    array([0.8, 0.2])
    """
    n = len(linear)
    block_of = blocks.block_indices(n)
    indicator = blocks.indicator_matrix(n)
    ones = np.ones(len(blocks.starts))
    squared_norms = np.einsum("is,is->i", factor, factor)
    # Scale the objective to size one, which leaves the minimizer as it is.
    scale = max(float(squared_norms.sum() + n * ridge), float(np.abs(linear).max()), TINY)
    factor = factor / np.sqrt(scale)
    linear = linear / scale
    # The rounding error of a gradient, as a ridge, makes every system solvable.
    ridge = ridge / scale + EIGENVALUE_ROUNDING
    if start is None or n <= _VERTEX_START_SIZE or np.count_nonzero(start) > _MAX_WARM_SUPPORT:
        # The vertex whose objective is smallest in each block alone.
        x = np.zeros(n)
        x[blocks.argmax(-squared_norms / (2 * scale) - linear)] = 1.0
    else:
        x = start.copy()
    support = np.flatnonzero(x).tolist()
    ridge_matrix = ridge * np.eye(n)
    # The objective decreases in each round, so no support comes twice; the limit guards against
    # cycling due to rounding.
    for _ in range(20 * n):
        # Minimizer on this support, of any sign: its gradient is constant within each block,
        # whose entries sum to one.
        rows = factor[support]
        m = len(support)
        system = bordered_matrix(rows @ rows.T + ridge_matrix[:m, :m], indicator[:, support])
        rhs = np.concatenate([-linear[support], ones])
        minimizer = np.linalg.solve(system, rhs)[:m]
        if minimizer.min() < 0:
            _move_to_boundary(x, support, minimizer)
            continue
        x[support] = minimizer
        gradient = factor @ (minimizer @ rows) + ridge * x + linear
        # Relative to the level within the block, which all entries of the support have: the others
        # are optimal at zero unless this is negative.
        gradient -= blocks.sums(gradient * x)[block_of]
        entering = int(gradient.argmin())
        if entering in support or gradient[entering] >= -EIGENVALUE_ROUNDING:
            break
        support.append(entering)
    return blocks.normalize(x)


def _move_to_boundary(x: FloatArray, support: list[int], minimizer: FloatArray) -> None:
    """Move x towards a minimizer on its support until the first entry reaches zero.

    In place: that entry is removed from the support.

    Parameters
    ----------
    x : (n,) array
        Zero outside of the support.
    support : list of m int
        Indices of the entries that may be nonzero.
    minimizer : (m,) array
        Minimizer on the support, of which some entry is negative.
    """
    step = minimizer - x[support]
    # Fraction of the step at which each entry reaches zero; infinite if it does not decrease.
    fractions = np.divide(x[support], -step, out=np.full(len(step), np.inf), where=step < 0)
    leaving = int(fractions.argmin())
    x[support] += min(float(fractions[leaving]), 1.0) * step
    x[support[leaving]] = 0.0
    del support[leaving]


class SaddlePoint(NamedTuple):
    """Solution of a saddle-point problem; NaN if the conic solver finds none.

    Attributes
    ----------
    multipliers : (n,) array
        m.
    occupations : (r, r) array
        Y, which attains t_j at m: its eigenvalues are 1 for the j leading eigenvectors, or between
        0 and 1 if they are tied.
    """

    multipliers: FloatArray
    occupations: FloatArray

    @property
    def is_finite(self) -> bool:
        """Whether the conic solver has found a solution."""
        return bool(np.isfinite(self.multipliers).all() and np.isfinite(self.occupations).all())


def solve_saddle_point(
    slopes: FloatArray,
    factor: FloatArray,
    damping: float,
    center: FloatArray,
    matrices: FloatArray,
    n_eigenvalues: int,
    blocks: Blocks = SINGLE_BLOCK,
) -> SaddlePoint:
    """Maximize s.m - |F'(m - c)|^2 / 2 - damping |m - c|^2 / 2 - t_j(sum_i m_i C_i).

    t_j is the sum of the j largest eigenvalues, and the multipliers m >= 0 sum to one in each
    block. As a saddle-point problem, t_j is the maximum of <., Y> over 0 <= Y <= I with tr Y = j.

    Parameters
    ----------
    slopes : (n,) array
        s.
    factor : (n, f) array
        F.
    damping : float
        Weight of the squared distance from c.
    center : (n,) array
        c, feasible.
    matrices : (n, r, r) array
        C_i, symmetric.
    n_eigenvalues : int
        j, from 1 to r - 1.
    blocks : Blocks
        Blocks of m.

    Returns
    -------
    SaddlePoint
    """
    n, r = matrices.shape[:2]
    block_of = blocks.block_indices(n)
    # What the entries of a block have in common adds a constant: subtract it, and scale the rest to
    # size one.
    mean_eigenvalues = blocks.sums(center * np.einsum("irr->i", matrices) / r)
    matrices = matrices - mean_eigenvalues[block_of, None, None] * np.eye(r)
    slopes = slopes - blocks.sums(center * slopes)[block_of]
    scale = float(max(np.abs(matrices).max(), np.abs(slopes).max())) or 1.0
    matrices = matrices / scale
    slopes = slopes / scale
    damping = damping / scale
    factor = factor / np.sqrt(scale)
    linear = slopes + damping * center
    projected_center = center @ factor
    # Few of many multipliers are nonzero: solve for those that are nonzero in the center, up to
    # rounding, and one per block at least, and add those that would raise the value.
    is_active = np.zeros(n, dtype=np.bool_)
    is_active[_largest_above(center, AGREEMENT_TOL)] = True
    is_active[blocks.argmax(center)] = True
    while True:
        active = np.flatnonzero(is_active)
        multipliers = np.zeros(n)
        multipliers[is_active], occupations = _solve_saddle_on_support(
            linear[is_active],
            factor[is_active],
            damping,
            projected_center,
            matrices[is_active],
            n_eigenvalues,
            blocks.select(active),
        )
        solution = SaddlePoint(multipliers, occupations)
        if is_active.all() or not solution.is_finite:
            return solution
        # Rate at which the value rises with each inactive multiplier, relative to its block.
        projected_step = multipliers @ factor - projected_center
        reduced_gains = linear - factor @ projected_step - damping * multipliers
        reduced_gains -= np.einsum("irs,rs->i", matrices, occupations)
        reduced_gains -= blocks.sums(reduced_gains * multipliers)[block_of]
        reduced_gains[is_active] = 0.0
        entering = _largest_above(reduced_gains, CONIC_TOL)
        if not entering.size:
            return solution
        is_active[entering] = True


def _largest_above(values: FloatArray, threshold: float) -> IndexArray:
    """Return the indices of the largest values above a threshold, `_MAX_WARM_SUPPORT` at most."""
    largest = np.argsort(-values, kind="stable")[:_MAX_WARM_SUPPORT]
    return np.asarray(largest[values[largest] > threshold])


def _solve_saddle_on_support(
    linear: FloatArray,
    factor: FloatArray,
    damping: float,
    target: FloatArray,
    matrices: FloatArray,
    n_eigenvalues: int,
    blocks: Blocks,
) -> SaddlePoint:
    """Solve the saddle-point problem over the given multipliers by one conic program.

    Maximizes l.m - |F'm - z|^2 / 2 - damping |m|^2 / 2 - t_j(sum_i m_i C_i) over m >= 0 that sums
    to one in each block. t_j is the sum of the j largest eigenvalues, or the maximum of <., Y> over
    0 <= Y <= I with tr Y = j.

    Parameters
    ----------
    linear : (n,) array
        l.
    factor : (n, f) array
        F.
    damping : float
    target : (f,) array
        z.
    matrices : (n, r, r) array
        C_i, symmetric.
    n_eigenvalues : int
        j.
    blocks : Blocks
        Blocks of m.

    Returns
    -------
    SaddlePoint
        Y is the dual variable of the constraint Z >= sum_i m_i C_i - u I, in which t_j is the
        minimum of j u + tr Z over Z >= 0.
    """
    n, r = matrices.shape[:2]
    indicator = blocks.indicator_matrix(len(linear))
    # F'm = q (r_factor m) with orthonormal q: only the component of the target in the span of q
    # matters.
    q, r_factor = np.linalg.qr(factor.T)
    identity = svec(np.eye(r))
    n_entries = r * (r + 1) // 2
    # The variables are m, u, svec(Z) and y = r_factor m; svec is the upper triangle as a vector.
    quadratic_diagonal = np.repeat([damping, 0.0, 1.0], [n, 1 + n_entries, len(r_factor)])
    linear_cost = np.concatenate([-linear, [n_eigenvalues], identity, -target @ q])
    # Few enough rows and columns for a dense matrix, which takes less time to put together.
    n_equal = len(indicator) + len(r_factor)
    rows = np.zeros((n_equal + n + 2 * n_entries, len(linear_cost)))
    simplex_rows, factor_rows, nonnegative_rows, dominance_rows, psd_rows = np.split(
        rows, [len(indicator), n_equal, n_equal + n, n_equal + n + n_entries]
    )
    svec_columns = slice(n + 1, n + 1 + n_entries)
    # Each block sums to one.
    simplex_rows[:, :n] = indicator
    # y = r_factor m.
    factor_rows[:, :n] = r_factor
    np.fill_diagonal(factor_rows[:, n + 1 + n_entries :], -1.0)
    # m >= 0.
    np.fill_diagonal(nonnegative_rows[:, :n], -1.0)
    # Z + u I - sum_i m_i C_i is positive semidefinite, and so is Z.
    dominance_rows[:, :n] = svec(matrices).T
    dominance_rows[:, n] = -identity
    np.fill_diagonal(dominance_rows[:, svec_columns], -1.0)
    np.fill_diagonal(psd_rows[:, svec_columns], -1.0)
    rhs = np.append(np.ones(len(indicator)), np.zeros(len(rows) - len(indicator)))
    # Equalities, inequalities, and two semidefinite matrices.
    cone_sizes = ConeSizes(n_equal, n, psd_orders=(r, r))
    quadratic = np.diag(quadratic_diagonal)
    x, duals, _ = solve_conic(quadratic, linear_cost, rows, rhs, cone_sizes, CONIC_TOL)
    multipliers = blocks.normalize(x[:n]) if np.isfinite(x).all() else x[:n]
    dominance_duals = duals[-2 * n_entries : -n_entries]
    return SaddlePoint(multipliers, smat(dominance_duals, r))
