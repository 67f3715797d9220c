"""Restrictions: constraints that make the projected groups look alike, combined with any criterion.

A criterion decides how much error each group may have. A restriction hides the group: it removes
differences between the groups from the projected rows (Olfat and Aswani 2019; Kleindessner et al.
2023). The two goals differ, and a subspace that hides the group can increase the error of a group.

Notation: m_g is the mean of group g, C_g its covariance about that mean (divided by its weight), V
the orthonormal (p, d) basis; all in scaled units if the features are scaled.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, cast

import numpy as np

from fairspan.errors import (
    Cause,
    IncompatibleParameters,
    InvalidInput,
    InvalidParameter,
    InvalidType,
)
from fairspan.formatting.messages import counted
from fairspan.linalg.rounding import EIGENVALUE_ROUNDING, ZERO_EIGENVALUE
from fairspan.moments.compute import Moments
from fairspan.moments.group_moments import GroupMoments
from fairspan.moments.merging import merge_moments
from fairspan.parameters import (
    check_bool,
    check_choice,
    check_integer,
    check_number,
    make_plain,
    non_default_parameters,
)
from fairspan.problem.criteria import Criterion, TotalError
from fairspan.problem.directions import (
    central_differences,
    central_index,
    equal_means_basis,
    mean_difference_directions,
    split_by_variance,
)
from fairspan.problem.limits import CovarianceDifferenceLimit, MeanDistanceLimit, ParityLimit
from fairspan.registry import resolve_object
from fairspan.rows.attributes import ColumnKey, column_positions
from fairspan.rows.labels import Label, format_list, to_python_labels
from fairspan.typing import FloatArray

__all__ = ["CovarianceParity", "MeanParity", "Restriction", "Uncorrelated"]

# Fraction of the directions that covariance parity allows by default.
_DEFAULT_FRACTION = 0.85


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


def _mean_families(moments: Moments, attributes: str, values: FloatArray) -> list[FloatArray]:
    """Arrange means, or variances in the same order, by families whose means must agree.

    With "intersections" all groups are one family. With "marginal" the categories of each attribute
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
        Averages over the groups of each category: one family, or one per attribute.
    """
    if attributes == "intersections":
        return [values]
    label_tuples = [label if isinstance(label, tuple) else (label,) for label in moments.labels]
    families = []
    for column in zip(*label_tuples, strict=True):
        categories = sorted({*column})
        indicator = np.array([[label == category for label in column] for category in categories])
        proportions = indicator * moments.weights / (indicator @ moments.weights)[:, None]
        families.append(proportions @ values)
    return families


def differences_of(restriction: "Restriction", moments: Moments) -> FloatArray:
    """Mean difference directions that a restriction forbids, shape (p, rank)."""
    return mean_difference_directions(
        restriction.constrained_means(moments), restriction.variances_of(moments)
    )


class Restriction(ABC):
    """Constraint on the subspaces that a criterion may choose from, to hide the group.

    To define a restriction, subclass this and provide `name` and `allowed_directions`; everything
    else has a default.

    Attributes
    ----------
    is_rotation_equivariant : bool
        Whether rotating the features only rotates the allowed subspaces. If so, data with fewer
        rows than features are solved in row coordinates; otherwise the moments of all features are
        computed.
    within_classes : "all", sequence of classes, or None
        Classes of y within which the means are compared; the moments then need `by_class`. None for
        all rows.
    columns : tuple of str or int
        Columns used by the restriction that are not features; the moments then need `with_columns`.
    oblique : bool
        Whether rows are shifted until the means agree before they are projected
        (:mod:`fairspan.problem.oblique`).
    """

    is_rotation_equivariant: ClassVar[bool] = False
    within_classes: str | Sequence[Label] | None = None
    columns: tuple[ColumnKey, ...] = ()
    oblique: bool = False

    @property
    @abstractmethod
    def name(self) -> str:
        """Name by which the restriction is selected."""

    @abstractmethod
    def allowed_directions(
        self, means: FloatArray, covariances: FloatArray, n_components: int
    ) -> FloatArray | None:
        """Orthonormal (p, m) columns whose span contains every allowed V; None for all directions.

        V is the orthonormal (p, d) basis of a subspace.

        Parameters
        ----------
        means : (k, p) array
        covariances : (k, p, p) array
            About each group's own mean.
        n_components : int
            d.
        """

    def check_compatible(
        self, group_labels: list[Label], criterion: Criterion, *, allow_extra: bool
    ) -> None:
        """Raise Incompatible if the restriction is undefined for these groups or this criterion."""
        return

    def max_components(self, means: FloatArray, covariances: FloatArray) -> int:
        """Largest number of components that can be requested."""
        directions = self.allowed_directions(means, covariances, 1)
        if directions is None:
            return int(means.shape[1])
        return int(directions.shape[1])

    def limit(self, means: FloatArray, covariances: FloatArray) -> ParityLimit | None:
        """Further constraint within the allowed directions; None if there is none."""
        return None

    @property
    def forbids_mean_differences_only(self) -> bool:
        """Whether, for every d, exactly the directions along which means differ are forbidden.

        Components can then be nested.
        """
        return False

    def constrained_means(self, moments: Moments) -> FloatArray:
        """Means from which the directions are computed, shape (m, p): by default those of groups.

        They are relative to the mean of one of the groups, so that rows far from zero keep their
        precision.
        """
        return central_differences(moments)

    def variances_of(self, moments: Moments, columns: FloatArray | None = None) -> FloatArray:
        """Variances in the rows of each of these means: of features, or along (p, q) columns."""
        return moments.variances_along(columns)


def check_tolerance_supported(
    restriction: Restriction,
    group_labels: list[Label],
    criterion: Criterion,
    *,
    allow_extra: bool,
    alternative: str,
) -> None:
    """Raise Incompatible if a restriction with a tolerance is unsupported here."""
    if len(group_labels) > 2:
        received = counted(len(group_labels), "group")
    elif allow_extra:
        received = "allow_extra=True"
    elif not isinstance(criterion, TotalError):
        received = f"the criterion {criterion.name!r}"
    else:
        return
    raise IncompatibleParameters(
        f"{restriction!r} was requested together with {received}",
        "Allowed with a tolerance: the criterion 'total_error', two groups and allow_extra=False",
        f"Change these, or drop the tolerance: {alternative}",
    )


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

    Raises
    ------
    InvalidParameter, InvalidType
        The tolerance is negative or not finite; an unknown value of `attributes`; `oblique` is not
        a bool.
    Incompatible
        A tolerance together with another parameter. When fitting: too few directions remain; or the
        criterion, number of groups, center or solver does not support a tolerance or an oblique
        projection.

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
    name: ClassVar[str] = "mean_parity"
    is_rotation_equivariant: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_number("tolerance", self.tolerance, 0)
        check_choice("attributes", self.attributes, ("intersections", "marginal"))
        check_bool("oblique", self.oblique)
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

    def __repr__(self) -> str:
        # Omit defaults, to keep the names of models short.
        arguments = {"tolerance": self.tolerance} | non_default_parameters(self)
        return f"MeanParity({', '.join(f'{name}={value!r}' for name, value in arguments.items())})"

    def check_compatible(
        self, group_labels: list[Label], criterion: Criterion, *, allow_extra: bool
    ) -> None:
        """Raise Incompatible if the restriction is undefined for these groups or this criterion."""
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
        # Means must agree within each family: one for each class, or one for each class and
        # attribute.
        families: list[FloatArray] = []
        for class_moments in self._class_moments(moments):
            # Relative to a central group, so that a distant one costs the others no digits.
            means = central_differences(class_moments)
            families += _mean_families(class_moments, self.attributes, means)
        if len(families) == 1:
            return families[0]
        # Means need not agree between families. Translate each so that a mean near its middle is
        # zero: differences within families then span the same directions as those of the array.
        return np.vstack([family - family[central_index(family)] for family in families])

    def variances_of(self, moments: Moments, columns: FloatArray | None = None) -> FloatArray:
        """Variances in the rows of each of these means: of features, or along (p, q) columns."""
        families: list[FloatArray] = []
        for class_moments in self._class_moments(moments):
            variances = class_moments.variances_along(columns)
            families += _mean_families(class_moments, self.attributes, variances)
        return families[0] if len(families) == 1 else np.vstack(families)

    def _class_moments(self, moments: Moments) -> Sequence[Moments]:
        """Moments of the rows within which the means agree: all rows, or those of each class."""
        if self.within_classes is None or moments.n_groups == 1:
            return [moments]
        if moments.by_class is None:
            raise InvalidInput(
                f"within_classes is {self.within_classes!r}, and y is missing",
                "Allowed: the class of each row: an array, or the name of a column of X",
                "Pass y to fit, audit, verify or GroupMoments.from_rows",
                cause=Cause.MISSING_CLASSES,
            )
        return _moments_by_class(moments.by_class, self.within_classes)

    @property
    def forbids_mean_differences_only(self) -> bool:
        """True unless there is a tolerance or rows are shifted."""
        return self.tolerance == 0 and not self.oblique

    def allowed_directions(
        self, means: FloatArray, covariances: FloatArray, n_components: int
    ) -> FloatArray | None:
        """Orthonormal basis of the allowed directions; None for all directions.

        Raises
        ------
        Incompatible
            Fewer than d directions remain.
        """
        return None if self.tolerance else equal_means_basis(means, covariances, n_components)

    def limit(self, means: FloatArray, covariances: FloatArray) -> ParityLimit | None:
        """Limit on the distance between the two means; None without a tolerance."""
        return MeanDistanceLimit(means[0] - means[-1], self.tolerance) if self.tolerance else None


@dataclass(frozen=True)
class CovarianceParity(Restriction):
    """Require equal means and nearly equal covariances of two groups' projected rows.

    Let the columns of Q span the directions that exact :class:`MeanParity` allows. With
    `n_directions`, V lies in the span of the `n_directions` eigenvectors of Q'(C_1 - C_2)Q with the
    smallest absolute eigenvalues (more if the last is tied), in which any criterion is minimized
    (Kleindessner et al. 2023). With `tolerance`, the spectral norm of V'(C_1 - C_2)V is at most
    `tolerance`, for total error only (Olfat and Aswani 2019, see
    :mod:`fairspan.solvers.covariance_limit`).

    Parameters
    ----------
    n_directions : int, default=None
        From d to p - 1 (to p if the means agree already); fewer directions make the covariances
        more alike. The default, without a tolerance, is 85 % of the directions that mean parity
        allows, rounded down, but at least d. Directions without variance are added last, starting
        with that of the common mean.
    tolerance : float, default=None
        Largest absolute difference of the groups' variances along any direction of the subspace, in
        squared (scaled) units of the features; an alternative to `n_directions`. Zero makes them
        equal. The bound comes from a relaxation, so the gap usually stays open;
        solver="semidefinite" narrows it, for up to 60 directions.

    Raises
    ------
    InvalidParameter, InvalidType
        A parameter is out of range.
    Incompatible
        Both parameters are given. When fitting: more than two groups; n_directions below d or above
        what mean parity allows; or a tolerance with an unsupported criterion or solver.

    Examples
    --------
    >>> import numpy as np
    >>> from fairspan import CovarianceParity, FairPCA
    >>> X = np.array([[3.0, 1, 0], [-1, 1, 0], [0, 0, 2], [0, 0, -2]])
    >>> groups = ["a", "a", "b", "b"]
    >>> for n_directions in (2, 1):
    ...     parity = CovarianceParity(n_directions)
    ...     hidden = FairPCA(1, criterion="total_error", restriction=parity)
    ...     reduced = hidden.fit_transform(X, sensitive_features=groups)
    ...     print(reduced[:2].var().round(3), reduced[2:].var().round(3))
    0.0 4.0
    2.0 0.0
    """

    n_directions: int | None = None
    tolerance: float | None = None
    name: ClassVar[str] = "covariance_parity"
    is_rotation_equivariant: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.n_directions is not None:
            check_integer("n_directions", self.n_directions)
        if self.tolerance is not None:
            check_number("tolerance", self.tolerance, 0)
        make_plain(self)  # numbers of other packages become built-in ones
        if self.n_directions is not None and self.tolerance is not None:
            raise IncompatibleParameters(
                f"CovarianceParity received n_directions={self.n_directions!r} and "
                f"tolerance={self.tolerance!r}",
                "Allowed: one of them, or neither: they select different methods",
                "Drop one of them",
            )

    def check_compatible(
        self, group_labels: list[Label], criterion: Criterion, *, allow_extra: bool
    ) -> None:
        """Raise Incompatible if the restriction is undefined for these groups or this criterion."""
        if len(group_labels) > 2:
            raise IncompatibleParameters(
                f"CovarianceParity received {counted(len(group_labels), 'group')}",
                "Allowed: two groups, whose covariances are compared",
                "Use MeanParity(), which supports any number of groups, or merge groups",
            )
        if self.tolerance is not None:
            check_tolerance_supported(
                self,
                group_labels,
                criterion,
                allow_extra=allow_extra,
                alternative="CovarianceParity(n_directions=...) supports every criterion",
            )

    def allowed_directions(
        self, means: FloatArray, covariances: FloatArray, n_components: int
    ) -> FloatArray:
        """Orthonormal basis of the allowed directions.

        Returns
        -------
        (p, n_directions) array
            The directions along which the means agree, and among these the ones along which the
            variances of the two groups differ least. With a tolerance, all along which the means
            agree and rows vary: the difference of the covariances is limited separately.

        Raises
        ------
        Incompatible
            Fewer than d directions remain, or fewer than requested.
        """
        equal_means = equal_means_basis(means, covariances, n_components)
        if len(means) == 1:
            return equal_means  # the covariance of one group is compared with no other
        varying, constant = split_by_variance(equal_means, covariances)
        if n_components > varying.shape[1]:
            raise IncompatibleParameters(
                f"CovarianceParity received n_components={n_components}",
                f"Allowed: at most {varying.shape[1]}: the rows vary about their group's mean "
                "along no more of the directions that mean parity allows",
                "Choose fewer components, or use MeanParity()",
            )
        difference = covariances[0] - covariances[1]
        if self.tolerance is not None:
            return self._directions_within_tolerance(varying, difference, n_components)
        n_features, n_available = equal_means.shape
        n_directions = self._check_n_directions(n_components, n_features, n_available)
        values, vectors = np.linalg.eigh(varying.T @ difference @ varying)
        abs_values = np.abs(values)
        # The order of tied differences is rounding error: take all that are tied with the largest
        # selected one, which hides the group as well.
        threshold = (
            np.sort(abs_values)[:n_directions].max() + EIGENVALUE_ROUNDING * abs_values.max()
        )
        selected = np.flatnonzero(abs_values <= threshold)
        # Groups agree along directions without variance, so these fill up the selection. Errors
        # about the origin count the mean: the complete QR turns these directions so that the first
        # is that of the mean's part in them, and no other changes an error. Means agree in these
        # directions, so the first group's stands for all.
        constant = constant @ np.linalg.qr((means[:1] @ constant).T, mode="complete")[0]
        n_constant = max(n_directions - len(selected), 0)
        return np.hstack([varying @ vectors[:, selected], constant[:, :n_constant]])

    def _directions_within_tolerance(
        self, varying: FloatArray, difference: FloatArray, n_components: int
    ) -> FloatArray:
        """Return the directions in which subspaces within the tolerance are searched.

        These are the directions along which the means agree and the rows vary. Those without
        variance would only fill up a subspace of too few others, which would then seem feasible.

        Parameters
        ----------
        varying : (p, m) array
            Orthonormal basis of the directions along which the means agree and the rows vary.
        difference : (p, p) array
            Difference of the covariances of the two groups.
        n_components : int
        """
        values, vectors = np.linalg.eigh(varying.T @ difference @ varying)
        abs_values = np.abs(values)
        rounding = ZERO_EIGENVALUE * abs_values.max()
        is_indefinite = values[0] < -rounding and values[-1] > rounding
        null_vectors = vectors[:, abs_values <= rounding]
        has_enough = null_vectors.shape[1] >= n_components
        if self.tolerance == 0 and has_enough and not is_indefinite:
            # If the difference D is semidefinite, V'DV = 0 holds for null directions V only, and
            # the best ones are found exactly by an eigendecomposition.
            return np.asarray(varying @ null_vectors)
        return np.asarray(varying)

    def _check_n_directions(self, n_components: int, n_features: int, n_available: int) -> int:
        """Return the number of directions, by default a fraction of those that mean parity allows.

        Raises
        ------
        IncompatibleParameters
            It is below d, or above the number of directions that mean parity allows.
        """
        n_directions = self.n_directions
        if n_directions is None:
            n_directions = max(int(_DEFAULT_FRACTION * n_available), n_components)
        if not n_components <= n_directions <= n_available:
            raise IncompatibleParameters(
                f"CovarianceParity received n_directions={n_directions}",
                f"Allowed: {n_components} (n_components) to {n_available}: mean parity removes "
                f"{n_features - n_available} of {counted(n_features, 'direction')}",
                "Choose a number in that range, or another n_components",
            )
        return n_directions

    def max_components(self, means: FloatArray, covariances: FloatArray) -> int:
        """Largest number of components: the number of allowed directions with variance."""
        allowed = equal_means_basis(means, covariances, 1)
        if len(means) > 1:
            allowed = split_by_variance(allowed, covariances)[0][:, : self.n_directions]
        return int(allowed.shape[1])

    def limit(self, means: FloatArray, covariances: FloatArray) -> ParityLimit | None:
        """Limit on the difference of the two covariances; None without tolerance or difference."""
        if self.tolerance is None:
            return None
        difference = covariances[0] - covariances[-1]
        if np.abs(difference).max() <= ZERO_EIGENVALUE * np.abs(covariances).max():
            return None
        return CovarianceDifferenceLimit(difference, self.tolerance)


@dataclass(frozen=True)
class Uncorrelated(Restriction):
    """Require projected rows that are uncorrelated with given columns, such as age and income.

    For a row with features f and column values z, V'Cov(f, z) = 0: V lies in the orthogonal
    complement of the columns of S_fz = sum_i w_i (f_i - f)(z_i - z)' / sum_i w_i, in which any
    criterion can be minimized. No linear function of the reduced rows then predicts z better than a
    constant does. If z indicates the groups, this is :class:`MeanParity`; the condition is that of
    LEACE (Belrose et al. 2023), with an orthogonal projection.

    The columns are not features: they enter no error, and `transform` does not need them.

    Parameters
    ----------
    columns : str, int, or sequence of these
        Numeric columns, by name, or by position if the rows have no column names.
    within_groups : bool, default=False
        Whether the reduced rows are uncorrelated with the columns within each group, about the
        group's own means, rather than over all rows. This removes up to k times as many directions.

    Raises
    ------
    InvalidParameter, InvalidType
        No column, or a duplicate; `within_groups` is not a bool.
    InvalidInput
        When fitting: the rows lack a column, or it is constant.
    Incompatible
        When fitting: too few directions remain.

    Examples
    --------
    >>> import numpy as np
    >>> from fairspan import FairPCA, Uncorrelated
    >>> rng = np.random.default_rng(0)
    >>> age = rng.normal(size=200)
    >>> X = np.column_stack([rng.normal(size=(200, 3)) + np.outer(age, [2, 1, 0]), age])
    >>> hidden = FairPCA(1, criterion="total_error", restriction=Uncorrelated([3]))
    >>> reduced = hidden.fit(X, sensitive_features=age > 0).transform(X[:, :3])
    >>> bool(abs(np.corrcoef(reduced[:, 0], age)[0, 1]) < 1e-12)
    True
    """

    columns: tuple[ColumnKey, ...] = ()
    within_groups: bool = field(default=False, kw_only=True)
    name: ClassVar[str] = "uncorrelated"
    forbids_mean_differences_only: ClassVar[bool] = True

    def __post_init__(self) -> None:
        received: Any = self.columns
        columns = [received] if isinstance(received, str | int) else list(received)
        if not columns or len(set(columns)) < len(columns):
            raise InvalidParameter(
                f"columns is {received!r}",
                "Allowed: distinct column names, or positions if the rows have no column names",
                'Name at least one, such as Uncorrelated(["age"])',
            )
        # False and True are integers in Python, but no positions.
        is_bool = any(isinstance(column, bool) for column in columns)
        if is_bool or not all(isinstance(column, str | int) for column in columns):
            raise InvalidType(
                f"columns is {received!r}",
                "Allowed: column names or integers",
                'Write them as in Uncorrelated(["age"])',
            )
        object.__setattr__(self, "columns", tuple(columns))
        check_bool("within_groups", self.within_groups)
        make_plain(self)  # numbers of other packages become built-in ones

    def constrained_means(self, moments: Moments) -> FloatArray:
        """Covariance of each feature with each column, preceded by a zero row, shape (1 + m, p).

        The rows take the place of means that must agree: along a direction in which all agree with
        the zero row, features are uncorrelated with the columns. They are in units of the feature,
        since columns are divided by their standard deviations. There are m columns or, if the
        restriction applies within groups, m pairs of a group and a column.

        Raises
        ------
        InvalidInput
            The moments contain the features only, or a column is constant.
        """
        moments_used, positions = self._moments_with_columns(moments)
        features = np.arange(moments.n_features)
        deviations = np.sqrt(moments_used.variances[:, positions])
        divisors = moments_used.weights[:, None] * np.where(deviations > 0, deviations, 1.0)
        scatters = moments_used.scatters[:, positions][:, :, features]
        covariances = scatters / divisors[:, :, None]
        return np.vstack([np.zeros((1, len(features))), *covariances])

    def variances_of(self, moments: Moments, columns: FloatArray | None = None) -> FloatArray:
        """Variances in the rows of each covariance: of features, or along (p, q) columns.

        The first row is zero, like that of :meth:`constrained_means`.
        """
        moments_used, positions = self._moments_with_columns(moments)
        features_only = moments_used.select_features(range(moments.n_features))
        variances = features_only.variances_along(columns)
        repeated = np.repeat(variances, len(positions), axis=0)
        return np.vstack([np.zeros((1, variances.shape[1])), repeated])

    def _moments_with_columns(self, moments: Moments) -> tuple[GroupMoments, list[int]]:
        """Moments of the features and the restriction's columns, and the positions of the latter.

        The moments are by group if the restriction applies within groups, otherwise of all rows.
        """
        with_columns = moments.all_columns
        if with_columns is None:
            raise InvalidInput(
                f"The restriction is {self!r}, and the moments contain the features only",
                "Allowed: moments of the features and of these columns",
                "Compute the moments from rows that have the columns",
            )
        n_columns = with_columns.n_features
        names = with_columns.feature_names
        if names is None:
            positions = list(range(moments.n_features, n_columns))  # they follow the features
        else:
            positions = list(column_positions(self.columns, names, n_columns))
        assert len(positions) == len(self.columns)
        varies = with_columns.standard_deviations[positions] > 0
        if not varies.all():
            constant_columns = [self.columns[i] for i in np.flatnonzero(~varies)]
            raise InvalidInput(
                f"The columns {format_list(constant_columns)} of the restriction are constant",
                "Allowed: columns with at least two distinct values",
                "Drop them from the restriction and from the rows",
            )
        # The restriction does not depend on classes of y, by which the moments may be split.
        by_group = replace(with_columns, by_class=None, skip_validation=True)
        if self.within_groups:
            return by_group, positions
        # One label for all groups merges them.
        return merge_moments([by_group], lambda label: ""), positions

    def allowed_directions(
        self, means: FloatArray, covariances: FloatArray, n_components: int
    ) -> FloatArray:
        """Orthonormal basis of the allowed directions.

        Raises
        ------
        Incompatible
            Fewer than d directions remain.
        """
        return equal_means_basis(means, covariances, n_components)


# Restrictions by name.
RESTRICTIONS = {each.name: each for each in (MeanParity, CovarianceParity, Uncorrelated)}


def get_restriction(restriction: object, **parameters: Any) -> Restriction | None:
    """Get a restriction by name, with parameters, or return the given object or None.

    Raises
    ------
    InvalidParameter, InvalidType
        See :func:`get_criterion`.

    Examples
    --------
    >>> get_restriction("mean_parity")
    MeanParity(tolerance=0.0)
    """
    if restriction is None:
        return None
    return cast(
        Restriction,
        resolve_object("restriction", restriction, Restriction, RESTRICTIONS, parameters),
    )
