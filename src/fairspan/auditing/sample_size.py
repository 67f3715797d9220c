"""How many rows of a group would show a loss, and the least loss that its rows can show.

A loss l is shown where the low end of the cross-fitted loss is above zero, and where that loss is
at least what the group's own best subspace loses on rows that it was found without. With n rows the
cross-fitted loss is l - B / n on average and varies by s / sqrt(n), and the best subspace loses
2 B / n. Of normal rows with second moment S, eigenvalues lambda and leading eigenvectors U,

    B = sum over i <= d < j of lambda_i lambda_j / (lambda_i - lambda_j)
    s^2 = 2 tr[((UU' - VV') S)^2]

Both are taken from the rows here, of whatever distribution: s from the spread of the rows' losses,
and B from the difference between errors on rows left out and on the rows of the fit.
"""

import math

from fairspan.auditing.student import student_quantile

# The loss is shown in so many of the audits of other rows.
_POWER = 0.8
# Beyond the formula, which holds to first order: at its n the power was .48 to .75.
_MARGIN = 1.3


def rows_to_show(loss: float, spread: float, bias: float, quantile: float) -> float:
    """The n at which a loss is shown: max{[(z s + sqrt(z^2 s^2 + 4 l B)) / 2 l]^2, 3 B / l}.

    Parameters
    ----------
    loss, spread, bias, quantile : float
        l > 0, s, B and z.

    Examples
    --------
    >>> round(rows_to_show(1.0, 2.0, 3.0, 2.0), 2)
    21.58
    """
    reach = quantile * spread
    by_spread = (reach + math.sqrt(reach**2 + 4 * loss * bias)) / (2 * loss)
    return max(by_spread**2, 3 * bias / loss)


def least_shown(n: float, spread: float, bias: float, quantile: float) -> float:
    """The least loss that n rows show: the same solved for l.

    Examples
    --------
    >>> round(least_shown(21.58, 2.0, 3.0, 2.0), 2)
    1.0
    """
    return max(quantile * spread / math.sqrt(n) + bias / n, 3 * bias / n)


def quantile_of(tests: int, level: float) -> float:
    """z: of the low end, simultaneous over so many groups, and of the power."""
    tails = (1 - level) / (2 * tests), 1 - _POWER
    return sum(student_quantile(tail, math.inf) for tail in tails)


def times_the_rows(n: float, loss: float, spread: float, bias: float, quantile: float) -> float:
    """How many times as many rows as these n show a loss, with a margin."""
    return _MARGIN * max(rows_to_show(loss, spread, bias, quantile) / n, 1.0)


def rounded_up(rows: float) -> int:
    """A number of rows with two digits.

    Examples
    --------
    >>> rounded_up(1234.5), rounded_up(7.2)
    (1300, 8)
    """
    unit = 10 ** max(len(str(int(rows))) - 2, 0)
    return math.ceil(rows / unit) * unit
