"""Table 2: rows, features and sensitive attribute of the data sets, and the rule for columns."""

from pathlib import Path

import numpy as np
from pyarrow import parquet

from fairspan.typing import FloatArray
from reproduction.comparison import printed_table
from reproduction.data import data_file
from reproduction.experiment import Cell, Result, Setting
from reproduction.vu.data_sets import DATA_SETS, DataSet

_SMALLEST, _LARGEST = 1e-5, 1000.0
_WHY = {
    "german_credit": "features: A5 (deviation 2823) is kept against the rule; attribute: the "
    "source's A13 is age < 40, as a comparison with the raw rows shows",
    "default_credit": "the rule was not applied: it would leave 9 of 22",
    "taiwan_credit": "the rule was not applied: it would leave 9 of 22",
    "magic": "rows: the source has 19,020, and no rule that leaves out one is known",
    "skillcraft": "rows: the source has 3,338; one is a repetition",
    "steel_plates": "features: the rule leaves 22 of 26",
    "statlog_landsat": "attribute: the third class is very damp gray",
    "lfw": "2,000 images of each gender, 49 rows by 36 columns, resized to 24 by 24",
}
_COLUMNS = (
    "data set",
    "rows",
    "printed rows",
    "features",
    "printed features",
    "features by the rule",
    "attribute",
    "printed attribute",
    "agrees",
    "why",
)


def reliable_columns(X: FloatArray) -> "np.ndarray[tuple[int], np.dtype[np.bool_]]":
    """Select the columns that the paper keeps: standard deviations between 1e-5 and 1000.

    Parameters
    ----------
    X : (n, p) array

    Returns
    -------
    (p,) array of bool

    Examples
    --------
    >>> reliable_columns(np.array([[1.0, 5.0, 0.0], [1.0, 6.0, 9e9]]))
    array([False,  True, False])
    """
    deviations = X.std(axis=0)
    return np.asarray((deviations > _SMALLEST) & (deviations < _LARGEST))


class Shapes:
    """Sizes of the data sets, compared with those in the paper."""

    name = "vu-table2"
    title = "The fifteen data sets: rows, features and sensitive attribute"
    source = "Vu, Tran, Yue and Nguyen (2022), Table 2"

    @property
    def files(self) -> tuple[str, ...]:
        """Files of all data sets."""
        return tuple(data_set.name for data_set in DATA_SETS)

    def run(self, setting: Setting) -> Result:
        """Count."""
        printed = {row["data"]: row for row in printed_table("vu_table2_data_sets")}
        rows = [self._row(data_set, setting.data, printed[data_set.name]) for data_set in DATA_SETS]
        agree = sum(bool(row[-2]) for row in rows)
        return Result(
            self.title,
            _COLUMNS,
            rows,
            (
                f"Rows and features agree for {agree} of {len(rows)} data sets.",
                "The rule drops columns with a standard deviation of at most 1e-5 or at least "
                "1000. It was not applied to the two credit data sets whose columns are amounts.",
            ),
        )

    def _row(self, data_set: DataSet, folder: Path, printed: dict[str, str]) -> tuple[Cell, ...]:
        X, _ = data_set.load(folder)
        by_rule = None if data_set.is_large else _by_rule(data_set.name, folder)
        shape = (int(printed["rows"]), int(printed["features"]))
        return (
            data_set.name,
            len(X),
            shape[0],
            X.shape[1],
            shape[1],
            by_rule,
            data_set.group,
            printed["attribute"],
            X.shape == shape,
            _WHY.get(data_set.name, ""),
        )


def _by_rule(name: str, folder: Path) -> int:
    """Return the number of numeric columns of the source that the rule keeps."""
    table = parquet.read_table(data_file(name, folder))
    columns = [c for c in table.column_names if "__" not in c or c.startswith("drop__")]
    X = np.column_stack([table[column].to_numpy().astype(np.float64) for column in columns])
    return int(reliable_columns(X).sum())


TABLE_2 = Shapes()
