"""Equal means and nearly equal covariances of two groups' projected rows."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from fairspan.errors import IncompatibleParameters
from fairspan.formatting.messages import counted
from fairspan.linalg.rounding import ZERO_EIGENVALUE
from fairspan.moments.row_space import RowSpace
from fairspan.parameters import check_integer, check_number, make_plain
from fairspan.problem.criteria.criterion import Criterion
from fairspan.problem.directions import VarianceSplit, equal_means_basis, split_by_variance
from fairspan.problem.limits import CovarianceDifferenceLimit, ParityLimit
from fairspan.problem.restrictions.difference_spectrum import DifferenceSpectrum
from fairspan.problem.restrictions.restriction import (
    AllowedDirections,
    Restriction,
    check_tolerance_supported,
)
from fairspan.rows.labels import Label
from fairspan.typing import FloatArray

# Fraction of the directions that covariance parity allows by default.
_DEFAULT_FRACTION = 0.85


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
    IncompatibleParameters
        Both parameters are given. When fitting: more than two groups; n_directions below d or above
        what mean parity allows; or a tolerance with an unsupported criterion or solver.

    Notes
    -----
    The status is "unresolved" if rounding decides which directions have variance or are selected,
    and the objective depends on it. With `tolerance`, directions without variance are left out.

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
    uses_common_mean: ClassVar[bool] = True
    requires_equal_means: ClassVar[bool] = True

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

    @property
    def selects_by_covariances(self) -> bool:
        """True: rounding of the covariances may change which directions are allowed."""
        return True

    @property
    def counts_directions(self) -> bool:
        """True unless there is a tolerance, which takes the place of a number of directions."""
        return self.tolerance is None

    def in_row_coordinates(
        self, coordinates: RowSpace, n_components: int, n_available: int
    ) -> Restriction:
        """Equivalent restriction in coordinates of the space that the rows span.

        Raises
        ------
        IncompatibleParameters
            The number of directions is not given, or fewer are available.
        """
        moments = coordinates.coordinate_moments
        if moments.n_groups == 1:
            return self  # the covariance of one group is compared with no other
        n_features = coordinates.moments_of_rows.n_features
        n_directions = self.n_directions
        if n_directions is None or not n_components <= n_directions <= n_available:
            n_varying = coordinates.n_axes
            raise IncompatibleParameters(
                f"{self!r} was requested for rows that vary along only {n_varying} of "
                f"{counted(n_features, 'direction')}",
                f"Allowed: n_directions from {n_components} to {n_available}; up to "
                f"{n_features - n_varying}, directions without variance suffice",
                "Choose such a number, or another n_components",
            )
        # Directions without variance, which the coordinates omit, are selected last. As many are
        # forbidden in the coordinates as in the features.
        n_forbidden = n_features - n_available
        return replace(self, n_directions=min(n_directions, moments.n_features - n_forbidden))

    def check_compatible(
        self, group_labels: list[Label], criterion: Criterion, *, allow_extra: bool
    ) -> None:
        """Raise IncompatibleParameters if groups or criterion do not suit the restriction.

        `allow_extra` says whether the solution may be a soft projection onto more than d
        directions, for which no limit on the covariances (a tolerance) is supported.
        """
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
        IncompatibleParameters
            Fewer than d directions remain, or fewer than requested.
        """
        axes = self.select_directions(means, covariances, n_components).axes
        assert axes is not None
        return axes

    def select_directions(
        self,
        means: FloatArray,
        covariances: FloatArray,
        n_components: int,
        *,
        orthogonality_defect: float | None = None,
    ) -> AllowedDirections:
        """Return the allowed directions, with a bound on the effect of rounding on them.

        Rounding rotates eigenvectors of the difference of the covariances. It may also change which
        are selected: the number of directions with variance decides how many are forbidden, and so
        do values next to the largest selected one, or to zero without any tolerance. The directions
        then are not resolved.

        Raises
        ------
        IncompatibleParameters
            Fewer than d directions remain, or fewer than requested.
        """
        equal_means = equal_means_basis(means, covariances, n_components)
        n_features, n_available = equal_means.shape
        if len(means) == 1:
            # The covariance of one group is compared with no other.
            return AllowedDirections.exact(equal_means, n_features)
        # Directions along which the means agree, and rows vary or do not.
        split = split_by_variance(
            equal_means, covariances, in_row_coordinates=orthogonality_defect is not None
        )
        varying = split.varying
        if n_components > varying.shape[1]:
            raise IncompatibleParameters(
                f"CovarianceParity received n_components={n_components}",
                f"Allowed: at most {varying.shape[1]}: the rows vary about their group's mean "
                "along no more of the directions that mean parity allows",
                "Choose fewer components, or use MeanParity()",
            )
        spectrum = DifferenceSpectrum.from_covariances(varying, covariances, orthogonality_defect)
        if self.tolerance is not None:
            return self._select_within_tolerance(split, spectrum, n_components)
        n_directions = self._check_n_directions(n_components, n_features, n_available)
        return _select_smallest(split, spectrum, n_directions, means[0])

    def _select_within_tolerance(
        self, split: VarianceSplit, spectrum: DifferenceSpectrum, n_components: int
    ) -> AllowedDirections:
        """Return the directions in which subspaces within the tolerance are searched.

        These are the directions along which the means agree and the rows vary. Those without
        variance would only fill up a subspace of too few others, which would then seem feasible.
        Another number of directions with variance would therefore allow other subspaces: where
        rounding decides it, the directions are not resolved.

        Parameters
        ----------
        split : VarianceSplit
            Of the directions along which the means agree.
        spectrum : DifferenceSpectrum
            Along those of them with variance.
        n_components : int
        """
        varying = AllowedDirections.exact(split.varying, len(split.varying))
        is_resolved = split.min_varying == split.max_varying
        if self.tolerance == 0:
            zeros = spectrum.zero_differences()
            has_enough = np.count_nonzero(zeros.is_selected) >= n_components
            nonzero = spectrum.values[~zeros.is_selected]
            is_indefinite = bool((nonzero < 0).any() and (nonzero > 0).any())
            is_resolved = is_resolved and zeros.is_resolved
            if has_enough and not is_indefinite:
                # If the difference D is semidefinite, V'DV = 0 holds for null directions V only,
                # and the best ones are found exactly by an eigendecomposition.
                varying = spectrum.allow(zeros.is_selected)
        return _with_constant(varying, split.constant, 0, is_resolved=is_resolved)

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
            allowed = split_by_variance(allowed, covariances).varying[:, : self.n_directions]
        return int(allowed.shape[1])

    def limit(self, means: FloatArray, covariances: FloatArray) -> ParityLimit | None:
        """Limit on the difference of the two covariances; None without tolerance or difference."""
        if self.tolerance is None:
            return None
        difference = covariances[0] - covariances[-1]
        if np.abs(difference).max() <= ZERO_EIGENVALUE * np.abs(covariances).max():
            return None
        return CovarianceDifferenceLimit(difference, self.tolerance)


def _select_smallest(
    split: VarianceSplit, spectrum: DifferenceSpectrum, n_directions: int, mean: FloatArray
) -> AllowedDirections:
    """Return the directions along which the variances of two groups differ least.

    Groups agree along directions without variance, so these fill up the selection.

    Parameters
    ----------
    split : VarianceSplit
        Of the directions along which the means agree.
    spectrum : DifferenceSpectrum
        Along those of them with variance.
    n_directions : int
        Number of directions; more are allowed if the last is tied.
    mean : (p,) array
        Mean of the rows. Errors about the origin contain it.
    """
    selection = spectrum.smallest_differences(n_directions)
    is_selected = selection.is_selected
    is_resolved = selection.is_resolved
    if split.min_varying < split.max_varying:
        # Another number of directions with variance would forbid another number of them, unless all
        # are allowed.
        is_resolved = is_resolved and split.max_varying <= n_directions
    n_constant = max(n_directions - int(np.count_nonzero(is_selected)), 0)
    constant = _rotate_to_mean(split.constant, mean)
    return _with_constant(
        spectrum.allow(is_selected), constant, n_constant, is_resolved=is_resolved
    )


def _with_constant(
    varying: AllowedDirections, constant: FloatArray, n_allowed: int, *, is_resolved: bool
) -> AllowedDirections:
    """Return allowed directions with variance together with the first of those without.

    The mean, which errors about the origin contain, may be long along the others: these are
    neighbors where rounding decides which directions are allowed. It rotates none of them.
    """
    assert varying.axes is not None
    axes = np.hstack([varying.axes, constant[:, :n_allowed]])
    neighbors = varying.neighbors
    if not is_resolved:
        neighbors = np.hstack([neighbors, constant[:, n_allowed:]])
    rotation = np.zeros((neighbors.shape[1], axes.shape[1]))
    n_neighbors, n_axes = varying.rotation.shape
    rotation[:n_neighbors, :n_axes] = varying.rotation
    return AllowedDirections(
        axes,
        neighbors,
        rotation,
        n_constant=constant.shape[1] - n_allowed,
        is_resolved=is_resolved,
    )


def _rotate_to_mean(constant: FloatArray, mean: FloatArray) -> FloatArray:
    """Rotate orthonormal directions without variance, so that the first is that of the mean.

    Errors about the origin contain the mean along these directions, which is the same for both
    groups. The first is selected first; the others leave all errors as they are.
    """
    return np.asarray(constant @ np.linalg.qr((mean[None] @ constant).T, mode="complete")[0])
