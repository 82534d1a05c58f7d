"""Lewis weights: leverage scores of the rows for the l_p norm."""

import math

from array_api_compat import array_namespace

from nlattn.arrays.arguments import check_integer, check_number, matrix
from nlattn.arrays.boundary import on_numpy
from nlattn.arrays.guards import nonzero
from nlattn.arrays.host import to_float
from nlattn.arrays.precision import real_dtype
from nlattn.arrays.typing import Array
from nlattn.linalg._leverage import leverage_scores
from nlattn.linalg._magnitudes import divided_rows, row_norms
from nlattn.linalg._warnings import warn_unconverged

__all__ = ["lewis_weights"]


@on_numpy
def lewis_weights(a: Array, p: float, *, rtol: float = 1e-6, iterations: int = 200, check_finite: bool = True) -> Array:
    """The l_p Lewis weights of the rows of a matrix, ``w_i = leverage_i(diag(w)^(1/2 - 1/p) a)``.

    Parameters
    ----------
    a : array, shape (n, d)
        Real or complex.
    p : float
        At least 1e-3, and finite; for 2 they are the leverage scores.
    rtol : float, default 1e-6
        The fixed point holds to this relative accuracy.
    iterations : int, default 200
        At most.
    check_finite : bool, default True

    Returns
    -------
    weights : array, shape (n,)
        Between 0 and 1, with the rank of `a` for sum; 0 for zero rows.

    Warns
    -----
    ConvergenceWarning
        If the iterations do not suffice.

    Notes
    -----
    For p < 2 the iteration of arXiv 1412.0588, whose logarithm contracts by 1 - p/2; from there on the fixed-point
    iteration of the definition, which contracts by 1 - 2/p near the weights. A small p so takes more iterations than
    the default, about ``-2 log(rtol) / p``. Costs 2 n d^2 an iteration.

    Examples
    --------
    >>> import numpy as np, nlattn
    >>> nlattn.linalg.lewis_weights(np.array([[1.0], [1.0], [2.0]]), 1.0).round(4)
    array([0.25, 0.25, 0.5 ])
    """
    a = matrix("a", a, allow_complex=True, check_finite=check_finite)
    if p == math.inf:
        raise ValueError("p must be finite, got inf; take a large one, e.g. 100")
    p = check_number("p", p, least=1e-3)
    rtol = check_number("rtol", rtol, above=0.0, below=1.0)
    iterations = check_integer("iterations", iterations)
    xp = array_namespace(a)
    dtype = real_dtype(xp, a.dtype)
    tolerance = max(rtol, 100 * float(xp.finfo(a.dtype).eps))
    # Rows of length 1 and the logarithms of what multiplies them: w^(-1/p) may be out of range, w^(-1/p) |a_i| is not.
    lengths = row_norms(a)
    used = lengths > 0
    lengths = nonzero(lengths)
    unit, logs = divided_rows(a, lengths), xp.log(lengths)
    weights = _first_weights(a, p, logs, used)
    used = weights > 0 if p >= 2 else used
    change = 0.0
    for _ in range(iterations):
        base = xp.where(used, weights, xp.ones_like(weights))
        scores = _scores(unit, logs + (0.5 - 1 / p) * xp.log(base), used)
        # For large p the rows whose scores underflow count for nothing.
        used = used & (scores >= float(xp.finfo(dtype).smallest_normal))
        base = xp.where(used, base, xp.ones_like(base))
        scores = xp.where(used, scores, xp.ones_like(scores))
        change = to_float(xp.max(xp.abs(scores / base - 1))) if scores.shape[0] else 0.0
        if change <= tolerance:
            return xp.astype(weights, dtype)
        new = xp.exp(p / 2 * xp.log(scores) + (1 - p / 2) * xp.log(base)) if p < 2 else scores
        weights = xp.where(used, new, xp.zeros_like(new))
    warn_unconverged(
        f"{iterations} iterations reach an accuracy of {change:.1g} instead of {tolerance:.1g}: raise iterations"
    )
    return xp.astype(weights, dtype)


def _first_weights(a: Array, p: float, logs: Array, used: Array) -> Array:
    """Where the iteration begins, in float64: leverage scores, or for p < 2 powers of the lengths of the rows."""
    xp = array_namespace(logs)
    if p >= 2:
        return xp.astype(leverage_scores(a, check_finite=False), xp.float64)
    powers = xp.exp(p * (logs - (to_float(xp.max(logs)) if logs.shape[0] else 0.0)))
    weights = xp.where(used, powers, xp.zeros_like(powers))
    return weights * (a.shape[1] / (to_float(xp.sum(weights)) or 1.0))


def _scores(unit: Array, logs: Array, used: Array) -> Array:
    """The leverage scores, in float64, of rows of length 1 that are multiplied by exp(logs), or by 0 if not used."""
    xp = array_namespace(logs)
    logs = xp.where(used, logs, xp.full_like(logs, -math.inf))
    peak = to_float(xp.max(logs)) if logs.shape[0] else 0.0
    factors = xp.exp(logs - (peak if peak > -math.inf else 0.0))
    return xp.astype(leverage_scores(unit * xp.astype(factors, unit.dtype)[:, None], check_finite=False), xp.float64)
