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
    baselines: dict[tuple[int, str, bool], AuditedModel] = {}
    user_models = []
    for model in read_models:
        subspace = model.subspace
        # Of models without a baseline, a fair one has a certificate and is not marked as PCA.
        if model.baseline is None and not model.is_pca and subspace.certificate is not None:
            d = subspace.dimension
            center = subspace.center
            is_scaled = subspace.is_scaled
            key = (d, center, is_scaled)
            if key not in baselines:
                check_n_components(d, moments.n_features)
                name = "PCA"
                if name in names:  # names of audited models are distinct
                    name = f"PCA of {model.name}"
                names.add(name)
                baselines[key] = audited_pca(moments, d, center, scale=is_scaled, name=name)
            model = replace(model, baseline=baselines[key].name)
        user_models.append(model)
    return [*user_models, *baselines.values()]


def audit_user_models(
    models: Sequence[AuditedModel],
    rows: Rows | None,
    test: Rows | None,
    moments: GroupMoments,
    estimation: EstimationOptions,
) -> UserModels:
    """Audit the user's models on held-out rows, the report's rows, or the moments of these.

    Parameters
    ----------
    models : sequence of AuditedModel
    rows : Rows or None
        Rows of the report; None if it was made from moments only.
    test : Rows or None
        Held-out rows, used if given.
    moments : GroupMoments
        Moments of the report's rows.
    estimation : EstimationOptions

    Returns
    -------
    UserModels
        Observed values within their rounding error bounds are zero.
    """
    if test is not None:
        # The moments of held-out rows are not known yet, and these rows have no classes.
        audit = audit_rows(models, test, moments=None, options=estimation)
    elif rows is not None:
        audit = audit_rows(models, rows, moments, options=estimation)
    else:
        audit = audit_moments(models, [moments])
    by_name = {model.name: model for model in models}
    descriptions = tuple(_describe_model(by_name[result.name]) for result in audit.models)
    results = tuple(map(zero_negligible_results, audit.models))
    is_held_out = test is not None
    return UserModels(replace(audit, models=results), descriptions, held_out=is_held_out)


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
