"""What a fit or an audit needs of rows: matrices, or the rows where these would get large."""

from fairspan.moments.accumulate import accumulate, no_rows
from fairspan.moments.intake import EVERY_ROW
from fairspan.moments.sources.protocol import Rows, StayingRows
from fairspan.moments.sparse.moments import Moments

# Beyond this many features k matrices cost more, in time and memory, than products with the rows.
MATRICES_UP_TO = 1500


def moments_of(rows: Rows) -> Moments:
    """Moments of each group; they refer to the rows where these are sparse and have many features.

    Raises
    ------
    InvalidInput
        As :func:`fairspan.moments.accumulate.accumulate`.
    """
    if not isinstance(rows, StayingRows) or rows.n_features <= MATRICES_UP_TO:
        return accumulate(rows)
    moments = rows.staying()
    if moments is None or moments.n_groups == 0:
        raise no_rows(EVERY_ROW if moments is None else moments.intake)
    return moments
