"""Table of a certificate, for notebooks."""

import math

from fairspan.certificates.certificate_parts import RunRecord, SolutionFigures
from fairspan.certificates.status import GapAssessment
from fairspan.formatting.table import Table


def certificate_table(
    figures: SolutionFigures,
    lower_bound: float,
    assessment: GapAssessment,
    run: RunRecord,
    message: str,
) -> Table:
    """Table of the figures of a certificate, with the meaning of its status below.

    Parameters
    ----------
    figures, lower_bound, assessment, run
        Parts of the certificate.
    message : str
        Meaning of the status for this solution.
    """
    gap = figures.objective - lower_bound
    rows = [
        ("objective", f"{figures.objective:.6g}"),
        ("lower bound", bound_text(lower_bound)),
        ("gap", f"{gap:.1e}" if math.isfinite(lower_bound) else "unknown"),
        ("tolerance", f"{assessment.absolute_tol:.1e}"),
        ("resolution of double precision", f"{assessment.resolution:.1e}"),
        ("eigenproblems", f"{run.n_eigenproblems:,}"),
        ("solver", run.solver),
    ]
    if figures.constraint_violation > assessment.absolute_tol:
        rows.append(("errors differ too much by", f"{figures.constraint_violation:.1e}"))
    note = f"{assessment.status_text}: {message}."
    return Table.from_texts("Certificate", ("", "value"), rows, notes=(note,))


def bound_text(lower_bound: float) -> str:
    """Lower bound as tables print it."""
    return f"{lower_bound:.6g}" if math.isfinite(lower_bound) else "unknown"
