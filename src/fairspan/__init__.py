"""Fair dimensionality reduction with certificates of optimality, and audits by group."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fairspan.registration import register_classes
from fairspan.version import __version__ as __version__

if TYPE_CHECKING:
    from fairspan import (
        cross_decomposition,
        datasets,
        displays,
        errors,
        extending,
        metrics,
        regression,
        selection,
    )
    from fairspan.auditing.audit import audit
    from fairspan.auditing.audit_result import Audit
    from fairspan.certificates.certificate import Certificate
    from fairspan.certificates.status import Status
    from fairspan.estimator.fair_pca import FairPCA
    from fairspan.layer_compression import CompressedLayer, compress_layer
    from fairspan.model.subspace import FairSubspace
    from fairspan.moments.group_moments import GroupMoments
    from fairspan.monitoring.history import History
    from fairspan.monitoring.monitor import Monitor
    from fairspan.pareto import Frontier, frontier
    from fairspan.problem.criteria.equal_error import EqualError
    from fairspan.problem.criteria.error_gap import ErrorGap, RobustErrorGap
    from fairspan.problem.criteria.linear import Disparity, TotalError
    from fairspan.problem.criteria.minimax import LeastVariance, MinimaxError, MinimaxLoss
    from fairspan.problem.criteria.nash_welfare import NashWelfare
    from fairspan.problem.restrictions.covariance_parity import CovarianceParity
    from fairspan.problem.restrictions.mean_parity import MeanParity
    from fairspan.problem.restrictions.uncorrelated import Uncorrelated
    from fairspan.progress import show_progress
    from fairspan.report.write_report import write_report
    from fairspan.rows.files.file_rows import FileRows
    from fairspan.saved_files import load
    from fairspan.slices.find_slices import find_slices
    from fairspan.slices.slice_search import SliceSearch
    from fairspan.solvers.many_groups.dual_newton import DualNewton
    from fairspan.solvers.published.multiplicative_weights import MultiplicativeWeights
    from fairspan.solvers.published.riemannian import RiemannianSubgradient
    from fairspan.solvers.published.semidefinite import Semidefinite
    from fairspan.solvers.two_groups.boundary_search import BoundarySearch
    from fairspan.verification import Verification, verify

# Module of each public name. Names are imported on first use, to keep `import fairspan` fast.
_MODULE_BY_NAME = {
    "Audit": "fairspan.auditing.audit_result",
    "FairPCA": "fairspan.estimator.fair_pca",
    "FairSubspace": "fairspan.model.subspace",
    "GroupMoments": "fairspan.moments.group_moments",
    "History": "fairspan.monitoring.history",
    "Monitor": "fairspan.monitoring.monitor",
    "FileRows": "fairspan.rows.files.file_rows",
    "SliceSearch": "fairspan.slices.slice_search",
    "Disparity": "fairspan.problem.criteria.linear",
    "EqualError": "fairspan.problem.criteria.equal_error",
    "ErrorGap": "fairspan.problem.criteria.error_gap",
    "LeastVariance": "fairspan.problem.criteria.minimax",
    "MinimaxError": "fairspan.problem.criteria.minimax",
    "MinimaxLoss": "fairspan.problem.criteria.minimax",
    "NashWelfare": "fairspan.problem.criteria.nash_welfare",
    "TotalError": "fairspan.problem.criteria.linear",
    "RobustErrorGap": "fairspan.problem.criteria.error_gap",
    "CovarianceParity": "fairspan.problem.restrictions.covariance_parity",
    "MeanParity": "fairspan.problem.restrictions.mean_parity",
    "BoundarySearch": "fairspan.solvers.two_groups.boundary_search",
    "DualNewton": "fairspan.solvers.many_groups.dual_newton",
    "MultiplicativeWeights": "fairspan.solvers.published.multiplicative_weights",
    "RiemannianSubgradient": "fairspan.solvers.published.riemannian",
    "Semidefinite": "fairspan.solvers.published.semidefinite",
    "Certificate": "fairspan.certificates.certificate",
    "Status": "fairspan.certificates.certificate",
    "CompressedLayer": "fairspan.layer_compression",
    "Frontier": "fairspan.pareto",
    "Uncorrelated": "fairspan.problem.restrictions.uncorrelated",
    "Verification": "fairspan.verification",
    "audit": "fairspan.auditing.audit",
    "compress_layer": "fairspan.layer_compression",
    "find_slices": "fairspan.slices.find_slices",
    "frontier": "fairspan.pareto",
    "load": "fairspan.saved_files",
    "show_progress": "fairspan.progress",
    "verify": "fairspan.verification",
    "write_report": "fairspan.report.write_report",
}
_SUBMODULES = (
    "cross_decomposition",
    "datasets",
    "displays",
    "errors",
    "extending",
    "metrics",
    "regression",
    "selection",
)

__all__ = [
    "Audit",
    "BoundarySearch",
    "Certificate",
    "CompressedLayer",
    "CovarianceParity",
    "Disparity",
    "DualNewton",
    "EqualError",
    "ErrorGap",
    "FairPCA",
    "FairSubspace",
    "FileRows",
    "Frontier",
    "GroupMoments",
    "History",
    "LeastVariance",
    "MeanParity",
    "MinimaxError",
    "MinimaxLoss",
    "Monitor",
    "MultiplicativeWeights",
    "NashWelfare",
    "RiemannianSubgradient",
    "RobustErrorGap",
    "Semidefinite",
    "SliceSearch",
    "Status",
    "TotalError",
    "Uncorrelated",
    "Verification",
    "audit",
    "compress_layer",
    "cross_decomposition",
    "datasets",
    "displays",
    "errors",
    "extending",
    "find_slices",
    "frontier",
    "load",
    "metrics",
    "regression",
    "selection",
    "show_progress",
    "verify",
    "write_report",
]

# Before anything else is imported: lower layers look these classes up by name.
register_classes()


def __getattr__(name: str) -> Any:
    if name in _MODULE_BY_NAME:
        return getattr(import_module(_MODULE_BY_NAME[name]), name)
    if name in _SUBMODULES:
        return import_module(f"fairspan.{name}")
    raise AttributeError(f"module 'fairspan' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
