"""The newest key that each row may see, for rows that need one whatever else they meet."""

from typing import Any, NamedTuple

from nlattn.arrays.host import concrete_or
from nlattn.arrays.rows import take_for_heads
from nlattn.problem.partials import Partial
from nlattn.problem.problem import Problem
from nlattn.select.usable_keys import Keys, valid_keys

__all__ = ["NewestKey", "newest_key", "with_newest_key"]


class NewestKey(NamedTuple):
    """index (B, H, L), and whether there is one."""

    index: Any
    exists: Any
    problem: Problem
    keys: Keys

    def part(self) -> Partial:
        """The partial over this key alone."""
        problem, keys = self.problem, self.keys
        xp, dtype = problem.xp, problem.accumulator
        query, key, value = (
            xp.astype(x, dtype, copy=False)
            for x in (problem.query, take_for_heads(keys.key, self.index), take_for_heads(keys.value, self.index))
        )
        lse = xp.sum(problem.scale * query * key, axis=-1)
        if keys.weight is not None:
            weight = xp.astype(take_for_heads(keys.weight, self.index), dtype)
            lse = lse + xp.where(self.exists, weight, xp.zeros_like(weight))
        out = xp.where(self.exists[..., None], value, xp.zeros_like(value))
        return Partial(out, xp.where(self.exists, lse, xp.full_like(lse, -xp.inf)))


def newest_key(problem: Problem, keys: Keys, before: Any) -> NewestKey:
    """The last valid key before `before` (B, H, L); if there is none, the first valid one that the row may see."""
    xp, s = problem.xp, problem.key.shape[2]
    if keys.valid is None:
        index = xp.clip(before - 1, 0, s - 1)
        return NewestKey(index, (index < problem.stop) & (s > 0), problem, keys)
    # Valid keys first, in their order, and how many of them stand before each place.
    order = xp.argsort(xp.astype(~keys.valid, xp.int8), axis=-1, stable=True)
    number = xp.cumulative_sum(xp.astype(keys.valid, order.dtype), axis=-1, include_initial=True)
    place = xp.clip(take_for_heads(number, xp.clip(before, 0, s)) - 1, 0, None)
    index = take_for_heads(order, place)
    valid = take_for_heads(keys.valid, index)
    return NewestKey(index, valid & (index < problem.stop), problem, keys)


def with_newest_key(part: Partial, problem: Problem, newest: NewestKey | None = None) -> Partial:
    """`part`, and where a row has met no key, the newest one: by default up to its own position, else the first."""
    xp = problem.xp
    empty = part.lse == -xp.inf
    if 0 in problem.shape or not concrete_or(xp.any(empty), otherwise=True):
        return part
    if newest is None:
        newest = newest_key(problem, valid_keys(problem), xp.minimum(problem.position + 1, problem.stop))
    own = newest.part()
    return Partial(xp.where(empty[..., None], own.out, part.out), xp.where(empty, own.lse, part.lse))
