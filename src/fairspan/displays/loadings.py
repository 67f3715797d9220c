"""Loadings of the components, from an estimator."""

from typing import Any, Self

from fairspan.displays.fitted import criterion_name, moments_of_fit, plain_of_fit
from fairspan.drawing.loadings import LoadingsPicture
from fairspan.errors import Incompatible, InvalidParameter
from fairspan.problem.parameters import check_count
from fairspan.rows.groups import printable


class LoadingsDisplay(LoadingsPicture):
    """How much each feature takes part in each component; or the components as images.

    Make it with :meth:`from_estimator`.
    """

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        n_features: int = 20,
        image_shape: tuple[int, int] | None = None,
        beside_pca: bool = False,
    ) -> Self:
        """The loadings of a fitted estimator.

        Parameters
        ----------
        estimator : FairPCA
            Fitted.
        n_features : int
            How many of the features with the largest loadings are shown.
        image_shape : tuple of 2 int, optional
            Rows and columns of an image whose pixels the features are.
        beside_pca : bool
            Show the components of ordinary PCA as well; as images only.

        Returns
        -------
        LoadingsDisplay

        Raises
        ------
        InvalidType
            The estimator is not a fitted FairPCA, or a number is none.
        InvalidParameter
            No features, or an image of another number of pixels.
        Incompatible
            `beside_pca` without images.

        Examples
        --------
        >>> import numpy as np
        >>> from fairspan import FairPCA
        >>> from fairspan.displays import LoadingsDisplay
        >>> X = np.array([[3.0, 0, 0], [-3, 0, 0], [0, 2, 0], [0, -2, 0]])
        >>> fair = FairPCA(1).fit(X, sensitive_features=["a", "a", "b", "b"])
        >>> LoadingsDisplay.from_estimator(fair, n_features=2).columns()["feature"]
        ['feature 0', 'feature 1']
        """
        moments_of_fit(estimator, cls.__name__)
        check_count("n_features", n_features)
        subspace = estimator.subspace_
        shape, p = image_shape, subspace.n_features
        if shape is not None and (len(shape) != 2 or shape[0] * shape[1] != p):
            raise InvalidParameter(
                f"image_shape is {image_shape!r}",
                f"Allowed are two whole numbers whose product is the number of features, {p}",
                "Pass the rows and columns of the images that the features are the pixels of",
            )
        if beside_pca and image_shape is None:
            raise Incompatible(
                "beside_pca was asked for without image_shape",
                "Allowed is PCA beside components that are shown as images",
                "Pass image_shape, or make a second display of a FairPCA with criterion "
                "'total_error'",
            )
        names = subspace.feature_names
        if names is None:
            names = tuple(f"feature {j}" for j in range(subspace.n_features))
        return cls(
            loadings=subspace.components,
            features=tuple(map(printable, names)),
            n_features=int(n_features),
            image_shape=image_shape,
            plain=plain_of_fit(estimator).components if beside_pca else None,
            name=criterion_name(estimator),
        )
