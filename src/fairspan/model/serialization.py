"""File format of subspaces: write them with their certificates, and read them again."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, TypedDict, cast

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
from fairspan.errors import Cause, FairspanError, InvalidParameter
from fairspan.moments.base_moments import Center
from fairspan.moments.normal_model import NormalModel, validated_normal_model
from fairspan.moments.projector import Projector
from fairspan.parameters import DataclassInstance, init_parameters
from fairspan.problem.criteria.criterion import Criterion
from fairspan.problem.criteria.criterion_catalog import get_criterion
from fairspan.problem.restrictions.restriction import Restriction
from fairspan.problem.restrictions.restriction_catalog import get_restriction
from fairspan.registry import builtin_names
from fairspan.rows.labels import to_python_label, to_python_labels
from fairspan.storage.archive import open_archive, write_archive
from fairspan.storage.fields import FieldReader, FileKind
from fairspan.typing import AnyArray, FloatArray, JsonValue

_SUBSPACE_FILE = FileKind("subspace", "a consistent subspace")
_CENTERS = ("global", "group", "none")
# Mappings by group are stored as pairs, since JSON keys are strings.
_GROUP_MAPPING_KEY = "by_group"


@dataclass(frozen=True)
class UnresolvedObject:
    """Criterion or restriction of another package, which a file names but does not contain.

    Attributes
    ----------
    kind : {"criterion", "restriction"}
    name : str
    settings : mapping of str to JSON values
        Parameters, as stored.
    """

    kind: str
    name: str
    settings: Mapping[str, JsonValue]
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


class SubspaceFields(TypedDict):
    """Fields of a :class:`~fairspan.model.subspace.FairSubspace`, by name, as a file holds them."""

    components: FloatArray
    mean: FloatArray | None
    scale: FloatArray | None
    center: Center
    feature_names: tuple[str, ...] | None
    certificate: Certificate | None
    oblique_decoder: FloatArray | None
    whitening: FloatArray | None
    imputation_model: NormalModel | None


def write_subspace(path: str | os.PathLike[str], subspace: SubspaceFields) -> None:
    """Write a subspace to exactly the given path, atomically.

    Arrays are stored as such; the certificate and names of features in the JSON header.
    """
    certificate = subspace["certificate"]
    proof = None if certificate is None else certificate.proof
    # None also for a proof of another package, which is not stored.
    arrays_of_proof = proof_arrays(proof)
    header = {
        "center": subspace["center"],
        "feature_names": subspace["feature_names"],
        "certificate": None if certificate is None else _certificate_to_dict(certificate),
        "proof": None if proof is None or arrays_of_proof is None else proof.kind,
    }
    optional_arrays = {
        "components": subspace["components"],
        "mean": subspace["mean"],
        "scale": subspace["scale"],
        "oblique_decoder": subspace["oblique_decoder"],
        "whitening": subspace["whitening"],
    }
    arrays = {name: array for name, array in optional_arrays.items() if array is not None}
    if arrays_of_proof is not None:
        arrays |= {f"proof_{name}": array for name, array in arrays_of_proof.items()}
    if (imputation_model := subspace["imputation_model"]) is not None:
        arrays["normal_mean"] = imputation_model.mean
        arrays["normal_covariance"] = imputation_model.covariance
    write_archive(path, _SUBSPACE_FILE.name, header, arrays)


def read_subspace(
    path: str | os.PathLike[str],
    custom_objects: Sequence[object] = (),
) -> SubspaceFields:
    """Read the fields of a subspace from a file.

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
    with open_archive(path, _SUBSPACE_FILE) as fields:
        components = fields.read_array("components", "d p", (None, None))
        d, p = components.shape
        oblique_decoder = _read_optional_array(fields, "oblique_decoder", "p d", (p, d))
        projector = Projector(components, oblique_decoder)
        with fields.explain_errors("components"):
            projector.check()
        proof = _read_proof(fields)
        certificate = None
        if not fields.is_null("certificate"):
            # A certificate is about the rows of the decoder's transpose, from which the encoder of
            # an oblique projection differs.
            rows = np.ascontiguousarray(projector.decoder.T)
            certificate_fields = fields.read_record("certificate")
            with fields.explain_errors("certificate"):
                certificate = _read_certificate(certificate_fields, rows, proof, custom_objects)
        feature_names = None
        if not fields.is_null("feature_names"):
            feature_names = fields.read_unique_texts("feature_names", length=p)
        return SubspaceFields(
            components=components,
            mean=_read_optional_array(fields, "mean", "p", (p,)),
            scale=_read_optional_array(fields, "scale", "p", (p,), positive=True),
            center=cast(Center, fields.read_choice("center", _CENTERS)),
            feature_names=feature_names,
            certificate=certificate,
            oblique_decoder=oblique_decoder,
            whitening=_read_optional_array(fields, "whitening", "d", (d,), positive=True),
            imputation_model=_read_imputation_model(fields, p),
        )


def _read_optional_array(
    fields: FieldReader,
    name: str,
    axes: str,
    shape: tuple[int | None, ...],
    *,
    positive: bool = False,
) -> AnyArray | None:
    """Read an array that may be missing; None if it is. Parameters as for `read_array`."""
    return fields.read_array(name, axes, shape, positive=positive) if fields.has(name) else None


def _read_imputation_model(fields: FieldReader, p: int) -> NormalModel | None:
    """Read the normal model of p features by which missing cells are imputed; None if missing."""
    mean = _read_optional_array(fields, "normal_mean", "p", (p,))
    covariance = _read_optional_array(fields, "normal_covariance", "p p", (p, p))
    if mean is None and covariance is None:
        return None
    with fields.explain_errors("normal_covariance"):
        return validated_normal_model(mean, covariance)


def _read_proof(fields: FieldReader) -> Proof | None:
    """Read the proof, which is stored as its kind and its arrays; None if there is none."""
    # Every kind of proof has some of these arrays; it checks itself which ones, and their lengths.
    arrays = {
        "weights": _read_optional_array(fields, "proof_weights", "k", (None,)),
        "lines": _read_optional_array(fields, "proof_lines", "m 2", (None, 2)),
        "multiplier": _read_optional_array(fields, "proof_multiplier", "1", (1,)),
        "multipliers": _read_optional_array(fields, "proof_multipliers", "2 p p", (2, None, None)),
    }
    stored_arrays = {
        name: array.astype(np.float64) for name, array in arrays.items() if array is not None
    }
    if fields.is_null("proof"):
        if stored_arrays:
            raise fields.error("proof", "is None", "a kind of proof, as there are its arrays")
        return None
    kind = fields.read_choice("proof", PROOF_KINDS)
    with fields.explain_errors("proof"):
        return PROOF_KINDS[kind](**stored_arrays)


def _certificate_to_dict(certificate: Certificate) -> dict[str, object]:
    """JSON representation of a certificate, without its components and proof."""
    return {
        **_claims_to_dict(certificate),
        "tol": certificate.tol,
        "center": certificate.center,
        "version": certificate.version,
        "groups": certificate.groups,
        "counts": certificate.counts,
        "criterion": _object_to_dict(certificate.criterion),
        "restriction": _object_to_dict(certificate.restriction),
        # Steps and prefixes of nested components are proven by group weights.
        "steps": [{**_claims_to_dict(step), "weights": step.weights} for step in certificate.steps],
        "prefixes": [
            {**_claims_to_dict(prefix), "weights": prefix.weights}
            for prefix in certificate.prefixes
        ],
    }


def _claims_to_dict(certificate: Certificate) -> dict[str, object]:
    """JSON representation of what a step or prefix does not share with the whole certificate.

    The figures are described in :class:`~fairspan.certificates.certificate.Certificate`.
    """
    # Left out where it is false, as in most files.
    optional_fields = {"scaling_helps": True} if certificate.scaling_helps else {}
    return {
        "n_components": certificate.n_components,
        "objective": certificate.objective,
        "lower_bound": certificate.lower_bound,
        "scale": certificate.scale,
        "absolute_tol": certificate.absolute_tol,
        "resolution": certificate.resolution,
        "constraint_violation": certificate.constraint_violation,
        "theorem_3_2_holds": certificate.theorem_3_2_holds,
        "total_variance": certificate.total_variance,
        "status": certificate.status,
        "unresolved_reason": certificate.unresolved_reason,
        **optional_fields,
        "errors": certificate.errors,
        "losses": certificate.losses,
        "solver": certificate.solver,
        "n_eigenproblems": certificate.n_eigenproblems,
        "eigensolver": certificate.eigensolver,
        "trace": certificate.trace,
    }


def _read_certificate(
    fields: FieldReader,
    rows: FloatArray,
    proof: Proof | None,
    custom_objects: Sequence[object],
) -> Certificate:
    """Read a certificate for components that are stored next to it.

    `rows` are those of the transposed decoder, shape (d, p); `custom_objects` are criteria and
    restrictions of other packages.

    Raises
    ------
    InvalidField
        A field is invalid, or the criterion does not fit the groups.
    """
    groups = tuple(fields.read_labels("groups"))
    criterion = _read_object(fields.read_record("criterion"), "criterion", custom_objects)
    restriction = None
    if not fields.is_null("restriction"):
        restriction = _read_object(fields.read_record("restriction"), "restriction", custom_objects)
    statement = ProblemStatement(
        # Objects that are unknown here take the places of a criterion and of a restriction.
        criterion=cast(Criterion, criterion),
        n_components=fields.read_integer("n_components", minimum=1),
        groups=groups,
        counts=tuple(fields.read_integers("counts", length=len(groups), minimum=0)),
        center=cast(Center, fields.read_choice("center", _CENTERS)),
        restriction=cast(Restriction | None, restriction),
    )
    if not isinstance(criterion, UnresolvedObject):
        try:
            statement.criterion.check_groups(list(groups))
        except FairspanError as error:
            raise fields.error(
                "criterion", f"does not fit the groups ({error})", "one of the model's own groups"
            ) from error
    tol = fields.read_number("tol", minimum=0, below=1)
    version = fields.read_text("version")
    certificate = _read_claims(fields, rows, proof, statement, tol=tol, version=version)
    # A step is about one component, a prefix about all components up to one.
    steps = [
        _read_nested_certificate(step, rows[i : i + 1], statement, tol=tol, version=version)
        for i, step in enumerate(fields.read_records("steps"))
    ]
    prefixes = [
        _read_nested_certificate(prefix, rows[: i + 1], statement, tol=tol, version=version)
        for i, prefix in enumerate(fields.read_records("prefixes"))
    ]
    return replace(certificate, steps=tuple(steps), prefixes=tuple(prefixes))


def _read_nested_certificate(
    fields: FieldReader, rows: FloatArray, statement: ProblemStatement, *, tol: float, version: str
) -> Certificate:
    """Read the certificate of a step or prefix, which is proven by weights of the groups.

    Parameters
    ----------
    fields : FieldReader
        Fields of the step or prefix.
    rows : (r, p) array
        Components that it is about.
    statement : ProblemStatement
        Statement of the whole certificate.
    tol, version
        Tolerance of the whole certificate, and version of the library that wrote it.
    """
    weights = fields.read_numbers("weights", length=len(statement.groups))
    with fields.explain_errors("weights"):
        proof = Proof(np.array(weights, dtype=np.float64))
    return _read_claims(fields, rows, proof, statement, tol=tol, version=version)


def _read_claims(
    fields: FieldReader,
    rows: FloatArray,
    proof: Proof | None,
    statement: ProblemStatement,
    *,
    tol: float,
    version: str,
) -> Certificate:
    """Read a certificate without its steps and prefixes, from fields that those have, too.

    Parameters as for :func:`_read_nested_certificate`; `proof` is that of the certificate.
    """
    k = len(statement.groups)
    theorem_3_2_holds = None
    if not fields.is_null("theorem_3_2_holds"):
        theorem_3_2_holds = fields.read_boolean("theorem_3_2_holds")
    unresolved_reason = None
    if not fields.is_null("unresolved_reason"):
        unresolved_reason = fields.read_text("unresolved_reason")
    scaling_helps = fields.has("scaling_helps") and fields.read_boolean("scaling_helps")
    return Certificate(
        components=rows,
        statement=replace(
            statement,
            n_components=fields.read_integer("n_components", minimum=1),
            theorem_3_2_holds=theorem_3_2_holds,
        ),
        figures=SolutionFigures(
            objective=fields.read_number("objective", may_be_infinite=True),
            errors=np.array(fields.read_numbers("errors", length=k), dtype=np.float64),
            losses=np.array(fields.read_numbers("losses", length=k), dtype=np.float64),
            total_variance=fields.read_number("total_variance", minimum=0),
            constraint_violation=fields.read_number("constraint_violation", minimum=0),
        ),
        lower_bound=fields.read_number("lower_bound", may_be_infinite=True),
        proof=proof,
        assessment=GapAssessment(
            status=Status(fields.read_choice("status", list(Status))),
            tol=tol,
            scale=fields.read_number("scale", minimum=0, may_be_infinite=True),
            absolute_tol=fields.read_number("absolute_tol", minimum=0, may_be_infinite=True),
            resolution=fields.read_number("resolution", minimum=0, may_be_infinite=True),
            unresolved_reason=unresolved_reason,
            scaling_helps=scaling_helps,
        ),
        run=RunRecord(
            solver=fields.read_text("solver"),
            n_eigenproblems=fields.read_integer("n_eigenproblems", minimum=0),
            trace=tuple(_read_trace_point(point) for point in fields.read_records("trace")),
            eigensolver=Eigensolver(fields.read_choice("eigensolver", list(Eigensolver))),
            version=version,
        ),
    )


def _read_trace_point(fields: FieldReader) -> TracePoint:
    """Read the bounds that were known after a number of eigenproblems."""
    return TracePoint(
        n_eigenproblems=fields.read_integer("n_eigenproblems", minimum=0),
        lower_bound=fields.read_number("lower_bound", may_be_infinite=True),
        upper_bound=fields.read_number("upper_bound", may_be_infinite=True),
    )


def _object_to_dict(
    instance: "Criterion | Restriction | UnresolvedObject | None",
) -> dict[str, object] | None:
    """Name and parameters of a criterion or restriction, for JSON.

    Those of an UnresolvedObject, of another package and not passed on loading, are kept as stored.
    """
    if instance is None:
        return None
    settings: Mapping[str, object] = init_parameters(instance)
    if isinstance(instance, UnresolvedObject):
        settings = instance.settings
    return {
        "name": instance.name,
        "settings": {name: _to_json(value) for name, value in settings.items()},
    }


def _read_object(fields: FieldReader, kind: str, custom_objects: Sequence[object]) -> object:
    """Read a criterion or restriction, of which the name and the parameters are stored.

    It is built in or one of the custom objects. If the name is neither, the result is an
    `UnresolvedObject`, which raises only where it is needed.

    Parameters
    ----------
    fields : FieldReader
        Its name and its settings.
    kind : {"criterion", "restriction"}
    custom_objects : sequence of objects
        Criteria and restrictions of other packages.
    """
    name = fields.read_text("name")
    stored_settings = fields.read_mapping("settings")
    settings = {key: _from_json(value) for key, value in stored_settings.items()}
    get_object = get_criterion if kind == "criterion" else get_restriction
    if name in builtin_names(kind):
        return get_object(name, **settings)
    for custom_object in custom_objects:
        if getattr(custom_object, "name", None) == name:
            if settings:
                custom_object = replace(cast(DataclassInstance, custom_object), **settings)
            return get_object(custom_object)
    return UnresolvedObject(kind, name, stored_settings)


def _to_json(value: object) -> object:
    """Convert a parameter to what JSON can represent; a mapping by group to a list of pairs."""
    if isinstance(value, Mapping):
        return {_GROUP_MAPPING_KEY: [*map(to_python_label, value.items())]}
    return to_python_label(value)


def _from_json(value: JsonValue) -> object:
    """Convert a stored parameter back; :func:`_to_json` is the opposite."""
    if isinstance(value, Mapping):
        pairs = to_python_labels(cast(Sequence[JsonValue], value[_GROUP_MAPPING_KEY]))
        return dict(cast(Sequence[tuple[object, object]], pairs))
    return to_python_label(value)
