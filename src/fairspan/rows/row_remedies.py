"""Remedies for errors in rows, in terms of the function, method or command that was called.

Rows are read on behalf of callers with different options, so the code that reads them raises errors
with a cause, whose remedy names no option. Callers that have options add remedies that name them
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
        Option of the caller for incomplete rows, with braces in place of the value.
    allows_em : bool
        Whether the value "em" is allowed, which requests the EM algorithm.
    name_group : str
        Option that assigns rows without a label to a separate group; empty if there is none.

    Examples
    --------
    >>> missing_remedies("--on-missing {}", allows_em=False)[Cause.MISSING_CELL]
    'Drop rows with NaN (--on-missing drop)'
    """
    drop = option.format("drop")
    em = f", or fit and audit incomplete rows ({option.format('em')})" if allows_em else ""
    separate_group = f"assign them to a separate group such as 'unknown'{name_group}"
    return {
        Cause.MISSING_CELL: f"Drop rows with NaN ({drop}){em}",
        Cause.MISSING_LABEL: f"Drop these rows ({drop}), or {separate_group}",
        # Raised only if the caller chose "em".
        Cause.EMPTY_ROW: f"Drop such rows ({option.format('em-drop-empty')})",
    }


def python_remedies(call: str = "{}", *, allows_em: bool = True) -> dict[Cause, str]:
    """Return remedies for a function with an argument `on_missing`.

    Parameters
    ----------
    call : str
        Call that takes the argument, such as "FairPCA({})"; by default the function itself.
    allows_em : bool
        Whether the value "em" is allowed.
    """
    return missing_remedies(call.format('on_missing="{}"'), allows_em=allows_em)


MEMORY_REMEDIES = {
    Cause.TOO_LARGE: "Choose fewer features or groups; fit the rows themselves if they are sparse "
    "or fewer than 0.8 p, which needs no matrices; or raise the limit with "
    "GroupMoments.from_rows(max_memory=BYTES) and FairPCA.fit_moments"
}
"""Remedies for matrices that do not fit into memory, for a function of rows."""


def group_limit_remedies(call: str = "{}") -> dict[Cause, str]:
    """Return remedies for too many groups, for a function with an argument `max_groups`.

    Parameters
    ----------
    call : str
        Call that takes the argument, such as "FairPCA({})"; by default the function itself.
    """
    # The field {n_groups} stays: the number is filled in when an error is raised.
    limit = call.format("max_groups={n_groups}")
    return {
        Cause.MANY_GROUPS: "Pass another column as sensitive_features, bin continuous values "
        f"(pandas.cut), or raise the limit with {limit}",
        Cause.OVER_MAX_GROUPS: f"Raise the limit, {limit}, or pass another column as "
        "sensitive_features",
    }
