"""Rows with a group each, and two sets that need no file of their own."""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from fairspan.errors import InvalidParameter
from fairspan.typing import AnyArray, FloatArray, IndexArray


@dataclass(frozen=True, eq=False)
class Dataset:
    """Rows with a group each.

    Attributes
    ----------
    name : str
    source : str
        Where the data come from.
    X : (n, p) array
    sensitive_features : (n,) array, or (n, a) where a attributes are crossed
    feature_names : tuple of str
    labels : (n,) array or None
        What is to be predicted from the features, where the set has such a thing.
    """

    name: str
    source: str
    X: FloatArray
    sensitive_features: npt.NDArray[np.str_]
    feature_names: tuple[str, ...]
    labels: AnyArray | None = None

    def without(self, *features: str) -> "Dataset":
        """The same rows without some features.

        Raises
        ------
        ValueError
            There is no such feature.
        """
        left_out = [self.feature_names.index(name) for name in features]
        kept = tuple(name for name in self.feature_names if name not in features)
        return replace(self, X=np.delete(self.X, left_out, axis=1), feature_names=kept)

    def balanced(self, n_per_group: int, seed: int | tuple[int, ...]) -> "Dataset":
        """A sample of as many rows of each group, without replacement.

        Raises
        ------
        InvalidParameter
            More rows than a group has, or none.
        """
        rows = balanced_rows(self.sensitive_features, n_per_group, seed)
        return replace(
            self,
            X=self.X[rows],
            sensitive_features=self.sensitive_features[rows],
            labels=None if self.labels is None else self.labels[rows],
        )


def balanced_rows(groups: AnyArray, n_per_group: int, seed: int | tuple[int, ...]) -> IndexArray:
    """Draw as many rows of each group, without replacement; in the order of the rows.

    Raises
    ------
    InvalidParameter
        More rows than a group has, or none.
    """
    generator = np.random.default_rng(seed)
    drawn = []
    for label in np.unique(groups):
        rows = np.flatnonzero(groups == label)
        if not 1 <= n_per_group <= len(rows):
            raise InvalidParameter(
                f"{n_per_group} rows of each group are asked for",
                f"Allowed is 1 to {len(rows)}, the number of rows of {label}",
                "Choose a number in that range",
            )
        drawn.append(generator.choice(rows, n_per_group, replace=False))
    return np.sort(np.concatenate(drawn))


def diabetes_by_sex() -> Dataset:
    """Diabetes patients (Efron et al. 2004) as scikit-learn ships them, grouped by sex.

    442 patients, 9 features: age, body mass index, blood pressure and six blood serum measurements
    in their original units. The source codes sex as 1 and 2 without saying which is which.

    Examples
    --------
    >>> diabetes_by_sex().X.shape
    (442, 9)
    """
    from sklearn.datasets import load_diabetes

    data = load_diabetes(scaled=False)
    names = list(data.feature_names)
    column = names.index("sex")
    return Dataset(
        name="diabetes",
        source="Efron et al. (2004), as shipped with scikit-learn",
        X=np.delete(data.data, column, axis=1),
        sensitive_features=np.array([f"sex {code:.0f}" for code in data.data[:, column]]),
        feature_names=(*names[:column], *names[column + 1 :]),
    )


def tumours_by_diagnosis() -> Dataset:
    """Breast tumours (Street et al. 1993) as scikit-learn ships them, grouped by diagnosis.

    569 patients, 30 features: mean, standard error and largest values of ten measurements of the
    cell nuclei in a digitised image, such as radius, texture and smoothness. 357 tumours are
    benign, 212 are malignant.

    Examples
    --------
    >>> tumours_by_diagnosis().X.shape
    (569, 30)
    """
    from sklearn.datasets import load_breast_cancer

    data = load_breast_cancer()
    return Dataset(
        name="breast tumours",
        source="Street et al. (1993), as shipped with scikit-learn",
        X=data.data,
        sensitive_features=np.asarray(data.target_names[data.target], dtype=np.str_),
        feature_names=tuple(map(str, data.feature_names)),
    )
