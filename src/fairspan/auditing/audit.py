"""The `audit` function and the `Audit` result."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from fairspan.auditing.audit_table import audit_table
from fairspan.auditing.audited_rows import AuditedRows, MissingValues
from fairspan.auditing.estimation_options import (
    DEFAULT_OPTIONS,
    EstimationOptions,
    estimation_options,
)
from fairspan.auditing.evaluation import Evaluation, evaluate_on_moments, evaluate_on_rows
from fairspan.auditing.feature_errors import FeatureErrors
from fairspan.auditing.findings.all_rules import AuditedData, find_in_data, find_in_results
from fairspan.auditing.findings.finding import Finding
from fairspan.auditing.first_rows import summarize_first_rows
from fairspan.auditing.intervals import DEFAULT_LEVEL
from fairspan.auditing.missing_values import missing_values_table, summarize_missing_values
from fairspan.auditing.models import (
    AuditedModel,
    audited_models,
    known_labels_of,
    restriction_columns,
)
from fairspan.auditing.results import ModelResult, change_records
from fairspan.auditing.verdict import Verdict
from fairspan.auditing.verdict_rules import make_verdicts
from fairspan.class_loaders import load_class
from fairspan.errors import InvalidInput, InvalidType, caller_remedies
from fairspan.formatting.export import to_data_frame
from fairspan.formatting.table import Table
from fairspan.formatting.terminal import MAX_WIDTH, Styler, unstyled, wrap_text
from fairspan.linalg.memory import explain_memory_errors
from fairspan.moments.compute import Moments
from fairspan.moments.fold_moments import FoldMoments
from fairspan.moments.group_moments import GroupMoments
from fairspan.rows.aggregation import Rows, with_row_offsets
from fairspan.rows.blocks import OnMissing
from fairspan.rows.group_limit import GroupLimit
from fairspan.rows.missing import count_missing
from fairspan.rows.opening import (
    match_groups,
    open_rows,
    row_remedies,
    warn_about_unused_categories,
)
from fairspan.typing import PlottedDisplay

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_FINDING_INDENT = " " * len("FS101 ")
# Difference between the seeds of two repeats. One audit uses its seed and the next four at most.
_SEED_STRIDE = 10


@dataclass(frozen=True)
class Audit:
    """Result of :func:`audit`; printing it shows the verdict, a table and the findings.

    Attributes
    ----------
    models : tuple of ModelResult
        Results by model, in input order.
    findings : tuple of Finding
        Notes and warnings, each with a stable code; warnings come first.
    rows : AuditedRows
    verdicts : tuple of Verdict
        One verdict per model that is compared with ordinary PCA; if there is no such model, one
        verdict per model on its own.
    level : float
        Confidence level of the intervals.
    materiality : float
        Materiality threshold: the smallest loss that counts, as a share of the group's variance.
    """

    models: tuple[ModelResult, ...]
    findings: tuple[Finding, ...]
    rows: AuditedRows
    verdicts: tuple[Verdict, ...] = ()
    level: float = DEFAULT_LEVEL
    materiality: float = 0.01

    @property
    def verdict(self) -> Verdict:
        """First verdict: whether ordinary PCA harms a group on new rows, and whether repair helps.

        Raises
        ------
        InvalidInput
            The audit has no estimates for new rows: it was made without folds, or from a single set
            of moments.
        """
        if not self.verdicts:
            raise InvalidInput(
                "This audit has no estimates for new rows, so there is no verdict",
                "Allowed: audits of rows with folds, or of several blocks of moments",
                "Use the default, folds=10",
            )
        return self.verdicts[0]

    def changes(self) -> Any:
        """Return the change in each group's expected error from ordinary PCA to each fair model.

        Returns
        -------
        pandas.DataFrame
            Columns: model, group, n_rows, proportion (of all rows), expected_change (in error;
            negative is an improvement), expected_change_low and expected_change_high (simultaneous
            over groups). Models without baseline and groups without estimates are omitted.

        Raises
        ------
        MissingDependency
            pandas is not installed.
        """
        return to_data_frame(change_records(self.models), "Audit.changes()")

    def to_records(self) -> list[dict[str, object]]:
        """Return one flat dictionary per model and group.

        Values that are not available are None.
        """
        return [record for model in self.models for record in model.records]

    def frame(self) -> Any:
        """Return the results as a DataFrame with one row per model and group.

        Returns
        -------
        pandas.DataFrame
            Columns: model, group, n_rows, n_clusters (None unless `clusters` was given),
            proportion. Observed on the audited rows: observed_total_variance, observed_error with
            _low and _high, observed_best_error, observed_loss, observed_variance_kept,
            observed_kurtosis, and drift (change in error since the fit, for models fitted to other
            rows) with _low and _high.
            Expected on new rows: expected_error and expected_loss with _low and _high,
            cross_fitted_loss, expected_best_error, state, relative_optimism, expected_change with
            _low and _high, n_rows_needed and min_detectable_loss. Per model: observed_disparity and
            expected_disparity with _low and _high, instability and min_cosine (sensitivity of an
            in-sample model to its rows), n_components, center.

        Raises
        ------
        MissingDependency
            pandas is not installed.
        """
        return to_data_frame(self.to_records(), "Audit.frame()")

    def feature_errors(self) -> Any:
        """Return the error of each feature by model and group.

        Returns
        -------
        pandas.DataFrame
            Columns: model, group, feature, observed_error (on the audited rows; sums over features
            to the group's error) and expected_error (on new rows), in squared units of the
            features, scaled if the model scales. With P the projection and S_g the second moment
            matrix of the group, these are the diagonal of (I - P) S_g (I - P).

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
            [record for table in self._feature_error_tables for record in table.records],
            "Audit.feature_errors()",
        )

    def to_dict(self) -> dict[str, object]:
        """Return the audit as JSON-serializable values.

        Errors by feature are those of the 20 features with the largest ones; from the twentieth on
        they are summed if there are more. :meth:`feature_errors` returns all.
        """
        feature_error_records = [
            record for table in self._feature_error_tables for record in table.top().records
        ]
        return {
            # The first of the verdicts, or None without estimates for new rows.
            "verdict": asdict(self.verdicts[0]) if self.verdicts else None,
            "verdicts": [asdict(verdict) for verdict in self.verdicts],
            "changes": change_records(self.models),
            "level": self.level,
            "materiality": self.materiality,
            "rows": asdict(self.rows),
            "models": [model.to_dict() for model in self.models],
            "findings": [finding.to_dict() for finding in self.findings],
            "feature_errors": feature_error_records,
        }

    def plot(self, ax: "Axes | None" = None, *, quantity: str | None = None) -> PlottedDisplay:
        """Plot one quantity for every model and group (requires the `plot` extra).

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Axes to draw on; by default, a new pyplot figure is created.
        quantity : str, optional
            Quantity to plot: "expected_loss" on new rows (default if it was estimated),
            "observed_error", "observed_loss" or "observed_variance_kept" (as a share). Only the
            first two have intervals.

        Returns
        -------
        displays.AuditDisplay
            Display with `ax_`, `figure_` and `frame()`, following scikit-learn's convention.

        Raises
        ------
        InvalidParameter
            `quantity` is not one of the allowed values.
        InvalidInput
            The expected loss was requested, but the audit has no estimates.
        """
        # By name, since displays are built on audits, and few audits are drawn.
        display = load_class("result display", "audit").compute(self, quantity)
        return cast(PlottedDisplay, display.plot(ax))

    def table(self) -> Table:
        """Return the results by model and group as a table, with verdicts and findings as notes.

        A note is a text, or a pair of an emphasized text and the rest.
        """
        table = audit_table(self.models, self.rows.n_features, self.level, self.rows.dropped_text)
        verdicts = [(title, f": {verdict}") for title, verdict in self._titled_verdicts()]
        # Emphasize the codes of warnings.
        findings: list[str | tuple[str, str]] = []
        for finding in self.findings:
            if finding.severity == "warning":
                findings.append((finding.code, f" {finding.message}"))
            else:
                findings.append(str(finding))
        return replace(table, notes=(*verdicts, *findings))

    def to_text(self, width: int = MAX_WIDTH, paint: Styler = unstyled) -> str:
        """Format the verdicts, tables and findings as text of at most `width` columns.

        Parameters
        ----------
        width : int
        paint : callable
            Function (text, role) -> text that adds color; by default none is added.
        """
        lines = []
        for title, verdict in self._titled_verdicts():
            lines += wrap_text(f"{title}: {verdict}", width, "  ")
        if lines:
            lines.append("")
        lines += [self.table().to_text(width, paint), ""]
        if self.rows.missing:
            lines += [missing_values_table(self.rows.missing).to_text(width, paint), ""]
        for finding in self.findings:
            lines += format_finding(finding.code, finding.severity, finding.message, width, paint)
        return "\n".join(lines).rstrip()

    def __repr__(self) -> str:
        return self.to_text()

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()

    @property
    def _feature_error_tables(self) -> list[FeatureErrors]:
        tables = (model.feature_errors for model in self.models)
        return [table for table in tables if table is not None]

    def _titled_verdicts(self) -> list[tuple[str, Verdict]]:
        """Return the verdicts with their titles: "Verdict", or names of models if several."""
        if len(self.verdicts) == 1:
            return [("Verdict", self.verdicts[0])]
        return [(verdict.model, verdict) for verdict in self.verdicts]


def format_finding(code: str, severity: str, message: str, width: int, paint: Styler) -> list[str]:
    """Format a finding as lines of at most `width` columns, with the code of a warning in color."""
    first_line, *other_lines = wrap_text(f"{code} {message}", width, _FINDING_INDENT)
    if severity == "warning":
        first_line = paint(code, "warning") + first_line.removeprefix(code)
    return [first_line, *other_lines]


def audit(
    models: object,
    X: object = None,
    sensitive_features: object = None,
    *,
    y: object = None,
    sample_weight: object = None,
    moments: GroupMoments | Sequence[GroupMoments] | None = None,
    folds: int | None = 10,
    repeats: int = 1,
    clusters: object = None,
    level: float = DEFAULT_LEVEL,
    materiality: float = 0.01,
    random_state: object = 0,
    max_groups: int | None = None,
    on_missing: OnMissing = "error",
) -> Audit:
    """Audit one or several models.

    Errors, losses and variance kept of each group, with confidence intervals.

    Parameters
    ----------
    models : model, or mapping of name to model
        Fitted object with `transform` and `inverse_transform` (a FairPCA, a PCA, a KernelPCA; of a
        pipeline, its leading invertible steps), a FairSubspace, the path of a saved one, or a (d,
        p) array with orthonormal rows. Each model reconstructs with its own mean and scale. Errors
        are measured about the model's mean, with center="group" about each group's mean, and for a
        bare array about the mean of the audited rows. If a pipeline standardizes features first,
        errors are in standardized units. A model that is not a projection, such as a KernelPCA, is
        evaluated row by row and has no estimates for new rows. For a FairPCA, ordinary PCA of its
        training rows is added under the name "PCA" and evaluated about the same center.
    X : (n, p) table of finite numbers
        Rows to audit, training or held-out, in any form that `GroupMoments.from_rows` accepts.
    sensitive_features : (n,) or (n, a) array-like or data frame, or column name(s) of X
    y : (n,) array-like, or column name of X, optional
        Class of each row. Required for refitting models whose restriction is conditional on the
        class (`MeanParity(within_classes=...)`).
    sample_weight : (n,) array-like, or column name of X, optional
        Sampling weights of the rows.
    moments : GroupMoments, or sequence of them, instead of rows
        Moments to audit in place of rows. A single object gives no intervals; two or more blocks
        give jackknife intervals and serve as folds for the estimates on new rows.
    folds : int or None
        Number K of cross-fitting folds. In-sample models are refitted, with their own settings,
        leaving out each fold in turn. K is reduced to 5 if the second moment matrices of all groups
        in 10 folds would exceed 2 GiB. The fold of a row depends only on its position in the table,
        rows that are dropped included, or in its part of the table if the sizes of the preceding
        parts are unknown (folders of CSV files, Spark). None computes observed figures only, which
        is much faster.
    repeats : int
        Number of random fold assignments. With several, the result is that of the first assignment
        with the most frequent verdict, and the verdict states how many agree. Run time is
        proportional.
    clusters : (n,) array-like, or column name of X, optional
        Cluster of each row, such as the person it belongs to. The rows of a cluster stay in one
        fold and count as one observation in the intervals.
    level : float
        Confidence level of the intervals, in (0.5, 1).
    materiality : float
        Materiality threshold: the smallest loss that counts, as a share of the group's variance, in
        [0, 1).
    random_state : int, Generator, RandomState or None
        Seed or generator of the fold assignment.
    max_groups : int, optional
        Maximum number of groups; by default 100, or the number of groups a model was fitted on if
        that is larger.
    on_missing : {"error", "drop", "em", "em-drop-empty"}
        Treatment of rows in which a feature or the group is missing. Dropped rows are counted by
        group and feature in `rows.missing`. With "em", rows keep their missing cells (see
        :meth:`GroupMoments.from_rows`): observed figures are expectations given the observed cells,
        and intervals account for the missing ones. A row in which every feature is missing is then
        an error; "em-drop-empty" drops such rows.

    Returns
    -------
    Audit

    Raises
    ------
    InvalidInput
        Neither or both of rows and moments were given, or the rows are invalid.
    UnknownGroup
        The rows contain a group that a model was not fitted on.
    InvalidType
        A model is of an unsupported type or not fitted.
    IncompatibleParameters
        Moments were given for a model that is not a projection.

    Notes
    -----
    The expected loss of a group is corrected for the optimism of its in-sample best error. Its
    interval runs from the lower confidence limit of the cross-fitted loss to the upper limit of the
    corrected loss. Intervals of losses and changes are simultaneous over groups (Bonferroni) and
    determine states and verdict; intervals of errors are for one group each. Errors have Student
    intervals from the squared residuals of the rows. The disparity of two groups has Welch's
    interval, that of more groups an interval simultaneous over all pairs (Bonferroni).

    A model fitted to the audited rows varies with them. For its expected errors, changes and
    disparities the interval is the estimate +- t sqrt(se^2 + j^2), where se is the standard error
    and j^2 = (K - 1) / K sum_f (theta_f - mean)^2 is the delete-a-fold jackknife variance of
    theta_f, the figure over all rows of the group under the fit without fold f (Efron and
    Tibshirani 1993, chapter 11). The interval is for the model at hand, not for the average model
    over samples.

    Missing cells are imputed ten times from a normal model of each group whose parameters are drawn
    as well (multiple imputation); intervals follow Rubin's rules (1987).

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
        received = "both X and moments"
        if X is None:
            received = "neither X nor moments"
        raise InvalidInput(
            f"audit received {received}",
            "Allowed: rows (X and sensitive_features), or moments instead",
            "Pass X and sensitive_features to get intervals",
        )
    options = estimation_options(
        folds,
        level,
        materiality,
        random_state,
        has_clusters=clusters is not None,
        repeats=repeats,
    )
    if X is not None:
        attributes = restriction_columns(models)  # columns to read in addition to the features
        with caller_remedies(row_remedies(X)):  # errors advise to change arguments of this call
            rows = open_rows(
                X,
                sensitive_features,
                y=y,
                clusters=clusters,
                sample_weight=sample_weight,
                on_missing=on_missing,
                attributes=attributes,
            )
            warn_about_unused_categories(rows)
            audited = audited_models(models, rows.n_features)
            # A label that equals one of the fit as text, such as "1" and 1, is that group.
            known_labels = known_labels_of(audited)
            rows = match_groups(rows, known_labels)
            return audit_rows(audited, rows, options=options, max_groups=max_groups)
    blocks = _checked_blocks(moments, {"y": y, "clusters": clusters}, repeats)
    blocks = [block.with_attributes(restriction_columns(models)) for block in blocks]
    audited = audited_models(models, blocks[0].n_features)
    known_labels = known_labels_of(audited)
    return audit_moments(audited, [block.matched_to(known_labels) for block in blocks], options)


def _checked_blocks(
    moments: object, extra_labels: Mapping[str, object], repeats: int
) -> Sequence[GroupMoments]:
    """Return the blocks of moments, a single one as a list.

    Raise an error if they are no blocks, or an argument was given that requires rows:
    `extra_labels`, labels of rows by argument name, which are None if they were not given; or
    several `repeats`, since blocks are not assigned to folds, but are themselves the folds.
    """
    for name, values in extra_labels.items():
        if values is not None:
            raise InvalidInput(
                f"{name} was given with moments",
                f"Allowed: {name} with rows",
                "Create each block of moments from whole clusters, and from rows with y",
            )
    check_one_assignment(repeats)
    if isinstance(moments, GroupMoments):
        return [moments]
    if not isinstance(moments, Sequence) or not all(
        isinstance(block, GroupMoments) for block in moments
    ):
        raise InvalidType(
            f"moments is a {type(moments).__name__}",
            "Allowed: a GroupMoments, or a sequence of them",
            "Make them with GroupMoments.from_rows or GroupMoments.load",
        )
    if not moments:
        raise InvalidInput("moments is empty", "Allowed: at least one block", "Pass a block")
    return cast(Sequence[GroupMoments], moments)


def check_one_assignment(repeats: int) -> None:
    """Make sure that moments are not to be assigned to folds several times.

    Raises
    ------
    InvalidInput
    """
    if repeats > 1:
        raise InvalidInput(
            f"repeats is {repeats}, but moments were given",
            "Allowed: repeats with rows; blocks of moments are themselves the folds",
            "Leave repeats at its default, 1",
        )


def audit_rows(
    models: Sequence[AuditedModel],
    rows: Rows,
    moments: Moments | None = None,
    *,
    options: EstimationOptions = DEFAULT_OPTIONS,
    max_groups: int | None = None,
) -> Audit:
    """Audit models on rows in two passes: one for moments, one for standard errors.

    See :func:`audit_rows_with_folds` for the parameters; it returns the moments by fold as well.
    """
    return audit_rows_with_folds(
        models, rows, moments, options=options, max_groups=max_groups
    ).audit


@dataclass(frozen=True, eq=False)
class RowAudit:
    """Audit of rows, with their moments by fold.

    Attributes
    ----------
    audit : Audit
        Of the first fold assignment with the most frequent verdict.
    folds : FoldMoments or None
        Of that assignment; None if nothing was estimated for new rows.
    """

    audit: Audit
    folds: FoldMoments | None


@explain_memory_errors()
def audit_rows_with_folds(
    models: Sequence[AuditedModel],
    source: Rows,
    moments: Moments | None = None,
    *,
    options: EstimationOptions = DEFAULT_OPTIONS,
    max_groups: int | None = None,
) -> RowAudit:
    """Audit models on rows, and return the moments by fold as well.

    Parameters
    ----------
    models : sequence of AuditedModel
    source : Rows
        Features are selected by the models' names, if they have any.
    moments : GroupMoments, SparseMoments or WideMoments, optional
        Moments of the same rows, if already known.
    options : EstimationOptions
    max_groups : int, optional
        Maximum number of groups; by default 100, or the number of groups a model was fitted on if
        that is larger.
    """
    feature_names = (model.subspace.feature_names for model in models)
    names = next(filter(None, feature_names), None)
    if names is not None:
        source = source.select_features(names)
    limit = GroupLimit(
        max_groups,
        n_fitted_groups=max(len(model.training_groups) for model in models),
        max_memory=options.max_memory,
    )
    rows = source
    if options.folds is not None and not options.has_clusters:
        rows = with_row_offsets(source)  # rows are assigned to folds by their positions
    evaluations = _evaluate_repeatedly(models, rows, moments, limit, options)
    data = _examine_data(models, rows, evaluations[0].moments, options)
    data_findings = find_in_data(models, data, evaluations[0].monotone_columns)
    audits = [
        _assemble_audit(evaluation.results, data.audited_rows, data_findings, options)
        for evaluation in evaluations
    ]
    selected = _index_of_modal_verdict(
        [[verdict.kind for verdict in audit.verdicts] for audit in audits]
    )
    audit = replace(audits[selected], verdicts=_with_agreement(audits, selected))
    return RowAudit(audit, evaluations[selected].folds)


def _evaluate_repeatedly(
    models: Sequence[AuditedModel],
    rows: Rows,
    moments: Moments | None,
    limit: GroupLimit,
    options: EstimationOptions,
) -> list[Evaluation]:
    """Evaluate models on rows under each of the requested fold assignments.

    The parameters are those of :func:`evaluate_on_rows`.
    """
    evaluations: list[Evaluation] = []
    for repeat in range(options.repeats):
        # Seeds in between are used for the additional assignments within one audit.
        run_options = replace(options, seed=options.seed + _SEED_STRIDE * repeat)
        evaluations.append(evaluate_on_rows(models, rows, moments, limit, run_options))
        # Further assignments reuse the moments of the first.
        moments = evaluations[0].moments
    return evaluations


def _examine_data(
    models: Sequence[AuditedModel], rows: Rows, moments: Moments, options: EstimationOptions
) -> AuditedData:
    """Examine the first rows, and count missing cells if rows were dropped or cells imputed.

    Parameters
    ----------
    models : sequence of AuditedModel
    rows : Rows
    moments : GroupMoments, SparseMoments or WideMoments
        Moments of the rows, with the number of dropped ones.
    options : EstimationOptions
    """
    first_rows = summarize_first_rows(models, rows, moments)
    missing_cells = None
    if moments.n_dropped > 0 or moments.is_em_estimated:
        missing_cells = count_missing(rows)
    columns = rows.feature_names or tuple(f"x{j}" for j in range(rows.n_features))
    missing = summarize_missing_values(missing_cells, first_rows, moments, columns)
    # With clusters, dependence between rows is accounted for.
    if options.has_clusters:
        first_rows = None
    audited_rows = _describe_rows(moments, options, missing)
    return AuditedData(moments, audited_rows, first_rows)


def _describe_rows(
    moments: Moments,
    options: EstimationOptions,
    missing: MissingValues | None = None,
    *,
    has_intervals: bool = True,
) -> AuditedRows:
    """Return the numbers of audited rows and features, with the missing values of rows."""
    return AuditedRows(
        n_rows=int(moments.counts.sum()),
        n_features=moments.n_features,
        has_intervals=has_intervals,
        n_dropped=moments.n_dropped,
        missing=missing,
        has_clusters=options.has_clusters,
    )


def _index_of_modal_verdict(verdict_kinds: Sequence[Sequence[str]]) -> int:
    """Index of the first audit whose first verdict is of the most frequent kind.

    Zero for audits without verdicts.

    Parameters
    ----------
    verdict_kinds : sequence of sequences of str
        Kinds of the verdicts of each audit.
    """
    first_kinds = [next(iter(kinds), "") for kinds in verdict_kinds]
    return first_kinds.index(max(first_kinds, key=first_kinds.count))


def _with_agreement(audits: Sequence[Audit], selected: int) -> tuple[Verdict, ...]:
    """Return the verdicts of `audits[selected]`, each with the number of audits that agree."""
    verdicts_by_model = zip(*(audit.verdicts for audit in audits), strict=True)
    return tuple(
        replace(
            verdicts[selected],
            n_agreeing=sum(verdict.kind == verdicts[selected].kind for verdict in verdicts),
            n_repeats=len(audits),
        )
        for verdicts in verdicts_by_model
    )


@explain_memory_errors()
def audit_moments(
    models: Sequence[AuditedModel],
    blocks: Sequence[GroupMoments],
    options: EstimationOptions = DEFAULT_OPTIONS,
) -> Audit:
    """Audit models on moments; two or more blocks give jackknife intervals."""
    pooled = sum(blocks[1:], start=blocks[0])
    results = evaluate_on_moments(models, pooled, blocks, options)
    data = AuditedData(pooled, _describe_rows(pooled, options, has_intervals=len(blocks) > 1))
    return _assemble_audit(results, data.audited_rows, find_in_data(models, data), options)


def _assemble_audit(
    results: Sequence[ModelResult],
    rows: AuditedRows,
    data_findings: Sequence[Finding],
    options: EstimationOptions,
) -> Audit:
    """Apply the rules for findings and verdicts to the results, and return them as an audit.

    `data_findings` are those about the data, which do not depend on the results.
    """
    findings = [*data_findings, *find_in_results(results, rows)]
    verdicts: tuple[Verdict, ...] = ()
    if options.folds is not None and rows.has_intervals:
        verdicts = make_verdicts(results, findings, options.level, options.materiality)
    return Audit(
        models=tuple(results),
        findings=tuple(sorted(findings, key=lambda finding: finding.severity != "warning")),
        rows=rows,
        verdicts=verdicts,
        level=options.level,
        materiality=options.materiality,
    )
