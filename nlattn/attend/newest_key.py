"""The newest key that each row may see, for rows that would meet no key otherwise, or that must meet their own."""

from typing import NamedTuple, TypeVar

from nlattn.arrays.host import concrete_or
from nlattn.arrays.rows import take_for_heads
from nlattn.arrays.typing import Array
from nlattn.problem.partials import Partial, SignedPartial
from nlattn.problem.problem import Problem
from nlattn.select.usable_keys import Keys, valid_keys

__all__ = ["NewestKey", "newest_key", "with_newest_key"]

P = TypeVar("P", Partial, SignedPartial)


class NewestKey(NamedTuple):
    """A key for each row of a problem: its position (B, H, L), and whether there is one (B, H, L)."""

    position: Array
    exists: Array
    problem: Problem
    keys: Keys

    def part(self) -> Partial:
        """The partial over this key alone."""
        problem, keys = self.problem, self.keys
        xp, dtype = problem.xp, problem.accumulator
        query, key, value = (
            xp.astype(x, dtype, copy=False)
            for x in (problem.query, take_for_heads(keys.key, self.position), take_for_heads(keys.value, self.position))
        )
        lse = xp.sum(problem.scale * query * key, axis=-1)
        if keys.weight is not None:
            weight = xp.astype(take_for_heads(keys.weight, self.position), dtype)
            lse = lse + xp.where(self.exists, weight, xp.zeros_like(weight))
        out = xp.where(self.exists[..., None], value, xp.zeros_like(value))
        return Partial(out, xp.where(self.exists, lse, xp.full_like(lse, -xp.inf)))


def newest_key(problem: Problem, keys: Keys, before: Array) -> NewestKey:
    """The last valid key at a position below `before` (B, H, L), or else the first valid key that the row may see."""
    xp, s = problem.xp, problem.key.shape[2]
    if keys.valid is None:
        position = xp.clip(before - 1, 0, s - 1)
        return NewestKey(position, (position < problem.stop) & (s > 0), problem, keys)
    # The order has the valid keys first. To find a key in it, count the valid ones before each position.
    order = xp.argsort(xp.astype(xp.logical_not(keys.valid), xp.int8), axis=-1, stable=True)
    valid_before = xp.cumulative_sum(xp.astype(keys.valid, order.dtype), axis=-1, include_initial=True)
    place = xp.clip(take_for_heads(valid_before, xp.clip(before, 0, s)) - 1, 0, None)
    position = take_for_heads(order, place)
    valid = take_for_heads(keys.valid, position)
    return NewestKey(position, valid & (position < problem.stop), problem, keys)


def with_newest_key(part: P, problem: Problem, newest: NewestKey | None = None) -> P:
    """`part`, with the newest key instead in rows that have met no key.

    By default that is the last valid key up to the position of the row, or else the first one that it may see.
    """
    xp = problem.xp
    empty = part.den == 0 if isinstance(part, SignedPartial) else part.lse == -xp.inf
    if 0 in problem.shape or not concrete_or(xp.any(empty), otherwise=True):
        return part
    if newest is None:
        newest = newest_key(problem, valid_keys(problem), xp.minimum(problem.position + 1, problem.stop))
    own = newest.part().signed() if isinstance(part, SignedPartial) else newest.part()
    chosen = (xp.where(empty[..., None] if x.ndim > 3 else empty, x, y) for x, y in zip(own, part, strict=True))
    return type(part)(*chosen)
