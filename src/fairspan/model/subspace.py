"""FairSubspace: a fitted projection, free of the rows, the groups and scikit-learn."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fairspan.certificates.certificate import Certificate
from fairspan.errors import IncompatibleParameters, InvalidType, warn
from fairspan.formatting.text import counted
from fairspan.model.adapters import (
    ALLOWED_MODELS,
    PROBE_TOL,
    ReconstructionModel,
    detect_projection,
    reconstruction_model,
)
from fairspan.model.serialization import onnx_bytes, read_subspace, sql_select, write_subspace
from fairspan.moments.group_moments import GroupMoments
from fairspan.moments.normal_model import NormalModel
from fairspan.moments.of_rows import Moments
from fairspan.moments.operators import (
    Projector,
    SecondMoments,
    check_components,
    is_soft,
    soft_dimension,
)
from fairspan.problem.problem import check_n_components
from fairspan.rows.arrays import ArrayRows
from fairspan.rows.frames import feature_values, float_dtype
from fairspan.rows.opening import adapter_for, map_rows
from fairspan.rows.protocol import OnMissing, RowMap
from fairspan.rows.validation import check_n_columns
from fairspan.storage import MOMENTS_SCHEMA, check_suffix, peek_kind, write_atomic
from fairspan.typing import FloatArray

# Of rows to transform the first are looked at, if they are enough to tell a table in other units
# from single rows with long tails: whether half of them are so many times too far from the mean.
_MAX_CHECKED_ROWS, _MIN_CHECKED_ROWS, _FAR_RATIO = 1000, 10, 10.0


@dataclass(frozen=True, eq=False)
class FairSubspace:
    """A fitted projection: its basis, with the centre and scale that belong to it.

    Attributes
    ----------
    components : (d, p) array
        Orthonormal rows. A soft projection has r > d rows sqrt(lambda_j) u_j, u_j orthonormal and
        0 < lambda_j <= 1, and reconstructs by P* = sum_j lambda_j u_j u_j'. An oblique projection
        has its encoder here, whose rows are not orthonormal.
    mean : (p,) array or None
        Subtracted from every row. None: the mean of the rows that are audited or transformed.
    scale : (p,) array or None
        Every row is divided by it after the mean is subtracted.
    center : {"global", "group", "none"}
        The centre about which errors are measured. With "group" each group's own mean is used when
        errors are measured, while `transform` subtracts `mean`, since it never sees a group.
    feature_names : tuple of str or None
    certificate : Certificate or None
        What was minimised, what was reached, and what proves it (:func:`fairspan.verify`).
    oblique_decoder : (p, d) array or None
        The decoder of an oblique projection, orthonormal columns; otherwise it is the transpose of
        the components.
    whitening : (d,) array or None
        Divisors of the coordinates that make their variance one; coordinates are multiplied by
        them before rows are reconstructed.
    normal : Normal or None
        Mean and covariance of all rows of the fit, whatever their groups, by which missing cells of
        a row are expected; None where the fit was on complete rows, and rows must be complete.

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
    center: str = "global"
    feature_names: tuple[str, ...] | None = None
    certificate: Certificate | None = None
    oblique_decoder: FloatArray | None = None
    whitening: FloatArray | None = None
    imputation_model: NormalModel | None = None

    @classmethod
    def from_model(cls, model: Any) -> "FairSubspace":
        """The projection of any accepted model: its basis, centre and scale.

        Parameters
        ----------
        model : fitted model, (d, p) array, or path
            A FairPCA or FairSubspace, or whatever has `transform` and `inverse_transform` that
            project rows linearly: a PCA, an oblique encoder with its decoder, or a pipeline, whose
            part up to the first step that cannot be undone is taken. Where a pipeline first
            standardizes features, its errors are in standardized units, as those of a FairPCA with
            `scale`. A bare array has orthonormal rows and is centred at the mean of the rows it is
            shown. A path names a file that :meth:`save` wrote.

        Returns
        -------
        FairSubspace

        Raises
        ------
        InvalidType
            Something else, or a model that is not fitted.
        InvalidInput
            Components that are not orthonormal, an encoder that does not undo its decoder, or a
            model that does not say how many features it takes.
        Incompatible
            A model that is no projection onto a subspace, such as a KernelPCA.

        Examples
        --------
        >>> import numpy as np
        >>> from fairspan import FairSubspace
        >>> FairSubspace.of(np.array([[0.6, 0.8]]))
        <FairSubspace of 1 in 2 features>
        """
        read = adapt_model(model).mapping
        if isinstance(read, FairSubspace):
            return read
        raise IncompatibleParameters(
            f"The {type(model).__name__} is no projection onto a subspace",
            "Allowed: models that project linearly: fairspan.audit judges others by their rows",
            "Pass it to fairspan.audit, together with rows",
        )

    @property
    def on_missing(self) -> OnMissing:
        """How rows are opened: "em" where some of their cells may be missing, or else "error"."""
        return "error" if self.imputation_model is None else "em"

    @property
    def n_components(self) -> int:
        """Coordinates of a transformed row: d, or r of a soft projection."""
        return len(self.components)

    @property
    def dimension(self) -> int:
        """d, of the subspaces that compare with it: of a soft projection, sum_j lb_j."""
        return self.n_components if self.is_oblique else round(soft_dimension(self.components))

    @property
    def is_oblique(self) -> bool:
        """Whether the decoder is not the transpose of the encoder."""
        return self.oblique_decoder is not None

    @property
    def is_soft(self) -> bool:
        """Whether it is a soft projection: not all of its rows are of length one."""
        return not self.is_oblique and is_soft(self.components)

    @property
    def is_nested(self) -> bool:
        """Whether its first components are a solution with fewer dimensions: see :meth:`first`."""
        return self.certificate is not None and len(self.certificate.steps) > 0

    def require_certificate(self) -> Certificate:
        """The certificate.

        Raises
        ------
        Incompatible
            There is none: the subspace was not fitted by this library.
        """
        if self.certificate is None:
            raise IncompatibleParameters(
                f"A certificate was requested of {self!r}, which has none",
                "Allowed: subspaces that FairPCA fitted",
                "Fit FairPCA",
            )
        return self.certificate

    @property
    def encoder(self) -> FloatArray:
        """E, which makes coordinates of a centred row, shape (d, p): the components, whitened."""
        whitening = 1.0 if self.whitening is None else self.whitening[:, None]
        return np.asarray(self.components / whitening)

    @property
    def decoder(self) -> FloatArray:
        """D, which reconstructs a row from its coordinates, shape (p, d)."""
        whitening = 1.0 if self.whitening is None else self.whitening
        return np.asarray(self.projector.decoder * whitening)

    @property
    def projector(self) -> Projector:
        """Encoder and decoder together, without the whitening."""
        return Projector(self.components, self.oblique_decoder)

    @property
    def n_features(self) -> int:
        """p."""
        return int(self.components.shape[1])

    @property
    def component_names(self) -> tuple[str, ...]:
        """Names of the columns of transformed rows: fairpca0, fairpca1 and so on."""
        return tuple(f"fairpca{index}" for index in range(self.n_components))

    def transform(self, X: Any) -> Any:
        """Coordinates of rows in the subspace.

        Parameters
        ----------
        X : (n, p) array or data frame, or such a collection on a cluster
            Columns of a frame are matched by name, in any order; others are ignored. Where the fit
            was on rows with missing cells, these may have some: they count as what the observed
            cells of the row let expect (see `normal`).

        Returns
        -------
        (n, d) array
            Of the precision of X: float32 where all of its features are, and float64 otherwise.
            Where the rows lie elsewhere, the same kind of object.

        Raises
        ------
        InvalidInput
            A missing column, another number of features, text, NaN or infinity.

        Warns
        -----
        FairspanWarning
            Rows of a fitted model lie far from those of the fit, as in other units.
        """
        remote_result = map_rows(X, self.transform_map)
        if remote_result is not None:
            return remote_result
        rows = self.standardize(X)
        self._warn_if_far(rows[:_MAX_CHECKED_ROWS])
        reduced = rows @ self.encoder.T
        return reduced.astype(float_dtype(X, self.feature_names), copy=False)

    def inverse_transform(self, Z: Any) -> Any:
        """Rows in the original features from their coordinates.

        Parameters
        ----------
        Z : (n, d) array

        Returns
        -------
        (n, p) array
            Of the precision of Z. Where the coordinates lie on another device, the same kind of
            object there.
        """
        scale = 1.0 if self.scale is None else np.asarray(self.scale)
        mean = np.zeros(self.n_features) if self.mean is None else self.mean
        names = self.feature_names or tuple(map(str, range(self.n_features)))
        affine_map = (np.zeros(self.n_components), self.decoder.T * scale, mean)
        d, function = self.n_components, self.inverse_transform
        remote_result = adapter_for(Z).map_rows(
            Z, RowMap(function, d, "coordinates", None, names, affine_map)
        )
        if remote_result is not None:
            return remote_result
        coordinates = ArrayRows(Z).to_array()
        check_n_columns(coordinates.shape[1], d, "coordinates")
        rows = coordinates @ self.decoder.T * scale + mean
        return rows.astype(float_dtype(Z), copy=False)

    @property
    def transform_map(self) -> RowMap:
        """Coordinates of rows, wherever they are."""
        mean = np.zeros(self.n_features) if self.mean is None else self.mean
        directions = (self.encoder / (1.0 if self.scale is None else self.scale)).T
        affine_map = (mean, directions, np.zeros(self.n_components))
        p, columns = self.n_features, self.component_names
        return RowMap(self.transform, p, "features", self.feature_names, columns, affine_map)

    @property
    def score_map(self) -> RowMap:
        """Minus the squared reconstruction error of rows, wherever they are."""
        return RowMap(self._score, self.n_features, "features", self.feature_names, ("score",))

    def _score(self, X: Any) -> FloatArray:
        return -self.squared_residuals(X)

    def standardize(self, X: Any) -> FloatArray:
        """The features of X about the mean, and scaled: (n, p), columns of a frame by name.

        Missing cells are what is expected of them, if the fit was on rows that have some.
        """
        return self._standardize(self._impute(X)[0])

    def squared_residuals(self, X: Any) -> FloatArray:
        """Squared reconstruction error of each row, shape (n,), in scaled units.

        Of a row with missing cells it is the expected one, ||(I - P)(x - m)||^2 + tr((I - P) C),
        with x what is expected of the row and C the covariance of what is missing.
        """
        matrix = None
        if self.imputation_model is not None:
            missing_residuals = self.projector.residuals(
                np.diag(self.imputation_model.standard_deviations / self._scale_or_ones)
            )
            matrix = missing_residuals @ missing_residuals.T
        rows, missed = self._impute(X, matrix)
        return np.asarray(self.projector.squared_residuals(self._standardize(rows)) + missed)

    def _impute(
        self, X: Any, matrix: FloatArray | None = None
    ) -> tuple[FloatArray, FloatArray | float]:
        """Rows without missing cells, and tr(matrix C) of what is expected of each."""
        rows = feature_values(X, self.feature_names, self.on_missing)
        check_n_columns(rows.shape[1], self.n_features, "features")
        if self.imputation_model is None or not np.isnan(rows).any():
            return rows, 0.0
        return self.imputation_model.filled(rows, matrix)

    def _standardize(self, rows: FloatArray) -> FloatArray:
        rows = rows - (0.0 if self.mean is None else self.mean)
        return rows if self.scale is None else rows / self.scale

    def _warn_if_far(self, rows: FloatArray) -> None:
        """Warn where centred rows are far larger than those of the fit were."""
        # Of the fit, the distance from the mean of all rows is known where errors are about that.
        if self.certificate is None or self.center != "global" or len(rows) < _MIN_CHECKED_ROWS:
            return
        squares = rows**2
        if np.median(squares.sum(axis=1)) > _FAR_RATIO**2 * self.certificate.total_variance:
            j = int(np.median(squares, axis=0).argmax())
            name = f"feature {j}" if self.feature_names is None else repr(self.feature_names[j])
            warn(
                f"Half of the rows are more than {_FAR_RATIO:.0f} times as far from the mean of the fit "
                f"as its rows were, most in {name}. Check that the features have the same units "
                "as in the fit."
            )

    @property
    def _scale_or_ones(self) -> FloatArray:
        return np.ones(self.n_features) if self.scale is None else self.scale

    def center_point(self, moments: Moments) -> FloatArray | None:
        """The point about which errors are measured; None where each group has its own mean.

        A model's own mean; the mean of these rows for a bare array, which has none.
        """
        if self.center == "group":
            return None
        return moments.mean if self.mean is None else self.mean

    def second_moments_and_projector(self, moments: Moments) -> tuple[SecondMoments, Projector]:
        """Second moments of rows about that point, scaled as this is; and its projector.

        Both are in coordinates in which products with the components take little time.
        """
        point, projector = self.center_point(moments), self.projector
        if self.scale is not None:
            moments = moments.divided_by(self.scale)
            point = None if point is None else point / self.scale
        inside, point, columns = moments.to_compact_coordinates(
            point, projector.stacked_columns, self.dimension
        )
        return inside.second_moments_about(point), projector.with_stacked_columns(columns)

    def truncate(self, n_components: int) -> "FairSubspace":
        """The first of nested components: the nested solution with fewer dimensions.

        Parameters
        ----------
        n_components : int
            From 1 to the number of components.

        Returns
        -------
        FairSubspace
            With its own figures and certificates, as if it had been fitted.

        Raises
        ------
        Incompatible
            The components are not nested.
        InvalidParameter
            A number out of range.

        Examples
        --------
        >>> import numpy as np
        >>> from fairspan import FairPCA
        >>> X = np.array([[3.0, 0, 0], [-3, 0, 0], [0, 2, 1], [0, -2, 1], [0, 1, -2]])
        >>> fair = FairPCA(2, nested=True).fit(X, sensitive_features=["a", "a", "b", "b", "b"])
        >>> line = fair.subspace_.first(1)
        >>> np.array_equal(line.components, fair.components_[:1])
        True
        >>> round(line.certificate.objective, 3)
        2.391
        """
        certificate = self.certificate
        if certificate is None or not certificate.steps:
            raise IncompatibleParameters(
                f"The first {n_components!r} components were requested of {self!r}",
                "Allowed: nested components: the first of others are not a solution with fewer "
                "dimensions",
                "Fit with FairPCA(nested=True), or fit again with fewer components",
            )
        check_n_components(n_components, len(self.components), of="components")
        d = int(n_components)
        return replace(
            self,
            components=self.components[:d],
            certificate=certificate.truncate(d),
            whitening=None if self.whitening is None else self.whitening[:d],
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write to exactly the name given: npz arrays with a JSON header, no pickle.

        The file appears only when it is complete.

        Raises
        ------
        InvalidParameter
            The name is that of another kind of file, such as a table, or cannot be written.
        """
        check_suffix(path, "a model is")
        write_subspace(path, vars(self))

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], *, custom_objects: Sequence[Any] = ()
    ) -> "FairSubspace":
        """Read what :meth:`save` wrote.

        Parameters
        ----------
        path : path
        parts : sequence of criterion and restriction objects
            Those of other packages that the model was fitted with, so that it can be verified and
            fitted again. The file holds their names and parameters; loading it imports nothing.

        Raises
        ------
        FileNotFoundError
            There is no such file.
        CorruptFile
            The file is truncated, altered or of another kind.
        """
        return cls(**read_subspace(path, custom_objects))

    def to_onnx(self, path: str | os.PathLike[str], *, dtype: str = "float64") -> None:
        """Write :meth:`transform` as an ONNX graph; needs the extra `onnx`.

        Parameters
        ----------
        path : path
            Where to write it; the file appears only when it is complete.
        dtype : {"float64", "float32"}
            Of the graph's input "X", shape (n, p), and of its output "coordinates", shape (n, d).
            It computes in float64 in any case.

        Raises
        ------
        MissingDependency
            onnx is not installed.
        InvalidParameter
            Another dtype, or a file that cannot be written.

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
        """:meth:`transform` as one SELECT of standard SQL, over columns named as the features.

        Parameters
        ----------
        table : str
            Name of the table.
        one_hot : bool
            Whether the table holds text where the model has indicators named column=category, as
            `fairspan fit --one-hot` names them. A category that the model does not have is then 0
            in all indicators of its column.

        Returns
        -------
        str

        Raises
        ------
        Incompatible
            The features have no names; with `one_hot`, none is an indicator.
        InvalidParameter
            A name that SQL cannot hold.

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
        """Where it comes from as a table in a notebook; None (plain text) if that is unknown."""
        certificate = self.certificate
        return None if certificate is None else certificate.to_table(repr(self)[1:-1])._repr_html_()


def load(
    path: str | os.PathLike[str], *, custom_objects: Sequence[Any] = ()
) -> FairSubspace | GroupMoments:
    """Read a saved model or saved moments, whichever the file holds.

    Parameters
    ----------
    path : path
    parts : sequence of criterion and restriction objects
        As for :meth:`FairSubspace.load`.

    Returns
    -------
    FairSubspace or GroupMoments

    Raises
    ------
    FileNotFoundError
        There is no such file.
    CorruptFile
        The file is truncated, altered or of another kind.

    Examples
    --------
    >>> import fairspan as fs
    >>> fs.load("fair.model").transform(rows)  # doctest: +SKIP
    """
    if peek_kind(path) == MOMENTS_SCHEMA.kind:
        return GroupMoments.load(path)
    return FairSubspace.load(path, custom_objects=custom_objects)


@dataclass(frozen=True, eq=False)
class AdaptedModel:
    """A model as it is, with what it says of the rows that it was fitted on.

    Attributes
    ----------
    does : FairSubspace or ReconstructionModel
        A projection, or a map whose effect only rows show.
    moments : object
        Those that a FairPCA holds, as they are; None of anything else.
    n_fitted : int or None
    is_pca : bool
        Whether it shows orthonormal components and a mean, as every kind of PCA does.
    part : ReconstructionModel or None
        Of a model that was read by its methods.
    """

    mapping: FairSubspace | ReconstructionModel
    moments: Any = None
    n_fit_rows: int | None = None
    is_pca: bool = False
    row_model: ReconstructionModel | None = None


def adapt_model(model: Any, n_features: int | None = None) -> AdaptedModel:
    """What any accepted model does to rows: a projection, or a map whose effect only rows show.

    Parameters
    ----------
    model : as :meth:`FairSubspace.of` takes it, or a nonlinear one
    n_features : int, optional
        p, for a model that does not say it.

    Raises
    ------
    InvalidType, InvalidInput
        As :meth:`FairSubspace.of`.
    """
    if isinstance(model, FairSubspace):
        model.projector.check()
        return AdaptedModel(model)
    if isinstance(model, str | os.PathLike):
        try:
            return AdaptedModel(FairSubspace.load(model))
        except FileNotFoundError as error:
            raise InvalidType(
                f"The model is {os.fspath(model)!r}, and there is no such file",
                ALLOWED_MODELS,
                "Check the name, or pass the model itself",
            ) from error
    if isinstance(fitted := getattr(model, "subspace_", None), FairSubspace):
        return AdaptedModel(fitted, getattr(model, "moments_", None))
    if isinstance(model, np.ndarray):
        basis = np.asarray(model, dtype=np.float64)
        check_components(basis, may_be_soft=False)
        return AdaptedModel(FairSubspace(basis, None))
    row_model = reconstruction_model(model, n_features)
    step = row_model.projection_steps[0] if len(row_model.projection_steps) == 1 else None
    subspace, moments = getattr(step, "subspace_", None), getattr(step, "moments_", None)
    is_pca = False
    if not isinstance(subspace, FairSubspace):
        if (projection := detect_projection(row_model)) is None:
            return AdaptedModel(row_model, n_fit_rows=row_model.n_fit_rows, row_model=row_model)
        components, mean, decoder = projection
        components_attr, has_mean = getattr(step, "components_", None), hasattr(step, "mean_")
        if (
            decoder is None
            and isinstance(components_attr, np.ndarray)
            and components_attr.shape == components.shape
            and np.allclose(components_attr, components, atol=PROBE_TOL)
        ):
            components, is_pca = components_attr.astype(np.float64), has_mean
        center = "global" if has_mean or mean.any() else "none"  # TruncatedSVD has none
        subspace = FairSubspace(components, mean, center=center, oblique_decoder=decoder)
        moments = None
    subspace = replace(subspace, feature_names=row_model.feature_names or subspace.feature_names)
    if row_model.mean is not None:
        own = np.zeros(row_model.n_features) if subspace.mean is None else subspace.mean
        scale = 1.0 if row_model.scale is None else row_model.scale
        subspace = replace(
            subspace,
            mean=row_model.mean + scale * own,
            scale=row_model.scale if subspace.scale is None else subspace.scale * scale,
            # The origin is now where the mean was.
            center="global"
            if subspace.center == "none" and row_model.mean.any()
            else subspace.center,
        )
    return AdaptedModel(subspace, moments, row_model.n_fit_rows, is_pca, row_model)
