"""Answers judged in numbers of 60 digits and more, from the rows, without code of the library.

Second moments come from the rows as fractions, so they are exact. The value of the returned
components, and what the returned weights prove, are worked out from them with mpmath. What float64
does to second moments before any solver sees them is allowed for: each entry (i, j) may be off by a
few units of epsilon times the sizes of its two columns.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from heapq import heappop, heappush
from itertools import permutations
from typing import Any

import numpy as np
from mpmath import mp, mpf

from torture.cases import Case

DIGITS = 60
EPSILON = float(np.finfo(np.float64).eps)
# What an entry of a second moment may be off by, in units of epsilon times the two columns' sizes.
_ENTRY_ERROR_UNITS = 16
# More halvings of a polygon's sides than this take too long.
_MAX_SPLITS = 4000


class Wrong(AssertionError):
    """An answer that is not what it says of itself."""


@dataclass(frozen=True)
class Judgment:
    """What 60 digits say of an answer.

    Attributes
    ----------
    status : str
        What the library said.
    value, bound, gap : float
        True value at the components, true bound of the weights, and their difference.
    objective, lower_bound : float
        What the library said.
    """

    status: str
    value: float
    bound: float
    gap: float
    objective: float
    lower_bound: float


class Exact:
    """The second moments of a case, exactly, in the order of a fitted model's groups."""

    def __init__(self, case: Case, labels: list[Any], scale: Any) -> None:
        self.case = case
        if case.matrices is not None:
            self._from_matrices(case)
        else:
            self._from_rows(case, labels, scale)
        self.k, self.p = len(self.moments), len(self.moments[0])
        self.digits = self._digits()

    def _from_matrices(self, case: Case) -> None:
        assert case.matrices is not None
        self.moments = [_fractions(each) for each in case.matrices]
        k, p = case.matrices.shape[:2]
        shares = np.ones(k) if case.shares is None else case.shares
        self.weights = [Fraction(float(share)) for share in shares]
        self.means = [[Fraction(0)] * p for _ in range(k)]
        self.covariances = self.moments
        self.unsure = [np.zeros((p, p)) for _ in range(k)]
        self.sizes = [[0.0] * p for _ in range(k)]

    def _from_rows(self, case: Case, labels: list[Any], scale: Any) -> None:
        assert case.rows is not None
        n, p = case.rows.shape
        divisors = [Fraction(1)] * p if scale is None else [Fraction(float(s)) for s in scale]
        rows = [
            [Fraction(float(x)) / by for x, by in zip(row, divisors, strict=True)]
            for row in case.rows
        ]
        given = np.ones(n) if case.weights is None else case.weights
        shares = [Fraction(float(w)) for w in given]
        members = [
            [i for i in range(n) if str(case.groups[i]) == str(label) and shares[i] > 0]
            for label in labels
        ]
        self.weights = [sum(shares[i] for i in each) for each in members]
        self.means = [
            [sum(shares[i] * rows[i][j] for i in each) / weight for j in range(p)]
            for each, weight in zip(members, self.weights, strict=True)
        ]
        total = sum(self.weights)
        middle = [
            sum(w * m[j] for w, m in zip(self.weights, self.means, strict=True)) / total
            for j in range(p)
        ]
        self.covariances = [
            _second_moment([rows[i] for i in each], [shares[i] for i in each], mean)
            for each, mean in zip(members, self.means, strict=True)
        ]
        points = {
            "group": self.means,
            "global": [middle] * len(labels),
            "none": [[Fraction(0)] * p] * len(labels),
        }[case.center]
        self.moments, self.unsure, self.sizes = [], [], []
        # Means are sums of differences from a row, however far from zero the rows are.
        largest = [max(_root((row[j] - middle[j]) ** 2) for row in rows) for j in range(p)]
        for covariance, mean, point in zip(self.covariances, self.means, points, strict=True):
            offset = [m - at for m, at in zip(mean, point, strict=True)]
            self.moments.append(
                [[covariance[i][j] + offset[i] * offset[j] for j in range(p)] for i in range(p)]
            )
            about = [_root(self.moments[-1][j][j]) for j in range(p)]
            lost = [2 * EPSILON * at if case.center == "global" else mpf(0) for at in largest]
            self.unsure.append(
                [
                    [
                        _ENTRY_ERROR_UNITS * EPSILON * about[i] * about[j]
                        + about[i] * lost[j]
                        + lost[i] * about[j]
                        + lost[i] * lost[j]
                        for j in range(p)
                    ]
                    for i in range(p)
                ]
            )
            self.sizes.append([_root(covariance[j][j]) for j in range(p)])
        self.largest = largest

    def _digits(self) -> int:
        """Enough for eigenvalues to have 60 digits where columns differ in size."""
        sizes = [each[j][j] for each in self.moments for j in range(len(each)) if each[j][j] > 0]
        if not sizes:
            return DIGITS
        return DIGITS + 2 * abs(_exponent(max(sizes)) - _exponent(min(sizes)))

    @cached_property
    def proportions(self) -> list[Any]:
        total = sum(self.weights)
        return [_mpf(w / total) for w in self.weights]

    @cached_property
    def matrices(self) -> list[Any]:
        return [mp.matrix([[_mpf(x) for x in row] for row in each]) for each in self.moments]

    def mixture(self, weights: list[Any]) -> Any:
        return _mixture(self.matrices, weights)


class Directions:
    """The directions that a restriction leaves, and the second moments within them."""

    def __init__(self, exact: Exact) -> None:
        self.exact = exact
        restriction, p = exact.case.restriction, exact.p
        exactly = restriction is not None and restriction.tolerance == (
            0 if restriction.name == "mean_parity" else None
        )
        self.differences = [
            mp.matrix([_mpf(a - b) for a, b in zip(mean, exact.means[0], strict=True)])
            for mean in exact.means[1:]
        ]
        if exactly:
            free = _complement(self.differences, p)
            if restriction.name == "covariance_parity":
                free = _best_parity(exact, free, restriction)
            self.basis: Any = free
        else:
            self.basis = mp.eye(p)
        self.restricted = exactly
        turn = self.basis
        self.matrices = (
            [turn.T * each * turn for each in exact.matrices] if exactly else list(exact.matrices)
        )
        self.fixed = [
            _trace(whole) - _trace(inner) if exactly else mpf(0)
            for whole, inner in zip(exact.matrices, self.matrices, strict=True)
        ]
        self.unsure = self._unsure()

    def _unsure(self) -> list[Any]:
        exact = self.exact
        if exact.case.matrices is not None:
            return [mp.zeros(exact.p) for _ in range(exact.k)]
        if not self.restricted:
            return [mp.matrix(each) for each in exact.unsure]
        # Within them only what varies inside the groups counts, and how far the means turn them.
        by = _ENTRY_ERROR_UNITS * EPSILON
        size = max(mp.norm(f) for f in self.differences)
        angle = by + 4 * EPSILON * mp.norm(mp.matrix(exact.largest)) / size
        found = []
        for sizes in exact.sizes:
            length = mp.norm(mp.matrix(sizes))
            if exact.case.restriction.name == "covariance_parity":
                angle = max(angle, mpf("1e-11"))
            found.append(
                mp.matrix(
                    [
                        [by * a * b + 2 * angle * length**2 + (angle * size) ** 2 for a in sizes]
                        for b in sizes
                    ]
                )
            )
        return found

    @property
    def n_directions(self) -> int:
        return int(self.basis.cols)


def judge_case(case: Case, model: Any) -> Judgment:
    """Hold the claims of a fitted model against what is true.

    Raises
    ------
    Wrong
    """
    solution = model.solution_
    labels = model.groups_.tolist()
    exact = Exact(case, labels, model.scale_)
    with mp.workdps(exact.digits):
        return _judge(case, model, solution, exact)


def _judge(case: Case, model: Any, solution: Any, exact: Exact) -> Judgment:
    _check_scale(case, model, exact)
    d, criterion = case.n_components, case.criterion
    allowed = Directions(exact)
    components = mp.matrix(model.components_.tolist())
    errors, left = _errors(case, exact, allowed, components)
    _check_restriction(case, exact, allowed, components)
    unsure = [_bilinear(left, each) for each in allowed.unsure]
    best, best_unsure = _best_errors(exact, d, criterion)
    trouble = Criterion(criterion, case, exact, best)
    counted = zip(errors, allowed.fixed, trouble.divisors, strict=True)
    inner = [(e - f) / t for e, f, t in counted]

    value = trouble.value(errors)
    proven = Proven(trouble, exact, allowed, d)
    bound, bound_unsure = proven.bound(solution, errors, unsure, best_unsure)
    known = trouble.known_beforehand()
    if known is not None and known > bound:
        bound, bound_unsure = known, trouble.weigh(best_unsure)
    value_unsure = trouble.moved(errors, unsure, best_unsure)
    fixed = [f / t for f, t in zip(allowed.fixed, trouble.divisors, strict=True)]
    outer = 64 * EPSILON * trouble.weigh(fixed) if allowed.restricted else mpf(0)

    gap = value - bound
    scale, size = trouble.scale(errors, solution.weights), max(inner)
    resolution = mpf(float(solution.resolution))
    # What is kept, and not lost, is no part of what no choice changes.
    if allowed.restricted and not (trouble.is_nash or trouble.name == "least_variance"):
        scale = min(scale, max(inner))
    if size <= resolution:
        traces = [_trace(each) for each in allowed.matrices]
        size = max(each / t for each, t in zip(traces, trouble.divisors, strict=True))
    if trouble.is_nash:
        size = mpf(1)
    objective, lower = mpf(float(solution.objective)), mpf(float(solution.lower_bound))
    stored = trouble.moved(errors, _storage_errors(exact, allowed), [mpf(0)] * exact.k)
    room = resolution + value_unsure + outer + stored + 4 * _spacing(objective)
    said = f"{solution!r}, resolution {float(resolution):.1e}; true value {mp.nstr(value, 17)}, "
    said += f"true bound {mp.nstr(bound, 17)}, true gap {mp.nstr(gap, 3)}, room for rounding "
    said += f"{mp.nstr(value_unsure + outer, 2)} and {mp.nstr(bound_unsure + outer, 2)}"

    if not (mp.isfinite(objective) and mp.isfinite(resolution)):
        raise Wrong(f"not finite: {said}")
    if abs(objective - value) > room:
        raise Wrong(f"objective is not the value of the components: {said}")
    if lower > bound + resolution + bound_unsure + outer + 4 * _spacing(objective):
        raise Wrong(f"lower bound is more than its weights prove: {said}")
    apart = mpf(0)
    if trouble.wants_equal:
        apart = max(max(errors) - min(errors) - trouble.allowed, mpf(0))
    # Errors that differ, as the tolerance lets them, make a total below that of equal ones.
    unequal = apart * proven.leverage
    if str(solution.status) == "optimal":
        unequal = min(unequal, 2 * mpf(case.tol) * scale)
    if lower > objective + resolution + unequal + 4 * _spacing(objective):
        raise Wrong(f"lower bound is above the objective: {said}")
    status = str(solution.status)
    allowance = value_unsure + bound_unsure + stored
    if case.criterion.name not in ("total_error", "nash_welfare"):
        # Groups are compared with each other by all of their errors, fixed ones too.
        allowance += outer
    most = 2 * mpf(case.tol) * scale + allowance
    worst = max(gap, apart)
    if status == "optimal":
        # Zero by structure: below what float64 can tell of the largest error, or of the variance.
        structural = worst <= 2 * resolution + allowance and (
            resolution <= 2 * mpf(case.tol) * size or worst <= 4 * exact.p * EPSILON * size
        )
        # An objective that can be told from zero is known to some digits.
        least = max(inner) if allowed.restricted else scale
        known = resolution <= 2 * mp.sqrt(case.tol) * scale or least <= 4 * resolution + allowance
        structural = structural and known
        if not (worst <= most or structural):
            raise Wrong(f"optimal, but the gap is open: {said}, violation {mp.nstr(apart, 3)}")
    elif status == "unresolved":
        if worst > 2 * resolution + allowance + 4 * _spacing(objective):
            raise Wrong(f"unresolved, but the gap is larger than that: {said}")
    elif status not in ("open gap", "estimated"):
        raise Wrong(f"unknown status: {said}")
    return Judgment(status, float(value), float(bound), float(gap), float(objective), float(lower))


class Criterion:
    """The formulas of a criterion, from the mathematics of the papers."""

    def __init__(self, criterion: Any, case: Case, exact: Exact, best: list[Any]) -> None:
        self.name = criterion.name
        self.given, self.case, self.exact, self.best = criterion, case, exact, best
        self.q = exact.proportions
        self.is_nash = self.name == "nash_welfare"
        # The largest of (e_g - offset) / divisor.
        self.is_largest = self.name in ("minimax_loss", "minimax_error", "least_variance")
        self.is_relative = getattr(criterion, "relative", False)
        self.wants_equal = self.name == "equal_error" and exact.k > 1
        self.allowed = mpf(float(getattr(criterion, "tolerance", 0)))
        self.traces = [_trace(each) for each in exact.matrices]
        # What is kept is the trace less the error, and both are unsure.
        self.traces_unsure = [
            sum((mpf(each[j][j]) for j in range(exact.p)), mpf(0)) for each in exact.unsure
        ]
        nothing = [mpf(0)] * exact.k
        self.offsets = {"minimax_loss": best, "least_variance": self.traces}.get(self.name, nothing)
        self.divisors = self.traces if self.is_relative else [mpf(1)] * exact.k
        penalty = getattr(criterion, "penalty", None)
        self.penalty = None if penalty is None else mpf(float(penalty))

    def value(self, errors: list[Any]) -> Any:
        total = self.weigh(errors)
        if self.is_largest:
            return max(self.parts(errors))
        if self.name == "disparity":
            return sum((w * e for w, e in zip(self.signed, errors, strict=True)), mpf(0))
        if self.name == "error_gap":
            return total + self.penalty * (max(errors) - min(errors))
        if self.name == "robust_error_gap":
            return max(self.scores(errors))
        if self.is_nash:
            kept = [t - e for t, e in zip(self.traces, errors, strict=True)]
            if min(kept) <= 0:
                return mp.inf
            return -sum((mp.log(c) for c in kept), mpf(0)) / len(kept)
        return total

    def parts(self, errors: list[Any]) -> list[Any]:
        """Of a maximum over groups, what is compared."""
        return [(e - o) / t for e, o, t in zip(errors, self.offsets, self.divisors, strict=True)]

    def weigh(self, numbers: list[Any]) -> Any:
        return _dot(self.q, numbers)

    @cached_property
    def signed(self) -> list[Any]:
        trade_off = mpf(float(self.given.trade_off))
        if self.exact.k == 1:
            return list(self.q)
        labels = sorted(set(self.case.groups)) if self.case.rows is not None else ["0", "1"]
        protected = labels.index(self.given.protected)
        sign = [1 if g == protected else -1 for g in range(2)]
        return [trade_off * q + (1 - trade_off) * s for q, s in zip(self.q, sign, strict=True)]

    @cached_property
    def radii(self) -> list[Any]:
        radius = self.given.radius
        if isinstance(radius, dict):
            return [mpf(float(radius[label])) for label in sorted(radius)]
        return [mpf(float(radius)) / mp.sqrt(_mpf(w)) for w in self.exact.weights]

    @cached_property
    def pairs(self) -> list[list[Any]]:
        """Weights of the groups for each ordered pair of them."""
        if self.exact.k == 1:
            return [list(self.q)]
        found = []
        for a, b in permutations(range(self.exact.k), 2):
            v = list(self.q)
            v[a] += self.penalty
            v[b] -= self.penalty
            found.append(v)
        return found

    def scores(self, errors: list[Any]) -> list[Any]:
        return [
            sum(
                (_worst_case(v, e, r) for v, e, r in zip(pair, errors, self.radii, strict=True)),
                mpf(0),
            )
            for pair in self.pairs
        ]

    def scale(self, errors: list[Any], weights: Any) -> Any:
        if self.is_nash:
            return mpf(1)
        if self.name == "disparity":
            return sum((abs(w) * e for w, e in zip(self.signed, errors, strict=True)), mpf(0))
        return abs(self.value(errors))

    def known_beforehand(self) -> Any:
        """Bounds that hold whatever the weights."""
        if self.is_largest:
            return max(self.parts(self.best))
        if self.name in ("total_error", "error_gap", "equal_error"):
            return self.weigh(self.best)
        if self.name == "robust_error_gap" and self.exact.k == 1:
            return self.value(self.best)
        return None

    def moved(self, errors: list[Any], unsure: list[Any], best_unsure: list[Any]) -> Any:
        """How much the value moves if each error, and each group's own best, may."""
        if self.is_largest:
            return max(self.parts_moved(errors, unsure, best_unsure))
        if self.name == "disparity":
            return sum((abs(w) * u for w, u in zip(self.signed, unsure, strict=True)), mpf(0))
        if self.name == "error_gap":
            return self.weigh(unsure) + 2 * self.penalty * max(unsure)
        if self.name == "robust_error_gap":
            up = [e + u for e, u in zip(errors, unsure, strict=True)]
            down = [max(e - u, mpf(0)) for e, u in zip(errors, unsure, strict=True)]
            roots = [
                u + 2 * mp.sqrt(r) * (mp.sqrt(a) - mp.sqrt(b))
                for u, r, a, b in zip(unsure, self.radii, up, down, strict=True)
            ]
            return sum(roots, mpf(0)) + 2 * self.penalty * max(roots)
        if self.is_nash:
            shares = [
                (u + v + 16 * EPSILON * t) / (t - e) if t > e else mp.inf
                for u, v, t, e in zip(unsure, self.traces_unsure, self.traces, errors, strict=True)
            ]
            return 16 * EPSILON + sum(shares, mpf(0)) / len(shares)
        return self.weigh(unsure)

    def parts_moved(
        self, errors: list[Any], unsure: list[Any], best_unsure: list[Any]
    ) -> list[Any]:
        """How much what is compared may move."""
        of_offsets = {"minimax_loss": best_unsure, "least_variance": self.traces_unsure}
        offsets = of_offsets.get(self.name, [mpf(0)] * len(unsure))
        moved = [(u + o) / t for u, o, t in zip(unsure, offsets, self.divisors, strict=True)]
        if not self.is_relative:
            return moved
        # What it is divided by moves, too.
        shares = [u / t for u, t in zip(self.traces_unsure, self.traces, strict=True)]
        return [
            m + abs(part) * (share + 8 * EPSILON)
            for m, part, share in zip(moved, self.parts(errors), shares, strict=True)
        ]


class Proven:
    """What weights prove of a criterion."""

    def __init__(self, criterion: Criterion, exact: Exact, allowed: Directions, d: int) -> None:
        self.criterion, self.exact, self.allowed, self.d = criterion, exact, allowed, d
        self.leverage = mpf(0)

    def bound(
        self, solution: Any, errors: list[Any], unsure: list[Any], best_unsure: list[Any]
    ) -> tuple[Any, Any]:
        """The bound, and what rounding of the second moments may do to it."""
        criterion = self.criterion
        given = [mpf(float(w)) for w in solution.weights]
        lines = getattr(solution, "supporting_weights", None)
        multiplier = getattr(getattr(solution, "proof", None), "multiplier", None)
        if multiplier is not None:
            return self._with_tolerance(max(mpf(float(multiplier)), mpf(0)))
        if criterion.name == "robust_error_gap" and lines is not None:
            return self._of_polygon(lines)
        weights = self._feasible(given)
        least, moved = self.least(weights)
        if criterion.is_largest:
            offset = _dot(weights, criterion.offsets)
            shares = [w * t for w, t in zip(weights, criterion.divisors, strict=True)]
            none = [mpf(0)] * len(weights)
            wobble = _dot(shares, criterion.parts_moved(criterion.best, none, best_unsure))
            return least - offset, moved + wobble
        if criterion.wants_equal:
            total = sum(weights, mpf(0))
            self.leverage = sum(
                (abs(w / total - q) for w, q in zip(weights, criterion.q, strict=True)), mpf(0)
            )
            # The leverage of two groups is twice the multiplier of their gap.
            return least / total - criterion.allowed * self.leverage / 2, moved / total
        if criterion.is_nash:
            whole = _dot(weights, criterion.traces)
            kept, k = whole - least, len(weights)
            if kept <= 0:
                return -mp.inf, mpf(0)
            logs = sum((mp.log(w) for w in weights), mpf(0)) / k
            moved += _dot(weights, criterion.traces_unsure)
            return mp.log(k) + logs - mp.log(kept), (moved + 16 * EPSILON * whole) / kept
        return least, moved

    def least(self, weights: list[Any]) -> tuple[Any, Any]:
        """The least w.e of any subspace, and how much it moves with the second moments."""
        fixed = sum((w * f for w, f in zip(weights, self.allowed.fixed, strict=True)), mpf(0))
        least, left = smallest_sum(
            _mixture(self.allowed.matrices, weights), self.d, wanted=self._is_unsure
        )
        moved = mpf(0)
        if self._is_unsure:
            turn = self.allowed.basis
            whole = turn * left * turn.T
            moved = sum(
                (
                    abs(w) * _bilinear(whole, each)
                    for w, each in zip(weights, self.allowed.unsure, strict=True)
                ),
                mpf(0),
            )
        return least + fixed, moved

    @property
    def _is_unsure(self) -> bool:
        return self.exact.case.matrices is None

    def _feasible(self, given: list[Any]) -> list[Any]:
        """The nearest weights that prove anything, as one who checks would take them."""
        criterion, k = self.criterion, len(given)
        if criterion.name == "disparity":
            return criterion.signed
        if criterion.name == "total_error" or k == 1:
            return list(criterion.q)
        if criterion.is_largest:
            shares = [max(w, mpf(0)) * t for w, t in zip(given, criterion.divisors, strict=True)]
            total = sum(shares, mpf(0))
            shares = [share / total for share in shares] if total > 0 else [mpf(1) / k] * k
            return [share / t for share, t in zip(shares, criterion.divisors, strict=True)]
        if criterion.wants_equal:
            return given if sum(given, mpf(0)) > 0 else list(criterion.q)
        if criterion.is_nash:
            least = mpf(EPSILON) * max(given)
            return [max(w, least) for w in given]
        apart = [w - q for w, q in zip(given, criterion.q, strict=True)]
        middle = sum(apart, mpf(0)) / k
        apart = [a - middle for a in apart]
        length, most = sum((abs(a) for a in apart), mpf(0)), 2 * criterion.penalty
        if length > most:
            apart = [a * most / length for a in apart]
        return [q + a for q, a in zip(criterion.q, apart, strict=True)]

    def _with_tolerance(self, multiplier: Any) -> tuple[Any, Any]:
        """Mean parity with a tolerance: tr S - t_d(S - mu ff') - mu delta^2, or by the limit alone.

        With f = |f| u, P = I - uu' and s = delta / |f|, no subspace within the limit captures more
        than t_d(PSP) + 2 s |PSu| + s^2 u'Su.
        """
        f, delta = self.allowed.differences[0], mpf(float(self.exact.case.restriction.tolerance))
        pooled = self.exact.mixture(self.criterion.q)
        shifted = pooled - multiplier * (f * f.T)
        least, left = smallest_sum(shifted, self.d, wanted=self._is_unsure)
        bound = least + multiplier * ((f.T * f)[0] - delta**2)
        length = mp.norm(f)
        if not length:
            return bound, mpf(0)
        unit, share = f / length, delta / length
        along = pooled * unit
        kept = (unit.T * along)[0]
        beside = along - kept * unit
        inside = pooled - unit * beside.T - beside * unit.T - kept * (unit * unit.T)
        others, _ = smallest_sum(inside, self.d, wanted=False)
        # The smallest eigenvalues of P S P have its zero among them, along u.
        by_limit = others + kept - 2 * share * mp.norm(beside) - share**2 * kept
        bound = max(bound, by_limit)
        moved = mpf(0)
        if self._is_unsure:
            moved = sum(
                (
                    q * _bilinear(left, each)
                    for q, each in zip(self.criterion.q, self.allowed.unsure, strict=True)
                ),
                mpf(0),
            )
            lost = mp.matrix([16 * EPSILON * x for x in self.exact.largest])
            moved += 4 * multiplier * mp.norm(lost) * (mp.norm(lost) + mp.norm(f))
        return bound, moved

    def _of_polygon(self, lines: Any) -> tuple[Any, Any]:
        """The least score of errors beyond all lines, found by halving the polygon's sides."""
        traces = [2 * t + mpf(10) ** -300 for t in self.criterion.traces]
        corners = [
            (mpf(0), mpf(0)),
            (traces[0], mpf(0)),
            (traces[0], traces[1]),
            (mpf(0), traces[1]),
        ]
        moved = mpf(0)
        for line in lines:
            w = [mpf(float(x)) for x in line]
            height, wobble = self.least(w)
            size = max(abs(x) for x in w)
            moved = max(moved, wobble / size) if size > 0 else moved
            corners = _cut_polygon(corners, w, height)
            if not corners:
                raise Wrong("the supporting lines leave no errors at all")
        unit, nothing = [moved] * 2, [mpf(0)] * 2
        allowance = 4 * max(self.criterion.moved(list(c), unit, nothing) for c in corners)
        return _minimum_on_sides(self.criterion.scores, corners), allowance


def smallest_sum(matrix: Any, d: int, *, wanted: bool = False) -> tuple[Any, Any]:
    """The sum of all but the d largest eigenvalues; if wanted, their vectors' projector."""
    p = matrix.rows
    if d >= p:
        return mpf(0), mp.zeros(p)
    if not wanted:
        values = sorted(mp.eigsy(matrix, eigvals_only=True))
        return sum(values[: p - d], mpf(0)), None
    values, vectors = mp.eigsy(matrix)
    order = sorted(range(p), key=lambda i: values[i])[: p - d]
    projector = mp.zeros(p)
    for i in order:
        projector += vectors[:, i] * vectors[:, i].T
    return sum((values[i] for i in order), mpf(0)), projector


def _errors(case: Case, exact: Exact, allowed: Directions, components: Any) -> tuple[Any, Any]:
    """Error of each group, and the projector on what is lost.

    Of an orthonormal basis the subspace counts: its rows are orthonormal to rounding only, which
    would let a column of 1e9 leak into every error.
    """
    p, lengths = exact.p, [mp.norm(components[i, :]) for i in range(components.rows)]
    if all(abs(length - 1) < mpf("1e-9") for length in lengths):
        if components.rows != case.n_components:
            raise Wrong(f"{components.rows} components in place of {case.n_components}")
        basis = _orthonormal(components)
        left = mp.eye(p) - basis.T * basis
    elif case.allow_extra:
        left = mp.eye(p) - components.T * components
        kept = sum((length**2 * (2 - length**2) for length in lengths), mpf(0))
        if abs(kept - case.n_components) > mpf("1e-8"):
            raise Wrong(f"the soft projection keeps {mp.nstr(kept, 12)} dimensions")
    else:
        raise Wrong("components are not of length one")
    gram = components * components.T
    for i in range(gram.rows):
        for j in range(i):
            if abs(gram[i, j]) > mpf("1e-9"):
                raise Wrong("components are not orthogonal")
    return [_trace(left * each * left) for each in exact.matrices], left


def _storage_errors(exact: Exact, allowed: Directions) -> list[Any]:
    """What error it makes that the components themselves are float64.

    The square of an angle; beside directions that are forbidden, where errors are not least at the
    components, the angle itself.
    """
    angle, found = exact.p * mpf(EPSILON), []
    for whole, inner in zip(exact.matrices, allowed.matrices, strict=True):
        found.append(16 * angle**2 * _trace(whole))
        if allowed.restricted:
            found[-1] += 4 * angle * mp.sqrt(_trace(whole) * _trace(inner))
    return found


def _best_errors(exact: Exact, d: int, criterion: Any) -> tuple[list[Any], list[Any]]:
    unsure = exact.case.matrices is None and criterion.name == "minimax_loss"
    unused = ("nash_welfare", "disparity", "robust_error_gap" if exact.k > 1 else "")
    if criterion.name in unused:
        return [mpf(0)] * exact.k, [mpf(0)] * exact.k
    best, moved = [], []
    for matrix, each in zip(exact.matrices, exact.unsure, strict=True):
        least, left = smallest_sum(matrix, d, wanted=unsure)
        best.append(least)
        moved.append(_bilinear(left, mp.matrix(each)) if unsure and d < exact.p else mpf(0))
    return best, moved


def _check_scale(case: Case, model: Any, exact: Exact) -> None:
    """Scaled rows have variance one, or none."""
    if not case.scale:
        return
    total = sum(exact.weights)
    for j in range(exact.p):
        middle = sum(w * m[j] for w, m in zip(exact.weights, exact.means, strict=True)) / total
        variance = (
            sum(
                w * (c[j][j] + (m[j] - middle) ** 2)
                for w, c, m in zip(exact.weights, exact.covariances, exact.means, strict=True)
            )
            / total
        )
        room = mpf("1e-12") + 8 * (EPSILON * exact.largest[j]) ** 2
        room += 8 * EPSILON * exact.largest[j]
        if variance > 0 and abs(_mpf(variance) - 1) > room:
            raise Wrong(f"scaled column {j} has variance {float(variance)}")


def _check_restriction(case: Case, exact: Exact, allowed: Directions, components: Any) -> None:
    restriction = case.restriction
    if restriction is None:
        return
    largest = mp.norm(mp.matrix(exact.largest))
    for f in allowed.differences:
        reached = mp.norm(components * f)
        room = mpf("1e-12") * mp.norm(f) + 16 * EPSILON * largest
        most = mpf(float(restriction.tolerance or 0)) if restriction.name == "mean_parity" else 0
        if reached > most * (1 + mpf("1e-9")) + room:
            raise Wrong(f"means differ by {mp.nstr(reached, 5)} along the components")
    if allowed.restricted:
        outside = components - components * allowed.basis * allowed.basis.T
        if mp.norm(outside) > mpf("1e-8"):
            raise Wrong(f"components leave the directions by {mp.nstr(mp.norm(outside), 3)}")


def _best_parity(exact: Exact, free: Any, restriction: Any) -> Any:
    """The directions along which two groups' covariances differ least."""
    first, second = (
        mp.matrix([[_mpf(x) for x in row] for row in each]) for each in exact.covariances
    )
    values, vectors = mp.eigsy(free.T * (first - second) * free)
    wanted = restriction.n_directions
    order = sorted(range(len(values)), key=lambda i: abs(values[i]))[:wanted]
    chosen = mp.matrix(free.cols, wanted)
    for at, i in enumerate(order):
        for row in range(free.cols):
            chosen[row, at] = vectors[row, i]
    return free * chosen


def _complement(vectors: list[Any], p: int) -> Any:
    """Orthonormal columns that span what is orthogonal to all vectors."""
    found: list[Any] = []
    for vector in vectors:
        size = mp.norm(vector)
        rest = _project_out(vector / size, found) if size > 0 else vector
        if size > 0 and mp.norm(rest) > mpf("1e-9"):
            found.append(rest / mp.norm(rest))
    rank = len(found)
    axes = [mp.matrix([mpf(int(i == j)) for i in range(p)]) for j in range(p)]
    while len(found) < p:
        rests = [_project_out(axis, found) for axis in axes]
        rest = max(rests, key=mp.norm)
        found.append(rest / mp.norm(rest))
    basis = mp.matrix(p, p - rank)
    for at, vector in enumerate(found[rank:]):
        for i in range(p):
            basis[i, at] = vector[i]
    return basis


def _project_out(vector: Any, others: list[Any]) -> Any:
    for _ in range(2):
        for other in others:
            vector = vector - other * (other.T * vector)[0]
    return vector


def _orthonormal(rows: Any) -> Any:
    found: list[Any] = []
    for i in range(rows.rows):
        vector = _project_out(rows[i, :].T, found)
        found.append(vector / mp.norm(vector))
    return mp.matrix([list(vector) for vector in found])


def _cut_polygon(corners: list[Any], w: list[Any], height: Any) -> list[Any]:
    """What a half-plane w.e >= height leaves of a convex polygon."""
    left = []
    for first, last in zip(corners, corners[1:] + corners[:1], strict=True):
        a = w[0] * first[0] + w[1] * first[1] - height
        b = w[0] * last[0] + w[1] * last[1] - height
        if a >= 0:
            left.append(first)
        if (a > 0 > b) or (a < 0 < b):
            t = a / (a - b)
            left.append(tuple(x + t * (y - x) for x, y in zip(first, last, strict=True)))
    return left


def _minimum_on_sides(scores: Any, corners: list[Any]) -> Any:
    """A lower bound on the largest score along all sides, to twelve digits.

    Each score is concave, so along a part of a side it is nowhere below the lesser of its ends.
    """
    heap: list[Any] = []

    def push(first: Any, last: Any, a: Any, b: Any) -> None:
        below = max(min(x, y) for x, y in zip(a, b, strict=True))
        heappush(heap, (below, len(heap) + _MAX_SPLITS * splits, first, last, a, b))

    least, splits = mp.inf, 0
    for first, last in zip(corners, corners[1:] + corners[:1], strict=True):
        a, b = scores(list(first)), scores(list(last))
        least = min(least, max(a), max(b))
        push(first, last, a, b)
    while least - heap[0][0] > mpf("1e-12") * abs(least) and splits < _MAX_SPLITS:
        splits += 1
        _, _, first, last, a, b = heappop(heap)
        middle = tuple((x + y) / 2 for x, y in zip(first, last, strict=True))
        at = scores(list(middle))
        least = min(least, max(at))
        push(first, middle, a, at)
        push(middle, last, at, b)
    return heap[0][0]


def _worst_case(v: Any, error: Any, radius: Any) -> Any:
    """The extreme of v E over errors E with (sqrt E - sqrt e)^2 <= radius."""
    root, spread = mp.sqrt(max(error, mpf(0))), mp.sqrt(radius)
    return v * (root + spread) ** 2 if v >= 0 else v * max(root - spread, mpf(0)) ** 2


def _mixture(matrices: list[Any], weights: list[Any]) -> Any:
    total = mp.zeros(matrices[0].rows)
    for matrix, weight in zip(matrices, weights, strict=True):
        if weight != 0:
            total += weight * matrix
    return total


def _bilinear(projector: Any, unsure: Any) -> Any:
    """By how much tr(P S) moves if each entry of S may by as much as is unsure."""
    p = projector.rows
    return sum((abs(projector[i, j]) * unsure[i, j] for i in range(p) for j in range(p)), mpf(0))


def _dot(weights: list[Any], numbers: list[Any]) -> Any:
    return sum((w * x for w, x in zip(weights, numbers, strict=True)), mpf(0))


def _trace(matrix: Any) -> Any:
    return sum((matrix[i, i] for i in range(matrix.rows)), mpf(0))


def _fractions(matrix: Any) -> list[list[Fraction]]:
    return [[Fraction(float(x)) for x in row] for row in matrix]


def _second_moment(
    rows: list[list[Fraction]], shares: list[Fraction], point: list[Fraction]
) -> list[list[Fraction]]:
    p, total = len(point), sum(shares)
    apart = [[x - at for x, at in zip(row, point, strict=True)] for row in rows]
    found = [[Fraction(0)] * p for _ in range(p)]
    for i in range(p):
        for j in range(i + 1):
            entry = sum(
                (s * row[i] * row[j] for s, row in zip(shares, apart, strict=True)), Fraction(0)
            )
            found[i][j] = found[j][i] = entry / total
    return found


def _mpf(number: Fraction) -> Any:
    return mpf(number.numerator) / mpf(number.denominator)


def _root(number: Fraction) -> Any:
    return mp.sqrt(_mpf(number))


def _exponent(number: Fraction) -> int:
    return int(0.30103 * (number.numerator.bit_length() - number.denominator.bit_length()))


def _spacing(number: Any) -> Any:
    return mpf(float(np.spacing(abs(float(number)))))
