"""write_report: what PCA does to each group of some rows, as a page in one file."""

import os
import warnings
from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from fairspan.auditing.audit import check_one_assignment
from fairspan.auditing.expected_losses import DEFAULT_LEVEL, estimation_options
from fairspan.auditing.models import known_labels_of, restriction_columns
from fairspan.errors import (
    FairspanWarning,
    InvalidInput,
    InvalidType,
    MissingDependency,
    caller_remedies,
    describe_type,
)
from fairspan.extending import Display
from fairspan.moments.group_moments import GroupMoments
from fairspan.moments.of_rows import compute_dense_moments, not_moments_error
from fairspan.registry import ExternalObject, resolve_object
from fairspan.report.outputs import check_output_path
from fairspan.report.program import provenance_of_call
from fairspan.report.report import (
    Report,
    ReportSettings,
    build_report,
    making_a_report,
    read_user_models,
)
from fairspan.rows.attributes import ColumnKey
from fairspan.rows.label_matching import KnownLabels
from fairspan.rows.opening import (
    compute_fingerprint,
    match_groups,
    open_rows,
    row_remedies,
    sha256_of_bytes,
)
from fairspan.rows.protocol import GroupLimit, OnMissing, Rows
from fairspan.storage import check_suffix, write_atomic

_EXTRA, _REQUIRED_PACKAGES = "report", ("jinja2", "matplotlib")


@making_a_report()
def write_report(
    path: str | os.PathLike[str],
    X: Any = None,
    sensitive_features: Any = None,
    *,
    models: Any = None,
    test: tuple[Any, Any] | None = None,
    y: Any = None,
    clusters: Any = None,
    n_components: int | float | None = None,
    criterion: Any = "minimax_loss",
    compare: Sequence[Any] | None = None,
    center: Any = None,
    scale: bool | None = None,
    sample_weight: Any = None,
    moments: GroupMoments | None = None,
    max_groups: int | None = None,
    name: str | None = None,
    title: str | None = None,
    displays: Sequence[Any] | None = None,
    folds: int | None = 10,
    repeats: int = 1,
    level: float = DEFAULT_LEVEL,
    materiality: float = 0.01,
    on_missing: OnMissing = "error",
) -> dict[str, Any]:
    """Write a web page about the effect of PCA and of fair criteria on each group.

    The page is one HTML file that loads nothing else. The same rows and settings give an identical
    file. Needs the extra `report`.

    Parameters
    ----------
    path : path
        Where to write the page, which appears only when it is complete.
    X : (n, p) table of finite numbers
        As `GroupMoments.from_rows` takes it, of 1000 features at most. Rows are read four times,
        and four times more where the best subspaces of groups change with the rows left out.
    sensitive_features : (n,) or (n, a) array-like or data frame, or column name(s) of X
    models : model, or mapping of name to model, optional
        Fitted models, as :func:`fairspan.audit` takes them, which get a section of the page: also
        restricted, oblique and nested ones, pipelines, and models that are not projections.
    test : tuple of X and sensitive_features, optional
        Held-out rows on which the models are audited, instead of the rows of the page; with
        clusters, those of these rows come third.
    labels : (n,) array-like, or column name of X, optional
        y, the class of each row. It is needed to fit models again without each fold if their
        restriction holds in each class (`MeanParity(within_classes=...)`); it is not a feature.
    clusters : (n,) array-like, or column name of X, optional
        Rows that belong together, as in :func:`fairspan.audit`; a column is not a feature.
    n_components : int or float, optional
        d; or a share: the smallest d at which the criterion keeps that share of every group's
        variance. By default d of the first model, and 0.9 without models.
    criterion : str or criterion object, default="minimax_loss"
        The criterion that the page is mainly about.
    criteria : sequence of str or criterion objects, optional
        Those beside it; by default all, with their default settings.
    center : {"global", "group", "none"}, optional
        About which point errors are measured; by default as in the first model, or "global".
    scale : bool, optional
        Divide each feature by its pooled standard deviation first; by default if the first model
        does.
    sample_weight : (n,) array-like, or column name of X, optional
    moments : GroupMoments, optional
        Instead of rows; then there are no intervals.
    max_groups : int, optional
        Most groups that rows may have, by default 100.
    name : str, optional
        Name of the data; by default the name of their file.
    title : str, optional
    displays : sequence of str or Display, optional
        Pictures beside those of every page, such as "loadings", of the main answer; or display
        objects. `frame()` of each is in the result.
    folds : int or None
        Number of folds for cross-fitting, as in :func:`fairspan.audit`; None for
        figures on the rows alone.
    repeats : int
        How many assignments of rows to folds are tried, as in :func:`fairspan.audit`.
    level : float
        Level of the intervals, above 0.5 and below 1.
    material : float
        The least loss that matters, as a share of a group's variance, from 0 to below 1.
    on_missing : {"error", "drop", "em", "em-drop-empty"}
        What to do with rows, also those of `test`, in which a feature or the group is missing, as
        in :func:`fairspan.audit`.

    Returns
    -------
    dict
        What the page shows as plain values that JSON can hold: `Audit.to_dict()`, and what a page
        has beside it. Errors are in squared (scaled) units of the features.

    Raises
    ------
    InvalidInput
        Rows that cannot be used, one group only, or too many features.
    InvalidParameter, InvalidType
        A setting out of range, or a path that cannot be written.
    Incompatible
        The main criterion has no answer for these groups at this dimension.
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
    dimension_settings = (n_components, "global" if center is None else center, bool(scale))
    by_cluster = clusters is not None
    estimates = estimation_options(
        folds, level, materiality, 0, by_cluster=by_cluster, runs=repeats
    )
    settings = ReportSettings.validated(
        criterion, compare, *dimension_settings, displays, estimates
    )
    _check_arguments(models, test, name, title, by_cluster=by_cluster)
    limit = GroupLimit(max_groups)
    check_page_path(path, X)
    rows, attributes = None, restriction_columns(models)
    if moments is None:
        if X is None:
            raise InvalidInput(
                "write_report received neither X nor moments",
                "Allowed: rows (X and sensitive_features), or moments in their place",
                "Pass X and sensitive_features to get intervals",
            )
        beside = {"y": y, "clusters": clusters}
        with caller_remedies(row_remedies(X)):
            rows = open_rows(
                X, sensitive_features, beside, sample_weight, on_missing, attributes=attributes
            )
            rows = match_groups(rows, known_labels_of(models, has_classes=y is not None))
            settings.check_size(rows.n_features)
            has_y = y is not None
            moments = compute_dense_moments(rows, limit, has_y=has_y, by_cluster=by_cluster)
            fingerprint = compute_fingerprint(rows)
    else:
        _check_moments_only((X, sensitive_features, y, clusters, sample_weight), moments)
        check_one_assignment(repeats)
        has_classes = moments.by_class is not None
        moments = moments.matched_to(known_labels_of(models, has_classes=has_classes))
        fingerprint = sha256_of_bytes(moments.to_bytes())
    origin = provenance_of_call(
        X,
        sensitive_features,
        fingerprint,
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
        material=materiality,
    )
    given = () if models is None else read_user_models(models, moments)
    if given:
        first = given[0].subspace
        dimension_settings = (
            first.dimension if n_components is None else n_components,
            first.center if center is None else center,
            first.scale is not None if scale is None else scale,
        )
        settings = ReportSettings.validated(
            criterion, compare, *dimension_settings, displays, estimates
        )
    with caller_remedies({} if test is None else row_remedies(test[0])):
        held_out = _opened_test(test, on_missing, attributes)
        if held_out is not None:
            held_out = match_groups(held_out, KnownLabels.from_groups(moments.labels))
        report = build_report(moments, rows, settings, origin, models=given, test=held_out)
    report = add_displays(report)
    write_page(path, report)
    return report.to_dict()


def _opened_test(
    test: tuple[Any, ...] | None, on_missing: OnMissing, attributes: Sequence[ColumnKey]
) -> Rows | None:
    """Return held-out rows, with their clusters where these come third."""
    if test is None:
        return None
    X, sensitive_features, *clusters = test
    beside = {"clusters": clusters[0] if clusters else None}
    return open_rows(X, sensitive_features, beside, None, on_missing, attributes=attributes)


def add_displays(report: Report) -> Report:
    """The same with the pictures that were requested beside those of every page."""
    displays, estimator = [], None
    for each in report.settings.displays:
        if isinstance(each, str | ExternalObject) and estimator is None:
            estimator = _main_estimator(report)
        display = resolve_object("display", each, Display, None, estimator)
        displays.append((each if isinstance(each, str) else type(display).__name__, display))
    return replace(report, displays=tuple(displays))


def _main_estimator(report: Report) -> Any:
    """The main answer once more, as the estimator that displays take."""
    from fairspan.estimator.fair_pca import FairPCA  # takes its time

    dimension_settings = report.settings
    estimator = FairPCA(
        report.main.n_components,
        criterion=dimension_settings.criterion,
        center=dimension_settings.center,
        scale=dimension_settings.scale,
    )
    with warnings.catch_warnings():
        # Whatever there is to warn of was said before.
        warnings.simplefilter("ignore", FairspanWarning)
        return estimator.fit_moments(report.moments)


def write_page(path: str | os.PathLike[str], report: Report) -> None:
    """Write the page of a report; the file appears only when it is complete.

    Raises
    ------
    MissingDependency
    InvalidParameter
        The file cannot be written.
    """
    from fairspan.report.page import render_page

    write_atomic(path, render_page(report).encode())


def check_page_path(path: str | os.PathLike[str], X: Any = None) -> None:
    """Make sure, before anything is read, that a page can be made and has a place to go to.

    Raises
    ------
    MissingDependency
    InvalidParameter, InvalidType
    """
    for package in _REQUIRED_PACKAGES:
        if find_spec(package) is None:
            raise MissingDependency.for_extra(package, _EXTRA, "A report")
    if not isinstance(path, str | os.PathLike):
        raise InvalidType(
            f"path is {describe_type(path)}",
            "Allowed: the path of a file",
            'Pass the name of the page first, such as write_report("report.html", X, ...)',
        )
    check_output_path(
        Path(path), *([Path(X)] if isinstance(X, str | os.PathLike) and Path(X).exists() else [])
    )
    check_suffix(path, "a page is", ".html", ".htm")


def _check_moments_only(row_arguments: Sequence[Any], moments: Any) -> None:
    if any(each is not None for each in row_arguments):
        raise InvalidInput(
            "write_report received moments, and rows, groups or weights beside them",
            "Allowed: rows (X and sensitive_features), or moments in their place",
            "Pass one of these; rows give intervals",
        )
    if not isinstance(moments, GroupMoments):
        raise not_moments_error(moments)


def _check_arguments(
    models: Any, test: Any, name: object, title: object, *, by_cluster: bool
) -> None:
    if test is not None and models is None:
        raise InvalidInput(
            "test was given without models",
            "Allowed: held-out rows beside fitted models, which they judge",
            "Pass models=..., or leave out test",
        )
    if test is not None and not (isinstance(test, tuple) and len(test) == 2 + by_cluster):
        clusters_text, clusters_example = (
            (", and clusters", ", clusters_test") if by_cluster else ("", "")
        )
        raise InvalidType(
            f"test is {describe_type(test)}",
            f"Allowed: a tuple of X and sensitive_features{clusters_text}",
            f"Pass test=(X_test, groups_test{clusters_example})",
        )
    for what, text in (("name", name), ("title", title)):
        if text is not None and not isinstance(text, str):
            raise InvalidType(f"{what} is {describe_type(text)}", "Allowed: text", "Pass text")
