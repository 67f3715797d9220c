"""PairedSubspace: weights of two tables, independent of the rows, the groups and scikit-learn."""

import os
from dataclasses import dataclass
from typing import Any

from fairspan.cross_decomposition.paired_certificate import PairedCertificate
from fairspan.cross_decomposition.paired_file import (
    PairedFields,
    read_paired_subspace,
    write_paired_subspace,
)
from fairspan.cross_decomposition.pose_pairs import PairedSettings
from fairspan.cross_decomposition.table_weights import TableWeights
from fairspan.formatting.messages import counted
from fairspan.storage.atomic import check_suffix
from fairspan.typing import TableLike


@dataclass(frozen=True, eq=False)
class PairedSubspace:
    """Fitted pair of subspaces, one for each table, with their certificate.

    Attributes
    ----------
    x, y : TableWeights
    certificate : PairedCertificate

    Examples
    --------
    >>> import numpy as np
    >>> from fairspan.cross_decomposition import FairPLS
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(60, 4))
    >>> pair = FairPLS(1).fit(X, X @ rng.normal(size=(4, 3)), sensitive_features=["a", "b"] * 30)
    >>> pair.subspace_
    <PairedSubspace of 1 component of 4 and 3 columns, minimax_loss>
    """

    x: TableWeights
    y: TableWeights
    certificate: PairedCertificate

    @property
    def n_components(self) -> int:
        """Number of pairs of scores, d."""
        return int(self.x.rotations.shape[1])

    @property
    def settings(self) -> PairedSettings:
        """Settings of the fit, to repeat or verify it."""
        statement = self.certificate.statement
        return PairedSettings(
            method=statement.method,
            n_components=self.n_components,
            criterion=statement.criterion,
            restriction=statement.restriction,
            restricted_tables=statement.restricted_tables,
            center=statement.center,
            scale=self.x.scale is not None,
            regularization=statement.regularization,
            tol=self.certificate.assessment.tol,
        )

    def transform(self, X: TableLike, Y: TableLike = None) -> Any:
        """Return the scores of X, or of both tables.

        Parameters
        ----------
        X : (n, p) table
        Y : (n, q) table, optional

        Returns
        -------
        (n, d) array, or two of them
        """
        x_scores = self.x.transform(X)
        return x_scores if Y is None else (x_scores, self.y.transform(Y))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save to exactly the given path: npz arrays with a JSON header, no pickle.

        The file is written atomically.

        Raises
        ------
        InvalidParameter
            The name belongs to another kind of file, or cannot be written.
        """
        check_suffix(path, subject="a model is")
        write_paired_subspace(path, PairedFields(x=self.x, y=self.y, certificate=self.certificate))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "PairedSubspace":
        """Load a model written by :meth:`save`.

        Raises
        ------
        FileNotFoundError
            There is no such file.
        CorruptFile
            The file is truncated, modified or of another kind.
        """
        return cls(**read_paired_subspace(path))

    def __repr__(self) -> str:
        return (
            f"<PairedSubspace of {counted(self.n_components, 'component')} of {self.x.n_features} "
            f"and {self.y.n_features} columns, {self.certificate.statement.criterion.name}>"
        )
