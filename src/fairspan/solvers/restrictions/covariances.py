"""max tr(V'SV) subject to ||V'DV|| <= tau: the bound of a semidefinite program.

D is the difference of two covariances, so neither D nor -D is positive semidefinite and the limit
is not convex in P = VV'. Olfat and Aswani (2019) shift it: with phi I + D = MM', a projector P has
||P(phi I + D)P|| <= phi + tau, which a Schur complement states in P. For a projector the same limit
also reads M'PM <= (phi + tau) I, linear in P, half as large and, over 0 <= P <= I, never weaker. We
take that, for D and -D, each with the least phi there is.
"""

import numpy as np
from scipy import sparse

from fairspan.certificates.proof import positive_part
from fairspan.errors import Incompatible
from fairspan.linalg import eigh, leading_subspace
from fairspan.solvers.conic import from_triangle, solve_conic, to_triangle
from fairspan.typing import FloatArray

# The time grows with the sixth power: 0.2 s for 20 features, 5 s for 40, a minute for 60.
_MOST_FEATURES = 60
# Of the conic program, gap and feasibility.
_ACCURACY = 1e-10


def program(
    moment: FloatArray, difference: FloatArray, n_components: int, limit: float
) -> tuple[FloatArray, FloatArray]:
    """Multipliers that bound tr(V'SV) of all subspaces within the limit, and where to start from.

    Their bound is computed from them alone (:class:`fairspan.certificates.proof.
    CovariancesProof`), so the bound holds however inaccurate the conic solver is.

    Parameters
    ----------
    moment : (p, p) array
        S.
    difference : (p, p) array
        D.
    n_components : int
        d.
    limit : float
        tau.

    Returns
    -------
    multipliers : (2, p, p) array
        Z_1 and Z_2, positive semidefinite.
    start : (p, d) array
        Leading eigenvectors of the relaxed P; it need not meet the limit.

    Raises
    ------
    Incompatible
        Too many features.
    """
    p = len(moment)
    if p > _MOST_FEATURES:
        raise Incompatible(
            f"The solver 'semidefinite' received {p} directions of equal means",
            f"Allowed: up to {_MOST_FEATURES}: the semidefinite program grows steeply",
            "Use solver='auto', which takes any number, or CovarianceParity(n_directions=...)",
        )
    size = float(np.linalg.norm(moment, 2)) or 1.0
    values, axes = eigh(difference)
    spread = float(np.abs(values).max())
    values, limit = values / spread, limit / spread
    # In the eigenvectors of D each M is diagonal, so that the program is sparse and accurate.
    scaled = axes.T @ moment @ axes / size
    # The unknowns are the triangle of P; D and -D both become MM' by the least phi there is.
    identity = to_triangle(np.eye(p))
    entries, nothing = sparse.identity(len(identity)), np.zeros(len(identity))
    rows = [identity[None, :], -entries, entries]
    right = [np.array([float(n_components)]), nothing, identity]
    for sign in (1, -1):
        phi = max(0.0, -float((sign * values).min()))
        roots = np.sqrt(np.maximum(sign * values + phi, 0.0))
        columns, lines = np.tril_indices(p)
        rows.append(sparse.diags(roots[lines] * roots[columns]))
        right.append((phi + limit) * identity)
    found = solve_conic(
        None,
        -to_triangle(scaled),
        sparse.vstack(rows),
        np.concatenate(right),
        (1, 0, (p, p, p, p)),
        _ACCURACY,
    )
    start, multipliers = leading_subspace(scaled, n_components).vectors, np.zeros((2, p, p))
    if np.isfinite(found.x).all():  # inaccurate multipliers prove a bound all the same
        start = leading_subspace(from_triangle(found.x, p), n_components).vectors
        duals = found.duals[1 + 2 * len(identity) :].reshape(2, -1)
        multipliers = np.array([positive_part(from_triangle(each, p)) for each in duals])
    # Of the program in units of ||S|| and ||D||.
    return axes @ multipliers @ axes.T * (size / spread), axes @ start
