"""Softmax attention of blocks of query rows over ranges of keys."""

from typing import Any

from array_api_compat import array_namespace

from nlattn.arrays.host import concrete_or, to_float
from nlattn.arrays.precision import accumulator
from nlattn.dispatch import kernel

__all__ = ["block_attention"]

# Numbers gathered or scored at a time.
NUMBERS = 1 << 22


@kernel
def block_attention(
    query: Any,
    key: Any,
    value: Any,
    begin: Any,
    end: Any,
    *,
    scale: float,
    size: int,
    start: Any = None,
    stop: Any = None,
    position: Any = None,
    weight: Any = None,
    met: tuple[Any, Any] | None = None,
    initial: tuple[Any, Any] | None = None,
) -> tuple[Any, Any]:
    """Each block of consecutive query rows attends to its own few ranges of consecutive keys.

    Sorting turns index sets into ranges: callers order queries and keys such that what belongs together is contiguous.

    Parameters
    ----------
    query : array, shape (B, H, L, E)
        Block t holds the rows from t size to (t + 1) size.
    key : array, shape (B, G, S, E)
        H is a multiple of G; query head h uses key head h // (H // G).
    value : array, shape (B, G, S, Ev)
        Finite.
    begin, end : integer array, shape (B, H, T, W)
        T = ceil(L / size). Block t meets the keys begin <= j < end, 0 <= begin, end <= S, of each of its W ranges; an
        empty range is legal. A key in two ranges counts twice.
    scale : float
        The scores are scale * query @ key^T.
    size : int
    start, stop : integer array, shape (B, H, L), optional
        With `position`: of the keys that its block meets, a row sees those with start <= position < stop.
    position : integer array, shape (B, G, S), optional
        Where each key stands.
    weight : array, shape (B, G, S), optional
        Log-weights of the keys, added to their scores; -inf hides a key.
    met : pair of integer arrays, shapes (B, H, L, R) and (B, G, S, R), optional
        A row does not see the keys whose code equals its own in one of the R columns.
    initial : pair of arrays (out, lse), optional
        A partial of the same rows that is merged into the result.

    Returns
    -------
    out : array, shape (B, H, L, Ev)
        In float32, or float64 where an input is. 0 where a row sees nothing.
    lse : array, shape (B, H, L)
        Natural logarithm of the sum of the exponentials of a row's scores; -inf where it sees nothing.
    """
    xp = array_namespace(query, key, value)
    dtype = accumulator(xp, query.dtype)
    b, h, length, e = query.shape
    g, s, ev = key.shape[1], key.shape[2], value.shape[3]
    blocks, ranges = begin.shape[2:]
    size = max(1, min(size, length))
    begin, end = xp.astype(begin, xp.int64, copy=False), xp.astype(end, xp.int64, copy=False)
    if initial is not None:
        blind = initial[1] == -xp.inf
        rest = xp.astype(initial[0], dtype, copy=False)
        initial = xp.where(blind[..., None], xp.zeros_like(rest), rest), xp.astype(initial[1], dtype, copy=False)
    widest = int(to_float(xp.max(end - begin))) if 0 not in (b, length, s, ranges) else 0
    if widest <= 0:
        if initial is not None:
            return initial
        out = xp.zeros((b, h, length, ev), dtype=dtype, device=query.device)
        return out, xp.full((b, h, length), -xp.inf, dtype=dtype, device=query.device)
    at = _Gather(xp, b, h, g)
    place = xp.arange(widest, dtype=begin.dtype, device=begin.device)
    step = max(1, NUMBERS // (b * h * max(size * widest, widest * max(e, ev), size * max(e, ev))))
    outs, lses = [], []
    for t0 in range(0, blocks, step):
        t1 = min(t0 + step, blocks)
        # Rows past the last one repeat it, and are cut off.
        rows = xp.clip(xp.arange(t0 * size, t1 * size, dtype=begin.dtype, device=begin.device), None, length - 1)
        shape = (b, h, t1 - t0, size)

        def blocked(array: Any, rows: Any = rows, shape: Any = shape) -> Any:
            return xp.reshape(xp.take(array, rows, axis=2), (*shape, *array.shape[3:]))

        q = xp.astype(blocked(query), dtype) * scale
        edges = [None if x is None else blocked(x)[..., None] for x in (start, stop)]
        codes = None if met is None else blocked(met[0])[..., None, :]
        if initial is None:
            acc = xp.zeros((*shape, ev), dtype=dtype, device=query.device)
            top = xp.full((*shape, 1), -xp.inf, dtype=dtype, device=query.device)
            total = xp.zeros((*shape, 1), dtype=dtype, device=query.device)
        else:
            acc, top = blocked(initial[0]), blocked(initial[1])[..., None]
            total = xp.where(top == -xp.inf, xp.zeros_like(top), xp.ones_like(top))
        for w in range(ranges):
            index = begin[:, :, t0:t1, w, None] + place
            inside = index < end[:, :, t0:t1, w, None]
            if not concrete_or(xp.any(inside), otherwise=True):
                continue
            index = xp.where(inside, index, xp.zeros_like(index))
            scores = q @ xp.matrix_transpose(xp.astype(at(key, index), dtype))
            seen = inside[..., None, :]
            if position is not None:
                there = at(position[..., None], index)[..., None, :, 0]
                seen = seen & (there >= edges[0]) & (there < edges[1])
            if weight is not None:
                own = xp.astype(at(weight[..., None], index)[..., None, :, 0], dtype)
                seen = seen & (own != -xp.inf)
                scores = scores + xp.where(own == -xp.inf, xp.zeros_like(own), own)
            if met is not None:
                seen = seen & ~xp.any(codes == at(met[1], index)[..., None, :, :], axis=-1)
            scores = xp.where(seen, scores, -xp.inf)
            new_top = xp.maximum(top, xp.max(scores, axis=-1, keepdims=True))
            # A row that has seen nothing yet has top = -inf; inf - inf must not arise, nor in a gradient.
            safe = xp.where(new_top == -xp.inf, xp.zeros_like(new_top), new_top)
            weights, decay = xp.exp(scores - safe), xp.exp(top - safe)
            total = total * decay + xp.sum(weights, axis=-1, keepdims=True)
            acc = acc * decay + weights @ xp.astype(at(value, index), dtype)
            top = new_top
        empty = total == 0
        total = xp.where(empty, xp.ones_like(total), total)
        safe = xp.where(empty, xp.zeros_like(top), top)
        outs.append(xp.reshape(acc / total, (b, h, (t1 - t0) * size, ev)))
        lses.append(xp.reshape(xp.where(empty, -xp.inf, safe + xp.log(total)), (b, h, (t1 - t0) * size)))
    out = outs[0] if len(outs) == 1 else xp.concat(outs, axis=2)
    lse = lses[0] if len(lses) == 1 else xp.concat(lses, axis=2)
    return out[:, :, :length, :], lse[:, :, :length]


class _Gather:
    """array (B, G, S, c) at index (B, H, ...), as (B, H, ..., c)."""

    def __init__(self, xp: Any, b: int, h: int, g: int) -> None:
        self.xp, self.b, self.h, self.g = xp, b, h, g

    def __call__(self, array: Any, index: Any) -> Any:
        xp, h, g = self.xp, self.h, self.g
        s, c = array.shape[2:]
        lead = xp.arange(self.b * h, dtype=index.dtype, device=index.device)
        group = lead // h * g + lead % h // (h // g)
        flat = index + xp.reshape(group * s, (self.b, h, *(1,) * (index.ndim - 2)))
        found = xp.take(xp.reshape(array, (self.b * g * s, c)), xp.reshape(flat, (-1,)), axis=0)
        return xp.reshape(found, (*index.shape, c))
