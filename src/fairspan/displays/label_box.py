"""Box of a label, to keep labels apart before they are drawn."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from fairspan.typing import BoolArray, FloatArray


@dataclass(frozen=True, eq=False)
class LabelBox:
    """Box of a label in points.

    Attributes
    ----------
    low, high : (2,) arrays
        Lower left and upper right corner.
    """

    low: FloatArray
    high: FloatArray

    @classmethod
    def about(cls, center: FloatArray, size: FloatArray) -> Self:
        """Return the box of a width and height about a point."""
        return cls(center - size / 2, center + size / 2)

    def overlaps(self, other: "LabelBox") -> bool:
        """Whether the boxes overlap."""
        return bool(((self.low < other.high) & (other.low < self.high)).all())

    def contains(self, places: FloatArray, margin: float = 0.0) -> BoolArray:
        """Whether places, (n, 2), lie within the box or closer to it than the margin."""
        is_within = (places > self.low - margin) & (places < self.high + margin)
        return np.asarray(is_within.all(axis=1))

    def distances(self, places: FloatArray) -> FloatArray:
        """Distances of places, (n, 2), from the box; zero within it."""
        outside = np.maximum(np.maximum(self.low - places, places - self.high), 0)
        return np.asarray(np.linalg.norm(outside, axis=1))

    def lies_within(self, low: FloatArray, high: FloatArray) -> bool:
        """Whether the box lies between two corners."""
        return bool(((self.low >= low) & (self.high <= high)).all())
