"""FairSubspace: a fitted projection, independent of the rows, the groups and scikit-learn."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np

from fairspan.certificates.certificate import Certificate
from fairspan.class_loaders import load_class
from fairspan.errors import IncompatibleParameters
from fairspan.formatting.messages import counted
from fairspan.linalg.eigen import normalize_signs
from fairspan.linalg.varimax import varimax_rotation
from fairspan.model.model_export import onnx_bytes, sql_select
from fairspan.model.model_tables import group_table
from fairspan.model.row_checks import warn_if_far
from fairspan.model.serialization import SubspaceFields, read_subspace, write_subspace
from fairspan.model.standardization import Standardization
from fairspan.moments.base_moments import Center
from fairspan.moments.compute import Moments
from fairspan.moments.normal_model import NormalModel
from fairspan.moments.projector import Projector, is_soft, soft_dimension
from fairspan.moments.reference_frame import ReferenceFrame
from fairspan.parameters import check_choice
from fairspan.problem.part_parameters import check_n_components
from fairspan.rows.arrays import ArrayRows
from fairspan.rows.frames import FrameRows, float_dtype, open_features
from fairspan.rows.opening import adapter_for, map_rows
from fairspan.rows.row_adapters import AffineMap, RowMap
from fairspan.rows.row_validation import check_n_columns
from fairspan.storage.atomic import check_suffix, write_atomic
from fairspan.typing import FloatArray

Rotation = Literal["varimax"]
"""Rotations of components inside their subspace."""


@dataclass(frozen=True, eq=False)
class FairSubspace:
    """Fitted projection: its basis with the center and scale that belong to it.

    Attributes
    ----------
    components : (d, p) array
        Orthonormal rows. A soft projection has r > d rows sqrt(lambda_j) u_j, u_j orthonormal and
        0 < lambda_j <= 1, and reconstructs by P* = sum_j lambda_j u_j u_j'. For an oblique
        projection this is the encoder, whose rows are not orthonormal.
    mean : (p,) array or None
        Subtracted from every row. None: use the mean of the rows that are audited or transformed.
    scale : (p,) array or None
        Divisor of every row after the mean is subtracted.
    center : {"global", "group", "none"}
        Center about which errors are measured. With "group" errors are about each group's own mean,
        while `transform` subtracts `mean`, since it never sees groups.
    feature_names : tuple of str or None
    certificate : Certificate or None
        What was minimized, the objective reached and its proof (:func:`fairspan.verify`).
    oblique_decoder : (p, d) array or None
        Decoder of an oblique projection, with orthonormal columns; otherwise the decoder is the
        transpose of the components.
    whitening : (d,) array or None
        Divisors that scale the coordinates to unit variance; `inverse_transform` multiplies by
        them.
    imputation_model : NormalModel or None
        Mean and covariance of all rows of the fit, used to impute missing cells by their
        conditional expectation; None if the fit was on complete rows, in which case rows must be
        complete.

    Examples
    --------
    >>> import numpy as np
    >>> from fairspan import FairSubspace
    >>> line = FairSubspace(np.array([[0.6, 0.8]]), np.zeros(2))
    >>> line.transform(np.array([[3.0, 4.0]]))
    array([[5.]])
    >>> line.inverse_transform(np.array([[5.0]]))
    array([[3., 4.]])
    """

    components: FloatArray
    mean: FloatArray | None
    scale: FloatArray | None = None
    center: Center = "global"
    feature_names: tuple[str, ...] | None = None
    certificate: Certificate | None = None
    oblique_decoder: FloatArray | None = None
    whitening: FloatArray | None = None
    imputation_model: NormalModel | None = None

    @classmethod
    def from_model(cls, model: object) -> "FairSubspace":
        """Create the projection of any supported model: its basis, center and scale.

        Parameters
        ----------
        model : fitted model, (d, p) array, or path
            A FairPCA or FairSubspace, or any model whose `transform` and `inverse_transform` form a
            linear projection: a PCA, an oblique encoder with its decoder, or a pipeline, of which
            the steps before the first non-invertible one are used. If a pipeline standardizes
            features first, errors are in standardized units, as for a FairPCA with `scale`. A bare
            array has orthonormal rows and is centered at the mean of the rows it is applied to. A
            path names a file written by :meth:`save`.

        Returns
        -------
        FairSubspace

        Raises
        ------
        InvalidType
            Another type, or a model that is not fitted.
        InvalidInput
            Components that are not orthonormal, an encoder that is not a left inverse of its
            decoder, or a model of unknown number of features.
        IncompatibleParameters
            A model that is not a projection onto a subspace, such as a KernelPCA.

        Examples
        --------
        >>> import numpy as np
        >>> from fairspan import FairSubspace
        >>> FairSubspace.from_model(np.array([[0.6, 0.8]]))
        <FairSubspace of 1 in 2 features>
        """
        # By name, since adapted models are built on subspaces.
        mapping = load_class("model", "adapted").from_model(model).mapping
        if isinstance(mapping, FairSubspace):
            return mapping
        raise IncompatibleParameters(
            f"The {type(model).__name__} is not a projection onto a subspace",
            "Allowed: models that project linearly; fairspan.audit evaluates other models on rows",
            "Pass it to fairspan.audit, together with rows",
        )

    @property
    def n_components(self) -> int:
        """Number of coordinates of a transformed row: d, or r for a soft projection."""
        return len(self.components)

    @property
    def dimension(self) -> int:
        """d, the dimension of comparable subspaces; for a soft projection, sum_j lambda_j.

        The lambda_j are the weights of its directions, see `components`; their sum is an integer
        up to rounding.
        """
        return self.n_components if self.is_oblique else round(soft_dimension(self.components))

    @property
    def is_oblique(self) -> bool:
        """Whether the decoder differs from the transpose of the encoder."""
        return self.oblique_decoder is not None

    @property
    def is_soft(self) -> bool:
        """Whether the projection is soft: not all rows have unit length."""
        return not self.is_oblique and is_soft(self.components)

    @property
    def is_nested(self) -> bool:
        """Whether the first components solve the problem of fewer dimensions: :meth:`truncate`."""
        return self.certificate is not None and len(self.certificate.steps) > 0

    def require_certificate(self) -> Certificate:
        """Return the certificate, or raise IncompatibleParameters if there is none.

        Raises
        ------
        IncompatibleParameters
            There is none: the subspace was not fitted by this library.
        """
        if self.certificate is None:
            raise IncompatibleParameters(
                f"A certificate was requested of {self!r}, which has none",
                "Allowed: subspaces fitted by FairPCA",
                "Fit FairPCA",
            )
        return self.certificate

    @property
    def encoder(self) -> FloatArray:
        """Encoder E from centered rows to coordinates, shape (d, p): the whitened components."""
        whitening = 1.0 if self.whitening is None else self.whitening[:, None]
        return np.asarray(self.components / whitening)

    @property
    def decoder(self) -> FloatArray:
        """Decoder D that reconstructs rows from coordinates, shape (p, d)."""
        whitening = 1.0 if self.whitening is None else self.whitening
        return np.asarray(self.projector.decoder * whitening)

    @property
    def projector(self) -> Projector:
        """Encoder and decoder without whitening."""
        return Projector(self.components, self.oblique_decoder)

    @property
    def n_features(self) -> int:
        """Number of features, p."""
        return int(self.components.shape[1])

    @property
    def is_scaled(self) -> bool:
        """Whether features are divided by a scale."""
        return self.scale is not None

    @property
    def row_frame(self) -> ReferenceFrame:
        """Mean that is subtracted from rows, zero if there is none, and divisor of the features."""
        center = np.zeros(self.n_features) if self.mean is None else self.mean
        return ReferenceFrame.from_optional(center, self.scale)

    @property
    def component_names(self) -> tuple[str, ...]:
        """Names of the columns of transformed rows: fairpca0, fairpca1 and so on."""
        return tuple(f"fairpca{index}" for index in range(self.n_components))

    def transform(self, X: object) -> Any:
        """Project rows to their coordinates in the subspace.

        Parameters
        ----------
        X : (n, p) array, data frame or distributed collection
            Columns of a frame are matched by name, in any order; others are ignored. If the fit was
            on rows with missing cells, missing cells are allowed and replaced by their conditional
            expectation given the observed cells (see `imputation_model`).

        Returns
        -------
        (n, d) array
            float32 if all features of X are, else float64. For a distributed or device collection,
            an object of the same kind.

        Raises
        ------
        InvalidInput
            A missing column, a different number of features, text, NaN or infinity.

        Warns
        -----
        FairspanWarning
            Rows lie far from those of the fit, as if in other units.
        """
        # The result for data on a device or cluster, and for a source of rows that is open already;
        # None for arrays and data frames in memory.
        remote_result = map_rows(X, self.transform_map)
        if remote_result is not None:
            return remote_result
        rows = open_features(X, self.standardization.on_missing)
        return self.transform_rows(rows, float_dtype(X, self.feature_names))

    def transform_rows(self, rows: ArrayRows | FrameRows, dtype: np.dtype[Any]) -> FloatArray:
        """Project opened rows in memory, and return coordinates of this dtype, shape (n, d)."""
        standardized = self.standardization.standardize(rows)
        # The spread of the fit is known only if errors are about the mean of all rows.
        if self.certificate is not None and self.center == "global":
            warn_if_far(standardized, self.certificate.total_variance, self.feature_names)
        return (standardized @ self.encoder.T).astype(dtype, copy=False)

    def inverse_transform(self, Z: object) -> Any:
        """Reconstruct rows in the original features from their coordinates.

        Parameters
        ----------
        Z : (n, d) array

        Returns
        -------
        (n, p) array
            With the dtype of Z. For coordinates on a device, an object of the same kind.
        """
        frame = self.row_frame
        names = self.feature_names or tuple(map(str, range(self.n_features)))
        # Rows are (coordinates - shift) @ matrix + offset.
        affine_map = AffineMap(
            shift=np.zeros(self.n_components),
            matrix=self.decoder.T * frame.scale,
            offset=frame.center,
        )
        d = self.n_components
        inverse_map = RowMap(
            self.inverse_transform,
            n_inputs=d,
            input_kind="coordinates",
            feature_names=None,
            output_names=names,
            affine=affine_map,
        )
        # The result for coordinates on a device; None for those in memory.
        remote_result = adapter_for(Z).map_rows(Z, inverse_map)
        if remote_result is not None:
            return remote_result
        coordinates = ArrayRows.from_table(Z).to_array()
        check_n_columns(coordinates.shape[1], d, "coordinates")
        rows = coordinates @ self.decoder.T * frame.scale + frame.center
        return rows.astype(float_dtype(Z), copy=False)

    @property
    def transform_map(self) -> RowMap:
        """Map of rows to coordinates, applied where the rows are."""
        frame = self.row_frame
        directions = (self.encoder / frame.scale).T
        return RowMap(
            self.transform,
            self.n_features,
            "features",
            self.feature_names,
            self.component_names,
            AffineMap(shift=frame.center, matrix=directions, offset=np.zeros(self.n_components)),
        )

    @property
    def standardization(self) -> Standardization:
        """Conversion of rows of a table to the features that are projected."""
        return Standardization(
            n_features=self.n_features,
            frame=self.row_frame,
            feature_names=self.feature_names,
            imputation_model=self.imputation_model,
        )

    def reference_frame(self, moments: Moments) -> ReferenceFrame:
        """Return the center and units of errors: about the mean of each group, or one point.

        That is the model's own mean, or the mean of these rows for a bare array.
        """
        if self.center == "group":
            center = moments.means
        else:
            center = moments.mean if self.mean is None else self.mean
        return ReferenceFrame.from_optional(center, self.scale)

    def truncate(self, n_components: int) -> "FairSubspace":
        """Return the nested solution with fewer components.

        Parameters
        ----------
        n_components : int
            From 1 to the number of components.

        Returns
        -------
        FairSubspace
            With its own figures and certificates, as if fitted directly.

        Raises
        ------
        IncompatibleParameters
            The components are not nested.
        InvalidParameter
            The number is out of range.

        Examples
        --------
        >>> import numpy as np
        >>> from fairspan import FairPCA
        >>> X = np.array([[3.0, 0, 0], [-3, 0, 0], [0, 2, 1], [0, -2, 1], [0, 1, -2]])
        >>> fair = FairPCA(2, nested=True).fit(X, sensitive_features=["a", "a", "b", "b", "b"])
        >>> line = fair.subspace_.truncate(1)
        >>> np.array_equal(line.components, fair.components_[:1])
        True
        >>> round(line.certificate.objective, 3)
        2.391
        """
        certificate = self.certificate
        if certificate is None or not certificate.steps:
            raise IncompatibleParameters(
                f"The first {n_components!r} components were requested of {self!r}",
                "Allowed: nested components; otherwise the first components do not solve the "
                "problem with fewer dimensions",
                "Fit with FairPCA(nested=True), or refit with fewer components",
            )
        check_n_components(n_components, len(self.components), of="components")
        d = int(n_components)
        whitening = None if self.whitening is None else self.whitening[:d]
        return replace(
            self,
            components=self.components[:d],
            certificate=certificate.truncate(d),
            whitening=whitening,
        )

    def rotate(self, method: Rotation = "varimax") -> "FairSubspace":
        """Return the same subspace with rotated components, whose loadings are easier to name.

        Varimax maximizes the variance of the squared loadings of each component, so that each
        depends on few features. Errors, losses, restrictions and the certificate depend on the
        subspace alone and do not change. Rotated components no longer follow the order of their
        variances, and their coordinates may be correlated; the sum of their variances is unchanged.
        They are in the order of the components that they resemble, the largest loading positive.

        Parameters
        ----------
        method : {"varimax"}
            Of orthonormal components, without normalization of the features (Kaiser 1958). Factor
            analyses rotate loadings that are multiplied by standard deviations instead, which would
            not stay orthonormal.

        Returns
        -------
        FairSubspace
            For an oblique projection, encoder and decoder are rotated together, by the loadings of
            the decoder.

        Raises
        ------
        IncompatibleParameters
            The components are nested or whitened, or a soft projection: their order or length has a
            meaning, which a rotation destroys.
        InvalidParameter
            Unknown method.

        Examples
        --------
        >>> import numpy as np
        >>> from fairspan import FairSubspace
        >>> plane = FairSubspace(np.array([[0.6, 0.8, 0.0], [-0.8, 0.6, 0.0]]), np.zeros(3))
        >>> plane.rotate().components.round(6) + 0.0
        array([[0., 1., 0.],
               [1., 0., 0.]])
        """
        check_choice("method", method, get_args(Rotation))
        kind = None
        if self.is_nested:
            kind = "nested components"
        elif self.whitening is not None:
            kind = "whitened coordinates"
        elif self.is_soft:
            kind = "a soft projection"
        if kind is not None:
            raise IncompatibleParameters(
                f"A rotation was requested of {kind}",
                "Allowed: components without an order or length of their own",
                "Fit with nested=False, whiten=False and allow_extra=False",
            )
        rotation = varimax_rotation(self.projector.decoder)
        # The mean position of the components that each rotated one is made of.
        positions = np.arange(self.n_components) @ rotation**2
        return change_basis(self, rotation[:, np.argsort(positions, kind="stable")])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save to exactly the given path: npz arrays with a JSON header, no pickle.

        The file is written atomically.

        Raises
        ------
        InvalidParameter
            The name belongs to another kind of file, such as a table, or cannot be written.
        """
        check_suffix(path, subject="a model is")  # begins the message of an error
        fields = SubspaceFields(
            components=self.components,
            mean=self.mean,
            scale=self.scale,
            center=self.center,
            feature_names=self.feature_names,
            certificate=self.certificate,
            oblique_decoder=self.oblique_decoder,
            whitening=self.whitening,
            imputation_model=self.imputation_model,
        )
        write_subspace(path, fields)

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], *, custom_objects: Sequence[object] = ()
    ) -> "FairSubspace":
        """Load a model written by :meth:`save`.

        Parameters
        ----------
        path : path
        custom_objects : sequence of criterion and restriction objects
            Objects from other packages that the model was fitted with, needed to verify or refit
            it. The file holds their names and parameters only; loading it imports nothing.

        Raises
        ------
        FileNotFoundError
            There is no such file.
        CorruptFile
            The file is truncated, modified or of another kind.
        """
        return cls(**read_subspace(path, custom_objects))

    def to_onnx(self, path: str | os.PathLike[str], *, dtype: str = "float64") -> None:
        """Export :meth:`transform` as an ONNX graph; needs the extra `onnx`.

        Parameters
        ----------
        path : path
            Output path; the file is written atomically.
        dtype : {"float64", "float32"}
            Type of the graph's input "X", shape (n, p), and output "coordinates", shape (n, d).
            Computations use float64 in either case.

        Raises
        ------
        MissingDependency
            onnx is not installed.
        InvalidParameter
            An unknown dtype, or a file that cannot be written.

        Examples
        --------
        >>> import numpy as np
        >>> from fairspan import FairSubspace
        >>> line = FairSubspace(np.array([[0.6, 0.8]]), np.zeros(2))
        >>> line.to_onnx("line.onnx")  # doctest: +SKIP
        """
        check_suffix(path, "an ONNX graph is", ".onnx")
        write_atomic(path, onnx_bytes(self, dtype))

    def to_sql(self, table: str = "data", *, one_hot: bool = False) -> str:
        """Return :meth:`transform` as one SELECT of standard SQL over columns named like features.

        Parameters
        ----------
        table : str
            Name of the table.
        one_hot : bool
            Whether the table holds text columns for features named column=category, as created by
            `fairspan fit --one-hot`. Categories unknown to the model are 0 in all indicators of
            their column.

        Returns
        -------
        str

        Raises
        ------
        IncompatibleParameters
            The features have no names; or with `one_hot`, none is an indicator.
        InvalidParameter
            A name cannot be represented in SQL.

        Examples
        --------
        >>> import numpy as np
        >>> from fairspan import FairSubspace
        >>> line = FairSubspace(np.array([[0.5, 1.0]]), np.ones(2), feature_names=("x", "y"))
        >>> print(line.to_sql())
        SELECT
          5e-01 * (CAST("x" AS DOUBLE PRECISION) - 1e+00)
          + 1e+00 * (CAST("y" AS DOUBLE PRECISION) - 1e+00) AS "fairpca0"
        FROM "data"
        """
        return sql_select(self, table, one_hot=one_hot)

    def __repr__(self) -> str:
        details = "" if self.certificate is None else f", {self.certificate.problem_text}"
        if self.is_soft:
            details += f", soft in {counted(self.n_components, 'coordinate')}"
        return (
            f"<FairSubspace of {self.dimension} in {counted(self.n_features, 'feature')}{details}>"
        )

    def _repr_html_(self) -> str | None:
        """HTML table of the certificate for notebooks; None (plain text) without a certificate."""
        certificate = self.certificate
        if certificate is None:
            return None
        return group_table(certificate, caption=repr(self)[1:-1])._repr_html_()


def change_basis(subspace: FairSubspace, rotation: FloatArray) -> FairSubspace:
    """Return the same projection with other components, the largest loading of each positive.

    Parameters
    ----------
    subspace : FairSubspace
        Orthonormal or oblique, without whitening.
    rotation : (d, d) array
        Orthogonal; its columns hold the coordinates of the new components.
    """
    columns = subspace.components.T @ rotation
    signs = np.sign(np.einsum("ij,ij->j", normalize_signs(columns), columns))
    signed_rotation = rotation * signs
    components = np.ascontiguousarray((columns * signs).T)
    decoder = None
    decoder_rows = components
    if subspace.oblique_decoder is not None:
        decoder = subspace.oblique_decoder @ signed_rotation
        decoder_rows = np.ascontiguousarray(decoder.T)
    certificate = subspace.certificate
    if certificate is not None:
        certificate = replace(certificate, components=decoder_rows)
    return replace(
        subspace, components=components, oblique_decoder=decoder, certificate=certificate
    )
