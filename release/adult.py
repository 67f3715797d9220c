"""Make the data set that ships from the source's own file: `python -m release.adult adult.data`.

The file is that of the UCI Machine Learning Repository (https://doi.org/10.24432/C5XW20): 32,561
lines of 15 values. `fairspan.datasets.load_adult` reads what is made.
"""

import csv
import io
import sys
import zipfile
from pathlib import Path

import numpy as np

SHIPPED = Path(__file__).parents[1] / "src" / "fairspan" / "adult.npz"
NAMES = (
    *("age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation"),
    *("relationship", "race", "sex", "capital-gain", "capital-loss", "hours-per-week"),
    *("native-country", "class"),
)
NUMBERS = ("age", "education-num", "capital-gain", "capital-loss", "hours-per-week")
ATTRIBUTION = (
    "Adult, by Barry Becker and Ronny Kohavi (1996), UCI Machine Learning Repository, "
    "https://doi.org/10.24432/C5XW20, licensed under CC BY 4.0, "
    "https://creativecommons.org/licenses/by/4.0/. Changed: the 32,561 rows of the training file, "
    "without the column fnlwgt; texts are stored as positions in a list of values, and '?' as an "
    "empty text."
)
# The same rows give the same bytes.
_DAY = (2026, 11, 25, 0, 0, 0)


def arrays_of(text: str) -> dict[str, np.ndarray]:
    """Return the stored arrays, from the lines of the source."""
    lines = [row for row in csv.reader(io.StringIO(text), skipinitialspace=True) if row]
    arrays: dict[str, np.ndarray] = {"attribution": np.array(ATTRIBUTION)}
    for name, column in zip(NAMES, zip(*lines, strict=True), strict=True):
        if name in NUMBERS:
            numbers = np.array(column, dtype=np.int64)
            arrays[name] = numbers.astype(np.min_scalar_type(int(numbers.max())))
        elif name != "fnlwgt":
            values, codes = np.unique(
                ["" if value == "?" else value for value in column], False, True
            )
            arrays[name], arrays[f"{name} values"] = codes.astype(np.uint8), values
    return arrays


def write(arrays: dict[str, np.ndarray], path: Path) -> None:
    """Write an npz archive."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, array in arrays.items():
            contents = io.BytesIO()
            np.lib.format.write_array(contents, array, allow_pickle=False)
            member = zipfile.ZipInfo(f"{name}.npy", _DAY)
            archive.writestr(member, contents.getvalue(), zipfile.ZIP_DEFLATED, 9)


if __name__ == "__main__":
    write(arrays_of(Path(sys.argv[1]).read_text(encoding="utf-8")), SHIPPED)
