"""Figures 2, 5 and 6: ABDiff against ARE at every setting, over the exact frontier of the two."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from fairspan.errors import IncompatibleParameters
from fairspan.estimator.fit import fit_moments
from fairspan.estimator.fit_settings import FitSettings
from fairspan.model.subspace import FairSubspace
from fairspan.moments.group_moments import GroupMoments
from fairspan.problem.criteria.error_gap import ErrorGap
from fairspan.typing import FloatArray
from reproduction.experiment import Cell, Effort, Result, Setting
from reproduction.vu import methods
from reproduction.vu.data_sets import data_set_of
from reproduction.vu.methods import Method
from reproduction.vu.protocol import GroupArray, standardized
from reproduction.vu.scatter import STYLES
from reproduction.vu.threads import on_one_thread

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_DATA_SETS = {"default_credit": "Figure 2", "biodeg": "Figure 5", "german_credit": "Figure 6"}
_N_COMPONENTS = 3
_FRONTIER = "exact frontier"
# Far enough for the curve's end where no subspace has equal errors.
_FIRST_PENALTIES = (0.0, 1.0, 30.0, 1000.0)
# Points are at most this share of the curve's extent apart, in gap and in error.
_STEP = 0.04
_MAX_POINTS = 60
_ONE_PENALTY = 1e-6
_COLUMNS = ("data set", "method", "radius", "penalty", "other", "ABDiff", "ARE", "above frontier")

# Of one subspace: method, setting, ABDiff, ARE.
Point = tuple[str, dict[str, float], float, float]


class Pareto:
    """All points of the trade-off that the methods reach, on all rows."""

    name = "vu-pareto"
    title = "RFPCA and others: gap against error, over the exact frontier"
    source = "Vu, Tran, Yue and Nguyen (2022), Figures 2, 5 and 6"
    files = tuple(_DATA_SETS)

    def run(self, setting: Setting) -> Result:
        """Fit every method at every setting; each data set is one step."""
        names = ["biodeg"] if setting.effort is Effort.QUICK else list(_DATA_SETS)
        points: dict[str, list[Point]] = {}
        for i, name in enumerate(names):
            setting.progress(name, i, len(names))
            step = partial(on_one_thread, _step, name, setting, compared_methods(setting.effort))
            figures = setting.store.get_or_compute(name, step)
            points[name] = [(str(m), dict(s), float(gap), float(e)) for m, s, gap, e in figures]
        rows: list[tuple[Cell, ...]] = []
        for name, of_set in points.items():
            for method, how, gap, error in of_set:
                other = how.get("rate", how.get("tolerance"))
                above = error - least_error(of_set, gap)
                cells = (how.get("radius"), how.get("penalty"), other, gap, error, above)
                rows.append((name, method, *cells))
        notes = (
            "Models are fitted to all rows and evaluated on the same rows, as in the paper; three "
            "components. 'other' is the learning rate of FairPCA and the tolerance of CFPCA. The "
            "paper prints pictures without figures.",
            "The exact frontier is the least error at each gap: the error gap criterion at growing "
            "penalties, each a proven optimum. No subspace lies below it; 'above frontier' is how "
            "much less error the same gap needs.",
        )
        return Result(self.title, _COLUMNS, rows, notes, lambda figure: _draw(figure, points))


def compared_methods(effort: Effort) -> tuple[Method, ...]:
    """Return the methods of the figures with all their settings."""
    quick = effort is Effort.QUICK
    rates = methods.LEARNING_RATES if effort is Effort.FULL else methods.LEARNING_RATES[:4]
    settings = methods.grid(
        (0.15,) if quick else methods.RADII, methods.PENALTIES[::2] if quick else methods.PENALTIES
    )
    papers = methods.papers_rfpca(20 if effort is Effort.FULL else 3, 200 if quick else 1000)
    return (
        Method("RFPCA certified", None, methods.certified_rfpca, settings),
        Method("RFPCA paper's algorithm", None, papers, settings),
        Method(
            "FairPCA",
            None,
            methods.multiplicative_fair_pca,
            tuple({"rate": rate} for rate in (rates[:1] if quick else rates)),
        ),
        Method(
            "CFPCA mean",
            None,
            methods.mean_parity,
            tuple({"tolerance": tolerance} for tolerance in methods.MEAN_TOLERANCES),
        ),
        Method("PCA", None, methods.pca),
    )


def compute_points(
    X: FloatArray, groups: GroupArray, selection: Sequence[Method], seed: int
) -> list[Point]:
    """ABDiff and ARE of every method at every setting, and of the frontier, on all rows.

    Parameters
    ----------
    X : (n, p) array
        Raw rows; all of them standardize.
    groups : (n,) array
    selection : sequence of Method
    seed : int
    """
    rows = standardized(X, np.arange(len(X)))
    moments = GroupMoments.from_rows(rows, groups)
    points: list[Point] = []
    for method in selection:
        for setting in method.settings:
            fit = method.fit(moments, _N_COMPONENTS, setting, seed)
            points.append((method.name, setting, *_gap_and_error(fit, moments)))
    for fit, penalty in _frontier_fits(moments):
        how = {} if penalty is None else {"penalty": penalty}
        points.append((_FRONTIER, how, *_gap_and_error(fit, moments)))
    return points


def compute_frontier(points: Sequence[Point]) -> FloatArray:
    """Gap and error along the exact frontier, the gap rising, shape (m, 2)."""
    curve = sorted((gap, error) for method, _, gap, error in points if method == _FRONTIER)
    return np.array(curve)


def least_error(points: Sequence[Point], gap: float) -> float:
    """Return a lower bound on the error of a subspace with this gap.

    No subspace has a smaller error + penalty * gap than the frontier's point of that penalty; each
    point so bounds the error for every gap, and the largest bound counts.
    """
    return max(
        error + how["penalty"] * (least_gap - gap)
        for method, how, least_gap, error in points
        if method == _FRONTIER and "penalty" in how
    )


def _frontier_fits(moments: GroupMoments) -> list[tuple[FairSubspace, float | None]]:
    """Fit the error gap criterion at penalties that cover the whole curve, and equal errors."""
    fits = {penalty: _fit_at_penalty(moments, penalty) for penalty in _FIRST_PENALTIES}
    while len(fits) < _MAX_POINTS:
        penalties = sorted(fits)
        points = np.array([_gap_and_error(fits[penalty], moments) for penalty in penalties])
        extent = np.ptp(points, axis=0)
        steps = np.abs(np.diff(points, axis=0)) / np.where(extent > 0, extent, 1.0)
        # A jump at one penalty is an edge: the curve is the chord, and there is nothing to split.
        splits = np.diff(penalties) > _ONE_PENALTY * np.array(penalties[1:])
        lengths = np.where(splits, steps.max(axis=1), 0.0)
        widest = int(lengths.argmax())
        if lengths[widest] < _STEP:
            break
        middle = (penalties[widest] + penalties[widest + 1]) / 2
        fits[middle] = _fit_at_penalty(moments, middle)
    curve: list[tuple[FairSubspace, float | None]] = [
        (fits[penalty], penalty) for penalty in sorted(fits)
    ]
    try:
        equal = fit_moments(
            moments, FitSettings.parse(_N_COMPONENTS, "equal_error", center="none")
        ).subspace
    except IncompatibleParameters:
        return curve
    return [*curve, (equal, None)]


def _fit_at_penalty(moments: GroupMoments, penalty: float) -> FairSubspace:
    return fit_moments(
        moments, FitSettings.parse(_N_COMPONENTS, ErrorGap(penalty), center="none")
    ).subspace


def _gap_and_error(fit: FairSubspace, moments: GroupMoments) -> tuple[float, float]:
    basis = fit.components.T
    second = moments.second_moments("none")
    captured = np.einsum("pd,gpq,qd->g", basis, second, basis)
    errors = np.einsum("gpp->g", second) - captured
    return float(abs(errors[0] - errors[1])), float(moments.proportions @ errors)


def _step(name: str, setting: Setting, selection: Sequence[Method]) -> list[Point]:
    X, groups = data_set_of(name).load(setting.data)
    return compute_points(X, groups, selection, setting.seed)


def _draw(figure: "Figure", points: dict[str, list[Point]]) -> None:
    figure.set_size_inches(max(4.8 * len(points), 6.4), 5.0)
    panels = figure.subplots(1, len(points), squeeze=False)[0]
    for axes, (name, of_set) in zip(panels, points.items(), strict=True):
        curve = compute_frontier(of_set)
        axes.plot(*curve.T, color="0.35", linewidth=1.6, label=_FRONTIER)
        for method, (color, marker) in STYLES.items():
            positions = [(gap, error) for name, _, gap, error in of_set if name == method]
            if positions:
                x, y = zip(*positions, strict=True)
                open_marker = method == "RFPCA paper's algorithm"
                face = "none" if open_marker else color
                size = 60 if open_marker else 26
                axes.scatter(
                    x, y, s=size, marker=marker, facecolor=face, edgecolor=color, label=method
                )
        axes.set(title=f"{name}, {_DATA_SETS[name]}", xlabel="ABDiff", ylabel="ARE")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)


PARETO = Pareto()
