"""`load`: one function that opens every kind of saved model, and saved moments."""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from fairspan.cross_decomposition.file_kind import PAIRED_FILE
from fairspan.model.subspace import FairSubspace
from fairspan.moments.files import MOMENTS_FILE
from fairspan.moments.group_moments import GroupMoments
from fairspan.storage.archive import peek_kind

if TYPE_CHECKING:
    from fairspan.cross_decomposition.paired_subspace import PairedSubspace


def load(
    path: str | os.PathLike[str], *, custom_objects: Sequence[object] = ()
) -> "FairSubspace | PairedSubspace | GroupMoments":
    """Load a saved model or saved moments, depending on the file.

    Parameters
    ----------
    path : path
    custom_objects : sequence of criterion and restriction objects
        See :meth:`FairSubspace.load`. Models of two tables need none.

    Returns
    -------
    FairSubspace, PairedSubspace or GroupMoments

    Raises
    ------
    FileNotFoundError
        There is no such file.
    CorruptFile
        The file is truncated, modified or of another kind.

    Examples
    --------
    >>> import fairspan as fs
    >>> fs.load("fair.model").transform(rows)  # doctest: +SKIP
    """
    kind = peek_kind(path)
    if kind == MOMENTS_FILE.name:
        return GroupMoments.load(path)
    if kind == PAIRED_FILE.name:
        # Imported here, as few files hold pairs of subspaces, and their module imports solvers.
        from fairspan.cross_decomposition.paired_subspace import PairedSubspace

        return PairedSubspace.load(path)
    return FairSubspace.load(path, custom_objects=custom_objects)
