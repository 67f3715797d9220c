"""The `write_report` function: an audit report as a self-contained HTML page."""

import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from fairspan.auditing.audit import check_one_assignment
from fairspan.auditing.encoded_rows import encode_rows
from fairspan.auditing.estimation_options import EstimationOptions, estimation_options
from fairspan.auditing.intervals import DEFAULT_LEVEL
from fairspan.auditing.models import AuditedModel, known_labels_of, restriction_columns
from fairspan.displays.by_name import DISPLAYS
from fairspan.errors import (
    FairspanWarning,
    InvalidInput,
    InvalidType,
    caller_remedies,
    describe_type,
)
from fairspan.extending import Display
from fairspan.model.subspace import FairSubspace
from fairspan.moments.compute import not_moments_error
from fairspan.moments.group_moments import GroupMoments, compute_group_moments
from fairspan.problem.criteria.criterion import Criterion
from fairspan.registry import ExternalObject, resolve_object
from fairspan.report.build import build_report, report_progress
from fairspan.report.provenance import Provenance, provenance_of_call
from fairspan.report.report import Report
from fairspan.report.report_models import read_user_models
from fairspan.report.report_outputs import check_output_path
from fairspan.report.report_settings import ReportSettings
from fairspan.report.required_packages import check_required_packages
from fairspan.rows.aggregation import Rows
from fairspan.rows.attributes import ColumnKey
from fairspan.rows.blocks import OnMissing
from fairspan.rows.fingerprint import compute_fingerprint, sha256_of_bytes
from fairspan.rows.group_limit import GroupLimit
from fairspan.rows.label_matching import KnownLabels
from fairspan.rows.opening import match_groups, open_rows, row_remedies
from fairspan.storage.atomic import check_suffix, write_atomic
from fairspan.typing import LabelsLike, Record, TableLike, WeightsLike

if TYPE_CHECKING:
    from fairspan.estimator.fair_pca import FairPCA


@report_progress()
def write_report(
    path: str | os.PathLike[str],
    X: TableLike = None,
    sensitive_features: LabelsLike = None,
    *,
    models: object = None,
    test: tuple[TableLike, LabelsLike] | None = None,
    y: LabelsLike = None,
    clusters: LabelsLike = None,
    n_components: int | float | None = None,
    criterion: str | Criterion = "minimax_loss",
    compare: Sequence[str | Criterion] | None = None,
    center: object = None,
    scale: bool | None = None,
    sample_weight: WeightsLike = None,
    moments: GroupMoments | None = None,
    max_groups: int | None = None,
    name: str | None = None,
    title: str | None = None,
    displays: Sequence[object] | None = None,
    folds: int | None = 10,
    repeats: int = 1,
    level: float = DEFAULT_LEVEL,
    materiality: float = 0.01,
    on_missing: OnMissing = "error",
) -> Record:
    """Write an HTML report on the effect of PCA and fair criteria on each group.

    The page is a single self-contained file, identical for the same rows and settings. Requires the
    `report` extra.

    Parameters
    ----------
    path : path
        Path of the page; it is written atomically.
    X : (n, p) table of finite numbers
        Rows, in any form that `GroupMoments.from_rows` accepts. They are read four times, and four
        more times if the groups' best subspaces depend on the folds. With more than 1000 features,
        only four numbers of dimensions are compared, and the page lists 1000 names.
    sensitive_features : (n,) or (n, a) array-like or data frame, or column name(s) of X
    models : model, or mapping of name to model, optional
        Fitted models, as for :func:`fairspan.audit`, reported in their own section; restricted,
        oblique and nested models, pipelines and models that are not projections are supported. If
        pipelines begin with an encoder, the page describes the rows that it encodes.
    test : tuple of X and sensitive_features, optional
        Held-out rows for auditing the models, instead of the rows of the page; with clusters, a
        third element gives theirs.
    y : (n,) array-like, or column name of X, optional
        Class of each row; a column is not used as a feature. Required for refitting models whose
        restriction is conditional on the class (`MeanParity(within_classes=...)`).
    clusters : (n,) array-like, or column name of X, optional
        Cluster of each row, as in :func:`fairspan.audit`; a column is not used as a feature.
    n_components : int or float, optional
        Number of dimensions, or the share of every group's variance that the criterion must keep
        (the smallest such d is used). By default, the dimension of the first model, or 0.9 without
        models.
    criterion : str or criterion object, default="minimax_loss"
        Main criterion.
    compare : sequence of str or criterion objects, optional
        Criteria to compare; by default all, with default parameters.
    center : {"global", "group", "none"}, optional
        Center about which errors are measured; by default that of the first model, or "global".
    scale : bool, optional
        Whether to divide features by their pooled standard deviation; by default as in the first
        model.
    sample_weight : (n,) array-like, or column name of X, optional
        Sampling weights of the rows.
    moments : GroupMoments, optional
        Moments in place of rows; there are then no intervals.
    max_groups : int, optional
        Maximum number of groups; by default 100.
    name : str, optional
        Name of the data; by default the file name.
    title : str, optional
    displays : sequence of str or Display, optional
        Additional displays of the main model by name, such as "loadings", or display objects; the
        data of each are in the result.
    folds : int or None
        Number of cross-fitting folds, as in :func:`fairspan.audit`; None for observed figures only.
    repeats : int
        Number of assignments of rows to folds, as in :func:`fairspan.audit`.
    level : float
        Confidence level of the intervals, in (0.5, 1).
    materiality : float
        Materiality threshold: the smallest loss that counts, as a share of the group's variance, in
        [0, 1).
    on_missing : {"error", "drop", "em", "em-drop-empty"}
        Treatment of rows, also those of `test`, in which a feature or the group is missing, as in
        :func:`fairspan.audit`.

    Returns
    -------
    dict
        Contents of the page as JSON-serializable values: `Audit.to_dict()` plus the additional
        contents. Errors are in squared (scaled) units of the features.

    Raises
    ------
    InvalidInput
        Invalid rows, or a single group.
    InvalidParameter, InvalidType
        An invalid setting, or a path that cannot be written.
    IncompatibleParameters
        The main criterion is infeasible for these groups at this dimension.
    MissingDependency
        jinja2 or matplotlib is not installed.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from fairspan import write_report
    >>> rng = np.random.default_rng(0)
    >>> X = np.vstack([rng.normal(size=(60, 3)) * [3, 1, 1], rng.normal(size=(40, 3)) * [1, 2, 1]])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     groups = ["a"] * 60 + ["b"] * 40
    ...     facts = write_report(Path(folder) / "report.html", X, groups, n_components=2)
    ...     (Path(folder) / "report.html").read_text()[:15]
    '<!DOCTYPE html>'
    >>> facts["settings"]["n_components"], facts["models"][1]["status"]
    (2, 'optimal')
    """
    has_clusters = clusters is not None
    estimation = estimation_options(
        folds, level, materiality, random_state=0, has_clusters=has_clusters, repeats=repeats
    )
    requested = _RequestedSettings(
        criterion, compare, n_components, center, scale, displays, estimation
    )
    # Settings are checked before rows are read; those that a model determines are set below.
    settings = requested.parse()
    _check_arguments(models, test, name, title, has_clusters=has_clusters)
    encoded = None if X is None or models is None else encode_rows(models, X)
    if encoded is not None:
        return write_report(
            path,
            encoded.rows,
            encoded.resolve(sensitive_features),
            models=encoded.models,
            test=_encode_test_rows(models, test),
            y=encoded.resolve(y),
            clusters=encoded.resolve(clusters),
            n_components=n_components,
            criterion=criterion,
            compare=compare,
            center=center,
            scale=scale,
            sample_weight=encoded.resolve(sample_weight),
            max_groups=max_groups,
            name=name,
            title=title,
            displays=displays,
            folds=folds,
            repeats=repeats,
            level=level,
            materiality=materiality,
            on_missing=on_missing,
        )
    limit = GroupLimit(max_groups)
    check_page_path(path, X)
    arguments = _RowArguments(X, sensitive_features, y, clusters, sample_weight, on_missing)
    if moments is None:
        table = arguments.read_rows(models, settings, limit)
    else:
        table = arguments.use_moments(moments, models)
        check_one_assignment(repeats)
    provenance = provenance_of_call(
        X,
        sensitive_features,
        table.fingerprint,
        sample_weight=sample_weight,
        max_groups=max_groups,
        on_missing=on_missing,
        n_components=n_components,
        criterion=criterion,
        compare=compare,
        displays=displays,
        models=models,
        test=test,
        clusters=clusters,
        center=center,
        scale=scale,
        name=name,
        title=title,
        folds=folds,
        repeats=repeats,
        level=level,
        materiality=materiality,
    )
    user_models = [] if models is None else read_user_models(models, table.moments)
    if user_models:
        settings = requested.with_model_settings(user_models[0].subspace).parse()
    with caller_remedies({} if test is None else row_remedies(test[0])):
        held_out = _open_test_rows(test, on_missing, restriction_columns(models))
        data = ReportData(table.moments, table.rows, held_out)
        report = build_report_with_displays(data, settings, provenance, user_models)
    write_page(path, report)
    return report.to_dict()


@dataclass(frozen=True)
class _RequestedSettings:
    """Settings as they were passed to `write_report`, before those of a model are taken over."""

    criterion: str | Criterion
    compare: Sequence[str | Criterion] | None
    n_components: int | float | None
    center: object
    scale: bool | None
    displays: Sequence[object] | None
    estimation: EstimationOptions

    def with_model_settings(self, model: FairSubspace) -> "_RequestedSettings":
        """Return the settings with those of a model in place of those that were not given."""
        return replace(
            self,
            n_components=model.dimension if self.n_components is None else self.n_components,
            center=model.center if self.center is None else self.center,
            scale=model.is_scaled if self.scale is None else self.scale,
        )

    def parse(self) -> ReportSettings:
        """Return the checked settings, with defaults for those that were not given.

        Raises
        ------
        InvalidParameter, InvalidType
        """
        return ReportSettings.parse(
            self.criterion,
            self.compare,
            self.n_components,
            center="global" if self.center is None else self.center,
            scale=False if self.scale is None else self.scale,
            displays=self.displays,
            estimation=self.estimation,
        )


@dataclass(frozen=True, eq=False)
class _ReportTable:
    """Table that a report is about.

    Attributes
    ----------
    moments : GroupMoments
    rows : Rows or None
        Rows of these moments; None if moments were passed.
    fingerprint : str or None
        SHA-256 of the rows, or of the moments; None for remote rows.
    """

    moments: GroupMoments
    rows: Rows | None
    fingerprint: str | None


@dataclass(frozen=True, eq=False)
class _RowArguments:
    """Arguments of `write_report` about its rows."""

    X: TableLike
    sensitive_features: LabelsLike
    y: LabelsLike
    clusters: LabelsLike
    sample_weight: WeightsLike
    on_missing: OnMissing

    def read_rows(
        self, models: object, settings: ReportSettings, limit: GroupLimit
    ) -> _ReportTable:
        """Open the rows, and read their moments.

        `models` are those of the user, whose restrictions may need further columns.

        Raises
        ------
        InvalidInput
            Invalid rows, or none.
        """
        if self.X is None:
            raise InvalidInput(
                "write_report received neither X nor moments",
                "Allowed: either rows (X and sensitive_features) or moments",
                "Pass X and sensitive_features to get intervals",
            )
        with caller_remedies(row_remedies(self.X)):
            rows = open_rows(
                self.X,
                self.sensitive_features,
                y=self.y,
                clusters=self.clusters,
                sample_weight=self.sample_weight,
                on_missing=self.on_missing,
                attributes=restriction_columns(models),
            )
            rows = match_groups(rows, known_labels_of(models))
            settings.check_size(rows.n_features)
            moments = compute_group_moments(rows, limit)
            return _ReportTable(moments, rows, compute_fingerprint(rows))

    def use_moments(self, moments: GroupMoments, models: object) -> _ReportTable:
        """Use moments instead of rows, which must all be None.

        Raises
        ------
        InvalidInput, InvalidType
        """
        row_arguments = (self.X, self.sensitive_features, self.y, self.clusters, self.sample_weight)
        _check_moments_only(row_arguments, moments)
        matched = moments.matched_to(known_labels_of(models))
        return _ReportTable(matched, None, sha256_of_bytes(matched.to_bytes()))


@dataclass(frozen=True, eq=False)
class ReportData:
    """Data of a report.

    Attributes
    ----------
    moments : GroupMoments
    rows : Rows or None
        Rows of these moments; None if only the moments are known.
    held_out : Rows or None
        Rows on which the user's models are audited, in place of these.
    max_memory : int or None
        Memory budget in bytes for moments by fold.
    """

    moments: GroupMoments
    rows: Rows | None
    held_out: Rows | None = None
    max_memory: int | None = None


def build_report_with_displays(
    data: ReportData,
    settings: ReportSettings,
    provenance: Provenance,
    user_models: Sequence[AuditedModel],
) -> Report:
    """Build a report with its additional displays.

    Labels of held-out rows are matched to those of the report.
    """
    held_out = data.held_out
    if held_out is not None:
        held_out = match_groups(held_out, KnownLabels.from_groups(data.moments.labels))
    report = build_report(
        data.moments,
        data.rows,
        settings,
        provenance,
        models=user_models,
        held_out=held_out,
        max_memory=data.max_memory,
    )
    return add_displays(report)


def _encode_test_rows(models: object, test: tuple[Any, Any] | None) -> tuple[Any, ...] | None:
    """Encode held-out rows by the first steps of pipelines; their labels may be columns of them."""
    encoded = None if test is None else encode_rows(models, test[0])
    if test is None or encoded is None:
        return test
    return (encoded.rows, *map(encoded.resolve, test[1:]))


def _open_test_rows(
    test: tuple[object, ...] | None, on_missing: OnMissing, attributes: Sequence[ColumnKey]
) -> Rows | None:
    """Open held-out rows, with their clusters if there is a third element; None without any.

    Held-out rows have no sample weights. `attributes` are columns that the models' restrictions
    need in addition to the features.
    """
    if test is None:
        return None
    X, sensitive_features, *clusters = test
    return open_rows(
        X,
        sensitive_features,
        clusters=clusters[0] if clusters else None,
        on_missing=on_missing,
        attributes=attributes,
    )


def add_displays(report: Report) -> Report:
    """Return the report with the additional displays that were requested.

    A display given by name, or by the import path of its class, is computed for an estimator fitted
    like the main model; a display that was computed before is taken as it is.
    """
    displays = []
    estimator = None  # fitted only if a display is given by name
    for requested in report.settings.displays:
        if isinstance(requested, str | ExternalObject) and estimator is None:
            estimator = _main_estimator(report)
        # A name is replaced by the display that its class computes from the estimator; for another
        # object, only its type is checked.
        display = resolve_object(
            "display",
            requested,
            Display,
            DISPLAYS.__getitem__,
            None,  # displays have no parameters here
            estimator,
        )
        name = requested if isinstance(requested, str) else type(display).__name__
        displays.append((name, cast(Display, display)))
    return replace(report, displays=tuple(displays))


def _main_estimator(report: Report) -> "FairPCA":
    """Refit the main model as an estimator, for displays."""
    from fairspan.estimator.fair_pca import FairPCA

    settings = report.settings
    estimator = FairPCA(
        report.main.n_components,
        criterion=settings.criterion,
        center=settings.center,
        scale=settings.scale,
    )
    with warnings.catch_warnings():
        # Suppress warnings that were already issued.
        warnings.simplefilter("ignore", FairspanWarning)
        return estimator.fit_moments(report.moments)


def write_page(path: str | os.PathLike[str], report: Report) -> None:
    """Write the page of a report atomically.

    Raises
    ------
    MissingDependency
    InvalidParameter
        The file cannot be written.
    """
    from fairspan.report.page import render_page  # needs optional packages

    write_atomic(path, render_page(report).encode())


def check_page_path(path: str | os.PathLike[str], X: TableLike = None) -> None:
    """Check the packages and the path of a page before reading rows, which may take long.

    The packages must be installed, and the path must end in .html or .htm, must not be that of the
    rows `X`, and its folder must exist.

    Raises
    ------
    MissingDependency
    InvalidParameter, InvalidType
    """
    check_required_packages("A report")
    if not isinstance(path, str | os.PathLike):
        raise InvalidType(
            f"path is {describe_type(path)}",
            "Allowed: the path of a file",
            'Pass the name of the page first, such as write_report("report.html", X, ...)',
        )
    inputs = []
    if isinstance(X, str | os.PathLike) and Path(X).exists():
        inputs.append(Path(X))
    check_output_path(Path(path), *inputs)
    check_suffix(path, "a page is", ".html", ".htm")


def _check_moments_only(row_arguments: Sequence[object], moments: object) -> None:
    """Check that the moments are GroupMoments and that no argument about rows is given."""
    if any(argument is not None for argument in row_arguments):
        raise InvalidInput(
            "write_report received both moments and rows, groups or weights",
            "Allowed: rows (X and sensitive_features), or moments in their place",
            "Pass only one of these; rows give intervals",
        )
    if not isinstance(moments, GroupMoments):
        raise not_moments_error(moments)


def _check_arguments(
    models: object, test: object, name: object, title: object, *, has_clusters: bool
) -> None:
    """Check the types of arguments of `write_report`, and that `test` comes with models.

    Raises
    ------
    InvalidInput, InvalidType
    """
    if test is not None and models is None:
        raise InvalidInput(
            "test was given without models",
            "Allowed: held-out rows together with fitted models",
            "Pass models=..., or omit test",
        )
    if test is not None and not (isinstance(test, tuple) and len(test) == 2 + has_clusters):
        clusters_text = ""
        clusters_example = ""
        if has_clusters:
            clusters_text = ", and clusters"
            clusters_example = ", clusters_test"
        raise InvalidType(
            f"test is {describe_type(test)}",
            f"Allowed: a tuple of X and sensitive_features{clusters_text}",
            f"Pass test=(X_test, groups_test{clusters_example})",
        )
    for parameter, text in (("name", name), ("title", title)):
        if text is not None and not isinstance(text, str):
            raise InvalidType(f"{parameter} is {describe_type(text)}", "Allowed: text", "Pass text")
