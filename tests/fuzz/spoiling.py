"""What spoils honest inputs: bytes, JSON documents, arrays and archives."""

import io
import json
import zipfile

import numpy as np

ODD_VALUES = [
    *(None, True, False, 0, -1, 1, 2, 3.5, -0.0, 1e308, 5e-324, 2**31, 2**53, 2**63, 10**30),
    *("", "a", "x", "\x1b[31m", "\ud800", "名", "a" * 300, "NaN", "../../out", "%s{}", "\0"),
    *([], [[]], [None], ["a", "a"], [1, "a"], {}, {"a": 1}, float("inf"), float("nan")),
]
ODD_NUMBERS = [0.0, -1.0, 1.0, np.nan, np.inf, -np.inf, 1e300, 5e-324, 2.0**53, 2.0**63, 1e-200]
ODD_TYPES = [
    "<f8",
    "<f4",
    "<f2",
    "<i8",
    "<u1",
    "|b1",
    "<c16",
    "<U3",
    "<M8[s]",
    ">f8",
    "<i2",
    "<f16",
]


def one_of(random, values):
    return values[int(random.integers(len(values)))]


def spoilt_bytes(random, content):
    """Some bits flipped, or a part cut out, doubled, or replaced by noise."""
    changed = bytearray(content)
    for _ in range(int(random.integers(1, 4))):
        at = int(random.integers(len(changed) or 1))
        length = int(random.integers(1, 40))
        kind = int(random.integers(5))
        if kind == 0 and changed:
            changed[at] ^= 1 << int(random.integers(8))
        elif kind == 1:
            del changed[at : at + length]
        elif kind == 2:
            changed[at:at] = changed[at : at + length]
        elif kind == 3:
            changed[at : at + length] = random.bytes(length)
        else:
            del changed[at:]
    return bytes(changed)


def spoilt_document(random, document):
    """One entry somewhere in a JSON document replaced, left out, or added."""
    changed = json.loads(json.dumps(document))
    node = changed
    while True:
        keys = list(node) if isinstance(node, dict) else list(range(len(node)))
        if not keys:
            return changed
        key = one_of(random, keys)
        inner = node[key]
        if isinstance(inner, dict | list) and inner and random.random() < 0.7:
            node = inner
            continue
        kind = int(random.integers(6))
        if kind == 0:
            del node[key]
        elif kind == 1 and isinstance(node, dict):
            node[one_of(random, ["extra", "", "version", "groups"])] = one_of(random, ODD_VALUES)
        else:
            node[key] = one_of(random, ODD_VALUES)
        return changed


def spoilt_array(random, array):
    """Another type or shape, or an odd number somewhere."""
    kind = int(random.integers(4))
    with np.errstate(all="ignore"):
        if kind == 0:
            try:
                return array.astype(one_of(random, ODD_TYPES))
            except (ValueError, TypeError):
                return array
        if kind == 1:
            shape = tuple(int(each) for each in random.integers(0, 4, random.integers(0, 4)))
            return np.resize(array, shape)
        changed = np.array(array)
        if changed.size:
            value = one_of(random, ODD_NUMBERS)
            changed.flat[int(random.integers(changed.size))] = (
                value if changed.dtype.kind == "f" else int(random.integers(-(2**62), 2**62)) & 255
            )
        return changed


def members_of(content):
    with np.load(io.BytesIO(content), allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files}
    return json.loads(arrays.pop("header").tobytes()), arrays


def spoilt_archive(random, content):
    """An archive whose header, arrays or bytes are not what was written."""
    if random.random() < 0.3:
        return spoilt_bytes(random, content)
    header, arrays = members_of(content)
    for _ in range(int(random.integers(1, 3))):
        if random.random() < 0.5:
            header = spoilt_document(random, header)
        else:
            name = one_of(random, sorted(arrays))
            arrays[name] = spoilt_array(random, arrays[name])
    file = io.BytesIO()
    compression = zipfile.ZIP_DEFLATED if random.random() < 0.1 else zipfile.ZIP_STORED
    with zipfile.ZipFile(file, "w", compression) as archive:
        text = np.frombuffer(json.dumps(header).encode("utf-8", "surrogatepass"), np.uint8)
        for name, array in {"header": text, **arrays}.items():
            member = io.BytesIO()
            np.save(member, array, allow_pickle=False)
            archive.writestr(f"{name}.npy", member.getvalue())
    return file.getvalue()
