"""How a subspace and its certificate are stored in a file, and read from it again."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from fairspan.certificates.certificate import Certificate, Status, TracePoint
from fairspan.certificates.proofs import Proof, numbers_of, proof_of
from fairspan.errors import InvalidInput, InvalidParameter
from fairspan.moments.operators import Projector
from fairspan.problem.parameters import field_values
from fairspan.problem.reduction import criterion_of, restriction_of
from fairspan.registry import names_of
from fairspan.rows.groups import plain_label, plain_labels
from fairspan.storage import SUBSPACE, NotAllowed, read_archive, write_archive
from fairspan.typing import FloatArray

# Arrays of the proof are saved under their names after this.
PROOF = "proof_"
# Arrays that not every subspace has.
_OPTIONAL = ("mean", "scale", "oblique_decoder", "whitening")
# A mapping by group is stored as pairs, since names in JSON are text.
_BY_GROUP = "by_group"
# What a header holds of each certificate as it is: of the whole one, of steps and of prefixes.
_OF_EACH = (
    "n_components",
    "objective",
    "lower_bound",
    "scale",
    "tolerance",
    "resolution",
    "violation",
    "theorem_3_2",
    "total_variance",
    "reason",
    "solver",
    "n_eigenproblems",
    "eigen",
)
# What all of them share.
_OF_ALL = ("tol", "center", "version")


@dataclass(frozen=True)
class PartElsewhere:
    """A criterion or restriction of another package, which a file names and does not hold.

    Attributes
    ----------
    kind : {"criterion", "restriction"}
    name : str
    settings : dict
    """

    kind: str
    name: str
    settings: dict[str, Any]
    measures_losses: ClassVar[bool] = False
    wants_equal_errors: ClassVar[bool] = False

    def __repr__(self) -> str:
        return self.name

    def missing(self) -> InvalidParameter:
        """What to raise where it is needed."""
        return InvalidParameter(
            f"The model was fitted with the {self.kind} {self.name!r} of another package",
            f"Allowed: a {self.kind} of this library, or one that is passed as an object",
            "Pass it where the model is loaded: FairSubspace.load(path, parts=[...]), or --part "
            "package.module:Object on the command line",
        )


def write_subspace(path: str | os.PathLike[str], members: Mapping[str, Any]) -> None:
    """Write the fields of a subspace to exactly the name given; the file is complete or absent."""
    certificate = members["certificate"]
    numbers = None if certificate is None else numbers_of(certificate.proof)
    header = {
        "center": members["center"],
        "feature_names": members["feature_names"],
        "certificate": None if certificate is None else _plain_certificate(certificate),
        "proof": None if numbers is None else certificate.proof.kind,
    }
    given = {name: members[name] for name in ("components", *_OPTIONAL)}
    arrays = {name: each for name, each in given.items() if each is not None}
    arrays |= {PROOF + name: each for name, each in (numbers or {}).items()}
    write_archive(path, SUBSPACE.kind, header, arrays)


def read_subspace(path: str | os.PathLike[str], parts: Sequence[Any] = ()) -> dict[str, Any]:
    """The fields of a subspace that was written.

    Parameters
    ----------
    path : str or path
    parts : sequence of objects
        Criterion and restriction of other packages, by whose names the file refers to them.

    Raises
    ------
    FileNotFoundError
        There is no such file.
    CorruptFile
        The file is truncated, altered or of another kind.
    """
    header, arrays = read_archive(path, SUBSPACE)
    names, stored, kind = header["feature_names"], header["certificate"], header["proof"]
    members: dict[str, Any] = {
        "components": arrays["components"],
        "center": header["center"],
        "feature_names": None if names is None else tuple(names),
        **{name: arrays.get(name) for name in _OPTIONAL},
    }
    try:
        projector = Projector(members["components"], members["oblique_decoder"])
        projector.check()
        numbers = {
            name.removeprefix(PROOF): np.asarray(each, dtype=np.float64)
            for name, each in arrays.items()
            if name.startswith(PROOF)
        }
        proof = None if kind is None else proof_of(kind, numbers)
        members["certificate"] = (
            None if stored is None else _certificate(stored, projector, proof, parts)
        )
    except InvalidInput as error:
        found, allowed = f"cannot be used ({error.args[0]})", error.args[1]
        wrong = NotAllowed("components", found, allowed.removeprefix("Allowed: "))
        raise SUBSPACE.refusal(str(path), wrong) from error
    except (ValueError, TypeError, LookupError) as error:
        wrong = NotAllowed("certificate", f"cannot be used ({error})", "what a fit writes")
        raise SUBSPACE.refusal(str(path), wrong) from error
    return members


def _plain_certificate(certificate: Certificate) -> dict[str, Any]:
    """A certificate as values of JSON, without its components and its proof.

    Steps and prefixes of nested components are proven by weights of the groups.
    """
    return {
        **_plain_claims(certificate),
        **{name: getattr(certificate, name) for name in _OF_ALL},
        "criterion": _plain_part(certificate.criterion),
        "restriction": _plain_part(certificate.restriction),
        "groups": certificate.groups,
        "counts": certificate.counts,
        **{
            name: [
                {**_plain_claims(each), "weights": each.weights.tolist()}
                for each in getattr(certificate, name)
            ]
            for name in ("steps", "prefixes")
        },
    }


def _plain_claims(certificate: Certificate) -> dict[str, Any]:
    return {
        **{name: getattr(certificate, name) for name in _OF_EACH},
        "status": str(certificate.status),
        "errors": certificate.errors.tolist(),
        "losses": certificate.losses.tolist(),
        "trace": [list(vars(point).values()) for point in certificate.trace],
    }


def _certificate(
    stored: dict[str, Any], projector: Projector, proof: Proof | None, parts: Sequence[Any]
) -> Certificate:
    """A certificate that was stored, of components that were stored beside it."""
    rows = np.ascontiguousarray(projector.decoder.T)
    shared = {
        **{name: stored[name] for name in _OF_ALL},
        "criterion": _part("criterion", stored["criterion"], parts),
        "restriction": _part("restriction", stored["restriction"], parts),
        "groups": tuple(plain_labels(stored["groups"])),
        "counts": tuple(stored["counts"]),
    }

    def read(each: dict[str, Any], components: FloatArray, own: Proof | None) -> Certificate:
        return Certificate(
            components=components,
            proof=own,
            status=Status(each["status"]),
            errors=np.asarray(each["errors"], dtype=np.float64),
            losses=np.asarray(each["losses"], dtype=np.float64),
            trace=tuple(TracePoint(*point) for point in each["trace"]),
            **{name: each[name] for name in _OF_EACH},
            **shared,
        )

    return replace(
        read(stored, rows, proof),
        steps=tuple(
            read(each, rows[[i]], Proof(np.array(each["weights"])))
            for i, each in enumerate(stored["steps"])
        ),
        prefixes=tuple(
            read(each, rows[: i + 1], Proof(np.array(each["weights"])))
            for i, each in enumerate(stored["prefixes"])
        ),
    )


def _plain_part(part: Any) -> dict[str, Any] | None:
    """Name and settings of a criterion or restriction."""
    if part is None:
        return None
    settings = part.settings if isinstance(part, PartElsewhere) else field_values(part)
    return {
        "name": part.name,
        "settings": {name: _plain(value) for name, value in settings.items()},
    }


def _part(kind: str, stored: dict[str, Any] | None, parts: Sequence[Any]) -> Any:
    """The part of this name with these settings, built in or one of the objects passed."""
    if stored is None:
        return None
    name, settings = stored["name"], stored["settings"]
    values = {key: _restored(value) for key, value in settings.items()}
    made = criterion_of if kind == "criterion" else restriction_of
    if name in names_of(kind):
        return made(name, **values)
    for part in parts:
        if getattr(part, "name", None) == name:
            return made(replace(part, **values) if values else part)
    return PartElsewhere(kind, name, settings)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {_BY_GROUP: [[plain_label(key), each] for key, each in value.items()]}
    return plain_label(value)


def _restored(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {plain_label(key): each for key, each in value[_BY_GROUP]}
    return plain_label(value)
