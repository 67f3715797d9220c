"""Audits of the commands: models to audit, their audit, and verification."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import click

from fairspan.auditing.audit_result import Audit
from fairspan.auditing.dimensions_to_audit import pca_by_dimension, select_dimensions
from fairspan.auditing.models import (
    AuditedModel,
    audited_models,
    audited_pca,
    known_labels_of,
    lacks_baseline,
    restriction_columns,
    with_pca_baselines,
)
from fairspan.auditing.stages import audit_moments, audit_rows
from fairspan.cli.finding_hints import with_command_hints
from fairspan.cli.inputs import InputData, open_input, open_inputs
from fairspan.cli.option_values import AuditOptions, FitOptions, ModelOptions, ReadOptions
from fairspan.cli.row_input import read_options_for
from fairspan.errors import IncompatibleParameters
from fairspan.estimator.fit import resolve_n_components
from fairspan.estimator.fit_settings import DEFAULT_VARIANCE_KEPT
from fairspan.formatting.messages import counted
from fairspan.formatting.numbers import format_count, format_level, to_ascii
from fairspan.model.subspace import FairSubspace
from fairspan.moments.row_spread import with_row_spread_if_singular
from fairspan.progress import clear_progress_bar
from fairspan.registry import ExternalObject
from fairspan.rows.aggregation import Rows
from fairspan.rows.opening import match_groups
from fairspan.verification import Verification, verify


@dataclass(frozen=True)
class AuditInput:
    """Data and saved models of an audit.

    Attributes
    ----------
    table : InputData
        With the features, labels and restriction columns of the models.
    models : sequence of AuditedModel
        Saved models; empty to audit ordinary PCA.
    read_options : ReadOptions
        Options with which the data are read, also those of held-out rows.
    """

    table: InputData
    models: Sequence[AuditedModel]
    read_options: ReadOptions


def open_audit_input(
    data: Sequence[Path | ExternalObject],
    read_options: ReadOptions,
    fit_options: FitOptions,
    model_options: ModelOptions,
    clusters: str | None,
    *,
    has_center: bool,
) -> AuditInput:
    """Load the saved models of an audit, and open the data with what these models need.

    Parameters
    ----------
    data : sequence of Path or ExternalObject
        A table, or one or several files of moments.
    read_options : ReadOptions
    fit_options : FitOptions
    model_options : ModelOptions
    clusters : str or None
        Cluster column.
    has_center : bool
        Whether the center was requested, rather than being the default.

    Raises
    ------
    click.UsageError, FairspanError
        Options that do not apply to the data, or that disagree with a model.
    """
    models = load_audited_models(
        model_options.models, fit_options, model_options.custom_objects, has_center=has_center
    )
    names = models[0].subspace.feature_names if models else None
    read_options.reject_feature_options(names)
    columns = restriction_columns({model.name: model.subspace for model in models})
    read_options = read_options_for([model.subspace for model in models], data[0], read_options)
    table = open_inputs(data, read_options, clusters).select_features(names, columns)
    return AuditInput(table.matched_to(known_labels_of(models)), models, read_options)


def fit_pca(data: InputData, fit_options: FitOptions) -> AuditedModel:
    """Fit ordinary PCA to the data with the requested dimension or share, or the default share."""
    # Raises before rows are read, which `data.moments` does.
    requested = data.resolve_dimension(fit_options.n_components)
    d = resolve_n_components(
        data.moments, requested, center=fit_options.center, scale=fit_options.standardize
    )
    report_dimension(fit_options.n_components, d, data.moments.n_features, "PCA")
    return audited_pca(data.moments, d, fit_options.center, scale=fit_options.standardize)


def report_dimension(
    n_components: int | float | None, chosen: int, n_features: int, name: str
) -> None:
    """Report on standard error the number of dimensions that was chosen for a share.

    Nothing is reported if a number of dimensions was requested.

    Parameters
    ----------
    n_components : int, float or None
        Requested number or share; None for the default share.
    chosen : int
        The number of dimensions.
    n_features : int
    name : str
        Name of the model that keeps the share with this number.
    """
    if isinstance(n_components, int):
        return
    share = n_components
    hint = ""
    if share is None:
        share = DEFAULT_VARIANCE_KEPT
        hint = "; change it with -d"
    dimensions = to_ascii(format_count(chosen, "dimension"))
    clear_progress_bar()
    click.echo(
        f"fairspan: -d {share:g}: {dimensions} of {n_features}, the fewest with which {name} keeps "
        f"{to_ascii(format_level(share))} of every group's variance{hint}.",
        err=True,
    )


def load_audited_models(
    paths: Sequence[Path],
    fit_options: FitOptions,
    custom_objects: Sequence[ExternalObject] = (),
    *,
    has_center: bool,
) -> list[AuditedModel]:
    """Load models, named by their files; check that requested settings agree with them.

    Parameters
    ----------
    paths : sequence of Path
        Saved models; an empty list is returned without any.
    fit_options : FitOptions
        Options of the command, which may repeat the settings of the models.
    custom_objects : sequence of ExternalObject
        Criteria and restrictions of other packages that the models use.
    has_center : bool
        Whether the center was requested, rather than being the default.

    Raises
    ------
    IncompatibleParameters
        A requested setting disagrees with a model.
    """
    requested_center = None
    if has_center:
        requested_center = fit_options.center
    models = load_models(paths, custom_objects)
    for name, model in models.items():
        for option, requested, actual in (
            ("-d", fit_options.n_components, model.n_components),
            ("--center", requested_center, model.center),
            # There is no option that requests unscaled features.
            ("--standardize", fit_options.standardize or None, model.is_scaled),
        ):
            if requested not in (None, actual):
                raise _disagreement_error(name, model, option)
    if not models:
        return []
    return audited_models(models)


def _disagreement_error(name: str, model: FairSubspace, option: str) -> IncompatibleParameters:
    """Return the error for an option that requests another setting than that of a saved model."""
    scaling = "standardized" if model.is_scaled else "unscaled"
    return IncompatibleParameters(
        f"The model {name} does not agree with {option}: it has "
        f"{counted(model.n_components, 'dimension')}, center {model.center!r} and {scaling} "
        "features",
        "A saved model brings its own dimensions, center and scaling",
        f"Omit {option}, or fit another model",
    )


def load_models(
    paths: Sequence[Path], custom_objects: Sequence[ExternalObject] = ()
) -> dict[str, FairSubspace]:
    """Load saved models by file name, or by path if file names are not unique.

    `custom_objects` are criteria and restrictions of other packages that the models use.
    """
    paths_by_name = {path.name: path for path in paths}
    if len(paths_by_name) < len(paths):
        paths_by_name = {str(path): path for path in paths}
    loaded_objects = [custom_object.factory() for custom_object in custom_objects]
    return {
        name: FairSubspace.load(path, custom_objects=loaded_objects)
        for name, path in paths_by_name.items()
    }


def audit_data(
    data: InputData,
    models: Sequence[AuditedModel],
    audit_options: AuditOptions,
    held_out: Rows | None = None,
) -> Audit:
    """Audit models on the data; findings name options of the command line.

    A saved fair model is compared with ordinary PCA of the data. Saved moments give estimates for
    new rows only if there are those of several files. With held-out rows, the models are evaluated
    on these without refitting.
    """
    if lacks_baseline(models):
        # Of these data, even where rows that were held out are audited.
        models = with_pca_baselines(models, data.moments)
    options = audit_options.estimation_options
    if data.row_source is None and held_out is None:
        # Moments of the individual files; empty for a single file, whose moments are audited as one
        # block, without intervals.
        blocks = [block.with_attributes(data.restriction_columns) for block in data.blocks]
        return with_command_hints(audit_moments(models, blocks or [data.moments], options))
    options = replace(options, max_memory=data.limit.max_memory)
    if held_out is not None:
        rows = match_groups(held_out, known_labels_of(models))
        return with_command_hints(audit_rows(models, rows, options=options))
    rows = data.rows("auditing")
    return with_command_hints(audit_rows(models, rows, data.moments, options=options))


def verify_model(
    model: Path,
    data: Path | ExternalObject,
    read_options: ReadOptions,
    custom_objects: Sequence[ExternalObject] = (),
) -> Verification:
    """Verify the certificate of a saved model with the moments of its training rows.

    The rows are read with the features of the model and, if it was fitted with EM, with missing
    cells. `custom_objects` are criteria and restrictions of other packages that the model uses.
    """
    (subspace,) = load_models([model], custom_objects).values()
    table = open_input_of_model(subspace, data, read_options)
    moments = table.moments
    if table.row_source is not None:
        # The spread of the rows tells errors that are exactly zero from errors lost to rounding.
        moments = with_row_spread_if_singular(moments, table.row_source)
    return verify(subspace, moments)


def open_input_of_model(
    subspace: FairSubspace,
    data: Path | ExternalObject,
    read_options: ReadOptions,
    clusters: str | None = None,
) -> InputData:
    """Open rows or moments with the features, missing cells and labels of a saved model."""
    read_options = read_options_for([subspace], data, read_options)
    table = open_input(data, read_options, clusters).select_features(
        subspace.feature_names, restriction_columns(subspace)
    )
    return table.matched_to(known_labels_of(subspace))


def audit_by_dimension(
    data: InputData, fit_options: FitOptions, audit_options: AuditOptions
) -> Audit:
    """Audit ordinary PCA for several numbers of dimensions, in increasing order.

    Raises
    ------
    IncompatibleParameters
        The data are moments, which give no estimates for new rows.
    """
    if data.row_source is None:
        raise IncompatibleParameters(
            "--by-dimension received saved moments",
            "Allowed: rows, from which estimates for new rows can be made",
            "Name the file of the rows",
        )
    # With as many dimensions as features, no model has an error, so that number is left out. At
    # most 16 numbers are selected, among which 1, for lack of a requested one, always is.
    n_dimensions = max(data.row_source.n_features - 1, 1)
    dimensions = select_dimensions(n_dimensions, requested=1)
    models = pca_by_dimension(
        data.moments, dimensions, fit_options.center, scale=fit_options.standardize
    )
    return audit_data(data, models, audit_options)
