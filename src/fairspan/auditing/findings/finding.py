"""Finding of an audit: a note or warning, with the settings that it advises to change."""

from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, NamedTuple

from fairspan.rows.labels import Label


class Setting(NamedTuple):
    """A setting of the caller that the advice of a finding is about.

    Messages name settings as arguments in Python; the command line puts its own options there.

    Attributes
    ----------
    name : str
        Such as "clusters" or "exclude".
    phrase : str
        Part of the message that names the setting in Python, such as "scale=True".
    value : object
        Proposed value, such as the name of a column; None if the caller has to choose it.
    """

    name: str
    phrase: str
    value: Any = None


@dataclass(frozen=True)
class NamedRow:
    """A row that a finding names, with its largest contribution to the error of its group.

    Attributes
    ----------
    group : label
    row : str or None
        Name of the row in the terms of the user, such as "row 18"; None if its number is unknown.
    column : str or None
        Feature that contributes most to the error of the row; None if it is unknown.
    value : float or None
        Value of this feature, in the units of the table.
    error_share : float
        Share of the row in the error of the group.
    """

    group: Label
    row: str | None
    column: str | None
    value: float | None
    error_share: float


@dataclass(frozen=True)
class Finding:
    """A note or warning about the data or a model.

    Attributes
    ----------
    code : str
        Stable code; its meaning never changes.
    severity : {"info", "warning"}
    message : str
        Observation and, for warnings, what to do.
    model : str or None
        Model concerned; None if the finding is about the rows.
    groups : tuple of labels
    columns : tuple of str
        Features concerned; x0, x1, ... if they have no names.
    remedy : str
        Recommended action, in terms of any caller.
    stated_remedy : str
        The remedy as the message states it, at its end; empty if the message leaves it out.
    further_remedy : str
        Sentences that follow the remedy where there is more room than in a message.
    caveat : str
        Reason to qualify a verdict; empty if there is none.
    may_be_harmless : bool
        Whether the observation may be harmless, so that "no material harm" stands with the caveat.
    assumption : str
        Assumption of intervals that the observation calls into question, as a clause; empty if
        there is none.
    settings : tuple of Setting
        Settings that the message advises to change.
    rows : tuple of NamedRow
        Rows that the message names.
    """

    code: str
    severity: Literal["info", "warning"]
    message: str
    model: str | None = None
    groups: tuple[Label, ...] = ()
    columns: tuple[str, ...] = ()
    remedy: str = ""
    stated_remedy: str = ""
    further_remedy: str = ""
    caveat: str = ""
    may_be_harmless: bool = False
    assumption: str = ""
    settings: tuple[Setting, ...] = ()
    rows: tuple[NamedRow, ...] = ()

    @property
    def qualifies_verdict(self) -> bool:
        """Whether verdicts about the same model and groups must carry the caveat."""
        return bool(self.caveat)

    @property
    def observation(self) -> str:
        """The message without the remedy, for a page that states it separately."""
        return self.message.removesuffix(self.stated_remedy).rstrip()

    @property
    def full_remedy(self) -> str:
        """The remedy with all settings that the message names, and the further remedy."""
        if not self.stated_remedy:
            return self.remedy
        return f"{self.stated_remedy} {self.further_remedy}".rstrip()

    def to_dict(self) -> dict[str, Any]:
        """Return the finding as values for JSON, without parts that its texts contain."""
        values = {part.name: getattr(self, part.name) for part in fields(self)}
        for name in ("assumption", "settings", "stated_remedy", "further_remedy"):
            del values[name]
        values["rows"] = [asdict(row) for row in self.rows]
        return {**values, "qualifies_verdict": self.qualifies_verdict}

    def __str__(self) -> str:
        return f"{self.code} {self.message}"
