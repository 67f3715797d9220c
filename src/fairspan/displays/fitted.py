"""The records of a fitted estimator and of ordinary PCA that displays draw.

They have the names of :meth:`fairspan.Audit.records`, one record a model, dimension and group:
figures that end in `_here` are those of the rows that are judged, `expected_` those of new rows.
"""

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from fairspan.auditing.audit import audit_rows
from fairspan.auditing.models import (
    TOLERANCE_OF_CURVES,
    known_labels_of,
    name_at,
    plain_pca,
    read_model,
)
from fairspan.auditing.results import ModelResult, group_name
from fairspan.displays.base import NO_ANSWER
from fairspan.errors import (
    FairspanWarning,
    Incompatible,
    InvalidInput,
    InvalidParameter,
    InvalidType,
    kind_of,
)
from fairspan.metrics import group_figures
from fairspan.model.subspace import FairSubspace
from fairspan.moments.of_rows import Moments, moments_of
from fairspan.problem.reduction import criterion_of
from fairspan.rows.checks import check_width
from fairspan.rows.protocol import GroupLimit, Rows
from fairspan.rows.registry import is_opened, match_groups, rows_of
from fairspan.typing import FloatArray

# A figure of a model and a group by its name, as in Audit.records().
Record = Mapping[str, Any]
Quantity = Literal["loss", "error"]
# The models beside the criterion's.
PLAIN_NAME, BEST_NAME = "PCA", "best possible"


def column(records: Iterable[Record], name: str) -> FloatArray:
    """One figure of every record; NaN where there is none."""
    return np.array([record.get(name) for record in records], dtype=np.float64)


def names_in(records: Iterable[Record], name: str) -> tuple[str, ...]:
    """The different groups or models of records, in their order, as tables spell them."""
    return tuple(dict.fromkeys(group_name(record[name]) for record in records))


def columns_of(records: Sequence[Record], *names: str) -> dict[str, list[Any]]:
    """Some figures of every record as columns of a table, those of which none is known left out."""
    every = {name: [record.get(name) for record in records] for name in names}
    return {name: each for name, each in every.items() if any(one is not None for one in each)}


def moments_of_fit(estimator: Any, purpose: str) -> Any:
    """The group moments that a fitted FairPCA holds.

    Raises
    ------
    InvalidType
        Something else, or a FairPCA that is not fitted.
    """
    from fairspan.estimator.fair_pca import FairPCA  # takes its time

    unfitted = isinstance(estimator, FairPCA)
    if unfitted and isinstance(moments := getattr(estimator, "moments_", None), Moments):
        return moments
    raise InvalidType(
        f"{purpose} received a FairPCA that has not been fitted"
        if unfitted
        else f"{purpose} received {kind_of(estimator)}",
        "Allowed: a fitted FairPCA, which holds the moments of its rows",
        "Call its fit first" if unfitted else "Fit one first",
    )


def rows_for(estimator: Any, X: Any, sensitive_features: Any, purpose: str) -> Rows | None:
    """Rows with their groups, of the features that the estimator was fitted on; None for none.

    Raises
    ------
    InvalidInput
        Rows without groups, groups without rows, or rows of other features.
    """
    if X is None and sensitive_features is None:
        return None
    if X is None or (sensitive_features is None and not is_opened(X)):
        given = "sensitive_features without X" if X is None else "X without sensitive_features"
        raise InvalidInput(
            f"{purpose} received {given}",
            "Allowed: rows with the group of each",
            "Pass both X and sensitive_features",
        )
    rows, subspace = rows_of(X, sensitive_features), estimator.subspace_
    if subspace.feature_names is not None:
        rows = rows.selected(subspace.feature_names)
    check_width(rows.n_features, subspace.n_features, "features")
    return match_groups(rows, known_labels_of(estimator))


def moments_for(estimator: Any, rows: Rows) -> Moments:
    """Moments of rows whose groups the estimator knows.

    Raises
    ------
    UnknownGroup
        A group that the estimator was not fitted on.
    """
    model = read_model(criterion_name(estimator), estimator)
    moments = moments_of(rows, GroupLimit(n_known=len(model.known_groups)))
    model.check_groups(moments.labels)
    return moments


def criterion_name(estimator: Any) -> str:
    """The criterion that was minimised, and the restriction if there was one."""
    return str(estimator.solution_.minimised)


def refitted(estimator: Any, **settings: Any) -> Any:
    """A copy with other settings, fitted on the same moments; None where none has an answer.

    Whatever there is to warn of was said when the estimator was fitted.

    Raises
    ------
    InvalidParameter
        The estimator's own settings are not those of its fit any more.
    """
    subspace = estimator.subspace_
    now = (criterion_of(estimator.criterion).name, estimator.center, bool(estimator.scale))
    then = (subspace.proven.criterion.name, subspace.center, subspace.scale is not None)
    if now != then:  # answers of other settings would stand under the name of these
        raise InvalidParameter(
            "The settings of the estimator were changed after it was fitted",
            f"It was fitted with criterion {then[0]!r}, center {then[1]!r} and scale {then[2]}",
            "Fit it again",
        )
    from sklearn.base import clone  # takes its time

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FairspanWarning)
        try:
            return clone(estimator).set_params(**settings).fit_moments(estimator.moments_)
        except Incompatible:
            return None


def status_of(fit: Any) -> str:
    """The status of a fit, or a text if there is none."""
    return NO_ANSWER if fit is None else str(fit.solution_.status)


def plain_of_fit(estimator: Any, n_components: int | None = None) -> FairSubspace:
    """Ordinary PCA of the rows that an estimator was fitted on, judged about the same centre."""
    subspace = estimator.subspace_
    d = subspace.dimension if n_components is None else n_components
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FairspanWarning)
        return plain_pca(estimator.moments_, d, subspace.center, scale=subspace.scale is not None)


def records_here(estimator: Any, fits: Mapping[int, Any], moments: Moments) -> list[Record]:
    """What moments say of ordinary PCA and of fits at their dimensions; None: no answer."""
    records: list[Record] = []
    plain = {d: plain_of_fit(estimator, d) for d in fits}
    fair = {d: None if fit is None else fit.subspace_ for d, fit in fits.items()}
    for model, subspaces in ((PLAIN_NAME, plain), (criterion_name(estimator), fair)):
        for d, subspace in subspaces.items():
            figures = {}
            if subspace is not None:
                found = group_figures(subspace, moments)
                squares = {
                    "total_variance_here": found.total_variances,
                    "error_here": found.errors,
                    "best_error_here": found.best_errors,
                    "loss_here": found.excess_losses,
                }
                figures = {
                    name: without_rounding(each, found.roundings) for name, each in squares.items()
                }
                figures["kept_here"] = found.captured_ratios
            records += [
                {
                    "model": model,
                    "n_components": d,
                    "group": label,
                    **{name: float(each[g]) for name, each in figures.items()},
                    "status": None if model == PLAIN_NAME else status_of(fits[d]),
                }
                for g, label in enumerate(moments.labels)
            ]
    return records


def records_on_new_rows(
    estimator: Any, fits: Mapping[int, Any], rows: Rows
) -> tuple[list[Record], str]:
    """What an audit of rows says of ordinary PCA and of fits, all of them in the same passes.

    Returns
    -------
    list of records, str
        The text says why nothing is estimated for new rows, where that is so.
    """
    name = criterion_name(estimator)
    models = [
        replace(read_model(name_at(PLAIN_NAME, d), plain_of_fit(estimator, d)), is_plain_pca=True)
        for d in fits
    ] + [
        replace(
            read_model(name_at(name, d), fit),
            baseline=name_at(PLAIN_NAME, d),
            refit_tol=0.0 if fit is estimator else TOLERANCE_OF_CURVES,
        )
        for d, fit in fits.items()
        if fit is not None
    ]
    audited = {model.name: model for model in audit_rows(models, rows).models}
    first, records = next(iter(audited.values())), list[Record]()
    for model in (PLAIN_NAME, name):
        for d, fit in fits.items():
            status = None if model == PLAIN_NAME else status_of(fit)
            ours = {"model": model, "n_components": d, "status": status}
            if (found := audited.get(name_at(model, d))) is None:
                records += [{"group": record["group"], **ours} for record in first.records]
            else:
                records += [{**record, **ours} for record in rounded(found)]
    why = "" if first.has_estimates else first.why_no_estimates or "every group has too few of them"
    return records, why


def rounded(model: ModelResult) -> list[Record]:
    """The records of an audited model, with zero for what is only rounding."""
    return [
        {
            **record,
            **group.error_here.without_rounding(group.rounding_here).columns("error_here"),
            "loss_here": float(without_rounding(group.loss_here, group.rounding_here)),
        }
        for record, group in zip(model.records, model.groups, strict=True)
    ]


def without_rounding(values: Any, rounding: Any) -> FloatArray:
    """Values in squared units, with zero for what is only rounding."""
    return np.where(np.abs(values) <= rounding, 0.0, values)


def best_possible(records: Iterable[Record], quantity: str, best: Iterable[float]) -> list[Record]:
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
