"""Forgeries of every field of a model, and checks of what a forged model does and claims.

Fields are found with `dataclasses.fields`, so that a field that is added is changed as well.
"""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import scipy.sparse

import fairspan as fs
from certificate_claims import RECORDS, replace_claims
from fairspan import Certificate, FairSubspace, verify
from fairspan.errors import FairspanError
from numpy_reference import generate_group_rows

# Figures that agree to this share of their size are the same.
SAME = 2e-6
# Room for rounding is known up to a factor.
RESOLUTION = 1000.0


def _missing() -> tuple[np.ndarray, np.ndarray]:
    rows, groups = generate_group_rows()
    rows = rows.copy()
    rows[::7, 1] = np.nan
    return rows, groups


def _wide() -> tuple[np.ndarray, np.ndarray]:
    return np.random.default_rng(2).standard_normal((14, 30)), np.repeat(["a", "b"], 7)


def _sparse() -> tuple[Any, np.ndarray]:
    rng = np.random.default_rng(1)
    rows = scipy.sparse.random(40, 30, 0.3, format="csr", random_state=rng)
    return rows, np.repeat(["a", "b"], 20)


def _lines() -> tuple[np.ndarray, np.ndarray]:
    lines = np.array([[1.0, 0], [0.5, 0.75**0.5], [-0.5, 0.75**0.5]])
    return np.vstack([lines, -lines]), np.array(["a", "b", "c"] * 2)


TOTAL = {"criterion": "total_error"}
KINDS: dict[str, tuple[Any, int, dict[str, Any]]] = {
    "dense": (generate_group_rows, 2, {}),
    "scaled": (generate_group_rows, 2, {"criterion": "minimax_error", "scale": True}),
    "own centers": (
        generate_group_rows,
        2,
        {"criterion": fs.Disparity(0.3, "b"), "center": "group"},
    ),
    "wide": (_wide, 2, {}),
    "sparse": (_sparse, 2, {"criterion": "minimax_error"}),
    "equal means": (generate_group_rows, 2, {"restriction": fs.MeanParity()}),
    "oblique": (generate_group_rows, 2, {**TOTAL, "restriction": fs.MeanParity(oblique=True)}),
    "nested": (generate_group_rows, 3, {"nested": True}),
    "soft": (_lines, 1, {"allow_extra": True}),
    "whitened": (generate_group_rows, 2, {"whiten": True}),
    "missing cells": (_missing, 2, {"on_missing": "em"}),
    "robust": (generate_group_rows, 2, {"criterion": fs.RobustErrorGap(0.7, 0.4)}),
    "equal error": (generate_group_rows, 2, {"criterion": "equal_error"}),
    "error gap": (generate_group_rows, 2, {"criterion": fs.ErrorGap(2.0)}),
    "nash": (generate_group_rows, 2, {"criterion": "nash_welfare"}),
    "near means": (generate_group_rows, 2, {**TOTAL, "restriction": fs.MeanParity(0.3)}),
    "near covariances": (
        generate_group_rows,
        2,
        {**TOTAL, "restriction": fs.CovarianceParity(tolerance=20)},
    ),
}


def lower_feature_limits(kind: str, monkeypatch: Any) -> None:
    """Lower limits so that few features take the code paths of many."""
    if kind == "sparse":
        monkeypatch.setattr("fairspan.moments.compute.MAX_DENSE_FEATURES", 20)
        monkeypatch.setattr("fairspan.moments.row_moments._MAX_MATRIX_ENTRIES", 0)
    elif kind == "wide":
        monkeypatch.setattr("fairspan.moments.compute.MIN_WIDE_FEATURES", 5)


@dataclass(frozen=True, eq=False)
class HonestFit:
    """Honest model, its rows and their groups."""

    rows: Any
    groups: np.ndarray
    model: fs.FairPCA

    @property
    def subspace(self) -> FairSubspace:
        return self.model.subspace_


@cache
def fit_kind(kind: str) -> HonestFit:
    make, d, settings = KINDS[kind]
    rows, groups = make()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = fs.FairPCA(d, **settings).fit(rows, sensitive_features=groups)
    return HonestFit(rows, groups, model)


def _altered_numbers(value: np.ndarray, rng: np.random.Generator) -> Iterator[tuple[str, Any]]:
    """Yield a description and an altered array: other numbers or another shape."""
    size = float(np.abs(value[np.isfinite(value)]).max(initial=0.0)) or 1.0
    one = np.zeros(value.shape)
    if one.size:
        one.flat[rng.integers(one.size)] = 1.0
    yield "scaled", value * (1 + 10.0 ** rng.uniform(-4, 3))
    yield "scaled down", value * 10.0 ** rng.uniform(-9, -1)
    yield "zero", 0.0 * value
    yield "negated", -value
    yield "shifted", value + size * 10.0 ** rng.uniform(-4, 1)
    yield "one shifted", value + one * size * 10.0 ** rng.uniform(-4, 1)
    yield "one scaled", value * (1 + one * 10.0 ** rng.uniform(-4, 3))
    yield "subnormal", np.full(value.shape, 5e-324)
    yield "one NaN", np.where(one > 0, np.nan, value)
    yield "one infinite", np.where(one > 0, np.inf, value)
    if value.ndim:
        yield "reversed", value[::-1].copy()
        yield "reversed along the last axis", value[..., ::-1].copy()
        yield "rolled", np.roll(value, 1)
        yield "shorter", value[:-1].copy()
        yield "longer", np.concatenate([value, value])
        yield "one axis more", value[None]


def altered_values(name: str, value: Any, rng: np.random.Generator) -> Iterator[tuple[str, Any]]:
    """Yield a description and another value of a field."""
    if name in RECORDS:
        return
    if is_dataclass(value) and not isinstance(value, type):
        yield f"{name}: None", None
        for field in fields(value):
            for how, other in altered_values(field.name, getattr(value, field.name), rng):
                try:
                    yield f"{name}.{how}", replace(value, **{field.name: other})
                except (FairspanError, ValueError, TypeError):
                    continue  # refused where it is made
    elif isinstance(value, np.ndarray):
        for how, other in _altered_numbers(value, rng):
            yield f"{name}: {how}", other
    elif isinstance(value, bool | None):
        for other in {None, True, False} - {value}:
            yield f"{name}: {other}", other
    elif isinstance(value, str):
        statuses = ("optimal", "estimated", "unresolved", "open gap")
        words = {"status": statuses, "center": ("global", "group", "none")}
        for other in words.get(name, ("", f"{value}'")):
            if other != value:
                yield f"{name}: {other}", type(value)(other) if name == "status" else other
    elif isinstance(value, int):
        yield f"{name}: one more", value + 1
        yield f"{name}: one less", value - 1
    elif isinstance(value, float):
        for how, other in _altered_numbers(np.array(value), rng):
            yield f"{name}: {how}", float(other)
    elif isinstance(value, tuple):
        yield f"{name}: reversed", value[::-1]
        yield f"{name}: shorter", value[:-1]
        yield f"{name}: longer", (*value, *value[:1])
        for i, entry in enumerate(value):
            for how, other in altered_values(name, entry, rng):
                yield f"{name}[{i}] {how}", (*value[:i], other, *value[i + 1 :])


def forged_models(kind: str, rng: np.random.Generator) -> Iterator[tuple[str, FairSubspace]]:
    """Yield models with one field altered, or several that belong together."""
    subspace = fit_kind(kind).subspace
    for field in fields(FairSubspace):
        for how, other in altered_values(field.name, getattr(subspace, field.name), rng):
            if field.name == "certificate" and other is None:
                continue
            yield how, replace(subspace, **{field.name: other})
            if field.name in ("components", "oblique_decoder") and subspace.certificate is not None:
                decoder_field = (
                    other if field.name == "oblique_decoder" else subspace.oblique_decoder
                )
                rows = other if decoder_field is None else np.transpose(decoder_field)
                if isinstance(rows, np.ndarray) and subspace.is_oblique == (
                    field.name == "oblique_decoder"
                ):
                    certificate = replace(subspace.certificate, components=rows)
                    yield (
                        f"{how}, and the certificate",
                        replace(subspace, **{field.name: other}, certificate=certificate),
                    )
    rows = subspace.components
    orthogonal = rng.standard_normal(rows.shape)
    orthogonal -= orthogonal @ np.linalg.pinv(rows) @ rows
    if not subspace.is_oblique:
        decoder = np.ascontiguousarray(rows.T)
        yield "a decoder", replace(subspace, components=rows + orthogonal, oblique_decoder=decoder)
    if subspace.whitening is None:
        yield "whitening", replace(subspace, whitening=10.0 ** rng.uniform(-3, 3, len(rows)))
    if subspace.scale is None:
        yield "a scale", replace(subspace, scale=10.0 ** rng.uniform(-1, 1, rows.shape[1]))
    if (certificate_claims := subspace.certificate) is not None:
        factor = 10.0 ** rng.uniform(-3, 3)
        units = ("objective", "lower_bound", "scale", "absolute_tol", "errors", "losses")
        together = {name: factor * getattr(certificate_claims, name) for name in units}
        yield (
            "all figures scaled",
            replace(subspace, certificate=replace_claims(certificate_claims, **together)),
        )


def accepted_model(
    model: FairSubspace, rows: Any, groups: np.ndarray, path: Any = None
) -> FairSubspace | None:
    """Return the model, from memory or from its file, if `verify` accepts it, else None."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if path is not None:
            try:
                model.save(path)
            except (FairspanError, ValueError, TypeError, AttributeError, LookupError):
                return None
            try:
                model = FairSubspace.load(path)
            except FairspanError:
                return None
        try:
            return model if verify(model, rows, groups).holds else None
        except FairspanError:  # how rows are opened depends on the model
            return None


def find_falsehood(kind: str, model: FairSubspace) -> str | None:
    """Describe a false claim or map of a forged model; None if there is none.

    The forged model is compared with the honest one, also on rows that were not fitted, in
    extended precision.
    """
    honest = fit_kind(kind).subspace
    if model.certificate is None:
        return "it has no certificate"
    certificate, other = honest.certificate, model.certificate
    settings = certificate.criterion, certificate.restriction
    if settings != (other.criterion, other.restriction):
        if (falsehood := _find_false_settings(kind, other)) is not None:
            return falsehood
        other = replace_claims(
            other, criterion=certificate.criterion, restriction=certificate.restriction
        )
    return _find_false_maps(honest, model) or _find_false_claims(certificate, other)


def _find_false_settings(kind: str, certificate: Certificate) -> str | None:
    """Describe a claimed bound or status that a fit with the claimed settings contradicts."""
    fit, (_, d, settings) = fit_kind(kind), KINDS[kind]
    claimed_settings = {"criterion": certificate.criterion, "restriction": certificate.restriction}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        other = fs.FairPCA(d, **(settings | claimed_settings)).fit(
            fit.rows, sensitive_features=fit.groups
        )
    best = other.solution_.objective
    room = SAME * max(certificate.scale, abs(certificate.objective))
    if not certificate.lower_bound <= best + room:
        return f"the bound is {certificate.lower_bound}, and a fit with its settings reaches {best}"
    if certificate.status != "open gap" and not certificate.objective <= best + room:
        return (
            f"the objective is {certificate.objective}, and a fit with its settings reaches {best}"
        )
    return None


def _to_extended(value: Any, other: float) -> Any:
    return np.longdouble(other) if value is None else np.asarray(value, dtype=np.longdouble)


def _reduce(subspace: FairSubspace, rows: np.ndarray) -> np.ndarray:
    encoder = _to_extended(subspace.encoder, 1.0)
    return (rows - _to_extended(subspace.mean, 0.0)) / _to_extended(subspace.scale, 1.0) @ encoder.T


def _reconstruct(subspace: FairSubspace, rows: np.ndarray) -> np.ndarray:
    decoder = _to_extended(subspace.decoder, 1.0)
    rescaled = _reduce(subspace, rows) @ decoder.T * _to_extended(subspace.scale, 1.0)
    return rescaled + _to_extended(subspace.mean, 0.0)


def _find_false_maps(honest: FairSubspace, model: FairSubspace) -> str | None:
    rng = np.random.default_rng(0)
    # Also along directions in which the rows of the fit do not vary.
    rows = rng.standard_normal((50, honest.n_features)).astype(np.longdouble)
    if model.components.shape != honest.components.shape:
        return "it has other components"
    apart = np.abs(_reconstruct(model, rows) - _reconstruct(honest, rows)).max()
    if not apart <= SAME:
        return f"rows are reconstructed otherwise by {apart:.1e}"
    coordinates, model_coordinates = (
        np.abs(_reduce(subspace, rows)) for subspace in (honest, model)
    )
    # Signs and the order of components are free, and no more than these.
    apart = np.abs(
        np.sort(coordinates.mean(axis=0)) / np.sort(model_coordinates.mean(axis=0)) - 1
    ).max()
    if not apart <= SAME and not (honest.whitening is None and model.whitening is not None):
        return f"coordinates are other ones by {apart:.1e}"
    completes = [subspace.standardization.on_missing for subspace in (honest, model)]
    if model.center != honest.center or completes[0] != completes[1]:
        return "it has another center, or completes rows otherwise"
    if honest.imputation_model is not None and model.imputation_model is not None:
        for name in ("mean", "covariance"):
            if not np.allclose(
                getattr(honest.imputation_model, name),
                getattr(model.imputation_model, name),
                rtol=SAME,
                atol=SAME,
            ):
                return f"missing cells are expected otherwise: {name}"
    return None


def _find_false_claims(honest: Any, certificate: Any) -> str | None:
    size = max(abs(honest.objective), honest.scale, 1e-12)
    for name in (
        "objective",
        "errors",
        "losses",
        "scale",
        "total_variance",
        "constraint_violation",
    ):
        value = np.asarray(getattr(honest, name))
        other = np.asarray(getattr(certificate, name))
        room = SAME * (np.abs(value) if name in ("errors", "losses") else max(size, 0.0)) + 1e-12
        if value.shape != other.shape or not (np.abs(value - other) <= room).all():
            return f"{name} is {other}, and {value} of the honest one"
    for name in ("criterion", "n_components", "groups", "counts", "center", "restriction"):
        if getattr(honest, name) != getattr(certificate, name):
            return f"{name} is {getattr(certificate, name)!r}"
    for name in ("theorem_3_2_holds", "unresolved_reason"):
        if getattr(honest, name) != getattr(certificate, name):
            return f"{name} is {getattr(certificate, name)!r}"
    if not certificate.lower_bound <= honest.objective + SAME * size:
        return f"the lower bound is {certificate.lower_bound}"
    if not 0 <= certificate.resolution <= RESOLUTION * honest.resolution + 1e-9 * size:
        return f"the resolution is {certificate.resolution}"
    most = max(certificate.tol * certificate.scale, certificate.resolution)
    if not certificate.absolute_tol <= most * (1 + SAME):
        return f"the tolerance is {certificate.tolerance}"
    # Less may be said of it than holds.
    if certificate.status not in (honest.status, "open gap", "unresolved"):
        return f"the status is {certificate.status}"
    for name in ("steps", "prefixes"):
        parts, others = getattr(honest, name), getattr(certificate, name)
        if len(parts) != len(others):
            return f"{name} are {len(others)}"
        for part, other in zip(parts, others, strict=True):
            if (falsehood := _find_false_claims(part, other)) is not None:
                return f"{name}: {falsehood}"
    return None
