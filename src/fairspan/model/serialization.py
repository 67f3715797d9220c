"""How a subspace is written: in a file of ours with its certificate, as ONNX, and as SQL."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol

import numpy as np

from fairspan.certificates.certificate import Certificate, Status, TracePoint
from fairspan.certificates.proofs import PROOF_KINDS, Proof, proof_arrays
from fairspan.errors import (
    Cause,
    FairspanError,
    IncompatibleParameters,
    InvalidInput,
    InvalidParameter,
    import_optional,
)
from fairspan.moments.normal_model import validated_normal_model
from fairspan.moments.operators import Projector
from fairspan.problem.reduction import get_criterion, get_restriction
from fairspan.registry import builtin_names, init_parameters
from fairspan.rows.groups import to_python_label, to_python_labels
from fairspan.storage import (
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
    read_archive,
    record,
    write_archive,
)
from fairspan.typing import FloatArray
from fairspan.version import __version__

# Arrays of the proof are saved under their names after this.
_PROOF_PREFIX = "proof_"
# Those of the normal model of the rows, after that.
_IMPUTATION_PREFIX = "normal_"
# A mapping by group is stored as pairs, since names in JSON are text.
_GROUP_MAPPING_KEY = "by_group"
_TRACE_POINT_FIELDS = {
    "n_eigenproblems": integer(0),
    "lower_bound": number(may_be_infinite=True),
    "upper_bound": number(may_be_infinite=True),
}
# What is stored of each certificate: of the whole one, of steps and of prefixes.
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
    "eigensolver": TEXT,
    "trace": list_of(record(_TRACE_POINT_FIELDS)),
}
# What all of them share.
_SHARED_FIELDS = {"tol": number(0), "center": one_of("global", "group", "none"), "version": TEXT}
# Steps and prefixes of nested components are proven by weights of the groups.
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
    # The proofs know what else has to fit.
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
    columns: ClassVar[tuple[str, ...]] = ()
    condition: ClassVar[str] = ""

    def __repr__(self) -> str:
        return self.name

    def error(self) -> InvalidParameter:
        """What to raise where it is needed."""
        return InvalidParameter(
            f"The model was fitted with the {self.kind} {self.name!r} of another package",
            f"Allowed: a {self.kind} of this library, or one that is passed as an object",
            "Pass it where the model is loaded: FairSubspace.load(path, parts=[...])",
            cause=Cause.UNKNOWN_PART,
        )


def write_subspace(path: str | os.PathLike[str], members: Mapping[str, Any]) -> None:
    """Write the fields of a subspace to exactly the name given; the file is complete or absent."""
    certificate = members["certificate"]
    numbers = None if certificate is None else proof_arrays(certificate.proof)
    arrays = {name: each for name, each in members.items() if isinstance(each, np.ndarray)}
    header = {
        "center": members["center"],
        "feature_names": members["feature_names"],
        "certificate": None if certificate is None else _certificate_to_dict(certificate),
        "proof": None if numbers is None else certificate.proof.kind,
    }
    arrays |= {_PROOF_PREFIX + name: each for name, each in (numbers or {}).items()}
    if (normal := members["imputation_model"]) is not None:
        arrays |= {
            _IMPUTATION_PREFIX + "mean": normal.mean,
            _IMPUTATION_PREFIX + "covariance": normal.covariance,
        }
    write_archive(path, _SUBSPACE_SCHEMA.kind, header, arrays)


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
    members: dict[str, Any] = {"mean": None, **read_archive(path, _SUBSPACE_SCHEMA)}
    if members["feature_names"] is not None:
        members["feature_names"] = tuple(members["feature_names"])
    numbers = {
        name.removeprefix(_PROOF_PREFIX): members.pop(name).astype(np.float64)
        for name in [*members]
        if name.startswith(_PROOF_PREFIX)
    }
    try:
        projector = Projector(members["components"], members.get("oblique_decoder"))
        projector.check()
        kind = members.pop("proof")
        # The wrong numbers for a kind, or numbers without one, are refused below.
        proof = _proof(kind, numbers) if kind or numbers else None
        normal = {
            name: members.pop(_IMPUTATION_PREFIX + name, None) for name in ("mean", "covariance")
        }
        if any(each is not None for each in normal.values()):
            members["imputation_model"] = validated_normal_model(**normal)
        if members["certificate"] is not None:
            rows = np.ascontiguousarray(projector.decoder.T)
            members["certificate"] = _certificate_from_dict(
                members["certificate"], rows, proof, parts
            )
    except SchemaViolation as error:
        raise _SUBSPACE_SCHEMA.error_for(str(path), error) from error
    except (ValueError, TypeError, LookupError) as error:
        member = "components" if isinstance(error, InvalidInput) else "certificate"
        reason = SchemaViolation(member, f"cannot be used ({error})", "what a fit writes")
        raise _SUBSPACE_SCHEMA.error_for(str(path), reason) from error
    return members


def _proof(kind: str, numbers: dict[str, FloatArray]) -> Proof:
    """Return the proof of this kind, or raise SchemaViolation."""
    try:
        return PROOF_KINDS[kind](**numbers)
    except InvalidInput as error:
        raise SchemaViolation("proof", f"cannot be used ({error})", "what a fit writes") from error


def _certificate_to_dict(claimed: Certificate) -> dict[str, Any]:
    """A certificate as JSON holds it, without its components and its proof."""
    names = ("groups", "counts", *_SHARED_FIELDS, *_CERTIFICATE_FIELDS)
    nested = {
        name: [
            {**{each: getattr(part, each) for each in _CERTIFICATE_FIELDS}, "weights": part.weights}
            for part in getattr(claimed, name)
        ]
        for name in ("steps", "prefixes")
    }
    chosen = {
        name: _object_to_dict(getattr(claimed, name)) for name in ("criterion", "restriction")
    }
    return {**{name: getattr(claimed, name) for name in names}, **nested, **chosen}


def _certificate_from_dict(
    stored: dict[str, Any], rows: FloatArray, proof: Proof | None, parts: Sequence[Any]
) -> Certificate:
    """A certificate that was stored, of components that were stored beside it."""
    shared = {
        **{name: stored[name] for name in _SHARED_FIELDS},
        "criterion": _object_from_dict("criterion", stored["criterion"], parts),
        "restriction": _object_from_dict("restriction", stored["restriction"], parts),
        "groups": tuple(to_python_labels(stored["groups"])),
        "counts": tuple(stored["counts"]),
    }

    if not isinstance(shared["criterion"], UnresolvedObject):
        try:
            shared["criterion"].check_groups(list(shared["groups"]))
        except FairspanError as error:
            raise SchemaViolation(
                "criterion", f"does not fit the groups ({error})", "one of the model's own groups"
            ) from error

    def read(each: dict[str, Any], components: FloatArray, own: Proof | None) -> Certificate:
        claims = {name: each[name] for name in _CERTIFICATE_FIELDS} | {
            "status": Status(each["status"]),
            "errors": np.asarray(each["errors"], dtype=np.float64),
            "losses": np.asarray(each["losses"], dtype=np.float64),
            "trace": tuple(TracePoint(**point) for point in each["trace"]),
        }
        return Certificate(components=components, proof=own, **claims, **shared)

    def nested(name: str, first: Callable[[int], int]) -> tuple[Certificate, ...]:
        return tuple(
            read(
                each,
                rows[first(i) : i + 1],
                _proof(Proof.kind, {"weights": np.array(each["weights"], dtype=np.float64)}),
            )
            for i, each in enumerate(stored[name])
        )

    steps, prefixes = nested("steps", lambda i: i), nested("prefixes", lambda i: 0)
    return replace(read(stored, rows, proof), steps=steps, prefixes=prefixes)


def _object_to_dict(part: Any) -> dict[str, Any] | None:
    """Name and settings of a criterion or restriction."""
    if part is None:
        return None
    settings = part.settings if isinstance(part, UnresolvedObject) else init_parameters(part)
    return {
        "name": part.name,
        "settings": {name: _to_json(value) for name, value in settings.items()},
    }


def _object_from_dict(kind: str, stored: dict[str, Any] | None, parts: Sequence[Any]) -> Any:
    """The part of this name with these settings, built in or one of the objects passed."""
    if stored is None:
        return None
    name, settings = stored["name"], stored["settings"]
    values = {key: _from_json(value) for key, value in settings.items()}
    made = get_criterion if kind == "criterion" else get_restriction
    if name in builtin_names(kind):
        return made(name, **values)
    for part in parts:
        if getattr(part, "name", None) == name:
            return made(replace(part, **values) if values else part)
    return UnresolvedObject(kind, name, settings)


def _to_json(value: Any) -> Any:
    by_group = isinstance(value, Mapping)
    return (
        {_GROUP_MAPPING_KEY: [*map(to_python_label, value.items())]}
        if by_group
        else to_python_label(value)
    )


def _from_json(value: Any) -> Any:
    by_group = isinstance(value, Mapping)
    return (
        dict(map(to_python_label, value[_GROUP_MAPPING_KEY]))
        if by_group
        else to_python_label(value)
    )


class ExportableProjection(Protocol):
    """What a file in another language needs to know of a subspace."""

    @property
    def encoder(self) -> FloatArray:
        """Rows that make the coordinates of centred and scaled rows, (d, p)."""

    @property
    def mean(self) -> FloatArray | None:
        """What is subtracted from each row, (p,)."""

    @property
    def scale(self) -> FloatArray | None:
        """What each row is divided by then, (p,)."""

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Names of the p features."""

    @property
    def component_names(self) -> tuple[str, ...]:
        """Names of the d columns of reduced rows."""


# Operators as they have been since 2022, which every runtime of today knows.
_OPSET_VERSION, _IR_VERSION = 17, 8


def onnx_bytes(projection: ExportableProjection, dtype: str) -> bytes:
    """The graph that reduces rows "X" to "coordinates".

    Parameters
    ----------
    projection : Projection
    dtype : {"float64", "float32"}
        Of input and output; it computes in float64.

    Raises
    ------
    MissingDependency, InvalidParameter
    """
    if dtype not in ("float64", "float32"):
        raise InvalidParameter(
            f"dtype is {dtype!r}", "Allowed: 'float64' and 'float32'", "Use 'float64'"
        )
    onnx = import_optional("onnx", "onnx", "Writing a graph")
    helper, float64_type = onnx.helper, onnx.TensorProto.DOUBLE
    io_type = onnx.TensorProto.FLOAT if dtype == "float32" else float64_type
    operators = {"Sub": projection.mean, "Div": projection.scale, "MatMul": projection.encoder.T}
    constants = [
        onnx.numpy_helper.from_array(np.ascontiguousarray(value, dtype=np.float64), operator)
        for operator, value in operators.items()
        if value is not None
    ]
    operations: list[tuple[str, list[str], dict[str, Any]]]
    operations = [(constant.name, [constant.name], {}) for constant in constants]
    if dtype == "float32":
        operations = [
            ("Cast", [], {"to": float64_type}),
            *operations,
            ("Cast", [], {"to": io_type}),
        ]
    names = ["X", *(f"step{i}" for i in range(1, len(operations))), "coordinates"]
    nodes = [
        helper.make_node(operator, [names[i], *given], [names[i + 1]], **settings)
        for i, (operator, given, settings) in enumerate(operations)
    ]
    d, p = projection.encoder.shape
    inputs_and_outputs = [
        helper.make_tensor_value_info(name, io_type, [None, width])
        for name, width in (("X", p), ("coordinates", d))
    ]
    graph = helper.make_graph(
        nodes, "fairspan", inputs_and_outputs[:1], inputs_and_outputs[1:], constants
    )
    model = helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", _OPSET_VERSION)],
        ir_version=_IR_VERSION,
        producer_name="fairspan",
        producer_version=__version__,
    )
    if projection.feature_names is not None:
        helper.set_model_props(model, {"features": "\n".join(projection.feature_names)})
    onnx.checker.check_model(model)
    return bytes(model.SerializeToString())


def sql_select(projection: ExportableProjection, table: str, *, one_hot: bool = False) -> str:
    """The query that reduces the rows of a table.

    Parameters
    ----------
    projection : Projection
        With named features.
    table : str
    one_hot : bool
        Whether features named column=category are indicators of text in that column.

    Raises
    ------
    Incompatible
        The features have no names; none is an indicator.
    InvalidParameter
        A name that SQL cannot hold.
    """
    names = projection.feature_names
    if names is None:
        raise IncompatibleParameters(
            "The features of the model have no names, and SQL names columns",
            "Allowed: models that were fitted on tables with named columns",
            "Fit on a data frame or a file",
        )
    if one_hot and not any("=" in name for name in names):
        raise IncompatibleParameters(
            "None of the features is named column=category",
            "Allowed with indicators: models of columns of text",
            "Leave out one_hot=True",
            cause=Cause.NO_INDICATORS,
        )
    mean = np.zeros(len(names)) if projection.mean is None else projection.mean
    loadings = projection.encoder / (1.0 if projection.scale is None else projection.scale)
    columns = [
        f"({_sql_value(name, one_hot=one_hot)} - {_sql_number(middle)})"
        for name, middle in zip(names, mean.tolist(), strict=True)
    ]
    expressions = [
        "\n  + ".join(f"{_sql_number(each)} * {at}" for each, at in zip(row, columns, strict=True))
        + f" AS {_sql_identifier(name)}"
        for row, name in zip(loadings.tolist(), projection.component_names, strict=True)
    ]
    select = ",\n  ".join(expressions)
    return f"SELECT\n  {select}\nFROM {_sql_identifier(table)}"


def _sql_value(name: str, *, one_hot: bool) -> str:
    column, is_indicator, category = name.partition("=")
    if not (one_hot and is_indicator and column):
        return f"CAST({_sql_identifier(name)} AS DOUBLE PRECISION)"
    # A missing cell stays missing; a category that the model has not seen is 0 in all indicators.
    cell, text = _sql_identifier(column), category.replace("'", "''")
    return f"CASE WHEN {cell} IS NULL THEN NULL WHEN {cell} = '{text}' THEN 1e+00 ELSE 0e+00 END"


def _sql_identifier(name: str) -> str:
    if not isinstance(name, str) or not name or "\0" in name:
        raise InvalidParameter(
            f"{name!r} names a column or a table",
            "Allowed in SQL: names of one letter or more, without the character NUL",
            "Rename it",
        )
    return '"' + name.replace('"', '""') + '"'


def _sql_number(value: float) -> str:
    """With an exponent, as a number without one is a decimal of few digits; negative in brackets.

    Examples
    --------
    >>> _number(0.1), _number(-2.0)
    ('1e-01', '(-2e+00)')
    """
    text = np.format_float_scientific(value, trim="-")
    return f"({text})" if text.startswith("-") else text
