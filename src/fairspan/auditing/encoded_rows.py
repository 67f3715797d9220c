"""Audit of pipelines that begin with encoders, on rows that these have encoded."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairspan.errors import InvalidInput, InvalidType
from fairspan.model.other_packages import ALLOWED_MODELS, EncodedPipeline, split_off_encoder


@dataclass(frozen=True, eq=False)
class EncodedRows:
    """Rows encoded by the first steps of pipelines, with the later steps as models.

    Attributes
    ----------
    models : mapping of name to model, or model
        Later steps of the pipelines.
    rows : array, data frame or sparse matrix
        Encoded rows, with named columns if the original rows are a pandas frame.
    original_rows : object
        Rows as they were passed.
    """

    models: object
    rows: object
    original_rows: Any

    def resolve(self, labels: object) -> object:
        """Return labels as they are, or the columns of the original rows that they name."""
        columns = getattr(self.original_rows, "columns", None)
        if columns is None or labels is None:
            return labels
        if isinstance(labels, str):
            return self.original_rows[labels]
        names = labels if isinstance(labels, list | tuple) else [labels]
        if all(isinstance(name, str) and name in columns for name in names):
            return self.original_rows[list(names)]
        return labels


def encode_rows(models: object, rows: object) -> EncodedRows | None:
    """Encode rows by the first steps of pipelines, such as a ColumnTransformer.

    None if no model is a pipeline that begins with steps without `inverse_transform`. The encoder
    is applied as it was fitted; an audit does not refit it.

    Parameters
    ----------
    models : model, or mapping of name to model
    rows : object
        Rows that the pipelines transform.

    Raises
    ------
    InvalidInput
        Pipelines that encode the rows differently, or models that do not encode them.
    InvalidType
        A pipeline that is not fitted.
    """
    models_by_name = models if isinstance(models, Mapping) else {"": models}
    pipelines: dict[str, EncodedPipeline] = {}
    names_without_encoder = []
    for name, model in models_by_name.items():
        pipeline = split_off_encoder(model)
        if pipeline is None:
            names_without_encoder.append(name)
        else:
            pipelines[name] = pipeline
    # Files are not encoded: the pipeline was fitted to rows in memory.
    if not pipelines or not hasattr(rows, "shape"):
        return None
    if names_without_encoder:
        raise _different_rows_error(next(iter(pipelines)), names_without_encoder[0])

    encoded_rows = {name: _encode(pipeline, rows) for name, pipeline in pipelines.items()}
    first_name, *other_names = encoded_rows
    for name in other_names:
        if not _are_equal_tables(encoded_rows[first_name], encoded_rows[name]):
            raise _different_rows_error(first_name, name)
    later_steps = {name: pipeline.later_steps for name, pipeline in pipelines.items()}
    return EncodedRows(
        models=later_steps if isinstance(models, Mapping) else later_steps[first_name],
        rows=encoded_rows[first_name],
        original_rows=rows,
    )


def _encode(pipeline: EncodedPipeline, rows: Any) -> Any:
    """Return encoded rows; of a pandas frame again a frame, if the encoder names its columns."""
    encoder = pipeline.encoder
    names_in = getattr(encoder, "feature_names_in_", None)
    is_frame = hasattr(rows, "columns")
    if is_frame and names_in is not None:
        rows = rows[list(names_in)]
    try:
        encoded = encoder.transform(rows)
    except Exception as error:  # a step of another package may raise anything
        if type(error).__name__ != "NotFittedError":
            raise
        raise InvalidType("The pipeline is not fitted", ALLOWED_MODELS, "Call its fit") from error
    if not is_frame or not isinstance(encoded, np.ndarray) or not hasattr(rows, "index"):
        return encoded
    try:
        names_out = encoder.get_feature_names_out()
    except (AttributeError, ValueError):  # a step does not name its output
        return encoded
    return type(rows)(encoded, columns=names_out, index=rows.index)


def _are_equal_tables(first: Any, second: Any) -> bool:
    """Whether two encoded tables, arrays, frames or sparse matrices, hold the same numbers."""
    if hasattr(first, "toarray") and hasattr(second, "toarray"):
        return first.shape == second.shape and not (first != second).nnz
    return np.array_equal(np.asarray(first), np.asarray(second))


def _different_rows_error(first: str, second: str) -> InvalidInput:
    return InvalidInput(
        f"The first steps of the pipeline {first!r} encode the rows, and the model {second!r} "
        "does not encode them in the same way",
        "Allowed: pipelines whose first steps give the same rows",
        "Audit the models one by one, or their later steps on encoded rows: model[1:] and "
        "model[:1].transform(X)",
    )
