"""A subspace as a file: npz arrays with a JSON header, no pickle."""

import os
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from fairspan.errors import InvalidInput
from fairspan.projector import Projector
from fairspan.provenance import EVIDENCE, read_evidence, read_provenance
from fairspan.storage import SUBSPACE, NotAllowed, read_archive, write_archive

# Arrays that not every subspace has.
_OPTIONAL = ("mean", "scale", "oblique_decoder", "whitening")


def write_subspace(path: str | os.PathLike[str], fields: Mapping[str, Any]) -> None:
    """Write the fields of a subspace to exactly the name given; the file is complete or absent."""
    names, made, evidence = (fields[name] for name in ("feature_names", "provenance", "evidence"))
    provenance = None
    if made is not None:
        provenance = asdict(replace(made, parts=()))
        del provenance["parts"]  # code of other packages is passed again where a file is loaded
        if not made.steps:
            del provenance["steps"]
    header = {
        "center": fields["center"],
        "feature_names": None if names is None else list(names),
        "provenance": provenance,
        "evidence": None if evidence is None else evidence.kind,
    }
    arrays = {name: fields[name] for name in _OPTIONAL if fields[name] is not None}
    if evidence is not None:
        arrays |= {EVIDENCE + name: each for name, each in evidence.arrays.items()}
    write_archive(path, SUBSPACE.kind, header, {"components": fields["components"], **arrays})


def read_subspace(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The fields of a subspace that was written.

    Raises
    ------
    FileNotFoundError
        There is no such file.
    CorruptFile
        The file is truncated, altered or of another kind.
    """
    header, arrays = read_archive(path, SUBSPACE)
    names, kind = header["feature_names"], header.get("evidence")
    try:
        Projector(arrays["components"], arrays.get("oblique_decoder")).check()
    except InvalidInput as error:
        wrong = NotAllowed(
            "components",
            f"cannot be used ({error.args[0]})",
            error.args[1].removeprefix("Allowed: "),
        )
        raise SUBSPACE.refusal(str(path), wrong) from error
    return {
        "components": arrays["components"],
        "center": header["center"],
        "feature_names": None if names is None else tuple(names),
        "provenance": read_provenance(header["provenance"]),
        "evidence": None if kind is None else read_evidence(kind, arrays),
        **{name: arrays.get(name) for name in _OPTIONAL},
    }
