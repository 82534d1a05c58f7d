"""Hash codes from random projections."""

from array_api_compat import array_namespace

from nlattn.arrays.typing import Array
from nlattn.dispatch import kernel

__all__ = ["hash_codes"]


@kernel
def hash_codes(x: Array, projection: Array, factors: tuple[int, ...] | None = None) -> Array:
    """One integer for each point: the signs of its projections, or the largest of each of several groups of them.

    Parameters
    ----------
    x : array, shape (..., n, d)
        Real floating, without NaN.
    projection : array, shape (..., m, d)
        In the dtype of `x`; the leading axes broadcast. m <= 62 where `factors` is None.
    factors : tuple of int, optional
        Sizes of consecutive groups of rows of `projection`, which add up to m.

    Returns
    -------
    array, shape (..., n)
        Of dtype int64. Without `factors`, bit t is 1 where projection t is positive. With them, each group gives the
        place of its largest absolute value, plus the size f of the group where that value is negative (of equals the
        first counts); these digits, of base 2 f each, make up the code, the first group the lowest digit.
    """
    xp = array_namespace(x, projection)
    values = x @ xp.matrix_transpose(projection)
    if factors is None:
        bits = xp.asarray([1 << t for t in range(values.shape[-1])], dtype=xp.int64, device=x.device)
        return xp.sum(xp.where(values > 0, bits, xp.zeros_like(bits)), axis=-1)
    code = xp.zeros(values.shape[:-1], dtype=xp.int64, device=x.device)
    begin, base = 0, 1
    for size in factors:
        group = values[..., begin : begin + size]
        place = xp.argmax(xp.abs(group), axis=-1, keepdims=True)
        digit = place + size * xp.astype(xp.take_along_axis(group, place, axis=-1) < 0, place.dtype)
        code = code + base * xp.astype(digit[..., 0], xp.int64)
        begin, base = begin + size, base * 2 * size
    return code
