"""Audit one or several projections: what they do to each group, and how that is shown."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from fairspan.auditing.evaluation import evaluate_on_moments, evaluate_on_rows
from fairspan.auditing.expected_losses import (
    DEFAULT_LEVEL,
    DEFAULT_OPTIONS,
    EstimationOptions,
    estimation_options,
)
from fairspan.auditing.feature_errors import FeatureErrors
from fairspan.auditing.findings import data_findings, model_findings
from fairspan.auditing.models import (
    AuditedModel,
    audited_models,
    known_labels_of,
    restriction_columns,
)
from fairspan.auditing.results import (
    AuditedRows,
    Finding,
    MissingValues,
    ModelResult,
    Verdict,
    change_records,
    make_verdicts,
)
from fairspan.auditing.row_findings import (
    FirstRowsSummary,
    missing_values_table,
    row_findings,
    summarize_first_rows,
    summarize_missing_values,
)
from fairspan.auditing.table import audit_table
from fairspan.errors import InvalidInput, InvalidType, caller_remedies
from fairspan.formatting.export import to_data_frame
from fairspan.formatting.table import Table
from fairspan.formatting.text import MAX_WIDTH, Styler, unstyled, wrap_text
from fairspan.linalg.resources import explain_memory_errors
from fairspan.moments.group_moments import GroupMoments
from fairspan.moments.of_rows import DenseFoldMoments, FoldMoments, Moments
from fairspan.registry import get_factory
from fairspan.rows.arrays import InMemoryRows
from fairspan.rows.missing import count_missing
from fairspan.rows.opening import (
    match_groups,
    open_rows,
    row_remedies,
    warn_about_unused_categories,
)
from fairspan.rows.protocol import GroupLimit, OnMissing, Rows

_FINDING_INDENT = " " * len("FS101 ")
_SEED_STRIDE = 10


@dataclass(frozen=True)
class Audit:
    """The result of :func:`audit`. Printing it shows the verdict, a table and the findings.

    Attributes
    ----------
    models : tuple of ModelResult
        All figures, in the order of the models.
    findings : tuple of Finding
        Notes and warnings in words, with stable codes.
    rows : AuditedRows
    verdicts : tuple of Verdict
        One for each model that is compared with ordinary PCA; of PCA alone if there is none.
    level : float
        Level of the intervals.
    material : float
        The least loss that matters, as a share of a group's variance.
    """

    models: tuple[ModelResult, ...]
    findings: tuple[Finding, ...]
    rows: AuditedRows
    verdicts: tuple[Verdict, ...] = ()
    level: float = DEFAULT_LEVEL
    materiality: float = 0.01

    @property
    def verdict(self) -> Verdict:
        """Whether ordinary PCA harms a group on new rows, and whether the first model helps.

        Raises
        ------
        InvalidInput
            The audit was made without folds, or of moments that are not blocks.
        """
        if not self.verdicts:
            raise InvalidInput(
                "This audit holds no estimates for new rows, so there is no verdict",
                "Allowed: audits of rows with folds, or of several blocks of moments",
                "Leave folds at its default, 10",
            )
        return self.verdicts[0]

    def changes(self) -> Any:
        """The change of each group's expected error from ordinary PCA to a fair model.

        Returns
        -------
        pandas.DataFrame
            Columns: model, group, rows, share (of all rows), change (in expected error; below zero
            the group gains), change_low and change_high, which hold for all groups at once.

        Raises
        ------
        MissingDependency
            pandas is not installed.
        """
        return to_data_frame(change_records(self.models), "Audit.changes()")

    def to_records(self) -> list[dict[str, Any]]:
        """One flat dictionary for each group of each model; None where there is no figure."""
        return [record for model in self.models for record in model.records]

    def frame(self) -> Any:
        """The data as a pandas DataFrame: one row for each group of each model.

        Returns
        -------
        pandas.DataFrame
            Columns: model, group, n, n_clusters (with `clusters`), proportion. On these rows:
            observed_total_variance, observed_error with observed_error_low and observed_error_high,
            observed_best_error, observed_loss, observed_variance_kept, observed_kurtosis, and drift (change of the
            error since the fit on other rows) with _low and _high. For new rows: expected_error and
            expected_loss with _low and _high, cross_fitted_loss, expected_best_error, state
            ("harmed", "minor", "no material harm", "inconclusive"), relative_optimism,
            expected_change with _low and _high, n_rows_needed and min_detectable_loss. Of the model:
            observed_disparity and expected_disparity with _low and _high, instability and min_cosine
            (of a model fitted on these rows, how much it depends on them), n_components, center.

        Raises
        ------
        MissingDependency
            pandas is not installed.
        """
        return to_data_frame(self.to_records(), "Audit.frame()")

    def feature_errors(self) -> Any:
        """The error of each feature in each group under every projection.

        Returns
        -------
        pandas.DataFrame
            Columns: model, group, feature, observed_error (on these rows; over the features they sum to
            the error of the group) and expected_error (on new rows), in squared units of the
            features, scaled where the model scales. With P the projection and S_g the second moment
            of the group, they are the diagonal of (I - P) S_g (I - P).

        Raises
        ------
        MissingDependency
            pandas is not installed.

        Examples
        --------
        >>> import numpy as np
        >>> from fairspan import audit
        >>> X = np.array([[3.0, 1], [-3, -1], [1, 2], [-1, -2]])
        >>> result = audit(np.eye(2)[:1], X, ["a", "a", "b", "b"])
        >>> result.feature_errors()[["group", "feature", "observed_error"]].round(3).values.tolist()
        [['a', 'x0', 0.0], ['a', 'x1', 1.0], ['b', 'x0', 0.0], ['b', 'x1', 4.0]]
        """
        return to_data_frame(
            [record for each in self._feature_error_tables for record in each.records],
            "Audit.feature_errors()",
        )

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values, ready for JSON."""
        return {
            "verdict": asdict(self.verdicts[0]) if self.verdicts else None,
            "verdicts": [asdict(verdict) for verdict in self.verdicts],
            "changes": change_records(self.models),
            "level": self.level,
            "materiality": self.materiality,
            "rows": asdict(self.rows),
            "models": [model.to_dict() for model in self.models],
            "findings": [
                {**asdict(each), "qualifies_verdict": each.qualifies_verdict}
                for each in self.findings
            ],
            "feature_errors": [
                record for each in self._feature_error_tables for record in each.top().records
            ],
        }

    def plot(self, ax: Any = None, *, quantity: str | None = None) -> Any:
        """Draw a figure of every group under every model; needs the extra `plot`.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; without it, a new figure is made with pyplot.
        quantity : {"expected_loss", "observed_error", "observed_loss", "observed_variance_kept"}, optional
            The loss on new rows with its interval, which is shown by default where it is known; on
            these rows, e_g with its interval, e_g - e*_g, or 1 - e_g / tr S_g. The last two have
            no intervals.

        Returns
        -------
        displays.AuditDisplay
            With `ax_`, `figure_` and `frame()`, as scikit-learn's displays.

        Raises
        ------
        InvalidParameter
            Another quantity.
        InvalidInput
            Expected losses of an audit that has none.
        """
        return get_factory("result_display", "audit")(self, quantity).plot(ax)

    def table(self) -> Table:
        """The figures of every group under every model, with verdicts and findings as notes."""
        table = audit_table(self.models, self.rows.n_features, self.level, self.rows.dropped_text)
        verdicts = [(title, f": {each}") for title, each in self._titled_verdicts()]
        # A warning has its code emphasised.
        findings = [
            (each.code, f" {each.message}") if each.severity == "warning" else str(each)
            for each in self.findings
        ]
        return replace(table, notes=(*verdicts, *findings))

    def to_text(self, width: int = MAX_WIDTH, paint: Styler = unstyled) -> str:
        """The verdict, the table and the findings, in lines of at most `width` columns.

        Parameters
        ----------
        width : int
        paint : callable
            Colours words; by default none.
        """
        verdicts = [
            line
            for title, each in self._titled_verdicts()
            for line in wrap_text(f"{title}: {each}", width, "  ")
        ]
        findings = [
            line
            for each in self.findings
            for line in format_finding(each.code, each.severity, each.message, width, paint)
        ]
        missing = self.rows.missing
        return "\n".join(
            [
                *([*verdicts, ""] if verdicts else []),
                self.table().to_text(width, paint),
                "",
                *([missing_values_table(missing).to_text(width, paint), ""] if missing else []),
                *findings,
            ]
        ).rstrip()

    def __repr__(self) -> str:
        return self.to_text()

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()

    @property
    def _feature_error_tables(self) -> list[FeatureErrors]:
        return [each.feature_errors for each in self.models if each.feature_errors is not None]

    def _titled_verdicts(self) -> list[tuple[str, Verdict]]:
        """Each verdict under the name of its model, where there are several."""
        several = len(self.verdicts) > 1
        return [(each.model if several else "Verdict", each) for each in self.verdicts]


def format_finding(code: str, severity: str, message: str, width: int, paint: Styler) -> list[str]:
    """A finding in lines of at most `width` columns; the code of a warning is coloured."""
    first_rows, *others = wrap_text(f"{code} {message}", width, _FINDING_INDENT)
    if severity == "warning":
        first_rows = paint(code, "warning") + first_rows.removeprefix(code)
    return [first_rows, *others]


def audit(
    models: Any,
    X: Any = None,
    sensitive_features: Any = None,
    *,
    y: Any = None,
    sample_weight: Any = None,
    moments: GroupMoments | Sequence[GroupMoments] | None = None,
    folds: int | None = 10,
    repeats: int = 1,
    clusters: Any = None,
    level: float = DEFAULT_LEVEL,
    materiality: float = 0.01,
    random_state: Any = 0,
    max_groups: int | None = None,
    on_missing: OnMissing = "error",
) -> Audit:
    """Measure the errors and losses of each group under one or several models, with intervals.

    Parameters
    ----------
    models : model, or mapping of name to model
        Any fitted object with `transform` and `inverse_transform`: a FairPCA, a PCA, a pipeline
        (its steps up to the first that cannot be undone, such as a classifier), a KernelPCA; or a
        FairSubspace, the path of a saved one, or a (d, p) array with orthonormal rows. Each
        reconstructs with its own mean and scale; a model with center="group" is judged about each
        group's own mean, a bare array about the mean of the audited rows. Where a pipeline first
        standardizes features, errors are in standardized units. A model that is not a projection,
        such as a KernelPCA, has errors by rows, and no estimates for new rows. Beside a FairPCA,
        ordinary PCA of the rows that it was fitted on is added under the name "PCA", judged about
        the same centre.
    X : (n, p) table of finite numbers
        Training or held-out rows, as `GroupMoments.from_rows` takes them.
    sensitive_features : (n,) or (n, a) array-like or data frame, or column name(s) of X
    labels : (n,) array-like, or column name of X, optional
        y, the class of each row. It is needed to fit models again without each fold if their
        restriction holds in each class (`MeanParity(within_classes=...)`).
    sample_weight : (n,) array-like, or column name of X, optional
        The intervals treat them as sampling weights.
    moments : GroupMoments, or sequence of them, instead of rows
        One object gives no intervals; a sequence of at least two blocks gives jackknife intervals,
        and estimates for new rows with blocks in place of folds.
    folds : int or None
        K, the number of folds for cross-fitting. Models that were fitted on these rows are fitted
        again without each part, with their own settings. Five where matrices of all groups in ten
        parts would exceed 2 GiB. The fold of a row depends only on its position in the whole
        table, or in its part of the table if the numbers of rows in the parts before are not known
        (folders of CSV files, Spark, most Dask frames). None gives figures on the rows alone, in
        much less time.
    repeats : int
        How many assignments of rows to folds are tried. With several, the result is that of the
        first with the most frequent verdict, which says in how many it was found. It takes as many
        times as long.
    clusters : (n,) array-like, or column name of X, optional
        Rows that belong together, such as those of one person. They stay in one fold, and count as
        one observation in the intervals.
    level : float
        Level of the intervals, above 0.5 and below 1.
    material : float
        The least loss that matters, as a share of a group's variance, from 0 to below 1.
    random_state : int, Generator, RandomState or None
        For the assignment of rows to folds.
    max_groups : int, optional
        Most groups that rows may have, by default 100, or as many as a model was fitted on.
    on_missing : {"error", "drop", "em", "em-drop-empty"}
        What to do with rows in which a feature or the group is missing. Those that are dropped are
        counted by group and feature in `rows.missing`. With "em", as of
        :meth:`GroupMoments.from_rows`, rows keep missing cells: figures on these rows are what
        the observed cells let expect, and intervals allow for what is missing. A row in which
        every feature is missing is then an error; "em-drop-empty" leaves such rows out.

    Returns
    -------
    Audit

    Raises
    ------
    InvalidInput
        Neither rows nor moments, or both; rows that cannot be used.
    UnknownGroup
        A group that a model was not fitted on.
    InvalidType
        A model of another kind, or one that is not fitted.
    Incompatible
        Moments instead of rows, for a model that is not a projection.

    Notes
    -----
    The expected loss of a group is corrected for the effect of chance on its best error on the
    rows; its interval runs from the low end of the cross-fitted loss to the high end of the
    corrected loss. Intervals of losses and changes hold for all groups at once (Bonferroni), and
    decide the states and the verdict; those of errors are of one group. Errors have Student
    intervals from the squared residuals of the rows; the disparity of two groups has Welch's, that
    of more groups a simultaneous one (Bonferroni) over all pairs.

    A model that was fitted on the audited rows varies with them. For expected errors, changes and
    disparities the interval is the estimate +- t sqrt(se^2 + j^2), where se is the standard error
    and j^2 = (K - 1) / K sum_f (theta_f - mean)^2 the delete-a-fold jackknife of theta_f, the
    figure under the fit without fold f, over all rows of the group (Efron and Tibshirani 1993,
    chapter 11). It then is an interval for the model as it is, not for its average over other rows.

    Missing cells are drawn ten times from a normal model of each group, which is drawn too
    (multiple imputation); intervals follow the rules of Rubin (1987).

    Examples
    --------
    >>> import numpy as np
    >>> from fairspan import FairPCA, audit
    >>> rng = np.random.default_rng(0)
    >>> X = np.vstack([rng.normal(size=(60, 3)) * [3, 1, 1], rng.normal(size=(40, 3)) * [1, 2, 1]])
    >>> groups = ["a"] * 60 + ["b"] * 40
    >>> result = audit(FairPCA(1).fit(X, sensitive_features=groups), X, groups)
    >>> [model.name for model in result.models]
    ['minimax_loss', 'PCA']
    >>> [finding.code for finding in result.findings]
    ['FS202', 'FS203', 'FS201', 'FS205', 'FS302', 'FS303']
    >>> result.verdict.kind
    'harm, repair shifts it'
    """
    if (X is None) == (moments is None):
        raise InvalidInput(
            "audit received " + ("neither X nor moments" if X is None else "both X and moments"),
            "Allowed: rows (X and sensitive_features), or moments in their place",
            "Pass X and sensitive_features to get intervals",
        )
    options = estimation_options(
        folds,
        level,
        materiality,
        random_state,
        by_cluster=clusters is not None,
        has_y=y is not None,
        runs=repeats,
    )
    extra_labels = {"y": y, "clusters": clusters}
    if X is not None:
        attributes = restriction_columns(models)
        with caller_remedies(row_remedies(X)):
            rows = open_rows(
                X,
                sensitive_features,
                extra_labels,
                sample_weight,
                on_missing,
                attributes=attributes,
            )
            warn_about_unused_categories(rows)
            audited = audited_models(models, rows.n_features)
            rows = match_groups(rows, known_labels_of(audited, has_classes=y is not None))
            return audit_rows(audited, rows, options=options, max_groups=max_groups)
    for name, values in extra_labels.items():
        if values is not None:
            raise InvalidInput(
                f"{name} was given with moments",
                f"Allowed: {name} of rows",
                "Make each block of moments of whole clusters, and of rows with labels",
            )
    check_one_assignment(repeats)
    blocks = [moments] if isinstance(moments, GroupMoments) else moments
    if not isinstance(blocks, Sequence) or not all(
        isinstance(each, GroupMoments) for each in blocks
    ):
        raise InvalidType(
            f"moments is a {type(moments).__name__}",
            "Allowed: a GroupMoments, or a sequence of them",
            "Make them with GroupMoments.from_rows or GroupMoments.load",
        )
    if not blocks:
        raise InvalidInput("moments is empty", "Allowed: at least one block", "Pass a block")
    blocks = [each.with_attributes(restriction_columns(models)) for each in blocks]
    audited = audited_models(models, blocks[0].n_features)
    known = known_labels_of(audited, has_classes=blocks[0].by_class is not None)
    return audit_moments(audited, [each.matched_to(known) for each in blocks], options)


def check_one_assignment(repeats: int) -> None:
    """Make sure that moments are not to be assigned to folds several times.

    Raises
    ------
    InvalidInput
    """
    if repeats > 1:
        raise InvalidInput(
            f"repeats is {repeats}, and moments were given",
            "Allowed: several assignments of rows to folds; blocks of moments are folds themselves",
            "Leave repeats at its default, 1",
        )


def audit_rows(
    audited: Sequence[AuditedModel],
    rows: Rows,
    moments: Moments | None = None,
    *,
    options: EstimationOptions = DEFAULT_OPTIONS,
    max_groups: int | None = None,
) -> Audit:
    """Audit on rows, read twice: for moments, and for spreads."""
    return audit_rows_with_folds(audited, rows, moments, options=options, max_groups=max_groups)[0]


@explain_memory_errors()
def audit_rows_with_folds(
    audited: Sequence[AuditedModel],
    source: Rows,
    moments: Moments | None = None,
    *,
    options: EstimationOptions = DEFAULT_OPTIONS,
    max_groups: int | None = None,
) -> tuple[Audit, FoldMoments | None]:
    """The same, and the moments by fold where estimates for new rows were made."""
    names = next(filter(None, (each.subspace.feature_names for each in audited)), None)
    if names is not None:
        source = source.select_features(names)
    limit = GroupLimit(
        max_groups,
        n_fitted_groups=max(len(each.training_groups) for each in audited),
        max_memory=options.max_memory,
    )
    # Folds, blocks and draws are those of the rows that remain, so the figures are those of a table
    # from which the others were removed before.
    rows = source
    n_dropped = 0
    if isinstance(source, InMemoryRows) and source.on_missing == "drop":
        rows, n_dropped = source.without_dropped()
    runs = []
    for repeat in range(options.repeats):
        # Seeds in between are those of the further assignments that one audit may make.
        run_options = replace(options, seed=options.seed + _SEED_STRIDE * repeat)
        runs.append(evaluate_on_rows(audited, rows, moments, limit, run_options))
        moments = runs[0][1]
    _, moments, monotone_columns, _ = runs[0]
    moments = replace(moments, n_dropped=max(moments.n_dropped, n_dropped))
    n_beside = options.has_y + options.has_clusters
    first_rows = summarize_first_rows(
        audited, rows, moments, n_beside, by_cluster=options.has_clusters
    )
    is_incomplete = moments.n_dropped > 0 or moments.imputation_model is not None
    cells = count_missing(source, n_beside) if is_incomplete else None
    columns = source.feature_names or tuple(f"x{j}" for j in range(source.n_features))
    missing = summarize_missing_values(cells, first_rows, moments, columns)
    audits = [
        _assemble_audit(audited, results, moments, options, monotone_columns, first_rows, missing)
        for results, *_ in runs
    ]
    selected = _index_of_modal_verdict([[each.kind for each in audit.verdicts] for audit in audits])
    found = replace(audits[selected], verdicts=_with_agreement(audits, selected))
    folds = runs[selected][3]
    if isinstance(folds, DenseFoldMoments):
        folds = replace(folds, n_dropped=max(folds.n_dropped, n_dropped))
    return found, folds


def _index_of_modal_verdict(verdict_kinds: Sequence[Sequence[str]]) -> int:
    """Position of the first audit with the most frequent kind of its first verdict."""
    firsts = [each[0] if each else "" for each in verdict_kinds]
    return firsts.index(max(firsts, key=firsts.count))


def _with_agreement(audits: Sequence[Audit], selected: int) -> tuple[Verdict, ...]:
    """The verdicts of one of several audits, with how many gave the same kind."""
    verdicts_by_model = zip(*(audit.verdicts for audit in audits), strict=True)
    return tuple(
        replace(
            each[selected],
            n_agreeing=sum(other.kind == each[selected].kind for other in each),
            n_repeats=len(audits),
        )
        for each in verdicts_by_model
    )


@explain_memory_errors()
def audit_moments(
    audited: Sequence[AuditedModel],
    blocks: Sequence[GroupMoments],
    options: EstimationOptions = DEFAULT_OPTIONS,
) -> Audit:
    """Audit on moments alone; two or more blocks give jackknife intervals."""
    pooled = sum(blocks[1:], start=blocks[0])
    results = evaluate_on_moments(audited, pooled, blocks, options)
    return _assemble_audit(audited, results, pooled, options, has_intervals=len(blocks) > 1)


def _assemble_audit(
    audited: Sequence[AuditedModel],
    results: Sequence[ModelResult],
    moments: Moments,
    options: EstimationOptions,
    monotone_columns: tuple[int, ...] = (),
    first_rows: FirstRowsSummary | None = None,
    missing: MissingValues | None = None,
    *,
    has_intervals: bool = True,
) -> Audit:
    rows = AuditedRows(
        int(moments.counts.sum()),
        moments.n_features,
        has_intervals,
        moments.n_dropped,
        missing,
        options.has_clusters,
    )
    has_estimates = options.folds is not None and has_intervals
    findings = [
        *data_findings(audited, moments, monotone_columns),
        *row_findings(missing, None if options.has_clusters else first_rows, moments),
        *model_findings(results, rows),
    ]
    return Audit(
        tuple(results),
        tuple(sorted(findings, key=lambda each: each.severity != "warning")),
        rows,
        make_verdicts(results, findings, options.level, options.materiality)
        if has_estimates
        else (),
        options.level,
        options.materiality,
    )
