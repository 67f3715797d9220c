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

from fairspan.problem.problem import ONE_BLOCK, Blocks
from fairspan.typing import FloatArray

# Slopes below this, in the scaled program, are rounding; as much is added to the diagonal. So are
# gains below this share of the largest.
_ROUNDING = 1e-13
# Up to so many entries a program over a simplex begins at a vertex, as it does where more than so
# many are not zero; and so many multipliers a saddle program begins with.
_FEW, _MANY = 4, 64
# Of the conic program, gap and feasibility.
_CONIC = 1e-12
# Of numbers that many times as large as the constraints, no digit of these is left.
_FAR_LARGER = 1e15
# Less is nothing.
_LEAST = float(np.finfo(np.float64).tiny)

_Triangle = tuple[npt.NDArray[np.intp], npt.NDArray[np.intp], FloatArray]


@lru_cache(64)
def _triangle(n: int) -> _Triangle:
    """Rows, columns and factors of the entries of a matrix's upper triangle."""
    columns, rows = np.tril_indices(n)
    return rows, columns, np.where(rows == columns, 1.0, np.sqrt(2.0))


def to_triangle(matrices: FloatArray) -> FloatArray:
    """Symmetric (.., n, n) matrices as vectors, shape (.., n (n + 1) / 2).

    Examples
    --------
    >>> to_triangle(np.array([[1.0, 2.0], [2.0, 3.0]])).round(3)
    array([1.   , 2.828, 3.   ])
    """
    rows, columns, factors = _triangle(matrices.shape[-1])
    return np.asarray(matrices[..., rows, columns] * factors)


def from_triangle(vector: FloatArray, n: int) -> FloatArray:
    """The symmetric (n, n) matrix of a vector.

    Examples
    --------
    >>> from_triangle(to_triangle(np.array([[1.0, 2.0], [2.0, 3.0]])), 2).round(12)
    array([[1., 2.],
           [2., 3.]])
    """
    rows, columns, factors = _triangle(n)
    matrix = np.empty((n, n))
    matrix[rows, columns] = matrix[columns, rows] = vector / factors
    return matrix


def solve_conic(
    quadratic: FloatArray | None,
    linear: FloatArray,
    constraints: "FloatArray | scipy.sparse.spmatrix",
    right: FloatArray,
    sizes: tuple[int, int, tuple[int, ...]],
    tolerance: float,
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

    n_zero, n_positive, orders = sizes
    cones = [clarabel.ZeroConeT(n_zero), clarabel.NonnegativeConeT(n_positive)]
    cones += [clarabel.PSDTriangleConeT(order) for order in orders]
    upper = scipy.sparse.csc_matrix((len(linear),) * 2 if quadratic is None else np.triu(quadratic))
    data = upper, linear, scipy.sparse.csc_matrix(constraints), right, cones
    settings = clarabel.DefaultSettings()
    settings.verbose, settings.max_threads = False, 1
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = tolerance
    x, duals, status = np.full(len(linear), np.nan), np.full(len(right), np.nan), "no solution"
    largest = max(float(np.abs(upper).max()), float(np.abs(linear).max(initial=0.0)))
    if not largest <= _FAR_LARGER * max(float(abs(constraints).max()), float(np.abs(right).max())):
        return x, duals, status
    # Regularised equations leave an error of 1e-10 to 1e-8, so they are the second choice. Shorter
    # steps end with some digits more.
    settings.max_step_fraction = 0.9
    for regularised in (False, True):
        settings.static_regularization_enable = regularised
        settings.dynamic_regularization_enable = regularised
        try:
            found = clarabel.DefaultSolver(*data, settings).solve()
        except BaseException as error:
            # A panic of its Rust code, at numbers that overflow, is no subclass of Exception.
            if type(error).__name__ != "PanicException":
                raise
            continue
        x, duals, status = np.array(found.x), np.array(found.z), str(found.status)
        if status in ("Solved", "AlmostSolved"):
            break
    return x, duals, status


def least_on_simplex(
    factor: FloatArray,
    linear: FloatArray,
    blocks: Blocks = ONE_BLOCK,
    *,
    added: float = 0.0,
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
    >>> least_on_simplex(np.diag([1.0, 2.0]), np.zeros(2))
    array([0.8, 0.2])
    """
    n = len(linear)
    which, sums, ones = blocks.of(n), blocks.membership(n), np.ones(len(blocks))
    squares = np.einsum("is,is->i", factor, factor)
    size = max(float(squares.sum() + n * added), float(np.abs(linear).max()), _LEAST)
    factor, linear, added = factor / np.sqrt(size), linear / size, added / size + _ROUNDING
    if start is None or n <= _FEW or np.count_nonzero(start) > _MANY:
        point = np.zeros(n)
        point[blocks.leaders(-squares / (2 * size) - linear)] = 1.0
    else:
        point = start.copy()
    support = np.flatnonzero(point).tolist()
    # Each round the value falls; the limit only guards against rounding that goes in circles.
    for _ in range(20 * n):
        # The least with only these entries, of any sign.
        rows, within, m = factor[support], sums[:, support], len(support)
        system = np.zeros((m + len(sums),) * 2)
        system[:m, :m] = rows @ rows.T + added * np.eye(m)
        system[m:, :m], system[:m, m:] = within, within.T
        wanted = np.linalg.solve(system, np.append(-linear[support], ones))[:m]
        if wanted.min() < 0:
            step = wanted - point[support]
            ratios = np.divide(point[support], -step, out=np.full(m, np.inf), where=step < 0)
            leaving = int(ratios.argmin())
            point[support] += min(float(ratios[leaving]), 1.0) * step
            point[support[leaving]] = 0.0
            del support[leaving]
            continue
        point[support] = wanted
        slope = factor @ (wanted @ rows) + added * point + linear
        # How far below the level of the block's own entries.
        slope -= blocks.sums(slope * point)[which]
        entering = int(slope.argmin())
        if entering in support or slope[entering] >= -_ROUNDING:
            break
        support.append(entering)
    return blocks.normalised(point)


def saddle_point(
    slopes: FloatArray,
    factor: FloatArray,
    damping: float,
    center: FloatArray,
    matrices: FloatArray,
    rank: int,
    blocks: Blocks = ONE_BLOCK,
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
    which = blocks.of(n)
    # What a block has in common is the same for every m; the rest has numbers of size one.
    middles = blocks.sums(center * np.einsum("irr->i", matrices) / r)
    matrices = matrices - middles[which, None, None] * np.eye(r)
    slopes = slopes - blocks.sums(center * slopes)[which]
    size = float(max(np.abs(matrices).max(), np.abs(slopes).max())) or 1.0
    matrices, slopes, damping = matrices / size, slopes / size, damping / size
    factor = factor / np.sqrt(size)
    linear, target = slopes + damping * center, center @ factor
    # Few of many multipliers are not zero: those that would raise the value join the others.
    used = np.isin(np.arange(n), np.argsort(-center, kind="stable")[:_MANY])
    used[blocks.leaders(center)] = True
    while True:
        chosen, found = np.flatnonzero(used), np.zeros(n)
        found[used], shares = _of_chosen(
            linear[used], factor[used], damping, target, matrices[used], rank, blocks.among(chosen)
        )
        if used.all() or not (np.isfinite(found).all() and np.isfinite(shares).all()):
            return found, shares
        rises = linear - factor @ (found @ factor - target) - damping * found
        rises -= np.einsum("irs,rs->i", matrices, shares)
        rises -= blocks.sums(rises * found)[which]
        rises[used] = 0.0
        joining = np.argsort(-rises, kind="stable")[:_MANY]
        joining = joining[rises[joining] > _CONIC]
        if not joining.size:
            return found, shares
        used[joining] = True


def _of_chosen(
    linear: FloatArray,
    factor: FloatArray,
    damping: float,
    target: FloatArray,
    matrices: FloatArray,
    rank: int,
    blocks: Blocks,
) -> tuple[FloatArray, FloatArray]:
    """Maximise q.m - |F'm - z|^2 / 2 - damping |m|^2 / 2 - t_j(sum_i m_i C_i), z the target."""
    (n, r), sums = matrices.shape[:2], blocks.membership(len(linear))
    # Only what the factor spans of the target counts.
    turn, upper = np.linalg.qr(factor.T)
    identity, n_entries = to_triangle(np.eye(r)), r * (r + 1) // 2
    # The unknowns are m, u, the triangle of Z, and y = F'm.
    bends = np.repeat([damping, 0.0, 1.0], [n, 1 + n_entries, len(upper)])
    downhill = np.concatenate([-linear, [rank], identity, -target @ turn])
    entries, along = scipy.sparse.identity(n_entries), -scipy.sparse.identity(len(upper))
    on_simplex, positive = [sums, None, None, None], [-scipy.sparse.identity(n), None, None, None]
    above = [to_triangle(matrices).T, -identity[:, None], -entries, None]
    semidefinite, equal = [None, None, -entries, None], [upper, None, None, along]
    rows = scipy.sparse.bmat([on_simplex, equal, positive, above, semidefinite])
    right = np.append(np.ones(len(sums)), np.zeros(rows.shape[0] - len(sums)))
    cones = len(sums) + len(upper), n, (r, r)
    x, duals, _ = solve_conic(np.diag(bends), downhill, rows, right, cones, _CONIC)
    multipliers = blocks.normalised(x[:n]) if np.isfinite(x).all() else x[:n]
    return multipliers, from_triangle(duals[-2 * n_entries : -n_entries], r)
