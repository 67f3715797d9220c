"""How a subspace is written: in a file of ours with its certificate, as ONNX, and as SQL."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol

import numpy as np

from fairspan.certificates.certificate import Certificate, Status, TracePoint
from fairspan.certificates.proofs import KINDS, Proof, numbers_of
from fairspan.errors import (
    Cause,
    FairspanError,
    Incompatible,
    InvalidInput,
    InvalidParameter,
    imported,
)
from fairspan.moments.normal import checked_normal
from fairspan.moments.operators import Projector
from fairspan.problem.reduction import criterion_of, restriction_of
from fairspan.registry import field_values, names_of
from fairspan.rows.groups import plain_label, plain_labels
from fairspan.storage import (
    FLAG,
    MAPPING,
    TEXT,
    NotAllowed,
    Schema,
    are_positive,
    fields,
    labels,
    listed,
    maybe,
    numbers,
    read_archive,
    real,
    whole,
    words,
    write_archive,
)
from fairspan.typing import FloatArray
from fairspan.version import __version__

# Arrays of the proof are saved under their names after this.
_PROOF = "proof_"
# Those of the normal model of the rows, after that.
_NORMAL = "normal_"
# A mapping by group is stored as pairs, since names in JSON are text.
_BY_GROUP = "by_group"
_POINT = {
    "n_eigenproblems": whole(0),
    "lower_bound": real(may_be_infinite=True),
    "upper_bound": real(may_be_infinite=True),
}
# What is stored of each certificate: of the whole one, of steps and of prefixes.
_OF_EACH = {
    "n_components": whole(1),
    "objective": real(may_be_infinite=True),
    "lower_bound": real(may_be_infinite=True),
    "scale": real(0, may_be_infinite=True),
    "tolerance": real(0, may_be_infinite=True),
    "resolution": real(0, may_be_infinite=True),
    "violation": real(0),
    "theorem_3_2": maybe(FLAG),
    "total_variance": real(0),
    "status": words(*Status),
    "reason": maybe(TEXT),
    "errors": listed(real(), "g"),
    "losses": listed(real(), "g"),
    "solver": TEXT,
    "n_eigenproblems": whole(0),
    "eigen": TEXT,
    "trace": listed(fields(_POINT)),
}
# What all of them share.
_OF_ALL = {"tol": real(0), "center": words("global", "group", "none"), "version": TEXT}
# Steps and prefixes of nested components are proven by weights of the groups.
_STEPS = listed(fields({**_OF_EACH, "weights": listed(real(), "g")}))
_PART = fields({"name": TEXT, "settings": MAPPING})
_CERTIFICATE = {
    **_OF_EACH,
    **_OF_ALL,
    "criterion": _PART,
    "restriction": maybe(_PART),
    "groups": labels("g"),
    "counts": listed(whole(0), "g"),
    "steps": _STEPS,
    "prefixes": _STEPS,
}


_ABOVE_ZERO = ("fiu", "finite numbers above 0", are_positive)
_OPTIONAL = {
    "mean": numbers("p"),
    "scale": numbers("p", *_ABOVE_ZERO),
    "oblique_decoder": numbers("p d"),
    "whitening": numbers("d", *_ABOVE_ZERO),
    "normal_mean": numbers("p"),
    "normal_covariance": numbers("p p"),
    # The proofs know what else has to fit.
    "proof_weights": numbers("*"),
    "proof_lines": numbers("* 2"),
    "proof_multiplier": numbers("1"),
    "proof_multipliers": numbers("2 p p"),
}
_SUBSPACE = Schema(
    "subspace",
    "a consistent subspace",
    fields(
        {
            "components": numbers("d p"),
            "feature_names": maybe(listed(TEXT, "p", differ=True)),
            "center": _OF_ALL["center"],
            "certificate": maybe(fields(_CERTIFICATE)),
            "proof": maybe(words(*KINDS)),
            **_OPTIONAL,
        },
        *_OPTIONAL,
    ),
)


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
    columns: ClassVar[tuple[str, ...]] = ()
    condition: ClassVar[str] = ""

    def __repr__(self) -> str:
        return self.name

    def missing(self) -> InvalidParameter:
        """What to raise where it is needed."""
        return InvalidParameter(
            f"The model was fitted with the {self.kind} {self.name!r} of another package",
            f"Allowed: a {self.kind} of this library, or one that is passed as an object",
            "Pass it where the model is loaded: FairSubspace.load(path, parts=[...])",
            cause=Cause.UNKNOWN_PART,
        )


def write_subspace(path: str | os.PathLike[str], members: Mapping[str, Any]) -> None:
    """Write the fields of a subspace to exactly the name given; the file is complete or absent."""
    claimed = members["certificate"]
    numbers = None if claimed is None else numbers_of(claimed.proof)
    arrays = {name: each for name, each in members.items() if isinstance(each, np.ndarray)}
    header = {
        "center": members["center"],
        "feature_names": members["feature_names"],
        "certificate": None if claimed is None else _plain_certificate(claimed),
        "proof": None if numbers is None else claimed.proof.kind,
    }
    arrays |= {_PROOF + name: each for name, each in (numbers or {}).items()}
    if (normal := members["normal"]) is not None:
        arrays |= {_NORMAL + "mean": normal.mean, _NORMAL + "covariance": normal.covariance}
    write_archive(path, _SUBSPACE.kind, header, arrays)


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
    members: dict[str, Any] = {"mean": None, **read_archive(path, _SUBSPACE)}
    if members["feature_names"] is not None:
        members["feature_names"] = tuple(members["feature_names"])
    numbers = {
        name.removeprefix(_PROOF): members.pop(name).astype(np.float64)
        for name in [*members]
        if name.startswith(_PROOF)
    }
    try:
        projector = Projector(members["components"], members.get("oblique_decoder"))
        projector.check()
        kind = members.pop("proof")
        # The wrong numbers for a kind, or numbers without one, are refused below.
        proof = _proof(kind, numbers) if kind or numbers else None
        normal = {name: members.pop(_NORMAL + name, None) for name in ("mean", "covariance")}
        if any(each is not None for each in normal.values()):
            members["normal"] = checked_normal(**normal)
        if members["certificate"] is not None:
            rows = np.ascontiguousarray(projector.decoder.T)
            members["certificate"] = _certificate(members["certificate"], rows, proof, parts)
    except NotAllowed as error:
        raise _SUBSPACE.refusal(str(path), error) from error
    except (ValueError, TypeError, LookupError) as error:
        own = "components" if isinstance(error, InvalidInput) else "certificate"
        wrong = NotAllowed(own, f"cannot be used ({error})", "what a fit writes")
        raise _SUBSPACE.refusal(str(path), wrong) from error
    return members


def _proof(kind: str, numbers: dict[str, FloatArray]) -> Proof:
    """Return the proof of this kind, or raise NotAllowed."""
    try:
        return KINDS[kind](**numbers)
    except InvalidInput as error:
        raise NotAllowed("proof", f"cannot be used ({error})", "what a fit writes") from error


def _plain_certificate(claimed: Certificate) -> dict[str, Any]:
    """A certificate as JSON holds it, without its components and its proof."""
    names = ("groups", "counts", *_OF_ALL, *_OF_EACH)
    nested = {
        name: [
            {**{each: getattr(part, each) for each in _OF_EACH}, "weights": part.weights}
            for part in getattr(claimed, name)
        ]
        for name in ("steps", "prefixes")
    }
    chosen = {name: _plain_part(getattr(claimed, name)) for name in ("criterion", "restriction")}
    return {**{name: getattr(claimed, name) for name in names}, **nested, **chosen}


def _certificate(
    stored: dict[str, Any], rows: FloatArray, proof: Proof | None, parts: Sequence[Any]
) -> Certificate:
    """A certificate that was stored, of components that were stored beside it."""
    shared = {
        **{name: stored[name] for name in _OF_ALL},
        "criterion": _part("criterion", stored["criterion"], parts),
        "restriction": _part("restriction", stored["restriction"], parts),
        "groups": tuple(plain_labels(stored["groups"])),
        "counts": tuple(stored["counts"]),
    }

    if not isinstance(shared["criterion"], PartElsewhere):
        try:
            shared["criterion"].check(list(shared["groups"]))
        except FairspanError as error:
            raise NotAllowed(
                "criterion", f"does not fit the groups ({error})", "one of the model's own groups"
            ) from error

    def read(each: dict[str, Any], components: FloatArray, own: Proof | None) -> Certificate:
        claims = {name: each[name] for name in _OF_EACH} | {
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
    by_group = isinstance(value, Mapping)
    return {_BY_GROUP: [*map(plain_label, value.items())]} if by_group else plain_label(value)


def _restored(value: Any) -> Any:
    by_group = isinstance(value, Mapping)
    return dict(map(plain_label, value[_BY_GROUP])) if by_group else plain_label(value)


class Projection(Protocol):
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
_OPERATORS, _FORMAT = 17, 8


def graph_bytes(projection: Projection, dtype: str) -> bytes:
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
    onnx = imported("onnx", "onnx", "Writing a graph")
    helper, inside = onnx.helper, onnx.TensorProto.DOUBLE
    outside = onnx.TensorProto.FLOAT if dtype == "float32" else inside
    operators = {"Sub": projection.mean, "Div": projection.scale, "MatMul": projection.encoder.T}
    constants = [
        onnx.numpy_helper.from_array(np.ascontiguousarray(value, dtype=np.float64), operator)
        for operator, value in operators.items()
        if value is not None
    ]
    chain: list[tuple[str, list[str], dict[str, Any]]]
    chain = [(constant.name, [constant.name], {}) for constant in constants]
    if dtype == "float32":
        chain = [("Cast", [], {"to": inside}), *chain, ("Cast", [], {"to": outside})]
    names = ["X", *(f"step{i}" for i in range(1, len(chain))), "coordinates"]
    nodes = [
        helper.make_node(operator, [names[i], *given], [names[i + 1]], **settings)
        for i, (operator, given, settings) in enumerate(chain)
    ]
    d, p = projection.encoder.shape
    ends = [
        helper.make_tensor_value_info(name, outside, [None, width])
        for name, width in (("X", p), ("coordinates", d))
    ]
    graph = helper.make_graph(nodes, "fairspan", ends[:1], ends[1:], constants)
    model = helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", _OPERATORS)],
        ir_version=_FORMAT,
        producer_name="fairspan",
        producer_version=__version__,
    )
    if projection.feature_names is not None:
        helper.set_model_props(model, {"features": "\n".join(projection.feature_names)})
    onnx.checker.check_model(model)
    return bytes(model.SerializeToString())


def select_of(projection: Projection, table: str, *, one_hot: bool = False) -> str:
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
        raise Incompatible(
            "The features of the model have no names, and SQL names columns",
            "Allowed: models that were fitted on tables with named columns",
            "Fit on a data frame or a file",
        )
    if one_hot and not any("=" in name for name in names):
        raise Incompatible(
            "None of the features is named column=category",
            "Allowed with indicators: models of columns of text",
            "Leave out one_hot=True",
            cause=Cause.NO_INDICATORS,
        )
    mean = np.zeros(len(names)) if projection.mean is None else projection.mean
    loadings = projection.encoder / (1.0 if projection.scale is None else projection.scale)
    columns = [
        f"({_value_of(name, one_hot=one_hot)} - {_number(middle)})"
        for name, middle in zip(names, mean.tolist(), strict=True)
    ]
    made = [
        "\n  + ".join(f"{_number(each)} * {at}" for each, at in zip(row, columns, strict=True))
        + f" AS {_quoted(name)}"
        for row, name in zip(loadings.tolist(), projection.component_names, strict=True)
    ]
    select = ",\n  ".join(made)
    return f"SELECT\n  {select}\nFROM {_quoted(table)}"


def _value_of(name: str, *, one_hot: bool) -> str:
    column, is_indicator, category = name.partition("=")
    if not (one_hot and is_indicator and column):
        return f"CAST({_quoted(name)} AS DOUBLE PRECISION)"
    # A missing cell stays missing; a category that the model has not seen is 0 in all indicators.
    cell, text = _quoted(column), category.replace("'", "''")
    return f"CASE WHEN {cell} IS NULL THEN NULL WHEN {cell} = '{text}' THEN 1e+00 ELSE 0e+00 END"


def _quoted(name: str) -> str:
    if not isinstance(name, str) or not name or "\0" in name:
        raise InvalidParameter(
            f"{name!r} names a column or a table",
            "Allowed in SQL: names of one letter or more, without the character NUL",
            "Rename it",
        )
    return '"' + name.replace('"', '""') + '"'


def _number(value: float) -> str:
    """With an exponent, as a number without one is a decimal of few digits; negative in brackets.

    Examples
    --------
    >>> _number(0.1), _number(-2.0)
    ('1e-01', '(-2e+00)')
    """
    text = np.format_float_scientific(value, trim="-")
    return f"({text})" if text.startswith("-") else text
