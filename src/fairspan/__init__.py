"""Fair dimensionality reduction, solved to a proven optimum, with an audit of each group."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fairspan.version import __version__ as __version__

if TYPE_CHECKING:
    from fairspan import datasets as datasets
    from fairspan import displays as displays
    from fairspan import errors as errors
    from fairspan import extending as extending
    from fairspan import metrics as metrics
    from fairspan import regression as regression
    from fairspan import selection as selection
    from fairspan.auditing.audit import Audit as Audit
    from fairspan.auditing.audit import audit as audit
    from fairspan.certificates.solution import Solution as Solution
    from fairspan.certificates.solution import Status as Status
    from fairspan.certificates.verification import Verification as Verification
    from fairspan.certificates.verification import verify as verify
    from fairspan.estimator.fair_pca import FairPCA as FairPCA
    from fairspan.moments.group_moments import GroupMoments as GroupMoments
    from fairspan.problem.criteria import Disparity as Disparity
    from fairspan.problem.criteria import EqualError as EqualError
    from fairspan.problem.criteria import ErrorGap as ErrorGap
    from fairspan.problem.criteria import MinimaxError as MinimaxError
    from fairspan.problem.criteria import MinimaxLoss as MinimaxLoss
    from fairspan.problem.criteria import NashWelfare as NashWelfare
    from fairspan.problem.criteria import RobustErrorGap as RobustErrorGap
    from fairspan.problem.criteria import TotalError as TotalError
    from fairspan.problem.restrictions import CovarianceParity as CovarianceParity
    from fairspan.problem.restrictions import MeanParity as MeanParity
    from fairspan.report.writing import write_report as write_report
    from fairspan.rows.files.file_rows import FileRows as FileRows
    from fairspan.solvers.many_groups.dual_newton import DualNewton as DualNewton
    from fairspan.solvers.published.multiplicative import (
        MultiplicativeWeights as MultiplicativeWeights,
    )
    from fairspan.solvers.published.riemannian import RiemannianSubgradient as RiemannianSubgradient
    from fairspan.solvers.published.semidefinite import Semidefinite as Semidefinite
    from fairspan.solvers.two_groups.boundary_search import BoundarySearch as BoundarySearch
    from fairspan.subspace import FairSubspace as FairSubspace
    from fairspan.trade_off.curve import Frontier as Frontier
    from fairspan.trade_off.tracing import frontier as frontier


# Public names and where they live. Importing fairspan stays fast: nothing is loaded before use.
_HOMES = {
    "Audit": "fairspan.auditing.audit",
    "FairPCA": "fairspan.estimator.fair_pca",
    "FairSubspace": "fairspan.subspace",
    "GroupMoments": "fairspan.moments.group_moments",
    "FileRows": "fairspan.rows.files.file_rows",
    "Disparity": "fairspan.problem.criteria",
    "EqualError": "fairspan.problem.criteria",
    "ErrorGap": "fairspan.problem.criteria",
    "MinimaxError": "fairspan.problem.criteria",
    "MinimaxLoss": "fairspan.problem.criteria",
    "NashWelfare": "fairspan.problem.criteria",
    "TotalError": "fairspan.problem.criteria",
    "RobustErrorGap": "fairspan.problem.criteria",
    "CovarianceParity": "fairspan.problem.restrictions",
    "MeanParity": "fairspan.problem.restrictions",
    "BoundarySearch": "fairspan.solvers.two_groups.boundary_search",
    "DualNewton": "fairspan.solvers.many_groups.dual_newton",
    "MultiplicativeWeights": "fairspan.solvers.published.multiplicative",
    "RiemannianSubgradient": "fairspan.solvers.published.riemannian",
    "Semidefinite": "fairspan.solvers.published.semidefinite",
    "Solution": "fairspan.certificates.solution",
    "Status": "fairspan.certificates.solution",
    "Frontier": "fairspan.trade_off.curve",
    "Verification": "fairspan.certificates.verification",
    "audit": "fairspan.auditing.audit",
    "frontier": "fairspan.trade_off.tracing",
    "verify": "fairspan.certificates.verification",
    "write_report": "fairspan.report.writing",
}
_MODULES = ("datasets", "displays", "errors", "extending", "metrics", "regression", "selection")

__all__ = [*_HOMES, *_MODULES]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if name in _MODULES:
        return import_module(f"fairspan.{name}")
    raise AttributeError(f"module 'fairspan' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
