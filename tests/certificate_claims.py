"""Read and replace the claims and records of a certificate by name."""

from dataclasses import fields, replace
from typing import Any, get_type_hints

from fairspan import Certificate

# Parts of a certificate that group several claims or records, and their classes.
_CLASSES = get_type_hints(Certificate)
PARTS = {name: _CLASSES[name] for name in ("statement", "figures", "assessment", "run")}
# Name of each claim or record, and of the part that has it; None for the certificate itself.
CLAIM_PARTS: dict[str, str | None] = {
    field.name: None for field in fields(Certificate) if field.name not in PARTS
} | {field.name: part for part, kind in PARTS.items() for field in fields(kind)}
# Names of records, which verification does not check.
RECORDS = {field.name for field in fields(PARTS["run"])}


def claim_values(certificate: Certificate) -> dict[str, Any]:
    """Return each claim and record of a certificate by name."""
    return {name: getattr(certificate, name) for name in CLAIM_PARTS}


def replace_claims(certificate: Certificate, **claims: Any) -> Certificate:
    """Return the certificate with other values for the named claims or records."""
    for name, value in claims.items():
        part = CLAIM_PARTS[name]
        if part is not None:
            value = replace(getattr(certificate, part), **{name: value})
        certificate = replace(certificate, **{part or name: value})
    return certificate
