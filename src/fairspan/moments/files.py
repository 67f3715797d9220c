"""Files of moments."""

from fairspan.storage.schema import (
    TEXT,
    Schema,
    all_positive,
    array_of,
    integer,
    label_list,
    list_of,
    number,
    optional,
    record,
)

# Largest integer up to which all are exact in float64; no table has more rows.
_MAX_ROWS = 2**53

MOMENTS_SCHEMA = Schema(
    "moments",
    "consistent moments",
    record(
        {
            "groups": label_list("k"),
            "feature_names": optional(list_of(TEXT, "p", unique=True)),
            "n_dropped": integer(0, _MAX_ROWS),
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
                f"numbers from 0 on, which add up to no more than {_MAX_ROWS}",
                lambda array: array.min() >= 0 and sum(array.tolist()) <= _MAX_ROWS,
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
