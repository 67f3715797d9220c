"""Which fault is switched on, and which marks were reached: what the copy of the source imports."""

import os
from pathlib import Path

active = os.environ.get("FAIRSPAN_FAULT")
reached = set()


def reach(name):
    """Note that a mark was reached, and return whether it is the fault that is switched on."""
    if name not in reached:
        reached.add(name)
        log_path = os.environ.get("FAIRSPAN_FAULT_LOG")
        if log_path and os.environ["FAIRSPAN_FAULT_PROCESS"] != str(os.getpid()):
            # A process that a test started tells which marks it reaches.
            with Path(log_path).open("a") as log:
                log.write(f"{os.environ.get('PYTEST_CURRENT_TEST', '')}\t{name}\n")
    return name == active
