"""Losses of slices under a fixed model: from moments where they are searched, from rows to confirm.

They are the losses of an audit whose groups are the slices: errors minus those of each slice's best
subspace, cross-fitted (:mod:`fairspan.auditing.cross_fit_run`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from fairspan.auditing.block_statistics import block_statistics
from fairspan.auditing.cross_fit_run import CrossFitRun, RepeatedCrossFit
from fairspan.auditing.cross_fitting import Quantity, cross_fit
from fairspan.auditing.estimates import GroupEstimates
from fairspan.auditing.estimation_options import EstimationOptions
from fairspan.auditing.evaluation import cross_fit_repeatedly
from fairspan.auditing.expected_losses import estimate_models
from fairspan.auditing.fold_statistics import FoldedRows
from fairspan.auditing.in_sample import InSampleStatus, detect_in_sample
from fairspan.auditing.intervals import Estimate, half_width, share_of
from fairspan.auditing.loss_test import LossTest
from fairspan.auditing.models import AuditedModel
from fairspan.errors import InvalidInput
from fairspan.formatting.messages import counted
from fairspan.metrics import GroupErrors, group_errors
from fairspan.moments.fold_moments import DenseFoldMoments, affordable_folds
from fairspan.rows.aggregation import Rows
from fairspan.rows.folds import Folds
from fairspan.rows.group_limit import GroupLimit
from fairspan.rows.labels import attributes_of
from fairspan.slices.conjunctions import CellCounts, Conjunction
from fairspan.slices.slice_rows import OTHER_ROWS, SliceRows


@dataclass(frozen=True)
class SearchedLoss:
    """Loss of a slice in the half that is searched, as a share of its variance.

    Attributes
    ----------
    value : float
        Cross-fitted loss.
    low : float
        Lower limit for this slice alone, from the variation between folds.
    optimism : float
        Held-out minus in-sample error of its best subspace.
    """

    value: float
    low: float
    optimism: float

    def is_large(self, materiality: float) -> bool:
        """Whether an audit might call such a loss harm: above zero, its optimism and materiality.

        `materiality` is the smallest loss that counts.
        """
        return self.low > 0 and self.value >= max(materiality, self.optimism)


@dataclass(frozen=True, eq=False)
class ConfirmedFigures:
    """Figures of a slice in the half that confirms, with intervals for all candidates jointly.

    Attributes
    ----------
    estimates : GroupEstimates
    variance : float
        Variance of the slice about the center of the model.
    rounding : float
        Size up to which a loss is rounding.
    """

    estimates: GroupEstimates
    variance: float
    rounding: float

    @property
    def is_harmed(self) -> bool:
        """Whether the loss is significant and material at the level of these figures."""
        return self.estimates.state == "harmed"

    @property
    def loss_share(self) -> Estimate:
        """Expected loss as a share of the variance, as of the groups of an audit."""
        loss = self.estimates.expected_loss.without_rounding(self.rounding)
        return loss.relative_to(self.variance).clipped(-1.0, 1.0)

    def with_confirmation(self) -> "ConfirmedFigures":
        """Return the figures of a slice that was confirmed, at this level or by stepping down.

        A loss that is confirmed by stepping down is above zero, though its interval may not be.
        """
        loss = self.estimates.expected_loss.clipped_at_zero()
        return replace(self, estimates=replace(self.estimates, state="harmed", expected_loss=loss))


def in_sample_status(
    model: AuditedModel, rows: Rows, counts: CellCounts, options: EstimationOptions
) -> InSampleStatus:
    """Determine whether the model was fitted to these rows, or to some of them.

    More is known of the rows of the fit if the attributes define its groups.
    """
    groups = model.training_groups
    attributes = counts.attributes_of_groups(groups)
    labels = {attributes_of(group): group for group in groups} if attributes else {}
    folded = _fold(model, SliceRows(rows, attributes, labels), max(len(labels), 1), options)
    total = folded.fold_moments.total
    is_exact = model.was_fitted_on(total, group_errors(model.subspace, total).errors)
    (status,) = detect_in_sample([model], [is_exact], [model], folded.fold_moments)
    return status


def search_losses(
    model: AuditedModel,
    rows: Rows,
    conjunctions: Sequence[Conjunction],
    options: EstimationOptions,
) -> dict[Conjunction, SearchedLoss]:
    """Return the cross-fitted losses of slices of the same attributes, from their moments by fold.

    Slices with too few rows have none.
    """
    slice_rows = SliceRows.from_conjunctions(rows, conjunctions)
    folded = _fold(model, slice_rows, len(conjunctions) + 1, options)
    folds = folded.fold_moments
    assert isinstance(folds, DenseFoldMoments)
    total = folds.total
    errors = group_errors(model.subspace, total)
    fit = cross_fit([model], [errors.errors], [False], folds, folded.folds.n_folds)
    statistics = block_statistics(fit, total.labels, folds.by_fold)
    run = CrossFitRun(fit, statistics)
    quantity = Quantity.CROSS_FITTED_LOSS
    values = statistics.means[0, quantity] + fit.center_corrections[0, quantity]
    optimism = run.held_out_best_errors[0] - errors.best_errors
    losses: dict[Conjunction, SearchedLoss] = {}
    for g, number in enumerate(total.labels):
        n_folds = int(statistics.n_independent[g])
        if number == OTHER_ROWS or n_folds < 2 or not fit.has_enough_rows[0, g]:
            continue
        margin = half_width(
            float(statistics.standard_errors[0, quantity, g]), n_folds - 1, 1, options.level
        )
        loss = float(values[g])
        if abs(loss) <= errors.roundings[g]:
            continue
        variance = float(errors.variances[g])
        losses[conjunctions[_as_number(number)]] = SearchedLoss(
            value=share_of(loss, variance),
            low=share_of(loss - margin, variance),
            optimism=share_of(float(optimism[g]), variance),
        )
    return losses


class ConfirmingRows:
    """Rows of the half that confirms, cross-fitted once for slices of the same attributes.

    Parameters
    ----------
    model : AuditedModel
    rows : Rows
    conjunctions : sequence of Conjunction
        Candidates, all of the same attributes.
    options : EstimationOptions
    """

    def __init__(
        self,
        model: AuditedModel,
        rows: Rows,
        conjunctions: Sequence[Conjunction],
        options: EstimationOptions,
    ) -> None:
        self._conjunctions = conjunctions
        self._options = options
        slice_rows = SliceRows.from_conjunctions(rows, conjunctions)
        folded = _fold(model, slice_rows, len(conjunctions) + 1, options)
        self._labels = list(folded.fold_moments.total.labels)
        self._errors: GroupErrors = group_errors(model.subspace, folded.fold_moments.total)
        self._cross_fit: RepeatedCrossFit = cross_fit_repeatedly(
            folded, [slice_rows], [self._errors], [False]
        )
        self._loss_test = LossTest(
            [model.subspace],
            folded.fold_moments,
            options.level,
            options.seed,
            self._cross_fit.first.statistics.kept_rows,
        )

    def figures(self, n_tests: int) -> dict[Conjunction, ConfirmedFigures]:
        """Return the figures of the slices that have rows here.

        Intervals and states are Bonferroni-adjusted for `n_tests` simultaneous ones.
        """
        options = replace(self._options, n_tests=n_tests)
        (estimates,) = estimate_models(self._cross_fit, [self._errors], self._loss_test, options)
        return {
            self._conjunctions[_as_number(number)]: ConfirmedFigures(
                estimates.groups[g],
                float(self._errors.variances[g]),
                float(self._errors.roundings[g]),
            )
            for g, number in enumerate(self._labels)
            if number != OTHER_ROWS
        }


def _as_number(label: object) -> int:
    assert isinstance(label, int)
    return label


def _fold(
    model: AuditedModel, rows: Rows, max_groups: int, options: EstimationOptions
) -> FoldedRows:
    """Read the moments of rows by fold.

    Raises
    ------
    InvalidInput
        The moments of this many groups do not fit into memory.
    """
    assert options.folds is not None
    n_folds = affordable_folds(options.folds, max_groups, rows.n_features)
    if n_folds is None:
        raise InvalidInput(
            f"Moments of {counted(max_groups, 'slice')} with {rows.n_features} features by fold "
            "do not fit into memory",
            "Allowed: slices whose moments fit into 2 GiB",
            "Raise min_rows, or pass attributes of fewer values",
        )
    limit = GroupLimit(max_groups)
    return FoldedRows.read([model], rows, Folds(n_folds, options.seed), limit)
