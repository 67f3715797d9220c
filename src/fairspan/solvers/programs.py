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
from scipy import sparse

from fairspan.problem.pieces import ONE_BLOCK, Blocks
from fairspan.typing import FloatArray

# Slopes below this, in the scaled program, are rounding; as much is added to the diagonal. So are
# gains below this share of the largest.
_ROUNDING = 1e-13
# Up to so many entries a program over a simplex begins at a vertex.
_FEW = 4
# Of the conic program, gap and feasibility.
_CONIC = 1e-12
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
    constraints: FloatArray | sparse.spmatrix,
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
        As Clarabel says it; other than "Solved", x is the nearest point found.
    """
    import clarabel  # imported where it is used: most fits do without

    n_zero, n_positive, orders = sizes
    cones = [clarabel.ZeroConeT(n_zero), clarabel.NonnegativeConeT(n_positive)]
    cones += [clarabel.PSDTriangleConeT(order) for order in orders]
    upper = sparse.csc_matrix((len(linear),) * 2 if quadratic is None else np.triu(quadratic))
    data = upper, linear, sparse.csc_matrix(constraints), right, cones
    settings = clarabel.DefaultSettings()
    settings.verbose, settings.max_threads = False, 1
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = tolerance
    # Regularised equations leave an error of 1e-10 to 1e-8, so they are the second choice. Shorter
    # steps end with some digits more.
    settings.max_step_fraction = 0.9
    for regularised in (False, True):
        settings.static_regularization_enable = regularised
        settings.dynamic_regularization_enable = regularised
        found = clarabel.DefaultSolver(*data, settings).solve()
        if str(found.status) in ("Solved", "AlmostSolved"):
            break
    return np.array(found.x), np.array(found.z), str(found.status)


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
        best, one that stays where it was shows nothing new.

    Returns
    -------
    (n,) array

    Examples
    --------
    >>> least_on_simplex(np.diag([1.0, 2.0]), np.zeros(2))
    array([0.8, 0.2])
    """
    n = len(linear)
    which, sums = blocks.of(n), blocks.membership(n)
    squares = np.einsum("is,is->i", factor, factor)
    size = max(float(squares.sum() + n * added), float(np.abs(linear).max()), _LEAST)
    factor, linear, added = factor / np.sqrt(size), linear / size, added / size + _ROUNDING
    if start is None or n <= _FEW:
        point = np.zeros(n)
        point[blocks.leaders(-squares / (2 * size) - linear)] = 1.0
    else:
        point = start.copy()
    support = np.flatnonzero(point).tolist()
    # Each round the value falls; the limit only guards against rounding that goes in circles.
    for _ in range(20 * n):
        wanted = _on_support(factor[support], added, linear[support], sums[:, support])
        step = wanted - point[support]
        falling = step < 0
        if (wanted < 0).any():
            ratios = np.where(falling, point[support] / np.where(falling, -step, 1.0), np.inf)
            leaving = int(np.argmin(ratios))
            point[support] += min(float(ratios[leaving]), 1.0) * step
            point[support[leaving]] = 0.0
            del support[leaving]
            continue
        point[support] = wanted
        slope = factor @ (point[support] @ factor[support]) + added * point + linear
        # How far below the level of the block's own entries.
        slope -= blocks.sums(slope * point)[which]
        entering = int(np.argmin(slope))
        if entering in support or slope[entering] >= -_ROUNDING:
            break
        support.append(entering)
    return blocks.normalised(point)


def _on_support(
    factor: FloatArray, added: float, linear: FloatArray, sums: FloatArray
) -> FloatArray:
    """The minimiser with only these entries, of any sign."""
    n, n_blocks = len(linear), len(sums)
    system = np.zeros((n + n_blocks, n + n_blocks))
    system[:n, :n] = factor @ factor.T + added * np.eye(n)
    system[n:, :n], system[:n, n:] = sums, sums.T
    right = np.append(-linear, np.ones(n_blocks))
    try:
        return np.asarray(np.linalg.solve(system, right)[:n])
    except np.linalg.LinAlgError:
        return np.asarray(np.linalg.lstsq(system, right, rcond=None)[0][:n])


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
    """
    (n, r), sums = matrices.shape[:2], blocks.membership(len(slopes))
    which = blocks.of(n)
    # What a block has in common is the same for every m; the rest has numbers of size one.
    middles = blocks.sums(center * np.einsum("irr->i", matrices) / r)
    matrices = matrices - middles[which, None, None] * np.eye(r)
    slopes = slopes - blocks.sums(center * slopes)[which]
    size = float(max(np.abs(matrices).max(), np.abs(slopes).max())) or 1.0
    damping = damping / size
    factor = np.linalg.qr(factor.T)[1].T / np.sqrt(size)
    identity, n_entries, n_along = to_triangle(np.eye(r)), r * (r + 1) // 2, factor.shape[1]
    # The unknowns are m, u, the triangle of Z, and y = F'm.
    ends = np.cumsum([n, 1, n_entries, n_along])
    quadratic = np.concatenate([np.full(n, damping), np.zeros(1 + n_entries), np.ones(n_along)])
    linear = np.concatenate([-slopes / size - damping * center, [rank], identity, -center @ factor])
    rows = np.zeros((len(sums) + n_along + n + 2 * n_entries, ends[-1]))
    lines = np.cumsum([len(sums), n_along, n, n_entries])
    on_simplex, along, positive, above, semidefinite = np.split(rows, lines)
    on_simplex[:, :n], positive[:, :n] = sums, -np.eye(n)
    along[:, :n], along[:, ends[2] :] = factor.T, -np.eye(n_along)
    above[:, :n], above[:, n] = to_triangle(matrices / size).T, -identity
    above[:, n + 1 : ends[2]] = semidefinite[:, n + 1 : ends[2]] = -np.eye(n_entries)
    right = np.zeros(len(rows))
    right[: len(sums)] = 1.0
    x, duals, _ = solve_conic(
        np.diag(quadratic), linear, rows, right, (len(sums) + n_along, n, (r, r)), _CONIC
    )
    return blocks.normalised(x[:n]), from_triangle(duals[lines[2] : lines[3]], r)
