"""What each kind of file may hold: one table for each. What is not in a table is not allowed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fairspan.errors import CorruptFile
from fairspan.storage.rules import (
    Fields,
    Fixed,
    Labels,
    Listed,
    Mapped,
    Maybe,
    NotAllowed,
    Numbers,
    Real,
    Sizes,
    Text,
    Whole,
)

# Whole numbers up to here are exact in double precision: no table has more rows.
MOST_ROWS = 2**53


@dataclass(frozen=True)
class Schema:
    """What files of one kind hold.

    Attributes
    ----------
    kind : str
    what : str
        In words, for messages.
    header : Fields
    arrays : mapping of str to Numbers
    may_lack : frozenset of str
        Arrays that may be absent.
    chosen_by : str
        The entry of the header that says which other arrays there are.
    of_choice : mapping of str to mapping of str to Numbers
        Those arrays, all of which must be there.
    remedy : str
        What to do about a file that cannot be used, with braces for its name.
    """

    kind: str
    what: str
    header: Fields
    arrays: Mapping[str, Numbers] = field(default_factory=dict)
    may_lack: frozenset[str] = frozenset()
    chosen_by: str = ""
    of_choice: Mapping[str, Mapping[str, Numbers]] = field(default_factory=dict)
    remedy: str = "Make the file again; this one is truncated, altered or of another kind"

    def check_header(self, header: Mapping[str, Any]) -> Sizes:
        """Raise NotAllowed; return the lengths that were met."""
        sizes: Sizes = {}
        self.header.check("", dict(header), sizes)
        return sizes

    def rules(self, header: Mapping[str, Any], names: Sequence[str]) -> Mapping[str, Numbers]:
        """The rule of each array; raises NotAllowed where one is missing or unknown."""
        rules = {**self.arrays, **self.of_choice.get(header.get(self.chosen_by, ""), {})}
        for name in names:
            if name not in rules:
                raise NotAllowed(name, "is unknown", f"one of {', '.join(rules)}")
        for name in rules:
            if name not in names and name not in self.may_lack:
                raise NotAllowed(name, "is missing", "a complete file")
        return {name: rule for name, rule in rules.items() if name in names}

    def advice(self, name: str) -> str:
        """What to do about a file of this name that cannot be used."""
        return self.remedy.format(name=name)

    def refusal(self, name: str, error: Exception) -> CorruptFile:
        """What to raise for a file of this name, whatever was found wrong with it."""
        if isinstance(error, CorruptFile):
            return error
        remedy = self.advice(name)
        if isinstance(error, NotAllowed):
            found = f"does not hold {self.what}: its member {error.member} {error.found}"
            return CorruptFile(f"{name} {found}", f"Allowed: {error.allowed}", remedy)
        return CorruptFile(
            f"{name} cannot be read as a fairspan file ({type(error).__name__}: {error})",
            f"Allowed: a complete file written by fairspan, of kind '{self.kind}'",
            remedy,
        )


MOMENTS = Schema(
    "moments",
    "consistent moments",
    Fields(
        {
            "groups": Labels("k", in_order=True),
            "feature_names": Maybe(Listed(Text(), "p", differ=True)),
            "n_dropped": Whole(0, MOST_ROWS),
            # How many of the last attributes of a label are classes of y.
            "n_label_columns": Whole(0, 1),
        },
        may_lack=frozenset({"n_label_columns"}),
    ),
    {
        "counts": Numbers("k", "i", least=1, most=MOST_ROWS, total=MOST_ROWS),
        "weights": Numbers("k", "f", above=0),
        "means": Numbers("k p", "f"),
        "triangles": Numbers("k t", "f"),
    },
)

_CLAIM = Fields(
    {
        "objective": Real(may_be_infinite=True),
        "lower_bound": Real(may_be_infinite=True),
        "resolution": Real(0, may_be_infinite=True),
        "status": Text(),
        "weights": Listed(Real(), "g"),
        "reason": Maybe(Text()),
    }
)
# One for each of nested components.
_STEP = Fields(
    {
        "own": _CLAIM,
        "together": _CLAIM,
        "errors": Listed(Real(), "g"),
        "losses": Listed(Real(), "g"),
    }
)
_PROVENANCE = Fields(
    {
        "criterion": Text(),
        "solver": Text(),
        "status": Text(),
        "groups": Labels("g"),
        "counts": Listed(Whole(0, MOST_ROWS), "g"),
        "errors": Listed(Real(), "g"),
        "losses": Listed(Real(), "g"),
        "objective": Real(may_be_infinite=True),
        "lower_bound": Real(may_be_infinite=True),
        "total_variance": Real(0),
        "version": Text(),
        "restriction": Maybe(Text()),
        "tol": Real(0),
        "resolution": Real(0, may_be_infinite=True),
        "settings": Fields(
            {"criterion": Mapped(), "restriction": Maybe(Mapped())},
            may_lack=frozenset({"criterion", "restriction"}),
        ),
        "reason": Maybe(Text()),
        "steps": Listed(_STEP, "d"),
    },
    may_lack=frozenset({"restriction", "tol", "resolution", "settings", "reason", "steps"}),
)
# What proves a bound, by the kind of the proof; the proofs know what else has to fit.
_WEIGHTS = Numbers("*", may_be_infinite=True)
_ROWS_OF_NUMBERS = Numbers("* *", may_be_infinite=True)
_PROOFS = {
    "weights": {"evidence_weights": _WEIGHTS},
    "lines": {"evidence_weights": _WEIGHTS, "evidence_lines": _ROWS_OF_NUMBERS},
    "means": {"evidence_weights": _WEIGHTS, "evidence_multiplier": _WEIGHTS},
    "covariances": {
        "evidence_weights": _WEIGHTS,
        "evidence_multipliers": Numbers("2 * *", may_be_infinite=True),
    },
    "covariance_trace": {"evidence_weights": _WEIGHTS, "evidence_multiplier": _WEIGHTS},
}

SUBSPACE = Schema(
    "subspace",
    "a consistent subspace",
    Fields(
        {
            "feature_names": Maybe(Listed(Text(), "p", differ=True)),
            "center": Text(("global", "group", "none")),
            "provenance": Maybe(_PROVENANCE),
            "evidence": Maybe(Text(tuple(_PROOFS))),
        },
        may_lack=frozenset({"evidence"}),
    ),
    {
        "components": Numbers("d p"),
        "mean": Numbers("p"),
        "scale": Numbers("p", above=0),
        "oblique_decoder": Numbers("p d"),
        "whitening": Numbers("d", above=0),
    },
    may_lack=frozenset({"mean", "scale", "oblique_decoder", "whitening"}),
    chosen_by="evidence",
    of_choice=_PROOFS,
)

PARTS = Schema(
    "parts",
    "the manifest of a folder of moments",
    Fields(
        {
            "options": Mapped(Listed(Text())),
            # Size, time of the last change, and a hash.
            "parts": Mapped(Fixed((Whole(0), Whole(), Text()))),
        }
    ),
    remedy="Delete the folder, and make the moments again",
)
