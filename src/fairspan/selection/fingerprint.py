"""A digest of data and settings: a search is only continued with the same of both."""

import hashlib
import re
from collections.abc import Mapping
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
    def text(words: object) -> None:
        encoded = str(words).encode("utf-8", "backslashreplace")
        digest.update(f"{len(encoded)}:".encode() + encoded)

    if isinstance(value, type):
        text(f"{value.__module__}.{value.__qualname__}")
    elif hasattr(value, "get_params"):
        text(type(value).__qualname__)
        _feed(digest, value.get_params(deep=False))
    elif isinstance(value, Mapping):
        text(f"mapping {len(value)}")
        for key in sorted(value, key=str):
            text(key)
            _feed(digest, value[key])
    elif scipy.sparse.issparse(value):
        text(("sparse", value.shape))
        coordinates = value.tocsr().tocoo()
        for part in (coordinates.row, coordinates.col, coordinates.data):
            _feed(digest, part)
    elif (frame := frame_of(value)) is not None:
        text(("frame", frame.shape))
        for column in frame.iter_columns():
            text(column.name)
            _feed(digest, column.to_numpy())
    elif hasattr(value, "__array__"):
        array = np.asarray(value)
        text((array.shape, array.dtype.str))
        if array.dtype.hasobject:
            text(_ADDRESS.sub("", repr(array.tolist())))
        else:
            digest.update(np.ascontiguousarray(array).tobytes())
    elif isinstance(value, list | tuple):
        text(f"sequence {len(value)}")
        for each in value:
            _feed(digest, each)
    elif isinstance(value, set | frozenset):
        _feed(digest, sorted(map(repr, value)))
    elif callable(value) and hasattr(value, "__qualname__"):
        text(f"{value.__module__}.{value.__qualname__}")
    else:
        text(_ADDRESS.sub("", repr(value)))
