"""The records of a fitted estimator and of ordinary PCA that displays draw.

They have the names of :meth:`fairspan.Audit.to_records`, one record a model, dimension and group:
figures that end in `_here` are those of the rows that are judged, `expected_` those of new rows.
"""

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from fairspan.auditing.audit import audit_rows
from fairspan.auditing.models import (
    CURVE_TOL,
    dimension_name,
    known_labels_of,
    ordinary_pca,
    read_model,
)
from fairspan.auditing.results import ModelResult, format_group
from fairspan.displays.base import INFEASIBLE
from fairspan.errors import (
    FairspanWarning,
    IncompatibleParameters,
    InvalidInput,
    InvalidParameter,
    InvalidType,
    describe_type,
)
from fairspan.metrics import group_errors
from fairspan.model.subspace import FairSubspace
from fairspan.moments.of_rows import Moments, compute_moments
from fairspan.problem.reduction import get_criterion
from fairspan.rows.opening import is_row_source, match_groups, open_group_rows
from fairspan.rows.protocol import GroupLimit, Rows
from fairspan.rows.validation import check_n_columns
from fairspan.typing import FloatArray

# A figure of a model and a group by its name, as in Audit.to_records().
Record = Mapping[str, Any]
Quantity = Literal["loss", "error"]
# The models beside the criterion's.
PCA_NAME, BEST_NAME = "PCA", "best possible"


def values_of(records: Iterable[Record], name: str) -> FloatArray:
    """One figure of every record; NaN where there is none."""
    return np.array([record.get(name) for record in records], dtype=np.float64)


def distinct_names(records: Iterable[Record], name: str) -> tuple[str, ...]:
    """The different groups or models of records, in their order, as tables spell them."""
    return tuple(dict.fromkeys(format_group(record[name]) for record in records))


def to_columns(records: Sequence[Record], *names: str) -> dict[str, list[Any]]:
    """Some figures of every record as columns of a table, those of which none is known left out."""
    every = {name: [record.get(name) for record in records] for name in names}
    return {name: each for name, each in every.items() if any(one is not None for one in each)}


def fitted_moments(estimator: Any, purpose: str) -> Any:
    """The group moments that a fitted FairPCA holds.

    Raises
    ------
    InvalidType
        Something else, or a FairPCA that is not fitted.
    """
    from fairspan.estimator.fair_pca import FairPCA  # takes its time

    is_fair_pca = isinstance(estimator, FairPCA)
    if is_fair_pca and isinstance(moments := getattr(estimator, "moments_", None), Moments):
        return moments
    raise InvalidType(
        f"{purpose} received a FairPCA that has not been fitted"
        if is_fair_pca
        else f"{purpose} received {describe_type(estimator)}",
        "Allowed: a fitted FairPCA, which holds the moments of its rows",
        "Call its fit first" if is_fair_pca else "Fit one first",
    )


def open_display_rows(estimator: Any, X: Any, sensitive_features: Any, purpose: str) -> Rows | None:
    """Rows with their groups, of the features that the estimator was fitted on; None for none.

    Raises
    ------
    InvalidInput
        Rows without groups, groups without rows, or rows of other features.
    """
    if X is None and sensitive_features is None:
        return None
    if X is None or (sensitive_features is None and not is_row_source(X)):
        given = "sensitive_features without X" if X is None else "X without sensitive_features"
        raise InvalidInput(
            f"{purpose} received {given}",
            "Allowed: rows with the group of each",
            "Pass both X and sensitive_features",
        )
    rows, subspace = open_group_rows(X, sensitive_features), estimator.subspace_
    if subspace.feature_names is not None:
        rows = rows.select_features(subspace.feature_names)
    check_n_columns(rows.n_features, subspace.n_features, "features")
    return match_groups(rows, known_labels_of(estimator))


def known_group_moments(estimator: Any, rows: Rows) -> Moments:
    """Moments of rows whose groups the estimator knows.

    Raises
    ------
    UnknownGroup
        A group that the estimator was not fitted on.
    """
    model = read_model(objective_name(estimator), estimator)
    moments = compute_moments(rows, GroupLimit(n_fitted_groups=len(model.training_groups)))
    model.check_groups(moments.labels)
    return moments


def objective_name(estimator: Any) -> str:
    """The criterion that was minimised, and the restriction if there was one."""
    return str(estimator.solution_.problem_text)


def refit(estimator: Any, **settings: Any) -> Any:
    """A copy with other settings, fitted on the same moments; None where none has an answer.

    Whatever there is to warn of was said when the estimator was fitted.

    Raises
    ------
    InvalidParameter
        The estimator's own settings are not those of its fit any more.
    """
    subspace = estimator.subspace_
    current = (get_criterion(estimator.criterion).name, estimator.center, bool(estimator.scale))
    at_fit = (
        subspace.require_certificate().criterion.name,
        subspace.center,
        subspace.scale is not None,
    )
    if current != at_fit:  # answers of other settings would stand under the name of these
        raise InvalidParameter(
            "The settings of the estimator were changed after it was fitted",
            f"It was fitted with criterion {at_fit[0]!r}, center {at_fit[1]!r} and scale {at_fit[2]}",
            "Fit it again",
        )
    from sklearn.base import clone  # takes its time

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FairspanWarning)
        try:
            return clone(estimator).set_params(**settings).fit_moments(estimator.moments_)
        except IncompatibleParameters:
            return None


def fit_status(fit: Any) -> str:
    """The status of a fit, or a text if there is none."""
    return INFEASIBLE if fit is None else str(fit.solution_.status)


def fitted_pca(estimator: Any, n_components: int | None = None) -> FairSubspace:
    """Ordinary PCA of the rows that an estimator was fitted on, judged about the same centre."""
    subspace = estimator.subspace_
    d = subspace.dimension if n_components is None else n_components
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FairspanWarning)
        return ordinary_pca(
            estimator.moments_, d, subspace.center, scale=subspace.scale is not None
        )


def observed_records(estimator: Any, fits: Mapping[int, Any], moments: Moments) -> list[Record]:
    """What moments say of ordinary PCA and of fits at their dimensions; None: no answer."""
    records: list[Record] = []
    plain = {d: fitted_pca(estimator, d) for d in fits}
    fair = {d: None if fit is None else fit.subspace_ for d, fit in fits.items()}
    for model, subspaces in ((PCA_NAME, plain), (objective_name(estimator), fair)):
        for d, subspace in subspaces.items():
            figures = {}
            if subspace is not None:
                found = group_errors(subspace, moments)
                squared_figures = {
                    "observed_total_variance": found.variances,
                    "observed_error": found.errors,
                    "observed_best_error": found.best_errors,
                    "observed_loss": found.excess_losses,
                }
                figures = {
                    name: zero_negligible(each, found.roundings)
                    for name, each in squared_figures.items()
                }
                figures["observed_variance_kept"] = found.variance_kept_ratios
            records += [
                {
                    "model": model,
                    "n_components": d,
                    "group": label,
                    **{name: float(each[g]) for name, each in figures.items()},
                    "status": None if model == PCA_NAME else fit_status(fits[d]),
                }
                for g, label in enumerate(moments.labels)
            ]
    return records


def expected_records(
    estimator: Any, fits: Mapping[int, Any], rows: Rows
) -> tuple[list[Record], str]:
    """What an audit of rows says of ordinary PCA and of fits, all of them in the same passes.

    Returns
    -------
    list of records, str
        The text says why nothing is estimated for new rows, where that is so.
    """
    name = objective_name(estimator)
    models = [
        replace(read_model(dimension_name(PCA_NAME, d), fitted_pca(estimator, d)), is_pca=True)
        for d in fits
    ] + [
        replace(
            read_model(dimension_name(name, d), fit),
            baseline=dimension_name(PCA_NAME, d),
            refit_tol=0.0 if fit is estimator else CURVE_TOL,
        )
        for d, fit in fits.items()
        if fit is not None
    ]
    audited = {model.name: model for model in audit_rows(models, rows).models}
    first, records = next(iter(audited.values())), list[Record]()
    for model in (PCA_NAME, name):
        for d, fit in fits.items():
            status = None if model == PCA_NAME else fit_status(fit)
            model_entries = {"model": model, "n_components": d, "status": status}
            if (found := audited.get(dimension_name(model, d))) is None:
                records += [{"group": record["group"], **model_entries} for record in first.records]
            else:
                records += [
                    {**record, **model_entries} for record in records_without_rounding(found)
                ]
    why = (
        ""
        if first.has_estimates
        else first.no_estimates_reason or "every group has too few of them"
    )
    return records, why


def records_without_rounding(model: ModelResult) -> list[Record]:
    """The records of an audited model, with zero for what is only rounding."""
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


def zero_negligible(values: Any, rounding_bound: Any) -> FloatArray:
    """Values in squared units, with zero for what is only rounding."""
    return np.where(np.abs(values) <= rounding_bound, 0.0, values)


def best_records(records: Iterable[Record], quantity: str, best: Iterable[float]) -> list[Record]:
    """What no subspace can better, of each group alone, as one more model of some records."""
    return [
        {
            "model": BEST_NAME,
            "n_components": record["n_components"],
            "group": record["group"],
            quantity: each,
        }
        for record, each in zip(records, best, strict=True)
    ]
