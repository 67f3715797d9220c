"""What is minimised: a problem, the criterion that it has, and limits of restrictions.

For weights w let L(M) be the sum of the p - d smallest eigenvalues of M = sum_g w_g S_g. Every
subspace has w.e >= L(M). So a criterion that is nowhere below some affine function w.e - b is
nowhere below L(M) - b. Multipliers of the affine functions give such weights and such a b.
"""

import numbers
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self, cast

import numpy as np
import scipy

from fairspan.errors import Incompatible, InvalidInput, InvalidParameter
from fairspan.formatting.text import counted
from fairspan.linalg import LeadingSubspace
from fairspan.moments.operators import DenseSecondMoments, SecondMoments
from fairspan.registry import field_values
from fairspan.rows.groups import Label, printable, spelled
from fairspan.typing import FloatArray, IndexArray


@dataclass(frozen=True)
class Blocks:
    """Consecutive blocks of m pieces; the largest of each block counts, and these are summed.

    So multipliers of the pieces are not negative and sum to one in each block.

    Attributes
    ----------
    starts : tuple of int
        Index of the first piece of each block; that of the first block is 0.

    Examples
    --------
    >>> blocks = Blocks((0, 2))
    >>> values = np.array([1.0, 3.0, -2.0, -1.0, -4.0])
    >>> blocks.largest(values), blocks.value(values)
    (array([ 3., -1.]), 2.0)
    >>> blocks.normalised(np.ones(5)).round(3)
    array([0.5  , 0.5  , 0.333, 0.333, 0.333])
    """

    starts: tuple[int, ...] = (0,)

    def __len__(self) -> int:
        return len(self.starts)

    def largest(self, values: FloatArray) -> FloatArray:
        """The largest of each block, of (..., m) values of the pieces, shape (..., n)."""
        return np.asarray(np.maximum.reduceat(values, self.starts, axis=-1))

    def sums(self, values: FloatArray) -> FloatArray:
        """The sum over each block, of (m, ...) values, shape (n, ...)."""
        return np.asarray(np.add.reduceat(values, self.starts, axis=0))

    def value(self, values: FloatArray) -> float:
        """The sum of the largest of each block, of (m,) values of the pieces."""
        return float(self.largest(values).sum())

    def of(self, n_pieces: int) -> IndexArray:
        """Index of the block of each piece, shape (m,)."""
        return np.searchsorted(self.starts, np.arange(n_pieces), side="right") - 1

    def membership(self, n_pieces: int) -> FloatArray:
        """1 where a piece belongs to a block, else 0, shape (n, m)."""
        return np.asarray(
            self.of(n_pieces) == np.arange(len(self.starts))[:, None], dtype=np.float64
        )

    def leaders(self, values: FloatArray) -> IndexArray:
        """Index of a largest piece of each block, of (m,) values, shape (n,)."""
        pairs = zip(self.starts, (*self.starts[1:], len(values)), strict=True)
        return np.array([start + int(np.argmax(values[start:end])) for start, end in pairs])

    def among(self, chosen: IndexArray) -> "Blocks":
        """The blocks of some of the pieces, in order, of which every block has one."""
        return Blocks(tuple(np.searchsorted(chosen, self.starts).tolist()))

    def apart(self, rows: FloatArray) -> FloatArray:
        """(m, ...) rows less the first of their block, without those first ones, (m - n, ...)."""
        which = self.of(len(rows))
        firsts = np.array(self.starts)
        return np.delete(rows - rows[firsts[which]], firsts, axis=0)

    def normalised(self, multipliers: FloatArray) -> FloatArray:
        """Not negative and summing to one in each block, without which they prove nothing."""
        positive = np.maximum(multipliers, 0.0)
        which = self.of(len(positive)) if len(self) > 1 else np.zeros(1, dtype=np.intp)
        # Where all are zero, none is preferred.
        positive = np.where(self.sums(positive)[which] > 0, positive, 1.0)
        return np.asarray(positive / self.sums(positive)[which])


# All pieces in one block: the largest of them.
ONE_BLOCK = Blocks()


@dataclass(frozen=True, eq=False)
class Pieces:
    """The sum over blocks of max_(i in the block) (A_i . e - b_i).

    Errors are linear in the projector VV', so a criterion of this form is convex in it, and any
    multipliers of the pieces that sum to one in each block prove a bound (see
    :mod:`fairspan.certificates.certificate`).

    Attributes
    ----------
    coefficients : (m, k) array
        A, one row for each piece.
    offsets : (m,) array
        b.
    blocks : Blocks
        One of all pieces, unless the criterion is a sum of several maxima.
    """

    coefficients: FloatArray
    offsets: FloatArray
    blocks: Blocks = ONE_BLOCK

    @property
    def is_linear(self) -> bool:
        """Whether there is nothing to choose: one piece in each block."""
        return len(self.offsets) == len(self.blocks)

    def at(self, errors: FloatArray) -> FloatArray:
        """Values of the pieces at (..., k) errors, shape (..., m)."""
        return np.asarray(errors @ self.coefficients.T - self.offsets)

    def value(self, errors: FloatArray) -> float:
        """The criterion at these (k,) errors."""
        return self.blocks.value(self.at(errors))

    def size(self, errors: FloatArray) -> float:
        """What rounding of the value at these (k,) errors is a share of, but for the offsets."""
        return self.blocks.value(np.abs(self.coefficients) @ errors)

    @cached_property
    def _diagonal(self) -> FloatArray | None:
        """The slopes, if there is one piece for each group, of its error alone."""
        slopes = np.diag(self.coefficients)
        alone = len(self.blocks) == 1 and np.array_equal(self.coefficients, np.diag(slopes))
        return slopes if alone and slopes.all() else None

    def multipliers(self, weights: FloatArray) -> FloatArray:
        """Multipliers m of the pieces, of which A'm comes nearest to (k,) weights, shape (m,)."""
        if self.is_linear:
            return np.ones(len(self.offsets))
        if self._diagonal is not None:
            return self.blocks.normalised(weights / self._diagonal)
        size = max(float(np.abs(self.coefficients).max()), np.finfo(np.float64).tiny)
        sums = self.blocks.membership(len(self.offsets))
        system = np.vstack([self.coefficients.T / size, sums])
        found, _ = scipy.optimize.nnls(system, np.append(weights / size, np.ones(len(sums))))
        return self.blocks.normalised(found)


KY_FAN = (
    "S_g is the second moment matrix of group g, and M = sum_g w_g S_g with the weights w below. "
    "No subspace of as many dimensions leaves less of M than L(M), {rest} (Ky Fan 1949). "
)


@dataclass(frozen=True)
class Formula:
    """What a criterion minimises, and how a reader computes it from errors, and its bound.

    Attributes
    ----------
    sentence : str
        What is minimised, in plain words.
    objective_in_words : str
        What follows "The objective is".
    objective : str
        In Python, of `errors`, `S`, `q`, `traces` and `best`, and of the parameters.
    bound_in_words : str
        Why no subspace is below the bound; `{rest}` names the remaining eigenvalues.
    bound : str
        In Python, of `weights`, `best` and `mixture`; or lines that set `lower_bound`.
    function : str
        In Python, a function that the objective calls; empty if there is none.
    """

    sentence: str
    objective_in_words: str
    objective: str
    bound_in_words: str = KY_FAN + (
        "So no subspace has a weighted sum of errors, sum_g w_g e_g, below L(M), and the criterion "
        "is never below this weighted sum."
    )
    bound: str = "least_left(mixture)"
    function: str = ""


# Of a criterion that says nothing else.
OF_PIECES = Formula(
    "The package of this criterion describes what it minimises.",
    "the sum, over blocks of affine functions of the errors, of the largest of each block.",
    "float(np.maximum.reduceat(slopes @ errors - offsets, starts).sum())",
    KY_FAN + "The criterion is never below the sum of its affine functions times multipliers that "
    "sum to one in each block. The weights w are the slopes of that sum.",
    "least_left(mixture) - float(multipliers @ offsets)",
)


_EPSILON = float(np.finfo(np.float64).eps)


class Criterion(ABC):
    """A function f of the groups' errors e, to be minimised.

    A criterion of your own inherits from this class and has a `name` and its `pieces`; the
    others follow from the pieces, or have defaults.

    Attributes
    ----------
    wants_equal_errors : bool
        Whether the errors of all groups must be equal, or nearly so.
    has_concave_scores : bool
        Whether it is the largest of concave functions of the errors: its `scores`.
    measures_losses : bool
        Whether its pieces hold the groups' own optima.
    is_never_negative : bool
    moves_with_errors : float or None
        By how much the value rises if all errors rise by one; None if not always by the same.
    can_be_nested : bool
        Whether components may be chosen one after the other, each beside those before it. Weights
        of the groups then prove what each of these steps claims.
    relative : bool
        Whether each group's error is divided by its variance.
    """

    wants_equal_errors: ClassVar[bool] = False
    measures_losses: ClassVar[bool] = False
    has_concave_scores: ClassVar[bool] = False
    is_never_negative: ClassVar[bool] = False
    relative: bool = False

    @property
    @abstractmethod
    def name(self) -> str:
        """The name by which it can be requested."""

    @abstractmethod
    def pieces(self, problem: "Problem") -> Pieces | None:
        """It as a sum of maxima of affine functions; None if this is not possible."""

    def check(self, labels: list[Label]) -> None:
        """Raise Incompatible or UnknownGroup if it is not defined for these groups."""
        return

    @property
    def can_be_nested(self) -> bool:
        """Whether components may be chosen one after the other."""
        return False

    @property
    def moves_with_errors(self) -> float | None:
        """By how much the value rises if all errors rise by one."""
        return None

    @property
    def condition(self) -> str:
        """What follows "no subspace" where not all are allowed, such as " with equal errors"."""
        return ""

    def violation(self, errors: FloatArray) -> float:
        """By how much (k,) errors break the condition; zero or less if they do not."""
        return 0.0

    def settled(self, problem: "Problem") -> Self:
        """The same, with everything named that was left to be chosen."""
        return self

    def divisors(self, problem: "Problem") -> FloatArray:
        """What each group's error is divided by, shape (k,)."""
        return np.ones(problem.n_groups)

    def value(self, errors: FloatArray, problem: "Problem") -> float:
        """f at the (k,) errors of a subspace."""
        return self._affine(problem).value(errors)

    def scores(self, errors: FloatArray, problem: "Problem") -> FloatArray:
        """Smooth functions of (..., k) errors, the largest of which is the value, (..., m)."""
        return self._affine(problem).at(errors)

    def gradients(self, errors: FloatArray, problem: "Problem") -> FloatArray:
        """Derivatives of the scores in the (k,) errors, shape (m, k)."""
        return self._affine(problem).coefficients

    def dual_weights(self, weights: FloatArray, problem: "Problem") -> FloatArray:
        """Of the (k,) weights that prove a bound, those that come nearest to the given ones."""
        pieces = self._affine(problem)
        return np.asarray(pieces.multipliers(weights) @ pieces.coefficients)

    def bound(self, least: float, weights: FloatArray, problem: "Problem") -> float:
        """What no subspace has a value below, if none has w.e < least, for such weights w."""
        pieces = self._affine(problem)
        return least - float(pieces.multipliers(weights) @ pieces.offsets)

    def size(self, errors: FloatArray, problem: "Problem") -> float:
        """The size of the value at the (k,) errors, for which its sign does not count."""
        return abs(self.value(errors, problem))

    def largest(self, errors: FloatArray, problem: "Problem") -> float:
        """The largest of the (k,) errors within the directions that are left, as it counts them."""
        return float(((errors - problem.fixed) / problem.divisors).max())

    def scale(self, errors: FloatArray, problem: "Problem") -> float:
        """What a gap is compared with: the size of the value.

        Under a restriction, no more than the largest error that can still be chosen.
        """
        whole = self.size(errors + problem.left_out, problem)
        return whole if problem.unrestricted is None else min(whole, self.largest(errors, problem))

    def lost(self, outside: FloatArray) -> tuple[FloatArray, float]:
        """What is to be made of the (k,) errors in directions that a restriction forbids.

        Returns
        -------
        errors : (k,) array
            What counts of them by group, less what all lose alike where this moves the value.
        alike : float
            That.
        """
        alike = 0.0 if self.moves_with_errors is None else float(outside.min())
        return outside - alike, alike

    def why_unresolved(self, scale: float, problem: "Problem") -> str:
        """Why double precision cannot resolve a gap of this scale, if no column is large."""
        largest = float((problem.second_moments.traces / problem.divisors).max())
        return f"the objective is no more than {scale / largest:.0e} of the variance"

    def rounding(self, roundings: FloatArray, errors: FloatArray, problem: "Problem") -> float:
        """By how much the value may be off, if the errors are by these.

        Twice where something is subtracted, which is rounded as well.
        """
        pieces = self._affine(problem)
        return pieces.size(roundings) * (2 if pieces.offsets.any() else 1)

    @property
    def formula(self) -> Formula:
        """How a reader of the report computes it, with `formula_parameters`."""
        return OF_PIECES

    def formula_parameters(self, problem: "Problem", weights: FloatArray) -> dict[str, Any]:
        """What the formula needs beside errors and the weights that prove the bound, by name."""
        if self.formula is not OF_PIECES:
            return {}
        pieces = self._affine(problem)
        return {
            "slopes": pieces.coefficients,
            "offsets": pieces.offsets,
            "starts": list(pieces.blocks.starts),
            "multipliers": pieces.multipliers(weights),
        }

    def theorem_3_2_holds(self, problem: "Problem") -> bool | None:
        """Whether that theorem of Vu et al. (2022) applies; None where it says nothing."""
        return None

    def check_posed(self, problem: "Problem") -> None:
        """Raise Incompatible if no bound can be proven, or none for these second moments."""
        # The pieces of losses are there, and take an eigenproblem for each group.
        if not self.measures_losses:
            self.dual_weights(problem.proportions, problem)

    def _affine(self, problem: "Problem") -> Pieces:
        if problem.pieces is None:
            raise Incompatible(
                f"The criterion {self.name!r} has neither pieces nor a formula of its own that "
                "proves a lower bound",
                "Allowed: criteria of which a bound can be proven, such as sums of maxima of "
                "affine functions of the errors",
                "Return Pieces from its method pieces",
            )
        return problem.pieces


@dataclass(frozen=True, eq=False)
class WarmStart:
    """A known answer to nearly the same problem, where a search begins.

    It saves iterations and proves nothing: the answer that a search ends with is proven as any
    other.

    Attributes
    ----------
    weights : (k,) array
        The weights that proved the known answer's bound.
    basis : (p, d) array or None
        Orthonormal columns in the coordinates of the problem that begins here; None where only the
        weights apply.
    """

    weights: FloatArray
    basis: FloatArray | None = None

    def within(self, axes: FloatArray) -> "WarmStart":
        """Return the start in the coordinates along orthonormal (p, m) axes."""
        if self.basis is None:
            return self
        return WarmStart(self.weights, np.linalg.qr(axes.T @ self.basis)[0])

    def basis_of(self, n_components: int) -> FloatArray | None:
        """Return the basis if it has this number of components."""
        if self.basis is None or self.basis.shape[1] != n_components:
            return None
        return self.basis


@dataclass(frozen=True, eq=False)
class Problem:
    """Find an orthonormal (p, d) basis V that minimises a criterion of the groups' errors.

    Attributes
    ----------
    second_moments : SecondMoments
        S_1 .. S_k about the chosen centre, each divided by its group's weight.
    labels : list of k labels
    weights : (k,) array
        n_g, rows of each group or the sum of their weights, in units of 2**weight_exponent.
    n_components : int
        d, from 1 to p.
    criterion : Criterion
    allow_extra : bool
        Whether a soft projection of more than d dimensions may be returned.
    unrestricted : Problem or None
        The same without the restriction to some directions, where there is one: excess losses and
        the figures of ordinary PCA are those of all directions.
    axes : (p, m) array or None
        Orthonormal columns in the features of the unrestricted problem, along which the features of
        this problem are: the directions that a restriction allows.
    limit : Limit or None
        What a subspace must not exceed, under a restriction with a tolerance.
    fixed : (k,) array, or 0
        Errors of each group in directions that a restriction forbids: no choice changes them.
    left_out : float
        The equal loss of all groups in these directions, which their errors do not contain.
    fixed_rounding : (k,) array, or 0
        By how much rounding may have moved the errors in these directions.
    inner_rounding : (k,) array, or 0
        The same for each group's variance in the allowed directions.
    moving_rounding : float
        By how much errors may be off where a restriction moves rows before they are projected.
    stretched : float
        By which share squared lengths in coordinates of few rows may be off.
    beside : (k,) array, or 0
        How far the rows of each group may lie beside such coordinates, root mean square.
    least_column_variance : float
        That of the feature which varies least of all that vary, about its mean: what is rounding
        beside it is zero. Infinite if none varies, or none is to be looked at.
    start : WarmStart or None
        Where a search may begin.
    weight_exponent : int
        Binary exponent of the unit of the weights, even.
    """

    second_moments: SecondMoments
    labels: list[Label]
    weights: FloatArray
    n_components: int
    criterion: Criterion
    allow_extra: bool = False
    unrestricted: "Problem | None" = None
    axes: FloatArray | None = None
    limit: "Limit | None" = None
    fixed: FloatArray | float = 0.0
    left_out: float = 0.0
    fixed_rounding: FloatArray | float = 0.0
    inner_rounding: FloatArray | float = 0.0
    moving_rounding: float = 0.0
    stretched: float = 0.0
    beside: FloatArray | float = 0.0
    least_column_variance: float = np.inf
    start: WarmStart | None = None
    weight_exponent: int = 0

    def __post_init__(self) -> None:
        check_n_components(self.n_components, self.second_moments.n_features)
        basis = None if self.start is None else self.start.basis
        if basis is not None and len(basis) != self.n_features:
            raise InvalidInput(
                f"The warm start has a basis in {counted(len(basis), 'coordinate')}",
                f"Allowed: the {counted(self.n_features, 'coordinate')} of the problem",
                "Use Problem.along(axes, ...) where the coordinates change",
            )
        self.criterion.check(self.labels)

    def along(self, axes: FloatArray, /, **changes: Any) -> "Problem":
        """Return the problem in the coordinates along orthonormal (p, m) axes.

        Parameters
        ----------
        axes : (p, m) array
        **changes
            The second moments in these coordinates, and whatever else changes with them.
        """
        start = None if self.start is None else self.start.within(axes)
        return replace(self, start=start, **changes)

    @property
    def dense(self) -> DenseSecondMoments:
        """The second moments as matrices, which most solvers need."""
        return cast(DenseSecondMoments, self.second_moments)

    @property
    def has_matrices(self) -> bool:
        """Whether the second moments are matrices, and not sparse rows."""
        return self.second_moments.has_matrices

    @property
    def n_groups(self) -> int:
        """k."""
        return self.second_moments.n_groups

    @property
    def n_features(self) -> int:
        """p."""
        return self.second_moments.n_features

    @cached_property
    def proportions(self) -> FloatArray:
        """q_g, each group's share of the rows, shape (k,)."""
        return np.asarray(self.weights / self.weights.sum())

    @property
    def whole(self) -> "Problem":
        """The problem without a restriction."""
        return self if self.unrestricted is None else self.unrestricted

    @cached_property
    def divisors(self) -> FloatArray:
        """What the criterion divides each group's error by; ones if it does not, shape (k,)."""
        return self.criterion.divisors(self)

    @cached_property
    def total_variance(self) -> float:
        """sum_g q_g tr S_g, the pooled trace; tolerances are shares of it."""
        return float(self.proportions @ self.second_moments.traces)

    @property
    def offset(self) -> float:
        """What the criterion is larger by in all directions, where all groups lose `left_out`."""
        return self.left_out * (self.criterion.moves_with_errors or 0.0)

    @property
    def variance_roundings(self) -> FloatArray:
        """By how much rounding may have moved each group's variance, shape (k,)."""
        traces = self.second_moments.traces
        rounded = 2 * self.n_features * _EPSILON * traces + self.inner_rounding
        if self.has_matrices:
            offsets = float(np.linalg.norm(self.dense.offset_rounding))
            rounded += 2 * offsets * self.dense.deviations + offsets**2
        return rounded + self.off_by_coordinates(traces)

    def off_by_coordinates(self, errors: FloatArray) -> FloatArray:
        """By how much (k,) errors may be off as coordinates of few rows are, shape (k,)."""
        moved, errors = self._moved_in_coordinates, np.maximum(errors, 0.0)
        off = self.stretched * errors + 2 * np.sqrt(errors) * moved + moved**2
        return np.asarray(off + self._doubt_of(errors))

    def bound_off_by_coordinates(self, weights: FloatArray, errors: FloatArray) -> float:
        """By how much the least w.e may be off for the same reason, or as rows were moved.

        Parameters
        ----------
        weights : (k,) array
            w.
        errors : (k,) array
            Of any subspace.
        """
        # A matrix S becomes FSF' with ||FF' - I|| <= s, and each eigenvalue at most s larger or
        # smaller (Ostrowski 1959).
        sizes, moved = np.abs(weights), self._moved_in_coordinates
        pooled, both = float(sizes @ errors), float(sizes @ (moved**2 + np.zeros(len(sizes))))
        negative = float(np.maximum(-weights, 0.0) @ self.second_moments.traces)
        off = self.stretched * (pooled + negative) + 2 * float(np.sqrt(pooled * both)) + both
        # Twice, as the least errors of the groups may be off as well.
        off += float(sizes @ self._doubt_of(errors))
        return 2 * off + float(sizes.sum()) * self.moving_rounding

    def _doubt_of(self, errors: FloatArray) -> FloatArray:
        """By how much errors may be off since the moments are, shape (k,)."""
        doubt = getattr(self.second_moments, "doubt", None)
        return np.zeros(self.n_groups) if doubt is None else doubt.of_errors(errors)

    @property
    def _moved_in_coordinates(self) -> FloatArray:
        """By how far, at most, rows have moved across a subspace, root mean square, shape (k,)."""
        # What a restriction forbids has turned as well.
        turned = 0.0 if self.unrestricted is None else self.stretched
        return np.asarray(
            self.beside + turned * np.sqrt(np.maximum(self.second_moments.traces, 0.0))
        )

    @cached_property
    def pieces(self) -> Pieces | None:
        """The criterion as a sum of maxima of affine functions; None if it is not one."""
        return self.criterion.pieces(self)

    @cached_property
    def pooled_optimum(self) -> LeadingSubspace:
        """The leading eigenvectors of the pooled second moment: ordinary PCA."""
        return self.second_moments.leading(self.proportions, self.n_components)

    @cached_property
    def group_optima(self) -> tuple[LeadingSubspace, ...]:
        """The best d-dimensional subspace of each group alone: k eigenproblems, solved once."""
        return tuple(
            self.second_moments.leading(alone, self.n_components) for alone in np.eye(self.n_groups)
        )

    @cached_property
    def best_errors(self) -> FloatArray:
        """e*_g = tr S_g - t_d(S_g), the error of each group's own optimum, shape (k,)."""
        second, optima = self.whole.second_moments, enumerate(self.whole.group_optima)
        return np.array(
            [second.of_group(g).residual_variances(best.vectors)[0] for g, best in optima]
        )

    def errors(self, basis: FloatArray) -> FloatArray:
        """e_g(V) = tr S_g - tr(V'S_gV) of each group, never below zero, shape (k,)."""
        return self.second_moments.residual_variances(basis)

    def value(self, basis: FloatArray) -> float:
        """The criterion at a basis."""
        return self.criterion.value(self.errors(basis), self)


def used_parameters(criterion: object, labels: Sequence[Label]) -> dict[str, Any]:
    """The parameters of the criterion that was minimised, groups as tables print them.

    The group that was chosen where none was named is named; what differs by group is a mapping; a
    flag that is not set is left out.
    """
    names = {label: printable(spelled(label)) for label in labels}
    values: dict[str, Any] = {
        name: {names[label]: value[label] for label in labels}
        if isinstance(value, Mapping)
        else value
        for name, value in field_values(criterion).items()
        if value is not False or name == "protected"  # which may be the label of a group
    }
    if "protected" in values:
        values["protected"] = names[values["protected"]]
    return values


def check_n_components(
    n_components: Any, most: int, *, of: str = "features", or_share: bool = False
) -> None:
    """Make sure that d is a whole number from 1 to p; or a share above 0 and below 1, if allowed.

    Raises
    ------
    InvalidParameter
    """
    is_whole = isinstance(n_components, numbers.Integral) and not isinstance(n_components, bool)
    is_share = or_share and isinstance(n_components, numbers.Real) and 0 < float(n_components) < 1
    if is_share or (is_whole and 1 <= n_components <= most):
        return
    share = ", or a share above 0 and below 1 of every group's variance"
    raise InvalidParameter(
        f"n_components is {n_components!r}",
        f"Allowed: a whole number from 1 to the number of {of}, {most}{share if or_share else ''}",
        f"Choose {'such a number, for example 2 or 0.9' if or_share else 'a number in that range'}",
    )


# A limit is met up to this share of it, and of what it limits.
_MET, _ROUNDING = 1e-8, 1e-14


@dataclass(frozen=True, eq=False)
class Limit(ABC):
    """An upper limit that a subspace must respect.

    Attributes
    ----------
    difference : array
        Of two groups' means or covariances.
    tolerance : float
        What is left of it in a subspace, at most.
    """

    difference: FloatArray
    tolerance: float

    @property
    @abstractmethod
    def slack(self) -> float:
        """The part of it that is rounding."""

    @abstractmethod
    def exceeded(self, basis: FloatArray) -> float:
        """By how much a (p, d) basis exceeds it; zero or less if it does not."""


def is_within(limit: Limit, basis: FloatArray) -> bool:
    """Whether a (p, d) basis exceeds a limit by no more than rounding."""
    return limit.exceeded(basis) <= limit.slack


@dataclass(frozen=True, eq=False)
class MeansWithin(Limit):
    """||V'f|| <= delta for the (p,) difference f of two groups' means."""

    @property
    def slack(self) -> float:
        """A share of delta, and of ||f||."""
        return _MET * self.tolerance + _ROUNDING * float(np.linalg.norm(self.difference))

    def exceeded(self, basis: FloatArray) -> float:
        """||V'f|| - delta."""
        return float(np.linalg.norm(self.difference @ basis)) - self.tolerance


@dataclass(frozen=True, eq=False)
class CovariancesWithin(Limit):
    """||V'DV|| <= tau, D the (p, p) difference of two groups' covariances, in the spectral norm."""

    @cached_property
    def slack(self) -> float:
        """A share of ||D||."""
        return _MET * float(np.linalg.norm(self.difference, 2))

    def exceeded(self, basis: FloatArray) -> float:
        """||V'DV|| - tau."""
        return float(np.linalg.norm(basis.T @ self.difference @ basis, 2)) - self.tolerance


def signed_disparity(errors: FloatArray) -> float:
    """Two groups: error of the second minus error of the first. More: the largest pairwise gap.

    Parameters
    ----------
    errors : (k,) array
        e_g of each group, in the order of its sorted labels.

    Returns
    -------
    float
        In the units of the errors; 0 for a single group.

    Examples
    --------
    >>> signed_disparity(np.array([3.0, 1.0]))
    -2.0
    >>> signed_disparity(np.array([3.0, 1.0, 2.0]))
    2.0
    """
    return float(errors[1] - errors[0]) if len(errors) == 2 else float(errors.max() - errors.min())
