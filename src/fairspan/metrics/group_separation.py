"""Leakage and maximum mean discrepancy: how well groups can be separated in a representation."""

from collections.abc import Callable
from itertools import combinations
from math import ceil
from typing import Self

import numpy as np

from fairspan.errors import InvalidInput, InvalidParameter, InvalidType, UnknownGroup, warn
from fairspan.formatting.messages import counted
from fairspan.linalg.rounding import EPS, LOOSE_TOL
from fairspan.metrics.outcomes import check_multiple_groups, encode_groups
from fairspan.parameters import check_integer
from fairspan.progress import track
from fairspan.random_state import as_generator
from fairspan.rows.coded_labels import CodedLabels, factorize_sorted
from fairspan.rows.frames import FrameRows, feature_values, open_features
from fairspan.rows.label_matching import KnownLabels
from fairspan.rows.label_resolution import as_eager_frame
from fairspan.rows.labels import Label, format_list
from fairspan.typing import BoolArray, FloatArray, IntegerArray, RandomSource

# Tolerance of the linear classifier: tight enough that scores do not depend on where its solver
# stopped.
_SVM_TOL = 1e-8
# Largest number of iterations of the linear classifier. It took at most 103 on random rows from
# 5 x 5 to 20,000 x 40 and 200 x 1,000.
_SVM_MAX_ITER = 100_000
# Number of rows up to which all pairs are compared (a kernel of 32 MB); more rows are split into
# blocks of about this size.
_MAX_BLOCK_ROWS = 2_000
# Number of rows whose distances give the median distance: half a million pairs.
_MEDIAN_ROWS = 1_000


def leakage(
    Z_train: object,
    sensitive_features_train: object,
    Z_test: object,
    sensitive_features_test: object,
    *,
    classifier: object = None,
) -> float:
    """Measure how well a classifier separates the groups on held-out rows.

    Delta(F_Lin) = max over thresholds t of abs(P(s(z) <= t | a) - P(s(z) <= t | b)), with s the
    score of a linear classifier trained to separate group a from group b (Olfat and Aswani 2019; Vu
    et al. 2022, Table 4): the Kolmogorov-Smirnov statistic of the groups' scores. With more than
    two groups, each is separated from all others, and the largest value is returned. Zero means
    that no threshold on this score treats the groups differently; one, that the groups are
    separated. By chance alone it is about 1 / sqrt(n), n the size of the smaller held-out group.

    Parameters
    ----------
    Z_train : (n, d) array or data frame
        Representation of the training rows, such as ``model.transform(X_train)``.
    sensitive_features_train : (n,) or (n, a) array-like or data frame, or mapping of name to column
        Group of each training row; several attributes define their intersections.
    Z_test : (t, d) array or data frame
        Representation of held-out rows; columns of frames are matched by name.
    sensitive_features_test : as sensitive_features_train, for the held-out rows
    classifier : scikit-learn classifier, optional
        Classifier of the groups with `decision_function` or `predict_proba`. It is cloned, not
        fitted itself. The default is linear, see the notes.

    Returns
    -------
    float
        Between 0 and 1.

    Raises
    ------
    InvalidInput
        A single group, a group without held-out rows, inconsistent lengths or numbers of columns,
        NaN or infinity, or missing labels.
    UnknownGroup
        A held-out group without training rows.
    InvalidType
        A classifier without scores.

    Notes
    -----
    The default classifier is scikit-learn's LinearSVC (squared hinge loss, C = 1, unweighted). For
    every classifier, columns are standardized by the mean and standard deviation (ddof 0) of the
    training rows. Columns that are constant there are dropped, with a warning.

    Examples
    --------
    >>> import numpy as np
    >>> from fairspan import metrics
    >>> Z = np.array([[0.0, 1], [1, 0], [0, 2], [9, 1], [8, 0], [9, 2]])
    >>> groups = ["a", "a", "a", "b", "b", "b"]
    >>> metrics.leakage(Z, groups, Z, groups)
    1.0
    >>> metrics.leakage(Z[:, 1:], groups, Z[:, 1:], groups)
    0.0
    """
    frame = as_eager_frame(Z_train)
    names = None if frame is None else FrameRows.all_features(frame).feature_names
    train = feature_values(open_features(Z_train), None)
    test = feature_values(open_features(Z_test), names)
    if train.shape[1] != test.shape[1]:
        raise InvalidInput(
            f"Z_train has {counted(train.shape[1], 'column')}, Z_test {test.shape[1]}",
            "Allowed: the same representation for both",
            "Transform both with the same fitted model",
        )
    groups, train_codes = encode_groups(
        sensitive_features_train, Z_train, len(train), ("Z_train", "sensitive_features_train")
    )
    test_groups, test_codes = encode_groups(
        sensitive_features_test, Z_test, len(test), ("Z_test", "sensitive_features_test")
    )
    test_groups, test_codes = _match_groups(groups, test_groups, test_codes)
    _check_train_and_test_groups(groups, test_groups)
    train, test = _standardize(train, test, names)
    # With two groups, the second classifier is the first one, negated.
    one_vs_rest = range(len(groups)) if len(groups) > 2 else range(1)
    score = _make_scorer(classifier)
    return max(
        _ks_statistic(score(train, train_codes == group, test), test_codes == group)
        for group in one_vs_rest
    )


def _standardize(
    train: FloatArray, test: FloatArray, names: tuple[str, ...] | None
) -> tuple[FloatArray, FloatArray]:
    """Standardize both by the training rows; constant columns become zero, with a warning."""
    mean = train.mean(axis=0)
    scale = train.std(axis=0)
    # A constant column may differ from its mean by rounding, which is not variance.
    rounding = EPS * 10 * np.abs(mean)
    scale = np.where(scale > rounding, scale, np.inf)
    if np.isinf(scale).any():
        constant = [names[j] if names else int(j) for j in np.flatnonzero(np.isinf(scale))]
        noun = "column" if len(constant) == 1 else "columns"
        warn(f"leakage drops the constant {noun} {format_list(constant)} of Z_train.")
    return (train - mean) / scale, (test - mean) / scale


def _make_scorer(
    classifier: object,
) -> Callable[[FloatArray, BoolArray, FloatArray], FloatArray]:
    """Return a function that fits a clone of the classifier and scores held-out rows.

    Called as score(train, is_member, test): it learns from the (n, d) training rows which belong to
    a group, and returns a score for each held-out row that increases with membership. The order of
    the scores is all that matters, so a decision function serves as well as a probability.
    """
    # Imported lazily: scikit-learn takes seconds to load, and only this metric needs it.
    from sklearn.base import clone
    from sklearn.svm import LinearSVC

    if classifier is None:
        classifier = LinearSVC(dual="auto", tol=_SVM_TOL, max_iter=_SVM_MAX_ITER, random_state=0)
    elif not (hasattr(classifier, "decision_function") or hasattr(classifier, "predict_proba")):
        raise InvalidType(
            f"classifier is {classifier!r}",
            "Allowed: a scikit-learn classifier with decision_function or predict_proba",
            "Omit it to use a linear classifier",
        )

    def score(train: FloatArray, is_member: BoolArray, test: FloatArray) -> FloatArray:
        fitted = clone(classifier).fit(train, is_member)
        if hasattr(fitted, "decision_function"):
            return np.asarray(fitted.decision_function(test))
        probability_of_member = fitted.predict_proba(test)[:, 1]
        return np.asarray(probability_of_member)

    return score


def _ks_statistic(scores: FloatArray, is_member: BoolArray) -> float:
    """Kolmogorov-Smirnov statistic of the scores of members and of all others.

    The largest difference of their cumulative distribution functions, which is attained at one of
    the scores.
    """
    member_scores = np.sort(scores[is_member])
    other_scores = np.sort(scores[~is_member])
    member_cdf = np.searchsorted(member_scores, scores, side="right") / len(member_scores)
    other_cdf = np.searchsorted(other_scores, scores, side="right") / len(other_scores)
    return float(np.abs(member_cdf - other_cdf).max())


def _match_groups(
    groups: tuple[Label, ...], test_groups: tuple[Label, ...], codes: IntegerArray
) -> tuple[tuple[Label, ...], IntegerArray]:
    """Replace held-out labels by training labels that are equal as text, with a warning.

    Parameters
    ----------
    groups : tuple of labels
        Of the training rows.
    test_groups, codes : tuple of labels, (n,) array of int
        Of the held-out rows, and the index of each row's group.

    Returns
    -------
    tuple of labels, (n,) array of int
        The held-out groups and codes with the labels replaced; labels without a match stay.
    """
    labels = CodedLabels(list(test_groups), np.asarray(codes, dtype=np.intp))
    known = KnownLabels.from_groups(groups)
    matched = known.match(labels)
    if matched is labels:
        return test_groups, codes
    notice = known.describe_matches(labels)
    if notice is not None:
        warn(notice)
    return factorize_sorted(matched)


def _check_train_and_test_groups(groups: tuple[Label, ...], test_groups: tuple[Label, ...]) -> None:
    """Check that the same groups, at least two, are in both parts."""
    check_multiple_groups(groups, "All rows of sensitive_features_train")
    unknown = [label for label in test_groups if label not in groups]
    if unknown:
        raise UnknownGroup(
            "sensitive_features_test contains groups without training rows: "
            f"{format_list(unknown)}",
            f"Allowed: the groups {format_list(groups)}",
            "Split the rows so that each group is in both parts",
        )
    missing = [label for label in groups if label not in test_groups]
    if missing:
        raise InvalidInput(
            f"sensitive_features_test contains no rows of {format_list(missing)}",
            "Allowed: held-out rows of every group",
            "Split the rows so that each group is in both parts",
        )


class MMDEstimate(float):
    """Estimate of the squared maximum mean discrepancy: a float with details of the estimation.

    Attributes
    ----------
    p_value : float or None
        Fraction of label permutations with at least this estimate, including the observed labels;
        None without permutations.
    bandwidth : float
        Kernel bandwidth, in units of the rows.
    n_blocks : int
        Number of blocks whose estimates were averaged; 1 if all pairs of rows were compared.
    """

    p_value: float | None
    bandwidth: float
    n_blocks: int

    def __new__(cls, value: float, p_value: float | None, bandwidth: float, n_blocks: int) -> Self:
        """Create a float with attributes."""
        estimate = super().__new__(cls, value)
        estimate.p_value = p_value
        estimate.bandwidth = bandwidth
        estimate.n_blocks = n_blocks
        return estimate

    def __repr__(self) -> str:
        """Representation with the p-value."""
        p_value_text = "" if self.p_value is None else f", p_value={self.p_value:.3g}"
        return f"MMDEstimate({float(self):.6g}{p_value_text})"


def mmd(
    Z: object,
    sensitive_features: object,
    *,
    bandwidth: float | None = None,
    n_permutations: int = 199,
    random_state: RandomSource = 0,
) -> MMDEstimate:
    r"""Unbiased estimate of the squared maximum mean discrepancy between the groups' rows.

    MMD^2 = E k(z, z') + E k(w, w') - 2 E k(z, w) for rows z, z' of one group and w, w' of another,
    with the Gaussian kernel k(z, w) = exp(-\|z - w\|^2 / (2 s^2)) (Gretton et al. 2012, equation
    3). It is zero only if both groups have the same distribution. The estimate may be slightly
    negative. With more than two groups, the largest value over all pairs is returned.

    Parameters
    ----------
    Z : (n, d) array or data frame
        Representation of the rows, such as ``model.transform(X)``.
    sensitive_features : (n,) or (n, a) array-like or data frame, or mapping of name to column
        Group of each row; several attributes make their intersections.
    bandwidth : float, optional
        Kernel bandwidth s; by default the median distance between two rows.
    n_permutations : int, default=199
        Number of label permutations for the p-value; 0 for none.
    random_state : int, numpy Generator, or None, default=0
        Seed of the permutations, of the rows for the median, and of the blocks.

    Returns
    -------
    MMDEstimate
        Float with attributes `p_value`, `bandwidth` and `n_blocks`.

    Raises
    ------
    InvalidInput
        A single group, a group of one row, NaN or infinity, missing labels, or inconsistent
        lengths.
    InvalidParameter
        The bandwidth is not positive, or the number of permutations is negative.

    Notes
    -----
    The rows on which a model with equal means (`MeanParity`) was fitted have equal means by
    construction, which makes the p-value too large: 0.5 or more if nothing else differs. A warning
    is issued; pass held-out rows instead.

    Up to 2,000 rows, all pairs are compared. More rows are split into blocks of about that size,
    each with the same number of rows of each group, and the block estimates are averaged (Zaremba
    et al. 2013): the run time is linear in the number of rows, the estimate stays unbiased, and its
    variance increases. Labels are permuted within blocks. If one group has too few rows for that
    many blocks, the larger groups are subsampled.

    Examples
    --------
    >>> import numpy as np
    >>> from fairspan import metrics
    >>> rng = np.random.default_rng(0)
    >>> groups = np.repeat(["a", "b"], 100)
    >>> Z = rng.normal(size=(200, 2)) + 2.0 * (groups == "b")[:, None]
    >>> estimate = metrics.mmd(Z, groups)
    >>> round(estimate, 2), estimate.p_value
    (0.56, 0.005)
    """
    rows = feature_values(open_features(Z), None)
    groups, codes = encode_groups(sensitive_features, Z, len(rows), ("Z", "sensitive_features"))
    counts = np.bincount(codes, minlength=len(groups))
    _check_group_sizes(groups, counts)
    if bandwidth is not None and not bandwidth > 0:
        raise InvalidParameter(
            f"bandwidth is {bandwidth!r}",
            "Allowed: positive numbers",
            "Omit it to use the median distance between rows",
        )
    check_integer("n_permutations", n_permutations, minimum=0)
    means = np.array([rows[codes == code].mean(axis=0) for code in range(len(groups))])
    if _means_are_equal(means, rows):
        warn(
            "The group means are equal, as they are for the rows on which a model with equal "
            "means was fitted, which makes the p-value too large: pass held-out rows."
        )
    rng = as_generator(random_state)
    bandwidth = _median_distance(rows, rng) if bandwidth is None else float(bandwidth)
    blocks = _split_into_blocks(codes, counts, rng)
    n_pairs = len(list(combinations(range(len(groups)), 2)))
    # The first row is for the groups as they are, the others for permuted labels.
    estimate_sums = np.zeros((1 + n_permutations, n_pairs))
    for block in track("comparing rows", blocks, "blocks"):
        estimate_sums += _block_estimates(rows[block], codes[block], bandwidth, n_permutations, rng)
    max_estimates = (estimate_sums / len(blocks)).max(axis=1)
    p_value = float((max_estimates >= max_estimates[0]).mean()) if n_permutations else None
    return MMDEstimate(float(max_estimates[0]), p_value, bandwidth, len(blocks))


def _check_group_sizes(groups: tuple[Label, ...], counts: IntegerArray) -> None:
    """Check that there are at least two groups of at least two rows.

    Raises
    ------
    InvalidInput
    """
    if len(groups) >= 2 and counts.min() >= 2:
        return
    single = [label for label, count in zip(groups, counts, strict=True) if count < 2]
    if not single:
        reason = "All rows belong to one group"
    elif len(single) == 1:
        reason = f"The group {single[0]!r} has one row"
    else:
        reason = f"The groups {format_list(single)} have one row each"
    raise InvalidInput(
        reason,
        "Allowed: at least two groups of at least two rows",
        "Drop such groups, or check the group column",
    )


def _means_are_equal(means: FloatArray, rows: FloatArray) -> bool:
    """Whether group means agree far better than chance allows in every column."""
    deviations = rows.std(axis=0)
    ranges = means.max(axis=0) - means.min(axis=0)
    # By chance, means differ by about 1 / sqrt(rows): closer ones are equal by construction.
    return bool(deviations.any() and (ranges <= LOOSE_TOL * deviations).all())


def _median_distance(rows: FloatArray, rng: np.random.Generator) -> float:
    """Median distance between two distinct rows; 1 if all rows are equal."""
    from scipy.spatial.distance import pdist

    if len(rows) > _MEDIAN_ROWS:
        rows = rows[rng.choice(len(rows), _MEDIAN_ROWS, replace=False)]
    distances = pdist(rows)
    median = float(np.median(distances))
    if median > 0:
        return median
    # At least half of the pairs are equal rows: take the median of the others.
    return float(np.median(distances[distances > 0])) if distances.any() else 1.0


def _split_into_blocks(
    codes: IntegerArray, counts: IntegerArray, rng: np.random.Generator
) -> list[IntegerArray]:
    """Row indices of each block, with the same number of rows of each group in every block.

    All rows form one block if they are few. Otherwise the rows of each group are shuffled and dealt
    to the blocks, at least two per block, which pairs need; rows that remain are left out.
    """
    if len(codes) <= _MAX_BLOCK_ROWS:
        return [np.arange(len(codes))]
    max_group_rows = max(_MAX_BLOCK_ROWS // len(counts), 2)
    n_blocks = min(ceil(counts.max() / max_group_rows), int(counts.min()) // 2)
    block_parts: list[list[IntegerArray]] = [[] for _ in range(n_blocks)]
    for code in range(len(counts)):
        group_rows = rng.permutation(np.flatnonzero(codes == code))
        size = min(len(group_rows) // n_blocks, max_group_rows)
        for i, parts in enumerate(block_parts):
            parts.append(group_rows[i * size : (i + 1) * size])
    return [np.concatenate(parts) for parts in block_parts]


def _block_estimates(
    rows: FloatArray,
    codes: IntegerArray,
    bandwidth: float,
    n_permutations: int,
    rng: np.random.Generator,
) -> FloatArray:
    """Estimates of one block for its labels and for each permutation, shape (1 + m, pairs).

    There is one estimate of MMD^2, as defined in :func:`mmd`, for each pair of groups; the first
    row is for the labels themselves and the m others are for their permutations.
    """
    from scipy.spatial.distance import pdist, squareform

    # Rows are not compared with themselves, so the diagonal stays zero.
    kernel = squareform(np.exp(-(pdist(rows, "sqeuclidean") / (2 * bandwidth**2))))
    n_groups = int(codes.max()) + 1
    counts = np.bincount(codes, minlength=n_groups).astype(np.float64)
    # Axes: labeling, row.
    labelings = np.array([codes, *(rng.permutation(codes) for _ in range(n_permutations))])
    # Axes: labeling, row, group.
    indicators = (labelings[:, :, None] == np.arange(n_groups)).astype(np.float64)
    # A single matrix product for all permutations; axes of the result as those of `indicators`.
    stacked_indicators = np.moveaxis(indicators, 0, 1).reshape(len(codes), -1)
    stacked_sums = (kernel @ stacked_indicators).reshape(len(codes), -1, n_groups)
    kernel_sums = np.moveaxis(stacked_sums, 1, 0)
    # Axes: labeling, group, group.
    sums = indicators.transpose(0, 2, 1) @ kernel_sums
    within_means = np.diagonal(sums, axis1=1, axis2=2) / (counts * (counts - 1))
    between_means = sums / np.outer(counts, counts)
    pairs = combinations(range(n_groups), 2)
    return np.transpose(
        [within_means[:, a] + within_means[:, b] - 2 * between_means[:, a, b] for a, b in pairs]
    )
