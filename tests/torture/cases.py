"""A problem as a user poses it: rows with groups, or second moments, and settings."""

import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

import fairspan as fs
from fairspan.errors import FairspanError, FairspanWarning

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Case:
    """Rows or exact second moments, and the settings of a fit.

    Attributes
    ----------
    n_components : int
    criterion : object
    rows : (n, p) array, optional
    groups : list of n labels
    weights : (n,) array, optional
        Sample weights.
    matrices : (k, p, p) array, optional
        In place of rows: second moments of groups "0", "1", ... about the origin, all of whose
        entries and shares float64 holds exactly.
    shares : (k,) array, optional
        Weights of the groups that have matrices, powers of two.
    may_be_refused : bool
        Whether an error of fairspan is a right answer.
    must_be_optimal : bool
        Whether the optimum is zero by structure, so that any other status is wrong.
    """

    n_components: int
    criterion: Any
    rows: npt.NDArray[Any] | None = None
    groups: list[str] = field(default_factory=list)
    weights: FloatArray | None = None
    matrices: FloatArray | None = None
    shares: FloatArray | None = None
    center: Any = "global"
    restriction: Any = None
    scale: bool = False
    allow_extra: bool = False
    tol: float = 1e-9
    may_be_refused: bool = True
    must_be_optimal: bool = False

    @property
    def size(self) -> int:
        """Number of entries, by which reports choose the smallest case that fails."""
        numbers = self.rows if self.rows is not None else self.matrices
        assert numbers is not None
        return numbers.size

    @property
    def moments(self) -> Any:
        """Moments with these matrices."""
        assert self.matrices is not None
        k, p = self.matrices.shape[:2]
        shares = self._group_weights()
        return fs.GroupMoments(
            np.array([str(g) for g in range(k)]),
            np.full(k, 2 * p),
            shares,
            np.zeros((k, p)),
            shares[:, None, None] * self.matrices,
        )

    def _group_weights(self) -> FloatArray:
        assert self.matrices is not None
        return np.ones(len(self.matrices)) if self.shares is None else self.shares

    def unfitted(self) -> fs.FairPCA:
        """Return the estimator."""
        return fs.FairPCA(
            self.n_components,
            criterion=self.criterion,
            center="none" if self.matrices is not None else self.center,
            restriction=self.restriction,
            scale=self.scale,
            allow_extra=self.allow_extra,
            tol=self.tol,
        )

    def fit(self) -> fs.FairPCA:
        """Return the fitted estimator; a warning that is not fairspan's own is an error."""
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.filterwarnings("ignore", category=FairspanWarning)
            if self.matrices is not None:
                return self.unfitted().fit_moments(self.moments)
            return self.unfitted().fit(
                self.rows, sensitive_features=self.groups, sample_weight=self.weights
            )

    def fit_or_refusal(self) -> fs.FairPCA | FairspanError:
        """Return the fitted estimator, or the error that refuses the problem."""
        try:
            return self.fit()
        except FairspanError as error:
            return error

    def verify(self, model: fs.FairPCA) -> fs.Verification:
        """Verify a fitted model by the rows or moments of this case."""
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.filterwarnings("ignore", category=FairspanWarning)
            if self.matrices is not None:
                return fs.verify(model, self.moments)
            return fs.verify(model, self.rows, self.groups, sample_weight=self.weights)

    def code(self) -> str:
        """Return Python that repeats the fit."""
        imports = "import numpy as np, fairspan as fs\n"
        estimator = f"fs.FairPCA({', '.join(self._code_of_settings())})"
        if self.matrices is not None:
            k, p = self.matrices.shape[:2]
            labels = [str(g) for g in range(k)]
            return (
                f"{imports}S = np.array({self.matrices.tolist()})\n"
                f"n = np.array({self._group_weights().tolist()})\n"
                f"m = fs.GroupMoments(np.array({labels}), np.full({k}, {2 * p}), n, "
                f"np.zeros({(k, p)}), n[:, None, None] * S)\n"
                f"print({estimator}.fit_moments(m).solution_)"
            )
        assert self.rows is not None
        dtype = "" if self.rows.dtype == np.float64 else f", dtype=np.{self.rows.dtype}"
        weights = "" if self.weights is None else f", sample_weight={self.weights.tolist()}"
        return (
            f"{imports}X = np.array({self.rows.tolist()}{dtype})\n"
            f"print({estimator}.fit(X, sensitive_features={self.groups}{weights}).solution_)"
        )

    def _code_of_settings(self) -> list[str]:
        settings = [repr(self.n_components), f"criterion=fs.{self.criterion!r}"]
        for name, value, default in (
            ("center", self.center if self.matrices is None else "none", "global"),
            ("scale", self.scale, False),
            ("allow_extra", self.allow_extra, False),
            ("tol", self.tol, 1e-9),
        ):
            if value != default:
                settings.append(f"{name}={value!r}")
        if self.restriction is not None:
            settings.append(f"restriction=fs.{self.restriction!r}")
        return settings
