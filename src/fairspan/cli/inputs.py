"""Input data and models of the commands."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import click

from fairspan.auditing.audit import Audit, audit_moments, audit_rows
from fairspan.auditing.models import (
    AuditedModel,
    audited_models,
    audited_pca,
    known_labels_of,
    pca_by_dimension,
    read_model,
    restriction_columns,
    select_dimensions,
    with_pca_baselines,
)
from fairspan.cli.options import AuditOptions, FitOptions, ReadOptions, usage_error_if
from fairspan.cli.row_input import (
    OF_MODEL,
    check_numeric_features,
    is_archive_file,
    open_row_source,
    read_options_for,
)
from fairspan.errors import CorruptFile, IncompatibleParameters, InvalidInput, UnknownGroup
from fairspan.estimator.fit import fit_subspace, resolve_n_components
from fairspan.formatting.messages import counted
from fairspan.formatting.names import readable_name
from fairspan.formatting.numbers import format_count, format_level, to_ascii
from fairspan.model.subspace import FairSubspace
from fairspan.moments.group_moments import GroupMoments
from fairspan.moments.of_rows import compute_dense_moments
from fairspan.problem.problem import check_n_components
from fairspan.problem.reduction import get_criterion, get_restriction
from fairspan.progress import clear_progress_bar
from fairspan.registry import ExternalObject
from fairspan.rows.aggregation import Rows
from fairspan.rows.attributes import RowsWithAttributes
from fairspan.rows.files.file_rows import FileRows
from fairspan.rows.group_limit import DEFAULT_GROUP_LIMIT, GroupLimit
from fairspan.rows.label_matching import KnownLabels
from fairspan.rows.labels import Label, format_label, format_list
from fairspan.rows.missing import costliest_features, count_missing
from fairspan.rows.opening import match_groups
from fairspan.rows.protocol import RowSource
from fairspan.solvers.solver import get_solver
from fairspan.storage.archive import looks_like_archive
from fairspan.verification import Verification, verify

# Default of -d: share of every group's variance to keep.
DEFAULT_VARIANCE_KEPT = 0.9

# Seed for solvers with random starts, so that commands are reproducible.
_SEED = 0


@dataclass(frozen=True)
class InputData:
    """Rows of a file, or saved moments.

    Attributes
    ----------
    source : RowSource or None
    saved : GroupMoments or None
    limit : GroupLimit
        Limits on the number of groups and on memory.
    has_clusters : bool
        Whether the last label column is the cluster.
    has_y : bool
        Whether the last label column before the cluster is y.
    attributes : tuple of str or int
        Non-feature columns required by a restriction.
    blocks : tuple of GroupMoments
        Moments of the individual files, if there are several.
    is_of_model : bool
        Whether the features are those of a saved model, none of which can be left out.
    """

    row_source: RowSource | None
    saved_moments: GroupMoments | None = None
    limit: GroupLimit = DEFAULT_GROUP_LIMIT
    has_clusters: bool = False
    has_y: bool = False
    restriction_columns: tuple[str | int, ...] = ()
    blocks: tuple[GroupMoments, ...] = ()
    is_of_model: bool = False

    @cached_property
    def moments(self) -> GroupMoments:
        """Moments of the data, computed once; at least two groups are required."""
        if self.saved_moments is not None:
            moments = self.saved_moments.with_attributes(self.restriction_columns)
        else:
            moments = compute_dense_moments(
                self.rows("reading"),
                self.limit,
                has_y=self.has_y,
                by_cluster=self.has_clusters,
            )
        if moments.n_groups < 2:
            dropped = ""
            remedy = "Check the group column, or use ordinary PCA"
            if moments.n_dropped:
                total = int(moments.counts.sum()) + moments.n_dropped
                dropped = (
                    f"; {moments.n_dropped:,} of {total:,} rows were dropped because a value is "
                    "missing"
                )
                remedy = (
                    "Exclude features that cause many rows to be dropped, "
                    f"--exclude{self._describe_costliest_features()}"
                )
            raise InvalidInput(
                f"All rows belong to one group ({moments.labels[0]!r}){dropped}",
                "Allowed: two or more groups",
                remedy,
            )
        return moments

    def _describe_costliest_features(self) -> str:
        """Describe the features that cause most dropped rows, after a colon."""
        if self.row_source is None:
            return ""
        cells = count_missing(self.row_source, self.has_y + self.has_clusters)
        names = self.row_source.feature_names or ()
        told = [
            f"{name!r} ({counted(n, 'row')} by itself)"
            for name, n in costliest_features(cells, names)
        ]
        return f": {', '.join(told)}" if told else ""

    def resolve_dimension(self, n_components: int | float | None) -> int | float:
        """Return the requested dimension or share, or the default; checked before rows are read."""
        if n_components is None:
            return DEFAULT_VARIANCE_KEPT
        data = self.moments if self.row_source is None else self.row_source
        check_n_components(n_components, data.n_features, allow_fraction=True)
        return n_components

    def rows(self, activity: str) -> Rows:
        """Return the rows, with progress reporting."""
        assert self.row_source is not None
        if self.is_of_model:
            check_numeric_features(self.row_source, *OF_MODEL)
        else:
            check_numeric_features(self.row_source)
        rows: Rows = self.row_source
        if isinstance(rows, FileRows):
            rows = replace(rows, stage_name=activity)
        return (
            RowsWithAttributes.wrap(rows, self.restriction_columns)
            if self.restriction_columns
            else rows
        )

    def selected(
        self, names: tuple[str, ...] | None, attributes: Sequence[str | int] = ()
    ) -> "InputData":
        """Return the data with these features, in this order, and these additional columns."""
        data = replace(self, restriction_columns=tuple(attributes))
        if names is None or self.row_source is None:
            return data
        source = self.row_source.select_features((*names, *map(str, attributes)))
        return replace(data, row_source=source, is_of_model=True)

    def matched_to(self, known: KnownLabels) -> "InputData":
        """Return the same rows or moments, with labels of a fit in place of those equal as text."""
        rows = None if self.row_source is None else match_groups(self.row_source, known)
        saved = None if self.saved_moments is None else self.saved_moments.matched_to(known)
        blocks = tuple(block.matched_to(known) for block in self.blocks)
        return replace(
            self, row_source=cast(RowSource | None, rows), saved_moments=saved, blocks=blocks
        )


def open_input(
    path: Path | ExternalObject, reading: ReadOptions, clusters: str | None = None
) -> InputData:
    """Open a file of rows (with an optional cluster column) or of saved moments."""
    has_clusters = clusters is not None
    if isinstance(path, Path) and is_archive_file(path):
        moments = GroupMoments.load(path)
        reading.reject_for_moments(path)
        usage_error_if(has_clusters, f"--clusters requires rows, but {path} contains moments.")
        return InputData(None, moments)
    usage_error_if(
        isinstance(path, ExternalObject) and has_clusters,
        f"--clusters is not supported for {path}.",
    )
    return InputData(
        open_row_source(reading, path, clusters),
        limit=reading.limit,
        has_clusters=has_clusters,
        has_y=reading.y_column is not None,
    )


def open_inputs(
    paths: Sequence[Path | ExternalObject], reading: ReadOptions, clusters: str | None = None
) -> InputData:
    """Open one input, or the sum of several files of saved moments."""
    first = open_input(paths[0], reading, clusters)
    if len(paths) == 1:
        return first
    for path in paths:
        usage_error_if(
            not (isinstance(path, Path) and is_archive_file(path)),
            f"Several inputs must all be saved moments, but {path} is not; create them with "
            "fairspan moments.",
        )
    blocks = tuple(GroupMoments.load(path) for path in paths if isinstance(path, Path))
    return replace(first, saved_moments=sum(blocks[1:], start=blocks[0]), blocks=blocks)


def pca_model(data: InputData, fit_options: FitOptions) -> AuditedModel:
    """Fit ordinary PCA to the data."""
    wanted = data.resolve_dimension(
        fit_options.n_components
    )  # before the rows are read for moments
    d = resolve_n_components(
        data.moments, wanted, center=fit_options.center, scale=fit_options.standardize
    )
    report_dimension(fit_options.n_components, d, data.moments.n_features, "PCA")
    return audited_pca(data.moments, d, fit_options.center, scale=fit_options.standardize)


def report_dimension(
    n_components: int | float | None, chosen: int, n_features: int, name: str
) -> None:
    """Report on standard error the number of dimensions chosen for a share."""
    if isinstance(n_components, int):
        return
    share = DEFAULT_VARIANCE_KEPT if n_components is None else n_components
    why = "" if n_components is not None else "; change it with -d"
    dimensions = to_ascii(format_count(chosen, "dimension"))
    clear_progress_bar()
    click.echo(
        f"fairspan: -d {share:g}: {dimensions} of {n_features}, the fewest with which {name} keeps "
        f"{to_ascii(format_level(share))} of every group's variance{why}.",
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

    Raises
    ------
    Incompatible
        A requested setting disagrees with a model.
    """
    models = load_models(paths, parts)
    for name, model in models.items():
        for option, wanted, own in (
            ("-d", fit_options.n_components, model.n_components),
            ("--center", fit_options.center if has_center else None, model.center),
            ("--standardize", fit_options.standardize or None, model.scale is not None),
        ):
            if wanted not in (None, own):
                raise IncompatibleParameters(
                    f"The model {name} does not agree with {option}: it has "
                    f"{counted(model.n_components, 'dimension')}, center {model.center!r} and "
                    f"{'standardized' if model.scale is not None else 'unscaled'} features",
                    "A saved model brings its own dimensions, center and scaling",
                    f"Leave out {option}, or fit another model",
                )
    return audited_models(models) if models else []


def load_models(
    paths: Sequence[Path], parts: Sequence[ExternalObject] = ()
) -> dict[str, FairSubspace]:
    """Load saved models by file name, or by path if file names are not unique."""
    by_file_name = {path.name: path for path in paths}
    paths_by_name = (
        by_file_name if len(by_file_name) == len(paths) else {str(path): path for path in paths}
    )
    custom_objects = [each.factory() for each in parts]
    return {
        name: FairSubspace.load(path, custom_objects=custom_objects)
        for name, path in paths_by_name.items()
    }


def open_held_out_rows(
    path: Path,
    reading: ReadOptions,
    names: tuple[str, ...] | None,
    attributes: Sequence[str | int] = (),
    clusters: str | None = None,
) -> Rows:
    """Open held-out rows with the same options, without y."""
    label = () if reading.y_column is None else (reading.y_column,)
    data = open_input(
        path, replace(reading, y_column=None, exclude=(*reading.exclude, *label)), clusters
    )
    if data.row_source is None:
        raise InvalidInput(
            f"{path} holds moments, which hold no rows",
            "Allowed for held-out rows: a file of rows",
            "Name such a file with --test",
        )
    return data.selected(names, attributes).rows("auditing")


def audit_data(
    data: InputData,
    audited: Sequence[AuditedModel],
    judging: AuditOptions,
    test: Rows | None = None,
) -> Audit:
    """Audit models on the data.

    A saved fair model is compared with ordinary PCA of the data. With held-out rows, the models
    are evaluated on these without refitting.
    """
    if any(each.is_fair and each.baseline is None for each in audited):
        audited = with_pca_baselines(audited, data.moments)
    options = replace(judging.estimation_options, has_y=data.has_y and test is None)
    if data.row_source is None and test is None:
        blocks = [each.with_attributes(data.restriction_columns) for each in data.blocks]
        return audit_moments(audited, blocks or [data.moments], options)
    options = replace(options, max_memory=data.limit.max_memory)
    if test is not None:
        return audit_rows(audited, match_groups(test, known_labels_of(audited)), options=options)
    return audit_rows(audited, data.rows("auditing"), data.moments, options=options)


def verify_model(
    model: Path,
    data: Path | ExternalObject,
    reading: ReadOptions,
    parts: Sequence[ExternalObject] = (),
) -> Verification:
    """Verify the certificate of a saved model."""
    (subspace,) = load_models([model], parts).values()
    reading = read_options_for([subspace], data, reading)
    table = open_input(data, reading).selected(
        subspace.feature_names, restriction_columns(subspace)
    )
    table = table.matched_to(known_labels_of(subspace, has_classes=table.has_y))
    return verify(subspace, table.moments)


def audit_by_dimension(data: InputData, fit_options: FitOptions, judging: AuditOptions) -> Audit:
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
    dimensions = select_dimensions(max(data.row_source.n_features - 1, 1), 1)
    models = pca_by_dimension(
        data.moments, dimensions, fit_options.center, scale=fit_options.standardize
    )
    return audit_data(data, models, judging)


def restriction_columns_of_models(audited: Sequence[AuditedModel]) -> tuple[str | int, ...]:
    """Non-feature columns required by the models' restrictions."""
    return restriction_columns({each.name: each.subspace for each in audited})


def labels_of_models(audited: Sequence[AuditedModel], *, has_classes: bool) -> KnownLabels:
    """Return the labels that saved models were fitted on, to which those of rows are matched."""
    return known_labels_of(audited, has_classes=has_classes)


def columns_of_restriction(fit_options: FitOptions) -> tuple[str | int, ...]:
    """Non-feature columns required by the restriction."""
    restriction = get_restriction(fit_options.restriction, **fit_options.restriction_parameters)
    return () if restriction is None else restriction.columns


def fit_fair_model(
    data: InputData, fit_options: FitOptions
) -> tuple[FairSubspace, list[AuditedModel]]:
    """Fit the fair model, and return it with the models to audit (it and ordinary PCA)."""
    # Validate the settings before reading rows.
    get_criterion(fit_options.criterion, **fit_options.criterion_parameters)
    restriction = get_restriction(fit_options.restriction, **fit_options.restriction_parameters)
    solver = get_solver(fit_options.solver, **fit_options.solver_parameters)
    needs_labels = restriction is not None and bool(restriction.within_classes)
    usage_error_if(
        needs_labels and data.row_source is not None and not data.has_y,
        f"{restriction!r} holds in classes of y: name its column, --y COL.",
    )
    dimension = data.resolve_dimension(fit_options.n_components)
    moments = data.moments
    fair = fit_subspace(
        moments,
        dimension,
        criterion=get_criterion(
            fit_options.criterion,
            **with_group_labels(fit_options.criterion_parameters, moments.labels),
        ),
        restriction=get_restriction(
            fit_options.restriction, **with_y_classes(fit_options.restriction_parameters, moments)
        ),
        center=fit_options.center,
        scale=fit_options.standardize,
        solver=solver,
        tol=fit_options.tol,
        allow_extra=fit_options.allow_extra,
        nested=fit_options.nested,
        random_state=_SEED,
    )
    d = fair.dimension
    certificate = fair.require_certificate()
    report_dimension(
        fit_options.n_components, d, moments.n_features, readable_name(certificate.criterion.name)
    )
    plain = audited_pca(moments, d, fit_options.center, scale=fit_options.standardize)
    return fair, [plain, replace(read_model("fair", fair), baseline=plain.name)]


def check_overwriting(path: Path, fit_options: FitOptions) -> None:
    """Raise a usage error if the output exists and is not a model with the same settings."""
    if not path.is_file() or path.stat().st_size == 0:
        return
    remedy = "overwrite it with --force, or choose another path."
    usage_error_if(not looks_like_archive(path), f"{path} is not a model; {remedy}")
    try:
        old = FairSubspace.load(path)
    except CorruptFile:
        raise click.UsageError(f"{path} is not a readable model; {remedy}") from None
    certificate = old.certificate
    settings: dict[str, tuple[object, object]] = {
        "criterion": (
            None if certificate is None else certificate.criterion.name,
            get_criterion(fit_options.criterion, **fit_options.criterion_parameters).name,
        ),
        "center": (old.center, fit_options.center),
        "standardize": (old.scale is not None, fit_options.standardize),
        "dimensions": (
            old.n_components,
            fit_options.n_components
            if isinstance(fit_options.n_components, int)
            else old.n_components,
        ),
    }
    for name, (before, now) in settings.items():
        usage_error_if(
            before != now,
            f"{path} holds a model of other settings ({name}: {before}, now {now}); {remedy}",
        )


def with_group_labels(parameters: Mapping[str, Any], labels: Sequence[Label]) -> dict[str, Any]:
    """Replace texts that name groups by their labels.

    Raises
    ------
    UnknownGroup
    """
    by_text: dict[str, list[Label]] = {}
    for label in labels:
        by_text.setdefault(format_label(label), []).append(label)

    def match_label(key: str, text: str) -> Label:
        matching = by_text.get(text, [])
        if len(matching) == 1:
            return matching[0]
        raise UnknownGroup(
            f"--param {key} names the group {text!r}"
            + (f", which matches {format_list(matching)}" if matching else ""),
            f"Allowed: the groups {format_list(list(by_text))}",
            "Give groups names that differ when printed" if matching else "Use one of them",
        )

    matched: dict[str, Any] = {}
    for key, value in parameters.items():
        if isinstance(value, str):
            matched[key] = match_label(key, value)
        elif isinstance(value, dict):
            matched[key] = {match_label(key, text): number for text, number in value.items()}
        else:
            matched[key] = value
    return matched


def with_y_classes(parameters: Mapping[str, Any], moments: GroupMoments) -> dict[str, Any]:
    """Replace texts that name classes of y by these classes.

    Unknown texts are kept; the restriction reports them.
    """
    given = parameters.get("within_classes")
    by_class = moments.by_class
    if not isinstance(given, list) or by_class is None:
        return dict(parameters)
    by_text = {
        format_label(pair[-1]): pair[-1] for pair in by_class.labels if isinstance(pair, tuple)
    }
    return {**parameters, "within_classes": [by_text.get(text, text) for text in given]}
