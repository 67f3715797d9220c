"""The search for slices that lose most: found in one half of the rows, tested in the other."""

from collections.abc import Mapping, Sequence

from fairspan.auditing.encoded_rows import encode_rows
from fairspan.auditing.estimation_options import EstimationOptions, estimation_options
from fairspan.auditing.in_sample import MAX_P_VALUE, InSampleStatus
from fairspan.auditing.intervals import DEFAULT_LEVEL
from fairspan.auditing.models import AuditedModel, read_model, restriction_columns
from fairspan.errors import (
    Cause,
    IncompatibleParameters,
    InvalidInput,
    caller_argument_names,
    caller_remedies,
)
from fairspan.linalg.memory import explain_memory_errors
from fairspan.moments.dropped_rows import no_complete_rows_error
from fairspan.parameters import check_bool, check_choice, check_integer
from fairspan.rows.aggregation import Rows, aggregate, with_row_offsets
from fairspan.rows.folds import Folds, RowsOutsideFold
from fairspan.rows.opening import is_row_source, open_rows
from fairspan.rows.protocol import row_metadata
from fairspan.rows.row_remedies import python_remedies
from fairspan.slices.conjunctions import CellCounts, Conjunction, HalfCounter
from fairspan.slices.slice_losses import (
    ConfirmedFigures,
    ConfirmingRows,
    SearchedLoss,
    in_sample_status,
    search_losses,
)
from fairspan.slices.slice_rows import group_by_attributes
from fairspan.slices.slice_search import Slice, SliceSearch, sort_slices
from fairspan.typing import LabelsLike, RandomSource, TableLike, WeightsLike

_MODEL_NAME = "model"
# Largest number of slices that are tested: with more, each has a smaller share of the level.
_MAX_TESTED = 20
# Folds of the cross-fitted losses in each half, as in audits.
_N_FOLDS = 10
# Added to the seed of the folds for the halves, which must not depend on the folds within them.
_SEED_OF_HALVES = 2**20
_ON_MISSING = ("error", "drop")
_CALL = "find_slices(..., {})"


@explain_memory_errors()
def find_slices(
    model: object,
    X: TableLike,
    attributes: LabelsLike,
    *,
    max_depth: int = 2,
    min_rows: int = 100,
    sample_weight: WeightsLike = None,
    clusters: LabelsLike = None,
    level: float = DEFAULT_LEVEL,
    materiality: float = 0.01,
    random_state: RandomSource = 0,
    on_missing: str = "error",
    force: bool = False,
) -> SliceSearch:
    """Find slices of the rows, conjunctions of attributes, that lose most under a model.

    Half of the rows are searched. The slices that lose most there are tested in the other half, so
    that the search does not count as evidence.

    Parameters
    ----------
    model : model
        A projection, as for :func:`audit`: a FairPCA, a PCA, a FairSubspace, the path of a saved
        one, or a (d, p) array with orthonormal rows. It is evaluated as it is.
    X : (n, p) table of finite numbers
        Rows that the model was not fitted to, in any form that `FairPCA.fit` accepts.
    attributes : (n,) or (n, a) array-like or data frame, or column name(s) of X
        Attributes of each row, with up to 100 values each. Bin continuous ones.
    max_depth : int
        Maximum number of attributes of a slice.
    min_rows : int
        Smallest number of rows of a slice, in both halves together.
    sample_weight : (n,) array-like, or column name of X, optional
        Sampling weights of the rows.
    clusters : (n,) array-like, or column name of X, optional
        Cluster of each row, such as the person it belongs to. The rows of a cluster stay in one
        half, and count as one observation in the intervals.
    level : float
        Confidence level of all tests jointly, in (0.5, 1).
    materiality : float
        Smallest loss that counts, as a share of the slice's variance, in [0, 1).
    random_state : int, Generator, RandomState or None
        Seed or generator of the halves and folds.
    on_missing : {"error", "drop"}
        Treatment of rows in which a feature or an attribute is missing.
    force : bool
        Accept rows that seem to be those of the fit, since the model fits them unusually closely:
        about one in 200 to 500 tables of new rows does. Rows that are known to be those of the fit,
        as their number and mean are the same, are refused all the same.

    Returns
    -------
    SliceSearch
        At most twenty slices, and which of them are confirmed; there may be none.

    Raises
    ------
    InvalidInput
        Invalid rows, rows of the fit (unless `force`), or an attribute of more than 100 values.
    InvalidType
        A model of an unsupported type, or not fitted.
    IncompatibleParameters
        The model is not a projection.
    InvalidParameter
        A parameter is out of range.

    Notes
    -----
    The loss of a slice is its error minus the smallest error of any subspace of the same dimension,
    cross-fitted as in an audit: it is what the slice loses by the choice of the model. A slice with
    a large error need not lose anything, if no subspace fits it better.

    A slice is tested if its loss in the searched half is significant by itself, material, and above
    the optimism of its best subspace; the twenty with the largest lower limits are. A conjunction
    must also lose more than each slice that it is a part of, beyond its own interval.

    In the other half, slices are confirmed by the rule by which an audit calls a group harmed, at
    levels adjusted by the step-down method of Holm (1979, A Simple Sequentially Rejective Multiple
    Test Procedure, Scandinavian Journal of Statistics 6): the probability that any slice without a
    loss is confirmed is at most 1 - `level`. Intervals are Bonferroni-adjusted for all slices that
    are tested; the lower limit of a confirmed slice is at least zero.

    Examples
    --------
    >>> import numpy as np
    >>> import fairspan as fs
    >>> def draw_rows(seed):
    ...     rng = np.random.default_rng(seed)
    ...     X = rng.standard_normal((4000, 5)) * [3, 2, 1, 1, 1]
    ...     attributes = rng.choice(["no", "yes"], (4000, 3))
    ...     both = (attributes[:, :2] == "yes").all(axis=1)
    ...     X[both] = X[both][:, [0, 2, 1, 3, 4]]  # these rows vary in another feature
    ...     return X, attributes
    >>> X, _ = draw_rows(0)
    >>> model = fs.FairPCA(2, missing_groups="ignore").fit(X)
    >>> search = fs.find_slices(model, *draw_rows(1))
    >>> [confirmed.name for confirmed in search.confirmed]
    ['attribute 0=yes & attribute 1=yes']
    """
    encoded = encode_rows(model, X)
    if encoded is not None:
        return find_slices(
            encoded.models,
            encoded.rows,
            encoded.resolve(attributes),
            max_depth=max_depth,
            min_rows=min_rows,
            sample_weight=encoded.resolve(sample_weight),
            clusters=encoded.resolve(clusters),
            level=level,
            materiality=materiality,
            random_state=random_state,
            on_missing=on_missing,
            force=force,
        )
    if attributes is None:
        raise InvalidInput(
            "attributes is None",
            "Allowed: one or more attributes per row, or names of columns of X",
            "Pass attributes, such as sex and region",
        )
    check_integer("max_depth", max_depth)
    check_integer("min_rows", min_rows, minimum=2)
    check_choice("on_missing", on_missing, _ON_MISSING)
    check_bool("force", force)
    options = estimation_options(
        _N_FOLDS, level, materiality, random_state, has_clusters=clusters is not None
    )
    # Rows are read with the attributes as their groups.
    argument_names = caller_argument_names({"sensitive_features": "attributes"})
    with argument_names, caller_remedies(_remedies(X)):
        rows = open_rows(
            X,
            attributes,
            clusters=clusters,
            sample_weight=sample_weight,
            on_missing=on_missing,  # type: ignore[arg-type]
            attributes=restriction_columns(model),
        )
        audited = read_model(_MODEL_NAME, model, rows.n_features)
        _check_projection(audited)
        if audited.subspace.feature_names is not None:
            rows = rows.select_features(audited.subspace.feature_names)
        if not options.has_clusters:
            # Rows are assigned to halves and folds by their positions.
            rows = with_row_offsets(rows)
        halves = Folds(2, options.seed + _SEED_OF_HALVES)
        counts = _count_cells(rows, halves)
        _check_new_rows(in_sample_status(audited, rows, counts, options), force=force)
        conjunctions = counts.conjunctions(max_depth, min_rows)
        return _search(audited, rows, halves, counts, conjunctions, options)


def _remedies(X: TableLike) -> dict[Cause, str]:
    """Return remedies for errors in rows; open rows keep those of the function that opened them."""
    if is_row_source(X):
        return {}
    return python_remedies(_CALL, allows_em=False)


def _check_projection(model: AuditedModel) -> None:
    """Check that the model is a projection, whose errors have a smallest value for each slice.

    Raises
    ------
    IncompatibleParameters
    """
    if model.row_model is not None:
        raise IncompatibleParameters(
            "The model is not a projection, so that no subspace is the best one for a slice",
            "Allowed: projections, such as a FairPCA or a PCA",
            "Audit it with groups of interest: audit(model, X, groups)",
        )


def _count_cells(rows: Rows, halves: Folds) -> CellCounts:
    """Count the rows of each combination of attributes in both halves.

    Raises
    ------
    InvalidInput
        There are no complete rows, or an attribute has too many values.
    """
    counts_by_label = aggregate(rows, HalfCounter(halves))
    if counts_by_label is None:
        raise no_complete_rows_error(rows, 0)
    return CellCounts.from_labels(counts_by_label, row_metadata(rows).group_columns)


def _check_new_rows(status: InSampleStatus, *, force: bool) -> None:
    """Check that the model was not fitted to the rows; `force` accepts those that only seem so.

    Raises
    ------
    InvalidInput
    """
    if not status.in_sample or (status.inferred and force):
        return
    received = "These rows are those of the fit"
    remedy = (
        "Split the rows before the fit (sklearn.model_selection.train_test_split), and pass those "
        "that were left out"
    )
    if status.inferred:
        received = (
            "The model fits these rows more closely than it would fit new ones (p < "
            f"{MAX_P_VALUE:g}), so that they seem to be those of the fit, or to overlap with them"
        )
        remedy += "; if none of these rows was fitted, pass force=True"
    raise InvalidInput(
        received,
        "Allowed: rows that the model was not fitted to, whose losses tell of new rows",
        remedy,
    )


def _search(
    model: AuditedModel,
    rows: Rows,
    halves: Folds,
    counts: CellCounts,
    conjunctions: Sequence[Conjunction],
    options: EstimationOptions,
) -> SliceSearch:
    """Search one half of the rows, and test the slices that lose most there in the other.

    Parameters
    ----------
    model : AuditedModel
    rows : Rows
        Rows whose groups are the combinations of all attributes.
    halves : Folds
        Two folds, of which the first is searched, and the second confirms.
    counts : CellCounts
    conjunctions : sequence of Conjunction
        Slices to search.
    options : EstimationOptions
    """
    losses: dict[Conjunction, SearchedLoss] = {}
    searched_rows = RowsOutsideFold(rows, halves, 1)
    for disjoint in group_by_attributes(conjunctions).values():
        losses |= search_losses(model, searched_rows, disjoint, options)
    candidates = _select_candidates(losses, options.materiality)
    figures = _confirm(model, RowsOutsideFold(rows, halves, 0), candidates, options)
    slices = [
        _make_slice(candidate, counts, losses[candidate], figures[candidate])
        for candidate in candidates
        if candidate in figures
    ]
    return SliceSearch(
        slices=sort_slices(slices),
        n_searched=len(losses),
        n_rows=int(counts.total.sum()),
        n_rows_confirming=int(counts.total[1]),
        level=options.level,
        materiality=options.materiality,
    )


def _select_candidates(
    losses: Mapping[Conjunction, SearchedLoss], materiality: float
) -> list[Conjunction]:
    """Return the slices to test: those with the largest lower limits of their losses."""

    def is_candidate(conjunction: Conjunction) -> bool:
        loss = losses[conjunction]
        if not loss.is_large(materiality):
            return False
        parents = [losses[parent] for parent in conjunction.parents if parent in losses]
        return all(loss.low > parent.value for parent in parents)

    large = [conjunction for conjunction in losses if is_candidate(conjunction)]
    large.sort(key=lambda conjunction: -losses[conjunction].low)
    return large[:_MAX_TESTED]


def _confirm(
    model: AuditedModel,
    rows: Rows,
    candidates: Sequence[Conjunction],
    options: EstimationOptions,
) -> dict[Conjunction, ConfirmedFigures]:
    """Test the candidates by the step-down method of Holm, and return their figures.

    All m candidates are tested at (1 - level) / m. Those that are left are tested again at
    (1 - level) / r, with r their number, until none is confirmed.
    """
    parts = [
        ConfirmingRows(model, rows, disjoint, options)
        for disjoint in group_by_attributes(candidates).values()
    ]
    first_figures = _test_slices(parts, len(candidates))
    latest_figures = first_figures
    confirmed: set[Conjunction] = set()
    while True:
        harmed = {candidate for candidate, tested in latest_figures.items() if tested.is_harmed}
        newly_confirmed = harmed - confirmed
        confirmed |= newly_confirmed
        n_left = len(candidates) - len(confirmed)
        if not newly_confirmed or not n_left:
            break
        latest_figures = _test_slices(parts, n_left)
    # The intervals are those of the first test, which hold for all candidates.
    return {
        candidate: tested.with_confirmation() if candidate in confirmed else tested
        for candidate, tested in first_figures.items()
    }


def _test_slices(
    parts: Sequence[ConfirmingRows], n_tests: int
) -> dict[Conjunction, ConfirmedFigures]:
    """Return the figures of all slices, with levels adjusted for `n_tests` simultaneous tests."""
    figures: dict[Conjunction, ConfirmedFigures] = {}
    for part in parts:
        figures |= part.figures(n_tests)
    return figures


def _make_slice(
    conjunction: Conjunction,
    counts: CellCounts,
    searched: SearchedLoss,
    confirmed: ConfirmedFigures,
) -> Slice:
    """Combine the figures of a slice in both halves."""
    n_rows = counts.count(conjunction)
    names = [counts.names[attribute] for attribute in conjunction.attributes]
    estimates = confirmed.estimates
    return Slice(
        conditions=tuple(zip(names, conjunction.values, strict=True)),
        n_rows=int(n_rows.sum()),
        n_rows_confirming=int(n_rows[1]),
        proportion=float(n_rows.sum() / counts.total.sum()),
        total_variance=confirmed.variance,
        error=estimates.expected_error,
        loss=estimates.expected_loss,
        loss_share=confirmed.loss_share,
        searched_loss_share=searched.value,
        state=estimates.state,
    )
