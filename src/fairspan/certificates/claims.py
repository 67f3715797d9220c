"""What a model states about itself: proof, settings and figures, saved and checked again."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from fairspan.certificates.proof import (
    CovariancesProof,
    CovarianceTraceProof,
    LinesProof,
    MeansProof,
    Proof,
)
from fairspan.certificates.solution import Judged, Status
from fairspan.errors import InvalidParameter
from fairspan.moments.of_rows import Moments
from fairspan.problem.criteria import Criterion
from fairspan.problem.parameters import field_values
from fairspan.problem.posing import criterion_of, restriction_of
from fairspan.problem.restrictions import Restriction
from fairspan.provenance import Evidence, Provenance
from fairspan.registry import names_of
from fairspan.rows.groups import plain_labels
from fairspan.subspace import FairSubspace
from fairspan.typing import FloatArray

# Products of components are one or zero up to this, and dimensions whole numbers.
_ORTHONORMAL, _WHOLE = 1e-10, 1e-6
# Figures that were worked out twice agree to this share, beside what rounding does to them.
_SAME = 1e-9
# Under a restriction the objective may be larger than what was chosen by far, and is rounded.
_ROUNDED = 1e-14
# In other coordinates rounding, and with it a gap, may be a few times as large.
_FEW = 4.0


def of_estimator(model: Any, subspace: FairSubspace, made: Provenance) -> Iterator[str]:
    """What an estimator's attributes say, which anybody may have changed."""
    if model is subspace:
        return
    for name in ("components", "mean", "scale"):
        attribute, own = getattr(model, f"{name}_", None), getattr(subspace, name)
        if attribute is None and own is None:
            continue
        if attribute is None or own is None or not np.array_equal(attribute, own):
            yield f"{name}_ of the estimator differs from what was fitted (subspace_)."
    solution = getattr(model, "solution_", None)
    for name in ("objective", "lower_bound", "status"):
        if solution is not None and getattr(solution, name) != getattr(made, name):
            yield f"solution_.{name} of the estimator differs from what was fitted (subspace_)."
    steps = getattr(solution, "steps", ())
    if len(steps) != len(made.steps) or any(
        getattr(step, name) != getattr(said.own, name)
        for step, said in zip(steps, made.steps, strict=False)
        for name in ("objective", "lower_bound", "status")
    ):
        yield "solution_.steps of the estimator differ from what was fitted (subspace_)."
    for name in ("errors", "losses"):
        attribute = getattr(model, f"group_{name}_", None)
        if attribute is not None and not np.array_equal(attribute, getattr(made, name)):
            yield f"group_{name}_ of the estimator differs from what was fitted (subspace_)."


def of_components(subspace: FairSubspace) -> Iterator[str]:
    """Whether they span a subspace, or are a soft projection; of an oblique one, the decoder."""
    projector = subspace.projector
    rows = projector.decoder.T
    gram = rows @ rows.T
    lengths = np.diag(gram)
    off = float(np.abs(gram - np.diag(lengths)).max(initial=0.0))
    if off > _ORTHONORMAL:
        yield f"The components are not at right angles: their products reach {off:.1e}."
    if subspace.is_oblique:
        undone = projector.encoder @ projector.decoder - np.eye(len(rows))
        apart = float(np.abs(undone).max())
        size = float((np.abs(projector.encoder) @ np.abs(projector.decoder)).max())
        if not apart <= _ORTHONORMAL * size:
            yield f"The encoder does not undo the decoder: they differ by {apart:.1e}."
    if not subspace.is_soft:
        if float(np.abs(lengths - 1).max()) > _ORTHONORMAL:
            yield "The components are not of length one."
        return
    # Squared lengths lambda_j of a soft projection retain shares 1 - (1 - lambda_j)^2.
    dimension = float((lengths * (2 - lengths)).sum())
    if lengths.max() > 1 + _ORTHONORMAL or abs(dimension - round(dimension)) > _WHOLE:
        yield "The components are no soft projection of a whole number of dimensions."


def of_data(subspace: FairSubspace, moments: Moments, made: Provenance) -> Iterator[str]:
    """Whether the model was fitted on as many rows, and with their mean and scale."""
    if tuple(moments.counts.tolist()) != tuple(made.counts):
        yield "The groups have other numbers of rows than those that the model was fitted on."
    mean, own = moments.mean, subspace.mean
    if subspace.center == "none":
        mean = np.zeros(len(mean))
    size = np.abs(mean) + moments.standard_deviations
    if own is None or (np.abs(mean - own) > _SAME * size).any():
        yield "The mean of the model is not that of the data."
    scale = subspace.scale
    if scale is not None:
        deviations = moments.standard_deviations
        deviations = np.where(deviations == 0, 1.0, deviations)
        if (np.abs(scale - deviations) > _SAME * deviations).any():
            yield "The scale of the model is not that of the data."


def of_variances(
    found: Judged, made: Provenance, total: float, best_errors: FloatArray | None
) -> Iterator[str]:
    """Errors, losses and total variance of a model; losses only if the groups' best are known."""
    unsure = _FEW * found.roundings + _SAME * found.errors.max(initial=0.0)
    errors, losses = np.array(made.errors), np.array(made.losses)
    if errors.shape != found.errors.shape or not (np.abs(errors - found.errors) <= unsure).all():
        yield "The errors of the groups are not those that the model says."
    if not abs(made.total_variance - total) <= _SAME * total:
        yield f"The total variance is {total:.9g}, and not {made.total_variance:.9g}."
    if best_errors is None:
        return
    # Of what each group loses beyond its own best, both parts are rounded.
    expected = np.maximum(found.errors - best_errors, 0.0)
    if losses.shape != expected.shape or not (np.abs(losses - expected) <= 2 * unsure).all():
        yield "The excess losses of the groups are not those that the model says."


def of_figures(found: Judged, made: Provenance, *, has_bound: bool) -> Iterator[str]:
    """Objective, bound and status of a model.

    What the model says of its own resolution proves nothing, so only what was found counts.
    """
    if not 0 <= made.tol < 1:
        yield f"The model's tol is {made.tol!r}; allowed: a share from 0 to 1."
    rounded = _SAME * abs(found.scale) + _ROUNDED * abs(found.objective)
    if not abs(found.objective - made.objective) <= _FEW * found.rounding + rounded:
        yield (
            f"The objective is {found.objective:.9g}, and not {made.objective:.9g} as the model "
            "says."
        )
    if math.isnan(made.lower_bound) or made.lower_bound == math.inf:
        yield f"The model's lower bound is {made.lower_bound!r}."
    if not has_bound:
        if made.status in (Status.OPTIMAL, Status.UNRESOLVED):
            yield f"The model is called {made.status}, but its lower bound cannot be checked."
        return
    unsure_bound = _FEW * found.resolution + rounded
    if np.isfinite(made.lower_bound) and not found.lower_bound >= made.lower_bound - unsure_bound:
        yield (
            f"The proof gives the lower bound {found.lower_bound:.9g}, and not "
            f"{made.lower_bound:.9g} as the model says."
        )
    if found.gap < -found.resolution:
        yield f"The lower bound lies above the objective by {-found.gap:.1e}."
    if not _is_as_good(found, made):
        yield (
            f"The model is called {made.status}, but the computed status is {found.status}: "
            f"the gap is {found.gap:.1e}."
        )


def _is_as_good(found: Judged, made: Provenance) -> bool:
    """Whether the status is at least nearly that which the model says."""
    if made.status not in (Status.OPTIMAL, Status.UNRESOLVED) or found.status == Status.OPTIMAL:
        return True
    if made.status == Status.UNRESOLVED:
        return found.worst <= _FEW * found.resolution
    known = found.resolution <= _FEW * math.sqrt(made.tol) * found.scale
    known = known or found.scale <= _FEW * _FEW * found.resolution
    structural = known and found.resolution <= _FEW * made.tol * found.size
    allowed = _FEW * made.tol * found.scale
    return found.worst <= max(allowed, _FEW * found.resolution if structural else 0.0)


_KINDS: dict[str, Any] = {
    each.kind: each
    for each in (
        Proof,
        LinesProof,
        MeansProof,
        CovariancesProof,
        CovarianceTraceProof,
    )
}
# A mapping by group is stored as pairs, since names in JSON are text.
_BY_GROUP = "by_group"


def evidence_of(proof: Proof | None) -> Evidence | None:
    """The numbers of a proof; None of a kind that is not known here."""
    if proof is None or type(proof) is not _KINDS.get(proof.kind):
        return None
    return Evidence(proof.kind, {name: np.atleast_1d(each) for name, each in vars(proof).items()})


def proof_of(evidence: Evidence) -> Proof:
    """The proof that these are the numbers of.

    Raises
    ------
    ValueError, TypeError
        They are not those of a proof.
    """
    if evidence.kind not in _KINDS:
        raise ValueError(f"{evidence.kind!r} is no kind of proof")
    proof: Proof = _KINDS[evidence.kind](**evidence.arrays)
    return proof


def stored_settings(criterion: Criterion, restriction: Restriction | None) -> dict[str, Any]:
    """The settings of criterion and restriction, ready for JSON."""
    hide = None
    if restriction is not None:
        hide = {"name": restriction.name, **field_values(restriction)}
    values = {name: _plain(value) for name, value in field_values(criterion).items()}
    return {"criterion": values, "restriction": hide}


def settings_of(made: Provenance) -> tuple[Criterion, Restriction | None]:
    """Criterion and restriction of a model: its own names stand for parts of this library alone.

    Raises
    ------
    ValueError, KeyError, TypeError, FairspanError
        They are not those of a criterion or restriction.
    """
    values = {key: _restored(value) for key, value in made.settings["criterion"].items()}
    criterion: Criterion = _part("criterion", made.criterion, values, made.parts)
    hide = made.settings["restriction"]
    if hide is None:
        return criterion, None
    values = {key: value for key, value in hide.items() if key != "name"}
    return criterion, _part("restriction", hide["name"], values, made.parts)


def _part(kind: str, name: str, values: dict[str, Any], parts: tuple[Any, ...]) -> Any:
    """The part of this name with these settings, built in or one of the objects passed."""
    made = criterion_of if kind == "criterion" else restriction_of
    if name in names_of(kind):
        return made(name, **values)
    for part in parts:
        if getattr(part, "name", None) == name:
            return made(replace(part, **values) if values else part)
    raise InvalidParameter(
        f"The model was fitted with the {kind} {name!r} of another package",
        f"Allowed: a {kind} of this library, or one that is passed as an object",
        "Pass it where the model is loaded: FairSubspace.load(path, parts=[...]), or --part "
        "package.module:Object on the command line",
    )


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {_BY_GROUP: [[*plain_labels([key]), each] for key, each in value.items()]}
    if isinstance(value, float | int | None):
        return value
    return plain_labels([value])[0]


def _restored(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {plain_labels([key])[0]: each for key, each in value[_BY_GROUP]}
    return plain_labels([value])[0] if isinstance(value, str | list) else value
