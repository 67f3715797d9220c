"""Audit of pairs of subspaces: covariance kept of each group on new rows, with intervals."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fairspan.auditing.estimation_options import check_level, check_materiality
from fairspan.auditing.intervals import DEFAULT_LEVEL, UNKNOWN, Estimate, none_if_nan
from fairspan.cross_decomposition.audited_pairs import AuditedPair, read_pairs
from fairspan.cross_decomposition.covariance_of_rows import (
    FoldedRows,
    HeldOutCovariances,
    WeightedMean,
    fold_rows,
    held_out_covariances,
    weighted_mean,
)
from fairspan.cross_decomposition.joined_tables import open_joined
from fairspan.formatting.export import to_data_frame
from fairspan.formatting.numbers import format_integer, format_share, share_with_interval
from fairspan.formatting.table import Cell, Column, Table
from fairspan.moments.group_moments import GroupMoments
from fairspan.parameters import check_choice
from fairspan.rows.blocks import OnMissing
from fairspan.rows.folds import Folds
from fairspan.rows.labels import Label, table_name
from fairspan.typing import LabelsLike, TableLike, WeightsLike

# Share of a group's best covariance below which a loss does not matter, as in other audits.
_DEFAULT_MATERIALITY = 0.01
# Independent rows that a group needs for estimates: with ten folds, a fold then has two of them.
_MIN_ROWS = 20


@dataclass(frozen=True)
class CovarianceLoss:
    """Covariance that a model keeps of one group, on the audited rows and on new ones.

    Attributes
    ----------
    model : str
    group : label
    n_rows : int
    observed_kept, observed_best : float
        tr U'C_gV and K_d(C_g) on the audited rows. The latter is too large for few rows, as the
        group's own pair fits them.
    expected_kept : Estimate
        Covariance kept on new rows: cross-fitted, each fold by the model fitted without it.
    expected_loss : Estimate
        Loss on new rows against the group's own best pair. The lower limit compares with the pair
        found without the fold, which keeps less than the best; the upper limit with
        `observed_best`, which is more; the value with the mean of both.
    best_covariance : float
        That mean, with which losses are compared.
    state : {"harmed", "minor", "no material harm", "inconclusive"}
        "harmed": a loss is shown, and its estimate is at least the materiality and what few rows
        alone can make of it; "minor": a loss is shown, of less than the materiality; "no material
        harm": a loss above the materiality is ruled out.
    """

    model: str
    group: Label
    n_rows: int
    observed_kept: float
    observed_best: float
    expected_kept: Estimate
    expected_loss: Estimate
    best_covariance: float
    state: str

    def to_record(self) -> dict[str, Any]:
        """Return the figures as one flat row."""
        share = self.expected_loss.relative_to(self.best_covariance)
        return {
            "model": self.model,
            "group": self.group,
            "n_rows": self.n_rows,
            "observed_kept": self.observed_kept,
            "observed_best": self.observed_best,
            **self.expected_kept.to_record("expected_kept"),
            **self.expected_loss.to_record("expected_loss"),
            **share.to_record("expected_loss_share"),
            "best_covariance": none_if_nan(self.best_covariance),
            "state": self.state,
        }


@dataclass(frozen=True, eq=False)
class CovarianceAudit:
    """Losses of covariance of each group under each model.

    Attributes
    ----------
    losses : tuple of CovarianceLoss
        One for each model and group.
    level : float
        Confidence level at which the intervals of all groups and models hold jointly.
    materiality : float
        Share of a group's best covariance below which a loss does not matter.

    Examples
    --------
    >>> import numpy as np
    >>> from fairspan.cross_decomposition import FairPLS, audit_pairs
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(600, 4))
    >>> Y = np.column_stack([2 * X[:, 0], X[:, 1], X[:, 2]]) + rng.normal(size=(600, 3))
    >>> groups = np.repeat(["many", "few"], [500, 100])
    >>> Y[500:] = Y[500:, ::-1]
    >>> fair = FairPLS(1).fit(X, Y, sensitive_features=groups)
    >>> audit = audit_pairs(fair, X, Y, sensitive_features=groups)
    >>> {(loss.model, loss.group): loss.state for loss in audit.losses}["PLS", "few"]
    'harmed'
    """

    losses: tuple[CovarianceLoss, ...]
    level: float
    materiality: float

    def to_records(self) -> list[dict[str, Any]]:
        """Return one flat row for each model and group."""
        return [loss.to_record() for loss in self.losses]

    def frame(self) -> Any:
        """Return the records as a pandas DataFrame."""
        return to_data_frame(self.to_records(), "CovarianceAudit.frame()")

    def table(self) -> Table:
        """Table of losses in per cent of each group's best covariance."""
        shares = [loss.expected_loss.relative_to(loss.best_covariance) for loss in self.losses]
        names = [f"{loss.model}: {table_name(loss.group)}" for loss in self.losses]
        columns = [
            Column("model and group", [Cell(name) for name in names], is_text=True),
            Column("rows", [Cell(format_integer(loss.n_rows)) for loss in self.losses]),
            Column("observed loss", [Cell(_observed_share(loss)) for loss in self.losses]),
            Column(
                "expected loss", [_share_cell(share) for share in shares], detail_heading="interval"
            ),
            Column("state", [Cell(loss.state) for loss in self.losses], is_text=True),
        ]
        note = (
            "Losses in per cent of the covariance that the group's own best pair keeps: observed "
            "on these rows, and expected on new ones, if the rows are at hand. The "
            f"{100 * self.level:g} % intervals hold for all groups and models jointly."
        )
        return Table("Covariance lost by each group", tuple(columns), notes=(note,))

    def __str__(self) -> str:
        return str(self.table())

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()


def _observed_share(loss: CovarianceLoss) -> str:
    """Loss on the audited rows, in per cent of what the group's own pair keeps of them."""
    if not loss.observed_best > 0:
        return "-"
    return format_share(max(1 - loss.observed_kept / loss.observed_best, 0.0))


def _share_cell(share: Estimate) -> Cell:
    """Cell of a share with its interval, or a dash if it is unknown."""
    if share.low is None or share.high is None:
        return Cell("-")
    value, interval = share_with_interval(share.value, share.low, share.high)
    return Cell(value, share.value, detail=interval)


def audit_pairs(
    models: object,
    X: TableLike,
    Y: object,
    *,
    sensitive_features: LabelsLike = None,
    sample_weight: WeightsLike = None,
    clusters: LabelsLike = None,
    on_missing: OnMissing = "error",
    folds: int = 10,
    level: float = DEFAULT_LEVEL,
    materiality: float = _DEFAULT_MATERIALITY,
    random_state: int = 0,
) -> CovarianceAudit:
    """Estimate how much covariance each group loses on new rows under models of two tables.

    Each model is fitted again without each fold of the rows, and keeps covariance of the rows in
    that fold; so does the pair that is best for the group alone. The ordinary model of the same
    settings (criterion "total_covariance") is audited as well.

    Parameters
    ----------
    models : FairPLS, FairCCA, PairedSubspace, or mapping of str to these
        Fitted models; only their settings are used.
    X, Y, sensitive_features, sample_weight
        Rows, as for `FairPLS.fit`; they are held in memory.
    clusters : (n,) array-like, or column name of X, optional
        Cluster of each row, such as a person with several rows: clusters are kept in one fold.
    on_missing : {"error", "drop"}, default="error"
        What to do with rows with missing cells: raise, or drop them.
    folds : int, default=10
    level : float, default=0.95
        Confidence level of all intervals jointly.
    materiality : float, default=0.01
        Share of a group's best covariance below which a loss does not matter.
    random_state : int, default=0
        Seed of the folds.

    Returns
    -------
    CovarianceAudit

    Raises
    ------
    InvalidInput, InvalidParameter, InvalidType
        Rows, parameters or models that are not valid.
    """
    levels = AuditLevels(level, materiality)
    assignment = Folds(folds, seed=random_state)
    pairs = read_pairs(models)
    check_choice("on_missing", on_missing, ("error", "drop"))
    joined = open_joined(X, Y, sensitive_features, sample_weight, on_missing, clusters=clusters)
    return audit_folded_rows(pairs, fold_rows(joined, assignment), levels)


def audit_folded_rows(
    pairs: Sequence[AuditedPair], rows: FoldedRows, levels: "AuditLevels"
) -> CovarianceAudit:
    """Audit models on rows in memory with their folds."""
    n_tests = len(pairs) * rows.moments.n_groups
    losses: list[CovarianceLoss] = []
    for pair in pairs:
        held_out = held_out_covariances(rows, pair.settings)
        for loss in _observed_of_model(pair, rows.moments, rows.n_targets):
            losses.append(_with_estimates(loss, rows, held_out, n_tests, levels))
    return CovarianceAudit(tuple(losses), levels.level, levels.materiality)


def observed_losses(
    pairs: Sequence[AuditedPair], moments: GroupMoments, n_targets: int, levels: "AuditLevels"
) -> CovarianceAudit:
    """Losses on the rows of moments, which give no estimates for new rows.

    Parameters
    ----------
    pairs : sequence of AuditedPair
    moments : GroupMoments
        Of the columns of X, followed by those of Y.
    n_targets : int
        Number of columns of Y.
    levels : AuditLevels
    """
    losses = [loss for pair in pairs for loss in _observed_of_model(pair, moments, n_targets)]
    return CovarianceAudit(tuple(losses), levels.level, levels.materiality)


@dataclass(frozen=True)
class AuditLevels:
    """Confidence level and materiality of an audit.

    Attributes
    ----------
    level : float
        Confidence level of all intervals jointly.
    materiality : float
        Share of a group's best covariance below which a loss does not matter.

    Raises
    ------
    InvalidParameter
        The level is not above 0.5 and below 1, or the materiality not at least 0 and below 1.
    """

    level: float
    materiality: float

    def __post_init__(self) -> None:
        check_level(self.level)
        check_materiality(self.materiality, "a group's best covariance")


def _observed_of_model(
    pair: AuditedPair, moments: GroupMoments, n_targets: int
) -> list[CovarianceLoss]:
    """Losses of each group under one model on the rows of the moments."""
    certificate = pair.fit(moments, n_targets).certificate
    figures = certificate.figures
    return [
        CovarianceLoss(
            model=pair.name,
            group=group,
            n_rows=int(n_rows),
            observed_kept=float(kept),
            observed_best=float(best),
            expected_kept=UNKNOWN,
            expected_loss=UNKNOWN,
            best_covariance=np.nan,
            state="inconclusive",
        )
        for group, n_rows, kept, best in zip(
            moments.labels, moments.counts, figures.kept, figures.best, strict=True
        )
    ]


def _with_estimates(
    loss: CovarianceLoss,
    rows: FoldedRows,
    held_out: HeldOutCovariances,
    n_tests: int,
    levels: AuditLevels,
) -> CovarianceLoss:
    """Add the estimates for new rows, if the group has enough of them."""
    in_group = rows.group_codes == rows.moments.labels.index(loss.group)
    weights = rows.weights[in_group]
    clusters = rows.cluster_codes[in_group]
    kept_of_rows = held_out.kept[in_group]
    best_of_rows = held_out.best[in_group]
    n_independent = len(np.unique(clusters))
    if n_independent < _MIN_ROWS or not np.isfinite(best_of_rows).all():
        return loss

    def interval(mean: WeightedMean) -> Estimate:
        return Estimate.from_standard_error(
            mean.value, mean.standard_error, n_independent - 1, n_tests, levels.level
        )

    kept = weighted_mean(kept_of_rows, weights, clusters)
    best = weighted_mean(best_of_rows, weights, clusters)
    difference = interval(weighted_mean(best_of_rows - kept_of_rows, weights, clusters))
    assert difference.low is not None
    assert difference.high is not None
    # The group's own pair keeps less of rows that it was not fitted to, and more of those it was.
    optimism = max(loss.observed_best - best.value, 0.0)
    expected_loss = Estimate(
        difference.value + optimism / 2, difference.low, difference.high + optimism
    )
    best_covariance = (loss.observed_best + best.value) / 2
    state = _classify_loss(
        difference.value, expected_loss, optimism, levels.materiality * best_covariance
    )
    return replace(
        loss,
        expected_kept=interval(kept),
        expected_loss=expected_loss,
        best_covariance=best_covariance,
        state=state,
    )


def _classify_loss(
    cross_fitted_loss: float, expected_loss: Estimate, optimism: float, min_material_loss: float
) -> str:
    """Classify the loss of a group by its interval; the states are those of `CovarianceLoss`.

    Parameters
    ----------
    cross_fitted_loss : float
        Loss against the pair found without the fold, which is too small.
    expected_loss : Estimate
    optimism : float
        What few rows alone can make of a loss.
    min_material_loss : float
        Materiality, in units of covariance.
    """
    low = expected_loss.low
    high = expected_loss.high
    assert low is not None
    assert high is not None
    if low > 0 and cross_fitted_loss >= max(min_material_loss, optimism):
        return "harmed"
    if low > 0 and expected_loss.value < min_material_loss:
        return "minor"
    if 0 <= high < min_material_loss:
        return "no material harm"
    return "inconclusive"
