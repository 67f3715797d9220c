"""Models that are no projections, such as a KernelPCA: judged by the errors of the rows alone."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fairspan.auditing.models import Audited
from fairspan.auditing.quantities import Benchmark, Projection
from fairspan.auditing.row_statistics import RowFigures, row_figures
from fairspan.errors import Incompatible
from fairspan.metrics import GroupFigures, group_figures
from fairspan.moments.of_rows import Moments
from fairspan.rows.protocol import Rows

NO_PROJECTION = (
    "it is no projection, so its errors are those of the rows: how it was fitted is not known, and "
    "the best subspaces do not bound it"
)


def check_projections(audited: Sequence[Audited]) -> None:
    """Make sure that moments determine what the models do.

    Raises
    ------
    Incompatible
    """
    for each in audited:
        if each.by_rows is not None:
            raise Incompatible(
                f"The model {each.name} is no projection, and moments were given",
                "Allowed beside moments are projections, whose errors moments tell",
                "Pass rows: X and sensitive_features",
            )


def figures_by_rows(
    audited: Sequence[Audited], rows: Rows, moments: Moments, *, has_labels: bool
) -> tuple[list[GroupFigures], RowFigures]:
    """Errors of each group from one pass over the rows, beside the best that subspaces do.

    Parameters
    ----------
    audited : sequence of m Audited
    rows : RowSource or PartedRows
    moments : GroupMoments, SparseMoments or ThinMoments
        Of the same rows.
    has_labels : bool
        Whether the rows' labels hold, beside the group, the class that a row has in y.
    """
    nothing = np.zeros(moments.n_groups)
    as_they_came = [Benchmark(np.zeros((1, moments.n_features)), None)]
    projections = [
        Projection(0, each.by_rows, nothing) for each in audited if each.by_rows is not None
    ]
    seen = row_figures(rows, moments.labels, as_they_came, projections, has_labels=has_labels)
    judged = [
        replace(group_figures(each.subspace, moments), errors=errors)
        for each, errors in zip(audited, seen.means[:, 0], strict=True)
    ]
    return judged, seen
