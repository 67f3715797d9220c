"""The relaxed problem of k groups: cutting planes on the dual, stabilised, with Newton steps.

Every dual point gives an atom, a subspace V_j. The master program mixes the atoms, P = sum c_j
V_jV_j', so that the largest piece is least; its own multipliers are the next dual point. Master
programs alone jump about, so the point half-way to the best one is evaluated too; and where
eigenvalue d is not tied, Newton's method on the dual converges at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import scipy.optimize

from fairspan.solvers.dual import Atom, Dual, DualPoint
from fairspan.solvers.solution import TracePoint

FloatArray = npt.NDArray[np.float64]

_MAX_ROUNDS = 1000
# HiGHS stops at 1e-7 by default, which would stall the gap there.
_LINEAR_PROGRAM = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
# A Newton step is worth another one if it shrinks the gap to this share.
_WORTHWHILE = 0.5
# Where this many rounds leave more than this share of the gap, rounding is in the way.
_STALL, _PROGRESS = 60, 0.9


@dataclass
class Relaxation:
    """Bounds on the relaxed optimum, and what attains them.

    Parameters
    ----------
    dual : Dual
    atoms : list of Atom
        Subspaces to start from; more are found.
    start : (m,) array, optional
        Multipliers to begin with; uniform if left out.
    """

    dual: Dual
    atoms: list[Atom] = field(default_factory=list)
    start: FloatArray | None = None
    best: DualPoint | None = None
    upper: float = np.inf
    mixture: FloatArray = field(default_factory=lambda: np.ones(1))
    mixed: list[Atom] = field(default_factory=list)
    trace: list[TracePoint] = field(default_factory=list)

    @property
    def lower(self) -> float:
        """The best bound: D at the best multipliers."""
        return -np.inf if self.best is None else self.best.bound

    @property
    def gap(self) -> float:
        """Of the relaxed problem."""
        return self.upper - self.lower

    @property
    def captured(self) -> FloatArray:
        """<S_g, P> of the best mixture, shape (k,)."""
        return np.asarray(self.mixture @ np.array([atom.captured for atom in self.mixed]))

    @property
    def projector(self) -> FloatArray:
        """P = sum_j c_j V_jV_j' of the best mixture, (p, p): eigenvalues in [0, 1], trace d."""
        factors = [
            np.sqrt(share) * atom.basis
            for share, atom in zip(self.mixture, self.mixed, strict=True)
        ]
        stacked = np.hstack(factors)
        return np.asarray(stacked @ stacked.T)

    def take(self, point: DualPoint) -> None:
        """Take the bound and the atom of a dual point."""
        self.atoms.append(point.atom)
        if point.bound > self.lower:
            self.best = point
        self.consider([point.atom], np.ones(1))
        self.trace.append(TracePoint(self.dual.n_eigenproblems, self.lower, self.upper))

    def consider(self, atoms: Sequence[Atom], mixture: FloatArray) -> None:
        """Take a mixture of atoms if it is the best so far."""
        captured = mixture @ np.array([atom.captured for atom in atoms])
        value = float(self.dual.pieces_at(captured).max())
        if value < self.upper:
            used = np.flatnonzero(mixture > 0)
            self.upper, self.mixture = value, mixture[used]
            self.mixed = [atoms[int(j)] for j in used]

    def run(self, tolerance: float, rounds: int = _MAX_ROUNDS) -> None:
        """Narrow the gap to the tolerance (absolute), as far as rounding and `rounds` let it."""
        multipliers, by_newton, patience = self._start(), True, 1
        reference = np.inf
        for step in range(rounds):
            if step % _STALL == 0:
                if self.gap > _PROGRESS * reference:
                    return
                reference = self.gap
            before, following = self.gap, None
            if by_newton:
                point, following = self.dual.newton(multipliers)
            else:
                point = self.dual.at(multipliers)
            self.take(point)
            if self.gap <= tolerance:
                return
            if following is not None and self.gap < _WORTHWHILE * before:
                multipliers, patience = following, 1
                continue
            if by_newton:
                patience *= 2
            multipliers = self._mix()
            if self.gap <= tolerance:
                return
            assert self.best is not None
            self.take(self.dual.at((multipliers + self.best.multipliers) / 2))
            if self.gap <= tolerance:
                return
            by_newton = step % patience == 0

    def _start(self) -> FloatArray:
        m = len(self.dual.references)
        for atom in self.atoms:
            self.consider([atom], np.ones(1))
        return np.full(m, 1 / m) if self.start is None else self.start

    def _mix(self) -> FloatArray:
        """Solve the master program; take its mixture and return its multipliers."""
        values = self.dual.pieces_at(np.array([atom.captured for atom in self.atoms]))
        shares, multipliers = best_mixture(values)
        self.consider(self.atoms, shares)
        k = self.dual.coefficients.shape[1]
        if len(self.atoms) > 20 * (k + 5):
            recent = len(self.atoms) - 10 * (k + 5)
            self.atoms = [atom for j, atom in enumerate(self.atoms) if shares[j] > 0 or j >= recent]
        return multipliers


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
