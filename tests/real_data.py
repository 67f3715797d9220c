"""Real data sets for tests, if present.

They lie in the folder that FAIRSPAN_DATA names, by default ../shared/data beside the repository.
Where a file is absent, the test skips with a message that is the same for all of them; with
FAIRSPAN_REQUIRE_DATA it fails instead and names the file.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

_DEFAULT = Path(__file__).parents[2] / "shared" / "data"
FOLDER = Path(os.environ.get("FAIRSPAN_DATA", _DEFAULT))

# Every two-group attribute of every Parquet file, as "file:group column".
TWO_GROUPS = (
    "adult_test:group__sex",
    "adult_test:group__private_employer",
    "adult_test:group__asian",
    "adult_test:group__divorced",
    "adult_train:group__sex",
    "adult_train:group__private_employer",
    "adult_train:group__asian",
    "adult_train:group__divorced",
    "bank_marketing:group__age65",
    "biodeg:group__ready_biodegradable",
    "compas:group__african_american",
    "compas:group__sex",
    "compas_molfat:group__race",
    "default_credit:group__education",
    "default_credit:group__sex",
    "default_credit:group__education_le1",
    "ecoli:group__cytoplasm",
    "energy:group__orientation_lt4",
    "german_credit:group__age_lt40",
    "german_credit:group__sex",
    "image_segmentation:group__class",
    "letter:group__vowel",
    "magic:group__gamma",
    "parkinsons:group__sex",
    "pima_diabetes:group__pregnant_gt1",
    "skillcraft:group__age_gt20",
    "statlog_landsat:group__soil",
    "steel_plates:group__fault_other",
    "taiwan_credit:group__sex",
    "wine_quality:group__colour",
)

# Attributes of three to six groups.
MANY_GROUP_NAMES = (
    "default_credit:group__education3",
    "default_credit:group__education_sex4",
    "default_credit:group__education_sex6",
    "adult_race5:group__race",
)


@dataclass(frozen=True)
class Rows:
    X: npt.NDArray[np.float64]
    groups: npt.NDArray[np.str_]
    feature_names: tuple[str, ...]

    def z_scored(self, ddof: int) -> npt.NDArray[np.float64]:
        deviation = self.X.std(axis=0, ddof=ddof)
        return (self.X - self.X.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0)


def data_path(name: str) -> Path:
    """Return the path of a data file, or skip (fail where the data are required)."""
    path = FOLDER / name
    if not path.exists():
        if os.environ.get("FAIRSPAN_REQUIRE_DATA"):
            pytest.fail(f"{path} does not exist")
        pytest.skip(f"needs real data, which are not in {FOLDER} (set FAIRSPAN_DATA)")
    return path


def load(name: str) -> Rows:
    """Load the rows of "file:group column"."""
    import pandas as pd

    file, column = name.split(":")
    frame = pd.read_parquet(data_path(f"{file}.parquet"))
    features = [feature for feature in frame.columns if "__" not in feature]
    return Rows(
        frame[features].to_numpy(dtype=np.float64),
        frame[column].to_numpy(dtype=str),
        tuple(features),
    )


def load_faces() -> Rows:
    """LFW, gray values between 0 and 1, grouped by the gender labels of the source."""
    with np.load(data_path("lfw.npz")) as archive:
        pixels = archive["pixels"] + archive["thirds"] / 3
        male = archive["male"]
    X = pixels.reshape(len(pixels), -1) / 255
    return Rows(X, np.where(male == 1, "male", "female"), tuple(map(str, range(X.shape[1]))))


def published_pca_errors() -> Iterator[tuple[int, dict[str, float]]]:
    """The data README's table: ordinary PCA's error of each group, about the group's own mean."""
    lines = data_path("README.md").read_text().splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("| k | Credit-21 lower"))
    names = ["k", "credit21_lower", "credit21_higher", "lower", "higher", "female", "male"]
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            return
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        figures = {n: float(c) for n, c in zip(names[1:], cells[1:], strict=True) if c}
        yield int(cells[0]), figures
