"""Two tables: fair partial least squares and canonical correlation, with proofs."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fairspan.cross_decomposition.covariance_audit import CovarianceAudit, audit_pairs
    from fairspan.cross_decomposition.fair_pls import FairCCA, FairPLS
    from fairspan.cross_decomposition.paired_certificate import PairedCertificate
    from fairspan.cross_decomposition.paired_criteria import (
        MinimaxCovarianceLoss,
        NashCovariance,
        PairedCriterion,
        TotalCovariance,
    )
    from fairspan.cross_decomposition.paired_subspace import PairedSubspace
    from fairspan.cross_decomposition.paired_verification import verify_pairs

# Module of each public name. Names are imported on first use.
_MODULE_BY_NAME = {
    "CovarianceAudit": "covariance_audit",
    "FairCCA": "fair_pls",
    "FairPLS": "fair_pls",
    "MinimaxCovarianceLoss": "paired_criteria",
    "NashCovariance": "paired_criteria",
    "PairedCertificate": "paired_certificate",
    "PairedCriterion": "paired_criteria",
    "PairedSubspace": "paired_subspace",
    "TotalCovariance": "paired_criteria",
    "audit_pairs": "covariance_audit",
    "verify_pairs": "paired_verification",
}

__all__ = [
    "CovarianceAudit",
    "FairCCA",
    "FairPLS",
    "MinimaxCovarianceLoss",
    "NashCovariance",
    "PairedCertificate",
    "PairedCriterion",
    "PairedSubspace",
    "TotalCovariance",
    "audit_pairs",
    "verify_pairs",
]


def __getattr__(name: str) -> Any:
    if name in _MODULE_BY_NAME:
        return getattr(import_module(f"{__name__}.{_MODULE_BY_NAME[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
