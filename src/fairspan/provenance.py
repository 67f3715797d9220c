"""What is known of a fitted subspace: where it comes from, what was proven of it, and its file."""

import math
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from fairspan.errors import InvalidInput
from fairspan.formatting.results import Row, first_and_last, html_table
from fairspan.projector import Projector
from fairspan.rows.groups import Label, plain_labels, printable, spelled
from fairspan.storage import SUBSPACE, NotAllowed, read_archive, write_archive
from fairspan.typing import FloatArray

# Arrays of the evidence are saved under their names after this.
EVIDENCE = "evidence_"
# Groups that a notebook shows.
_MOST_GROUPS = 20


@dataclass(frozen=True)
class Claim:
    """What was proven of a subspace by weights of the groups.

    Attributes
    ----------
    objective, lower_bound, resolution : float
    status : str
    weights : tuple of float
        Of each group's second moment, in the mixture that proves the bound.
    reason : str or None
    """

    objective: float
    lower_bound: float
    resolution: float
    status: str
    weights: tuple[float, ...]
    reason: str | None = None


@dataclass(frozen=True)
class NestedStep:
    """One of several nested components, and the subspace of all components up to it.

    Attributes
    ----------
    own : Claim
        Of this component alone, in the complement of those before it.
    together : Claim
        Of the components up to it, among all subspaces of as many dimensions.
    errors, losses : tuple of float
        e_g and l_g of each group with the components up to it.
    """

    own: Claim
    together: Claim
    errors: tuple[float, ...]
    losses: tuple[float, ...]


@dataclass(frozen=True)
class Provenance:
    """Where a subspace comes from, and what was proven about it.

    Attributes
    ----------
    criterion, solver, status : str
    groups : tuple of labels
    counts : tuple of int
        Rows of each group that it was fitted on.
    errors, losses : tuple of float
        e_g and l_g of each group on those rows.
    objective, lower_bound, total_variance : float
    version : str
        The version of fairspan that fitted it.
    restriction : str or None
        What hides the group, with its settings, such as "MeanParity(tolerance=0.0)".
    tol : float
        The gap that is called optimal, as a share of the objective.
    resolution : float
        The largest gap that double precision cannot distinguish from zero.
    settings : dict of str to value
        Those of criterion and restriction, as plain values.
    reason : str or None
        Where double precision could not resolve the gap, what in the data leaves it so.
    steps : tuple of NestedStep
        One for each of nested components, otherwise empty.
    parts : tuple of objects
        Criterion and restriction of other packages, which a file names but does not hold.
    """

    criterion: str
    solver: str
    status: str
    groups: tuple[Label, ...]
    counts: tuple[int, ...]
    errors: tuple[float, ...]
    losses: tuple[float, ...]
    objective: float
    lower_bound: float
    total_variance: float
    version: str
    restriction: str | None = None
    tol: float = 1e-9
    resolution: float = 0.0
    settings: dict[str, Any] = field(default_factory=dict)
    reason: str | None = None
    steps: tuple[NestedStep, ...] = ()
    parts: tuple[Any, ...] = field(default=(), compare=False, repr=False)

    @property
    def minimised(self) -> str:
        """What was minimised, under which restriction, and whether components are nested."""
        hidden = "" if self.restriction is None else f" with {self.restriction}"
        return f"{'nested ' if self.steps else ''}{self.criterion}{hidden}"

    def of_first(self, n_components: int) -> "Provenance":
        """That of the first of nested components alone."""
        steps = self.steps[:n_components]
        last = steps[-1]
        return replace(
            self,
            errors=last.errors,
            losses=last.losses,
            objective=last.together.objective,
            lower_bound=last.together.lower_bound,
            resolution=last.together.resolution,
            status=last.together.status,
            reason=last.together.reason,
            steps=steps,
        )

    def table(self, caption: str) -> str:
        """What a notebook shows: the groups, and what was proven."""
        rows: list[Row] = [
            (printable(spelled(group)), f"{count:,}", f"{error:.4g}", f"{loss:.4g}")
            for group, count, error, loss in zip(
                self.groups, self.counts, self.errors, self.losses, strict=True
            )
        ]
        bound = f"{self.lower_bound:.6g}" if math.isfinite(self.lower_bound) else "none is known"
        return html_table(
            caption,
            ("group", "rows", "error", "loss"),
            [("", first_and_last(rows, _MOST_GROUPS, "groups"))],
            [
                f"{self.status}: {self.criterion} is {self.objective:.6g}, lower bound: {bound} "
                f"(by {self.solver}, fairspan {self.version})"
            ],
        )


@dataclass(frozen=True, eq=False)
class Evidence:
    """The numbers, by name, from which the lower bound can be computed again.

    Attributes
    ----------
    kind : str
        Which proof these are of; see :mod:`fairspan.certificates.proof`.
    arrays : dict of str to array
    """

    kind: str
    arrays: dict[str, FloatArray]


def read_provenance(stored: dict[str, Any] | None) -> Provenance | None:
    """The record that a subspace file holds, if it holds one."""
    if stored is None:
        return None
    return Provenance(
        **{
            **stored,
            **{name: tuple(stored[name]) for name in ("counts", "errors", "losses")},
            "groups": tuple(plain_labels(stored["groups"])),
            "steps": tuple(
                NestedStep(
                    _read_claim(step["own"]),
                    _read_claim(step["together"]),
                    tuple(step["errors"]),
                    tuple(step["losses"]),
                )
                for step in stored.get("steps", ())
            ),
        }
    )


def _read_claim(stored: dict[str, Any]) -> Claim:
    return Claim(**{**stored, "weights": tuple(stored["weights"])})


# Arrays that not every subspace has.
_OPTIONAL = ("mean", "scale", "oblique_decoder", "whitening")


def write_subspace(path: str | os.PathLike[str], fields: Mapping[str, Any]) -> None:
    """Write the fields of a subspace to exactly the name given; the file is complete or absent."""
    names, made, evidence = (fields[name] for name in ("feature_names", "provenance", "evidence"))
    provenance = None
    if made is not None:
        provenance = asdict(replace(made, parts=()))
        del provenance["parts"]  # code of other packages is passed again where a file is loaded
        if not made.steps:
            del provenance["steps"]
    header = {
        "center": fields["center"],
        "feature_names": None if names is None else list(names),
        "provenance": provenance,
        "evidence": None if evidence is None else evidence.kind,
    }
    arrays = {name: fields[name] for name in _OPTIONAL if fields[name] is not None}
    if evidence is not None:
        arrays |= {EVIDENCE + name: each for name, each in evidence.arrays.items()}
    write_archive(path, SUBSPACE.kind, header, {"components": fields["components"], **arrays})


def read_subspace(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The fields of a subspace that was written.

    Raises
    ------
    FileNotFoundError
        There is no such file.
    CorruptFile
        The file is truncated, altered or of another kind.
    """
    header, arrays = read_archive(path, SUBSPACE)
    names, kind = header["feature_names"], header.get("evidence")
    try:
        Projector(arrays["components"], arrays.get("oblique_decoder")).check()
    except InvalidInput as error:
        wrong = NotAllowed(
            "components",
            f"cannot be used ({error.args[0]})",
            error.args[1].removeprefix("Allowed: "),
        )
        raise SUBSPACE.refusal(str(path), wrong) from error
    numbers = {
        name.removeprefix(EVIDENCE): np.asarray(each, dtype=np.float64)
        for name, each in arrays.items()
        if name.startswith(EVIDENCE)
    }
    return {
        "components": arrays["components"],
        "center": header["center"],
        "feature_names": None if names is None else tuple(names),
        "provenance": read_provenance(header["provenance"]),
        "evidence": None if kind is None else Evidence(kind, numbers),
        **{name: arrays.get(name) for name in _OPTIONAL},
    }
