"""The part of a model that reduces rows and brings them back, and what it divides features by.

A model offers ``transform`` and ``inverse_transform``. A pipeline offers ``steps``, of which the
first ones that offer both are taken; a search that was fitted offers ``best_estimator_``.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairspan.errors import InvalidInput, InvalidType, kind_of
from fairspan.typing import FloatArray

# At which multiples of its own scale a step is tried, since many maps are linear only near by.
FAR = (1.0, 1e3, 1e6)
# Of numbers that are equal but for rounding, also where a step computes in single precision.
SAME = 1e-6
ALLOWED_MODELS = (
    "Allowed: fitted models with transform and inverse_transform, such as a PCA, a FairPCA or a "
    "pipeline that begins with them, a FairSubspace, the name of a file that save wrote, or a "
    "(d, p) array with orthonormal rows"
)


@dataclass(frozen=True, eq=False)
class Chain:
    """Steps one after the other.

    Attributes
    ----------
    steps : tuple of objects with transform and inverse_transform
    """

    steps: tuple[Any, ...]

    def transform(self, X: FloatArray) -> FloatArray:
        """Coordinates of rows."""
        with _as_numbers():
            for step in self.steps:
                # Some models drop the rows of a table that has one.
                X = np.asarray(step.transform(X), dtype=np.float64).reshape(len(X), -1)
        return X

    def inverse_transform(self, Z: FloatArray) -> FloatArray:
        """Rows from their coordinates."""
        with _as_numbers():
            for step in reversed(self.steps):
                Z = np.asarray(step.inverse_transform(Z), dtype=np.float64).reshape(len(Z), -1)
        return Z


@dataclass(frozen=True, eq=False)
class Part:
    """What reduces rows, after features were standardized.

    Attributes
    ----------
    whole : Chain
    chain : Chain
        The model after the standardization.
    n_features : int
    mean, scale : (p,) arrays or None
        Of the standardization; None where there is none.
    feature_names : tuple of str or None
    n_fitted : int or None
        Number of rows that it was fitted on, if one of its steps knows.
    """

    whole: Chain
    chain: Chain
    n_features: int
    mean: FloatArray | None
    scale: FloatArray | None
    feature_names: tuple[str, ...] | None
    n_fitted: int | None

    @property
    def core(self) -> Any:
        """The single step that is left, or the chain of several."""
        return self.chain.steps[0] if len(self.chain.steps) == 1 else self.chain


def part_of(model: Any, n_features: int | None = None) -> Part:
    """The part of a fitted model that reduces rows and brings them back.

    Parameters
    ----------
    model : object
    n_features : int, optional
        p, for a model that does not say it.

    Raises
    ------
    InvalidType
        An object that does neither, or a model that has not been fitted.
    InvalidInput
        A pipeline whose first step cannot be undone, or a model of unknown width.
    """
    model = getattr(model, "best_estimator_", model)
    steps = _steps_of(model)
    names = getattr(model, "feature_names_in_", getattr(steps[0], "feature_names_in_", None))
    known = getattr(model, "n_features_in_", getattr(steps[0], "n_features_in_", n_features))
    if known is None:
        if hasattr(model, "fit"):
            raise _not_fitted(model)
        raise InvalidInput(
            f"The {type(model).__name__} does not say how many features it takes",
            "Allowed: models with n_features_in_, or models beside rows",
            "Set n_features_in_, or pass the model to fairspan.audit with rows",
        )
    width, fitted = int(known), max(filter(None, map(_rows_of, steps)), default=None)
    whole = Chain(tuple(steps))
    try:
        whole.transform(np.zeros((1, width)))
    except Exception as error:  # whatever a model of another package raises
        if type(error).__name__ == "NotFittedError":
            raise _not_fitted(model) from error
    mean, scale, standardized = np.zeros(width), np.ones(width), False
    while len(steps) > 1 and (found := _standardization(steps[0], width)) is not None:
        offset, divisor = found
        mean, scale, standardized = mean + scale * offset, scale * divisor, True
        steps = steps[1:]
    return Part(
        whole,
        Chain(tuple(steps)),
        width,
        mean if standardized else None,
        None if (scale == 1).all() else scale,
        None if names is None else tuple(map(str, names)),
        fitted,
    )


def _steps_of(model: Any) -> list[Any]:
    """The steps up to the first that cannot be undone, or that holds a fair subspace."""
    listed = getattr(model, "steps", None)
    if listed is None:
        if not _is_undone(model):
            raise InvalidType(f"The model is {kind_of(model)}", ALLOWED_MODELS, "Pass one of these")
        return [model]
    taken: list[Any] = []
    for _, step in listed:
        if step is None or isinstance(step, str):  # "passthrough"
            continue
        if not _is_undone(step):
            break
        # A pipeline may hold another one.
        taken += _steps_of(step) if hasattr(step, "steps") else [step]
        if hasattr(step, "subspace_"):
            break
    if not taken:
        name, first = listed[0]
        raise InvalidInput(
            f"The first step of the pipeline, {name!r}, is {kind_of(first)}, which has no "
            "inverse_transform",
            "Allowed: pipelines that begin with steps that bring rows back",
            "Audit the steps after it on the rows that it makes: model[1:] and "
            "model[:1].transform(X)",
        )
    return taken


def _is_undone(step: Any) -> bool:
    is_made = not isinstance(step, type)
    return is_made and hasattr(step, "transform") and hasattr(step, "inverse_transform")


def _not_fitted(model: Any) -> InvalidType:
    return InvalidType(
        f"The {type(model).__name__} has not been fitted", ALLOWED_MODELS, "Call its fit first"
    )


def _rows_of(step: Any) -> int | None:
    """How many rows a step was fitted on: scikit-learn counts them for each column where NaN is."""
    counted = getattr(step, "n_samples_", None)
    if counted is None:
        counted = getattr(step, "n_samples_seen_", None)
    return None if counted is None else int(np.max(counted))


def _standardization(step: Any, width: int) -> tuple[FloatArray, FloatArray] | None:
    """What a step subtracts from each feature and divides it by; None if it does anything else."""
    alone = Chain((step,))
    try:
        start = alone.transform(np.zeros((1, width)))
        if start.shape != (1, width):
            return None
        # Far out, so that an offset costs no digits of the slope.
        unit = 1.0 + np.abs(start[0])
        slope = (alone.transform(unit[None]) - start)[0] / unit
        if not (np.isfinite(slope).all() and (slope > 0).all()):
            return None
        rows = points_around(np.zeros(width), 1.0 / slope)
        made, expected = alone.transform(rows), start + slope * rows
        back = alone.inverse_transform(made)
    except (ValueError, ArithmeticError):
        return None
    sizes = np.abs(start) + np.abs(slope * rows)
    agree = (np.abs(made - expected) <= SAME * sizes).all()
    undone = (np.abs(back - rows) <= SAME * (sizes / slope)).all()
    return (-start[0] / slope, 1.0 / slope) if agree and undone else None


def points_around(middle: FloatArray, spread: FloatArray) -> FloatArray:
    """Rows at several distances from a point, the same in every call, shape (m, p)."""
    drawn = np.random.default_rng(0).standard_normal((4 * len(FAR), len(middle)))
    return np.asarray(middle + spread * drawn * np.repeat(FAR, 4)[:, None])


@contextmanager
def _as_numbers() -> Iterator[None]:
    """Models that were fitted on named columns take the same columns without their names."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        yield
