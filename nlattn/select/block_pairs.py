"""Sorted queries and sorted keys in blocks, and which block of keys each block of queries meets."""

from collections.abc import Callable
from typing import Literal, NamedTuple

from array_api_compat import array_namespace

from nlattn.arrays.rows import repeat_heads, take_for_heads
from nlattn.arrays.typing import Array
from nlattn.cluster import sort_into_blocks
from nlattn.problem.problem import Problem
from nlattn.select.usable_keys import Keys, mean_key

__all__ = ["Pairing", "centred", "code_bounds", "hashed_keys", "hashed_queries", "pair_blocks"]


class Pairing(NamedTuple):
    """Queries and keys in sorted order, cut into blocks, and the block of keys that each block of rows meets.

    Attributes
    ----------
    rows, keys : integer array, shapes (B, H, L) and (B, K, S)
        The query and the key at each place of the sorted order. Valid keys take the first places.
    row_places, key_places : integer array, shapes (B, H, L) and (B, K, S)
        The place of each query and key: the inverse of both.
    block : integer array, shape (B, H, T)
        Which block of keys each block of rows meets.
    size : int
        Keys of a block of keys.
    step : int
        Rows of a block of rows.
    counts : integer array, shape (B, H, 1)
        How many keys are valid.
    """

    rows: Array
    row_places: Array
    keys: Array
    key_places: Array
    block: Array
    size: int
    step: int
    counts: Array

    def ranges(self, *, look_back: bool = False) -> tuple[Array, Array]:
        """The begin and end that `block_attention` takes, for the block of keys that each block of rows meets.

        With `look_back` also for the block before it; before the first block stands the last one.
        """
        xp = array_namespace(self.block)
        begin = (self.block * self.size)[..., None]
        if look_back:
            last = self._last()
            before = xp.where(self.block == 0, last, self.block - 1) * self.size
            begin = xp.concat([begin, before[..., None]], axis=-1)
        end = xp.minimum(begin + self.size, self.counts[..., None])
        if look_back:
            twice = xp.broadcast_to((last > 0)[..., None], end.shape)
            own = xp.asarray([True, False], device=end.device)
            end = xp.where(own | twice, end, begin)
        return begin, xp.maximum(begin, end)

    def met(self, *, look_back: bool = False) -> tuple[list[Array], list[Array]]:
        """Codes of the queries (B, H, L) and of the keys (B, K, S) in their original order, in columns.

        A query and a key meet if their codes are equal in one of the columns.
        """
        xp = array_namespace(self.block)
        own = take_for_heads(self.block, self.row_places // self.step)
        keys = self.key_places // self.size
        if not look_back:
            return [own], [keys]
        return [own, xp.where(own == 0, self._last(), own - 1)], [keys, keys]

    def _last(self) -> Array:
        """The last block that holds valid keys."""
        return array_namespace(self.counts).clip((self.counts - 1) // self.size, 0, None)


def centred(problem: Problem, keys: Keys) -> tuple[Array, Array]:
    """Queries (B, H, L, E) and keys (B, G, S, E), each less their mean, to be hashed.

    Vectors with a large common offset all point in nearly the same direction, and would get equal codes. No softmax
    changes when all keys are moved by one vector; queries are moved for the hash alone.
    """
    xp, dtype = problem.xp, problem.accumulator
    query, key = xp.astype(problem.query, dtype, copy=False), xp.astype(problem.key, dtype, copy=False)
    if keys.seen is not None:
        key = xp.where(keys.seen[..., None], key, xp.zeros_like(key))
    return query - xp.mean(query, axis=2, keepdims=True), key - mean_key(key, keys.seen)


def hashed_queries(codes: Callable[..., Array], query: Array, projection: Array, heads_kv: int) -> Array:
    """The codes (B, H, R, L) of queries (B, H, L, E) by the projections (B, G, R, m, E) of their groups."""
    xp = array_namespace(query)
    b, h, length, e = query.shape
    found = codes(xp.reshape(query, (b, heads_kv, h // heads_kv, 1, length, e)), projection[:, :, None, ...])
    return xp.reshape(found, (b, h, projection.shape[2], length))


def hashed_keys(codes: Callable[..., Array], key: Array, projection: Array, heads: int) -> Array:
    """The codes (B, heads, R, S) of keys (B, G, S, E) by the projections (B, G, R, m, E) of their groups."""
    return repeat_heads(codes(key[:, :, None, :, :], projection), heads)


def pair_blocks(
    query_codes: Array, key_codes: Array, keys: Keys, size: int, *, by: Literal["codes", "rank"] = "codes"
) -> Pairing:
    """Sort queries and keys by their codes (B, H, L) and (B, K, S), and pair blocks of queries with blocks of keys.

    Keys that are not valid come last. There are as many blocks of queries as of keys, or more where these would have
    more than `size` rows. By "rank", block t of T meets block floor(t Tk / T) of Tk. By "codes", which are integers
    then, it meets the block of keys where the keys with the code of its middle row stand. If these fill several blocks,
    the place of the middle row among all queries of this code decides, in proportion. Where queries and keys are the
    same, each block meets itself.
    """
    xp = array_namespace(query_codes)
    (_, h, length), s = query_codes.shape, key_codes.shape[2]
    if keys.valid is not None:
        real = xp.isdtype(key_codes.dtype, "real floating")
        last = xp.inf if real else xp.maximum(xp.max(key_codes), xp.max(query_codes)) + 1
        key_codes = xp.where(keys.valid, key_codes, last)
    same = query_codes is key_codes  # not where keys are masked: their codes have just been replaced
    key_order = sort_into_blocks(key_codes, s)
    row_order = key_order if same else sort_into_blocks(query_codes, length)
    rows, order = row_order.index[:, :, 0, :], key_order.index[:, :, 0, :]
    step = min(size, max(1, -(-length * size // s)))
    blocks_of_rows = -(-length // step)
    count = repeat_heads(keys.counts, h)[..., None]
    block = xp.arange(blocks_of_rows, dtype=count.dtype, device=count.device)
    blocks = xp.clip(-(-count // size), 1, None)
    if by == "rank":
        met = block * blocks // blocks_of_rows
    elif same:
        met = xp.broadcast_to(block, (*rows.shape[:2], blocks_of_rows))
    else:
        middle = (block * step + xp.clip((block + 1) * step, None, length)) // 2
        code = xp.take(take_for_heads(query_codes, rows), middle, axis=2)
        low, high = code_bounds(take_for_heads(query_codes, rows), code)
        key_low, key_high = code_bounds(take_for_heads(key_codes, order), code)
        place = key_low + (2 * (middle - low) + 1) * (key_high - key_low) // (2 * (high - low))
        met = xp.minimum(place // size, blocks - 1)
    return Pairing(rows, row_order.inverse, order, key_order.inverse, met, size, step, count)


def code_bounds(codes: Array, wanted: Array) -> tuple[Array, Array]:
    """Where each wanted integer (B, H, T) stands in sorted codes (B, K, n): its first place, and the one behind it."""
    xp = array_namespace(codes)
    b, k, n = codes.shape
    h = wanted.shape[1]
    above = int(xp.maximum(xp.max(codes), xp.max(wanted))) + 1
    if above > 2**62 // (b * k):
        # Codes this long and the number of the head do not fit into one integer: each head is searched by itself.
        r, bounds = h // k, []
        for side in ("left", "right"):
            found = [
                xp.searchsorted(codes[i, j, :], xp.reshape(wanted[i, r * j : r * (j + 1), :], (-1,)), side=side)
                for i in range(b)
                for j in range(k)
            ]
            bounds.append(xp.astype(xp.reshape(xp.stack(found), wanted.shape), xp.int64))
        return bounds[0], bounds[1]
    # The codes of each head are raised above those of the head before: all heads are one sorted sequence.
    head = xp.reshape(xp.arange(b * k, dtype=xp.int64, device=codes.device), (b, k, 1))
    flat = xp.reshape(xp.astype(codes, xp.int64) + head * above, (-1,))
    own = repeat_heads(head, h)
    sought = xp.reshape(xp.astype(wanted, xp.int64) + own * above, (-1,))
    low, high = (xp.reshape(xp.searchsorted(flat, sought, side=side), wanted.shape) for side in ("left", "right"))
    return xp.astype(low, xp.int64) - own * n, xp.astype(high, xp.int64) - own * n
