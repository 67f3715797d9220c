"""How a reader verifies the certificate: in words, and as a program of a few lines."""

from typing import Any

from fairspan.report.answers import Answer
from fairspan.report.made import Origin


def verification_facts(answer: Answer, origin: Origin) -> dict[str, Any]:
    """To be written."""
    return {"model": answer.name, "words": [], "snippet": None}
