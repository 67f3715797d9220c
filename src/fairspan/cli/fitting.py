"""Fit of the fair model of a command."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import click

from fairspan.auditing.models import AuditedModel, audited_pca, model_name, read_model
from fairspan.cli.command import usage_error_if
from fairspan.cli.inputs import InputData
from fairspan.cli.model_auditing import fit_pca, report_dimension
from fairspan.cli.option_values import FitOptions
from fairspan.errors import CorruptFile, UnknownGroup
from fairspan.estimator.fit import fit_rows
from fairspan.estimator.fit_settings import FitSettings
from fairspan.formatting.names import readable_name
from fairspan.model.subspace import FairSubspace
from fairspan.moments.group_moments import GroupMoments
from fairspan.problem.criteria.criterion_catalog import get_criterion
from fairspan.problem.restrictions.restriction_catalog import get_restriction
from fairspan.rows.labels import Label, format_label, format_list
from fairspan.rows.protocol import row_metadata
from fairspan.solvers.auto import resolve_solver
from fairspan.storage.archive import looks_like_archive

# Seed for solvers with random starts, so that commands are reproducible.
_SEED = 0


def columns_of_restriction(fit_options: FitOptions) -> tuple[str | int, ...]:
    """Non-feature columns required by the restriction."""
    restriction = get_restriction(fit_options.restriction, **fit_options.restriction_parameters)
    if restriction is None:
        return ()
    return restriction.columns


def fit_fair_model(
    data: InputData, fit_options: FitOptions
) -> tuple[FairSubspace, list[AuditedModel]]:
    """Fit the fair model, and return it with the models to audit.

    These are ordinary PCA of the same dimension and the fair model, in this order.

    Raises
    ------
    FairspanError, click.UsageError
        Invalid rows or settings; settings are checked first.
    """
    # Validate the settings before reading rows. Texts that name groups or classes are replaced by
    # labels once the rows have been read, so criterion and restriction are made again then.
    get_criterion(fit_options.criterion, **fit_options.criterion_parameters)
    restriction = get_restriction(fit_options.restriction, **fit_options.restriction_parameters)
    solver = resolve_solver(fit_options.solver, **fit_options.solver_parameters)
    needs_labels = restriction is not None and restriction.needs_classes
    usage_error_if(
        needs_labels
        and data.row_source is not None
        and not row_metadata(data.row_source).has_classes,
        f"{restriction!r} needs the classes of y: name their column, --y COL.",
    )
    dimension = data.resolve_dimension(fit_options.n_components)
    moments = data.moments
    settings = FitSettings(
        dimension,
        get_criterion(
            fit_options.criterion,
            **with_group_labels(fit_options.criterion_parameters, moments.labels),
        ),
        get_restriction(
            fit_options.restriction, **with_y_classes(fit_options.restriction_parameters, moments)
        ),
        center=fit_options.center,
        scale=fit_options.standardize,
        solver=solver,
        tol=fit_options.tol,
        allow_extra=fit_options.allow_extra,
        nested=fit_options.nested,
        random_state=_SEED,
        rotation=fit_options.rotation,
    )
    fair = fit_rows(data.row_source, moments, settings).subspace
    d = fair.dimension
    certificate = fair.require_certificate()
    report_dimension(
        fit_options.n_components, d, moments.n_features, readable_name(certificate.criterion.name)
    )
    pca = audited_pca(moments, d, fit_options.center, scale=fit_options.standardize)
    fair_model = replace(read_model(model_name(certificate), fair), baseline=pca.name)
    return fair, [pca, fair_model]


def fit_repair(data: InputData, fit_options: FitOptions) -> list[AuditedModel]:
    """Fit ordinary PCA and the default repair of the same dimension, and return both to audit.

    The dimension is that of an audit of PCA alone, also if a share of the variance was requested.
    """
    d = fit_pca(data, fit_options).subspace.dimension
    _, models = fit_fair_model(data, replace(fit_options, n_components=d))
    return models


def check_overwriting(path: Path, fit_options: FitOptions) -> None:
    """Raise a usage error if the output exists and is not a model with the same settings.

    A missing or empty file may be written. A share of variance in place of a number of dimensions
    is not compared, since it is not known yet how many dimensions it gives.
    """
    if not path.is_file() or path.stat().st_size == 0:
        return
    remedy = "overwrite it with --force, or choose another path."
    usage_error_if(not looks_like_archive(path), f"{path} is not a model; {remedy}")
    try:
        old = FairSubspace.load(path)
    except CorruptFile:
        raise click.UsageError(f"{path} is not a readable model; {remedy}") from None
    criterion = None
    if old.certificate is not None:
        criterion = old.certificate.criterion.name
    n_components = old.n_components
    if isinstance(fit_options.n_components, int):
        n_components = fit_options.n_components
    new_criterion = get_criterion(fit_options.criterion, **fit_options.criterion_parameters)
    for name, before, now in (
        ("criterion", criterion, new_criterion.name),
        ("center", old.center, fit_options.center),
        ("standardize", old.is_scaled, fit_options.standardize),
        ("dimensions", old.n_components, n_components),
    ):
        usage_error_if(
            before != now,
            f"{path} holds a model of other settings ({name}: {before}, now {now}); {remedy}",
        )


def with_group_labels(
    parameters: Mapping[str, object], labels: Sequence[Label]
) -> dict[str, object]:
    """Return a criterion's parameters with labels of groups in place of the texts that name them.

    A text is the value of a parameter (`protected`) or a key of a mapping (`radius`), and names the
    group whose label is printed like it.

    Raises
    ------
    UnknownGroup
        A text names no group, or several.
    """
    by_text: dict[str, list[Label]] = {}
    for label in labels:
        by_text.setdefault(format_label(label), []).append(label)

    def match_label(key: str, text: str) -> Label:
        matching = by_text.get(text, [])
        if len(matching) == 1:
            return matching[0]
        received = f"--param {key} names the group {text!r}"
        remedy = "Use one of them"
        if matching:
            received += f", which matches {format_list(matching)}"
            remedy = "Give groups names that differ when printed"
        raise UnknownGroup(received, f"Allowed: the groups {format_list(list(by_text))}", remedy)

    matched: dict[str, object] = {}
    for key, value in parameters.items():
        if isinstance(value, str):
            matched[key] = match_label(key, value)
        elif isinstance(value, dict):
            matched[key] = {match_label(key, text): number for text, number in value.items()}
        else:
            matched[key] = value
    return matched


def with_y_classes(parameters: Mapping[str, object], moments: GroupMoments) -> dict[str, object]:
    """Return a restriction's parameters with classes of y in place of the texts that name them.

    Only `within_classes` names classes. Unknown texts are kept; the restriction reports them.
    """
    class_texts = parameters.get("within_classes")
    by_class = moments.by_class
    if not isinstance(class_texts, list) or by_class is None:
        return dict(parameters)
    # Moments by class are labeled by pairs of group and class.
    by_text = {
        format_label(pair[-1]): pair[-1] for pair in by_class.labels if isinstance(pair, tuple)
    }
    return {**parameters, "within_classes": [by_text.get(text, text) for text in class_texts]}
