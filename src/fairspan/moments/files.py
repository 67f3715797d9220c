"""File format of moments: writing and reading.

Scatters are stored as lower triangles. With classes of y, the moments of each group and class are
stored.
"""

import os
from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from fairspan.errors import InvalidInput
from fairspan.linalg.rounding import MAX_EXACT_INTEGER
from fairspan.moments.dense_moments import DenseMoments
from fairspan.moments.em import EMSummary
from fairspan.moments.merging import sum_over_classes
from fairspan.moments.moment_validation import check_no_overflow
from fairspan.rows.labels import Label, label_array
from fairspan.storage.archive import open_archive, pack_archive
from fairspan.storage.fields import FieldReader, FileKind
from fairspan.typing import FloatArray, IntegerArray

MOMENTS_FILE = FileKind(
    "moments",
    "consistent moments",
    outdated_remedy="Compute the moments again; files of older versions are not read",
)

MomentsType = TypeVar("MomentsType", bound=DenseMoments)


def moments_to_bytes(moments: DenseMoments) -> bytes:
    """Serialize moments.

    With classes of y, only the moments by group and class are stored: their sums over the classes
    are those of the groups. With attributes, only the moments of all columns are.

    Raises
    ------
    InvalidInput
        Attribute columns without names.
    """
    if moments.all_columns is not None:
        if moments.feature_names is None:
            raise InvalidInput(
                "The moments have unnamed attribute columns",
                "Allowed: named columns, so that attributes can be identified",
                "Compute the moments from a data frame",
            )
        # Readers know the attributes by their names, and split the columns again.
        return moments_to_bytes(moments.all_columns)
    stored = moments.finest  # by group and class if there are classes, else by group
    names = moments.feature_names
    header: dict[str, object] = {
        "groups": stored.labels,
        "feature_names": None if names is None else list(names),
        "n_dropped": moments.n_dropped,
    }
    if moments.by_class is not None:
        header["n_label_columns"] = 1  # the last attribute of each label is its class of y
    if moments.weight_exponent:
        header["weight_exponent"] = moments.weight_exponent
    if stored.em_summary is not None:
        header["em_summary"] = vars(stored.em_summary)
    arrays = {"counts": stored.counts, "weights": stored.weights, "means": stored.means}
    if stored.mean_corrections is not None:
        arrays["mean_corrections"] = stored.mean_corrections
    arrays["triangles"] = _lower_triangles(stored.scatters)
    return pack_archive(MOMENTS_FILE.name, header, arrays)


def read_moments(
    source: str | os.PathLike[str] | bytes, moments_class: type[MomentsType]
) -> MomentsType:
    """Read moments, which may be those of some of the rows, or empty.

    With classes of y, the file stores moments of each group and class; their sums over the classes
    are the moments of the groups.

    Parameters
    ----------
    source : path, or bytes
        A file, or its contents.
    moments_class : class
        Class of the result, such as `GroupMoments`.

    Raises
    ------
    FileNotFoundError
        There is no such file.
    CorruptFile
        The file is truncated, altered or of another kind, has an invalid scatter matrix, or its
        numbers overflow.
    """
    with open_archive(source, MOMENTS_FILE) as fields:
        labels = fields.read_labels("groups")
        k = len(labels)
        has_classes = _has_classes(fields, labels)
        feature_names = None
        n_names = None
        if not fields.is_null("feature_names"):
            feature_names = fields.read_unique_texts("feature_names")
            n_names = len(feature_names)
        means = fields.read_array("means", "k p", (k, n_names), kinds="f")
        mean_corrections = None
        if fields.has("mean_corrections"):
            mean_corrections = fields.read_array("mean_corrections", "k p", means.shape, kinds="f")
        scatters = _read_scatters(fields, k, means.shape[1])
        # Binary exponent of the unit of very large or very small weights.
        weight_exponent = 0
        if fields.has("weight_exponent"):
            weight_exponent = fields.read_integer("weight_exponent")
        moments = moments_class(
            groups=label_array(labels),
            counts=_read_counts(fields, k),
            weights=fields.read_array("weights", "k", (k,), kinds="f", positive=True),
            means=means,
            scatters=scatters,
            mean_corrections=mean_corrections,
            feature_names=feature_names,
            n_dropped=fields.read_integer("n_dropped", minimum=0, maximum=MAX_EXACT_INTEGER),
            weight_exponent=weight_exponent,
            em_summary=_read_em_summary(fields, k),
        )
        # A feature may be smaller in some of the rows than in all of them, so that only too large
        # numbers are an error.
        check_no_overflow(moments)
        return sum_over_classes(moments) if has_classes else moments


def _has_classes(fields: FieldReader, labels: Sequence[Label]) -> bool:
    """Return whether the labels are pairs of group and class, after a check of the labels."""
    if not fields.has("n_label_columns"):
        return False
    if fields.read_integer("n_label_columns", minimum=0, maximum=1) == 0:
        return False
    for index, label in enumerate(labels):
        # The last attribute of such a label is the class.
        if not (isinstance(label, tuple) and len(label) > 1):
            raise fields.error(f"groups[{index}]", "has no class of y", "a group and a class")
    return True


def _read_counts(fields: FieldReader, k: int) -> IntegerArray:
    """Read the number of rows of each of k groups."""
    counts = fields.read_array("counts", "k", (k,), kinds="i")
    if k and (counts.min() < 0 or sum(counts.tolist()) > MAX_EXACT_INTEGER):
        raise fields.error(
            "counts",
            f"ranges from {counts.min()} to {counts.max()}",
            f"numbers from 0 on, which add up to no more than {MAX_EXACT_INTEGER}",
        )
    return counts


def _read_em_summary(fields: FieldReader, k: int) -> EMSummary | None:
    """Read the summary of the EM fit to incomplete rows of k groups; None for complete rows.

    :class:`EMSummary` documents the fields.
    """
    if not fields.has("em_summary"):
        return None
    summary = fields.read_record("em_summary")
    n_missing_cells = summary.read_integers("n_missing_cells", length=k, minimum=0)
    pool_weights = summary.read_numbers("pool_weights", length=k, minimum=0)
    # Files of earlier versions do not have these counts; zero makes no claim of any group.
    min_pair_counts = [0] * k
    if summary.has("min_pair_counts"):
        min_pair_counts = summary.read_integers("min_pair_counts", length=k, minimum=0)
    return EMSummary(
        n_missing_cells=np.array(n_missing_cells),
        pool_weights=np.array(pool_weights, dtype=np.float64),
        min_pair_counts=np.array(min_pair_counts, dtype=np.int64),
        n_passes=summary.read_integer("n_passes", minimum=0),
        last_change=summary.read_number("last_change", minimum=0),
        distance=summary.read_number("distance", minimum=0),
    )


def _lower_triangles(scatters: FloatArray) -> FloatArray:
    """Return the lower triangles of (k, p, p) symmetric matrices, shape (k, p (p + 1) / 2)."""
    return scatters[:, np.tri(scatters.shape[-1], dtype=bool)]


def _read_scatters(fields: FieldReader, k: int, p: int) -> FloatArray:
    """Read (k, p, p) scatters, which are stored as lower triangles."""
    n_entries = p * (p + 1) // 2
    triangles = fields.read_array("triangles", "k t", (k, n_entries), kinds="f")
    scatters = np.zeros((len(triangles), p, p))
    scatters[:, np.tri(p, dtype=bool)] = triangles
    scatters += np.tril(scatters, -1).transpose(0, 2, 1)
    return scatters
