"""File format of moments: its schema, and conversion from and to arrays.

Scatters are stored as lower triangles. With classes of y, the moments of each group and class are
stored.
"""

from typing import Any

import numpy as np

from fairspan.linalg.rounding import MAX_EXACT_INTEGER
from fairspan.moments.em import EMSummary
from fairspan.rows.labels import label_array, to_python_labels
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


def lower_triangles(scatters: FloatArray) -> FloatArray:
    """Return the lower triangles of (k, p, p) symmetric matrices, shape (k, p (p + 1) / 2)."""
    return scatters[:, np.tri(scatters.shape[-1], dtype=bool)]


def _from_lower_triangles(triangles: FloatArray, p: int) -> FloatArray:
    scatters = np.zeros((len(triangles), p, p))
    scatters[:, np.tri(p, dtype=bool)] = triangles
    scatters += np.tril(scatters, -1).transpose(0, 2, 1)
    return scatters


def has_classes(stored: dict[str, Any]) -> bool:
    """Return whether the stored moments are those of each group and class of y."""
    return bool(stored.get("n_label_columns", 0) == 1)


def constructor_arguments(stored: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of `GroupMoments` from a header and arrays that fit the schema.

    Raises
    ------
    SchemaViolation
        Labels without a class, although the header states that there are classes.
    """
    labels = to_python_labels(stored["groups"])
    if has_classes(stored):
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
