"""File format of subspaces: write them with their certificates, and read them again."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from fairspan.certificates.certificate import Certificate
from fairspan.certificates.certificate_parts import (
    ProblemStatement,
    RunRecord,
    SolutionFigures,
    TracePoint,
)
from fairspan.certificates.eigensolver import Eigensolver
from fairspan.certificates.proofs import PROOF_KINDS, Proof, proof_arrays
from fairspan.certificates.status import GapAssessment, Status
from fairspan.errors import Cause, FairspanError, InvalidInput, InvalidParameter
from fairspan.moments.normal_model import validated_normal_model
from fairspan.moments.projector import Projector
from fairspan.parameters import init_parameters
from fairspan.problem.criteria.catalog import get_criterion
from fairspan.problem.restrictions.catalog import get_restriction
from fairspan.registry import builtin_names
from fairspan.rows.labels import to_python_label, to_python_labels
from fairspan.storage.archive import read_archive, write_archive
from fairspan.storage.schema import (
    BOOLEAN,
    MAPPING,
    TEXT,
    Schema,
    SchemaViolation,
    all_positive,
    array_of,
    integer,
    label_list,
    list_of,
    number,
    one_of,
    optional,
    record,
)
from fairspan.typing import FloatArray

# Prefix of the proof's arrays in the file.
_PROOF_PREFIX = "proof_"
# Prefix of the imputation model's arrays in the file.
_IMPUTATION_PREFIX = "normal_"
# Mappings by group are stored as pairs, since JSON keys are strings.
_GROUP_MAPPING_KEY = "by_group"
_TRACE_POINT_FIELDS = {
    "n_eigenproblems": integer(0),
    "lower_bound": number(may_be_infinite=True),
    "upper_bound": number(may_be_infinite=True),
}
# Fields stored for every certificate, including steps and prefixes.
_CERTIFICATE_FIELDS = {
    "n_components": integer(1),
    "objective": number(may_be_infinite=True),
    "lower_bound": number(may_be_infinite=True),
    "scale": number(0, may_be_infinite=True),
    "absolute_tol": number(0, may_be_infinite=True),
    "resolution": number(0, may_be_infinite=True),
    "constraint_violation": number(0),
    "theorem_3_2_holds": optional(BOOLEAN),
    "total_variance": number(0),
    "status": one_of(*Status),
    "unresolved_reason": optional(TEXT),
    "errors": list_of(number(), "g"),
    "losses": list_of(number(), "g"),
    "solver": TEXT,
    "n_eigenproblems": integer(0),
    "eigensolver": one_of(*Eigensolver),
    "trace": list_of(record(_TRACE_POINT_FIELDS)),
}
# Fields that a certificate shares with its steps and prefixes.
_SHARED_FIELDS = {
    "tol": number(0, below=1),
    "center": one_of("global", "group", "none"),
    "version": TEXT,
}
# Steps and prefixes of nested components are proven by group weights.
_NESTED_CERTIFICATES = list_of(record({**_CERTIFICATE_FIELDS, "weights": list_of(number(), "g")}))
_OBJECT_SCHEMA = record({"name": TEXT, "settings": MAPPING})
_CERTIFICATE_SCHEMA = {
    **_CERTIFICATE_FIELDS,
    **_SHARED_FIELDS,
    "criterion": _OBJECT_SCHEMA,
    "restriction": optional(_OBJECT_SCHEMA),
    "groups": label_list("g"),
    "counts": list_of(integer(0), "g"),
    "steps": _NESTED_CERTIFICATES,
    "prefixes": _NESTED_CERTIFICATES,
}
_POSITIVE_ARRAY = ("fiu", "finite numbers above 0", all_positive)
_OPTIONAL_ARRAYS = {
    "mean": array_of("p"),
    "scale": array_of("p", *_POSITIVE_ARRAY),
    "oblique_decoder": array_of("p d"),
    "whitening": array_of("d", *_POSITIVE_ARRAY),
    "normal_mean": array_of("p"),
    "normal_covariance": array_of("p p"),
    # Further consistency is checked by the proofs.
    "proof_weights": array_of("*"),
    "proof_lines": array_of("* 2"),
    "proof_multiplier": array_of("1"),
    "proof_multipliers": array_of("2 p p"),
}
_SUBSPACE_SCHEMA = Schema(
    "subspace",
    "a consistent subspace",
    record(
        {
            "components": array_of("d p"),
            "feature_names": optional(list_of(TEXT, "p", unique=True)),
            "center": _SHARED_FIELDS["center"],
            "certificate": optional(record(_CERTIFICATE_SCHEMA)),
            "proof": optional(one_of(*PROOF_KINDS)),
            **_OPTIONAL_ARRAYS,
        },
        *_OPTIONAL_ARRAYS,
    ),
)


@dataclass(frozen=True)
class UnresolvedObject:
    """Criterion or restriction of another package, which a file names but does not contain.

    Attributes
    ----------
    kind : {"criterion", "restriction"}
    name : str
    settings : dict
    """

    kind: str
    name: str
    settings: dict[str, Any]
    bounds_largest_loss: ClassVar[bool] = False
    columns: ClassVar[tuple[str, ...]] = ()
    constraint_text: ClassVar[str] = ""

    def __repr__(self) -> str:
        return self.name

    def error(self) -> InvalidParameter:
        """Error to raise where the object is needed."""
        return InvalidParameter(
            f"The model was fitted with the {self.kind} {self.name!r} of another package",
            f"Allowed: a {self.kind} of this library, or one passed as an object",
            "Pass it when loading the model: FairSubspace.load(path, custom_objects=[...])",
            cause=Cause.UNKNOWN_PART,
        )


def write_subspace(path: str | os.PathLike[str], members: Mapping[str, Any]) -> None:
    """Write the fields of a subspace, by name, to exactly the given path, atomically.

    Arrays are stored as such; the certificate and names of features in the JSON header.
    """
    certificate = members["certificate"]
    proof_members = None if certificate is None else proof_arrays(certificate.proof)
    certificate_fields = None if certificate is None else _certificate_to_dict(certificate)
    proof_kind = None if proof_members is None else certificate.proof.kind
    header = {
        "center": members["center"],
        "feature_names": members["feature_names"],
        "certificate": certificate_fields,
        "proof": proof_kind,
    }
    arrays = {name: value for name, value in members.items() if isinstance(value, np.ndarray)}
    if proof_members is not None:
        arrays |= {_PROOF_PREFIX + name: value for name, value in proof_members.items()}
    imputation_model = members["imputation_model"]
    if imputation_model is not None:
        arrays[_IMPUTATION_PREFIX + "mean"] = imputation_model.mean
        arrays[_IMPUTATION_PREFIX + "covariance"] = imputation_model.covariance
    write_archive(path, _SUBSPACE_SCHEMA.kind, header, arrays)


def read_subspace(
    path: str | os.PathLike[str], custom_objects: Sequence[Any] = ()
) -> dict[str, Any]:
    """Read the fields of a subspace from a file, as arguments of `FairSubspace`.

    Parameters
    ----------
    path : str or path
    custom_objects : sequence of objects
        Criterion and restriction objects of other packages, matched by name.

    Raises
    ------
    FileNotFoundError
        There is no such file.
    CorruptFile
        The file is truncated, modified or of another kind.
    """
    members: dict[str, Any] = {"mean": None, **read_archive(path, _SUBSPACE_SCHEMA)}
    if members["feature_names"] is not None:
        members["feature_names"] = tuple(members["feature_names"])
    proof_members = {
        name.removeprefix(_PROOF_PREFIX): members.pop(name).astype(np.float64)
        for name in [*members]
        if name.startswith(_PROOF_PREFIX)
    }
    try:
        projector = Projector(members["components"], members.get("oblique_decoder"))
        projector.check()
        kind = members.pop("proof")
        # Unexpected arrays for a kind, or arrays without one, are rejected below.
        proof = _proof(kind, proof_members) if kind or proof_members else None
        imputation_members = {
            name: members.pop(_IMPUTATION_PREFIX + name, None) for name in ("mean", "covariance")
        }
        if any(value is not None for value in imputation_members.values()):
            members["imputation_model"] = validated_normal_model(**imputation_members)
        if members["certificate"] is not None:
            # A certificate is about the rows of D': for an oblique projection, E differs.
            rows = np.ascontiguousarray(projector.decoder.T)
            members["certificate"] = _certificate_from_dict(
                members["certificate"], rows, proof, custom_objects
            )
    except SchemaViolation as error:
        raise _SUBSPACE_SCHEMA.error_for(str(path), error) from error
    except (ValueError, TypeError, LookupError) as error:
        # The checks of components (and of an imputation model) raise InvalidInput; other errors are
        # those of the certificate.
        member = "components" if isinstance(error, InvalidInput) else "certificate"
        reason = SchemaViolation(member, f"cannot be used ({error})", "what a fit writes")
        raise _SUBSPACE_SCHEMA.error_for(str(path), reason) from error
    return members


def _proof(kind: str, members: dict[str, FloatArray]) -> Proof:
    """Return the proof of this kind, or raise SchemaViolation."""
    try:
        return PROOF_KINDS[kind](**members)
    except InvalidInput as error:
        raise SchemaViolation("proof", f"cannot be used ({error})", "what a fit writes") from error


def _certificate_to_dict(certificate: Certificate) -> dict[str, Any]:
    """JSON representation of a certificate, without its components and proof."""
    names = ("groups", "counts", *_SHARED_FIELDS, *_CERTIFICATE_FIELDS)
    return {
        **{name: getattr(certificate, name) for name in names},
        "steps": [_nested_certificate_to_dict(step) for step in certificate.steps],
        "prefixes": [_nested_certificate_to_dict(prefix) for prefix in certificate.prefixes],
        "criterion": _object_to_dict(certificate.criterion),
        "restriction": _object_to_dict(certificate.restriction),
    }


def _nested_certificate_to_dict(certificate: Certificate) -> dict[str, Any]:
    fields = {name: getattr(certificate, name) for name in _CERTIFICATE_FIELDS}
    return {**fields, "weights": certificate.weights}


def _certificate_from_dict(
    stored: dict[str, Any], rows: FloatArray, proof: Proof | None, custom_objects: Sequence[Any]
) -> Certificate:
    """Certificate from its JSON representation, for components stored next to it.

    `rows` are those of the transposed decoder, shape (d, p); `custom_objects` are criteria and
    restrictions of other packages.

    Raises
    ------
    SchemaViolation
        The criterion does not fit the groups, or a proof cannot be used.
    """
    groups = tuple(to_python_labels(stored["groups"]))
    criterion = _object_from_dict("criterion", stored["criterion"], custom_objects)
    if not isinstance(criterion, UnresolvedObject):
        try:
            criterion.check_groups(list(groups))
        except FairspanError as error:
            raise SchemaViolation(
                "criterion", f"does not fit the groups ({error})", "one of the model's own groups"
            ) from error
    statement = ProblemStatement(
        criterion=criterion,
        n_components=stored["n_components"],
        groups=groups,
        counts=tuple(stored["counts"]),
        center=stored["center"],
        restriction=_object_from_dict("restriction", stored["restriction"], custom_objects),
    )
    shared = _SharedClaims(statement, tol=stored["tol"], version=stored["version"])
    # A step is about one component, a prefix about all components up to one.
    steps = [
        _nested_certificate(fields, rows[i : i + 1], shared)
        for i, fields in enumerate(stored["steps"])
    ]
    prefixes = [
        _nested_certificate(fields, rows[: i + 1], shared)
        for i, fields in enumerate(stored["prefixes"])
    ]
    certificate = _single_certificate(stored, rows, proof, shared)
    return replace(certificate, steps=tuple(steps), prefixes=tuple(prefixes))


@dataclass(frozen=True, eq=False)
class _SharedClaims:
    """Claims that a certificate shares with its steps and prefixes."""

    statement: ProblemStatement
    tol: float
    version: str


def _nested_certificate(
    stored: dict[str, Any], rows: FloatArray, shared: _SharedClaims
) -> Certificate:
    """Certificate of a step or prefix, which is proven by group weights."""
    weights = np.array(stored["weights"], dtype=np.float64)
    return _single_certificate(stored, rows, _proof(Proof.kind, {"weights": weights}), shared)


def _single_certificate(
    stored: dict[str, Any], rows: FloatArray, proof: Proof | None, shared: _SharedClaims
) -> Certificate:
    """Certificate without steps and prefixes."""
    return Certificate(
        components=rows,
        statement=replace(
            shared.statement,
            n_components=stored["n_components"],
            theorem_3_2_holds=stored["theorem_3_2_holds"],
        ),
        figures=SolutionFigures(
            objective=stored["objective"],
            errors=np.asarray(stored["errors"], dtype=np.float64),
            losses=np.asarray(stored["losses"], dtype=np.float64),
            total_variance=stored["total_variance"],
            constraint_violation=stored["constraint_violation"],
        ),
        lower_bound=stored["lower_bound"],
        proof=proof,
        assessment=GapAssessment(
            status=Status(stored["status"]),
            tol=shared.tol,
            scale=stored["scale"],
            absolute_tol=stored["absolute_tol"],
            resolution=stored["resolution"],
            unresolved_reason=stored["unresolved_reason"],
        ),
        run=RunRecord(
            solver=stored["solver"],
            n_eigenproblems=stored["n_eigenproblems"],
            trace=tuple(TracePoint(**point) for point in stored["trace"]),
            eigensolver=Eigensolver(stored["eigensolver"]),
            version=shared.version,
        ),
    )


def _object_to_dict(instance: Any) -> dict[str, Any] | None:
    """Name and parameters of a criterion or restriction."""
    if instance is None:
        return None
    is_unresolved = isinstance(instance, UnresolvedObject)
    settings = instance.settings if is_unresolved else init_parameters(instance)
    return {
        "name": instance.name,
        "settings": {name: _to_json(value) for name, value in settings.items()},
    }


def _object_from_dict(
    kind: str, stored: dict[str, Any] | None, custom_objects: Sequence[Any]
) -> Any:
    """Criterion or restriction with this name and parameters, built in or a custom object.

    An `UnresolvedObject` if the name is neither; it raises only where it is needed. None if nothing
    is stored, as for a model without a restriction.
    """
    if stored is None:
        return None
    name = stored["name"]
    values = {key: _from_json(value) for key, value in stored["settings"].items()}
    get_object = get_criterion if kind == "criterion" else get_restriction
    if name in builtin_names(kind):
        return get_object(name, **values)
    for custom_object in custom_objects:
        if getattr(custom_object, "name", None) == name:
            return get_object(replace(custom_object, **values) if values else custom_object)
    return UnresolvedObject(kind, name, stored["settings"])


def _to_json(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {_GROUP_MAPPING_KEY: [*map(to_python_label, value.items())]}
    return to_python_label(value)


def _from_json(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(map(to_python_label, value[_GROUP_MAPPING_KEY]))
    return to_python_label(value)
