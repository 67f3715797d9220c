"""Programs that solvers pose: semidefinite ones, and those over a simplex or a product of several.

Semidefinite programs are solved by Clarabel (Goulart and Chen 2024). It minimises x'Px / 2 + q.x
subject to b - Ax in a product of cones. A symmetric matrix is in the cone of positive semidefinite
ones by its upper triangle, column by column, with the entries off the diagonal times sqrt(2): then
the product of two such vectors is that of the matrices.

The model of a dual is a saddle program: maximise
s.m - |F'(m - c)|^2 / 2 - damping |m - c|^2 / 2 - t_j(sum_i m_i C_i) over one simplex for each block
of m, t_j the sum of the j largest eigenvalues. As t_j(C) = min j u + tr Z over Z >= 0 and
Z >= C - u I, it is one conic program; the multipliers of its second constraint are the shares Y,
0 <= Y <= I with tr Y = j, for which t_j(C) = <C, Y>.
"""

from functools import lru_cache

import numpy as np
import numpy.typing as npt
import scipy

from fairspan.problem.problem import SINGLE_BLOCK, Blocks
from fairspan.typing import FloatArray

# Slopes below this, in the scaled program, are rounding; as much is added to the diagonal. So are
# gains below this share of the largest.
_GRADIENT_TOL = 1e-13
# Up to so many entries a program over a simplex begins at a vertex, as it does where more than so
# many are not zero; and so many multipliers a saddle program begins with.
_VERTEX_START_SIZE, _MAX_WARM_SUPPORT = 4, 64
# Of the conic program, gap and feasibility.
_CONIC_TOL = 1e-12
# Of numbers that many times as large as the constraints, no digit of these is left.
_MAX_COEFFICIENT_RATIO = 1e15
# Less is nothing.
_TINY = float(np.finfo(np.float64).tiny)

_TriangleEntries = tuple[npt.NDArray[np.intp], npt.NDArray[np.intp], FloatArray]


@lru_cache(64)
def _triangle_entries(n: int) -> _TriangleEntries:
    """Rows, columns and factors of the entries of a matrix's upper triangle."""
    columns, rows = np.tril_indices(n)
    return rows, columns, np.where(rows == columns, 1.0, np.sqrt(2.0))


def svec(matrices: FloatArray) -> FloatArray:
    """Symmetric (.., n, n) matrices as vectors, shape (.., n (n + 1) / 2).

    Examples
    --------
    >>> svec(np.array([[1.0, 2.0], [2.0, 3.0]])).round(3)
    array([1.   , 2.828, 3.   ])
    """
    rows, columns, scales = _triangle_entries(matrices.shape[-1])
    return np.asarray(matrices[..., rows, columns] * scales)


def smat(vector: FloatArray, n: int) -> FloatArray:
    """The symmetric (n, n) matrix of a vector.

    Examples
    --------
    >>> smat(svec(np.array([[1.0, 2.0], [2.0, 3.0]])), 2).round(12)
    array([[1., 2.],
           [2., 3.]])
    """
    rows, columns, scales = _triangle_entries(n)
    matrix = np.empty((n, n))
    matrix[rows, columns] = matrix[columns, rows] = vector / scales
    return matrix


def solve_conic(
    quadratic: FloatArray | None,
    linear: FloatArray,
    constraints: "FloatArray | scipy.sparse.spmatrix",
    rhs: FloatArray,
    cone_sizes: tuple[int, int, tuple[int, ...]],
    tol: float,
) -> tuple[FloatArray, FloatArray, str]:
    """Minimise x'Px / 2 + q.x subject to b - Ax in a product of cones.

    Parameters
    ----------
    quadratic : (n, n) array, optional
        P, positive semidefinite; none for a linear objective.
    linear : (n,) array
        q.
    constraints : (m, n) array
        A.
    right : (m,) array
        b.
    sizes : (int, int, tuple of int)
        How many rows are zero, then not negative; then the orders of the positive semidefinite
        matrices.
    tolerance : float
        Of gap and feasibility, as Clarabel counts them.

    Returns
    -------
    x : (n,) array
    duals : (m,) array
        Multipliers of the rows of A.
    status : str
        As Clarabel says it; other than "Solved", x is the nearest point found, or NaN.
    """
    import clarabel  # imported where it is used: most fits do without

    n_zero, n_positive, orders = cone_sizes
    cones = [clarabel.ZeroConeT(n_zero), clarabel.NonnegativeConeT(n_positive)]
    cones += [clarabel.PSDTriangleConeT(order) for order in orders]
    r_factor = scipy.sparse.csc_matrix(
        (len(linear),) * 2 if quadratic is None else np.triu(quadratic)
    )
    data = r_factor, linear, scipy.sparse.csc_matrix(constraints), rhs, cones
    settings = clarabel.DefaultSettings()
    settings.verbose, settings.max_threads = False, 1
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = tol
    x, duals, status = np.full(len(linear), np.nan), np.full(len(rhs), np.nan), "no solution"
    largest = max(float(np.abs(r_factor).max()), float(np.abs(linear).max(initial=0.0)))
    if not largest <= _MAX_COEFFICIENT_RATIO * max(
        float(abs(constraints).max()), float(np.abs(rhs).max())
    ):
        return x, duals, status
    # Regularised equations leave an error of 1e-10 to 1e-8, so they are the second choice. Shorter
    # steps end with some digits more.
    settings.max_step_fraction = 0.9
    for regularised in (False, True):
        settings.static_regularization_enable = regularised
        settings.dynamic_regularization_enable = regularised
        try:
            solution = clarabel.DefaultSolver(*data, settings).solve()
        except BaseException as error:
            # A panic of its Rust code, at numbers that overflow, is no subclass of Exception.
            if type(error).__name__ != "PanicException":
                raise
            continue
        x, duals, status = np.array(solution.x), np.array(solution.z), str(solution.status)
        if status in ("Solved", "AlmostSolved"):
            break
    return x, duals, status


def minimize_on_simplex(
    factor: FloatArray,
    linear: FloatArray,
    blocks: Blocks = SINGLE_BLOCK,
    *,
    ridge: float = 0.0,
    start: FloatArray | None = None,
) -> FloatArray:
    """Minimise |F'x|^2 / 2 + added |x|^2 / 2 + b.x over x >= 0 with sum x = 1 in each block.

    By an active set method, which never forms FF': few entries are not zero, of many.

    Parameters
    ----------
    factor : (n, s) array
        F; a trace of identity is added to FF' where it is singular.
    linear : (n,) array
        b.
    blocks : Blocks
        Of x.
    added : float
        Not negative.
    start : (n,) array, optional
        On a simplex for each block. Of few entries none is needed: where several points are the
        best, one that stays where it was shows nothing new. Of many that are not zero none is used:
        they would leave one by one.

    Returns
    -------
    (n,) array

    Examples
    --------
    >>> minimize_on_simplex(np.diag([1.0, 2.0]), np.zeros(2))
    array([0.8, 0.2])
    """
    n = len(linear)
    block_of, indicator, ones = (
        blocks.block_indices(n),
        blocks.indicator_matrix(n),
        np.ones(len(blocks)),
    )
    squared_norms = np.einsum("is,is->i", factor, factor)
    scale = max(float(squared_norms.sum() + n * ridge), float(np.abs(linear).max()), _TINY)
    factor, linear, ridge = factor / np.sqrt(scale), linear / scale, ridge / scale + _GRADIENT_TOL
    if start is None or n <= _VERTEX_START_SIZE or np.count_nonzero(start) > _MAX_WARM_SUPPORT:
        x = np.zeros(n)
        x[blocks.argmax(-squared_norms / (2 * scale) - linear)] = 1.0
    else:
        x = start.copy()
    support = np.flatnonzero(x).tolist()
    # Each round the value falls; the limit only guards against rounding that goes in circles.
    for _ in range(20 * n):
        # The least with only these entries, of any sign.
        rows, within, m = factor[support], indicator[:, support], len(support)
        system = np.zeros((m + len(indicator),) * 2)
        system[:m, :m] = rows @ rows.T + ridge * np.eye(m)
        system[m:, :m], system[:m, m:] = within, within.T
        target = np.linalg.solve(system, np.append(-linear[support], ones))[:m]
        if target.min() < 0:
            step = target - x[support]
            step_ratios = np.divide(x[support], -step, out=np.full(m, np.inf), where=step < 0)
            leaving = int(step_ratios.argmin())
            x[support] += min(float(step_ratios[leaving]), 1.0) * step
            x[support[leaving]] = 0.0
            del support[leaving]
            continue
        x[support] = target
        gradient = factor @ (target @ rows) + ridge * x + linear
        # How far below the level of the block's own entries.
        gradient -= blocks.sums(gradient * x)[block_of]
        entering = int(gradient.argmin())
        if entering in support or gradient[entering] >= -_GRADIENT_TOL:
            break
        support.append(entering)
    return blocks.normalize(x)


def solve_saddle_point(
    slopes: FloatArray,
    factor: FloatArray,
    damping: float,
    center: FloatArray,
    matrices: FloatArray,
    n_eigenvalues: int,
    blocks: Blocks = SINGLE_BLOCK,
) -> tuple[FloatArray, FloatArray]:
    """Maximise s.m - |F'(m - c)|^2 / 2 - damping |m - c|^2 / 2 - t_j(sum_i m_i C_i).

    Parameters
    ----------
    slopes : (m,) array
        s.
    factor : (m, s) array
        F.
    damping : float
    center : (m,) array
        c, on a simplex for each block.
    matrices : (m, r, r) array
        C, symmetric.
    rank : int
        j, from 1 to r - 1.
    blocks : Blocks
        Of m.

    Returns
    -------
    multipliers : (m,) array
    shares : (r, r) array
        NaN, both, where Clarabel finds no solution.
    """
    n, r = matrices.shape[:2]
    block_of = blocks.block_indices(n)
    # What a block has in common is the same for every m; the rest has numbers of size one.
    mean_eigenvalues = blocks.sums(center * np.einsum("irr->i", matrices) / r)
    matrices = matrices - mean_eigenvalues[block_of, None, None] * np.eye(r)
    slopes = slopes - blocks.sums(center * slopes)[block_of]
    scale = float(max(np.abs(matrices).max(), np.abs(slopes).max())) or 1.0
    matrices, slopes, damping = matrices / scale, slopes / scale, damping / scale
    factor = factor / np.sqrt(scale)
    linear, target = slopes + damping * center, center @ factor
    # Few of many multipliers are not zero: those that would raise the value join the others.
    is_active = np.isin(np.arange(n), np.argsort(-center, kind="stable")[:_MAX_WARM_SUPPORT])
    is_active[blocks.argmax(center)] = True
    while True:
        active, solution = np.flatnonzero(is_active), np.zeros(n)
        solution[is_active], shares = _solve_saddle_on_support(
            linear[is_active],
            factor[is_active],
            damping,
            target,
            matrices[is_active],
            n_eigenvalues,
            blocks.select(active),
        )
        if is_active.all() or not (np.isfinite(solution).all() and np.isfinite(shares).all()):
            return solution, shares
        reduced_gains = linear - factor @ (solution @ factor - target) - damping * solution
        reduced_gains -= np.einsum("irs,rs->i", matrices, shares)
        reduced_gains -= blocks.sums(reduced_gains * solution)[block_of]
        reduced_gains[is_active] = 0.0
        entering = np.argsort(-reduced_gains, kind="stable")[:_MAX_WARM_SUPPORT]
        entering = entering[reduced_gains[entering] > _CONIC_TOL]
        if not entering.size:
            return solution, shares
        is_active[entering] = True


def _solve_saddle_on_support(
    linear: FloatArray,
    factor: FloatArray,
    damping: float,
    target: FloatArray,
    matrices: FloatArray,
    n_eigenvalues: int,
    blocks: Blocks,
) -> tuple[FloatArray, FloatArray]:
    """Maximise q.m - |F'm - z|^2 / 2 - damping |m|^2 / 2 - t_j(sum_i m_i C_i), z the target."""
    (n, r), indicator = matrices.shape[:2], blocks.indicator_matrix(len(linear))
    # Only what the factor spans of the target counts.
    q, r_factor = np.linalg.qr(factor.T)
    identity, n_entries = svec(np.eye(r)), r * (r + 1) // 2
    # The unknowns are m, u, the triangle of Z, and y = F'm.
    quadratic = np.repeat([damping, 0.0, 1.0], [n, 1 + n_entries, len(r_factor)])
    linear_cost = np.concatenate([-linear, [n_eigenvalues], identity, -target @ q])
    entries, minus_identity = (
        scipy.sparse.identity(n_entries),
        -scipy.sparse.identity(len(r_factor)),
    )
    simplex_rows, nonnegative_rows = (
        [indicator, None, None, None],
        [-scipy.sparse.identity(n), None, None, None],
    )
    dominance_rows = [svec(matrices).T, -identity[:, None], -entries, None]
    psd_rows, factor_rows = [None, None, -entries, None], [r_factor, None, None, minus_identity]
    rows = scipy.sparse.bmat(
        [simplex_rows, factor_rows, nonnegative_rows, dominance_rows, psd_rows]
    )
    right = np.append(np.ones(len(indicator)), np.zeros(rows.shape[0] - len(indicator)))
    cones = len(indicator) + len(r_factor), n, (r, r)
    x, duals, _ = solve_conic(np.diag(quadratic), linear_cost, rows, right, cones, _CONIC_TOL)
    multipliers = blocks.normalize(x[:n]) if np.isfinite(x).all() else x[:n]
    return multipliers, smat(duals[-2 * n_entries : -n_entries], r)
