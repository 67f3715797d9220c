"""Standardized features of rows: matched by name, completed, centered and scaled."""

from dataclasses import dataclass

import numpy as np

from fairspan.moments.normal_model import NormalModel
from fairspan.moments.projector import Projector
from fairspan.moments.reference_frame import ReferenceFrame
from fairspan.rows.arrays import ArrayRows
from fairspan.rows.blocks import OnMissing
from fairspan.rows.frames import FrameRows, feature_values
from fairspan.rows.row_validation import check_n_columns
from fairspan.typing import FloatArray


@dataclass(frozen=True, eq=False)
class Standardization:
    """Conversion of rows of a table to the features that a model projects.

    Attributes
    ----------
    n_features : int
    frame : ReferenceFrame
        The mean that is subtracted from every row, and the divisor of the features.
    feature_names : tuple of str or None
        Names by which the columns of a frame are matched.
    imputation_model : NormalModel or None
        Mean and covariance by which missing cells are imputed; None if rows must be complete.
    """

    n_features: int
    frame: ReferenceFrame
    feature_names: tuple[str, ...] | None
    imputation_model: NormalModel | None

    @property
    def on_missing(self) -> OnMissing:
        """Treatment of missing cells: "em" if they can be imputed, else "error"."""
        return "error" if self.imputation_model is None else "em"

    def standardize(self, rows: ArrayRows | FrameRows) -> FloatArray:
        """Return the centered and scaled features of opened rows, shape (n, p).

        Missing cells are replaced by their conditional expectation, if they can be imputed.
        """
        return self.frame.standardize(self._impute(rows)[0])

    def squared_residuals(self, rows: ArrayRows | FrameRows, projector: Projector) -> FloatArray:
        """Squared reconstruction error of each row under a projector, shape (n,).

        P = D E is the projection and m the mean. For a row with missing cells, the expected value
        ||(I - P)(x - m)||^2 + tr((I - P)' (I - P) C), with x the conditional expectation of the row
        and C the conditional covariance of its missing cells.
        """
        matrix = None
        if self.imputation_model is not None:
            # The model has C in units of its standard deviations: with their diagonal matrix S in
            # scaled units, the trace is that of S (I - P)' (I - P) S times its C.
            # Row i is column i of (I - P) S.
            missing_residuals = projector.residuals(
                np.diag(self.imputation_model.standard_deviations / self.frame.scale)
            )
            matrix = missing_residuals @ missing_residuals.T
        values, missing_error = self._impute(rows, matrix)
        residuals = projector.squared_residuals(self.frame.standardize(values))
        return np.asarray(residuals + missing_error)

    def _impute(
        self, rows: ArrayRows | FrameRows, matrix: FloatArray | None = None
    ) -> tuple[FloatArray, FloatArray | float]:
        """Rows with missing cells imputed, and tr(matrix C) of each row, shape (n,).

        C is the conditional covariance of the missing cells, in units of the standard deviations of
        the imputation model; `matrix`, (p, p), weights its entries. The trace is 0.0 if no cell is
        missing, or without an imputation model.
        """
        values = feature_values(rows, self.feature_names)
        check_n_columns(values.shape[1], self.n_features, "features")
        if self.imputation_model is None or not np.isnan(values).any():
            return values, 0.0
        return self.imputation_model.impute(values, matrix)
