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

from fairspan.errors import IncompatibleParameters, InvalidInput, InvalidParameter
from fairspan.formatting.text import counted
from fairspan.linalg import LeadingSubspace
from fairspan.moments.operators import DenseSecondMoments, SecondMoments
from fairspan.registry import init_parameters
from fairspan.rows.groups import Label, format_label, printable
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

    def maxima(self, values: FloatArray) -> FloatArray:
        """The largest of each block, of (..., m) values of the pieces, shape (..., n)."""
        return np.asarray(np.maximum.reduceat(values, self.starts, axis=-1))

    def sums(self, values: FloatArray) -> FloatArray:
        """The sum over each block, of (m, ...) values, shape (n, ...)."""
        return np.asarray(np.add.reduceat(values, self.starts, axis=0))

    def sum_of_maxima(self, values: FloatArray) -> float:
        """The sum of the largest of each block, of (m,) values of the pieces."""
        return float(self.maxima(values).sum())

    def block_indices(self, n_pieces: int) -> IndexArray:
        """Index of the block of each piece, shape (m,)."""
        return np.searchsorted(self.starts, np.arange(n_pieces), side="right") - 1

    def indicator_matrix(self, n_pieces: int) -> FloatArray:
        """1 where a piece belongs to a block, else 0, shape (n, m)."""
        return np.asarray(
            self.block_indices(n_pieces) == np.arange(len(self.starts))[:, None], dtype=np.float64
        )

    def argmax(self, values: FloatArray) -> IndexArray:
        """Index of a largest piece of each block, of (m,) values, shape (n,)."""
        pairs = zip(self.starts, (*self.starts[1:], len(values)), strict=True)
        return np.array([start + int(np.argmax(values[start:end])) for start, end in pairs])

    def select(self, indices: IndexArray) -> "Blocks":
        """The blocks of some of the pieces, in order, of which every block has one."""
        return Blocks(tuple(np.searchsorted(indices, self.starts).tolist()))

    def differences_from_first(self, rows: FloatArray) -> FloatArray:
        """(m, ...) rows less the first of their block, without those first ones, (m - n, ...)."""
        block_of = self.block_indices(len(rows))
        starts = np.array(self.starts)
        return np.delete(rows - rows[starts[block_of]], starts, axis=0)

    def normalize(self, multipliers: FloatArray) -> FloatArray:
        """Not negative and summing to one in each block, without which they prove nothing."""
        positive = np.maximum(multipliers, 0.0)
        block_of = (
            self.block_indices(len(positive)) if len(self) > 1 else np.zeros(1, dtype=np.intp)
        )
        # Where all are zero, none is preferred.
        positive = np.where(self.sums(positive)[block_of] > 0, positive, 1.0)
        return np.asarray(positive / self.sums(positive)[block_of])


# All pieces in one block: the largest of them.
SINGLE_BLOCK = Blocks()


@dataclass(frozen=True, eq=False)
class AffinePieces:
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
    blocks: Blocks = SINGLE_BLOCK

    @property
    def is_linear(self) -> bool:
        """Whether there is nothing to choose: one piece in each block."""
        return len(self.offsets) == len(self.blocks)

    def piece_values(self, errors: FloatArray) -> FloatArray:
        """Values of the pieces at (..., k) errors, shape (..., m)."""
        return np.asarray(errors @ self.coefficients.T - self.offsets)

    def value(self, errors: FloatArray) -> float:
        """The criterion at these (k,) errors."""
        return self.blocks.sum_of_maxima(self.piece_values(errors))

    def magnitude(self, errors: FloatArray) -> float:
        """What rounding of the value at these (k,) errors is a share of, but for the offsets."""
        return self.blocks.sum_of_maxima(np.abs(self.coefficients) @ errors)

    @cached_property
    def _diagonal_slopes(self) -> FloatArray | None:
        """The slopes, if there is one piece for each group, of its error alone."""
        diagonal = np.diag(self.coefficients)
        is_diagonal = len(self.blocks) == 1 and np.array_equal(self.coefficients, np.diag(diagonal))
        return diagonal if is_diagonal and diagonal.all() else None

    def nearest_multipliers(self, weights: FloatArray) -> FloatArray:
        """Multipliers m of the pieces, of which A'm comes nearest to (k,) weights, shape (m,)."""
        if self.is_linear:
            return np.ones(len(self.offsets))
        if self._diagonal_slopes is not None:
            return self.blocks.normalize(weights / self._diagonal_slopes)
        size = max(float(np.abs(self.coefficients).max()), np.finfo(np.float64).tiny)
        sums = self.blocks.indicator_matrix(len(self.offsets))
        system = np.vstack([self.coefficients.T / size, sums])
        solution, _ = scipy.optimize.nnls(system, np.append(weights / size, np.ones(len(sums))))
        return self.blocks.normalize(solution)


KY_FAN_TEXT = (
    "S_g is the second moment matrix of group g, and M = sum_g w_g S_g with the weights w below. "
    "No subspace of as many dimensions leaves less of M than L(M), {rest} (Ky Fan 1949). "
)


@dataclass(frozen=True)
class CriterionFormula:
    """What a criterion minimises, and how a reader computes it from errors, and its bound.

    Attributes
    ----------
    sentence : str
        What is minimised, in plain words.
    objective_text : str
        What follows "The objective is".
    objective : str
        In Python, of `errors`, `S`, `q`, `traces` and `best`, and of the parameters.
    bound_text : str
        Why no subspace is below the bound; `{rest}` names the remaining eigenvalues.
    bound : str
        In Python, of `weights`, `best` and `mixture`; or lines that set `lower_bound`.
    function : str
        In Python, a function that the objective calls; empty if there is none.
    """

    summary: str
    objective_text: str
    objective_code: str
    bound_text: str = KY_FAN_TEXT + (
        "So no subspace has a weighted sum of errors, sum_g w_g e_g, below L(M), and the criterion "
        "is never below this weighted sum."
    )
    bound_code: str = "least_left(mixture)"
    helper_code: str = ""


# Of a criterion that says nothing else.
DEFAULT_FORMULA = CriterionFormula(
    "The package of this criterion describes what it minimises.",
    "the sum, over blocks of affine functions of the errors, of the largest of each block.",
    "float(np.maximum.reduceat(slopes @ errors - offsets, starts).sum())",
    KY_FAN_TEXT
    + "The criterion is never below the sum of its affine functions times multipliers that "
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
    requires_equal_errors : bool
        Whether the errors of all groups must be equal, or nearly so.
    has_concave_scores : bool
        Whether it is the largest of concave functions of the errors: its `scores`.
    measures_losses : bool
        Whether its pieces hold the groups' own optima.
    is_nonnegative : bool
    common_shift_slope : float or None
        By how much the value rises if all errors rise by one; None if not always by the same.
    can_be_nested : bool
        Whether components may be chosen one after the other, each beside those before it. Weights
        of the groups then prove what each of these steps claims.
    relative : bool
        Whether each group's error is divided by its variance.
    """

    requires_equal_errors: ClassVar[bool] = False
    uses_excess_loss: ClassVar[bool] = False
    has_concave_scores: ClassVar[bool] = False
    is_nonnegative: ClassVar[bool] = False
    relative: bool = False

    @property
    @abstractmethod
    def name(self) -> str:
        """The name by which it can be requested."""

    @abstractmethod
    def pieces(self, problem: "Problem") -> AffinePieces | None:
        """It as a sum of maxima of affine functions; None if this is not possible."""

    def check_groups(self, group_labels: list[Label]) -> None:
        """Raise Incompatible or UnknownGroup if it is not defined for these groups."""
        return

    @property
    def supports_nesting(self) -> bool:
        """Whether components may be chosen one after the other."""
        return False

    @property
    def common_shift_slope(self) -> float | None:
        """By how much the value rises if all errors rise by one."""
        return None

    @property
    def constraint_text(self) -> str:
        """What follows "no subspace" where not all are allowed, such as " with equal errors"."""
        return ""

    def constraint_violation(self, errors: FloatArray) -> float:
        """By how much (k,) errors break the condition; zero or less if they do not."""
        return 0.0

    def with_defaults(self, problem: "Problem") -> Self:
        """The same, with everything named that was left to be chosen."""
        return self

    def divisors(self, problem: "Problem") -> FloatArray:
        """What each group's error is divided by, shape (k,)."""
        return np.ones(problem.n_groups)

    def value(self, errors: FloatArray, problem: "Problem") -> float:
        """f at the (k,) errors of a subspace."""
        return self._require_pieces(problem).value(errors)

    def scores(self, errors: FloatArray, problem: "Problem") -> FloatArray:
        """Smooth functions of (..., k) errors, the largest of which is the value, (..., m)."""
        return self._require_pieces(problem).piece_values(errors)

    def score_gradients(self, errors: FloatArray, problem: "Problem") -> FloatArray:
        """Derivatives of the scores in the (k,) errors, shape (m, k)."""
        return self._require_pieces(problem).coefficients

    def dual_feasible_weights(self, weights: FloatArray, problem: "Problem") -> FloatArray:
        """Of the (k,) weights that prove a bound, those that come nearest to the given ones."""
        pieces = self._require_pieces(problem)
        return np.asarray(pieces.nearest_multipliers(weights) @ pieces.coefficients)

    def lower_bound(
        self, min_weighted_error: float, weights: FloatArray, problem: "Problem"
    ) -> float:
        """What no subspace has a value below, if none has w.e < least, for such weights w."""
        pieces = self._require_pieces(problem)
        return min_weighted_error - float(pieces.nearest_multipliers(weights) @ pieces.offsets)

    def magnitude(self, errors: FloatArray, problem: "Problem") -> float:
        """The size of the value at the (k,) errors, for which its sign does not count."""
        return abs(self.value(errors, problem))

    def largest_scaled_error(self, errors: FloatArray, problem: "Problem") -> float:
        """The largest of the (k,) errors within the directions that are left, as it counts them."""
        return float(((errors - problem.fixed_errors) / problem.divisors).max())

    def scale(self, errors: FloatArray, problem: "Problem") -> float:
        """What a gap is compared with: the size of the value.

        Under a restriction, no more than the largest error that can still be chosen.
        """
        magnitude = self.magnitude(errors + problem.common_error, problem)
        return (
            magnitude
            if problem.parent is None
            else min(magnitude, self.largest_scaled_error(errors, problem))
        )

    def split_fixed_errors(self, fixed_errors: FloatArray) -> tuple[FloatArray, float]:
        """What is to be made of the (k,) errors in directions that a restriction forbids.

        Returns
        -------
        errors : (k,) array
            What counts of them by group, less what all lose alike where this moves the value.
        alike : float
            That.
        """
        common_error = 0.0 if self.common_shift_slope is None else float(fixed_errors.min())
        return fixed_errors - common_error, common_error

    def unresolved_reason(self, scale: float, problem: "Problem") -> str:
        """Why double precision cannot resolve a gap of this scale, if no column is large."""
        largest = float((problem.second_moments.traces / problem.divisors).max())
        return f"the objective is no more than {scale / largest:.0e} of the variance"

    def rounding_bound(
        self, error_rounding: FloatArray, errors: FloatArray, problem: "Problem"
    ) -> float:
        """By how much the value may be off, if the errors are by these.

        Twice where something is subtracted, which is rounded as well.
        """
        pieces = self._require_pieces(problem)
        return pieces.magnitude(error_rounding) * (2 if pieces.offsets.any() else 1)

    @property
    def formula(self) -> CriterionFormula:
        """How a reader of the report computes it, with `formula_parameters`."""
        return DEFAULT_FORMULA

    def formula_parameters(self, problem: "Problem", weights: FloatArray) -> dict[str, Any]:
        """What the formula needs beside errors and the weights that prove the bound, by name."""
        if self.formula is not DEFAULT_FORMULA:
            return {}
        pieces = self._require_pieces(problem)
        return {
            "slopes": pieces.coefficients,
            "offsets": pieces.offsets,
            "starts": list(pieces.blocks.starts),
            "multipliers": pieces.nearest_multipliers(weights),
        }

    def theorem_3_2_holds(self, problem: "Problem") -> bool | None:
        """Whether that theorem of Vu et al. (2022) applies; None where it says nothing."""
        return None

    def check_problem(self, problem: "Problem") -> None:
        """Raise Incompatible if no bound can be proven, or none for these second moments."""
        # The pieces of losses are there, and take an eigenproblem for each group.
        if not self.uses_excess_loss:
            self.dual_feasible_weights(problem.proportions, problem)

    def _require_pieces(self, problem: "Problem") -> AffinePieces:
        if problem.pieces is None:
            raise IncompatibleParameters(
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
    oblique_rounding : float
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
    group_labels: list[Label]
    group_weights: FloatArray
    n_components: int
    criterion: Criterion
    allow_extra: bool = False
    parent: "Problem | None" = None
    axes: FloatArray | None = None
    limit: "ParityLimit | None" = None
    fixed_errors: FloatArray | float = 0.0
    common_error: float = 0.0
    fixed_rounding: FloatArray | float = 0.0
    inner_variance_rounding: FloatArray | float = 0.0
    oblique_rounding: float = 0.0
    orthogonality_defect: float = 0.0
    span_residuals: FloatArray | float = 0.0
    smallest_feature_variance: float = np.inf
    warm_start: WarmStart | None = None
    weight_exponent: int = 0

    def __post_init__(self) -> None:
        check_n_components(self.n_components, self.second_moments.n_features)
        basis = None if self.warm_start is None else self.warm_start.basis
        if basis is not None and len(basis) != self.n_features:
            raise InvalidInput(
                f"The warm start has a basis in {counted(len(basis), 'coordinate')}",
                f"Allowed: the {counted(self.n_features, 'coordinate')} of the problem",
                "Use Problem.along(axes, ...) where the coordinates change",
            )
        self.criterion.check_groups(self.group_labels)

    def along(self, axes: FloatArray, /, **changes: Any) -> "Problem":
        """Return the problem in the coordinates along orthonormal (p, m) axes.

        Parameters
        ----------
        axes : (p, m) array
        **changes
            The second moments in these coordinates, and whatever else changes with them.
        """
        start = None if self.warm_start is None else self.warm_start.within(axes)
        return replace(self, warm_start=start, **changes)

    @property
    def dense_moments(self) -> DenseSecondMoments:
        """The second moments as matrices, which most solvers need."""
        return cast(DenseSecondMoments, self.second_moments)

    @property
    def has_matrices(self) -> bool:
        """Whether the second moments are matrices, and not sparse rows."""
        return self.second_moments.is_dense

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
        return np.asarray(self.group_weights / self.group_weights.sum())

    @property
    def unrestricted(self) -> "Problem":
        """The problem without a restriction."""
        return self if self.parent is None else self.parent

    @cached_property
    def divisors(self) -> FloatArray:
        """What the criterion divides each group's error by; ones if it does not, shape (k,)."""
        return self.criterion.divisors(self)

    @cached_property
    def total_variance(self) -> float:
        """sum_g q_g tr S_g, the pooled trace; tolerances are shares of it."""
        return float(self.proportions @ self.second_moments.traces)

    @property
    def objective_offset(self) -> float:
        """What the criterion is larger by in all directions, where all groups lose `left_out`."""
        return self.common_error * (self.criterion.common_shift_slope or 0.0)

    @property
    def variance_rounding(self) -> FloatArray:
        """By how much rounding may have moved each group's variance, shape (k,)."""
        traces = self.second_moments.traces
        rounding = 2 * self.n_features * _EPSILON * traces + self.inner_variance_rounding
        if self.has_matrices:
            mean_rounding = float(np.linalg.norm(self.dense_moments.offset_rounding_error))
            rounding += 2 * mean_rounding * self.dense_moments.root_traces + mean_rounding**2
        return rounding + self.coordinate_rounding(traces)

    def coordinate_rounding(self, errors: FloatArray) -> FloatArray:
        """By how much (k,) errors may be off as coordinates of few rows are, shape (k,)."""
        moved, errors = self._row_displacement, np.maximum(errors, 0.0)
        off = self.orthogonality_defect * errors + 2 * np.sqrt(errors) * moved + moved**2
        return np.asarray(off + self._doubt_of(errors))

    def bound_rounding(self, weights: FloatArray, errors: FloatArray) -> float:
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
        abs_weights, displacement = np.abs(weights), self._row_displacement
        weighted_error, weighted_displacement = (
            float(abs_weights @ errors),
            float(abs_weights @ (displacement**2 + np.zeros(len(abs_weights)))),
        )
        negative = float(np.maximum(-weights, 0.0) @ self.second_moments.traces)
        eigenvalue_rounding = (
            self.orthogonality_defect * (weighted_error + negative)
            + 2 * float(np.sqrt(weighted_error * weighted_displacement))
            + weighted_displacement
        )
        # Twice, as the least errors of the groups may be off as well.
        eigenvalue_rounding += float(abs_weights @ self._doubt_of(errors))
        return 2 * eigenvalue_rounding + float(abs_weights.sum()) * self.oblique_rounding

    def _doubt_of(self, errors: FloatArray) -> FloatArray:
        """By how much errors may be off since the moments are, shape (k,)."""
        doubt = getattr(self.second_moments, "doubt", None)
        return np.zeros(self.n_groups) if doubt is None else doubt.of_errors(errors)

    @property
    def _row_displacement(self) -> FloatArray:
        """By how far, at most, rows have moved across a subspace, root mean square, shape (k,)."""
        # What a restriction forbids has turned as well.
        restriction_rotation = 0.0 if self.parent is None else self.orthogonality_defect
        return np.asarray(
            self.span_residuals
            + restriction_rotation * np.sqrt(np.maximum(self.second_moments.traces, 0.0))
        )

    @cached_property
    def pieces(self) -> AffinePieces | None:
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
            self.second_moments.leading(unit_weights, self.n_components)
            for unit_weights in np.eye(self.n_groups)
        )

    @cached_property
    def best_errors(self) -> FloatArray:
        """e*_g = tr S_g - t_d(S_g), the error of each group's own optimum, shape (k,)."""
        second_moments, optima = (
            self.unrestricted.second_moments,
            enumerate(self.unrestricted.group_optima),
        )
        return np.array(
            [
                second_moments.select_group(g).residual_variances(optimum.vectors)[0]
                for g, optimum in optima
            ]
        )

    def errors(self, basis: FloatArray) -> FloatArray:
        """e_g(V) = tr S_g - tr(V'S_gV) of each group, never below zero, shape (k,)."""
        return self.second_moments.residual_variances(basis)

    def objective(self, basis: FloatArray) -> float:
        """The criterion at a basis."""
        return self.criterion.value(self.errors(basis), self)


def reported_parameters(criterion: object, group_labels: Sequence[Label]) -> dict[str, Any]:
    """The parameters of the criterion that was minimised, groups as tables print them.

    The group that was chosen where none was named is named; what differs by group is a mapping; a
    flag that is not set is left out.
    """
    names = {label: printable(format_label(label)) for label in group_labels}
    values: dict[str, Any] = {
        name: {names[label]: value[label] for label in group_labels}
        if isinstance(value, Mapping)
        else value
        for name, value in init_parameters(criterion).items()
        if value is not False or name == "protected"  # which may be the label of a group
    }
    if "protected" in values:
        values["protected"] = names[values["protected"]]
    return values


def check_n_components(
    n_components: Any, maximum: int, *, of: str = "features", allow_fraction: bool = False
) -> None:
    """Make sure that d is a whole number from 1 to p; or a share above 0 and below 1, if allowed.

    Raises
    ------
    InvalidParameter
    """
    is_integer = isinstance(n_components, numbers.Integral) and not isinstance(n_components, bool)
    is_fraction = (
        allow_fraction and isinstance(n_components, numbers.Real) and 0 < float(n_components) < 1
    )
    if is_fraction or (is_integer and 1 <= n_components <= maximum):
        return
    share = ", or a share above 0 and below 1 of every group's variance"
    raise InvalidParameter(
        f"n_components is {n_components!r}",
        f"Allowed: a whole number from 1 to the number of {of}, {maximum}{share if allow_fraction else ''}",
        f"Choose {'such a number, for example 2 or 0.9' if allow_fraction else 'a number in that range'}",
    )


# A limit is met up to this share of it, and of what it limits.
_RELATIVE_SLACK, _DIFFERENCE_ROUNDING = 1e-8, 1e-14


@dataclass(frozen=True, eq=False)
class ParityLimit(ABC):
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
    def excess(self, basis: FloatArray) -> float:
        """By how much a (p, d) basis exceeds it; zero or less if it does not."""


def is_feasible(limit: ParityLimit, basis: FloatArray) -> bool:
    """Whether a (p, d) basis exceeds a limit by no more than rounding."""
    return limit.excess(basis) <= limit.slack


@dataclass(frozen=True, eq=False)
class MeanDistanceLimit(ParityLimit):
    """||V'f|| <= delta for the (p,) difference f of two groups' means."""

    @property
    def slack(self) -> float:
        """A share of delta, and of ||f||."""
        return _RELATIVE_SLACK * self.tolerance + _DIFFERENCE_ROUNDING * float(
            np.linalg.norm(self.difference)
        )

    def excess(self, basis: FloatArray) -> float:
        """||V'f|| - delta."""
        return float(np.linalg.norm(self.difference @ basis)) - self.tolerance


@dataclass(frozen=True, eq=False)
class CovarianceDifferenceLimit(ParityLimit):
    """||V'DV|| <= tau, D the (p, p) difference of two groups' covariances, in the spectral norm."""

    @cached_property
    def slack(self) -> float:
        """A share of ||D||."""
        return _RELATIVE_SLACK * float(np.linalg.norm(self.difference, 2))

    def excess(self, basis: FloatArray) -> float:
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
