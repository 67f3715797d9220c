"""Real data: shipped with scikit-learn, in a data folder, or fetched from OpenML."""

from fairspan.datasets.dataset import Dataset, diabetes_by_sex, tumours_by_diagnosis
from fairspan.datasets.loading import load, load_faces
from fairspan.datasets.openml import fetch_adult, fetch_compas, fetch_default_credit

__all__ = [
    "Dataset",
    "diabetes_by_sex",
    "fetch_adult",
    "fetch_compas",
    "fetch_default_credit",
    "load",
    "load_faces",
    "tumours_by_diagnosis",
]
