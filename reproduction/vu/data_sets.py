"""The fifteen data sets of the paper's Table 2."""

from dataclasses import dataclass
from pathlib import Path

from fairspan.typing import FloatArray
from reproduction.data import load, load_faces
from reproduction.vu.protocol import GroupArray

# Drawn of each gender, and what each image is resized to by area.
_FACES_PER_GENDER = 2000
_SHAPE = (24, 24)


@dataclass(frozen=True)
class DataSet:
    """One row of Table 2.

    Attributes
    ----------
    name : str
        Of the file and of the rows of the printed tables.
    group : str
        The sensitive attribute, as the file calls it.
    is_large : bool
        The faces: centered but not scaled, two folds, and a smaller search.
    """

    name: str
    group: str
    is_large: bool = False

    @property
    def n_folds(self) -> int:
        """Folds of the cross-validation: three; two for the faces, as in the paper."""
        return 2 if self.is_large else 3

    def load(self, folder: Path) -> tuple[FloatArray, GroupArray]:
        """Load the raw rows and their groups."""
        data = (
            load_faces(folder, n_per_gender=_FACES_PER_GENDER, shape=_SHAPE)
            if self.is_large
            else load(self.name, folder, self.group)
        )
        return data.X, data.sensitive_features


DATA_SETS = (
    DataSet("default_credit", "education"),
    DataSet("biodeg", "ready_biodegradable"),
    DataSet("ecoli", "cytoplasm"),
    DataSet("energy", "orientation_lt4"),
    DataSet("german_credit", "age_lt40"),
    DataSet("image_segmentation", "class"),
    DataSet("letter", "vowel"),
    DataSet("magic", "gamma"),
    DataSet("parkinsons", "sex"),
    DataSet("skillcraft", "age_gt20"),
    DataSet("statlog_landsat", "soil"),
    DataSet("steel_plates", "fault_other"),
    DataSet("taiwan_credit", "sex"),
    DataSet("wine_quality", "colour"),  # codespell:ignore colour
    DataSet("lfw", "gender", is_large=True),
)


def data_set_of(name: str) -> DataSet:
    """Return the data set of this name."""
    return next(data_set for data_set in DATA_SETS if data_set.name == name)
