"""The best mixture of subspaces found so far, and the multipliers that forbid a better one."""

import numpy as np
import scipy.optimize

from fairspan.problem.pieces import ONE_BLOCK, Blocks
from fairspan.typing import FloatArray

# HiGHS stops at 1e-7 by default, which would stall the gap there.
_LINEAR_PROGRAM = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}


def best_mixture(values: FloatArray, blocks: Blocks = ONE_BLOCK) -> tuple[FloatArray, FloatArray]:
    """The mixture of atoms whose largest piece is least: a zero-sum game, as a linear program.

    With several blocks of pieces, the sum of the largest of each is least.

    Parameters
    ----------
    values : (J, m) array
        Value of each piece at each atom.
    blocks : Blocks
        Of the pieces.

    Returns
    -------
    shares : (J,) array
        Of the atoms, on the simplex.
    multipliers : (m,) array
        Of the pieces, on a simplex for each block.
    """
    n_atoms, n_pieces = values.shape
    n_blocks, which = len(blocks), blocks.of(n_pieces)
    # What all pieces of a block have in common only shifts the value.
    least = -blocks.largest(-values.min(axis=0))
    spread = float((values - least[which]).max())
    scaled = (values - least[which]) / (spread if spread > 0 else 1.0)
    for options in (_LINEAR_PROGRAM, {}):
        solved = scipy.optimize.linprog(
            np.append(np.zeros(n_atoms), np.ones(n_blocks)),
            A_ub=np.hstack([scaled.T, -blocks.membership(n_pieces).T]),
            b_ub=np.zeros(n_pieces),
            A_eq=np.append(np.ones(n_atoms), np.zeros(n_blocks))[None],
            b_eq=[1.0],
            bounds=[(0, None)] * n_atoms + [(None, None)] * n_blocks,
            method="highs-ds",
            options=options,
        )
        if solved.x is not None:
            break
    else:  # the solver gave up; any mixture and multipliers are valid, if not the best
        best = int(np.argmin(blocks.largest(values).sum(axis=1)))
        return np.eye(n_atoms)[best], np.eye(n_pieces)[blocks.leaders(values[best])].sum(axis=0)
    shares = np.maximum(solved.x[:n_atoms], 0.0)
    return shares / shares.sum(), blocks.normalised(-solved.ineqlin.marginals)
