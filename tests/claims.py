"""Claims and records of certificates, by name: read them, or put others in their place."""

from dataclasses import fields, replace
from typing import Any

from fairspan.certificates.certificate import Certificate
from fairspan.certificates.certificate_parts import ProblemStatement, RunRecord, SolutionFigures
from fairspan.certificates.status import GapAssessment

# Parts of a certificate that group several claims or records.
PARTS = {
    "statement": ProblemStatement,
    "figures": SolutionFigures,
    "assessment": GapAssessment,
    "run": RunRecord,
}
# Name of each claim or record, and of the part that has it; None for the certificate itself.
PART_OF: dict[str, str | None] = {
    each.name: None for each in fields(Certificate) if each.name not in PARTS
} | {each.name: part for part, kind in PARTS.items() for each in fields(kind)}
# What verification does not judge.
RECORDS = {each.name for each in fields(RunRecord)}


def values_of(certificate: Certificate) -> dict[str, Any]:
    """Each claim and record of a certificate."""
    return {name: getattr(certificate, name) for name in PART_OF}


def with_claims(certificate: Certificate, **claims: Any) -> Certificate:
    """The certificate with other claims or records, each named as an attribute."""
    for name, value in claims.items():
        part = PART_OF[name]
        if part is not None:
            value = replace(getattr(certificate, part), **{name: value})
        certificate = replace(certificate, **{part or name: value})
    return certificate
