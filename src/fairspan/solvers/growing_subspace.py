"""Any solver, for many features: inside a subspace that grows as needed, and what that may lack.

The problem is solved exactly within a subspace W of few dimensions, whose compressed second moments
are small matrices. Then the mixtures that its bound rests on are looked at in all p dimensions:
their leading eigenvectors join W, and the problem is solved again, until W holds them. Errors stay
those of the whole rows throughout.

What W may lack is then bounded. Where the second moments are matrices the bound is proven, or the
problem is solved without a subspace: its spectrum is nearly flat, or one column is so large that
rounding would be as large as the gap. Where they are no matrices, it rests on eigenvectors found by
iteration, which cannot exclude that a larger eigenvalue was missed, and a closed gap is called
estimated.

Let M be a mixture of the second moments, W orthonormal columns, H = W'MW and G = MW - WH; and let
beta be at least every eigenvalue of M on the complement of W. For each eta > 0 Young's inequality
gives M <= (H + G'G / eta) + (beta + eta) I on the two parts, so the d largest eigenvalues of the
right side bound those of M. If beta lies below eigenvalue d by delta, the sum of the d largest
exceeds that within W by |G|_F^2 / delta at most: a residual of 1e-5 proves ten digits.

A residual cannot exclude that W misses an eigenvalue; beta does. It is proven by a Cholesky
factorisation, in floating point (Rump 2006). One serves all mixtures: second moments have no
negative eigenvalues, so each is at most the sum that gives every group its largest weight.
"""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, cast

import numpy as np
from scipy.linalg import blas, lapack

from fairspan.certificates.certificate import Certificate, Solver, Status, certify
from fairspan.certificates.proofs import LinesProof
from fairspan.errors import Incompatible
from fairspan.linalg import (
    LeadingSubspace,
    SmallestSum,
    leading_subspace,
    orthonormal_beside,
    symmetric,
    with_positive_signs,
)
from fairspan.linalg.resources import threads_of
from fairspan.moments.operators import CANCELLING, DenseSecondMoments, Projector
from fairspan.moments.sparse import SparseSecondMoments
from fairspan.problem.problem import Problem
from fairspan.problem.reduction import Reduction
from fairspan.typing import FloatArray

# Second moments whose leading eigenvectors are found by iteration.
SoughtMoments = DenseSecondMoments | SparseSecondMoments

_EPSILON, _TINY = float(np.finfo(np.float64).eps), 1e-150
# What float64 can resolve, as a share of the trace.
ROUNDING = 1e-13
# Directions in which a solution is pulled out of W, as a share of the pull.
_DIRECTION = 1e-9
# Bounds are looked for this share below eigenvalue d at least, so that rounding has room.
_ROOM = 1e-6


def cholesky_ceiling(
    matrix: FloatArray, basis: FloatArray, image: FloatArray, level: float, size: float
) -> float:
    """Bound on every eigenvalue beside W, near a level; infinite if the level is too low.

    If level I - (I - WW') M (I - WW') has a Cholesky factor in floating point, its least eigenvalue
    is at least minus (p + 1) epsilon times its trace (Rump 2006).

    Parameters
    ----------
    matrix : (p, p) array
        M, symmetric.
    basis, image : (p, m) arrays
        W, orthonormal, and MW.
    level : float
        What is to be proven.
    size : float
        At least |M|_F; more, where M is a difference of larger matrices and has their rounding.

    Returns
    -------
    float

    Examples
    --------
    >>> import numpy as np
    >>> matrix, basis = np.diag([3.0, 2.0, 1.0]), np.eye(3)[:, :1]
    >>> round(cholesky_ceiling(matrix, basis, matrix @ basis, 2.1, 4.0), 6)
    2.1
    >>> cholesky_ceiling(matrix, basis, matrix @ basis, 1.9, 4.0)
    inf
    """
    p, m = basis.shape
    shifted = -matrix
    shifted.flat[:: p + 1] += level
    with threads_of("scipy"):
        if m:
            half = image - basis @ ((basis.T @ image) / 2)
            shifted = blas.dsyr2k(1.0, basis, half, 1.0, shifted.T, lower=1, overwrite_c=1).T
        trace = float(np.trace(shifted))
        # The lower triangle of the transposed array, which LAPACK reads without a copy.
        failed = lapack.dpotrf(shifted.T, lower=1, clean=0, overwrite_a=1)[1]
    # Rounding in the products, each term at its largest.
    rounding = 4 * (p + m) * _EPSILON * np.sqrt(m + 1) * size
    return np.inf if failed else float(level + 2 * (p + 1) * _EPSILON * trace + rounding)


@dataclass(frozen=True, eq=False)
class MixtureWithin:
    """A mixture M of the second moments as a subspace W sees it.

    Attributes
    ----------
    weights : (k,) array
    compressed : (m, m) array
        H = W'MW.
    residual_gram : (m, m) array
        G'G, G = MW - WH.
    n_beside : int
        p - m.
    leading : LeadingSubspace
        Some leading eigenvectors of H, d or more.
    """

    weights: FloatArray
    compressed: FloatArray
    residual_gram: FloatArray
    n_beside: int
    leading: LeadingSubspace

    def top_sum(self, n_components: int) -> float:
        """t_d(H)."""
        return float(self.leading.eigenvalues[:n_components].sum())

    def missed(self, n_components: int) -> float:
        """What W lacks of t_d(M), to first order, if it holds all leading vectors."""
        return self.gained(self.leading.vectors[:, :n_components], n_components)

    def gained(self, coordinates: FloatArray, n_components: int) -> float:
        """Return what a basis within W captures more of M where its residual joins W.

        To first order, and if W holds all leading vectors of M.

        Parameters
        ----------
        coordinates : (m, r) array
            Of the basis within W.
        n_components : int
            d.
        """
        values = self.leading.eigenvalues
        squares = max(float(np.vdot(coordinates, self.residual_gram @ coordinates)), 0.0)
        distance = float(values[n_components - 1] - values[-1])
        return squares / distance if distance > 0 else float(np.sqrt(squares * n_components))

    def level(self, n_components: int, goal: float) -> float:
        """A bound on M beside W with which the excess stays within the goal."""
        values = self.leading.eigenvalues
        cut = float(values[n_components - 1])
        room = max((cut - float(values[-1])) / 2, _ROOM * abs(cut))
        # Below a share of the goal for each component, eigenvalues beside do not matter.
        return max(cut - room, goal / (4 * n_components), _EPSILON * float(values[0]) + _TINY)

    def of_leading(self) -> "MixtureWithin":
        """As the leading eigenvectors alone see it: others may be far from what they stand for."""
        values, turn = self.leading.eigenvalues, self.leading.vectors
        n = len(values)
        return MixtureWithin(
            self.weights,
            np.diag(values),
            turn.T @ self.residual_gram @ turn,
            self.n_beside + len(turn) - n,
            LeadingSubspace(values, np.eye(n), n, turn[:, :0], 0.0),
        )

    def excess(self, n_components: int, ceiling: float) -> float:
        """By how much t_d(M) may exceed t_d(H), if `ceiling` bounds M beside W.

        What the d leading eigenvalues have above the last of them is left out of both: t_d of a sum
        is at most the sum of both t_d, and large numbers then leave no rounding.
        """
        d, values = n_components, self.leading.eigenvalues
        if self.n_beside == 0 or not np.isfinite(ceiling):
            return np.inf if self.n_beside else 0.0
        cut, vectors = float(values[d - 1]), self.leading.vectors[:, :d]
        # The whole distance raises eigenvalues within the least, and those beside to the last.
        size = max(float(np.trace(self.residual_gram)) / d, _TINY**2)
        eta = cut - ceiling if cut > ceiling else float(np.sqrt(size))
        level = self.compressed - (vectors * (values[:d] - cut)) @ vectors.T
        level = level + self.residual_gram / eta
        level.flat[:: len(level) + 1] -= cut
        raised = np.maximum(np.linalg.eigvalsh(level)[-d:], 0.0)
        beside = max(ceiling + eta - cut - float(raised[0]), 0.0) * min(d, self.n_beside)
        rounding = 4 * len(level) * abs(cut) + 8 * float(np.abs(values[:d]).sum())
        return float(raised.sum()) + beside + _EPSILON * rounding


@dataclass(frozen=True, eq=False)
class _Compressed(DenseSecondMoments):
    """W'S_gW, whose sums of smallest eigenvalues have room for what W lacks.

    Attributes
    ----------
    lacking : dict of bytes to float
        By how much t_d of a mixture may exceed what is within, by the bytes of its weights.
    """

    lacking: dict[bytes, float] = field(default_factory=dict)

    def smallest_sum(self, weights: FloatArray, n_components: int) -> SmallestSum:
        """That of a mixture; a proven bound on that in all features once what is lacking is."""
        least = super().smallest_sum(weights, n_components)
        return least._replace(rounding=least.rounding + self.lacking.get(weights.tobytes(), 0.0))


@dataclass(frozen=True, eq=False)
class GrownSpace:
    """A subspace W with the images S_gW.

    Attributes
    ----------
    full : SoughtMoments
    n_held : int
        How many leading eigenvectors of a mixture W is to hold, d or more.
    basis : (p, m) array
    images : (k, p, m) array
    compressed : (k, m, m) array
        W'S_gW.
    """

    full: SoughtMoments
    n_held: int
    basis: FloatArray
    images: FloatArray
    compressed: FloatArray
    _mixtures: dict[bytes, MixtureWithin] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, full: SoughtMoments, n_held: int, basis: FloatArray) -> "GrownSpace":
        """The span of (p, m) orthonormal columns."""
        images = full.applied(basis)
        return cls(full, n_held, basis, images, symmetric(basis.T @ images))

    @cached_property
    def second_moments(self) -> _Compressed:
        """W'S_gW, and what lies outside of W."""
        outside = self.full.traces - np.einsum("gii->g", self.compressed)
        # The difference is good enough unless nearly everything lies within.
        if (outside <= CANCELLING * self.full.traces).any():
            outside = self.full.residual_variances(self.basis)
        return _Compressed(self.compressed, outside)

    def with_columns(self, columns: FloatArray) -> "GrownSpace":
        """The space with the span of (p, r) columns too; the same object if they add nothing."""
        beside = self.basis
        if isinstance(self.full, SparseSecondMoments):
            # What a restriction forbids would grow with columns that add little.
            beside = np.hstack([self.full.forbidden, beside])
        fresh = orthonormal_beside(beside, columns)[:, : len(beside) - beside.shape[1]]
        if fresh.shape[1] == 0:
            return self
        images = self.full.applied(fresh)
        across = self.basis.T @ images
        own = symmetric(fresh.T @ images)
        rows = [[self.compressed, across], [across.transpose(0, 2, 1), own]]
        return GrownSpace(
            self.full,
            self.n_held,
            np.hstack([self.basis, fresh]),
            np.concatenate([self.images, images], axis=2),
            np.concatenate([np.concatenate(row, axis=2) for row in rows], axis=1),
        )

    def mixture(self, weights: FloatArray) -> MixtureWithin:
        """The mixture sum_g weights_g S_g within; looked at once."""
        key = weights.tobytes()
        if key not in self._mixtures:
            compressed = np.tensordot(weights, self.compressed, axes=1)
            residual = self._image(weights) - self.basis @ compressed
            gram = residual.T @ residual
            p, m = self.basis.shape
            leading = leading_subspace(compressed, min(self.n_held, m))
            self._mixtures[key] = MixtureWithin(weights, compressed, gram, p - m, leading)
        return self._mixtures[key]

    def _image(self, weights: FloatArray) -> FloatArray:
        """MW of the mixture sum_g weights_g S_g, shape (p, m)."""
        return np.tensordot(weights, self.images, axes=1)

    def ritz_vectors(self, weights: FloatArray) -> FloatArray:
        """What the space knows of the leading eigenvectors of a mixture, shape (p, n_held)."""
        return np.asarray(self.basis @ self.mixture(weights).leading.vectors)

    def pull(self, weights: FloatArray, basis: FloatArray, least_gain: float) -> FloatArray:
        """Return where to, outside of W, a mixture pulls a basis within, in (m, d) coordinates.

        A solution need not be made of leading eigenvectors. Directions along which it would gain
        less than `least_gain` are left out: of a basis that is not converged, each makes others
        appear, and there is no end of them.
        """
        if self.mixture(weights).gained(basis, basis.shape[1]) <= least_gain:
            return self.basis[:, :0]
        image = self._image(weights) @ basis
        outside = image - self.basis @ (self.basis.T @ image)
        rounding = ROUNDING * float(np.abs(weights) @ self.full.traces)
        least = max(_DIRECTION * float(np.linalg.norm(image)), rounding)
        return outside if float(np.linalg.norm(outside)) > least else outside[:, :0]

    def proven(
        self, mixtures: list[FloatArray], n_components: int, goal: float
    ) -> dict[bytes, float]:
        """By how much t_d of each mixture may exceed what is within, by the bytes of its weights.

        One factorisation for all, beside W; where that is too much to ask, or leaves more than the
        goal, one of the mixture alone, beside its own leading vectors.
        """
        second, d = self.full, n_components
        assert isinstance(second, DenseSecondMoments)
        within = [self.mixture(weights) for weights in mixtures]
        levels = [each.level(d, goal) for each in within]
        # Each mixture divided by the bound that it needs: the sum is to stay below one.
        demands = np.maximum(mixtures, 0.0) / np.array(levels)[:, None]
        order = np.argsort(-demands.max(axis=1))
        joint, n_alone = np.full(len(mixtures), np.inf), 0
        while n_alone < len(mixtures) and not np.isfinite(joint).any():
            rest = order[n_alone:]
            most = demands[rest].max(axis=0)
            image = np.tensordot(most, self.images, axes=1)
            matrix, size = second.mixture(most), second.size(most)
            joint[rest] = cholesky_ceiling(matrix, self.basis, image, 1.0, size)
            n_alone = 2 * n_alone + 1
        found: dict[bytes, float] = {}
        for mixture, level, ceiling in zip(within, levels, joint, strict=True):
            excess = mixture.excess(d, float(ceiling) * level)
            if excess > goal:
                weights, held = mixture.weights, mixture.leading.vectors
                matrix, size = second.mixture(weights), second.size(weights)
                basis, image = self.basis @ held, self._image(weights) @ held
                alone = cholesky_ceiling(matrix, basis, image, level, size)
                excess = min(excess, mixture.of_leading().excess(d, alone))
            found[mixture.weights.tobytes()] = excess
        return found


# Without matrices, a solution that lacks nothing is made more precise in at most so many rounds:
# components then agree with those of matrices to seven digits, and where eigenvalues lie close
# together further rounds would each gain next to nothing.
_REFINING_ROUNDS = 8
# Where second moments are matrices, LAPACK takes over after so many rounds.
_MOST_ROUNDS, _ROUNDS_OF_MATRICES = 60, 6
# Of the gap to reach: what the solver within may leave; what W may lack of an eigenvalue sum; and
# where nothing is proven.
_WITHIN, _LACKING, _LACKING_ESTIMATED = 0.25, 0.25, 1e-3
# Residuals are made smaller than needed: a ceiling near eigenvalue d is then enough.
_MARGIN = 0.2
# The share of the gap, were the objective all variance, to which the groups' own optima are found.
OPTIMA_SHARE = 1e-4
# Of what is missed at first, the share to which mixtures are found, whose weights still move.
_FIRST = 1e-6
# The share of an eigenvalue sum over which the slope of the bound is taken.
_STEP = 1e-3
# Mixtures that join W in one round; the robust error gap rests on dozens.
_MIXTURES = 4


def solve_growing(
    problem: Problem, solver: Solver, tol: float, random_state: Any = None
) -> Certificate:
    """Find a subspace whose gap is at most `tol`, a share of the objective, for many features.

    Parameters
    ----------
    problem : Problem
    solver : Solver
        Of the small problems.
    tol : float
    random_state : object

    Raises
    ------
    Incompatible
        As the solver inside.
    """
    # What is found on the way counts only where it is proven.
    tried = _apart(problem) if problem.has_matrices else problem
    growth = _Growth(tried, solver, tol, random_state)
    try:
        solution = growth.run()
    except (NoSmallSubspace, Incompatible):
        # That nothing is compatible within W says nothing of all dimensions.
        if not problem.has_matrices:
            raise
        solution = solver.solve(problem, tol, random_state)
        count = growth.n_eigenproblems + solution.n_eigenproblems
        return replace(solution, n_eigenproblems=count)
    if problem.has_matrices:
        # The groups' own optima, which all is reported against, are not found again.
        whole, found = problem.unrestricted or problem, tried.unrestricted or tried
        for alone, best in zip(np.eye(problem.n_groups), found.group_optima, strict=True):
            whole.dense.solved.remember(alone, best)
    return solution


def _apart(problem: Problem) -> Problem:
    """The same without what is known of its eigenvectors."""
    whole = None if problem.unrestricted is None else _apart(problem.unrestricted)
    return replace(problem, second_moments=replace(problem.dense), unrestricted=whole)


class NoSmallSubspace(Exception):
    """A subspace of few dimensions proves nothing: it is never raised to users."""


class _Growth:
    """One problem, and the subspaces that grow for it."""

    def __init__(self, problem: Problem, solver: Solver, tol: float, random_state: Any) -> None:
        self.problem, self.solver = problem, solver
        self.tol, self.random_state = tol, random_state
        self.matrices, self.n_components = problem.has_matrices, problem.n_components
        self.second = cast(SoughtMoments, problem.second_moments)
        # Each group's second moment as the criterion counts it, and its variance.
        self.alone = list(np.diag(1 / problem.divisors))
        counted = self.second.traces / problem.divisors
        self.first = OPTIMA_SHARE * tol * float(problem.proportions @ counted)
        self.least = ROUNDING * float(counted.max())
        self.n_eigenproblems = 0
        # What W may lack of the groups' own optima in all directions, beside a restriction.
        self.of_whole = 0.0

    def run(self) -> Certificate:
        """Solve within, and grow, until nothing is lacking.

        Raises
        ------
        NoSmallSubspace
            Second moments are matrices, and something is lacking after all rounds.
        """
        criterion = self.problem.criterion
        wider = self._start()
        # The groups' own optima count where losses are measured against them.
        losses = criterion.measures_losses and self.problem.unrestricted is None and self.matrices
        groups = self.alone if losses else []
        n_refined = 0
        for _ in range(_ROUNDS_OF_MATRICES if self.matrices else _MOST_ROUNDS):
            space = wider
            inside = self.problem.along(
                space.basis,
                second_moments=space.second_moments,
                criterion=criterion.settled(self.problem),
            )
            reduction = Reduction(inside, space.basis)
            solution = self.solver.solve(inside, _WITHIN * self.tol, self.random_state)
            self.n_eigenproblems += solution.n_eigenproblems
            mixtures = groups + (
                list(np.unique(solution.proof.lines, axis=0))
                if isinstance(solution.proof, LinesProof)
                else [inside.criterion.dual_weights(solution.weights, inside)]
            )
            goal = self._goal(inside, solution, mixtures[-1])
            # A closed gap within needs its leading eigenvectors only.
            pull = space.basis[:, :0]
            is_closed = solution.status == Status.OPTIMAL
            if not (is_closed and self.matrices):
                least_gain = _MARGIN * goal
                if is_closed and n_refined < _REFINING_ROUNDS:
                    least_gain = 0.0
                    n_refined += not any(
                        space.mixture(weights).missed(self.n_components) > _MARGIN * goal
                        for weights in mixtures
                    )
                basis = Projector(solution.components).basis
                pull = space.pull(solution.weights, basis, least_gain)
            wider = self._grown(space, mixtures, goal, pull)
            if wider is space:
                return self._in_all_features(space, reduction, solution)
        if self.matrices:
            raise NoSmallSubspace
        self._estimate_lacking(space, mixtures)
        return self._in_all_features(space, reduction, solution)

    def _start(self) -> GrownSpace:
        """First that of the groups' own optima, which all is reported against."""
        problem, columns = self.problem, list[FloatArray]()
        whole, axes = problem.unrestricted, problem.axes
        if not self.matrices:
            columns = [each.vectors for each in (*problem.group_optima, problem.pooled_optimum)]
        elif whole is None or axes is None:
            for alone in self.alone:  # from those of the one before: groups often vary alike
                start = columns[-1] if columns else None
                columns.append(self._sought(alone, self.first, start))
        else:
            # Near those of all directions, which losses are measured against.
            growth = _Growth(whole, self.solver, self.tol, self.random_state)
            held = growth.optima()
            self.n_eigenproblems += growth.n_eigenproblems
            self.of_whole = growth.of_whole
            columns = [np.linalg.qr(axes.T @ held)[0]]
        if problem.criterion.wants_equal_errors and problem.n_groups > 1:
            # Whether errors can be equal shows where the two groups differ most.
            apart = np.array([1.0, -1.0])
            columns += [self._sought(each, self.least) for each in (apart, -apart)]
        first, *others = columns
        space = GrownSpace.of(self.second, self.second.n_held(self.n_components), first)
        return space.with_columns(np.hstack([first[:, :0], *others]))

    def optima(self) -> FloatArray:
        """Find the groups' own optima, prove and remember them: (p, m) columns that hold them.

        Raises
        ------
        NoSmallSubspace
            Something is lacking after all rounds.
        """
        space = self._start()
        for _ in range(_ROUNDS_OF_MATRICES):
            wider = self._grown(space, self.alone, self.first, space.basis[:, :0])
            if wider is space:
                self._remember(space)
                return space.basis
            space = wider
        raise NoSmallSubspace

    def _sought(
        self, weights: FloatArray, sum_goal: float, start: FloatArray | None = None
    ) -> FloatArray:
        """Leading eigenvectors of a mixture in all dimensions, and some beyond them."""
        self.n_eigenproblems += 1
        goal = sum_goal if self.matrices else None
        return self.second.sought(weights, self.n_components, start=start, sum_goal=goal).vectors

    def _goal(self, inside: Problem, solution: Certificate, weights: FloatArray) -> float:
        """What W may lack of an eigenvalue sum, such that the bound falls by a share of the gap."""
        if isinstance(solution.proof, LinesProof):
            errors = inside.errors(Projector(solution.components).basis)
            slopes = self.problem.criterion.gradients(np.maximum(errors, self.least), self.problem)
            fall = max(float(np.abs(slopes).sum(axis=1).max()), 1.0)
        else:
            # That of a logarithm falls with a share of the sum, of any size.
            top = inside.second_moments.leading(weights, self.n_components).top_eigenvalue_sum
            step, least = _STEP * top, float(weights @ self.second.traces) - top
            bounds = [inside.criterion.bound(least - x, weights, inside) for x in (0.0, step)]
            fall = (bounds[0] - bounds[1]) / step if bounds[0] > bounds[1] else 1.0
        share = _LACKING if self.matrices else _LACKING_ESTIMATED
        # Weights of a logarithm are inverse variances, so rounding is that of the mixture itself.
        rounding = ROUNDING * float(np.abs(weights) @ self.second.traces)
        return max(share * self.tol * solution.scale / fall, rounding)

    def _grown(
        self,
        space: GrownSpace,
        mixtures: list[FloatArray],
        goal: float,
        pull: FloatArray,
    ) -> GrownSpace:
        """With what W lacks of the worst mixtures; the same object if it lacks little of all.

        Raises
        ------
        NoSmallSubspace
            More may be lacking of matrices than the goal, for all that can be proven.
        """
        wanted = _MARGIN * goal
        missed = [
            (space.mixture(weights).missed(self.n_components), weights) for weights in mixtures
        ]
        worst = sorted((each for each in missed if each[0] > wanted), key=lambda each: -each[0])
        columns = [
            self._sought(weights, max(_FIRST * lack, wanted / 4), space.ritz_vectors(weights))
            for lack, weights in worst[:_MIXTURES]
        ]
        wider = space.with_columns(np.hstack([pull, *columns]))
        if wider is not space:
            return wider
        lacking = space.second_moments.lacking
        lacking.clear()
        if self.matrices:
            lacking.update(space.proven(mixtures, self.n_components, goal))
            if max(lacking.values()) > goal:
                raise NoSmallSubspace
            return space
        columns = self._estimate_lacking(space, mixtures, goal)
        return space.with_columns(np.hstack([space.basis[:, :0], *columns]))

    def _estimate_lacking(
        self, space: GrownSpace, mixtures: list[FloatArray], goal: float = 0.0
    ) -> list[FloatArray]:
        """Record what W lacks of each mixture, as far as an iteration in all features can tell.

        Returns
        -------
        list of (p, m) arrays
            Leading eigenvectors of the mixtures of which W lacks more than the goal.
        """
        columns = []
        for weights in mixtures:
            self.n_eigenproblems += 1
            sought = self.second.sought(weights, self.n_components)
            most = sought.leading.top_eigenvalue_sum + sought.uncertainty
            lack = max(most - space.mixture(weights).top_sum(self.n_components), 0.0)
            space.second_moments.lacking[weights.tobytes()] = lack
            if lack > goal:
                columns.append(sought.vectors)
        return columns

    def _remember(self, space: GrownSpace) -> None:
        """The groups' own optima, which all is reported against: they are not found again."""
        solved, lacking = self.problem.dense.solved, space.second_moments.lacking
        self.of_whole = max((lacking.get(each.tobytes(), 0.0) for each in self.alone), default=0.0)
        for alone in np.eye(self.problem.n_groups):
            values, vectors = space.mixture(alone).leading.eigenvalues, space.ritz_vectors(alone)
            solved.remember(alone, LeadingSubspace.of(values, vectors, self.n_components, 0.0))

    def _in_all_features(
        self, space: GrownSpace, reduction: Reduction, solution: Certificate
    ) -> Certificate:
        """The solution in all features, with a bound lowered by what the subspace may lack.

        Raises
        ------
        NoSmallSubspace
            Second moments are matrices, and rounding is in the way, of which there is less without
            a subspace.
        """
        problem, inside = self.problem, reduction.problem
        coordinates = Projector(solution.components).basis
        assert solution.proof is not None
        if self.matrices and problem.unrestricted is None:
            self._remember(space)
        basis = with_positive_signs(reduction.lift(coordinates))
        objective = problem.value(basis)
        gap, _ = solution.proof.gap(inside, coordinates, inside.errors(coordinates))
        if problem.unrestricted is None and problem.criterion.is_never_negative:
            gap = min(gap, objective)
        found = certify(
            problem,
            basis,
            solution.proof,
            tol=self.tol,
            n_eigenproblems=self.n_eigenproblems,
            trace=solution.trace,
            solver=solution.solver,
            lower_bound=objective - gap - self.of_whole,
        )
        # Two groups leave a gap open for no other reason.
        open_within = solution.status == Status.OPEN_GAP and problem.n_groups > 2
        if self.matrices and not open_within and found.status != Status.OPTIMAL:
            raise NoSmallSubspace
        proven = self.matrices or found.status != Status.OPTIMAL
        # The objective is as uncertain as the groups' own optima that it is measured against.
        of_optima = self.of_whole if problem.criterion.measures_losses else 0.0
        return replace(
            found,
            resolution=found.resolution + of_optima,
            status=found.status if proven else Status.ESTIMATED,
            eigen="projected" if self.matrices else "matrix-free",
            trace=tuple(
                replace(step, lower_bound=min(step.lower_bound, found.lower_bound))
                for step in found.trace
            ),
        )
