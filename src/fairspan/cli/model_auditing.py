"""Audits of the commands: models to audit, their audit, and verification."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import click

from fairspan.auditing.audit_result import Audit
from fairspan.auditing.dimensions_to_audit import pca_by_dimension, select_dimensions
from fairspan.auditing.models import (
    AuditedModel,
    audited_models,
    audited_pca,
    known_labels_of,
    restriction_columns,
    with_pca_baselines,
)
from fairspan.auditing.stages import audit_moments, audit_rows
from fairspan.cli.finding_hints import with_command_hints
from fairspan.cli.inputs import DEFAULT_VARIANCE_KEPT, InputData, open_input
from fairspan.cli.option_values import AuditOptions, FitOptions, ReadOptions
from fairspan.cli.row_input import read_options_for
from fairspan.errors import IncompatibleParameters
from fairspan.estimator.fit import resolve_n_components
from fairspan.formatting.messages import counted
from fairspan.formatting.numbers import format_count, format_level, to_ascii
from fairspan.model.subspace import FairSubspace
from fairspan.moments.row_spread import with_row_spread_if_singular
from fairspan.progress import clear_progress_bar
from fairspan.registry import ExternalObject
from fairspan.rows.aggregation import Rows
from fairspan.rows.label_matching import KnownLabels
from fairspan.rows.opening import match_groups
from fairspan.verification import Verification, verify


def pca_model(data: InputData, fit_options: FitOptions) -> AuditedModel:
    """Fit ordinary PCA to the data with the requested dimension or share, or the default share."""
    # Raises before rows are read, which `data.moments` does.
    wanted = data.resolve_dimension(fit_options.n_components)
    d = resolve_n_components(
        data.moments, wanted, center=fit_options.center, scale=fit_options.standardize
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
    parts: Sequence[ExternalObject] = (),
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
    parts : sequence of ExternalObject
        Criteria and restrictions of other packages that the models use.
    has_center : bool
        Whether the center was requested, rather than being the default.

    Raises
    ------
    Incompatible
        A requested setting disagrees with a model.
    """
    requested_center = None
    if has_center:
        requested_center = fit_options.center
    models = load_models(paths, parts)
    for name, model in models.items():
        for option, requested, actual in (
            ("-d", fit_options.n_components, model.n_components),
            ("--center", requested_center, model.center),
            # There is no option that requests unscaled features.
            ("--standardize", fit_options.standardize or None, model.is_scaled),
        ):
            if requested not in (None, actual):
                scaling = "unscaled"
                if model.is_scaled:
                    scaling = "standardized"
                raise IncompatibleParameters(
                    f"The model {name} does not agree with {option}: it has "
                    f"{counted(model.n_components, 'dimension')}, center {model.center!r} and "
                    f"{scaling} features",
                    "A saved model brings its own dimensions, center and scaling",
                    f"Omit {option}, or fit another model",
                )
    if not models:
        return []
    return audited_models(models)


def load_models(
    paths: Sequence[Path], parts: Sequence[ExternalObject] = ()
) -> dict[str, FairSubspace]:
    """Load saved models by file name, or by path if file names are not unique.

    `parts` are criteria and restrictions of other packages that the models use.
    """
    paths_by_name = {path.name: path for path in paths}
    if len(paths_by_name) < len(paths):
        paths_by_name = {str(path): path for path in paths}
    custom_objects = [each.factory() for each in parts]
    return {
        name: FairSubspace.load(path, custom_objects=custom_objects)
        for name, path in paths_by_name.items()
    }


def audit_data(
    data: InputData,
    audited: Sequence[AuditedModel],
    audit_options: AuditOptions,
    test: Rows | None = None,
) -> Audit:
    """Audit models on the data; findings name options of the command line.

    A saved fair model is compared with ordinary PCA of the data. Saved moments give estimates for
    new rows only if there are those of several files. With held-out rows (`test`), the models are
    evaluated on these without refitting.
    """
    if any(each.is_fair and each.baseline is None for each in audited):
        # A saved model comes without the baseline that it is compared with.
        audited = with_pca_baselines(audited, data.moments)
    options = audit_options.estimation_options
    if data.row_source is None and test is None:
        # Moments of the individual files; empty for a single file, whose moments are audited as one
        # block, without intervals.
        blocks = [each.with_attributes(data.restriction_columns) for each in data.blocks]
        return with_command_hints(audit_moments(audited, blocks or [data.moments], options))
    options = replace(options, max_memory=data.limit.max_memory)
    if test is not None:
        rows = match_groups(test, known_labels_of(audited))
        return with_command_hints(audit_rows(audited, rows, options=options))
    rows = data.rows("auditing")
    return with_command_hints(audit_rows(audited, rows, data.moments, options=options))


def verify_model(
    model: Path,
    data: Path | ExternalObject,
    reading: ReadOptions,
    parts: Sequence[ExternalObject] = (),
) -> Verification:
    """Verify the certificate of a saved model with the moments of its training rows.

    The rows are read with the features of the model and, if it was fitted with EM, with missing
    cells. `parts` are criteria and restrictions of other packages that the model uses.
    """
    (subspace,) = load_models([model], parts).values()
    table = open_input_of_model(subspace, data, reading)
    moments = table.moments
    if table.row_source is not None:
        # The spread of the rows tells errors that are exactly zero from errors lost to rounding.
        moments = with_row_spread_if_singular(moments, table.row_source)
    return verify(subspace, moments)


def open_input_of_model(
    subspace: FairSubspace,
    data: Path | ExternalObject,
    reading: ReadOptions,
    clusters: str | None = None,
) -> InputData:
    """Open rows or moments with the features, missing cells and labels of a saved model."""
    reading = read_options_for([subspace], data, reading)
    table = open_input(data, reading, clusters).selected(
        subspace.feature_names, restriction_columns(subspace)
    )
    return table.matched_to(known_labels_of(subspace))


def audit_by_dimension(
    data: InputData, fit_options: FitOptions, audit_options: AuditOptions
) -> Audit:
    """Audit ordinary PCA for several numbers of dimensions, in increasing order.

    Raises
    ------
    Incompatible
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


def restriction_columns_of_models(audited: Sequence[AuditedModel]) -> tuple[str | int, ...]:
    """Non-feature columns required by the models' restrictions."""
    return restriction_columns({each.name: each.subspace for each in audited})


def labels_of_models(audited: Sequence[AuditedModel]) -> KnownLabels:
    """Return the labels that saved models were fitted on, to which those of rows are matched."""
    return known_labels_of(audited)
