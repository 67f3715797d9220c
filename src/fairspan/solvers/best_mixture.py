"""The best mixture of subspaces found so far, and the multipliers that forbid a better one."""

import numpy as np
import numpy.typing as npt
import scipy.optimize

FloatArray = npt.NDArray[np.float64]

# HiGHS stops at 1e-7 by default, which would stall the gap there.
_LINEAR_PROGRAM = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}


def best_mixture(values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The mixture of atoms whose largest piece is least: a zero-sum game, as a linear program.

    Parameters
    ----------
    values : (J, m) array
        Value of each piece at each atom.

    Returns
    -------
    shares : (J,) array
        Of the atoms, on the simplex.
    multipliers : (m,) array
        Of the pieces, on the simplex.
    """
    n_atoms, n_pieces = values.shape
    least, spread = values.min(), np.ptp(values)
    scaled = (values - least) / (spread if spread > 0 else 1.0)
    for options in (_LINEAR_PROGRAM, {}):
        solved = scipy.optimize.linprog(
            np.append(np.zeros(n_atoms), 1.0),
            A_ub=np.hstack([scaled.T, -np.ones((n_pieces, 1))]),
            b_ub=np.zeros(n_pieces),
            A_eq=np.append(np.ones(n_atoms), 0.0)[None],
            b_eq=[1.0],
            bounds=[(0, None)] * n_atoms + [(None, None)],
            method="highs-ds",
            options=options,
        )
        if solved.x is not None:
            break
    else:  # the solver gave up; any mixture and multipliers are valid, if not the best
        best = int(np.argmin(values.max(axis=1)))
        return np.eye(n_atoms)[best], np.eye(n_pieces)[int(np.argmax(values[best]))]
    shares = np.maximum(solved.x[:n_atoms], 0.0)
    multipliers = np.maximum(-solved.ineqlin.marginals, 0.0)
    return shares / shares.sum(), multipliers / multipliers.sum()
