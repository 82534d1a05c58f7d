"""Guards against empty sums: what is divided by, subtracted or logged is replaced where it would give inf or NaN.

Each guard works on both sides of `where`, so that gradients are 0 there, not NaN.
"""

from array_api_compat import array_namespace

from nlattn.arrays.typing import Array

__all__ = ["exp_weights", "finite_or_zero", "log_mass", "nonzero"]


def nonzero(x: Array) -> Array:
    """x, and 1 in place of 0: a divisor."""
    xp = array_namespace(x)
    return xp.where(x == 0, xp.ones_like(x), x)


def finite_or_zero(x: Array) -> Array:
    """x, and 0 in place of -inf: the shift of a row of scores that sees nothing, or a log-weight to be added."""
    xp = array_namespace(x)
    return xp.where(x == -xp.inf, xp.zeros_like(x), x)


def exp_weights(scores: Array) -> tuple[Array, Array]:
    """exp(scores - max) along the last axis, which is not empty, all 0 for a row of -inf, and the max (..., 1) used."""
    xp = array_namespace(scores)
    shift = finite_or_zero(xp.max(scores, axis=-1, keepdims=True))
    return xp.exp(scores - shift), shift


def log_mass(shift: Array, total: Array) -> Array:
    """shift + log(total), a log-sum-exp from exponentials that were shifted; -inf where the total is 0."""
    xp = array_namespace(total)
    empty = total == 0
    return xp.where(empty, -xp.inf, finite_or_zero(shift) + xp.log(nonzero(total)))
