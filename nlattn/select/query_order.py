"""Similar queries side by side: a balanced tree of cuts across principal directions."""

from array_api_compat import array_namespace

from nlattn.arrays.guards import nonzero
from nlattn.arrays.typing import Array

__all__ = ["tree_order"]

#: Steps of the power iteration for a principal direction. Any direction of much variance will do: on the shipped
#: samples 1, 2 or 8 steps made some errors smaller and others larger.
POWER_STEPS = 4


def tree_order(x: Array, size: int) -> Array:
    """An order (B, H, n) of points (B, H, n, c) in which the points at each `size` consecutive places are similar.

    All points are cut in two across their leading principal direction, then each half in the same way, and so on.
    """
    xp = array_namespace(x)
    b, h, n, c = x.shape
    x = x / _peak(x, (-2, -1))  # no square overflows
    leaves = 1
    while leaves * size < n:
        leaves *= 2
    total = leaves * size
    order = xp.broadcast_to(xp.arange(total, dtype=xp.int64, device=x.device), (b, h, total))
    pad = xp.zeros((b, h, total - n, c), dtype=x.dtype, device=x.device)
    points = xp.reshape(xp.concat([x, pad], axis=2), (b * h * total, c))
    first = total * xp.reshape(xp.arange(b * h, dtype=xp.int64, device=x.device), (b, h, 1, 1))
    groups = 1
    while groups < leaves:
        order = xp.reshape(order, (b, h, groups, total // groups))
        here = xp.take(points, xp.reshape(order + first, (-1,)), axis=0)
        here = xp.reshape(here, (*order.shape, c))
        real = order < n  # and not padding, which stays behind
        mine = xp.astype(real, x.dtype)[..., None]
        mean = xp.sum(here * mine, axis=-2, keepdims=True) / xp.clip(xp.sum(mine, axis=-2, keepdims=True), 1, None)
        here = (here - mean) * mine
        coordinate = xp.where(real, _along(here), xp.inf)
        order = xp.take_along_axis(order, xp.argsort(coordinate, axis=-1, stable=True), axis=-1)
        groups *= 2
    return xp.reshape(order, (b, h, total))[:, :, :n]


def _along(x: Array) -> Array:
    """The coordinates (..., n) of centred points (..., n, c) along a direction near their principal one."""
    xp = array_namespace(x)
    squares = xp.sum(x * x, axis=-1)
    far = xp.argmax(squares, axis=-1, keepdims=True)
    direction = xp.take_along_axis(x, far[..., None], axis=-2)
    for _ in range(POWER_STEPS):
        direction = direction / _peak(direction, -1)
        direction = xp.matrix_transpose(x @ xp.matrix_transpose(direction)) @ x
    return (x @ xp.matrix_transpose(direction / _peak(direction, -1)))[..., 0]


def _peak(x: Array, axis: int | tuple[int, int]) -> Array | float:
    """The largest absolute value along `axis`, or 1 where all are 0 or there are no entries."""
    if 0 in x.shape:
        return 1.0
    xp = array_namespace(x)
    return nonzero(xp.max(xp.abs(x), axis=axis, keepdims=True))
