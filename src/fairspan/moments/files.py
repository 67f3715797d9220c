"""File format of moments: its schema, writing and reading.

Scatters are stored as lower triangles. With classes of y, the moments of each group and class are
stored.
"""

import os
from typing import Any, TypeVar

import numpy as np

from fairspan.errors import InvalidInput
from fairspan.linalg.rounding import MAX_EXACT_INTEGER
from fairspan.moments.dense_moments import DenseMoments
from fairspan.moments.em import EMSummary
from fairspan.moments.merging import sum_over_classes
from fairspan.moments.validation import check_no_overflow
from fairspan.rows.labels import label_array, to_python_labels
from fairspan.storage.archive import pack_archive, read_archive
from fairspan.storage.schema import (
    TEXT,
    Schema,
    SchemaViolation,
    all_positive,
    array_of,
    integer,
    label_list,
    list_of,
    number,
    optional,
    record,
)
from fairspan.typing import FloatArray

MOMENTS_SCHEMA = Schema(
    "moments",
    "consistent moments",
    record(
        {
            "groups": label_list("k"),
            "feature_names": optional(list_of(TEXT, "p", unique=True)),
            "n_dropped": integer(0, MAX_EXACT_INTEGER),
            # Number of trailing label attributes that are classes of y.
            "n_label_columns": integer(0, 1),
            # Binary exponent of the unit of very large or very small weights.
            "weight_exponent": integer(),
            # Summary of the EM fit.
            "em_summary": record(
                {
                    "n_missing_cells": list_of(integer(0), "k"),
                    "pool_weights": list_of(number(0), "k"),
                    "n_passes": integer(0),
                    "last_change": number(0),
                    "distance": number(0),
                }
            ),
            "counts": array_of(
                "k",
                "i",
                f"numbers from 0 on, which add up to no more than {MAX_EXACT_INTEGER}",
                lambda array: array.min() >= 0 and sum(array.tolist()) <= MAX_EXACT_INTEGER,
            ),
            "weights": array_of("k", "f", "finite numbers above 0", all_positive),
            "means": array_of("k p", "f"),
            "mean_corrections": array_of("k p", "f"),
            "triangles": array_of("k t", "f"),
        },
        "mean_corrections",
        "n_label_columns",
        "weight_exponent",
        "em_summary",
    ),
    outdated_remedy="Compute the moments again; files of older versions are not read",
)


MomentsType = TypeVar("MomentsType", bound=DenseMoments)


def moments_to_bytes(moments: DenseMoments) -> bytes:
    """Serialize moments.

    With classes of y, only the moments by group and class are stored: their sums over the classes
    are those of the groups. With attributes, only the moments of all columns are.

    Raises
    ------
    InvalidInput
        Attribute columns without names.
    """
    if moments.all_columns is not None:
        if moments.feature_names is None:
            raise InvalidInput(
                "The moments have unnamed attribute columns",
                "Allowed: named columns, so that attributes can be identified",
                "Compute the moments from a data frame",
            )
        # Readers know the attributes by their names, and split the columns again.
        return moments_to_bytes(moments.all_columns)
    stored = moments.finest
    names = moments.feature_names
    header: dict[str, Any] = {
        "groups": stored.labels,
        "feature_names": None if names is None else list(names),
        "n_dropped": moments.n_dropped,
    }
    if moments.by_class is not None:
        header["n_label_columns"] = 1
    if moments.weight_exponent:
        header["weight_exponent"] = moments.weight_exponent
    if stored.em_summary is not None:
        header["em_summary"] = vars(stored.em_summary)
    arrays = {"counts": stored.counts, "weights": stored.weights, "means": stored.means}
    if stored.mean_corrections is not None:
        arrays["mean_corrections"] = stored.mean_corrections
    arrays["triangles"] = _lower_triangles(stored.scatters)
    return pack_archive(MOMENTS_SCHEMA.kind, header, arrays)


def read_moments(
    source: str | os.PathLike[str] | bytes, kind: type[MomentsType], name: str
) -> MomentsType:
    """Read moments, which may be those of some of the rows, or empty.

    With classes of y, the file stores moments of each group and class; their sums over the classes
    are the moments of the groups.

    Parameters
    ----------
    source : path, or bytes
        A file, or its contents.
    kind : class
        Class of the result, such as `GroupMoments`.
    name : str
        Name of the file in messages.

    Raises
    ------
    FileNotFoundError
        There is no such file.
    CorruptFile
        The file is truncated, altered or of another kind, has an invalid scatter matrix, or its
        numbers overflow.
    """
    stored = read_archive(source, MOMENTS_SCHEMA)
    try:
        moments = kind(**_constructor_arguments(stored))
        # A feature may be smaller in some of the rows than in all of them, so that only too large
        # numbers are an error.
        check_no_overflow(moments)
        return sum_over_classes(moments) if _has_classes(stored) else moments
    except ValueError as error:
        raise MOMENTS_SCHEMA.error_for(name, error) from error


def _lower_triangles(scatters: FloatArray) -> FloatArray:
    """Return the lower triangles of (k, p, p) symmetric matrices, shape (k, p (p + 1) / 2)."""
    return scatters[:, np.tri(scatters.shape[-1], dtype=bool)]


def _from_lower_triangles(triangles: FloatArray, p: int) -> FloatArray:
    scatters = np.zeros((len(triangles), p, p))
    scatters[:, np.tri(p, dtype=bool)] = triangles
    scatters += np.tril(scatters, -1).transpose(0, 2, 1)
    return scatters


def _has_classes(stored: dict[str, Any]) -> bool:
    """Return whether the stored moments are those of each group and class of y."""
    return bool(stored.get("n_label_columns", 0) == 1)


def _constructor_arguments(stored: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of `GroupMoments` from a header and arrays that fit the schema.

    Raises
    ------
    SchemaViolation
        Labels without a class, although the header states that there are classes.
    """
    labels = to_python_labels(stored["groups"])
    if _has_classes(stored):
        for index, label in enumerate(labels):
            if not (isinstance(label, tuple) and len(label) > 1):
                raise SchemaViolation(
                    f"groups[{index}]", "has no class of y", "a group and a class"
                )
    names = stored["feature_names"]
    return {
        "groups": label_array(labels),
        "counts": stored["counts"],
        "weights": stored["weights"],
        "means": stored["means"],
        "scatters": _from_lower_triangles(stored["triangles"], stored["means"].shape[1]),
        "mean_corrections": stored.get("mean_corrections"),
        "feature_names": None if names is None else tuple(names),
        "n_dropped": stored["n_dropped"],
        "weight_exponent": stored.get("weight_exponent", 0),
        "em_summary": _em_summary_from_header(stored.get("em_summary")),
    }


def _em_summary_from_header(stored: dict[str, Any] | None) -> EMSummary | None:
    if stored is None:
        return None
    arrays = {
        "n_missing_cells": np.array(stored["n_missing_cells"]),
        "pool_weights": np.array(stored["pool_weights"], dtype=np.float64),
    }
    return EMSummary(**{**stored, **arrays})
