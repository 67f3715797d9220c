"""All repeats on all data sets of a plan, one resumable step each."""

from collections.abc import Sequence
from functools import partial

from fairspan.typing import FloatArray
from reproduction.experiment import Setting
from reproduction.vu.methods import Method
from reproduction.vu.plans import Plan
from reproduction.vu.protocol import GroupArray
from reproduction.vu.repeats import Outcome, Repeat, run_repeat
from reproduction.vu.threads import on_one_thread

# By data set, the outcomes of every repeat.
Outcomes = dict[str, list[dict[str, Outcome]]]


def compute_outcomes(plan: Plan, setting: Setting, *, leakage: bool) -> Outcomes:
    """Run every repeat on every data set, each as one stored step."""
    total = len(plan.data_sets) * plan.n_repeats
    outcomes: Outcomes = {}
    for i, data_set in enumerate(plan.data_sets):
        # Read only where a step is yet to be computed.
        rows = None
        repeats = outcomes.setdefault(data_set.name, [])
        for repeat in range(plan.n_repeats):
            n_done = i * plan.n_repeats + repeat
            setting.progress(f"{data_set.name}, split {repeat + 1}", n_done, total)
            key = f"{data_set.name}/{repeat}" + ("/leakage" if leakage else "")
            if rows is None and key not in setting.store:
                rows = data_set.load(setting.data)
            how = Repeat(
                seed=setting.seed + repeat,
                n_folds=data_set.n_folds,
                scale=not data_set.is_large,
                leakage=leakage,
            )

            step = partial(on_one_thread, _step, rows, plan.methods(data_set, repeat), how)
            repeats.append(setting.store.get_or_compute(key, step))
    return outcomes


def _step(
    rows: tuple[FloatArray, GroupArray] | None, methods: Sequence[Method], how: Repeat
) -> dict[str, Outcome]:
    assert rows is not None, "rows are read before a step is computed"
    return run_repeat(*rows, methods, how)
