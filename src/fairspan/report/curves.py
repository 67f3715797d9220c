"""Results of a report by number of dimensions, with the steps of its slider."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from fairspan.auditing.audit_result import Audit
from fairspan.auditing.estimates import GroupEstimates
from fairspan.auditing.intervals import none_if_nan
from fairspan.displays.base_display import INFEASIBLE
from fairspan.moments.base_moments import Center
from fairspan.moments.fold_moments import FoldMoments
from fairspan.moments.group_moments import GroupMoments
from fairspan.pareto import Frontier, frontier_for_display
from fairspan.report.dimensions import (
    DimensionResult,
    pca_estimates_by_dimension,
    solve_by_dimension,
)
from fairspan.report.fitted_criterion import PCA, FittedCriterion
from fairspan.report.slider_data import (
    MAX_COMPONENTS,
    SliderStep,
    align_components,
    dimension_path,
    evenly_spaced,
    frontier_path,
    most_loaded_features,
)
from fairspan.rows.labels import Label
from fairspan.typing import FloatArray, Record

# Maximum number of vertices of the achievable region; more cannot be distinguished in a figure.
_MAX_VERTICES = 120


@dataclass(frozen=True, eq=False)
class ReportCurves:
    """Results by dimension, and the ordered steps of the slider.

    Attributes
    ----------
    groups : sequence of k labels
    dimensions : tuple of DimensionResult
    frontier : Frontier or None
        Frontier of two groups, which the slider follows; None otherwise, and the slider runs over
        dimensions.
    region : (r, 2) array or None
        Vertices of the achievable region.
    steps : tuple of SliderStep
    main_step : int
        Index of the main criterion's step.
    pca_step : int or None
        Index of ordinary PCA's step, if there is one.
    features : tuple of int
        Indices of the features whose loadings are shown.
    """

    groups: Sequence[Label]
    dimensions: tuple[DimensionResult, ...]
    frontier: Frontier | None
    region: FloatArray | None
    steps: tuple[SliderStep, ...]
    main_step: int
    pca_step: int | None
    features: tuple[int, ...]

    @property
    def has_estimates(self) -> bool:
        """Whether several dimensions have estimates for new rows under PCA, which make a curve."""
        return sum(bool(result.pca_estimates) for result in self.dimensions) > 1

    def to_dict(self, name: str, features: Sequence[str]) -> Record:
        """Return JSON-serializable values.

        Parameters
        ----------
        name : str
            Name of the main model.
        features : sequence of p str
            Names of all features.
        """
        frontier = None
        if self.frontier is not None:
            frontier = {
                "observed_errors": self.frontier.errors.tolist(),
                "observed_region": None if self.region is None else self.region.tolist(),
                "max_deviation": self.frontier.max_deviation,
            }
        return {
            "by_dimension": self.to_records(name),
            "frontier": frontier,
            "slider": {
                "main_step": self.main_step,
                "pca_step": self.pca_step,
                "features": [features[i] for i in self.features],
                "steps": [step.to_dict() for step in self.steps],
            },
        }

    def to_records(self, name: str) -> list[dict[str, Any]]:
        """Return one record per model, dimension and group, with the keys of audit records.

        They are ordered by dimension; at each, the records of PCA come first, then those of the
        main model, `name`, unless it is PCA. The status is that of the main model's fit, None for
        PCA.
        """
        records = []
        for result in self.dimensions:
            pca = _DimensionModel(PCA, result.pca_errors, result.pca_losses, result.pca_estimates)
            records += pca.to_records(result, self.groups)
            if name != PCA:
                main = _DimensionModel(
                    name,
                    result.fair_errors,
                    result.fair_losses,
                    result.fair_estimates,
                    INFEASIBLE if result.certificate is None else str(result.certificate.status),
                )
                records += main.to_records(result, self.groups)
        return records


@dataclass(frozen=True, eq=False)
class _DimensionModel:
    """Results of one model with some number of dimensions.

    Attributes
    ----------
    name : str
    errors, losses : (k,) arrays
        Observed on the rows of the report.
    estimates : sequence of k GroupEstimates
        Empty if there are none.
    status : str or None
        Status of the fit; None for PCA.
    """

    name: str
    errors: FloatArray
    losses: FloatArray
    estimates: Sequence[GroupEstimates]
    status: str | None = None

    def to_records(self, result: DimensionResult, groups: Sequence[Label]) -> list[dict[str, Any]]:
        """Return one record per group; `result` has the dimension and the best errors."""
        estimates = self.estimates or [GroupEstimates()] * len(groups)
        return [
            {
                "model": self.name,
                "n_components": result.n_components,
                "group": group,
                "observed_error": none_if_nan(float(self.errors[g])),
                "observed_best_error": float(result.best_errors[g]),
                "observed_loss": none_if_nan(float(self.losses[g])),
                **estimates[g].expected_error.to_record("expected_error"),
                **estimates[g].expected_loss.to_record("expected_loss"),
                "state": estimates[g].state if self.estimates else None,
                "status": self.status,
            }
            for g, group in enumerate(groups)
        ]


def build_curves(
    moments: GroupMoments,
    audit: Audit,
    pca_fit: FittedCriterion,
    main: FittedCriterion,
    folds: FoldMoments | None,
    center: Center,
) -> ReportCurves:
    """Solve for several dimensions and along the frontier, and align the slider's components.

    Parameters
    ----------
    moments : GroupMoments
    audit : Audit
        Audit of the report's models, ordinary PCA first.
    pca_fit, main : FittedCriterion
        Fits of ordinary PCA and the main criterion; the same object if PCA is the main model.
    folds : FoldMoments or None
        Moments by fold of the audit, for estimates under PCA at other dimensions.
    center : {"global", "group", "none"}
        Center about which errors are measured.
    """
    pca = audit.models[0]
    estimates = pca_estimates_by_dimension(pca, audit, folds)
    main_result = next(model for model in audit.models if model.name == main.name)
    dimensions = solve_by_dimension(pca_fit.problem, main, estimates)
    # The audit estimates the main model at the requested dimension only.
    if estimates and main_result.no_estimates_reason is None:
        for i, result in enumerate(dimensions):
            if result.n_components == pca.n_components:
                dimensions[i] = replace(result, fair_estimates=main_result.groups)
    frontier = None
    region = None
    if moments.n_groups == 2:
        frontier = frontier_for_display(moments, pca.n_components, center, scale=pca.is_scaled)
        region = frontier.achievable_region()
        region = region[evenly_spaced(region, _MAX_VERTICES)]
        path = frontier_path(frontier, pca, pca_fit, main)
    else:
        # Only two groups have a frontier along which the slider can move.
        path = dimension_path(dimensions, pca.n_components)
    components = align_components([point.components for point in path.points], path.main_step)
    features = most_loaded_features([aligned[:MAX_COMPONENTS] for aligned in components])
    steps = tuple(
        SliderStep.from_point(point, aligned, main.problem, features)
        for point, aligned in zip(path.points, components, strict=True)
    )
    return ReportCurves(
        groups=moments.labels,
        dimensions=tuple(dimensions),
        frontier=frontier,
        region=region,
        steps=steps,
        main_step=path.main_step,
        pca_step=path.pca_step,
        features=tuple(features),
    )
