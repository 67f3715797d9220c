"""Recorded costs of all cases; ``python -m tests.costs.recording`` records them again.

Run it after a change that makes a case cheaper, or dearer for a good reason, and commit the file.
"""

import csv
from pathlib import Path

RECORDED = Path(__file__).with_name("recorded.csv")
_HEADER = ["case", "cost", "amount"]


def read_costs():
    """Return the recorded costs of each case."""
    costs = {}
    with RECORDED.open(newline="") as file:
        for line in csv.DictReader(file):
            costs.setdefault(line["case"], {})[line["cost"]] = float(line["amount"])
    return costs


def write_costs(costs):
    """Write the costs of each case, with three significant digits."""
    with RECORDED.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(_HEADER)
        for case, amounts in costs.items():
            for name in sorted(amounts):
                writer.writerow([case, name, f"{amounts[name]:.4g}"])


if __name__ == "__main__":
    from .cases import CASES
    from .counting import count_work

    write_costs({case: count_work(run) for case, run in CASES.items()})
