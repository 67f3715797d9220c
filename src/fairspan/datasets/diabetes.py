"""Real data that needs no file of its own."""

import numpy as np

from fairspan.datasets.dataset import Dataset


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
