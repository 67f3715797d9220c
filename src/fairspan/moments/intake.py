"""What became of the rows on their way into moments."""

from dataclasses import dataclass

from fairspan.errors import InvalidInput


@dataclass(frozen=True)
class Intake:
    """Rows that moments do not hold although they were read.

    Attributes
    ----------
    n_dropped : int
        Rows left out since a feature or the group is missing in them.
    sampled_from : int or None
        Number of rows that a random sample was drawn from; None if every row is in.
    """

    n_dropped: int = 0
    sampled_from: int | None = None

    def __add__(self, other: "Intake") -> "Intake":
        if self.sampled_from is not None or other.sampled_from is not None:
            raise InvalidInput(
                "One of the parts is a random sample of its rows",
                "Allowed are parts that hold all of their rows: a sample would weigh too little",
                "Make the moments again without sampling",
            )
        return Intake(self.n_dropped + other.n_dropped)

    def __str__(self) -> str:
        parts = []
        if self.sampled_from is not None:
            parts.append(f"a random sample of {self.sampled_from:,} rows")
        if self.n_dropped:
            parts.append(f"{self.n_dropped:,} rows with missing values left out")
        return "; ".join(parts)


EVERY_ROW = Intake()
