"""A search's pulls on disk, as JSON, so that a search that was stopped goes on."""

import json
import math
import os
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from fairspan.errors import CorruptFile, InvalidInput
from fairspan.selection.pulls import Pull
from fairspan.storage import replacing

_FORMAT, _VERSION = "fairspan.ucb1_search", 1
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
        try:
            document = json.loads(self.path.read_text(encoding="utf-8"))
            if (document["format"], document["version"]) != (_FORMAT, _VERSION):
                raise ValueError(f"it is {document['format']}, version {document['version']}")
            seed, found = int(document["seed"]), document["fingerprint"]
            pulls = [Pull(**fields) for fields in document["pulls"]]
            for pull in pulls:
                _check_types(pull)
        # Altered text breaks in many ways, all for one reason.
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            raise self._corrupt(f"{type(error).__name__}: {error}") from error
        check_same_search(found, fingerprint, str(self.path))
        if any(pull.arm >= n_arms for pull in pulls):
            raise self._corrupt("it names an arm that the grid does not have")
        return seed, pulls

    def write(
        self, fingerprint: str, seed: int, pulls: Sequence[Pull], *, now: bool = False
    ) -> None:
        """Replace the file, unless that was done a moment ago and `now` is not set."""
        if not now and time.monotonic() - self._written_at < _SECONDS_BETWEEN:
            return
        document = {
            "format": _FORMAT,
            "version": _VERSION,
            "fingerprint": fingerprint,
            "seed": seed,
            "pulls": [asdict(pull) for pull in pulls],
        }
        with replacing(self.path) as partial:
            partial.write_text(json.dumps(document, allow_nan=False), encoding="utf-8")
        self._written_at = time.monotonic()

    def _corrupt(self, reason: str) -> CorruptFile:
        return CorruptFile(
            f"{self.path} cannot be read as the pulls of a search ({reason})",
            "Allowed is a complete file written by UCB1SearchCV",
            "Delete it to start the search over, or name another file",
        )


def _check_types(pull: Pull) -> None:
    if type(pull.arm) is not int or pull.arm < 0:
        raise ValueError(f"arm {pull.arm!r} is no whole number from 0")
    numbers = [pull.fit_time, pull.score_time, *([] if pull.score is None else [pull.score])]
    if not all(type(each) in (float, int) and math.isfinite(each) for each in numbers):
        raise ValueError(f"a score or time of arm {pull.arm} is no finite number")


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
            "Allowed is to continue with the same rows, groups, estimator, grid, scoring, "
            "test_size and random_state; only n_pulls and refit may change",
            "Pass the same as before, or start over with another checkpoint or warm_start=False",
        )
