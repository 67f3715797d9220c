"""Parts for fairspan, each of which can be requested by name once this package is installed."""

from fairspan.extending import register
from somebody_elses_parts.first_features import FirstFeatures
from somebody_elses_parts.group_scree import GroupScree
from somebody_elses_parts.largest_share_lost import LargestShareLost
from somebody_elses_parts.sqlite_rows import SqliteTables
from somebody_elses_parts.weight_grid import WeightGrid


def register_all() -> None:
    """What the entry point in pyproject.toml names."""
    register("criterion", LargestShareLost.name, LargestShareLost)
    register("restriction", FirstFeatures.name, FirstFeatures)
    register("solver", WeightGrid.name, WeightGrid)
    register("source", SqliteTables.name, SqliteTables)
    register("display", GroupScree.name, GroupScree.from_estimator)
