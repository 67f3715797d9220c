"""File format of pairs of subspaces: write them with their certificates, and read them again."""

import os
from typing import TypedDict, cast

import numpy as np

from fairspan.certificates.status import GapAssessment, Status
from fairspan.cross_decomposition.file_kind import PAIRED_FILE
from fairspan.cross_decomposition.paired_certificate import (
    PairedCertificate,
    PairedFigures,
    PairedStatement,
)
from fairspan.cross_decomposition.paired_criteria import (
    builtin_criterion_names,
    get_paired_criterion,
)
from fairspan.cross_decomposition.pose_pairs import METHODS, TABLES
from fairspan.cross_decomposition.table_weights import TableWeights, score_prefix
from fairspan.errors import IncompatibleParameters
from fairspan.moments.base_moments import Center
from fairspan.parameters import init_parameters
from fairspan.problem.restrictions.mean_parity import MeanParity
from fairspan.storage.archive import open_archive, write_archive
from fairspan.storage.fields import FieldReader
from fairspan.typing import FloatArray

_CENTERS = ("global", "group", "none")
_ATTRIBUTES = ("intersections", "marginal")


class PairedFields(TypedDict):
    """Fields of a :class:`~fairspan.cross_decomposition.PairedSubspace`, as a file holds them."""

    x: TableWeights
    y: TableWeights
    certificate: PairedCertificate


def write_paired_subspace(path: str | os.PathLike[str], pair: PairedFields) -> None:
    """Write a pair to exactly the given path, atomically.

    Raises
    ------
    IncompatibleParameters
        It was fitted with a criterion of another package.
    """
    certificate = pair["certificate"]
    statement = certificate.statement
    if statement.criterion.name not in builtin_criterion_names():
        raise IncompatibleParameters(
            f"The criterion {statement.criterion.name!r} is one of another package",
            f"Allowed in files: {', '.join(builtin_criterion_names())}",
            "Save the arrays x_weights_ and y_weights_ yourself",
        )
    assessment = certificate.assessment
    restriction = statement.restriction
    header = {
        "method": statement.method,
        "criterion": statement.criterion.name,
        "groups": statement.groups,
        "counts": statement.counts,
        "center": statement.center,
        "regularization": statement.regularization,
        "restriction": None if restriction is None else init_parameters(restriction)["attributes"],
        "restricted_tables": statement.restricted_tables,
        "objective": certificate.objective,
        "lower_bound": certificate.lower_bound,
        "status": assessment.status,
        "tol": assessment.tol,
        "magnitude": assessment.scale,
        "absolute_tol": assessment.absolute_tol,
        "resolution": assessment.resolution,
        "n_decompositions": certificate.n_decompositions,
        "x_names": pair["x"].feature_names,
        "y_names": pair["y"].feature_names,
    }
    arrays = {
        "kept": certificate.figures.kept,
        "best": certificate.figures.best,
        "weights": certificate.weights,
        **_table_arrays("x", pair["x"]),
        **_table_arrays("y", pair["y"]),
    }
    write_archive(path, PAIRED_FILE.name, header, arrays)


def _table_arrays(table: str, weights: TableWeights) -> dict[str, FloatArray]:
    """Arrays of the weights of one table, by the name of a member of the file."""
    arrays = {f"{table}_rotations": weights.rotations, f"{table}_mean": weights.mean}
    if weights.scale is not None:
        arrays[f"{table}_scale"] = weights.scale
    return arrays


def read_paired_subspace(path: str | os.PathLike[str]) -> PairedFields:
    """Read the fields of a pair from a file.

    Raises
    ------
    FileNotFoundError
        There is no such file.
    CorruptFile
        The file is truncated, modified or of another kind.
    """
    with open_archive(path, PAIRED_FILE) as fields:
        method = fields.read_choice("method", METHODS)
        x = _read_table(fields, "x", method, None)
        n_components = x.rotations.shape[1]
        return PairedFields(
            x=x,
            y=_read_table(fields, "y", method, n_components),
            certificate=_read_certificate(fields, n_components),
        )


def _read_table(
    fields: FieldReader, table: str, method: str, n_components: int | None
) -> TableWeights:
    """Read the weights of one table, "x" or "y"."""
    rotations = fields.read_array(f"{table}_rotations", "p d", (None, n_components))
    p = len(rotations)
    scale = None
    if fields.has(f"{table}_scale"):
        scale = fields.read_array(f"{table}_scale", "p", (p,), positive=True)
    names = None
    if not fields.is_null(f"{table}_names"):
        names = fields.read_unique_texts(f"{table}_names", length=p)
    mean = fields.read_array(f"{table}_mean", "p", (p,))
    return TableWeights(
        rotations=rotations,
        mean=mean,
        scale=scale,
        feature_names=names,
        prefix=score_prefix(method, table),
    )


def _read_certificate(fields: FieldReader, n_components: int) -> PairedCertificate:
    """Read a certificate of pairs of `n_components` scores."""
    groups = tuple(fields.read_labels("groups"))
    k = len(groups)
    restriction = None
    if not fields.is_null("restriction"):
        attributes = fields.read_choice("restriction", _ATTRIBUTES)
        restriction = MeanParity(attributes=attributes)
    statement = PairedStatement(
        method=fields.read_choice("method", METHODS),
        criterion=get_paired_criterion(fields.read_choice("criterion", builtin_criterion_names())),
        n_components=n_components,
        groups=groups,
        counts=tuple(fields.read_integers("counts", length=k, minimum=0)),
        center=cast(Center, fields.read_choice("center", _CENTERS)),
        regularization=fields.read_number("regularization", minimum=0),
        restriction=restriction,
        restricted_tables=fields.read_choice("restricted_tables", TABLES),
    )
    figures = PairedFigures(
        objective=fields.read_number("objective"),
        lower_bound=fields.read_number("lower_bound", may_be_infinite=True),
        kept=fields.read_array("kept", "k", (k,)),
        best=fields.read_array("best", "k", (k,)),
    )
    assessment = GapAssessment(
        status=Status(fields.read_choice("status", [str(status) for status in Status])),
        tol=fields.read_number("tol", minimum=0, below=1),
        scale=fields.read_number("magnitude", minimum=0),
        absolute_tol=fields.read_number("absolute_tol", minimum=0),
        resolution=fields.read_number("resolution", minimum=0),
    )
    return PairedCertificate(
        statement,
        figures,
        np.asarray(fields.read_array("weights", "k", (k,)), dtype=np.float64),
        assessment,
        fields.read_integer("n_decompositions", minimum=0),
    )
