"""The `audit` function: its arguments are checked and opened, and handed to the stages."""

from collections.abc import Mapping, Sequence
from typing import cast

from fairspan.auditing.audit_result import Audit
from fairspan.auditing.encoded_rows import encode_rows
from fairspan.auditing.estimation_options import estimation_options
from fairspan.auditing.intervals import DEFAULT_LEVEL
from fairspan.auditing.models import audited_models, known_labels_of, restriction_columns
from fairspan.auditing.stages import audit_moments, audit_rows
from fairspan.errors import InvalidInput, InvalidType, caller_remedies
from fairspan.moments.group_moments import GroupMoments
from fairspan.rows.blocks import OnMissing
from fairspan.rows.opening import (
    match_groups,
    open_rows,
    row_remedies,
    warn_about_unused_categories,
)
from fairspan.typing import RandomSource


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
    random_state: RandomSource = 0,
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
        errors are in standardized units. If it begins with an encoder, such as a ColumnTransformer,
        its later steps are audited on the encoded rows. A model that is not a projection, such as a
        KernelPCA, is evaluated row by row and has no estimates for new rows. If it is not known how
        a model was fitted and its decoder is linear, its largest error is compared with what no
        linear decoder can fall below (`rank_bound`). For a FairPCA, ordinary PCA of its training
        rows is added under the name "PCA" and evaluated about the same center; for a fair
        FairSubspace, which has no moments of these, ordinary PCA of the audited rows, unless the
        models have one.
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
    corrected loss. Intervals of losses and changes are simultaneous (Bonferroni) over groups and
    over all fair models of the audit, or all dimensions of ordinary PCA, and determine states and
    verdict; intervals of errors are for one group each. Errors have Student intervals from the
    squared residuals of the rows. The disparity of two groups has Welch's interval, that of more
    groups an interval simultaneous over all pairs (Bonferroni).

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
    ['minimax loss', 'PCA']
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
    encoded = None if X is None else encode_rows(models, X)
    if encoded is not None:
        return audit(
            encoded.models,
            encoded.rows,
            encoded.resolve(sensitive_features),
            y=encoded.resolve(y),
            sample_weight=encoded.resolve(sample_weight),
            folds=folds,
            repeats=repeats,
            clusters=encoded.resolve(clusters),
            level=level,
            materiality=materiality,
            random_state=random_state,
            max_groups=max_groups,
            on_missing=on_missing,
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
            return audit_rows(
                audited, rows, options=options, max_groups=max_groups, adds_baselines=True
            )
    blocks = _checked_blocks(moments, {"y": y, "clusters": clusters}, repeats)
    blocks = [block.with_attributes(restriction_columns(models)) for block in blocks]
    audited = audited_models(models, blocks[0].n_features)
    known_labels = known_labels_of(audited)
    matched = [block.matched_to(known_labels) for block in blocks]
    return audit_moments(audited, matched, options, adds_baselines=True)


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
