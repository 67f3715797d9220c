"""Proofs and settings as plain numbers and values, to be saved with a model, and back."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from fairspan.certificates.boxes import BoxesProof, Shrinking, Side
from fairspan.certificates.proof import CovariancesProof, LinesProof, MeansProof, Proof
from fairspan.problem.by_name import criterion_of, restriction_of
from fairspan.problem.criteria import Criterion
from fairspan.problem.nested_parameters import field_values
from fairspan.problem.restrictions import Restriction
from fairspan.rows.groups import plain_labels
from fairspan.subspace import Evidence
from fairspan.typing import FloatArray

# A mapping by group is stored as pairs, since names in JSON are text.
_BY_GROUP = "by_group"


def evidence_of(proof: Proof | None) -> Evidence | None:
    """The numbers of a proof; None of a kind that is not known here."""
    if type(proof) is Proof:
        return Evidence("weights", {"weights": proof.weights})
    if isinstance(proof, LinesProof):
        return Evidence("lines", {"weights": proof.weights, "lines": proof.lines})
    if isinstance(proof, MeansProof):
        multiplier = np.array([proof.multiplier])
        return Evidence("means", {"weights": proof.weights, "multiplier": multiplier})
    if isinstance(proof, CovariancesProof):
        arrays = {"weights": proof.weights, "multipliers": proof.multipliers}
        return Evidence("covariances", arrays)
    if isinstance(proof, BoxesProof):
        return Evidence("boxes", _of_boxes(proof))
    return None


def proof_of(evidence: Evidence) -> Proof:
    """The proof that these are the numbers of.

    Raises
    ------
    ValueError, KeyError
        They are not those of a proof.
    """
    given = evidence.arrays
    if evidence.kind == "weights":
        return Proof(given["weights"])
    if evidence.kind == "lines":
        return LinesProof(given["weights"], given["lines"])
    if evidence.kind == "means":
        return MeansProof(given["weights"], float(given["multiplier"][0]))
    if evidence.kind == "covariances":
        return CovariancesProof(given["weights"], given["multipliers"])
    if evidence.kind == "boxes":
        return _to_boxes(given)
    raise ValueError(f"{evidence.kind!r} is no kind of proof")


def stored_settings(criterion: Criterion, restriction: Restriction | None) -> dict[str, Any]:
    """The settings of criterion and restriction, ready for JSON."""
    hide = None
    if restriction is not None:
        hide = {"name": restriction.name, **field_values(restriction)}
    values = {name: _plain(value) for name, value in field_values(criterion).items()}
    return {"criterion": values, "restriction": hide}


def settings_from(name: str, stored: Mapping[str, Any]) -> tuple[Criterion, Restriction | None]:
    """Criterion and restriction from their settings.

    Raises
    ------
    ValueError, KeyError, TypeError, FairspanError
        They are not those of a criterion or restriction.
    """
    values = {key: _restored(value) for key, value in stored["criterion"].items()}
    criterion = criterion_of(name, **values)
    if stored["restriction"] is None:
        return criterion, None
    hide = dict(stored["restriction"])
    return criterion, restriction_of(hide.pop("name"), **hide)


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


def _of_boxes(proof: BoxesProof) -> dict[str, FloatArray]:
    sides = [side for shrinking in proof.shrinkings for side in shrinking.sides]
    rounds = [len(shrinking.sides) for shrinking in proof.shrinkings]
    return {
        "weights": proof.weights,
        "multipliers": proof.multipliers,
        "levels": np.array([shrinking.level for shrinking in proof.shrinkings]),
        "n_sides": np.array(rounds, dtype=np.float64),
        "groups": np.array([float(side.group) for side in sides]),
        "signs": np.array([side.sign for side in sides]),
        "of_sides": np.array([side.multipliers for side in sides]).reshape(
            len(sides), len(proof.multipliers)
        ),
    }


def _to_boxes(given: Mapping[str, FloatArray]) -> BoxesProof:
    if not np.isin(given["signs"], (-1.0, 1.0)).all():
        raise ValueError("a side of a box is neither the least nor the largest error")
    sides = [
        Side(int(group), float(sign), multipliers)
        for group, sign, multipliers in zip(
            given["groups"], given["signs"], given["of_sides"], strict=True
        )
    ]
    shrinkings, start = [], 0
    for level, n_sides in zip(given["levels"], given["n_sides"].astype(int), strict=True):
        shrinkings.append(Shrinking(float(level), tuple(sides[start : start + n_sides])))
        start += n_sides
    return BoxesProof(given["weights"], tuple(shrinkings), given["multipliers"])
