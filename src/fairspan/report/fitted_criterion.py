"""Criteria of a report: those that were fitted with their minimizers, and those that were not."""

from dataclasses import dataclass
from typing import NamedTuple

from fairspan.certificates.certificate import Certificate
from fairspan.model.subspace import FairSubspace
from fairspan.problem.problem import Problem

PCA = "PCA"


@dataclass(frozen=True, eq=False)
class FittedCriterion:
    """The minimizer of a criterion.

    Attributes
    ----------
    name : str
        Name in the audit; unique within a report.
    subspace : FairSubspace
    problem : Problem
        The unrestricted problem.
    """

    name: str
    subspace: FairSubspace
    problem: Problem

    @property
    def certificate(self) -> Certificate:
        """Certificate of the subspace."""
        return self.subspace.require_certificate()


class SkippedCriterion(NamedTuple):
    """Criterion that was not fitted, since it is infeasible or slow.

    Attributes
    ----------
    name : str
    reason : str
    """

    name: str
    reason: str
