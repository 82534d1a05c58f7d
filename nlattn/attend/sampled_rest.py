"""Exact attention within blocks of similar keys, merged with drawn keys that stand for all others."""

from nlattn.arrays.rows import take_for_heads
from nlattn.attend.intervals import interval_attention
from nlattn.kernels.block_attention import block_attention
from nlattn.problem.partials import Partial
from nlattn.problem.problem import Problem
from nlattn.select.sampled_keys import BlocksAndSamples

__all__ = ["attend_to_blocks_and_samples"]


def attend_to_blocks_and_samples(chosen: BlocksAndSamples | None, problem: Problem) -> Partial:
    """Attention of all rows over their blocks and the drawn keys; exact attention where `chosen` is None."""
    if chosen is None:
        return interval_attention(problem)
    xp, pairing = problem.xp, chosen.pairing
    s, drawn = problem.key.shape[2], chosen.keys.shape[2] - problem.key.shape[2]
    begin, end = pairing.ranges()
    sample = xp.full_like(begin, s)
    part = block_attention(
        take_for_heads(problem.query, pairing.rows),
        take_for_heads(problem.key, chosen.keys),
        take_for_heads(problem.value, chosen.keys),
        xp.concat([begin, sample], axis=-1),
        xp.concat([end, sample + drawn], axis=-1),
        scale=problem.scale,
        size=pairing.step,
        weight=chosen.weight,
        met=chosen.met,
    )
    return Partial(*(take_for_heads(array, pairing.row_places) for array in part))
