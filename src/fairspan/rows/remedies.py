"""Remedies for errors of rows, in terms of the function, method or command that was called.

Rows are read on behalf of callers with different options, so the code that reads them raises errors
whose remedy names no option, with a cause. Callers that have options add them
(:func:`fairspan.errors.caller_remedies`).
"""

from fairspan.errors import Cause


def missing_remedies(drop: str, em: str | None, name_group: str = "") -> dict[Cause, str]:
    """Return remedies for missing cells and labels.

    Parameters
    ----------
    drop : str
        How the caller requests that incomplete rows are left out.
    em : str or None
        How it requests the EM algorithm; None if it cannot.
    name_group : str
        How it gives rows without a label a group of their own; empty if that is left to the user.

    Examples
    --------
    >>> missing_remedies("--on-missing drop", None)[Cause.MISSING_CELL]
    'Leave rows with NaN out (--on-missing drop)'
    """
    use_em = "" if em is None else f", or fit and audit what is observed ({em})"
    own_group = "give them a group of their own such as 'unknown'" + name_group
    remedies = {
        Cause.MISSING_CELL: f"Leave rows with NaN out ({drop}){use_em}",
        Cause.MISSING_LABEL: f"Leave these rows out ({drop}), or {own_group}",
    }
    if em is not None:
        remedies[Cause.EMPTY_ROW] = f"Leave such rows out ({em_without_empty_rows(em)})"
    return remedies


def em_without_empty_rows(em: str) -> str:
    """Return how a caller also leaves out rows in which nothing is observed.

    Examples
    --------
    >>> em_without_empty_rows('FairPCA(on_missing="em")')
    'FairPCA(on_missing="em-drop-empty")'
    """
    before, _, after = em.rpartition("em")
    return f"{before}em-drop-empty{after}"


def python_remedies(call: str = "{}") -> dict[Cause, str]:
    """Return remedies of a function with an argument `on_missing`.

    Parameters
    ----------
    call : str
        Where the argument is passed, such as "FairPCA({})"; by default to the function itself.
    """
    drop, em = (call.format(f'on_missing="{value}"') for value in ("drop", "em"))
    return missing_remedies(drop, em)


def group_limit_remedies(call: str = "{}") -> dict[Cause, str]:
    """Return remedies for too many groups, of a function with an argument `max_groups`.

    Parameters
    ----------
    call : str
        Where the argument is passed, as of :func:`python_remedies`.
    """
    allow = call.format("max_groups={n_groups}")
    return {
        Cause.MANY_GROUPS: "Pass another column as sensitive_features, put numbers into bins "
        f"(pandas.cut), or allow that many groups with {allow}",
        Cause.OVER_MAX_GROUPS: f"Choose a larger number, {allow}, or pass another column as "
        "sensitive_features",
    }
