"""A search's pulls on disk, as JSON, so that an interrupted search can continue."""

import os
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from fairspan.errors import InvalidInput
from fairspan.selection.pulls import Pull
from fairspan.storage import PULLS, NotAllowed, read_document, write_document

# Writing costs a few milliseconds: a search of fast fits would do little else.
_SECONDS_BETWEEN = 1.0


class Checkpoint:
    """The file that a search writes its pulls to.

    Parameters
    ----------
    path : path
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._written_at = time.monotonic()

    def read(self, fingerprint: str, n_arms: int) -> tuple[int, list[Pull]] | None:
        """Seed and pulls; None where there is no file yet.

        Raises
        ------
        InvalidInput
            The pulls are those of another search.
        CorruptFile
            Truncated, altered, of another kind or of a newer version.
        """
        if not self.path.exists():
            return None
        document = read_document(self.path, PULLS)
        pulls = [Pull(**fields) for fields in document["pulls"]]
        check_same_search(document["fingerprint"], fingerprint, str(self.path))
        if any(pull.arm >= n_arms for pull in pulls):
            unknown = NotAllowed(
                "pulls", "names an arm that the grid does not have", f"0 to {n_arms - 1}"
            )
            raise PULLS.refusal(str(self.path), unknown)
        return document["seed"], pulls

    def write(
        self, fingerprint: str, seed: int, pulls: Sequence[Pull], *, now: bool = False
    ) -> None:
        """Replace the file, unless that was done a moment ago and `now` is not set."""
        if not now and time.monotonic() - self._written_at < _SECONDS_BETWEEN:
            return
        document = {
            "fingerprint": fingerprint,
            "seed": seed,
            "pulls": [asdict(pull) for pull in pulls],
        }
        write_document(self.path, PULLS, document)
        self._written_at = time.monotonic()


def check_same_search(found: str, wanted: str, where: str) -> None:
    """Make sure that pulls belong to this search.

    Raises
    ------
    InvalidInput
        They were made with other data, another grid, estimator, scoring, test_size or seed.
    """
    if found != wanted:
        raise InvalidInput(
            f"The pulls in {where} were made with other data or settings",
            "Allowed: to continue with the same rows, groups, estimator, grid, scoring, "
            "test_size and random_state; only n_pulls and refit may change",
            "Pass the same as before, or start over with another checkpoint or warm_start=False",
        )
