"""Records of a fitted estimator and of ordinary PCA for displays.

They have the keys of :meth:`fairspan.Audit.to_records`, one record per model, dimension and group:
`observed_*` on the given rows, `expected_*` on new rows.
"""

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from fairspan.auditing.dimensions_to_audit import dimension_name
from fairspan.auditing.estimation_options import DEFAULT_OPTIONS
from fairspan.auditing.group_names import format_group
from fairspan.auditing.models import (
    CURVE_TOL,
    AuditedModel,
    known_labels_of,
    model_name,
    ordinary_pca,
    read_model,
)
from fairspan.auditing.results import ModelResult
from fairspan.auditing.stages import audit_rows
from fairspan.displays.base_display import INFEASIBLE
from fairspan.errors import (
    FairspanWarning,
    IncompatibleParameters,
    InvalidInput,
    InvalidParameter,
    InvalidType,
    describe_type,
)
from fairspan.formatting.units import Unit
from fairspan.linalg.rounding import zero_negligible
from fairspan.metrics import group_errors
from fairspan.model.subspace import FairSubspace
from fairspan.moments.compute import Moments, compute_moments
from fairspan.parameters import init_parameters
from fairspan.problem.criteria.criterion import Criterion
from fairspan.problem.criteria.criterion_catalog import get_criterion
from fairspan.problem.restrictions.restriction_catalog import get_restriction
from fairspan.rows.aggregation import Rows
from fairspan.rows.group_limit import GroupLimit
from fairspan.rows.labels import Label
from fairspan.rows.opening import is_row_source, match_groups, open_group_rows
from fairspan.rows.row_validation import check_n_columns
from fairspan.typing import FloatArray

if TYPE_CHECKING:
    from fairspan.estimator.fair_pca import FairPCA

# Values of one model and group by name, as in Audit.to_records().
Record = Mapping[str, Any]
Quantity = Literal["loss", "error"]
# Names of the models other than the criterion's.
PCA_NAME = "PCA"
BEST_NAME = "best possible"


def values_of(records: Iterable[Record], name: str) -> FloatArray:
    """Return one value of every record; NaN if it is missing."""
    return np.array([record.get(name) for record in records], dtype=np.float64)


def plotted_values(records: Sequence[Record], name: str, unit: Unit) -> FloatArray:
    """Return one value of every record in the unit of a plot.

    As shares, errors and losses are divided by the variance of the group, `observed_total_variance`
    of the record; they are NaN for a group without variance. Shares of variance kept stay.
    """
    values = values_of(records, name)
    if unit == "squared" or name.startswith("observed_variance_kept"):
        return values
    variances = values_of(records, "observed_total_variance")
    return values / np.where(variances > 0, variances, np.nan)


def materiality_by_group(records: Sequence[Record], materiality: float, unit: Unit) -> FloatArray:
    """Return the materiality threshold of the group of every record, in the unit of a plot."""
    if unit == "share":
        return np.full(len(records), materiality)
    return materiality * values_of(records, "observed_total_variance")


def distinct_names(records: Iterable[Record], name: str) -> tuple[str, ...]:
    """Return the distinct display names of groups or models, in order."""
    return tuple(dict.fromkeys(format_group(record[name]) for record in records))


def to_columns(records: Sequence[Record], *names: str) -> dict[str, list[Any]]:
    """Return some entries of the records as columns, omitting columns without any value."""
    columns = {}
    for name in names:
        values = [record.get(name) for record in records]
        if any(value is not None for value in values):
            columns[name] = values
    return columns


def fitted_moments(estimator: "FairPCA", purpose: str) -> Moments:
    """Return the group moments of a fitted FairPCA; `purpose` names the caller in errors.

    Raises
    ------
    InvalidType
        The object is not a FairPCA, or not fitted.
    """
    from fairspan.estimator.fair_pca import FairPCA

    allowed = "Allowed: a fitted FairPCA, which holds the moments of its training rows"
    if not isinstance(estimator, FairPCA):
        raise InvalidType(
            f"The estimator for {purpose} is {describe_type(estimator)}",
            allowed,
            "Fit a FairPCA first",
        )
    moments = getattr(estimator, "moments_", None)
    if not isinstance(moments, Moments):
        raise InvalidType(
            f"The estimator for {purpose} is a FairPCA that is not fitted",
            allowed,
            "Call its fit method first",
        )
    return moments


def open_display_rows(
    estimator: "FairPCA", X: object, sensitive_features: object, purpose: str
) -> Rows | None:
    """Open rows with groups, restricted to the estimator's features; None if none were given.

    A row source holds its groups, so it needs no `sensitive_features`. Labels that equal those of
    the fit as text are replaced by these; whether all groups are known is checked later, when the
    rows are read. `purpose` names the caller in errors.

    Raises
    ------
    InvalidInput
        Rows without groups, groups without rows, or rows with other features.
    """
    if X is None and sensitive_features is None:
        return None
    if X is None or (sensitive_features is None and not is_row_source(X)):
        received = "X without sensitive_features"
        if X is None:
            received = "sensitive_features without X"
        raise InvalidInput(
            f"{purpose} received {received}",
            "Allowed: both rows and groups",
            "Pass both X and sensitive_features",
        )
    rows = open_group_rows(X, sensitive_features)
    subspace = estimator.subspace_
    if subspace.feature_names is not None:
        rows = rows.select_features(subspace.feature_names)
    check_n_columns(rows.n_features, subspace.n_features, "features")
    return match_groups(rows, known_labels_of(estimator))


def known_group_moments(estimator: "FairPCA", rows: Rows) -> Moments:
    """Compute the moments of rows, and check that their groups are those of the fit.

    The labels are only known after the rows have been read.

    Raises
    ------
    UnknownGroup
        A group that the estimator was not fitted on.
    """
    model = read_model(objective_name(estimator), estimator)
    # Allow as many groups as the fit had, even if they are more than usual.
    limit = GroupLimit(n_fitted_groups=len(model.training_groups))
    moments = compute_moments(rows, limit)
    model.check_groups(moments.labels)
    return moments


def objective_name(estimator: "FairPCA") -> str:
    """Name of the criterion, including the restriction if there is one, as in audits."""
    return model_name(estimator.solution_)


def refit(estimator: "FairPCA", **settings: Any) -> Any:
    """Refit a copy with other settings on the same moments; None if the problem is infeasible.

    Warnings are suppressed, since the original fit already issued them.

    Raises
    ------
    InvalidParameter
        The estimator's settings were changed after the fit.
    """
    _check_settings_of_fit(estimator)
    from sklearn.base import clone  # slow import

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FairspanWarning)
        try:
            return clone(estimator).set_params(**settings).fit_moments(estimator.moments_)
        except IncompatibleParameters:
            return None


def _check_settings_of_fit(estimator: "FairPCA") -> None:
    """Check that the settings of an estimator are those of its fit.

    Results of refits would otherwise be attributed to the wrong settings.

    Raises
    ------
    InvalidParameter
    """
    subspace = estimator.subspace_
    certificate = subspace.require_certificate()
    current = (estimator.center, bool(estimator.scale), get_restriction(estimator.restriction))
    at_fit = (subspace.center, subspace.is_scaled, certificate.restriction)
    if current == at_fit and _is_criterion_of_fit(estimator.criterion, certificate.criterion):
        return
    raise InvalidParameter(
        "The settings of the estimator were changed after it was fitted",
        f"It was fitted with criterion {certificate.criterion!r}, restriction "
        f"{certificate.restriction!r}, center {subspace.center!r} and scale "
        f"{subspace.is_scaled}",
        "Refit it",
    )


def _is_criterion_of_fit(current: object, at_fit: Criterion) -> bool:
    """Return whether a criterion, an object or a name, is the one of a fit.

    Parameters that are None were chosen by the fit, such as the protected group.
    """
    criterion = get_criterion(current)
    if criterion.name != at_fit.name:
        return False
    fitted_parameters = init_parameters(at_fit)
    return all(
        value is None or bool(np.all(value == fitted_parameters[name]))
        for name, value in init_parameters(criterion).items()
    )


def fit_status(fit: "FairPCA | None") -> str:
    """Status of a fit; "infeasible" if there is none."""
    if fit is None:
        return INFEASIBLE
    return str(fit.solution_.status)


def fitted_pca(estimator: "FairPCA", n_components: int | None = None) -> FairSubspace:
    """Ordinary PCA of the estimator's training rows, evaluated about the same center.

    It has the estimator's dimension unless `n_components` is given. Warnings are suppressed, since
    the estimator's fit already issued them.
    """
    subspace = estimator.subspace_
    d = n_components
    if d is None:
        d = subspace.dimension
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FairspanWarning)
        return ordinary_pca(estimator.moments_, d, subspace.center, scale=subspace.is_scaled)


def observed_records(
    estimator: "FairPCA", fits: Mapping[int, "FairPCA"], moments: Moments
) -> list[Record]:
    """Return the observed records of ordinary PCA and of the fits.

    Parameters
    ----------
    estimator : FairPCA
        Fitted estimator, whose training rows determine PCA.
    fits : mapping of int to FairPCA or None
        Fit of the criterion by number of dimensions; None if infeasible, whose records have no
        values.
    moments : Moments
        Moments of the rows on which the models are evaluated.

    Returns
    -------
    list of records
        One per model, dimension and group, with the observed error, loss and variance. First those
        of PCA, then those of the criterion; each by dimension, then by group.
    """
    records: list[Record] = []
    for d in fits:
        figures = _observed_figures(fitted_pca(estimator, d), moments)
        records += _group_records(PCA_NAME, d, None, moments.labels, figures)
    name = objective_name(estimator)
    for d, fit in fits.items():
        figures = {} if fit is None else _observed_figures(fit.subspace_, moments)
        records += _group_records(name, d, fit_status(fit), moments.labels, figures)
    return records


def _observed_figures(subspace: FairSubspace, moments: Moments) -> dict[str, FloatArray]:
    """Return observed values of all groups by name, each of shape (k,).

    Errors and variances within their rounding error bounds are zero.
    """
    errors = group_errors(subspace, moments)
    squared_figures = {
        "observed_total_variance": errors.variances,
        "observed_error": errors.errors,
        "observed_best_error": errors.best_errors,
        "observed_loss": errors.excess_losses,
    }
    figures = {
        name: zero_negligible(values, errors.roundings) for name, values in squared_figures.items()
    }
    figures["observed_variance_kept"] = errors.variance_kept_ratios
    return figures


def _group_records(
    model: str,
    d: int,
    status: str | None,
    labels: Sequence[Label],
    figures: Mapping[str, FloatArray],
) -> list[Record]:
    """Return one record per group with the figures, (k,) arrays by name, of a model."""
    return [
        {
            "model": model,
            "n_components": d,
            "group": label,
            **{name: float(values[g]) for name, values in figures.items()},
            "status": status,
        }
        for g, label in enumerate(labels)
    ]


@dataclass(frozen=True, eq=False)
class ExpectedRecords:
    """Records of an audit of PCA and a criterion with several numbers of dimensions.

    Attributes
    ----------
    records : list of records
        Those of PCA first, each by dimension, then by group; those of an infeasible fit have no
        values.
    no_estimates_reason : str
        Why there are no estimates for new rows; empty if there are.
    """

    records: list[Record]
    no_estimates_reason: str


def expected_records(
    estimator: "FairPCA", fits: Mapping[int, "FairPCA | None"], rows: Rows
) -> ExpectedRecords:
    """Audit ordinary PCA and the fits on rows, in one audit.

    The audit refits them without each fold to estimate their errors on new rows: the estimator to
    its own tolerance, and the other fits to the looser one of curves.

    Parameters
    ----------
    estimator : FairPCA
        Fitted estimator, one of the fits.
    fits : mapping of int to FairPCA or None
        Fit of the criterion by number of dimensions; None if infeasible.
    rows : Rows
    """
    # Drawn only: no dimension is selected by these intervals, and each would widen all others.
    options = replace(DEFAULT_OPTIONS, is_pointwise=True)
    audit = audit_rows(_models_of_curves(estimator, fits), rows, options=options)
    results = {result.name: result for result in audit.models}
    first = next(iter(results.values()))  # of PCA, which is never infeasible
    records: list[Record] = []
    for model in (PCA_NAME, objective_name(estimator)):
        for d, fit in fits.items():
            status = None if model == PCA_NAME else fit_status(fit)
            model_entries = {"model": model, "n_components": d, "status": status}
            result = results.get(dimension_name(model, d))
            if result is None:  # infeasible: keep one record per group, without values
                group_records = [{"group": record["group"]} for record in first.records]
            else:
                group_records = [dict(record) for record in records_without_rounding(result)]
            records += [{**record, **model_entries} for record in group_records]
    reason = ""
    if not first.has_estimates:
        reason = first.no_estimates_reason or "every group has too few rows"
    return ExpectedRecords(records, reason)


def _models_of_curves(
    estimator: "FairPCA", fits: Mapping[int, "FairPCA | None"]
) -> list[AuditedModel]:
    """Return ordinary PCA with each number of dimensions, then the fits, with PCA as baseline.

    Infeasible fits are left out. For the parameters, see :func:`expected_records`.
    """
    models = [
        replace(read_model(dimension_name(PCA_NAME, d), fitted_pca(estimator, d)), is_pca=True)
        for d in fits
    ]
    name = objective_name(estimator)
    for d, fit in fits.items():
        if fit is None:
            continue
        # Used if it is larger than the tolerance of the fit.
        refit_tol = 0.0 if fit is estimator else CURVE_TOL
        baseline = dimension_name(PCA_NAME, d)
        model = read_model(dimension_name(name, d), fit)
        models.append(replace(model, baseline=baseline, refit_tol=refit_tol))
    return models


def records_without_rounding(model: ModelResult) -> list[Record]:
    """Return the records of an audited model, with zero for negligible observed values.

    An observed error or loss is negligible if it is within the rounding error bound of its group.
    """
    return [
        {
            **record,
            **group.observed_error.without_rounding(group.observed_rounding).to_record(
                "observed_error"
            ),
            "observed_loss": float(zero_negligible(group.observed_loss, group.observed_rounding)),
        }
        for record, group in zip(model.records, model.groups, strict=True)
    ]


def best_records(records: Iterable[Record], quantity: str, best: Iterable[float]) -> list[Record]:
    """Return the groups' best possible values as the records of an additional model.

    Parameters
    ----------
    records : iterable of mappings
        Records of any one model, which give the dimension, group and variance of each value.
    quantity : str
        Name of the values in the new records.
    best : iterable of float
        Value of each record: that of the group's own best subspace.
    """
    return [
        {
            "model": BEST_NAME,
            "n_components": record["n_components"],
            "group": record["group"],
            "observed_total_variance": record["observed_total_variance"],
            quantity: value,
        }
        for record, value in zip(records, best, strict=True)
    ]
