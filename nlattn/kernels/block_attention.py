"""Softmax attention of blocks of query rows over ranges of keys."""

from typing import NamedTuple

from array_api_compat import array_namespace

from nlattn.arrays.guards import finite_or_zero
from nlattn.arrays.host import concrete_or, to_float
from nlattn.arrays.precision import accumulator
from nlattn.arrays.rows import take_for_heads
from nlattn.arrays.typing import Array
from nlattn.dispatch import kernel
from nlattn.kernels._softmax import absorb, finish, join_rows, resume, see_nothing

__all__ = ["block_attention"]

# Numbers gathered or scored at a time.
NUMBERS = 1 << 22


@kernel
def block_attention(
    query: Array,
    key: Array,
    value: Array,
    begin: Array,
    end: Array,
    *,
    scale: float,
    size: int,
    start: Array | None = None,
    stop: Array | None = None,
    position: Array | None = None,
    weight: Array | None = None,
    met: tuple[Array, Array] | None = None,
    initial: tuple[Array, Array] | None = None,
) -> tuple[Array, Array]:
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
    s, ev = key.shape[2], value.shape[3]
    blocks, ranges = begin.shape[2:]
    if initial is None:
        seen = see_nothing(query, ev, dtype)
    else:
        out, lse = (xp.astype(x, dtype, copy=False) for x in initial)
        seen = xp.where(lse[..., None] == -xp.inf, xp.zeros_like(out), out), lse
    begin, end = xp.astype(begin, xp.int64, copy=False), xp.astype(end, xp.int64, copy=False)
    widest = int(to_float(xp.max(end - begin))) if 0 not in (b, length, s, ranges) else 0
    if widest <= 0:
        return seen
    keys = _Keys(key, value, position, weight, None if met is None else met[1])
    size = max(1, min(size, length))
    step = max(1, NUMBERS // (b * h * max(size * widest, widest * max(e, ev), size * max(e, ev))))
    parts = []
    for t0 in range(0, blocks, step):
        t1 = min(t0 + step, blocks)
        # Rows past the last one repeat it, and are cut off.
        numbers = xp.arange(t0 * size, t1 * size, dtype=begin.dtype, device=begin.device)
        cut = _Cut(xp.clip(numbers, None, length - 1), (b, h, t1 - t0, size))
        rows = _Rows(
            cut(xp.astype(query, dtype)) * scale,
            None if start is None else cut(start)[..., None],
            None if stop is None else cut(stop)[..., None],
            None if met is None else cut(met[0])[..., None, :],
        )
        out, lse = _blocks(rows, keys, begin[:, :, t0:t1, :], end[:, :, t0:t1, :], widest, (cut(seen[0]), cut(seen[1])))
        parts.append((xp.reshape(out, (b, h, (t1 - t0) * size, ev)), xp.reshape(lse, (b, h, (t1 - t0) * size))))
    out, lse = join_rows(parts)
    return out[:, :, :length, :], lse[:, :, :length]


class _Keys(NamedTuple):
    """Keys with what stands beside them: positions, log-weights, codes."""

    key: Array
    value: Array
    position: Array | None
    weight: Array | None
    code: Array | None


class _Rows(NamedTuple):
    """Rows by block (B, H, T, size, ...): scaled queries, limits of positions, codes."""

    query: Array
    start: Array | None
    stop: Array | None
    code: Array | None


class _Cut:
    """array (B, H, L, ...), by blocks of rows: (B, H, T, size, ...)."""

    def __init__(self, rows: Array, shape: tuple[int, ...]) -> None:
        self.rows, self.shape = rows, shape

    def __call__(self, array: Array) -> Array:
        xp = array_namespace(array)
        return xp.reshape(xp.take(array, self.rows, axis=2), (*self.shape, *array.shape[3:]))


def _blocks(
    rows: _Rows, keys: _Keys, begin: Array, end: Array, widest: int, seen: tuple[Array, Array]
) -> tuple[Array, Array]:
    """Some blocks, all of whose ranges are at most `widest` keys long, with what their rows have already seen."""
    xp = array_namespace(rows.query)
    online = resume(*seen)
    place = xp.arange(widest, dtype=begin.dtype, device=begin.device)
    for w in range(begin.shape[3]):
        index = begin[:, :, :, w, None] + place
        inside = index < end[:, :, :, w, None]
        if not concrete_or(xp.any(inside), otherwise=True):
            continue
        index = xp.where(inside, index, xp.zeros_like(index))
        key, value = (xp.astype(_gather(x, index), rows.query.dtype) for x in (keys.key, keys.value))
        scores = rows.query @ xp.matrix_transpose(key)
        visible = inside[..., None, :]
        if keys.position is not None:
            position = _gather(keys.position, index)[..., None, :]
            visible = visible & (position >= rows.start) & (position < rows.stop)
        if keys.weight is not None:
            weight = xp.astype(_gather(keys.weight, index), rows.query.dtype)[..., None, :]
            visible, scores = visible & (weight != -xp.inf), scores + finite_or_zero(weight)
        if keys.code is not None:
            code = _gather(keys.code, index)[..., None, :, :]
            visible = visible & ~xp.any(rows.code == code, axis=-1)
        online = absorb(online, xp.where(visible, scores, -xp.inf), value)
    return finish(online)


def _gather(array: Array, index: Array) -> Array:
    """array (B, G, S, ...) at index (B, H, T, m), as (B, H, T, m, ...)."""
    xp = array_namespace(array)
    b, h, blocks, m = index.shape
    found = take_for_heads(array, xp.reshape(index, (b, h, blocks * m)))
    return xp.reshape(found, (b, h, blocks, m, *array.shape[3:]))
