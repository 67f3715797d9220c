"""Equal means of the groups' projected rows, up to a tolerance."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, cast

import numpy as np

from fairspan.errors import Cause, IncompatibleParameters, InvalidInput, InvalidParameter
from fairspan.formatting.messages import counted
from fairspan.moments.compute import Moments
from fairspan.moments.group_moments import GroupMoments
from fairspan.moments.merging import merge_moments
from fairspan.parameters import (
    check_bool,
    check_choice,
    check_number,
    make_plain,
    non_default_parameters,
)
from fairspan.problem.criteria.criterion import Criterion
from fairspan.problem.criteria.linear import TotalError
from fairspan.problem.directions import (
    central_differences,
    central_index,
    equal_means_basis,
    mean_difference_directions,
)
from fairspan.problem.limits import MeanDistanceLimit, ParityLimit
from fairspan.problem.restrictions.restriction import Restriction, check_tolerance_supported
from fairspan.rows.labels import Label, format_list, to_python_labels
from fairspan.typing import FloatArray

# Length of what remains of a unit difference of classes beside those of the groups, below which it
# counts as rounding: the condition of the differences multiplies rounding errors of 1e-16.
_MIN_CLASS_DIFFERENCE = 1e-8


@dataclass(frozen=True, repr=False)
class MeanParity(Restriction):
    """Require (nearly) equal means of the groups' projected rows.

    Exact (tolerance 0): V'(m_g - m) = 0 for every group and any mean m of the m_g. V lies in the
    orthogonal complement of these differences, of dimension p - rank, in which any criterion can be
    minimized. With a tolerance, for two groups and total error only: ||V'(m_1 - m_2)|| <= tolerance
    (Olfat and Aswani 2019, here without relaxation).

    Parameters
    ----------
    tolerance : float, default=0.0
        Largest distance between the two projected means, in (scaled) units of the features.
    attributes : {"intersections", "marginal"}, default="intersections"
        Which means are equal when there are several attributes, such as sex and race.
        "intersections": those of all combinations. "marginal": those of the categories of each
        attribute separately, V'Cov(x, z) = 0 for the indicator z of each category; this removes
        sum_j (k_j - 1) directions instead of prod_j k_j - 1. Equivalent for a single attribute.
    within_classes : "all", list of classes, or None, default=None
        Compare the means within each of these classes of the y passed to `fit` (equal opportunity,
        Kleindessner et al. 2023) instead of over all rows. The criterion always uses all rows.
    oblique : bool, default=False
        Project obliquely: rows are shifted along the mean differences by an amount predicted from
        the other features, and then projected, which keeps more variance for the same d. The
        projection has an encoder, whose rows are not orthonormal, and a decoder. Requires total
        error and center="global"; d is at most the rank of the remaining variance
        (:mod:`fairspan.problem.oblique`).
    keep_outcome : bool, default=False
        Keep what the features tell of the y passed to `fit`: with N the directions of the mean
        differences, the subspace contains (I - NN')Cov(x, 1[y = c]) for every class c, so that the
        covariance of the reduced rows with the classes is as large as equal means allow. There must
        be more components than such directions, at most the number of classes minus one.

    Raises
    ------
    InvalidParameter, InvalidType
        The tolerance is negative or not finite; an unknown value of `attributes`; `oblique` is not
        a bool.
    IncompatibleParameters
        A tolerance together with another parameter, or `keep_outcome` with `oblique`. When fitting:
        too few directions or components remain; or the criterion, number of groups, center or
        solver does not support a tolerance, an oblique projection or `keep_outcome`.

    Examples
    --------
    >>> import numpy as np
    >>> from fairspan import FairPCA, MeanParity
    >>> X = np.array([[3.0, 1, 0], [-1, 1, 0], [0, 0, 2], [0, 0, -2]])
    >>> groups = ["a", "a", "b", "b"]
    >>> for restriction in (None, MeanParity(tolerance=0.5), MeanParity()):
    ...     hidden = FairPCA(1, criterion="total_error", restriction=restriction)
    ...     reduced = hidden.fit_transform(X, sensitive_features=groups)
    ...     print(abs(reduced[:2].mean() - reduced[2:].mean()).round(3), round(hidden.score(X), 3))
    1.115 -2.219
    0.5 -2.438
    0.0 -2.5
    """

    tolerance: float = 0.0
    attributes: str = field(default="intersections", kw_only=True)
    within_classes: str | Sequence[Label] | None = field(default=None, kw_only=True)
    oblique: bool = field(default=False, kw_only=True)
    keep_outcome: bool = field(default=False, kw_only=True)
    name: ClassVar[str] = "mean_parity"
    is_rotation_equivariant: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_number("tolerance", self.tolerance, 0)
        check_choice("attributes", self.attributes, ("intersections", "marginal"))
        check_bool("oblique", self.oblique)
        check_bool("keep_outcome", self.keep_outcome)
        classes = self.within_classes
        if isinstance(classes, list | tuple | np.ndarray) and len(classes):
            object.__setattr__(self, "within_classes", tuple(to_python_labels(classes)))
        elif classes is not None and not (isinstance(classes, str) and classes == "all"):
            raise InvalidParameter(
                f"within_classes is {classes!r}",
                "Allowed: None, 'all' and a list of classes of y",
                "Use one of these, for example within_classes=[1]",
            )
        make_plain(self)  # numbers of other packages become built-in ones
        # A positive tolerance is itself one parameter that differs from its default.
        if self.tolerance > 0 and len(non_default_parameters(self)) > 1:
            raise IncompatibleParameters(
                f"{self!r} has a tolerance",
                "Allowed with a tolerance: all other parameters at their defaults",
                "Reset them, or use tolerance=0",
            )
        if self.oblique and self.keep_outcome:
            raise IncompatibleParameters(
                f"{self!r} is oblique",
                "Allowed with keep_outcome=True: orthogonal projections, whose optimum is proven",
                "Use oblique=False",
            )

    def __repr__(self) -> str:
        # Omit defaults, to keep the names of models short.
        arguments = {"tolerance": self.tolerance} | non_default_parameters(self)
        return f"MeanParity({', '.join(f'{name}={value!r}' for name, value in arguments.items())})"

    def check_compatible(
        self, group_labels: list[Label], criterion: Criterion, *, allow_extra: bool
    ) -> None:
        """Raise IncompatibleParameters if groups or criterion do not suit the restriction."""
        if self.tolerance > 0:
            check_tolerance_supported(
                self,
                group_labels,
                criterion,
                allow_extra=allow_extra,
                alternative="MeanParity(tolerance=0) supports every criterion and number of groups",
            )
        if self.oblique and not isinstance(criterion, TotalError):
            raise IncompatibleParameters(
                f"{self!r} was requested together with the criterion {criterion.name!r}",
                "Allowed with an oblique projection: the criterion 'total_error'",
                "Use that criterion, or MeanParity(), which supports every criterion",
            )
        if self.keep_outcome and criterion.depends_on_variance_kept:
            raise IncompatibleParameters(
                f"{self!r} was requested together with the criterion {criterion.name!r}",
                "Allowed with keep_outcome=True: criteria of the groups' errors, such as "
                "'minimax_loss' and 'minimax_error'",
                "Use one of these, or keep_outcome=False",
            )

    def constrained_means(self, moments: Moments) -> FloatArray:
        """Means that must agree, relative to the mean of one of the groups, shape (m, p).

        Raises
        ------
        InvalidInput
            The moments do not contain the classes, or not all of them.

        Examples
        --------
        >>> from fairspan import GroupMoments
        >>> groups = [("a", 0), ("a", 1), ("b", 0), ("b", 1)]
        >>> moments = GroupMoments.from_rows(np.eye(4), groups)
        >>> MeanParity().constrained_means(moments).shape
        (4, 4)
        >>> means = MeanParity(attributes="marginal").constrained_means(moments)
        >>> int(np.linalg.matrix_rank(means - means[0]))
        2
        """
        # Means must agree within each set: one for each class, or one for each class and attribute.
        mean_sets: list[FloatArray] = []
        for class_moments in self._class_moments(moments):
            # Relative to a central group, so that a distant one costs the others no digits.
            means = central_differences(class_moments)
            mean_sets += _split_into_sets(class_moments, self.attributes, means)
        if len(mean_sets) == 1:
            return mean_sets[0]
        # Means need not agree between sets. Translate each so that a mean near its middle is zero:
        # differences within sets then span the same directions as those of the array.
        return np.vstack([mean_set - mean_set[central_index(mean_set)] for mean_set in mean_sets])

    def variances_of(self, moments: Moments, columns: FloatArray | None = None) -> FloatArray:
        """Variances in the rows of each of these means: of features, or along (p, q) columns."""
        variance_sets: list[FloatArray] = []
        for class_moments in self._class_moments(moments):
            variances = class_moments.variances_along(columns)
            variance_sets += _split_into_sets(class_moments, self.attributes, variances)
        return variance_sets[0] if len(variance_sets) == 1 else np.vstack(variance_sets)

    def _class_moments(self, moments: Moments) -> Sequence[Moments]:
        """Moments of the rows within which the means agree: all rows, or those of each class."""
        if self.within_classes is None or moments.n_groups == 1:
            return [moments]
        if moments.by_class is None:
            raise _missing_classes_error(f"within_classes is {self.within_classes!r}")
        return _moments_by_class(moments.by_class, self.within_classes)

    def required_directions(self, moments: Moments, forbidden: FloatArray) -> FloatArray | None:
        """Orthonormal directions along which the classes of y differ, (p, r); None for none.

        They are the differences of the means of the classes, without their parts in the forbidden
        directions.

        Raises
        ------
        InvalidInput
            The moments do not contain the classes.
        IncompatibleParameters
            The classes differ along forbidden directions only, or not at all.
        """
        if not self.keep_outcome:
            return None
        if moments.by_class is None:
            raise _missing_classes_error("keep_outcome is True")
        # Groups with the same new label are merged: one for each class.
        classes = merge_moments(
            [moments.by_class], lambda label: cast(tuple[Label, ...], label)[-1]
        )
        differences = mean_difference_directions(
            central_differences(classes), classes.variances_along()
        )
        remainders = differences - forbidden @ (forbidden.T @ differences)
        vectors, lengths, _ = np.linalg.svd(remainders, full_matrices=False)
        # Differences are of unit length, so that what rounding leaves of them is small beside one.
        directions = np.asarray(vectors[:, lengths > _MIN_CLASS_DIFFERENCE])
        if directions.shape[1]:
            return directions
        raise IncompatibleParameters(
            f"{self!r} was requested, and the means of the classes of y "
            f"({counted(len(classes.labels), 'class', 'classes')}) differ along no direction in "
            "which those of the groups agree",
            "Allowed: classes that the features tell apart, besides the groups",
            "Check y, or use keep_outcome=False",
        )

    @property
    def forbids_mean_differences_only(self) -> bool:
        """True unless there is a tolerance, rows are shifted, or directions are required."""
        return self.tolerance == 0 and not self.oblique and not self.keep_outcome

    @property
    def requires_equal_means(self) -> bool:
        """True: exactly, up to the tolerance, or after the shift of the rows."""
        return True

    @property
    def max_mean_distance(self) -> float:
        """The tolerance."""
        return self.tolerance

    def allowed_directions(
        self, means: FloatArray, covariances: FloatArray, n_components: int
    ) -> FloatArray | None:
        """Orthonormal basis of the allowed directions; None for all directions.

        Raises
        ------
        IncompatibleParameters
            Fewer than d directions remain.
        """
        return None if self.tolerance else equal_means_basis(means, covariances, n_components)

    def limit(self, means: FloatArray, covariances: FloatArray) -> ParityLimit | None:
        """Limit on the distance between the two means; None without a tolerance."""
        return MeanDistanceLimit(means[0] - means[-1], self.tolerance) if self.tolerance else None


def _missing_classes_error(request: str) -> InvalidInput:
    """Return the error for moments without the classes that were requested."""
    return InvalidInput(
        f"{request}, and y is missing",
        "Allowed: the class of each row: an array, or the name of a column of X",
        "Pass y to fit, audit, verify or GroupMoments.from_rows",
        cause=Cause.MISSING_CLASSES,
    )


def _moments_by_class(
    by_class: GroupMoments, within_classes: str | Sequence[Label]
) -> Sequence[GroupMoments]:
    """Moments of the groups within each chosen class: all of them, or those that are listed.

    Parameters
    ----------
    by_class : GroupMoments
        Its labels are tuples that end with the class.
    within_classes : "all", or sequence of classes

    Raises
    ------
    InvalidInput
        A listed class does not occur.
    """
    row_classes = [pair[-1] for pair in by_class.labels if isinstance(pair, tuple)]
    known_classes = sorted(set(row_classes))
    classes_used = known_classes if within_classes == "all" else within_classes
    unknown = [label for label in classes_used if label not in row_classes]
    if unknown:
        raise InvalidInput(
            f"within_classes names {format_list(unknown)}, which do not occur in y",
            f"Allowed: 'all' and some of the classes {format_list(known_classes)}",
            "Correct within_classes, or pass a y that contains them",
        )
    return [
        by_class.select_groups(np.array([row_class == label for row_class in row_classes]))
        for label in classes_used
    ]


def _split_into_sets(moments: Moments, attributes: str, values: FloatArray) -> list[FloatArray]:
    """Split means, or variances in the same order, into sets within which means must agree.

    With "intersections" all groups are one set. With "marginal" the categories of each attribute
    are, and the groups of a category are averaged.

    Parameters
    ----------
    moments : Moments
    attributes : {"intersections", "marginal"}
        As of :class:`MeanParity`.
    values : (k, p) array
        Mean or variance of each group.

    Returns
    -------
    list of (m, p) arrays
        Averages over the groups of each category: one set, or one per attribute.
    """
    if attributes == "intersections":
        return [values]
    label_tuples = [label if isinstance(label, tuple) else (label,) for label in moments.labels]
    averages_by_attribute = []
    for column in zip(*label_tuples, strict=True):
        categories = sorted({*column})
        indicator = np.array([[label == category for label in column] for category in categories])
        proportions = indicator * moments.weights / (indicator @ moments.weights)[:, None]
        averages_by_attribute.append(proportions @ values)
    return averages_by_attribute
