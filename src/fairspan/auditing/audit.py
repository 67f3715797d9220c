"""Audit one or several projections: what they do to each group."""

from collections.abc import Sequence
from typing import Any

from fairspan.auditing.audit_result import Audit
from fairspan.auditing.data_findings import find_in_data
from fairspan.auditing.expected_losses import USUAL, Expectations, expectations
from fairspan.auditing.findings import find
from fairspan.auditing.intervals import LEVEL
from fairspan.auditing.judging import judged_on_moments, judged_on_rows
from fairspan.auditing.models import Audited, models_of
from fairspan.auditing.results import AuditedRows, ModelAudit
from fairspan.auditing.verdict import verdicts_of
from fairspan.errors import InvalidInput, InvalidType, memory_error_hint
from fairspan.moments.group_moments import GroupMoments
from fairspan.moments.of_rows import FoldMoments, Moments
from fairspan.rows.checks import GroupLimit
from fairspan.rows.protocol import Rows
from fairspan.rows.registry import open_rows


def audit(
    models: Any,
    X: Any = None,
    sensitive_features: Any = None,
    *,
    labels: Any = None,
    sample_weight: Any = None,
    moments: GroupMoments | Sequence[GroupMoments] | None = None,
    folds: int | None = 10,
    clusters: Any = None,
    level: float = LEVEL,
    material: float = 0.01,
    random_state: Any = 0,
    max_groups: int | None = None,
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
        restriction holds in each class (`MeanParity(given_labels=...)`).
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
        Most groups that rows may have. By default, more than 100 groups that are also more than a
        third of the rows are refused, unless a model was fitted on as many.

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
    corrected loss. States and changes hold for all groups at once (Bonferroni); other intervals
    are those of one group. Errors have Student intervals from the squared residuals of the rows;
    the disparity of two groups has Welch's, that of more groups a simultaneous one (Bonferroni)
    over all pairs.

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
    'harm, and repair moves it'
    """
    if (X is None) == (moments is None):
        raise InvalidInput(
            "audit received " + ("neither X nor moments" if X is None else "both X and moments"),
            "Allowed: rows (X and sensitive_features), or moments in their place",
            "Pass X and sensitive_features to get intervals",
        )
    options = expectations(
        folds,
        level,
        material,
        random_state,
        by_cluster=clusters is not None,
        has_labels=labels is not None,
    )
    beside = {"labels": labels, "clusters": clusters}
    if X is not None:
        rows = open_rows(X, sensitive_features, beside, sample_weight)
        return audit_rows(
            models_of(models, rows.n_features), rows, options=options, max_groups=max_groups
        )
    for name, values in beside.items():
        if values is not None:
            raise InvalidInput(
                f"{name} was given with moments",
                f"Allowed: {name} of rows",
                "Make each block of moments of whole clusters, and of rows with labels",
            )
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
    return audit_moments(models_of(models, blocks[0].n_features), blocks, options)


def audit_rows(
    audited: Sequence[Audited],
    source: Rows,
    moments: Moments | None = None,
    *,
    options: Expectations = USUAL,
    max_groups: int | None = None,
) -> Audit:
    """Audit on rows, read twice: for moments, and for spreads."""
    return audit_in_folds(audited, source, moments, options=options, max_groups=max_groups)[0]


@memory_error_hint()
def audit_in_folds(
    audited: Sequence[Audited],
    source: Rows,
    moments: Moments | None = None,
    *,
    options: Expectations = USUAL,
    max_groups: int | None = None,
) -> tuple[Audit, FoldMoments | None]:
    """The same, and the moments by fold where estimates for new rows were made."""
    names = next((each.subspace.feature_names for each in audited if each.has_names), None)
    if names is not None:
        source = source.selected(names)
    limit = GroupLimit(
        max_groups,
        n_known=max(len(each.known_groups) for each in audited),
        max_memory=options.max_memory,
    )
    results, moments, ordered, folds = judged_on_rows(audited, source, moments, limit, options)
    return _finished(audited, results, moments, options, ordered, has_intervals=True), folds


@memory_error_hint()
def audit_moments(
    audited: Sequence[Audited], blocks: Sequence[GroupMoments], options: Expectations = USUAL
) -> Audit:
    """Audit on moments alone; two or more blocks give jackknife intervals."""
    pooled = sum(blocks[1:], start=blocks[0])
    results = judged_on_moments(audited, pooled, blocks, options)
    return _finished(audited, results, pooled, options, has_intervals=len(blocks) > 1)


def _finished(
    audited: Sequence[Audited],
    results: Sequence[ModelAudit],
    moments: Moments,
    options: Expectations,
    ordered: tuple[int, ...] = (),
    *,
    has_intervals: bool,
) -> Audit:
    rows = AuditedRows(
        int(moments.counts.sum()),
        moments.n_features,
        has_intervals,
        moments.intake.n_dropped,
    )
    estimated = options.folds is not None and has_intervals
    findings = [*find_in_data(audited, moments, ordered), *find(results, rows)]
    return Audit(
        tuple(results),
        tuple(sorted(findings, key=lambda each: each.severity != "warning")),
        rows,
        verdicts_of(results, options.level) if estimated else (),
        options.level,
        options.material,
    )
