"""Hypothesis strategies that corrupt bytes, JSON documents, arrays and archives.

A few fixed examples run with the other tests; `./run long --fuzz` draws thousands of random ones.
"""

import copy
import io
import json
import sys
import warnings
import zipfile
from contextlib import contextmanager

import numpy as np
from hypothesis import event, reject
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes

from fairspan.errors import FairspanError

ODD_VALUES = [
    *(None, True, False, 0, -1, 1, 2, 3.5, -0.0, 1e308, 5e-324, 2**31, 2**53, 2**63, 10**30),
    *("", "a", "x", "\x1b[31m", "\ud800", "名", "a" * 300, "NaN", "../../out", "%s{}", "\0"),
    *([], [[]], [None], ["a", "a"], [1, "a"], {}, {"a": 1}, float("inf"), float("nan")),
]
ODD_NUMBERS = [0.0, -1.0, 1.0, np.nan, np.inf, -np.inf, 1e300, 5e-324, 2.0**53, 2.0**63, 1e-200]
ODD_TYPES = ["f8", "f4", "f2", ">f8", "f16", "i8", "i2", "u1", "b1", "c16", "U3", "M8[s]"]
MAX_BYTES = 2**30


@contextmanager
def accept_or_refuse():
    """Fail on any error that is not fairspan's, and on a gigabyte of memory."""
    before = _peak_memory()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            yield
            event("answered")
        except FairspanError:
            event("refused")
    assert _peak_memory() - before < MAX_BYTES


def _peak_memory():
    if sys.platform == "win32":
        return 0
    import resource  # which only POSIX has

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@st.composite
def corrupted_bytes(draw, content):
    """Draw bytes with parts cut out, doubled or replaced by noise."""
    corrupted = bytearray(content)
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(corrupted)))
        end = start + draw(st.integers(1, 40) | st.just(len(corrupted)))
        part = bytes(corrupted[start:end])
        corrupted[start:end] = draw(st.sampled_from([b"", part + part]) | st.binary(max_size=40))
    return bytes(corrupted)


@st.composite
def corrupted_document(draw, document):
    """Draw a JSON document with one entry replaced, removed, or added."""
    corrupted = node = copy.deepcopy(document)
    while keys := list(node) if isinstance(node, dict) else range(len(node)):
        key = draw(st.sampled_from(keys))
        if isinstance(node[key], dict | list) and node[key] and draw(st.booleans()):
            node = node[key]
            continue
        if draw(st.integers(0, 4)) == 0:
            del node[key]
            break
        if isinstance(node, dict) and draw(st.integers(0, 4)) == 0:
            key = draw(st.sampled_from(["extra", "", "version", "groups"]))
        node[key] = draw(st.sampled_from(ODD_VALUES))
        break
    return corrupted


@st.composite
def corrupted_array(draw, array):
    """Draw an array with another type or shape, or with an odd number."""
    change = draw(st.sampled_from(["type", "shape", "number"]))
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if change == "type":
            try:
                return array.astype(draw(st.sampled_from(ODD_TYPES)))
            except (ValueError, TypeError):
                reject()
        if change == "shape" or not array.size:
            return np.resize(array, draw(array_shapes(min_dims=0, min_side=0, max_side=3)))
        corrupted = array.copy()
        odd = draw(st.sampled_from(ODD_NUMBERS))
        place = draw(st.integers(0, array.size - 1))
        corrupted.flat[place] = odd if array.dtype.kind == "f" else draw(st.integers(0, 255))
        return corrupted


@st.composite
def corrupted_archive(draw, content):
    """Draw an archive with a corrupted header, array or byte."""
    if draw(st.integers(0, 3)) == 0:
        return draw(corrupted_bytes(content))
    with np.load(io.BytesIO(content), allow_pickle=False) as archive:
        arrays = dict(archive)
    header = json.loads(arrays.pop("header").tobytes())
    for _ in range(draw(st.integers(1, 2))):
        if draw(st.booleans()):
            header = draw(corrupted_document(header))
        else:
            name = draw(st.sampled_from(sorted(arrays)))
            arrays[name] = draw(corrupted_array(arrays[name]))
    file = io.BytesIO()
    compression = draw(st.sampled_from([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED]))
    with zipfile.ZipFile(file, "w", compression) as archive:
        text = np.frombuffer(json.dumps(header).encode("utf-8", "surrogatepass"), np.uint8)
        for name, array in {"header": text, **arrays}.items():
            member = io.BytesIO()
            np.save(member, array, allow_pickle=False)
            archive.writestr(f"{name}.npy", member.getvalue())
    return file.getvalue()
