"""The table of a finished search, with the keys of scikit-learn's cv_results_."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.stats import rankdata

from fairspan.errors import InvalidInput, InvalidParameter, InvalidType, warn
from fairspan.selection.pulls import Tally


def results_table(candidates: Sequence[Mapping[str, Any]], tally: Tally) -> dict[str, Any]:
    """One row for each candidate; the keys are told in `UCB1SearchCV`.

    Parameters
    ----------
    candidates : sequence of mapping
        Parameter settings, in the order of the arms.
    tally : Tally
        Each arm was pulled at least once.

    Returns
    -------
    dict of str to array of length a
    """
    arms = range(len(candidates))
    table: dict[str, Any] = {}
    for kind in ("fit_time", "score_time"):
        seconds = [[getattr(pull, kind) for pull in tally.pulls if pull.arm == arm] for arm in arms]
        table[f"mean_{kind}"] = np.array([np.mean(each) for each in seconds])
        table[f"std_{kind}"] = np.array([np.std(each) for each in seconds])
    table |= _parameter_columns(candidates)
    table["params"] = list(candidates)
    scores, usable = tally.scores, tally.usable
    for split in range(scores.shape[1]):
        table[f"split{split}_test_score"] = scores[:, split]
    means = tally.mean_scores()
    table["mean_test_score"] = means
    table["std_test_score"] = np.array(
        [np.nanstd(scores[arm]) if usable[arm] else np.nan for arm in arms]
    )
    # Failed arms share the last place.
    last = np.where(usable, -means, np.inf)
    table["rank_test_score"] = rankdata(last, method="min").astype(np.int32)
    table["n_pulls"] = tally.counts.copy()
    return table


def best_index(table: Mapping[str, Any], refit: Any) -> int:
    """Row of rank 1, the first on ties; or what the callable `refit` says.

    Raises
    ------
    InvalidParameter
        It says something else than a row.
    """
    if not callable(refit):
        return int(table["rank_test_score"].argmin())
    index, n_rows = refit(table), len(table["params"])
    if not isinstance(index, int | np.integer) or not 0 <= index < n_rows:
        raise InvalidParameter(
            f"refit returned {index!r}",
            f"Allowed is the number of a setting, from 0 to {n_rows - 1}",
            "Return an index of cv_results_['params']",
        )
    return int(index)


def report_failures(candidates: Sequence[Mapping[str, Any]], tally: Tally) -> None:
    """Warn of the settings that failed.

    Raises
    ------
    InvalidInput, InvalidType
        All failed; InvalidType where the first did so with a TypeError.
    """
    if not tally.errors:
        return
    first = min(tally.errors)
    if not tally.usable.any():
        of_type = tally.errors[first].startswith(("TypeError", InvalidType.__name__))
        raise (InvalidType if of_type else InvalidInput)(
            f"All {len(candidates)} settings of the grid failed, the first with "
            f"{tally.errors[first].removesuffix('.')}",
            "Allowed is a grid with at least one setting that fits these data",
            f"Try estimator.set_params(**{candidates[first]!r}).fit on the same data",
        )
    told = "; ".join(f"{candidates[arm]!r}: {why}" for arm, why in sorted(tally.errors.items()))
    warn(
        f"{len(tally.errors)} of {len(candidates)} settings failed and were left out; errors_ "
        f"keeps the reasons. {told}"
    )


def _parameter_columns(candidates: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """A masked array for each parameter; masked where a candidate does not have it."""
    names = dict.fromkeys(name for candidate in candidates for name in candidate)
    columns = {}
    for name in names:
        values = [candidate[name] for candidate in candidates if name in candidate]
        column = np.ma.MaskedArray(np.empty(len(candidates), dtype=_plain_type(values)), mask=True)
        for row, candidate in enumerate(candidates):
            if name in candidate:
                column[row] = candidate[name]
        columns[f"param_{name}"] = column
    return columns


def _plain_type(values: Sequence[Any]) -> npt.DTypeLike:
    """Numbers and truth values as such; text, objects and sequences as objects."""
    try:
        array = np.array(values)
    except ValueError:  # sequences of different lengths
        return np.dtype(object)
    return array.dtype if array.ndim == 1 and array.dtype.kind in "biufc" else np.dtype(object)
