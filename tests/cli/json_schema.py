"""The JSON Schema that ships with the command line, and what a command prints held against it."""

import json
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any

import jsonschema

SCHEMA: dict[str, Any] = json.loads((files("fairspan.cli") / "schema.json").read_text("utf-8"))
# Of verify, 1 says that a certificate does not hold.
_WITH_RESULTS, _REFUSED = (0, 1), 2


def check_printed(arguments: Sequence[str], status: int, out: str) -> None:
    """Hold what a command printed against the schema of its results, or of errors."""
    if "--json" not in arguments or (status == 1 and not out):
        return
    if status == _REFUSED:
        validator("error").validate(json.loads(out))
    elif status in _WITH_RESULTS:
        by_dimension = "_by_dimension" if "--by-dimension" in arguments else ""
        validator(f"{arguments[0]}{by_dimension}").validate(json.loads(out))


@cache
def validator(name: str) -> jsonschema.Draft202012Validator:
    """What holds values against one of the definitions."""
    asked = {"$ref": f"#/$defs/{name}", "$defs": SCHEMA["$defs"]}
    return jsonschema.Draft202012Validator(asked)
