"""Results as data frames, with pandas, which is loaded when one is made."""

from typing import Any

from fairspan.errors import imported


def data_frame(data: Any, purpose: str) -> Any:
    """A pandas DataFrame of columns, or of one dictionary for each row.

    Raises
    ------
    MissingDependency
        pandas is not installed; the message names the purpose.
    """
    return imported("pandas", "pandas", purpose).DataFrame(data)
