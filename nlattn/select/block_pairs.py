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
    """Queries and keys in sorted order.

    rows (B, H, L) and keys (B, K, S), the query and the key in each place; row_places and key_places, their inverse;
    block (B, H, T), the block of `size` keys that each block of `step` rows meets; counts (B, H, 1), the valid keys,
    which take the first places.
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
        """begin and end for `block_attention`: the block met, and with `look_back` the one before it, cyclically."""
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
        """Columns of codes (B, H, L) and (B, K, S), in the original order: equal in one of them if the pair meets."""
        xp = array_namespace(self.block)
        own = take_for_heads(self.block, self.row_places // self.step)
        keys = self.key_places // self.size
        if not look_back:
            return [own], [keys]
        return [own, xp.where(own == 0, self._last(), own - 1)], [keys, keys]

    def _last(self) -> Array:
        return array_namespace(self.counts).clip((self.counts - 1) // self.size, 0, None)


def centred(problem: Problem, keys: Keys) -> tuple[Array, Array]:
    """Queries (B, H, L, E) and keys (B, G, S, E) about their own means, for hashing: a common offset hides directions.

    Moving all keys by one vector changes no softmax; queries are moved for the hash alone.
    """
    xp, dtype = problem.xp, problem.accumulator
    query, key = xp.astype(problem.query, dtype, copy=False), xp.astype(problem.key, dtype, copy=False)
    if keys.seen is not None:
        key = xp.where(keys.seen[..., None], key, xp.zeros_like(key))
    return query - xp.mean(query, axis=2, keepdims=True), key - mean_key(key, keys.seen)


def hashed_queries(codes: Callable[..., Array], query: Array, projection: Array, heads_kv: int) -> Array:
    """codes(query, projection) for queries (B, H, L, E) and projections (B, G, R, m, E), as (B, H, R, L)."""
    xp = array_namespace(query)
    b, h, length, e = query.shape
    found = codes(xp.reshape(query, (b, heads_kv, h // heads_kv, 1, length, e)), projection[:, :, None, ...])
    return xp.reshape(found, (b, h, projection.shape[2], length))


def hashed_keys(codes: Callable[..., Array], key: Array, projection: Array, heads: int) -> Array:
    """codes(key, projection) for keys (B, G, S, E), as (B, heads, R, S)."""
    return repeat_heads(codes(key[:, :, None, :, :], projection), heads)


def pair_blocks(
    query_codes: Array, key_codes: Array, keys: Keys, size: int, *, by: Literal["codes", "rank"] = "codes"
) -> Pairing:
    """Sort queries and keys by their codes (B, H, L) and (B, K, S), and pair blocks of queries with blocks of keys.

    Keys that are not valid come last. Blocks of queries have as many rows as makes their number that of the blocks of
    keys, at most `size`. By "rank", block t of T meets block floor(t Tk / T) of Tk. By "codes" (integers), it meets the
    block in which the code of its middle row begins among the keys, or as far behind it as the row is among the queries
    of this code, in proportion; where queries and keys are the same, that is its own block.
    """
    xp = array_namespace(query_codes)
    (_, h, length), s = query_codes.shape, key_codes.shape[2]
    if keys.valid is not None:
        real = xp.isdtype(key_codes.dtype, "real floating")
        last = xp.inf if real else xp.maximum(xp.max(key_codes), xp.max(query_codes)) + 1
        key_codes = xp.where(keys.valid, key_codes, last)
    same = query_codes is key_codes  # all valid, too
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
    """The first place of each wanted integer (B, H, T) in sorted codes (B, K, n), and the first place behind it."""
    xp = array_namespace(codes)
    b, k, n = codes.shape
    h = wanted.shape[1]
    above = int(xp.maximum(xp.max(codes), xp.max(wanted))) + 1
    if above > 2**62 // (b * k):
        # Codes of so many bits leave no room for the head.
        r, bounds = h // k, []
        for side in ("left", "right"):
            found = [
                xp.searchsorted(codes[i, j, :], xp.reshape(wanted[i, r * j : r * (j + 1), :], (-1,)), side=side)
                for i in range(b)
                for j in range(k)
            ]
            bounds.append(xp.astype(xp.reshape(xp.stack(found), wanted.shape), xp.int64))
        return bounds[0], bounds[1]
    # Heads one after the other, each above the one before: one sorted sequence.
    head = xp.reshape(xp.arange(b * k, dtype=xp.int64, device=codes.device), (b, k, 1))
    flat = xp.reshape(xp.astype(codes, xp.int64) + head * above, (-1,))
    own = repeat_heads(head, h)
    sought = xp.reshape(xp.astype(wanted, xp.int64) + own * above, (-1,))
    low, high = (xp.reshape(xp.searchsorted(flat, sought, side=side), wanted.shape) for side in ("left", "right"))
    return xp.astype(low, xp.int64) - own * n, xp.astype(high, xp.int64) - own * n
