"""A call of write_report as text, so that a report says how it is made again."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairspan.problem.criteria import Criterion, MinimaxLoss
from fairspan.problem.named_criteria import criterion_of
from fairspan.report.facts.origin import Origin, title_of
from fairspan.report.facts.settings import ReportSettings


@dataclass(frozen=True, eq=False)
class Call:
    """What write_report was called with; rows in memory are named, not shown.

    Attributes
    ----------
    X, sensitive_features, sample_weight : objects
        None, where moments were passed.
    asked : ReportSettings
    criteria : sequence of str or criterion objects, or None
    name, title : str or None
    max_groups : int or None
    """

    X: Any
    sensitive_features: Any
    sample_weight: Any
    asked: ReportSettings
    criteria: Sequence[Any] | None
    name: str | None
    title: str | None
    max_groups: int | None = None

    def origin(self, fingerprint: str | None) -> Origin:
        """Where the rows come from.

        Parameters
        ----------
        fingerprint : str or None
            Their SHA-256.
        """
        name = self.name
        if name is None:
            name = Path(self.X).name if _is_path(self.X) else "these rows"
        return Origin(
            name=name,
            title=title_of(name) if self.title is None else self.title,
            input_sha256=fingerprint,
            command=self.command,
            moments=self.moments,
        )

    @property
    def command(self) -> str:
        """The call, with those settings that are not the default ones."""
        rows = ["moments=moments"] if self.X is None else self._rows
        return f"fairspan.write_report({', '.join(['path', *rows, *self._settings])})"

    @property
    def moments(self) -> str:
        """The line that sets `moments`."""
        if self.X is None:
            return 'moments = GroupMoments.load("moments.npz")  # after moments.save("moments.npz")'
        return f"moments = GroupMoments.from_rows({', '.join(self._rows)})"

    @property
    def _rows(self) -> list[str]:
        path = repr(os.fspath(self.X)) if _is_path(self.X) else "X"
        beside = [_named("sensitive_features", self.sensitive_features, self.X)]
        if self.sensitive_features is None:  # rows that were opened bring their own
            beside = ["None"]
        if self.sample_weight is not None:
            beside.append(f"sample_weight={_named('sample_weight', self.sample_weight, self.X)}")
        if self.max_groups is not None:
            beside.append(f"max_groups={self.max_groups}")
        return [path, *beside]

    @property
    def _settings(self) -> list[str]:
        asked, said = self.asked, []
        if asked.n_components is not None:
            said.append(f"n_components={asked.n_components}")
        if asked.criterion != MinimaxLoss():
            said.append(f"criterion={_spelled(asked.criterion)}")
        if self.criteria is not None:
            chosen = ", ".join(_spelled(criterion_of(each)) for each in self.criteria)
            said.append(f"criteria=[{chosen}]")
        if asked.center != "global":
            said.append(f"center={asked.center!r}")
        if asked.scale:
            said.append("scale=True")
        names = (("name", self.name), ("title", self.title))
        return said + [f"{key}={text!r}" for key, text in names if text is not None]


def _spelled(criterion: Criterion) -> str:
    """A criterion by its name, or as an object where its settings are not the default ones."""
    is_usual = criterion == criterion_of(criterion.name)
    return repr(criterion.name) if is_usual else repr(criterion)


def _named(name: str, value: Any, X: Any) -> str:
    """Names of columns as they are; anything else by the name of the parameter."""
    several = isinstance(value, list | tuple) and all(isinstance(each, str) for each in value)
    is_names = isinstance(value, str) or (several and _is_path(X))
    return repr(value) if is_names else name


def _is_path(X: Any) -> bool:
    return isinstance(X, str | os.PathLike)
