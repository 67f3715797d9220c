"""Audit of the user's models for a report."""

from collections.abc import Sequence
from dataclasses import replace

from fairspan.auditing.estimation_options import EstimationOptions
from fairspan.auditing.models import AuditedModel, audited_models, audited_pca
from fairspan.auditing.stages import audit_moments, audit_rows
from fairspan.formatting.names import readable_name
from fairspan.model.subspace import FairSubspace
from fairspan.moments.group_moments import GroupMoments
from fairspan.problem.part_parameters import check_n_components
from fairspan.report.fits import zero_negligible_results
from fairspan.report.report import UserModels
from fairspan.rows.aggregation import Rows


def read_user_models(models: object, moments: GroupMoments) -> list[AuditedModel]:
    """Read the user's models, adding a baseline for each fair model that has none.

    The baseline, with which the audit compares the model, is ordinary PCA of the report's rows with
    the model's dimension, center and scale. Models that agree in these share one baseline.

    Parameters
    ----------
    models : model, or mapping of name to model
        Fitted models, as for `write_report`.
    moments : GroupMoments
        Moments of the report's rows.

    Returns
    -------
    list of AuditedModel
        The user's models, then their baselines.
    """
    read_models = audited_models(models, moments.n_features)
    names = {model.name for model in read_models}
    # Baselines by dimension, center and whether features are scaled.
    baselines: dict[tuple[int, str, bool], AuditedModel] = {}
    user_models = []
    for model in read_models:
        subspace = model.subspace
        is_fair = subspace.certificate is not None and not model.is_pca
        if model.baseline is not None or not is_fair:
            user_models.append(model)
            continue
        key = (subspace.dimension, subspace.center, subspace.is_scaled)
        if key not in baselines:
            # Names of audited models are distinct.
            name = "PCA" if "PCA" not in names else f"PCA of {model.name}"
            names.add(name)
            baselines[key] = _baseline_for(subspace, moments, name)
        user_models.append(replace(model, baseline=baselines[key].name))
    return [*user_models, *baselines.values()]


def _baseline_for(subspace: FairSubspace, moments: GroupMoments, name: str) -> AuditedModel:
    """Ordinary PCA with the dimension, center and scale of a fair model.

    Raises
    ------
    InvalidParameter
        The model has more components than the rows have features.
    """
    check_n_components(subspace.dimension, moments.n_features)
    return audited_pca(
        moments, subspace.dimension, subspace.center, scale=subspace.is_scaled, name=name
    )


def audit_user_models(
    models: Sequence[AuditedModel],
    rows: Rows | None,
    held_out: Rows | None,
    moments: GroupMoments,
    estimation: EstimationOptions,
) -> UserModels:
    """Audit the user's models on held-out rows, the report's rows, or the moments of these.

    Parameters
    ----------
    models : sequence of AuditedModel
    rows : Rows or None
        Rows of the report; None if it was made from moments only.
    held_out : Rows or None
        Held-out rows, on which the models are then audited.
    moments : GroupMoments
        Moments of the report's rows.
    estimation : EstimationOptions

    Returns
    -------
    UserModels
        Observed values within their rounding error bounds are zero.
    """
    if held_out is not None:
        # The moments of held-out rows are not known yet, and these rows have no classes.
        audit = audit_rows(models, held_out, moments=None, options=estimation)
    elif rows is not None:
        audit = audit_rows(models, rows, moments, options=estimation)
    else:
        audit = audit_moments(models, [moments])
    by_name = {model.name: model for model in models}
    descriptions = tuple(_describe_model(by_name[result.name]) for result in audit.models)
    results = tuple(map(zero_negligible_results, audit.models))
    return UserModels(replace(audit, models=results), descriptions, held_out=held_out is not None)


def _describe_model(model: AuditedModel) -> str:
    """Describe a model in a few words: its kind, its criterion and its restriction.

    Kinds of projections are oblique (the decoder is not the transpose of the encoder), soft (some
    components are shorter than one) and nested (the first components solve the problem of fewer
    dimensions).
    """
    if model.row_model is not None:
        return "not a projection: evaluated row by row"
    subspace: FairSubspace = model.subspace
    kinds = {"oblique": subspace.is_oblique, "soft": subspace.is_soft, "nested": subspace.is_nested}
    parts = [kind for kind, applies in kinds.items() if applies]
    certificate = subspace.certificate
    if certificate is not None and not model.is_pca:
        parts.append(readable_name(certificate.criterion.name))
    if certificate is not None and certificate.restriction is not None:
        parts.append(f"with {certificate.restriction!r}")
    return ", ".join(parts) or "projection"
