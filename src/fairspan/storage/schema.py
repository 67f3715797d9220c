"""What each kind of file may hold, by rules: what is not in its table is not allowed.

A file may come from anybody, so everything in it is checked. Types are exact (`true` is not 1),
and every number is in its range. Names are text and differ, and labels are of one kind and differ.
Arrays have the shapes that the header and the other arrays require.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from fairspan.errors import CorruptFile
from fairspan.typing import AnyArray

_LONGEST_SHOWN = 60
_LABEL_TYPES = (str, bool, int, float)

Sizes = dict[str, int]


class NotAllowed(ValueError):
    """A member of a file that its table does not allow.

    Parameters
    ----------
    member, found, allowed : str
    """

    def __init__(self, member: str, found: str, allowed: str) -> None:
        super().__init__(member, found, allowed)
        self.member, self.found, self.allowed = member, found, allowed

    def __str__(self) -> str:
        return f"{self.member} {self.found}, where {self.allowed} is allowed"


class Rule(Protocol):
    """What a value of a JSON document has to be."""

    def check(self, member: str, value: Any, sizes: Sizes) -> None:
        """Raise NotAllowed; lengths that have a letter must agree with those met before."""


@dataclass(frozen=True)
class Text:
    """Text; of some words, if they are given."""

    words: tuple[str, ...] = ()

    def check(self, member: str, value: Any, sizes: Sizes) -> None:
        """Raise NotAllowed if it is not that."""
        allowed = f"one of {', '.join(self.words)}" if self.words else "text"
        _require(
            type(value) is str and (not self.words or value in self.words), member, value, allowed
        )


@dataclass(frozen=True)
class Whole:
    """A whole number from `least` to `most`; a truth value is none."""

    least: float = -math.inf
    most: float = math.inf

    def check(self, member: str, value: Any, sizes: Sizes) -> None:
        """Raise NotAllowed if it is not that."""
        _require(
            type(value) is int and self.least <= value <= self.most,
            member,
            value,
            f"a whole number{_range(self.least, self.most)}",
        )


@dataclass(frozen=True)
class Real:
    """A number from `least` on, never NaN, and infinite only where that is said."""

    least: float = -math.inf
    may_be_infinite: bool = False

    def check(self, member: str, value: Any, sizes: Sizes) -> None:
        """Raise NotAllowed if it is not that."""
        within = type(value) in (int, float) and self.least <= value
        finite = self.may_be_infinite or (within and math.isfinite(value))
        kind = "number" if self.may_be_infinite else "finite number"
        _require(within and finite, member, value, f"a {kind}{_range(self.least, math.inf)}")


@dataclass(frozen=True)
class Flag:
    """A truth value."""

    def check(self, member: str, value: Any, sizes: Sizes) -> None:
        """Raise NotAllowed if it is not that."""
        _require(type(value) is bool, member, value, "true or false")


@dataclass(frozen=True)
class Maybe:
    """Nothing, or what another rule allows."""

    rule: Rule

    def check(self, member: str, value: Any, sizes: Sizes) -> None:
        """Raise NotAllowed if it is not that."""
        if value is not None:
            self.rule.check(member, value, sizes)


@dataclass(frozen=True)
class Listed:
    """A list of values of one rule that may have to differ; its length may have a letter."""

    rule: Rule
    length: str = ""
    differ: bool = False

    def check(self, member: str, value: Any, sizes: Sizes) -> None:
        """Raise NotAllowed if it is not that."""
        _require(type(value) is list, member, value, "a list")
        if self.length:
            _agree(member, "entries", self.length, len(value), sizes)
        for position, each in enumerate(value):
            self.rule.check(f"{member}[{position}]", each, sizes)
        if self.differ:
            _require(len(set(value)) == len(value), member, value, "a list of different entries")


@dataclass(frozen=True)
class Fixed:
    """A list of so many values, each of its own rule."""

    rules: tuple[Rule, ...]

    def check(self, member: str, value: Any, sizes: Sizes) -> None:
        """Raise NotAllowed if it is not that."""
        _require(
            type(value) is list and len(value) == len(self.rules),
            member,
            value,
            f"a list of {len(self.rules)} entries",
        )
        for position, (rule, each) in enumerate(zip(self.rules, value, strict=True)):
            rule.check(f"{member}[{position}]", each, sizes)


@dataclass(frozen=True)
class Labels:
    """A list of different labels of one kind: text, whole or real numbers, truth values, tuples."""

    length: str
    in_order: bool = False

    def check(self, member: str, value: Any, sizes: Sizes) -> None:
        """Raise NotAllowed if it is not that."""
        _require(type(value) is list, member, value, "a list of labels")
        _agree(member, "entries", self.length, len(value), sizes)
        keys = [tuple(each) if type(each) is list else (each,) for each in value]
        for each, parts in zip(value, keys, strict=True):
            plain = all(type(part) in _LABEL_TYPES and part == part for part in parts)
            _require(
                plain and len(parts) > 0,
                member,
                each,
                "text, a number or a truth value (not NaN), or a list of these",
            )
        kinds = {(type(each), *map(type, key)) for each, key in zip(value, keys, strict=True)}
        _require(len(kinds) <= 1, member, value, "labels of one kind")
        _require(len(set(keys)) == len(keys), member, value, "labels that differ")
        _require(not self.in_order or keys == sorted(keys), member, value, "labels in order")


@dataclass(frozen=True)
class Mapped:
    """Values of one rule by name, or any plain values."""

    rule: Rule | None = None

    def check(self, member: str, value: Any, sizes: Sizes) -> None:
        """Raise NotAllowed if it is not that."""
        _require(type(value) is dict, member, value, "a mapping")
        if self.rule is not None:
            for name, each in value.items():
                self.rule.check(f"{member}.{name}", each, sizes)


@dataclass(frozen=True)
class Fields:
    """A mapping with these names, of which some may be absent, and with no other."""

    rules: Mapping[str, Rule]
    may_lack: frozenset[str] = frozenset()

    def check(self, member: str, value: Any, sizes: Sizes) -> None:
        """Raise NotAllowed if it is not that."""
        _require(type(value) is dict, member, value, "a mapping")
        dot = f"{member}." if member else ""
        for name in value:
            if name not in self.rules:
                raise NotAllowed(f"{dot}{name}", "is unknown", f"one of {', '.join(self.rules)}")
        for name, rule in self.rules.items():
            if name in value:
                rule.check(f"{dot}{name}", value[name], sizes)
            elif name not in self.may_lack:
                raise NotAllowed(f"{dot}{name}", "is missing", "a complete file")


@dataclass(frozen=True)
class Numbers:
    """An array of numbers.

    Attributes
    ----------
    axes : str
        A letter for the length of each axis, a number, or * for any; t is p (p + 1) / 2.
    kinds : str
        Of numpy's types: f real, i whole, u whole and not negative.
    least, above, most : float
        The range.
    total : float
        What the sum may be.
    may_be_infinite : bool
    """

    axes: str
    kinds: str = "fiu"
    least: float = -math.inf
    above: float = -math.inf
    most: float = math.inf
    total: float = math.inf
    may_be_infinite: bool = False

    def check_form(self, member: str, shape: tuple[int, ...], dtype: Any, sizes: Sizes) -> None:
        """Raise NotAllowed if type or shape, which stand before the numbers, do not fit."""
        plain = dtype.kind in self.kinds and dtype.itemsize <= 8 and dtype.shape == ()
        kinds = " or ".join(
            {"f": "real", "i": "whole", "u": "unsigned"}[kind] for kind in self.kinds
        )
        _require_form(plain, member, f"holds {dtype}", f"{kinds} numbers of at most 8 bytes")
        axes = self.axes.split()
        _require_form(len(shape) == len(axes), member, f"has shape {shape}", f"({', '.join(axes)})")
        for letter, length in zip(axes, shape, strict=True):
            if letter != "*":
                _agree(member, f"numbers along {letter}", letter, length, sizes)

    def check(self, member: str, array: AnyArray) -> None:
        """Raise NotAllowed if a number is not in the range."""
        if array.size == 0:
            return
        least, most = array.min(), array.max()  # NaN, if there is one
        finite = not np.isnan(least) and (
            self.may_be_infinite or bool(np.isfinite(least) and np.isfinite(most))
        )
        _require_form(finite, member, f"reaches from {least} to {most}", "finite numbers")
        within = least >= self.least and least > self.above and most <= self.most
        allowed = (
            f"numbers above {self.above:g}"
            if self.above > -math.inf
            else f"numbers{_range(self.least, self.most)}"
        )
        _require_form(bool(within), member, f"reaches from {least} to {most}", allowed)
        if self.total < math.inf:
            total = sum(array.ravel().tolist())
            _require_form(total <= self.total, member, f"adds up to {total}", f"{self.total:g}")


def _require(condition: bool, member: str, value: Any, allowed: str) -> None:
    if not condition:
        shown = repr(value)
        if len(shown) > _LONGEST_SHOWN:
            shown = f"{shown[:_LONGEST_SHOWN]}..."
        raise NotAllowed(member or "the header", f"is {shown}", allowed)


def _require_form(condition: bool, member: str, found: str, allowed: str) -> None:
    if not condition:
        raise NotAllowed(member, found, allowed)


def _agree(member: str, what: str, letter: str, length: int, sizes: Sizes) -> None:
    """Make sure that a length is what its letter stood for before, or a number."""
    expected = sizes.setdefault(letter, length)
    if letter.isdecimal():
        expected = int(letter)
    if letter == "t":
        expected = sizes["p"] * (sizes["p"] + 1) // 2
    _require_form(length == expected, member, f"has {length} {what}", f"{expected}")


def _range(least: float, most: float) -> str:
    return (f" from {least:g}" if least > -math.inf else "") + (
        f" up to {most:g}" if most < math.inf else ""
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
        "counts": Numbers("k", "i", least=0, most=MOST_ROWS, total=MOST_ROWS),
        "weights": Numbers("k", "f", above=0),
        "means": Numbers("k p", "f"),
        "triangles": Numbers("k t", "f"),
    },
)

_POINT = Fixed((Whole(0), Real(may_be_infinite=True), Real(may_be_infinite=True)))
_CLAIMS: dict[str, Rule] = {
    "n_components": Whole(1),
    "objective": Real(may_be_infinite=True),
    "lower_bound": Real(may_be_infinite=True),
    "scale": Real(0, may_be_infinite=True),
    "tolerance": Real(0, may_be_infinite=True),
    "resolution": Real(0, may_be_infinite=True),
    "violation": Real(0),
    "theorem_3_2": Maybe(Flag()),
    "total_variance": Real(0),
    "status": Text(("optimal", "estimated", "open gap", "unresolved")),
    "reason": Maybe(Text()),
    "errors": Listed(Real(), "g"),
    "solver": Text(),
    "n_eigenproblems": Whole(0),
    "eigen": Text(),
    "trace": Listed(_POINT),
}
# Of each nested component, and of the first ones together.
_STEP = Fields({**_CLAIMS, "losses": Listed(Real()), "weights": Listed(Real(), "g")})
_PART = Fields({"name": Text(), "settings": Mapped()})
_CERTIFICATE = Fields(
    {
        **_CLAIMS,
        "losses": Listed(Real(), "g"),
        "tol": Real(0),
        "center": Text(("global", "group", "none")),
        "version": Text(),
        "criterion": _PART,
        "restriction": Maybe(_PART),
        "groups": Labels("g"),
        "counts": Listed(Whole(0, MOST_ROWS), "g"),
        "steps": Listed(_STEP),
        "prefixes": Listed(_STEP),
    }
)
# What proves a bound, by the kind of the proof; the proofs know what else has to fit.
_WEIGHTS = Numbers("*", may_be_infinite=True)
_ROWS_OF_NUMBERS = Numbers("* *", may_be_infinite=True)
_PROOFS = {
    "weights": {"proof_weights": _WEIGHTS},
    "lines": {"proof_weights": _WEIGHTS, "proof_lines": _ROWS_OF_NUMBERS},
    "means": {"proof_weights": _WEIGHTS, "proof_multiplier": _WEIGHTS},
    "covariances": {
        "proof_weights": _WEIGHTS,
        "proof_multipliers": Numbers("2 * *", may_be_infinite=True),
    },
    "covariance_trace": {"proof_weights": _WEIGHTS, "proof_multiplier": _WEIGHTS},
}

SUBSPACE = Schema(
    "subspace",
    "a consistent subspace",
    Fields(
        {
            "feature_names": Maybe(Listed(Text(), "p", differ=True)),
            "center": Text(("global", "group", "none")),
            "certificate": Maybe(_CERTIFICATE),
            "proof": Maybe(Text(tuple(_PROOFS))),
        },
    ),
    {
        "components": Numbers("d p"),
        "mean": Numbers("p"),
        "scale": Numbers("p", above=0),
        "oblique_decoder": Numbers("p d"),
        "whitening": Numbers("d", above=0),
    },
    may_lack=frozenset({"mean", "scale", "oblique_decoder", "whitening"}),
    chosen_by="proof",
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
