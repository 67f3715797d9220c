"""Proofs and settings as plain numbers and values, to be saved with a model, and back."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from fairspan.certificates.boxes import BoxesProof
from fairspan.certificates.proof import CovariancesProof, LinesProof, MeansProof, Proof
from fairspan.problem.by_name import criterion_of, restriction_of
from fairspan.problem.criteria import Criterion
from fairspan.problem.parameters import field_values
from fairspan.problem.restrictions import Restriction
from fairspan.rows.groups import plain_labels
from fairspan.subspace import Evidence

_KINDS: dict[str, Any] = {
    each.kind: each for each in (Proof, LinesProof, MeansProof, CovariancesProof, BoxesProof)
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
