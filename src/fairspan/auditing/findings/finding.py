"""Finding of an audit: a note or warning, with the settings that it advises to change."""

from dataclasses import dataclass, fields
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
    caveat : str
        Reason to qualify a verdict; empty if there is none.
    may_be_harmless : bool
        Whether the observation may be harmless, so that "no material harm" stands with the caveat.
    settings : tuple of Setting
        Settings that the message advises to change.
    """

    code: str
    severity: Literal["info", "warning"]
    message: str
    model: str | None = None
    groups: tuple[Label, ...] = ()
    columns: tuple[str, ...] = ()
    remedy: str = ""
    caveat: str = ""
    may_be_harmless: bool = False
    settings: tuple[Setting, ...] = ()

    @property
    def qualifies_verdict(self) -> bool:
        """Whether verdicts about the same model and groups must carry the caveat."""
        return bool(self.caveat)

    def to_dict(self) -> dict[str, Any]:
        """Return the finding as values for JSON, without its settings, which the message names."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        del values["settings"]
        return {**values, "qualifies_verdict": self.qualifies_verdict}

    def __str__(self) -> str:
        return f"{self.code} {self.message}"
