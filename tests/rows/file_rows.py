"""Reading all rows of a file at once."""

import numpy as np

from fairspan import FileRows


def values_of(rows):
    return np.concatenate([block.values for block in rows.blocks()])


def labels_of(rows):
    return [label for block in rows.blocks() for label in block.labels.to_list()]


def rows_of_text(path, text, **choice):
    path.write_text(text, newline="")
    return FileRows.open(path, **choice)
