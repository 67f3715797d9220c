"""Changes of ratios between two measurements of a section of the results."""

import re
from dataclasses import dataclass

# Ratios of two runs on an idle machine differ by about a tenth.
_NOTABLE_CHANGE = 0.15
# Columns that name a case; the others are measured.
_CASE_COLUMNS = ("case", "n x p, d")


@dataclass(frozen=True)
class CaseRatio:
    """Measured ratio of a case.

    Attributes
    ----------
    case : str
        Name and size.
    ratio : float
        Time over that of another package in the same run.
    """

    case: str
    ratio: float


@dataclass(frozen=True)
class Measurement:
    """Ratios of a section of the results, with the day and the machine.

    Attributes
    ----------
    day : str
        As in 2026-11-29.
    machine : str
        Processor, cores and memory.
    ratios : tuple of CaseRatio
    """

    day: str
    machine: str
    ratios: tuple[CaseRatio, ...]

    @classmethod
    def from_section(cls, body: str) -> "Measurement":
        """Read the first table of a section that has a column of ratios; other sections have none.

        Parameters
        ----------
        body : str
            As :func:`benchmarks.report.format_section` returns it.
        """
        head = body.strip().partition("\n")[0]
        day, _, description = head.partition(". ")
        # Versions of Python and packages follow.
        machine = description.partition(", Python")[0]
        return cls(day, machine, tuple(_read_ratios(body)))


def describe_changes(before: Measurement, after: Measurement) -> str:
    """Say which ratios of cases that were measured twice rose or fell by more than 15 %.

    Parameters
    ----------
    before, after : Measurement
        Cases that only one of them has are left out: a quick run has smaller ones.

    Returns
    -------
    str
        Lines of text; empty if no case was measured twice.
    """
    earlier = {ratio.case: ratio.ratio for ratio in before.ratios}
    common = [ratio for ratio in after.ratios if ratio.case in earlier]
    if not common:
        return ""
    slower: list[str] = []
    faster: list[str] = []
    for new in common:
        change = new.ratio / earlier[new.case] - 1
        line = f"{new.case}: {earlier[new.case]:.2f} -> {new.ratio:.2f} ({100 * change:+.0f} %)"
        if change > _NOTABLE_CHANGE:
            slower.append(line)
        elif change < -_NOTABLE_CHANGE:
            faster.append(line)
    lines = [f"Ratios compared with those of {before.day}, {_compare_machines(before, after)}."]
    lines += [f"- slower: {line}" for line in slower]
    lines += [f"- faster: {line}" for line in faster]
    n_alike = len(common) - len(slower) - len(faster)
    lines.append(f"- within {100 * _NOTABLE_CHANGE:.0f} %: {n_alike} of {len(common)} cases")
    return "\n".join(lines)


def _compare_machines(before: Measurement, after: Measurement) -> str:
    if before.machine == after.machine:
        return f"on the same kind of machine ({after.machine})"
    return f"on another machine ({before.machine}; this is {after.machine})"


def _read_ratios(body: str) -> list[CaseRatio]:
    """Read the cases of the first table with a column of ratios."""
    header: list[str] = []
    ratios: list[CaseRatio] = []
    for line in body.splitlines():
        if not line.startswith("|"):
            if ratios:  # the table has ended
                return ratios
            header = []
            continue
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not header:
            header = cells
            continue
        if "ratio" not in header or set(line) <= set("|- "):
            continue
        values = dict(zip(header, cells, strict=True))
        case = ", ".join(values[name] for name in _CASE_COLUMNS if name in values)
        number = re.search(r"\d+(\.\d+)?", values["ratio"])
        if case and number is not None:
            ratios.append(CaseRatio(case, float(number.group())))
    return ratios
