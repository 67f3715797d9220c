"""A digest of data and settings: a search is only continued with the same of both."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import scipy.sparse

from fairspan.rows.frames import frame_of

# What repr writes of an object without a repr of its own; it differs from process to process.
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def fingerprint(*parts: Any) -> str:
    """Digest of data and settings, the same in every process.

    Parameters
    ----------
    *parts : arrays, sparse matrices, data frames, estimators, mappings, sequences, anything else
        Of functions the name counts, of other objects what repr tells.

    Returns
    -------
    str
        32 hexadecimal digits.

    Examples
    --------
    >>> fingerprint(np.arange(3), {"d": 2}) == fingerprint(np.arange(3), {"d": 2})
    True
    >>> fingerprint(np.arange(3)) == fingerprint(np.arange(3.0))
    False
    """
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        _feed(digest, part)
    return digest.hexdigest()


def _feed(digest: Any, value: Any) -> None:
    content = value
    parts: Sequence[Any] = ()
    if not isinstance(value, bytes):
        words, parts = _described(value)
        content = str(words).encode("utf-8", "backslashreplace")
    # With its length, so that no two sequences of contents are the same bytes.
    digest.update(f"{len(content)}:".encode() + content)
    for part in parts:
        _feed(digest, part)


def _described(value: Any) -> tuple[object, Sequence[Any]]:
    """What a value is in words, and the parts that it consists of."""
    if isinstance(value, type):
        return f"{value.__module__}.{value.__qualname__}", ()
    if hasattr(value, "get_params"):
        return type(value).__qualname__, [value.get_params(deep=False)]
    if isinstance(value, Mapping):
        keys = sorted(value, key=str)
        return f"mapping {keys}", [value[key] for key in keys]
    if scipy.sparse.issparse(value):
        coordinates = value.tocsr().tocoo()
        parts = [coordinates.row, coordinates.col, coordinates.data]
        return ("sparse", value.shape), parts
    if (frame := frame_of(value)) is not None:
        return ("frame", frame.columns), [each.to_numpy() for each in frame.iter_columns()]
    if hasattr(value, "__array__"):
        array = np.asarray(value)
        content = repr(array.tolist()) if array.dtype.hasobject else array.tobytes()
        return (array.shape, array.dtype.str), [content]
    if isinstance(value, list | tuple):
        return f"sequence {len(value)}", value
    if isinstance(value, set | frozenset):
        return f"set {len(value)}", sorted(map(repr, value))
    if callable(value) and hasattr(value, "__qualname__"):
        return f"{value.__module__}.{value.__qualname__}", ()
    return _ADDRESS.sub("", repr(value)), ()
