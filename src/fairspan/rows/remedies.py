"""Remedies for errors of rows, in terms of the function, method or command that was called.

Rows are read on behalf of callers with different options, so the code that reads them raises errors
whose remedy names no option, with a cause. Callers that have options add them
(:func:`fairspan.errors.caller_remedies`).
"""

from fairspan.errors import Cause


def missing_remedies(
    option: str, *, allows_em: bool = True, name_group: str = ""
) -> dict[Cause, str]:
    """Return remedies for missing cells and labels.

    Parameters
    ----------
    option : str
        How the caller says what becomes of incomplete rows, with braces in place of the value.
    allows_em : bool
        Whether the value "em" is allowed, which requests the EM algorithm.
    name_group : str
        How it gives rows without a label a group of their own; empty if that is left to the user.

    Examples
    --------
    >>> missing_remedies("--on-missing {}", allows_em=False)[Cause.MISSING_CELL]
    'Leave rows with NaN out (--on-missing drop)'
    """
    drop = option.format("drop")
    use_em = ""
    if allows_em:
        use_em = f", or fit and audit what is observed ({option.format('em')})"
    own_group = "give them a group of their own such as 'unknown'" + name_group
    return {
        Cause.MISSING_CELL: f"Leave rows with NaN out ({drop}){use_em}",
        Cause.MISSING_LABEL: f"Leave these rows out ({drop}), or {own_group}",
        # Raised only where the caller chose "em".
        Cause.EMPTY_ROW: f"Leave such rows out ({option.format('em-drop-empty')})",
    }


def python_remedies(call: str = "{}") -> dict[Cause, str]:
    """Return remedies of a function with an argument `on_missing`.

    Parameters
    ----------
    call : str
        Where the argument is passed, such as "FairPCA({})"; by default to the function itself.
    """
    return missing_remedies(call.format('on_missing="{}"'))


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
